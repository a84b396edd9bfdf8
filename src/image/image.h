/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.h - a root filesystem to start from, as directories to mount
 *
 * Opening an image results in mounts and one line that says how to stack them. The mounts
 * of the stack (`at` is "") are called la, lb, ... in their order; the lower directories
 * of the root's overlay are these mounts or directories in them, from the top down:
 * "la:lb/x3k9f:lb/0hq2z". The topmost is always Warren's own (base_layer.h): paths that
 * must be directories (/proc, /sys, /dev) are directories there, whatever the image says.
 *
 * Mounts with a name are the machine's own trees in `host`: shown unchanged, read-only
 * and without an id map, so that root inside can read only the world-readable files
 * there.
 */
#ifndef IMAGE_IMAGE_H
#define IMAGE_IMAGE_H

#include <stddef.h>

#include "base/error.h"
#include "image/store.h"

#define IMAGE_MOUNTS_MAX 10
#define IMAGE_LOWERS_MAX 4000 /* characters: with the other options, a page */

struct image_mount {
	const char *at; /* "" for the stack of the root, else a name in the root */
	char *path;
	int fd; /* O_RDONLY directory */
};

struct image {
	size_t n_mounts;
	struct image_mount mounts[IMAGE_MOUNTS_MAX];
	char lowers[IMAGE_LOWERS_MAX];
	bool has_config;
	struct store_image config; /* of an image of the store; it holds the lock on it */
};

/*
 * @ref: "host", "dir:PATH", or a reference or id of an image in the store below
 * @state_dir, where our own layers are, too. -ENOENT with ret->has_config unset:
 * the store has no such image.
 */
int image_open(const char *ref, const char *state_dir, struct image *ret,
	       struct warren_error *err);
void image_close(struct image *image);

/* A file of the image, as its layers have it: a regular one, read-only, or -errno. */
int image_open_file(const struct image *image, const char *path);

#endif /* IMAGE_IMAGE_H */
