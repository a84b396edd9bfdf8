/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.h - the commands of `warren image`, and their common functions
 *
 * Each command has a file and a `struct command`; main.c has the table. The names are two
 * words ("image pull"), as people type them and as errors begin.
 */
#ifndef CLI_IMAGE_IMAGE_H
#define CLI_IMAGE_IMAGE_H

#include "cli/command.h"
#include "image/store.h"

#define OUTPUT_MAX (64U << 20)

extern const struct command image_build;
extern const struct command image_du;
extern const struct command image_import;
extern const struct command image_inspect;
extern const struct command image_load;
extern const struct command image_login;
extern const struct command image_logout;
extern const struct command image_ls;
extern const struct command image_prune;
extern const struct command image_pull;
extern const struct command image_push;
extern const struct command image_rm;
extern const struct command image_save;
extern const struct command image_tag;

/* Open the store of this user, and create it if @make. -ENOENT: there is none yet. */
int image_open_store(bool make, struct store *ret, struct warren_error *err) MUST_CHECK;

/*
 * Find an image that the command may show or change: for the service, a snapshot only by
 * a name, because its id belongs to its tenant.
 */
int image_find(const struct store *s, const char *text, struct store_image *ret,
	       struct warren_error *err) MUST_CHECK;

/*
 * If an image was not found (@r is -ENOENT) and the store has snapshots, add to @err how
 * to name one. Returns @r.
 */
int image_hint(const struct store *s, int r, struct warren_error *err);

/* Print or report @err; return the exit status. */
int image_fail(const struct command *cmd, const struct warren_error *err);

#endif /* CLI_IMAGE_IMAGE_H */
