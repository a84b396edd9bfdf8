/* SPDX-License-Identifier: Apache-2.0 */
/*
 * path_set.h - the paths that an upload has written
 *
 * A path is known by 128 bits of a hash, so that long paths need no more memory. Only the
 * client itself suffers from two paths with one hash: its upload is refused.
 */
#ifndef API_E2B_PATH_SET_H
#define API_E2B_PATH_SET_H

#include <stddef.h>
#include <stdint.h>

struct path_set {
	struct path_key {
		uint64_t part[2]; /* both 0: none */
	} * keys;
	size_t n, size; /* size: a power of two, or 0 */
};

/* 1: added; 0: it was there; -ENOMEM. */
int path_set_add(struct path_set *s, const char *path);
void path_set_done(struct path_set *s);

#endif /* API_E2B_PATH_SET_H */
