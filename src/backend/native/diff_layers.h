/* SPDX-License-Identifier: Apache-2.0 */
/*
 * diff_layers.h - the layers of an image that are on top of the image of a sandbox
 *
 * A snapshot of a sandbox consists of the layers of its image and one more. On top of the
 * same image, that layer shows the files at the time of the snapshot, just as the upper
 * directory of the sandbox shows its present files.
 */
#ifndef NATIVE_DIFF_LAYERS_H
#define NATIVE_DIFF_LAYERS_H

#include "backend/native/native.h"
#include "image/store.h"

#define DIFF_LAYERS_MAX 8

struct diff_layers {
	struct store_image image; /* holds its lock */
	size_t n;
	int fds[DIFF_LAYERS_MAX]; /* the topmost first */
};

#define DIFF_LAYERS_NONE         \
	(struct diff_layers)     \
	{                        \
		.image.lock = -1 \
	}

/*
 * Open the layers of the image @id. -ENOMEDIUM: there is no such image; -EINVAL: its
 * layers do not begin with those of the sandbox's image.
 */
int diff_layers_open(const struct native_sandbox *sandbox, const char *id,
		     struct diff_layers *ret, struct warren_error *err);
void diff_layers_close(struct diff_layers *l);

#endif /* NATIVE_DIFF_LAYERS_H */
