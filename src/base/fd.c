/* SPDX-License-Identifier: Apache-2.0 */
/* fd.c - read from and write to descriptors, and send descriptors over sockets */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

int fd_write_all(int fd, const void *data, size_t n)
{
	const char *p = data;

	while (n > 0) {
		ssize_t w = write(fd, p, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return -errno;
		p += w;
		n -= (size_t)w;
	}
	return 0;
}

ssize_t fd_read_all(int fd, void *data, size_t n)
{
	size_t got = 0;

	while (got < n) {
		ssize_t r = read(fd, (char *)data + got, n - got);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		got += (size_t)r;
	}
	return (ssize_t)got;
}

int fd_write_file_at(int dirfd, const char *name, const char *text)
{
	AUTO_CLOSE int fd = openat(dirfd, name, O_WRONLY | O_CLOEXEC);
	size_t n = strlen(text);
	ssize_t w;

	if (fd < 0)
		return -errno;
	/*
	 * Use a single write: in these kernel files, a second write would be a second
	 * command.
	 */
	w = write(fd, text, n);
	if (w < 0)
		return -errno;
	return (size_t)w == n ? 0 : -EIO;
}

int fd_write_u64_at(int dirfd, const char *name, uint64_t n)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, n);
	return fd_write_file_at(dirfd, name, text);
}

ssize_t fd_read_file_at(int dirfd, const char *name, char *text, size_t size)
{
	AUTO_CLOSE int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = fd_read_all(fd, text, size);
	if (n < 0)
		return n;
	if ((size_t)n == size)
		return -EFBIG;
	text[n] = '\0';
	return n;
}

int fd_read_u64_at(int dirfd, const char *name, uint64_t *ret)
{
	char text[32] = "";
	ssize_t n = fd_read_file_at(dirfd, name, text, sizeof(text));
	char *end = NULL;
	unsigned long long v;

	if (n < 0)
		return (int)n;
	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	v = strtoull(text, &end, 10);
	if (errno != 0 || (*end != '\n' && *end != '\0'))
		return -EINVAL;
	*ret = v;
	return 0;
}

int fd_read_key_at(int dirfd, const char *name, const char *key, uint64_t *ret)
{
	char text[4096] = "";
	size_t len = strlen(key);
	ssize_t n = fd_read_file_at(dirfd, name, text, sizeof(text));

	if (n < 0)
		return (int)n;
	for (char *p = text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, key, len) == 0 && p[len] == ' ') {
			*ret = strtoull(p + len + 1, NULL, 10);
			return 0;
		}
	}
	return -ENOENT;
}

/* Sync the directory of @path, so that a new name in it survives a power cut. */
static int fd_sync_dir_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	AUTO_FREE char *dir =
		slash ? strndup(path, slash > path ? (size_t)(slash - path) : 1)
		      : strdup(".");
	AUTO_CLOSE int fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (!dir)
		return -ENOMEM;
	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

int fd_create_file(const char *path, const void *data, size_t n)
{
	AUTO_FREE char *new = NULL;
	AUTO_CLOSE int fd = -1;
	int r;

	if (asprintf(&new, "%s.XXXXXX", path) < 0) {
		new = NULL;
		return -ENOMEM;
	}
	fd = mkostemp(new, O_CLOEXEC); /* creates the file with mode 0600 */
	if (fd < 0)
		return -errno;
	r = fd_write_all(fd, data, n);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	/* Unlike a rename, this fails if the file exists. */
	if (r == 0 && link(new, path) < 0)
		r = -errno;
	(void)unlink(new);
	return r < 0 ? r : fd_sync_dir_of(path);
}

int fd_make_dirs(const char *path, mode_t mode)
{
	char part[4096];
	size_t n = strlen(path);

	if (n >= sizeof(part))
		return -ENAMETOOLONG;
	for (size_t i = 1; i <= n; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		(void)memcpy(part, path, i);
		part[i] = '\0';
		if (mkdir(part, path[i] ? 0755 : mode) < 0 && errno != EEXIST)
			return -errno;
	}
	return 0;
}

static int send_message(int sock, const void *data, size_t n, const int *fds,
			size_t n_fds, int flags)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(FD_SEND_MAX * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)data, .iov_len = n };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t r;

	if (n_fds > FD_SEND_MAX)
		return -E2BIG;
	if (n_fds > 0) {
		struct cmsghdr *c = &control.header;

		msg.msg_control = control.space;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		(void)memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	}
	do
		r = sendmsg(sock, &msg, MSG_NOSIGNAL | flags);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

int fd_send(int sock, const void *data, size_t n, const int *fds, size_t n_fds)
{
	return send_message(sock, data, n, fds, n_fds, 0);
}

int fd_send_now(int sock, const void *data, size_t n, const int *fds, size_t n_fds)
{
	return send_message(sock, data, n, fds, n_fds, MSG_DONTWAIT);
}

bool fd_may_send_again(int r)
{
	return r == -EAGAIN || r == -ENOMEM || r == -ENOBUFS || r == -ETOOMANYREFS;
}

int fd_send_within(int sock, const void *data, size_t n, const int *fds, size_t n_fds,
		   unsigned ms)
{
	const struct timespec nap = { .tv_nsec = 1000000 };
	int r = fd_send(sock, data, n, fds, n_fds);

	for (; fd_may_send_again(r) && ms > 0; ms--) {
		(void)nanosleep(&nap, NULL);
		r = fd_send(sock, data, n, fds, n_fds);
	}
	return r;
}

/* Return the number of received descriptors; those beyond @max are closed, but
 * counted. */
static size_t take_fds(struct msghdr *msg, int *fds, size_t max)
{
	size_t count = 0, all = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			(void)memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			all++;
			if (count < max)
				fds[count++] = fd;
			else
				(void)close(fd);
		}
	}
	return all;
}

ssize_t fd_recv_some(int sock, void *data, size_t size, int *fds, size_t *n_fds,
		     int flags, bool *ret_lost)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(FD_SEND_MAX * sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = data, .iov_len = size };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.space };
	size_t count;
	ssize_t r;

	msg.msg_controllen = sizeof(control.space);
	do
		r = recvmsg(sock, &msg, flags | MSG_CMSG_CLOEXEC);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	count = take_fds(&msg, fds, *n_fds);
	*ret_lost = count > *n_fds || (msg.msg_flags & MSG_CTRUNC);
	if (*ret_lost || (msg.msg_flags & MSG_TRUNC)) {
		count = count < *n_fds ? count : *n_fds;
		while (count > 0)
			(void)close(fds[--count]);
	}
	*n_fds = count;
	return msg.msg_flags & MSG_TRUNC ? -EMSGSIZE : r;
}

ssize_t fd_recv(int sock, void *data, size_t size, int *fds, size_t *n_fds, int flags)
{
	bool lost = false;
	ssize_t r = fd_recv_some(sock, data, size, fds, n_fds, flags, &lost);

	return r >= 0 && lost ? -EMSGSIZE : r;
}

static void fd_close_all(int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (fds[i] >= 0)
			(void)close(TAKE_FD(fds[i]));
}

int fd_bundle(int *fds, size_t n)
{
	int pair[2] = { -1, -1 };
	int r = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 ? -errno
										: 0;

	if (r == 0)
		r = fd_send_now(pair[1], "", 1, fds, n);
	fd_close_all(fds, n);
	fd_close_all(&pair[1], 1);
	if (r < 0)
		fd_close_all(pair, 1);
	return r < 0 ? r : pair[0];
}

int fd_unbundle(int bundle, int *ret_fds, size_t n)
{
	size_t got = n;
	char byte;
	ssize_t r = fd_recv(bundle, &byte, sizeof(byte), ret_fds, &got, MSG_DONTWAIT);

	(void)close(bundle);
	if (r == sizeof(byte) && got == n)
		return 0;
	fd_close_all(ret_fds, r < 0 ? 0 : got);
	return r < 0 ? (int)r : -EBADMSG;
}
