/* SPDX-License-Identifier: Apache-2.0 */
/* exec.h - the fields of a request to start an exec */
#ifndef API_V1_EXEC_H
#define API_V1_EXEC_H

#include "api/v1/v1.h"
#include "net/loop.h"

struct exec_wanted {
	struct exec_start start; /* points to the members below, and into the body */
	const char **argv;
	char **env_texts;
	char *input; /* first data for stdin; NULL: none */
	size_t input_size;
};

/*
 * Check that the request does not ask to keep more output than the service allows: 0, or
 * a refusal.
 */
int exec_check_output(const struct v1 *v1, const struct body *body,
		      struct api_error *err);
int exec_wanted_read(const struct config *cfg, const struct body *body,
		     struct exec_wanted *w, struct api_error *err);
void exec_wanted_done(struct exec_wanted *w);
/*
 * Read the field `env` as a list of "NAME=value". The caller frees the list and each
 * text.
 */
int exec_read_env(const struct body *body, char ***ret);

/* Write the object without its closing brace, so that more fields can follow. */
void show_exec_open(struct buf *out, struct exec *exec);

#endif /* API_V1_EXEC_H */
