/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outbox.c - messages that did not fit into a connection yet, in order
 *
 * The kernel queues about 270 small messages for a peer that does not read. There can be
 * more if a client attaches to hundreds of execs, or if they all end at once. Such
 * messages wait here, with duplicates of their descriptors, in memory that is mapped
 * while it is needed. While messages wait, no further request of the connection is read.
 * So at most one reply and one EXITED for each exec, and one more reply, can accumulate
 * (OUTBOX_SIZE). A client that gets EXITED for all execs also receives those of other
 * connections: if the outbox overflows, init closes the connection, and the client
 * connects again.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>

#include "agent/core/agent.h"

#define OUTBOX_SIZE (128U << 10)
#define PAUSE_NS    1000000 /* time to wait before the next try if memory is short */

struct entry {
	uint32_t size;
	uint32_t n_fds;
	int fds[PROTO_GIVES_MAX];
	uint32_t pad;
	char data[];
};

_Static_assert(sizeof(struct entry) % 8 == 0,
	       "the data after the struct must be aligned");
_Static_assert(PROTO_EXECS_MAX *(2 * sizeof(struct entry) + sizeof(struct proto_reply) +
				 sizeof(struct proto_exited)) +
			       sizeof(struct entry) + sizeof(struct proto_entries) +
			       PROTO_ENTRIES_MAX + 8 <=
		       OUTBOX_SIZE,
	       "the outbox must have room for all answers to one connection");

static uint32_t outbox_span(size_t size)
{
	return (uint32_t)(sizeof(struct entry) + ((size + 7) & ~7UL));
}

/* Watch the connection for space to send, or for requests. */
static void watch_for(const struct conn *conn, uint32_t events)
{
	struct epoll_event ev = { .events = events };

	ev.data.u64 = (uint64_t)WATCH_CONN << 32 | (uint64_t)(conn - init.conns) << 2;
	(void)SYS_4(SYS_epoll_ctl, init.epoll, EPOLL_CTL_MOD, conn->fd, &ev);
}

static void entry_close(const struct entry *e)
{
	for (uint32_t i = 0; i < e->n_fds; i++)
		sys_close(e->fds[i]);
}

void outbox_drop(struct conn *conn)
{
	if (!conn->out)
		return;
	while (conn->out_from < conn->out_to) {
		const struct entry *e = (const void *)(conn->out + conn->out_from);

		entry_close(e);
		conn->out_from += outbox_span(e->size);
	}
	(void)SYS_2(SYS_munmap, conn->out, OUTBOX_SIZE);
	conn->out = NULL;
	conn->out_from = conn->out_to = 0;
}

static long outbox_open(struct conn *conn)
{
	long r = SYS_6(SYS_mmap, NULL, OUTBOX_SIZE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (r < 0 && r > -4096)
		return r;
	conn->out = (char *)r;
	conn->out_from = conn->out_to = 0;
	watch_for(conn, EPOLLOUT);
	return 0;
}

long outbox_put(struct conn *conn, const void *data, size_t size, const int *fds,
		size_t n_fds)
{
	struct entry *e;
	long r = conn->out ? 0 : outbox_open(conn);

	if (r < 0)
		return r;
	if (conn->out_to + outbox_span(size) > OUTBOX_SIZE) {
		memmove(conn->out, conn->out + conn->out_from,
			conn->out_to - conn->out_from);
		conn->out_to -= conn->out_from;
		conn->out_from = 0;
	}
	if (n_fds > PROTO_GIVES_MAX || conn->out_to + outbox_span(size) > OUTBOX_SIZE)
		return -EXFULL;
	e = (void *)(conn->out + conn->out_to);
	*e = (struct entry){ .size = (uint32_t)size };
	/* Duplicate the descriptors, because the sender closes its own. */
	for (; e->n_fds < n_fds; e->n_fds++) {
		r = SYS_3(SYS_fcntl, fds[e->n_fds], F_DUPFD_CLOEXEC, 3);
		if (r < 0) {
			entry_close(e);
			return r;
		}
		e->fds[e->n_fds] = (int)r;
	}
	memcpy(e->data, data, size);
	conn->out_to += outbox_span(size);
	return 0;
}

bool outbox_flush(struct conn *conn)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };

	if (!conn->out)
		return true;
	while (conn->out_from < conn->out_to) {
		const struct entry *e = (const void *)(conn->out + conn->out_from);
		long r = conn_try(conn->fd, e->data, e->size, e->fds, e->n_fds);

		if (conn_may_try_again(r)) {
			/* The connection has space, so the loop would call this again at
			 * once: wait a moment. */
			if (r != -EAGAIN && r != -EINTR)
				(void)SYS_2(SYS_nanosleep, &pause, NULL);
			return false;
		}
		if (r < 0)
			break; /* requests of this client are still handled */
		entry_close(e);
		conn->out_from += outbox_span(e->size);
	}
	outbox_drop(conn);
	watch_for(conn, EPOLLIN);
	return true;
}
