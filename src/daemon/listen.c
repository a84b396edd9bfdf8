/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listen.c - the sockets on which clients connect
 *
 * The configuration says for each socket where it is, whether it uses TLS, and which
 * clients can reach it. This also applies to sockets that systemd opened.
 */
#include "daemon/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/fd.h"
#include "base/parse.h"
#include "daemon/log.h"

#define LISTEN_FD_FIRST 3
#define BACKLOG         4096
#define LISTEN_TRIES    20
#define LISTEN_PAUSE_US 50000

/* ---------------------------------------------------------------- own listeners */

static int listen_unix(const char *path, struct warren_error *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	mode_t mask;
	int r;

	if (strlen(path) >= sizeof(addr.sun_path))
		return error_set(err, ENAMETOOLONG, "the socket's path '%s' is too long",
				 path);
	(void)strcpy(addr.sun_path, path);
	if (fd < 0)
		return error_errno(err, errno, "create a socket");
	/* If another process listens on the socket, it belongs to another service. */
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
		return error_set(err, EADDRINUSE, "another service listens on '%s'",
				 path);
	(void)close(fd);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	(void)unlink(path);
	mask = umask(0177);
	r = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&addr, sizeof(addr));
	(void)umask(mask);
	if (r < 0 || listen(fd, BACKLOG) < 0)
		return error_errno(err, errno, "listen on '%s'", path);
	return TAKE_FD(fd);
}

static int listen_tcp(const struct config_listener *l, const char *text,
		      struct warren_error *err)
{
	AUTO_CLOSE int fd = socket(l->addr.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int one = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(fd, &l->addr.any, l->addr_len) < 0 || listen(fd, BACKLOG) < 0)
		return error_errno(err, errno, "listen on '%s'", text);
	return TAKE_FD(fd);
}

/* The api of a killed warden may still be ending: wait a moment. */
static int listen_at(const struct config_listener *l, const char *text,
		     struct warren_error *err)
{
	for (int i = 0;; i++) {
		int fd = l->transport == CONFIG_UNIX ? listen_unix(l->path, err)
						     : listen_tcp(l, text, err);

		if (fd != -EADDRINUSE || i == LISTEN_TRIES)
			return fd;
		*err = (struct warren_error)WARREN_ERROR_INIT;
		(void)usleep(LISTEN_PAUSE_US);
	}
}

/* --------------------------------------------------------------- sockets from systemd */

union address {
	struct sockaddr any;
	struct sockaddr_un un;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* Take the sockets that systemd passes to this process: descriptor 3 and the following
 * ones. */
static int take_activated(int *fds, size_t *ret_n, struct warren_error *err)
{
	const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
	uint64_t whose = 0, n = 0;
	struct warren_error ignored = WARREN_ERROR_INIT;

	*ret_n = 0;
	if (!pid || !count || parse_u64(pid, INT32_MAX, &whose, &ignored) < 0 ||
	    whose != (uint64_t)getpid())
		return 0;
	if (parse_u64(count, API_LISTENERS_MAX, &n, err) < 0)
		return error_wrap(err, "LISTEN_FDS, the sockets from systemd");
	for (size_t i = 0; i < n; i++) {
		fds[i] = LISTEN_FD_FIRST + (int)i;
		if (fcntl(fds[i], F_SETFD, FD_CLOEXEC) < 0)
			return error_errno(err, errno, "socket %zu from systemd", i);
	}
	*ret_n = n;
	(void)unsetenv("LISTEN_PID");
	(void)unsetenv("LISTEN_FDS");
	(void)unsetenv("LISTEN_FDNAMES");
	return 0;
}

static bool is_at(int fd, const struct config_listener *l)
{
	union address a = { 0 };
	socklen_t len = sizeof(a);

	if (getsockname(fd, &a.any, &len) < 0)
		return false;
	if (l->transport == CONFIG_UNIX)
		return a.any.sa_family == AF_UNIX && strcmp(a.un.sun_path, l->path) == 0;
	if (a.any.sa_family != l->addr.any.sa_family)
		return false;
	if (a.any.sa_family == AF_INET)
		return a.in.sin_port == l->addr.in.sin_port &&
		       a.in.sin_addr.s_addr == l->addr.in.sin_addr.s_addr;
	return a.in6.sin6_port == l->addr.in6.sin6_port &&
	       memcmp(&a.in6.sin6_addr, &l->addr.in6.sin6_addr,
		      sizeof(a.in6.sin6_addr)) == 0;
}

/* Find and take the matching socket of @fds; -1: there is none. */
static int find_activated(int *fds, size_t n, const struct config_listener *l)
{
	for (size_t i = 0; i < n; i++)
		if (fds[i] >= 0 && is_at(fds[i], l))
			return TAKE_FD(fds[i]);
	return -1;
}

/* Write the name of a socket in the form of `listen`. */
static void name_socket(int fd, char *out, size_t size)
{
	union address a = { 0 };
	socklen_t len = sizeof(a);
	char host[INET6_ADDRSTRLEN] = "?";

	if (getsockname(fd, &a.any, &len) < 0)
		(void)snprintf(out, size, "a socket that cannot be inspected");
	else if (a.any.sa_family == AF_UNIX)
		(void)snprintf(out, size, "unix:%s", a.un.sun_path);
	else if (a.any.sa_family == AF_INET)
		(void)snprintf(out, size, "tcp:%s:%u",
			       inet_ntop(AF_INET, &a.in.sin_addr, host, sizeof(host)),
			       ntohs(a.in.sin_port));
	else if (a.any.sa_family == AF_INET6)
		(void)snprintf(out, size, "tcp:[%s]:%u",
			       inet_ntop(AF_INET6, &a.in6.sin6_addr, host, sizeof(host)),
			       ntohs(a.in6.sin6_port));
	else
		(void)snprintf(out, size, "a socket of another kind");
}

static int refuse_unnamed(const int *fds, size_t n, struct warren_error *err)
{
	char name[256];

	for (size_t i = 0; i < n; i++) {
		if (fds[i] < 0)
			continue;
		name_socket(fds[i], name, sizeof(name));
		return error_set(
			err, EINVAL,
			"systemd passes '%s', which is not in 'listen': add it there, "
			"or remove it from warren.socket",
			name);
	}
	return 0;
}

int listen_open(const struct config *c, struct api_birth *b, struct warren_error *err)
{
	int activated[API_LISTENERS_MAX];
	size_t n = 0;
	int r = take_activated(activated, &n, err);

	for (size_t i = 0; r == 0 && i < c->listen.n && i < API_LISTENERS_MAX; i++) {
		const char *text = c->listen.items[i];
		struct config_listener l;
		int fd;
		bool held;

		r = config_listener(text, &l, err);
		if (r < 0)
			return r;
		fd = find_activated(activated, n, &l);
		held = fd >= 0;
		if (!held)
			fd = listen_at(&l, text, err);
		if (fd < 0)
			return fd;
		log_line(LOG_LEVEL_INFO, "listening on %s%s", text,
			 held ? ", passed by systemd" : "");
		b->listeners[b->n_listeners].fd = fd;
		b->listeners[b->n_listeners++].tls = l.transport == CONFIG_TLS;
	}
	return r < 0 ? r : refuse_unnamed(activated, n, err);
}
