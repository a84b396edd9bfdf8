/* SPDX-License-Identifier: Apache-2.0 */
/* end.c - non-blocking reads and writes on one socket */
#include "egress/end.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/macro.h"
#include "egress/end_tls.h"

int end_open(struct end *e, struct net_loop *loop, int fd,
	     void (*fn)(void *ctx, unsigned events), void *ctx)
{
	int r;

	*e = (struct end){ .fd = fd };
	r = loop_watch(loop, fd, 0, fn, ctx, &e->watch);
	if (r < 0)
		end_close(e);
	return r;
}

void end_close(struct end *e)
{
	e->watch = loop_watch_free(e->watch);
	end_tls_free(e);
	if (e->fd >= 0)
		(void)close(e->fd);
	free(e->queue);
	*e = (struct end)END_INIT;
}

void end_reset(struct end *e)
{
	const struct linger now = { .l_onoff = 1, .l_linger = 0 };

	if (e->fd >= 0)
		(void)setsockopt(e->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	end_close(e);
}

void end_watch(struct end *e, unsigned events)
{
	if (e->fd < 0 || e->events == events)
		return;
	if (loop_watch_set(e->watch, events) == 0)
		e->events = events;
}

bool end_has_data(const struct end *e)
{
	return e->tls && end_tls_pending(e);
}

ssize_t end_read(struct end *e, void *data, size_t n)
{
	ssize_t got;

	if (e->tls) {
		got = end_tls_read(e, data, n);
	} else {
		do
			got = recv(e->fd, data, n, MSG_DONTWAIT);
		while (got < 0 && errno == EINTR);
		got = got < 0 ? -errno : got;
	}
	if (got == 0)
		e->ended = true;
	return got;
}

/* Return how many bytes the socket accepted; 0: none now. */
static ssize_t end_send(struct end *e, const char *data, size_t n)
{
	ssize_t sent;

	if (e->tls)
		return end_tls_send(e, data, n);
	do
		sent = send(e->fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent >= 0)
		return sent;
	return errno == EAGAIN ? 0 : -errno;
}

static int end_queue(struct end *e, const char *data, size_t n)
{
	char *queue;

	if (e->queue_len + n > END_QUEUE_MAX)
		return -ENOBUFS;
	queue = malloc(e->queue_len + n);
	if (!queue)
		return -ENOMEM;
	if (e->queue_len)
		(void)memcpy(queue, e->queue + e->queue_off, e->queue_len);
	(void)memcpy(queue + e->queue_len, data, n);
	free(e->queue);
	e->queue = queue;
	e->queue_off = 0;
	e->queue_len += n;
	return 0;
}

int end_write(struct end *e, const void *data, size_t n)
{
	ssize_t sent = 0;

	if (e->fd < 0 || e->finishing)
		return -EPIPE;
	if (!e->queue_len)
		sent = end_send(e, data, n);
	if (sent < 0)
		return (int)sent;
	return (size_t)sent == n
		       ? 0
		       : end_queue(e, (const char *)data + sent, n - (size_t)sent);
}

static void end_shut(struct end *e)
{
	if (!e->finishing || e->finished || e->queue_len)
		return;
	e->finished = true;
	if (e->tls && !e->cut)
		end_tls_shut(e);
	(void)shutdown(e->fd, SHUT_WR);
}

int end_flush(struct end *e)
{
	ssize_t sent;

	if (e->queue_len) {
		sent = end_send(e, e->queue + e->queue_off, e->queue_len);
		if (sent < 0)
			return (int)sent;
		e->queue_off += (size_t)sent;
		e->queue_len -= (size_t)sent;
	}
	if (!e->queue_len) {
		free(e->queue);
		e->queue = NULL;
		e->queue_off = 0;
		end_shut(e);
	}
	return 0;
}

void end_finish(struct end *e)
{
	e->finishing = true;
	if (e->fd >= 0)
		end_shut(e);
}
