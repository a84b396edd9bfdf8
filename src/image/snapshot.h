/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.h - create an image from another one and a layer on top of it
 *
 * The layer is a directory in the format of the store, which a snapshot of a sandbox or
 * one step of a build has written (warren_save_files() in warren.h). The new image has
 * the layers of its parent, so both share them.
 *
 * The parent can also be "host", "dir:PATH" or "docker:ID" (an image of a docker daemon),
 * which are not in the store: then the new image records it as its base
 * (store_image.base), and its layers are stacked on that base. Such an image can be used
 * only on this machine.
 */
#ifndef IMAGE_SNAPSHOT_H
#define IMAGE_SNAPSHOT_H

#include "image/store_write.h"

struct snapshot_options {
	const char
		*parent; /* "host", "dir:PATH", "docker:ID", or an image of the store */
	/* The "config" object of the configuration, as JSON; NULL: the parent's. */
	const char *config;
	const char
		*created_by;  /* what created the layer; NULL: no entry in the history */
	const char *snapshot; /* store_image.snapshot; NULL: an ordinary image */
};

/* A layer whose digest and size are known (build_store_finish()). */
struct snapshot_layer {
	struct store_new dir;
	char diff_id[REF_DIGEST_LEN + 1];
	uint64_t size;
};

/*
 * Create the image, name it @name (NULL: no name), and put its id into @ret_id. @layer,
 * which may be NULL, becomes part of the store, unless the store has it; the caller drops
 * it later. The caller holds the store's lock (shared).
 */
int snapshot_record(const struct store *s, struct snapshot_layer *layer,
		    const struct snapshot_options *o, const struct ref *name,
		    char ret_id[REF_DIGEST_LEN + 1], struct warren_error *err);

/* Whether @image is "host", "dir:PATH" or "docker:ID". */
bool snapshot_is_base(const char *image);

#endif /* IMAGE_SNAPSHOT_H */
