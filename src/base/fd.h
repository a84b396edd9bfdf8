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

/* Write all bytes, even after interruptions and short writes; 0 or -errno. */
int fd_write_all(int fd, const void *data, size_t n);
/* Read up to @n bytes or until the end of the file; return the count or -errno. */
ssize_t fd_read_all(int fd, void *data, size_t n);

/* Write @text to the file @name below @dirfd with one write(2). */
int fd_write_file_at(int dirfd, const char *name, const char *text);
int fd_write_u64_at(int dirfd, const char *name, uint64_t n);
/*
 * Read a file as text of at most @size - 1 bytes; return the length or -errno (-EFBIG:
 * the file is longer).
 */
ssize_t fd_read_file_at(int dirfd, const char *name, char *text, size_t size);
/* Read a file that contains one decimal number. */
int fd_read_u64_at(int dirfd, const char *name, uint64_t *ret);
/* Read the number that follows @key at the start of a line, as in "oom_kill 3". */
int fd_read_key_at(int dirfd, const char *name, const char *key, uint64_t *ret);

/*
 * Create @path with mode @mode, and missing parents with mode 0755. Existing directories
 * are not changed.
 */
int fd_make_dirs(const char *path, mode_t mode);

/*
 * Create the file @path, with mode 0600 and these bytes, so that it survives a power cut.
 * It never has only a part of the bytes, and an existing file is never replaced: -EEXIST.
 */
int fd_create_file(const char *path, const void *data, size_t n);
/* Send one message with @n_fds descriptors; 0 or -errno. */
int fd_send(int sock, const void *data, size_t n, const int *fds, size_t n_fds);
/* Like fd_send(), but return -EAGAIN instead of blocking. */
int fd_send_now(int sock, const void *data, size_t n, const int *fds, size_t n_fds);
/* Return whether error @r is temporary: too little memory or space in the socket. */
bool fd_may_send_again(int r);
/* Like fd_send(), but retry for at most @ms. For callers that may block. */
int fd_send_within(int sock, const void *data, size_t n, const int *fds, size_t n_fds,
		   unsigned ms);
/*
 * Receive one message of at most @size bytes. @fds gets at most *@n_fds descriptors,
 * close-on-exec; *@n_fds is set to their count. -EMSGSIZE: the message or the descriptors
 * did not fit; all descriptors are closed. Return the size, 0 at the end, or -errno.
 */
ssize_t fd_recv(int sock, void *data, size_t size, int *fds, size_t *n_fds, int flags);
/*
 * Like fd_recv(), for callers that need the message even without its descriptors.
 * *@ret_lost is set if the descriptors could not be received, usually because this
 * process has reached its limit (EMFILE); all of them are then closed. Only a message
 * that is too long gives -EMSGSIZE.
 */
ssize_t fd_recv_some(int sock, void *data, size_t size, int *fds, size_t *n_fds,
		     int flags, bool *ret_lost);

/*
 * Put @n descriptors into one: a socket from which fd_unbundle() takes them. Closes them
 * in any case. Returns the socket or -errno.
 */
int fd_bundle(int *fds, size_t n);
/* Close @bundle, and take exactly @n descriptors from it. -EBADMSG: it has not as many.
 */
int fd_unbundle(int bundle, int *ret_fds, size_t n);

#endif /* BASE_FD_H */
