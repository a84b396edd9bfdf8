/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest_client.h - the guest agent inside, which does file work like an init
 * (place.within)
 */
#ifndef SHIM_CORE_GUEST_CLIENT_H
#define SHIM_CORE_GUEST_CLIENT_H

#include "shim/core/workers.h"

/* OPEN, SCAN, CHANGE, WATCH or CONNECT; the answer goes to who asked. */
void within_work(const struct work *w, const void *msg, size_t size, const int *fds,
		 size_t n_fds);
/* A file, to be read as root; a descriptor or -errno. Not in a worker. */
int within_open(const char *path);

#endif /* SHIM_CORE_GUEST_CLIENT_H */
