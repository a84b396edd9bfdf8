/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view.h - the files of an image as its stacked layers show them, without a mount
 *
 * A view is a list of directories, from the top down: the layers of an image, or a single
 * plain directory. A path is looked up in each of them, as overlay does: whiteouts and
 * opaque directories hide what is below them (store.h has the format). Symbolic links are
 * read here, and followed as if the view were "/", so no path leads out of it. No call
 * follows a link, and nothing is opened that is not a regular file or a directory.
 */
#ifndef IMAGE_VIEW_H
#define IMAGE_VIEW_H

#include <sys/stat.h>

#include "base/error.h"
#include "image/store.h"

struct view {
	int *dirs; /* from the top down */
	size_t n;
	bool plain; /* a directory of the host: it has no whiteouts */
};

/* Paths are relative to the root, without a slash at the start: "usr/bin"; "": the root.
 */

/*
 * The layers of @image; with @top >= 0, this directory (borrowed) is above them. If the
 * image is stacked on a base (snapshot.h), the base is below them. The directories of the
 * machine that `host` mounts, such as /usr, are not part of the view.
 */
int view_open(const struct store *s, const struct store_image *image, int top,
	      struct view *ret, struct warren_error *err) MUST_CHECK;
/* The directory @dir under @layer, a directory with whiteouts; both are borrowed. */
int view_open_under(int dir, int layer, struct view *ret) MUST_CHECK;
/* One directory, which is borrowed. */
int view_open_plain(int dir, struct view *ret) MUST_CHECK;
void view_close(struct view *v);

/*
 * Inspect the file at @path, which must have no links on its way; -ENOENT: there is none.
 * *@ret_layer (may be NULL) is the directory of the view that it is in.
 */
int view_stat(const struct view *v, const char *path, struct stat *ret,
	      size_t *ret_layer) MUST_CHECK;
/* Open a file or directory of layer @layer for reading. */
int view_open_in(const struct view *v, size_t layer, const char *path) MUST_CHECK;
/* Read a symbolic link; the caller frees *@ret. */
int view_readlink(const struct view *v, size_t layer, const char *path,
		  char **ret) MUST_CHECK;

/*
 * Follow all links on the way, and with @last the last component as well. *@ret_path is
 * the path without links, which the caller frees. 1: the file exists; 0: it does not, and
 * the missing components are as they were given. -ELOOP: there are too many links;
 * -ENOTDIR: a component is a file.
 */
int view_resolve(const struct view *v, const char *path, bool last,
		 char **ret_path) MUST_CHECK;

/* List a directory, sorted; the caller frees the list. */
int view_list(const struct view *v, const char *path, char ***ret) MUST_CHECK;

/* Read a whole text file of at most @max bytes, following links; the caller frees it. */
int view_read(const struct view *v, const char *path, size_t max, char **ret,
	      size_t *ret_size) MUST_CHECK;

#endif /* IMAGE_VIEW_H */
