/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.h - a root filesystem to start from, as directories to stack
 *
 * An image is opened into trees: the root, and for `host` also the machine's
 * own /usr and its like. The root becomes an overlay with a writable upper; its
 * lowers are given from the top down, and the topmost is always ours (skel.h):
 * what must be a directory (/proc, /sys, /dev) is one, whatever the image says.
 *
 * The other trees are shown as they are, read-only and without an id map: the
 * machine's root is nobody inside, so that root inside can read there what
 * everybody may, and no file that is root's alone.
 */
#ifndef IMAGE_IMAGE_H
#define IMAGE_IMAGE_H

#include <stddef.h>

#include "base/error.h"

#define IMAGE_TREES_MAX	 10
#define IMAGE_LOWERS_MAX 4

struct image_lower {
	char *path;
	int fd; /* O_RDONLY directory */
};

struct image_tree {
	const char *at; /* "" for the root, else a name in it */
	size_t n_lowers;
	struct image_lower lowers[IMAGE_LOWERS_MAX];
};

struct image {
	size_t n_trees;
	struct image_tree trees[IMAGE_TREES_MAX];
};

/* @ref: "host" or "dir:PATH". @state_dir is where our own layers are kept. */
int image_open(const char *ref, const char *state_dir, struct image *ret, struct warren_error *err);
void image_close(struct image *image);

/* A file of the image, as its layers have it: a regular one, read-only, or -errno. */
int image_open_file(const struct image *image, const char *path);

#endif /* IMAGE_IMAGE_H */
