/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer_add.h - write files into a new layer on top of an image
 *
 * A directory that the image has is created in the layer with the same attributes, as
 * overlay does it. Paths are looked up in the image and the layer together (view.h), so
 * links are followed inside the root and never out of it; the layer itself is only
 * written through descriptors of its directories, and contains no links on the way.
 *
 * If an ordinary user runs it, all files belong to that user, as in unpack.h: owners are
 * not set, and set-id bits are dropped.
 */
#ifndef IMAGE_LAYER_ADD_H
#define IMAGE_LAYER_ADD_H

#include "image/copy_list.h"

struct layer_late; /* attributes of a directory, set at the end */

struct layer_add {
	int dir;          /* the layer; borrowed */
	struct view view; /* the layer, and the image below it */
	bool own_ids;
	bool keep_ids; /* files keep the owners of the source; otherwise uid and gid */
	uid_t uid;
	gid_t gid;
	int mode; /* for all files and directories; -1: those of the source */
	struct layer_late *late;
	size_t n_late, late_cap;
	size_t made; /* files, directories and links that were created */
};

/* @image may be NULL: there is nothing below the layer. @dir is an empty directory. */
int layer_add_init(struct layer_add *a, const struct store *s,
		   const struct store_image *image, int dir,
		   struct warren_error *err) MUST_CHECK;
/* Set the attributes of directories. The layer is complete after this. */
int layer_add_finish(struct layer_add *a, struct warren_error *err) MUST_CHECK;
void layer_add_done(struct layer_add *a);

/*
 * Resolve @path, "/srv/x": *@ret has no links, and the caller frees it. Returns whether a
 * directory exists there.
 */
int layer_add_resolve(const struct layer_add *a, const char *path, char **ret,
		      struct warren_error *err) MUST_CHECK;

/* Create the directory @path and its parents, if they do not exist. */
int layer_add_dirs(struct layer_add *a, const char *path,
		   struct warren_error *err) MUST_CHECK;
/* Create the files of @list below the resolved path @dest. */
int layer_add_list(struct layer_add *a, const struct copy_list *list, const char *dest,
		   struct warren_error *err) MUST_CHECK;
/* Create a file with mode 0644, unless a->mode is given, at the resolved path @path. */
int layer_add_file(struct layer_add *a, const char *path, const char *data, size_t n,
		   struct warren_error *err) MUST_CHECK;

#endif /* IMAGE_LAYER_ADD_H */
