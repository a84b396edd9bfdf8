/* SPDX-License-Identifier: Apache-2.0 */
/* fd.h - complete reads and writes, small files, and descriptors sent over sockets */
#ifndef BASE_FD_H
#define BASE_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macro.h"

#define FD_SEND_MAX 32

/* All of it, in spite of signals and short counts; 0 or -errno. */
int fd_write_all(int fd, const void *data, size_t n);
/* Up to @n bytes until the end of the file; the count or -errno. */
ssize_t fd_read_all(int fd, void *data, size_t n);

/* One write of @text to the file @name below @dirfd. */
int fd_write_file_at(int dirfd, const char *name, const char *text);
int fd_write_u64_at(int dirfd, const char *name, uint64_t n);
/* The file as text of at most @size - 1 bytes; the length or -errno (-EFBIG: more). */
ssize_t fd_read_file_at(int dirfd, const char *name, char *text, size_t size);
/* A file that holds one decimal number. */
int fd_read_u64_at(int dirfd, const char *name, uint64_t *ret);
/* The number after the word @key at the start of a line: "oom_kill 3". */
int fd_read_key_at(int dirfd, const char *name, const char *key, uint64_t *ret);

/*
 * mkdir -p; the last one gets @mode, its parents 0755. Existing directories are not
 * changed.
 */
int fd_make_dirs(const char *path, mode_t mode);

/* One message with @n_fds descriptors along; 0 or -errno. */
int fd_send(int sock, const void *data, size_t n, const int *fds, size_t n_fds);
/* The same; -EAGAIN when it would have to wait. */
int fd_send_now(int sock, const void *data, size_t n, const int *fds, size_t n_fds);
/*
 * Whether it failed only because memory, or space in the socket, was short for a moment.
 */
bool fd_may_send_again(int r);
/* For callers that may wait: try again until it is sent, for at most @ms. */
int fd_send_within(int sock, const void *data, size_t n, const int *fds, size_t n_fds,
		   unsigned ms);
/*
 * One message of at most @size bytes. Descriptors go to @fds (at most
 * *@n_fds, their count on return), close-on-exec. A message or a set of
 * descriptors that did not fit is -EMSGSIZE, with nothing left open. Returns
 * the size, 0 at the end, or -errno.
 */
ssize_t fd_recv(int sock, void *data, size_t size, int *fds, size_t *n_fds, int flags);
/*
 * The same for callers that need the message in any case: *@ret_lost if the descriptors
 * that came with it could not be received, usually because this process has reached its
 * limit (EMFILE). All of them are then closed. Only a message that is too long is
 * -EMSGSIZE.
 */
ssize_t fd_recv_some(int sock, void *data, size_t size, int *fds, size_t *n_fds,
		     int flags, bool *ret_lost);

#endif /* BASE_FD_H */
