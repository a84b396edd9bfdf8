/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn.c - the connections of clients, and the messages to them
 *
 * A sandbox that is not durable has one connection, its creator's, and ends with it. A
 * durable one has a socket to which clients connect (init_proto.h has the rules). init
 * never waits for one peer, because all others would have to wait too. Messages that do
 * not fit into a connection go to its outbox (outbox.c), and no request is read from that
 * connection until the outbox is empty. A peer that sends faster than it reads is thus
 * slowed down, and loses nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "agent/core/agent.h"

#define DEAF_NS 200000000ULL /* time to wait for a free descriptor */

/* Use as many descriptors as allowed: every exec takes up to nine. */
static void raise_limit(void)
{
	struct rlimit lim = { 0 };

	if (SYS_4(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &lim) < 0)
		return;
	lim.rlim_cur = lim.rlim_max;
	(void)SYS_4(SYS_prlimit64, 0, RLIMIT_NOFILE, &lim, NULL);
}

void conn_start(void)
{
	for (int c = 0; c < PROTO_CONNECTIONS_MAX; c++)
		init.conns[c].fd = -1;
	init.conns[0].fd = PROTO_FD_MAKER;
	/* The child before init passed these descriptors on through execve(2). */
	(void)SYS_3(SYS_fcntl, PROTO_FD_MAKER, F_SETFD, FD_CLOEXEC);
	init.listener = -1;
	if (SYS_2(SYS_listen, PROTO_FD_LISTEN, PROTO_CONNECTIONS_MAX) == 0) {
		(void)SYS_3(SYS_fcntl, PROTO_FD_LISTEN, F_SETFD, FD_CLOEXEC);
		(void)SYS_3(SYS_fcntl, PROTO_FD_LISTEN, F_SETFL, O_NONBLOCK);
		init.listener = PROTO_FD_LISTEN;
		raise_limit();
	}
}

static void conn_close(int c)
{
	/*
	 * When the creator's connection ends, the sandbox ends, unless the sandbox is
	 * kept.
	 */
	if (c == 0 && !init.kept)
		init_end();
	outbox_drop(&init.conns[c]);
	sys_close(init.conns[c].fd);
	init.conns[c] = (struct conn){ .fd = -1 };
	exec_forget(c);
}

long conn_try(int fd, const void *data, size_t size, const int *fds, size_t n_fds)
{
	_Alignas(struct cmsghdr) char
		control[CMSG_SPACE(PROTO_GIVES_MAX * sizeof(int))] = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)data, .iov_len = size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n_fds > 0) {
		struct cmsghdr *h = (struct cmsghdr *)(void *)control;

		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		__builtin_memcpy(CMSG_DATA(h), fds, n_fds * sizeof(int));
		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
	}
	return SYS_3(SYS_sendmsg, fd, &msg,
		     MSG_NOSIGNAL | (init.listener >= 0 ? MSG_DONTWAIT : 0));
}

/* A temporary lack of memory or of descriptors in flight does not end a connection. */
bool conn_may_try_again(long r)
{
	return r == -EAGAIN || r == -EINTR || r == -ENOMEM || r == -ENOBUFS ||
	       r == -ETOOMANYREFS;
}

void conn_send(int c, const void *data, size_t size, const int *fds, size_t n_fds)
{
	struct conn *conn = c < 0 ? NULL : &init.conns[c];
	long r = -EAGAIN;

	if (!conn || conn->fd < 0)
		return;
	if (!conn->out)
		r = conn_try(conn->fd, data, size, fds, n_fds);
	/* The loop notices a connection that has ended. */
	if (!conn_may_try_again(r))
		return;
	if (init.listener <
	    0) { /* the socket blocks, so this is a signal or a lack of memory */
		while (conn_may_try_again(r))
			r = conn_try(conn->fd, data, size, fds, n_fds);
		return;
	}
	/*
	 * It is better that the client sees an end and connects again than that it misses
	 * a message.
	 */
	if (outbox_put(conn, data, size, fds, n_fds) < 0)
		(void)SYS_2(SYS_shutdown, conn->fd, SHUT_RDWR);
}

const char *reply_why;

void conn_reply(int c, uint32_t seq, long status, enum proto_stage stage, int fd)
{
	struct {
		struct proto_reply r;
		char why[PROTO_WHY_MAX];
	} msg = {
		.r = { .h = { .version = PROTO_VERSION, .type = PROTO_REPLY, .seq = seq },
		       .status = (int32_t)status,
		       .stage = stage },
	};
	size_t n = 0;

	while (reply_why && reply_why[n] && n + 1 < sizeof(msg.why)) {
		msg.why[n] = reply_why[n];
		n++;
	}
	conn_send(c, &msg, sizeof(msg.r) + (n ? n + 1 : 0), &fd, fd >= 0);
}

void reply_value(int c, uint32_t seq, long status, uint32_t value)
{
	struct proto_reply msg = {
		.h = { .version = PROTO_VERSION, .type = PROTO_REPLY, .seq = seq },
		.status = (int32_t)status,
		.value = value,
	};

	conn_send(c, &msg, sizeof(msg), NULL, 0);
}

void reply_with(int c, uint32_t seq, const struct exec *ex, bool command)
{
	const struct {
		int fd;
		uint32_t bit;
	} all[PROTO_GIVES_MAX] = {
		{ ex->input, PROTO_GIVES_INPUT },
		{ ex->wakeup, PROTO_GIVES_WAKEUP },
		{ command ? ex->command : -1, PROTO_GIVES_COMMAND },
	};
	struct proto_reply msg = {
		.h = { .version = PROTO_VERSION, .type = PROTO_REPLY, .seq = seq },
		.value = (uint32_t)tree_first(ex),
	};
	int fds[PROTO_GIVES_MAX];
	size_t n = 0;

	for (int i = 0; i < PROTO_GIVES_MAX; i++) {
		if (all[i].fd < 0)
			continue;
		msg.gives |= all[i].bit;
		fds[n++] = all[i].fd;
	}
	conn_send(c, &msg, sizeof(msg), fds, n);
}

void conn_report(const struct exec *ex, const struct proto_exited *msg)
{
	for (int c = 0; c < PROTO_CONNECTIONS_MAX; c++)
		if (init.conns[c].all || ex->hears & (1U << c))
			conn_send(c, msg, sizeof(*msg), NULL, 0);
}

uint64_t conn_hear_again(uint64_t t)
{
	if (init.deaf_until && init.deaf_until <= t &&
	    watch_add(init.listener, WATCH_LISTEN, 0, 0) == 0)
		init.deaf_until = 0;
	else if (init.deaf_until && init.deaf_until <= t)
		init.deaf_until = t + DEAF_NS;
	return init.deaf_until;
}

void conn_accept(void)
{
	struct proto_reply full = {
		.h = { .version = PROTO_VERSION, .type = PROTO_REPLY },
		.status = -EBUSY,
		.stage = PROTO_STAGE_REQUEST,
	};
	long fd = SYS_4(SYS_accept4, init.listener, NULL, NULL,
			SOCK_CLOEXEC | SOCK_NONBLOCK);

	/*
	 * The listener stays readable, so the loop would do nothing else: ignore the
	 * listener for a while.
	 */
	if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -ENOBUFS) {
		watch_drop(init.listener);
		init.deaf_until = agent_now() + DEAF_NS;
		exec_deadlines();
	}
	if (fd < 0)
		return;
	for (int c = 0; c < PROTO_CONNECTIONS_MAX; c++) {
		if (init.conns[c].fd >= 0)
			continue;
		init.conns[c].fd = (int)fd;
		if (watch_add((int)fd, WATCH_CONN, (unsigned)c, 0) == 0)
			return;
		init.conns[c].fd = -1;
		break;
	}
	(void)conn_try((int)fd, &full, sizeof(full), NULL, 0);
	sys_close(fd);
}

void conn_receive(int c)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(PROTO_FDS_MAX * sizeof(int))];
	struct iovec iov = { .iov_base = inbox, .iov_len = sizeof(inbox) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control };
	int fds[PROTO_FDS_MAX];
	size_t n_fds = 0;
	long r;

	if (init.conns[c].fd < 0 || !outbox_flush(&init.conns[c]))
		return;
	msg.msg_controllen = sizeof(control);
	r = SYS_3(SYS_recvmsg, init.conns[c].fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	/*
	 * The peer closed its socket before it read all our data. The kernel reports this
	 * once, before the data that the peer sent.
	 */
	if (r == -ECONNRESET)
		r = SYS_3(SYS_recvmsg, init.conns[c].fd, &msg,
			  MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (conn_may_try_again(r))
		return;
	if (r <= 0) {
		conn_close(c);
		return;
	}
	for (struct cmsghdr *h = CMSG_FIRSTHDR(&msg); h; h = NULL) {
		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			break;
		n_fds = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		__builtin_memcpy(fds, CMSG_DATA(h), n_fds * sizeof(int));
	}
	init_dispatch(c, (size_t)r, fds, n_fds);
	for (size_t i = 0; i < n_fds; i++)
		if (fds[i] >= 0)
			sys_close(fds[i]);
}
