/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay.c - relay bytes between a given socket and a port, in both directions
 *
 * Each direction has its own buffer and ends independently: when one side ends its
 * output, the other side learns of it and may continue to send. If a side accepts no more
 * data, data for it is dropped, but data that it sent before is still delivered. If the
 * peer outside has closed the socket, its remaining data still goes to the port while the
 * port accepts it.
 */
#include "agent/guest/relay.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "agent/core/agent.h"

#define OUTSIDE 0
#define TELL    2
/* Connecting to loopback is immediate, unless the listener's queue is full. Then the
 * connect waits for this time. */
#define CONNECT_SECS 1
/* Time for which a port may accept none of the remaining data of a closed socket. */
#define GONE_SECS 60

struct way {
	int from, to;
	int ended;    /* no more data will come */
	int finished; /* the other side has been informed of the end */
	size_t at, n;
	char data[65536];
};

static struct way in, out;

static void relay_take(struct way *w)
{
	long n;

	if (w->ended || w->n > 0)
		return;
	n = SYS_6(SYS_recvfrom, w->from, w->data, sizeof(w->data), MSG_DONTWAIT, 0, 0);
	if (n > 0) {
		w->at = 0;
		w->n = (size_t)n;
	} else if (n != -EAGAIN && n != -EINTR) {
		w->ended = 1;
	}
}

static void relay_give(struct way *w)
{
	while (w->n > 0) {
		long n = SYS_6(SYS_sendto, w->to, w->data + w->at, w->n,
			       MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0);

		if (n == -EAGAIN || n == -EINTR)
			return;
		if (n < 0) {
			w->ended = w->finished = 1;
			w->n = 0;
			return;
		}
		w->at += (size_t)n;
		w->n -= (size_t)n;
	}
	if (w->ended && !w->finished) {
		(void)SYS_2(SYS_shutdown, w->to, SHUT_WR);
		w->finished = 1;
	}
}

static short relay_wanted(const struct way *reads, const struct way *writes)
{
	return (short)((!reads->ended && reads->n == 0 ? POLLIN : 0) |
		       (writes->n > 0 ? POLLOUT : 0));
}

/* Wait until data can be moved. Return false if both sides have ended. */
static int relay_await(int *gone)
{
	struct pollfd p[2] = { { .fd = OUTSIDE, .events = relay_wanted(&in, &out) },
			       { .fd = in.to, .events = relay_wanted(&out, &in) } };
	struct timespec limit = { .tv_sec = GONE_SECS };
	long r;

	/* poll(2) always reports a hangup; report each only once. */
	if (*gone && !p[0].events)
		p[0].fd = -1;
	if (!p[1].events)
		p[1].fd = -1;
	r = SYS_5(SYS_ppoll, p, 2, *gone ? &limit : 0, 0, 8);
	if (r == 0)
		return 0;
	/*
	 * The peer closed its socket, or both sides have ended: send the remaining data
	 * to the port.
	 */
	if (p[0].revents & (POLLHUP | POLLERR)) {
		*gone = 1;
		out.ended = out.finished = 1;
		out.n = 0;
	}
	return 1;
}

/* -EINPROGRESS: the time passed without a result. */
static long relay_await_connected(int fd, long secs)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	struct timespec limit = { .tv_sec = secs };
	int code = 0;
	unsigned size = sizeof(code);
	long r = SYS_5(SYS_ppoll, &p, 1, &limit, 0, 8);

	if (r > 0)
		r = SYS_5(SYS_getsockopt, fd, SOL_SOCKET, SO_ERROR, &code, &size);
	else if (r == 0)
		r = -EINPROGRESS;
	return r < 0 ? r : -code;
}

static long connect_and_tell(int ipv6, int port)
{
	long fd = port > 0 && port < 65536 ? reach_dial((uint16_t)port, ipv6) : -EINVAL;
	long r = fd < 0 ? fd : relay_await_connected((int)fd, CONNECT_SECS);
	int code = r == -EINPROGRESS ? 0 : (int)-r;

	(void)sys_write(TELL, &code, sizeof(code));
	sys_close(TELL);
	if (r == -EINPROGRESS)
		r = relay_await_connected((int)fd, GONE_SECS);
	return r < 0 ? r : fd;
}

void relay_run(int ipv6, int port)
{
	long fd = connect_and_tell(ipv6, port);
	int gone = 0;

	if (fd < 0)
		sys_exit(1);
	in.from = out.to = OUTSIDE;
	in.to = out.from = (int)fd;
	for (;;) {
		relay_take(&in);
		relay_give(&in);
		relay_take(&out);
		relay_give(&out);
		if ((in.finished && out.finished) || !relay_await(&gone))
			break;
	}
	for (;;)
		sys_exit(0);
}
