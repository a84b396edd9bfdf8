/* SPDX-License-Identifier: Apache-2.0 */
/*
 * streams.h - the descriptors that a shim accepts from its clients
 *
 * A shim has the privileges of the service's owner, and a client of the shim may be
 * compromised. Reading or writing a client's descriptor must not use these privileges: a
 * socket tells its reader the writer's user, a write to /proc or /sys is a command to the
 * kernel, and a device may do anything. A stream must therefore be a pipe, a regular file
 * or an eventfd; a directory must be a real directory, or a file that represents one
 * (dir_handle.h).
 */
#ifndef SHIM_CORE_STREAMS_H
#define SHIM_CORE_STREAMS_H

#include <stdbool.h>
#include <stddef.h>

#define STREAM_PIPE  (1U << 0)
#define STREAM_FILE  (1U << 1) /* a regular file, not in /proc or similar */
#define STREAM_EVENT (1U << 2) /* an eventfd */
#define STREAM_DIR   (1U << 3)

/* Return whether @fd is one of @kinds; O_PATH is accepted only if these include
 * STREAM_DIR. */
bool stream_is(int fd, unsigned kinds);
/*
 * Check whether the request @msg of @size bytes may come with these descriptors: 0, or
 * -EPROTO.
 */
int streams_check(const void *msg, size_t size, const int *fds, size_t n_fds);

#endif /* SHIM_CORE_STREAMS_H */
