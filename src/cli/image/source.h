/* SPDX-License-Identifier: Apache-2.0 */
/* source.h - what load and import read, and what they print about it */
#ifndef CLI_IMAGE_SOURCE_H
#define CLI_IMAGE_SOURCE_H

#include "cli/image/image.h"
#include "cli/image/progress.h"
#include "image/oci.h"

/* The images that came, in order; the context of struct oci_options. */
struct loaded {
	struct progress progress;
	struct buf text; /* the lines to print */
	bool quiet, json;
	size_t n;                    /* different ones */
	char id[REF_DIGEST_LEN + 1]; /* of the last */
};

/* For oci_load() and oci_load_layout(). */
void loaded_add(void *ctx, const char *id, const char *ref);

/* For oci_import(): the one that was made; @name: NULL, it has none. */
void loaded_made(struct loaded *l, const char *id, const struct ref *name);

/* Where images come from, and how they are taken from it. */
/* An option of a command that takes an archive: how much of it, a uint64_t at @at. */
#define OPT_MAX_SIZE(at)                                                            \
	.name = "max-size", .value = "SIZE", .example = "100g",                     \
	.help = "maximum uncompressed size (default: 64g)", .set = source_max_size, \
	.field = (at)
int source_max_size(void *field, const char *value, struct warren_error *err);

struct source {
	const char *path; /* a file, a directory, or "-" for stdin unless that is a
			     terminal */
	const char *verb; /* "load": how errors begin */
	int (*take)(const struct store *s, int fd, const struct oci_options *options,
		    struct loaded *loaded, const void *ctx, struct warren_error *err);
	const void *ctx;
	uint64_t max_size; /* 0: the default */
};

/* All of a command that brings images from @from, once it is clear what is wanted. */
int source_bring(const struct command *cmd, const struct source *from, bool quiet,
		 bool json);

/* The end of a command that brought images: by a signal, by an error, or well. */
int image_end(const struct command *cmd, int r, const struct warren_error *err,
	      const struct buf *text);

#endif /* CLI_IMAGE_SOURCE_H */
