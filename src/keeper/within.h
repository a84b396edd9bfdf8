/* SPDX-License-Identifier: Apache-2.0 */
/* within.h - somebody inside who is ours, and does file work as an init does (place.within) */
#ifndef KEEPER_WITHIN_H
#define KEEPER_WITHIN_H

#include "keeper/work.h"

/* OPEN, SCAN, CHANGE, WATCH or CONNECT; the answer goes to who asked. */
void within_work(const struct work *w, const void *msg, size_t size, const int *fds,
		 size_t n_fds);
/* A file, to be read as root; a descriptor or -errno. Not in a worker. */
int within_open(const char *path);

#endif /* KEEPER_WITHIN_H */
