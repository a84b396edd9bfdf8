/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest_client.h - pass file requests to the guest agent inside, which serves them like
 * an init (this_sandbox.within)
 */
#ifndef SHIM_CORE_GUEST_CLIENT_H
#define SHIM_CORE_GUEST_CLIENT_H

#include "shim/core/workers.h"

/* Handle OPEN, SCAN, CHANGE, WATCH or CONNECT, and send the reply to the client. */
void within_work(const struct work *w, const void *msg, size_t size, const int *fds,
		 size_t n_fds);
/* Open a file for reading, as root; return a descriptor or -errno. Not in a worker. */
int within_open(const char *path);

#endif /* SHIM_CORE_GUEST_CLIENT_H */
