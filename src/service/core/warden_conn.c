/* SPDX-License-Identifier: Apache-2.0 */
/* warden_conn.c - requests to the warden and their replies, in whatever order they come */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "service/core/internal.h"
#include "proto/warden_proto.h"

#define PAUSE_MS 10 /* before the next try, when memory is short */

/* A request that waits for room in the socket. */
struct link_out {
	struct link_out *next;
	size_t size;
	char data[];
};

/* What waits goes when there is room, or after a moment when memory is short. */
static void link_flush(struct link *l)
{
	int r = 0;

	while (l->out && l->sock >= 0) {
		struct link_out *o = l->out;

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
	link_flush(ctx);
}

/* Replies come about in the order of the requests, which is that of the list. */
static struct link_ask *take_ask(struct link *l, uint32_t seq)
{
	for (struct link_ask **p = &l->asks; *p; p = &(*p)->next) {
		if ((*p)->seq == seq) {
			struct link_ask *a = *p;

			*p = a->next;
			if (!a->next)
				l->asks_tail = p;
			return a;
		}
	}
	return NULL;
}

/* @lost: it came with a descriptor that we had no room for. */
static void hear(struct link *l, struct wire_reply *reply, size_t size, int fd, bool lost)
{
	struct link_ask *a = NULL;

	if (size >= sizeof(reply->h) && reply->h.type == WIRE_STOCK)
		stock_hear(l->service, (const void *)reply, size);
	if (size >= sizeof(*reply) && reply->h.type == WIRE_REPLY &&
	    reply->size == size - sizeof(*reply))
		a = take_ask(l, reply->h.seq);
	if (!a) {
		if (fd >= 0)
			(void)close(fd);
		return;
	}
	reply->err.msg[sizeof(reply->err.msg) - 1] = '\0';
	if (lost && !reply->err.code)
		(void)error_set(&reply->err, EMFILE,
				"the service has too many open files to take the "
				"sandbox's connection; try again later");
	a->fn(a->ctx, reply->err.code ? &reply->err : NULL, reply->data, reply->size, fd);
	free(a);
}

static void on_link(void *ctx, unsigned events)
{
	static _Alignas(8) char msg[2 * WIRE_MESSAGE_MAX];
	struct link *l = ctx;

	if (events & LOOP_WRITE)
		link_flush(l);
	for (int i = 0; i < READ_AT_ONCE && l->sock >= 0; i++) {
		size_t n_fds = 1;
		bool lost = false;
		int fd = -1;
		ssize_t n = fd_recv_some(l->sock, msg, sizeof(msg), &fd, &n_fds,
					 MSG_DONTWAIT, &lost);

		if (n == -EAGAIN || n == -EINTR)
			return;
		/* Memory that is short for a moment, or a message that is none: not its end. */
		if (n == -ENOMEM || n == -ENOBUFS || n == -EMSGSIZE)
			continue;
		if (n <= 0) {
			(void)loop_watch_set(l->watch, 0);
			if (l->ended)
				l->ended(l->ctx);
			return;
		}
		hear(l, (struct wire_reply *)(void *)msg, (size_t)n, n_fds > 0 ? fd : -1,
		     lost);
	}
}

int link_open(struct service *s, int sock, struct warren_error *err)
{
	int r;

	s->link.sock = sock;
	s->link.service = s;
	s->link.out_tail = &s->link.out;
	s->link.asks_tail = &s->link.asks;
	r = loop_timer_new(s->loop, on_link_timer, &s->link, &s->link.timer);
	if (r == 0)
		r = loop_watch(s->loop, sock, LOOP_READ, on_link, &s->link,
			       &s->link.watch);
	return r < 0 ? error_errno(err, -r, "watch the warden's connection") : 0;
}

void link_close(struct service *s)
{
	struct link *l = &s->link;
	struct warren_error gone = WARREN_ERROR_INIT;

	s->closing = true;
	(void)error_set(&gone, ESHUTDOWN, "the service is about to stop");
	l->watch = loop_watch_free(l->watch);
	l->timer = loop_timer_free(l->timer);
	if (l->sock >= 0)
		(void)close(TAKE_FD(l->sock));
	while (l->asks) {
		struct link_ask *a = take_ask(l, l->asks->seq);

		a->fn(a->ctx, &gone, NULL, 0, -1);
		free(a);
	}
	while (l->out) {
		struct link_out *o = l->out;

		l->out = o->next;
		free(o);
	}
}

static int queue(struct link *l, const void *msg, size_t size)
{
	struct link_out *o = malloc(sizeof(*o) + size);

	if (!o)
		return -ENOMEM;
	o->next = NULL;
	o->size = size;
	(void)memcpy(o->data, msg, size);
	*l->out_tail = o;
	l->out_tail = &o->next;
	if (l->out == o) /* the first of them finds out for what it waits */
		link_flush(l);
	return 0;
}

int link_ask(struct service *s, void *msg, size_t size,
	     void (*fn)(void *ctx, const struct warren_error *err, const char *data,
			size_t size, int fd),
	     void *ctx)
{
	struct link *l = &s->link;
	struct link_ask *a = malloc(sizeof(*a));
	struct wire_header *h = msg;
	int r;

	if (!a)
		return -ENOMEM;
	h->seq = ++l->seq;
	*a = (struct link_ask){ .seq = h->seq, .fn = fn, .ctx = ctx };
	r = l->sock < 0 ? -ESHUTDOWN
	    : l->out    ? -EAGAIN
			: fd_send(l->sock, msg, size, NULL, 0);
	if (fd_may_send_again(r))
		r = queue(l, msg, size);
	if (r < 0) {
		free(a);
		return r == -EPIPE || r == -ECONNRESET ? -ESHUTDOWN : r;
	}
	*l->asks_tail = a;
	l->asks_tail = &a->next;
	return 0;
}

int link_ask_of(const struct box *box, void *msg, size_t size,
		void (*fn)(void *ctx, const struct warren_error *err, const char *data,
			   size_t size, int fd),
		void *ctx)
{
	struct wire_box *m = msg;
	int r = wire_put_backend(&m->h, box->row.backend);

	(void)memcpy(m->id, box->row.id, sizeof(box->row.id));
	wire_put_tenant(&m->h, box->row.owner);
	return r < 0 ? r : link_ask(box->service, msg, size, fn, ctx);
}
