/* SPDX-License-Identifier: Apache-2.0 */
/* source.h - input and output of image load and import */
#ifndef CLI_IMAGE_SOURCE_H
#define CLI_IMAGE_SOURCE_H

#include "cli/image/image.h"
#include "cli/image/progress.h"
#include "image/oci.h"

/* The images that were loaded, in order; the context of struct oci_options. */
struct loaded {
	struct progress progress;
	struct buf text; /* the lines to print */
	bool quiet, json;
	size_t n;                    /* number of different images */
	char id[REF_DIGEST_LEN + 1]; /* id of the last image */
};

/* The callback of oci_load() and oci_load_layout(): add an image. */
void loaded_add(void *ctx, const char *id, const char *ref);

/* Add the new image of oci_import(); @name may be NULL. */
void loaded_made(struct loaded *l, const char *id, const struct ref *name);

/* Option that limits the size of an archive; @at is the offset of a uint64_t. */
#define OPT_MAX_SIZE(at)                                                            \
	.name = "max-size", .value = "SIZE", .example = "100g",                     \
	.help = "maximum uncompressed size (default: 64g)", .set = source_max_size, \
	.field = (at)
int source_max_size(void *field, const char *value, struct warren_error *err);

struct source {
	const char *path; /* a file, a directory, or "-" for stdin, which must not be a
			     terminal */
	const char *verb; /* the first word of error messages, such as "load" */
	int (*take)(const struct store *s, int fd, const struct oci_options *options,
		    struct loaded *loaded, const void *ctx, struct warren_error *err);
	const void *ctx;
	uint64_t max_size; /* 0: the default */
};

/*
 * Run a command that loads images from @from, after its options are parsed; return the
 * exit status.
 */
int source_bring(const struct command *cmd, const struct source *from, bool quiet,
		 bool json);

/*
 * Finish a command that loads images, after a signal, an error or success; return the
 * exit status.
 */
int image_end(const struct command *cmd, int r, const struct warren_error *err,
	      const struct buf *text);

#endif /* CLI_IMAGE_SOURCE_H */
