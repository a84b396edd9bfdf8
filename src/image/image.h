/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.h - open an image: the root filesystem of a sandbox, as directories to mount
 *
 * Opening an image returns mounts and a string that says how to stack them. The mounts of
 * the stack (`at` is "") are called la, lb, ... in their order; the lower directories of
 * the root's overlay are these mounts or directories in them, from the top down:
 * "la:lb/x3k9f:lb/0hq2z", or "la:lb/x3k9f:lc" if a snapshot is stacked on another image.
 * The topmost is always Warren's base layer (base_layer.h), in which paths that must be
 * directories (/proc, /sys, /dev) are directories, whatever the image contains.
 *
 * Mounts with a name are directories of the host in the image `host`. They are read-only
 * and have no id map, so that root inside can read only world-readable files there.
 */
#ifndef IMAGE_IMAGE_H
#define IMAGE_IMAGE_H

#include <stddef.h>

#include "base/error.h"
#include "image/store.h"

#define IMAGE_MOUNTS_MAX 12
#define IMAGE_LOWERS_MAX 4000 /* in characters; mount options must fit into one page */

struct image_mount {
	const char *at; /* "": part of the root's stack, otherwise a name in the root */
	char *path;
	int fd; /* O_RDONLY directory */
};

struct image {
	size_t n_mounts;
	struct image_mount mounts[IMAGE_MOUNTS_MAX];
	char lowers[IMAGE_LOWERS_MAX];
	bool has_config;
	struct store_image
		config; /* configuration of an image from the store; holds its lock */
};

/*
 * @ref is "host", "dir:PATH", or a reference or id of an image in the store. @state_dir
 * contains the store and the base layers. -ENOENT with ret->has_config unset: the store
 * has no such image.
 */
int image_open(const char *ref, const char *state_dir, struct image *ret,
	       struct warren_error *err);
void image_close(struct image *image);

/*
 * Whether "/@name" is a directory of the machine in the image `host`: it is mounted over
 * all layers.
 */
bool image_is_host_tree(const char *name);

/*
 * Open a regular file of the image read-only, as the stacked layers show it, or return
 * -errno.
 */
int image_open_file(const struct image *image, const char *path);

#endif /* IMAGE_IMAGE_H */
