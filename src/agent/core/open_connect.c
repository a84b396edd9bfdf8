/* SPDX-License-Identifier: Apache-2.0 */
/*
 * open_connect.c - open files and connect to ports from inside, and dispatch file
 * requests
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "agent/core/agent.h"

static void reach_open(int c, const struct proto_open *msg, const int *fds, size_t n_fds)
{
	struct proto_who who = { .uid = msg->uid,
				 .gid = msg->gid,
				 .n_groups = msg->n_groups };
	int at = n_fds > 0 ? fds[0] : AT_FDCWD;
	long fd = -EINVAL;

	if (msg->path[sizeof(msg->path) - 1] == '\0') {
		__builtin_memcpy(who.groups, msg->groups, sizeof(who.groups));
		fd = as_user(&who);
	}
	if (fd == 0) {
		fd = files_resolve(at, msg->path, msg->flags, msg->mode);
		if (fd >= 0)
			fd = pseudo_file_replace((int)fd, msg->flags);
		as_self(&who);
	}
	conn_reply(c, msg->h.seq, fd < 0 ? fd : 0,
		   fd == -EINVAL ? PROTO_STAGE_REQUEST : PROTO_STAGE_NONE,
		   (int)(fd < 0 ? -1 : fd));
	if (fd >= 0)
		sys_close(fd);
}

long reach_dial(uint16_t port, bool ipv6)
{
	struct sockaddr_in v4 = {
		.sin_family = AF_INET,
		.sin_port = __builtin_bswap16(port),
		.sin_addr.s_addr = __builtin_bswap32(INADDR_LOOPBACK),
	};
	struct sockaddr_in6 v6 = {
		.sin6_family = AF_INET6,
		.sin6_port = v4.sin_port,
		.sin6_addr.s6_addr = { [15] = 1 },
	};
	long fd = SYS_3(SYS_socket, ipv6 ? AF_INET6 : AF_INET,
			SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	long r = fd;

	if (port == 0)
		return fd;
	if (fd >= 0 && ipv6)
		r = SYS_3(SYS_connect, fd, &v6, sizeof(v6));
	else if (fd >= 0)
		r = SYS_3(SYS_connect, fd, &v4, sizeof(v4));
	if (r >= 0 || r == -EINPROGRESS)
		return fd;
	if (fd >= 0)
		sys_close(fd);
	return r;
}

static void reach_connect(int c, const struct proto_connect *msg)
{
	long fd = reach_dial(msg->port, msg->ipv6);

	conn_reply(c, msg->h.seq, fd < 0 ? fd : 0, PROTO_STAGE_NONE,
		   (int)(fd < 0 ? -1 : fd));
	if (fd >= 0)
		sys_close(fd);
}

void reach_request(int c, size_t size, const int *fds, size_t n_fds)
{
	const struct proto_header *h = (const void *)inbox;
	const void *msg = inbox;

	switch (h->type) {
	case PROTO_OPEN:
		reach_open(c, msg, fds, n_fds);
		return;
	case PROTO_SCAN:
		agent_files_scan(c, msg, fds, n_fds);
		return;
	case PROTO_CHANGE:
		agent_files_change(c, msg, size, fds, n_fds);
		return;
	case PROTO_WRITE:
		agent_files_write(c, msg, size, fds, n_fds);
		return;
	case PROTO_WATCH:
		files_watch(c, msg, fds, n_fds);
		return;
	case PROTO_CONNECT:
		reach_connect(c, msg);
		return;
	default:
		conn_reply(c, h->seq, -ENOSYS, PROTO_STAGE_REQUEST, -1);
	}
}
