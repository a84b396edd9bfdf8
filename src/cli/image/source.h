/* SPDX-License-Identifier: Apache-2.0 */
/* source.h - what load and import read from, and what they tell of it */
#ifndef CLI_IMAGE_SOURCE_H
#define CLI_IMAGE_SOURCE_H

#include "cli/image/image.h"
#include "cli/image/progress.h"
#include "image/oci.h"

/* A file, a directory, or "-" for stdin unless that is a terminal; to be closed. */
int source_open(const char *path, struct warren_error *err) MUST_CHECK;

/* The images that came, in order; the context of struct oci_options. */
struct loaded {
	struct progress progress;
	struct buf text; /* the lines to print */
	bool quiet;
	size_t n;                    /* different ones */
	char id[REF_DIGEST_LEN + 1]; /* of the last */
};

void loaded_init(struct loaded *l, bool quiet);
void loaded_done(struct loaded *l);
/* For oci_load() and oci_load_layout(). */
void loaded_add(void *ctx, const char *id, const char *ref);
int loaded_progress(void *ctx, const struct oci_layer *layers, size_t n);

/* The end of a command that brought images: by a signal, by an error, or well. */
int image_end(const struct command *cmd, int r, const struct warren_error *err,
	      const struct buf *text);

#endif /* CLI_IMAGE_SOURCE_H */
