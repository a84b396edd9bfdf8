/* SPDX-License-Identifier: Apache-2.0 */
/* files_ports.c - files and ports of a sandbox, opened by its init */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "initclient/initclient.h"

int initclient_file_open(void *state UNUSED, struct backend_sandbox *base,
			 const char *path, int flags, mode_t mode, const char *user,
			 int *ret_fd, struct warren_error *err)
{
	struct initclient_sandbox *sandbox = (struct initclient_sandbox *)base;
	struct proto_open msg = { .h = { .type = PROTO_OPEN },
				  .flags = flags,
				  .mode = mode };
	CLEANUP(init_reply_done) struct init_reply a = { 0 };
	struct initclient_user u;
	int r;

	if (strlen(path) >= sizeof(msg.path))
		return error_errno(err, ENAMETOOLONG, "open '%.64s...'", path);
	(void)strcpy(msg.path, path);
	if (user && strcmp(user, "0:0") == 0)
		u = (struct initclient_user){ 0 };
	else if ((r = initclient_user_find(sandbox, user, &u, err)) < 0)
		return r;
	msg.uid = u.uid;
	msg.gid = u.gid;
	msg.n_groups = (uint32_t)u.n_groups;
	(void)memcpy(msg.groups, u.groups, sizeof(msg.groups));
	r = client_ask(sandbox, &msg, sizeof(msg), -1, &a, err);
	if (r < 0)
		return r;
	r = reply_code(&a.m.reply);
	*ret_fd = r == 0 ? init_reply_take_only(&a) : -1;
	return *ret_fd < 0 ? reply_refuse(&a, err, "open '%s'", path) : 0;
}

int initclient_file_settle(void *state, struct backend_sandbox *sandbox, const char *path,
			   struct warren_error *err)
{
	int fd = -1,
	    r = initclient_file_open(state, sandbox, path, O_PATH, 0, NULL, &fd, err);

	if (fd >= 0)
		(void)close(fd);
	return r;
}

/* The connection may still be in progress: wait for it here, not in init. */
static int files_ports_await_connected(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	socklen_t len = sizeof(int);
	int code = 0, r;

	do
		r = poll(&p, 1, 5000);
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		return r < 0 ? -errno : -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &len) < 0)
		return -errno;
	if (code == 0 && fcntl(fd, F_SETFL, 0) < 0)
		return -errno;
	return -code;
}

int initclient_connect(void *state UNUSED, struct backend_sandbox *base, uint16_t port,
		       int *ret_fd, struct warren_error *err)
{
	struct initclient_sandbox *sandbox = (struct initclient_sandbox *)base;
	int code = ECONNREFUSED;

	for (uint16_t ipv6 = 0; ipv6 < 2; ipv6++) {
		struct proto_connect msg = { .h = { .type = PROTO_CONNECT },
					     .port = port,
					     .ipv6 = ipv6 };
		CLEANUP(init_reply_done) struct init_reply a = { 0 };
		AUTO_CLOSE int fd = -1;
		int r = client_ask(sandbox, &msg, sizeof(msg), -1, &a, err);

		if (r < 0)
			return r;
		fd = init_reply_take_only(&a);
		r = -reply_code(&a.m.reply);
		if (r == 0)
			r = fd >= 0 ? files_ports_await_connected(fd) : -EPROTO;
		if (r == 0) {
			*ret_fd = TAKE_FD(fd);
			return 0;
		}
		if (ipv6 == 0)
			code = -r;
	}
	return error_errno(err, code, "connect to port %u of the sandbox", port);
}

int initclient_socket(struct initclient_sandbox *sandbox, int *ret_fd,
		      struct warren_error *err)
{
	struct proto_connect msg = { .h = { .type = PROTO_CONNECT } };
	CLEANUP(init_reply_done) struct init_reply a = { 0 };
	int r = client_ask(sandbox, &msg, sizeof(msg), -1, &a, err);

	if (r < 0)
		return r;
	/* An init of an earlier version tries to connect to port 0. */
	if (reply_code(&a.m.reply))
		return error_set(err, ENOTSUP,
				 "its init is of an earlier version: create it again");
	*ret_fd = init_reply_take_only(&a);
	return *ret_fd < 0 ? error_errno(err, EPROTO, "get a socket of it") : 0;
}
