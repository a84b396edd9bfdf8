/* SPDX-License-Identifier: Apache-2.0 */
/* warden_conn.c - requests to the warden and their replies, in any order */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/list.h"
#include "proto/warden_proto.h"
#include "service/core/internal.h"

#define PAUSE_MS 10 /* time before the next try, when memory is short */

/* A request that waits for space in the socket. */
struct warden_conn_out {
	struct warden_conn_out *next;
	size_t size;
	char data[];
};

/* Send waiting requests when there is space, or after a moment if memory is short. */
static void warden_conn_flush(struct warden_conn *l)
{
	int r = 0;

	while (l->out && l->sock >= 0) {
		struct warden_conn_out *o = l->out;

		r = fd_send(l->sock, o->data, o->size, NULL, 0);
		if (fd_may_send_again(r))
			break;
		l->out = o->next;
		if (!l->out)
			l->out_tail = &l->out;
		free(o);
	}
	if (l->watch)
		(void)loop_watch_set(
			l->watch, LOOP_READ | (l->out && r == -EAGAIN ? LOOP_WRITE : 0U));
	if (l->out && r != -EAGAIN)
		loop_timer_set(l->timer, PAUSE_MS);
}

static void on_link_timer(void *ctx)
{
	warden_conn_flush(ctx);
}

/* Search from the front: replies arrive roughly in the order of the requests, which is
 * the order of the list. */
static struct warden_conn_ask *warden_conn_take_ask(struct warden_conn *l, uint32_t seq)
{
	struct warden_conn_ask **p;

	LIST_FIND(l->asks, p, (*p)->seq == seq);
	return QUEUE_CUT(l->asks_tail, p);
}

/* @lost: a descriptor of the reply could not be received. */
static void warden_conn_hear(struct warden_conn *l, struct warden_proto_reply *reply,
			     size_t size, int fd, bool lost)
{
	struct warden_conn_ask *a = NULL;

	if (size >= sizeof(reply->h) && reply->h.type == WIRE_STOCK)
		pool_ids_hear(l->service, (const void *)reply, size);
	if (size >= sizeof(*reply) && reply->h.type == WIRE_REPLY &&
	    reply->size == size - sizeof(*reply))
		a = warden_conn_take_ask(l, reply->h.seq);
	if (!a) {
		if (fd >= 0)
			(void)close(fd);
		return;
	}
	reply->err.msg[sizeof(reply->err.msg) - 1] = '\0';
	if (lost && !reply->err.code)
		(void)error_set(&reply->err, EMFILE,
				"the service has too many open files to accept the "
				"sandbox's connection; try again later");
	a->fn(a->ctx, reply->err.code ? &reply->err : NULL, reply->data, reply->size, fd);
	free(a);
}

static void on_link(void *ctx, unsigned events)
{
	static _Alignas(8) char msg[2 * WIRE_MESSAGE_MAX];
	struct warden_conn *l = ctx;

	if (events & LOOP_WRITE)
		warden_conn_flush(l);
	for (int i = 0; i < READ_AT_ONCE && l->sock >= 0; i++) {
		size_t n_fds = 1;
		bool lost = false;
		int fd = -1;
		ssize_t n = fd_recv_some(l->sock, msg, sizeof(msg), &fd, &n_fds,
					 MSG_DONTWAIT, &lost);

		if (n == -EAGAIN || n == -EINTR)
			return;
		/*
		 * A temporary lack of memory or an invalid message does not end the
		 * connection.
		 */
		if (n == -ENOMEM || n == -ENOBUFS || n == -EMSGSIZE)
			continue;
		if (n <= 0) {
			(void)loop_watch_set(l->watch, 0);
			if (l->ended)
				l->ended(l->ctx);
			return;
		}
		warden_conn_hear(l, (struct warden_proto_reply *)(void *)msg, (size_t)n,
				 n_fds > 0 ? fd : -1, lost);
	}
}

int warden_conn_open(struct service *s, int sock, struct warren_error *err)
{
	int r;

	s->warden_conn.sock = sock;
	s->warden_conn.service = s;
	s->warden_conn.out_tail = &s->warden_conn.out;
	s->warden_conn.asks_tail = &s->warden_conn.asks;
	r = loop_timer_new(s->loop, on_link_timer, &s->warden_conn,
			   &s->warden_conn.timer);
	if (r == 0)
		r = loop_watch(s->loop, sock, LOOP_READ, on_link, &s->warden_conn,
			       &s->warden_conn.watch);
	return r < 0 ? error_errno(err, -r, "watch the warden's connection") : 0;
}

void warden_conn_close(struct service *s)
{
	struct warden_conn *l = &s->warden_conn;
	struct warren_error gone = WARREN_ERROR_INIT;

	s->closing = true;
	(void)error_set(&gone, ESHUTDOWN, "the service is stopping");
	l->watch = loop_watch_free(l->watch);
	l->timer = loop_timer_free(l->timer);
	if (l->sock >= 0)
		(void)close(TAKE_FD(l->sock));
	while (l->asks) {
		struct warden_conn_ask *a = l->asks;

		l->asks = a->next;
		if (!l->asks)
			l->asks_tail = &l->asks;
		a->fn(a->ctx, &gone, NULL, 0, -1);
		free(a);
	}
	while (l->out) {
		struct warden_conn_out *o = l->out;

		l->out = o->next;
		free(o);
	}
}

static int warden_conn_queue(struct warden_conn *l, const void *msg, size_t size)
{
	struct warden_conn_out *o = malloc(sizeof(*o) + size);

	if (!o)
		return -ENOMEM;
	o->next = NULL;
	o->size = size;
	(void)memcpy(o->data, msg, size);
	*l->out_tail = o;
	l->out_tail = &o->next;
	if (l->out == o) /* for the first one, start to wait for space */
		warden_conn_flush(l);
	return 0;
}

int warden_conn_ask(struct service *s, void *msg, size_t size,
		    void (*fn)(void *ctx, const struct warren_error *err,
			       const char *data, size_t size, int fd),
		    void *ctx)
{
	struct warden_conn *l = &s->warden_conn;
	struct warden_conn_ask *a = malloc(sizeof(*a));
	struct warden_proto_header *h = msg;
	int r;

	if (!a)
		return -ENOMEM;
	h->seq = ++l->seq;
	*a = (struct warden_conn_ask){ .seq = h->seq, .fn = fn, .ctx = ctx };
	r = l->sock < 0 ? -ESHUTDOWN
	    : l->out    ? -EAGAIN
			: fd_send(l->sock, msg, size, NULL, 0);
	if (fd_may_send_again(r))
		r = warden_conn_queue(l, msg, size);
	if (r < 0) {
		free(a);
		return r == -EPIPE || r == -ECONNRESET ? -ESHUTDOWN : r;
	}
	*l->asks_tail = a;
	l->asks_tail = &a->next;
	return 0;
}

int warden_conn_ask_of(const struct sandbox *sandbox, void *msg, size_t size,
		       void (*fn)(void *ctx, const struct warren_error *err,
				  const char *data, size_t size, int fd),
		       void *ctx)
{
	struct warden_proto_sandbox *m = msg;
	int r = warden_proto_put_backend(&m->h, sandbox->row.backend);

	(void)memcpy(m->id, sandbox->row.id, sizeof(sandbox->row.id));
	warden_proto_put_tenant(&m->h, sandbox->row.owner);
	return r < 0 ? r : warden_conn_ask(sandbox->service, msg, size, fn, ctx);
}
