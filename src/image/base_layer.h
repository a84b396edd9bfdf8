/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base_layer.h - the layer on top of every image, and the layer for `host`
 *
 * Built once, kept in the state directory, named after a fingerprint of what
 * went into it, so that it is replaced when the machine changes. Made under
 * another name and renamed: it is whole or absent. Who uses one holds a shared
 * lock on it; one that nobody uses and that is out of date is removed.
 */
#ifndef IMAGE_BASE_LAYER_H
#define IMAGE_BASE_LAYER_H

#include "base/error.h"

enum skel_kind {
	SKEL_COMMON, /* mount points, a skeleton of /sys, a plain /etc/hosts */
	SKEL_HOST, /* and a root around the machine's /usr: links, empty homes, a curated
		      /etc */
};

/* An open, share-locked directory and its path (to be freed). */
int skel_open(enum skel_kind kind, const char *state_dir, int *ret_fd, char **ret_path,
	      struct warren_error *err);

#endif /* IMAGE_BASE_LAYER_H */
