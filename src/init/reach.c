/* SPDX-License-Identifier: Apache-2.0 */
/* reach.c - a file or a port of the sandbox, opened from within and handed out */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/statfs.h>

#include "init/init.h"

void reach_open(int c, const struct proto_open *msg)
{
	struct open_how how = {
		.flags = (uint64_t)(uint32_t)msg->flags | O_CLOEXEC | O_NONBLOCK |
			 O_NOCTTY,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	struct statfs fs = { 0 };
	long fd;

	if (msg->n_groups > PROTO_GROUPS_MAX || msg->path[0] != '/' ||
	    msg->path[sizeof(msg->path) - 1] != '\0') {
		reply(c, msg->h.seq, -EINVAL, PROTO_STAGE_REQUEST, -1);
		return;
	}
	if (msg->flags & (O_CREAT | O_TMPFILE))
		how.mode = msg->mode & 07777;
	/* The user's rights, no more: ours are asleep meanwhile unless the user is root. */
	if (msg->n_groups > 0)
		(void)SYS_2(SYS_setgroups, msg->n_groups, msg->groups);
	(void)SYS_1(SYS_setfsgid, msg->gid);
	(void)SYS_1(SYS_setfsuid, msg->uid);
	if (msg->uid != 0)
		take_caps(0);
	fd = SYS_4(SYS_openat2, AT_FDCWD, msg->path, &how, sizeof(how));
	(void)SYS_1(SYS_setfsuid, INIT_ID);
	(void)SYS_1(SYS_setfsgid, INIT_ID);
	take_caps(~0ULL); /* after that: leaving the fsuid of root takes some of them */
	if (msg->n_groups > 0)
		(void)SYS_2(SYS_setgroups, 0, NULL);
	/*
	 * /proc/self is init when init opens it, and a process may always open its
	 * own: handed out, /proc/1/mem would be a way into init.
	 */
	if (fd >= 0 &&
	    (SYS_2(SYS_fstatfs, fd, &fs) < 0 || fs.f_type == PROC_SUPER_MAGIC)) {
		sys_close(fd);
		fd = -EACCES;
	}
	reply(c, msg->h.seq, fd < 0 ? fd : 0, PROTO_STAGE_NONE, (int)(fd < 0 ? -1 : fd));
	if (fd >= 0)
		sys_close(fd);
}

void reach_connect(int c, const struct proto_connect *msg)
{
	struct sockaddr_in v4 = {
		.sin_family = AF_INET,
		.sin_port = __builtin_bswap16(msg->port),
		.sin_addr.s_addr = __builtin_bswap32(INADDR_LOOPBACK),
	};
	struct sockaddr_in6 v6 = {
		.sin6_family = AF_INET6,
		.sin6_port = v4.sin_port,
		.sin6_addr.s6_addr = { [15] = 1 },
	};
	long fd = SYS_3(SYS_socket, msg->ipv6 ? AF_INET6 : AF_INET,
			SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	long r = fd;

	/* A full backlog must not make us wait: who asked waits for the descriptor. */
	if (fd >= 0 && msg->ipv6)
		r = SYS_3(SYS_connect, fd, &v6, sizeof(v6));
	else if (fd >= 0)
		r = SYS_3(SYS_connect, fd, &v4, sizeof(v4));
	if (r == -EINPROGRESS)
		r = 0;
	reply(c, msg->h.seq, r < 0 ? r : 0, PROTO_STAGE_NONE, (int)(r < 0 ? -1 : fd));
	if (fd >= 0)
		sys_close(fd);
}
