/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base_layer.h - the layer on top of every image, and the layer for `host`
 *
 * A layer is built once, kept in the state directory, and named after a fingerprint of
 * its sources, so that it is replaced when the machine changes. It is created under
 * another name and then renamed, so that it is either complete or absent. Sandboxes that
 * use a layer hold a shared lock on it; an outdated layer without users is removed.
 */
#ifndef IMAGE_BASE_LAYER_H
#define IMAGE_BASE_LAYER_H

#include "base/error.h"

enum skel_kind {
	SKEL_COMMON, /* mount points, a skeleton of /sys, a plain /etc/hosts */
	SKEL_HOST,   /* also links, empty homes and some files of /etc */
};

/*
 * Open the layer: *@ret_fd is its directory with a shared lock, *@ret_path its path,
 * which the caller frees.
 */
int skel_open(enum skel_kind kind, const char *state_dir, int *ret_fd, char **ret_path,
	      struct warren_error *err);

#endif /* IMAGE_BASE_LAYER_H */
