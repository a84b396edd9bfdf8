/* SPDX-License-Identifier: Apache-2.0 */
/* files_ports.c - files and ports of a sandbox, opened by its init and handed out */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "initclient/initclient.h"
#include "base/fd.h"

int talk_file_open(void *state UNUSED, struct backend_box *base, const char *path,
		   int flags, mode_t mode, const char *user, int *ret_fd,
		   struct warren_error *err)
{
	struct talk_box *box = (struct talk_box *)base;
	struct proto_open msg = { .h = { .type = PROTO_OPEN },
				  .flags = flags,
				  .mode = mode };
	CLEANUP(answer_done) struct answer a = { 0 };
	struct talk_user u;
	int r;

	if (strlen(path) >= sizeof(msg.path))
		return error_errno(err, ENAMETOOLONG, "open '%.64s...'", path);
	(void)strcpy(msg.path, path);
	if (user && strcmp(user, "0:0") == 0)
		u = (struct talk_user){ 0 };
	else if ((r = talk_user_find(box, user, &u, err)) < 0)
		return r;
	msg.uid = u.uid;
	msg.gid = u.gid;
	msg.n_groups = (uint32_t)u.n_groups;
	(void)memcpy(msg.groups, u.groups, sizeof(msg.groups));
	r = client_ask(box, &msg, sizeof(msg), -1, &a, err);
	if (r < 0)
		return r;
	r = reply_code(&a.m.reply);
	*ret_fd = r == 0 ? answer_take_only(&a) : -1;
	return *ret_fd < 0 ? reply_refuse(&a, err, "open '%s'", path) : 0;
}

int talk_file_settle(void *state, struct backend_box *box, const char *path,
		     struct warren_error *err)
{
	int fd = -1, r = talk_file_open(state, box, path, O_PATH, 0, NULL, &fd, err);

	if (fd >= 0)
		(void)close(fd);
	return r;
}

/* The connection may still be under way: wait for it here, not in init. */
static int await_connected(int fd)
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

int talk_connect(void *state UNUSED, struct backend_box *base, uint16_t port, int *ret_fd,
		 struct warren_error *err)
{
	struct talk_box *box = (struct talk_box *)base;
	int code = ECONNREFUSED;

	for (uint16_t ipv6 = 0; ipv6 < 2; ipv6++) {
		struct proto_connect msg = { .h = { .type = PROTO_CONNECT },
					     .port = port,
					     .ipv6 = ipv6 };
		CLEANUP(answer_done) struct answer a = { 0 };
		AUTO_CLOSE int fd = -1;
		int r = client_ask(box, &msg, sizeof(msg), -1, &a, err);

		if (r < 0)
			return r;
		fd = answer_take_only(&a);
		r = -reply_code(&a.m.reply);
		if (r == 0)
			r = fd >= 0 ? await_connected(fd) : -EPROTO;
		if (r == 0) {
			*ret_fd = TAKE_FD(fd);
			return 0;
		}
		if (ipv6 == 0)
			code = -r;
	}
	return error_errno(err, code, "connect to port %u of the sandbox", port);
}
