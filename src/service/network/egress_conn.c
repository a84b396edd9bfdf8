/* SPDX-License-Identifier: Apache-2.0 */
/*
 * egress_conn.c - the connection to warren-egress: start it, send requests, receive its
 * replies and reports
 *
 * A process that is stopped or hangs keeps its connection. So the service sends a PING at
 * intervals, unless a request waits for its reply anyway. If nothing arrives for several
 * intervals, warren-egress is replaced: the warden kills it before it starts the next
 * one. The service counts intervals and does not measure the time: if this process itself
 * was delayed, it first reads the messages that have arrived.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "proto/warden_proto.h"
#include "service/network/internal.h"

#define WAIT_MS_MIN 50
#define WAIT_MS_BAD 400 /* an interval that is reached after several failed attempts */
#define WAIT_MS_MAX 5000
#define READ_MAX    64    /* maximum number of messages in one turn */
#define WELL_MS     10000 /* a process that ran for this time did not fail at its start */
#define LATE_MS     2000  /* maximum time that a client waits for an answer */
#define BEAT_MS     2000  /* interval of PING */
#define BEATS_MAX   5     /* intervals without a message, after which it is replaced */
#define RENEW_MS    10000 /* between two processes that try to create the authority */

struct egress_ask {
	struct egress_ask *next;
	uint64_t cookie;
	uint64_t until; /* ms of the loop's clock; 0: no limit, because it changes
			   something */
	egress_answer_fn fn;
	void *ctx;
};

static void egress_conn_fail_all(struct egress_conn *c)
{
	struct warren_error gone = WARREN_ERROR_INIT;
	struct egress_ask *all = c->asks;

	(void)error_set(&gone, ECONNRESET, "warren-egress has ended; try again");
	c->asks = NULL;
	c->asks_tail = &c->asks;
	while (all) {
		struct egress_ask *a = all;

		all = a->next;
		a->fn(a->ctx, &gone, NULL, 0);
		free(a);
	}
}

static void egress_conn_end(struct egress_conn *c)
{
	c->watch = loop_watch_free(c->watch);
	if (c->beat)
		loop_timer_stop(c->beat);
	if (c->sock >= 0)
		(void)close(TAKE_FD(c->sock));
	egress_conn_fail_all(c);
}

/* The sockets of warren-egress are closed when it ends: until it runs again, no sandbox
 * can reach anything. */
static void egress_conn_lost(struct egress_conn *c)
{
	struct service *s = c->service;

	if (c->sock >= 0 && !s->closing) {
		c->ends++;
		if (s->note)
			s->note(s->note_ctx,
				c->silent > BEATS_MAX
					? "warren-egress does not answer and is replaced; "
					  "the network of sandboxes with a policy is closed "
					  "until then"
					: "warren-egress ended; the network of sandboxes "
					  "with a policy is closed until it runs again");
	}
	if (loop_now(c->service->loop) - c->started_at > WELL_MS)
		c->wait_ms = 0;
	c->wait_ms = c->wait_ms ? c->wait_ms * 2 : WAIT_MS_MIN;
	if (c->wait_ms > WAIT_MS_MAX)
		c->wait_ms = WAIT_MS_MAX;
	/* Waiting requests get an error. The service continues to try, for the sandboxes
	 * that exist. */
	if (c->wait_ms >= WAIT_MS_BAD && !c->failure.code)
		(void)error_set(&c->failure, ECHILD,
				"warren-egress ends as soon as it is started; the log of "
				"the service says why");
	egress_conn_end(c);
	network_all_step(c->service, false);
	loop_timer_set(c->timer, c->wait_ms);
}

/* Take a request out of the list; NULL: there is none with this cookie. */
static struct egress_ask *egress_conn_take(struct egress_conn *c, uint64_t cookie)
{
	struct egress_ask **p = &c->asks, *a;

	while (*p && (*p)->cookie != cookie)
		p = &(*p)->next;
	a = *p;
	if (!a)
		return NULL;
	*p = a->next;
	if (c->asks_tail == &a->next)
		c->asks_tail = p;
	return a;
}

/*
 * The oldest request that only asks for information. Requests that change something have
 * no time limit.
 */
static struct egress_ask *egress_conn_first_question(const struct egress_conn *c)
{
	struct egress_ask *a = c->asks;

	while (a && a->until == 0)
		a = a->next;
	return a;
}

/* Clients of the service do not wait for a process that is stopped or overloaded. */
static void egress_conn_on_late(void *ctx)
{
	struct egress_conn *c = ctx;
	struct warren_error late = WARREN_ERROR_INIT;
	uint64_t now = loop_now(c->service->loop);
	struct egress_ask *a;

	(void)error_set(&late, ETIMEDOUT, "warren-egress does not answer");
	while ((a = egress_conn_first_question(c)) && a->until <= now) {
		(void)egress_conn_take(c, a->cookie);
		a->fn(a->ctx, &late, NULL, 0);
		free(a);
	}
	c->late_set = a;
	if (a)
		loop_timer_set(c->late, a->until - now);
}

static void egress_conn_hear_reply(struct egress_conn *c,
				   const struct egress_reply *reply, int fd)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct egress_ask *a = egress_conn_take(c, reply->h.cookie);
	AUTO_FREE char *text = NULL;
	const char *data = reply->data;
	size_t n = reply->size;

	if (!a)
		return;
	c->failure = (struct warren_error)WARREN_ERROR_INIT; /* it works */
	if (reply->err.code)
		err = reply->err;
	else if (fd >= 0 &&
		 egress_proto_read_memfd(fd, EGRESS_ANSWER_MAX, &text, &n, &err) == 0)
		data = text;
	a->fn(a->ctx, err.code ? &err : NULL, data, n);
	free(a);
}

static void egress_conn_hear(struct egress_conn *c, const void *msg, size_t size, int fd)
{
	const struct egress_header *h = msg;

	if (egress_proto_check_event(msg, size, fd >= 0) < 0)
		return;
	switch (h->type) {
	case EGRESS_REPLY:
		egress_conn_hear_reply(c, msg, fd);
		break;
	case EGRESS_USAGE:
		network_hear_usage(c->service, msg);
		break;
	case EGRESS_DENIED:
		network_hear_denied(c->service, msg);
		break;
	default:
		break;
	}
}

static void on_egress(void *ctx, unsigned events UNUSED)
{
	static _Alignas(8) char msg[EGRESS_MESSAGE_MAX];
	struct egress_conn *c = ctx;

	for (int i = 0; i < READ_MAX && c->sock >= 0; i++) {
		size_t n_fds = 1;
		int fd = -1;
		ssize_t n = fd_recv(c->sock, msg, sizeof(msg), &fd, &n_fds, MSG_DONTWAIT);

		if (n == -EAGAIN || n == -EINTR)
			return;
		if (n == -ENOMEM || n == -ENOBUFS || n == -EMSGSIZE)
			continue;
		if (n <= 0) {
			egress_conn_lost(c);
			return;
		}
		c->silent = 0;
		egress_conn_hear(c, msg, (size_t)n, n_fds > 0 ? fd : -1);
		if (n_fds > 0 && fd >= 0)
			(void)close(fd);
	}
}

static void egress_conn_pong(void *ctx UNUSED, const struct warren_error *err UNUSED,
			     const char *data UNUSED, size_t n UNUSED)
{
}

static void egress_conn_on_beat(void *ctx)
{
	struct egress_conn *c = ctx;
	struct egress_header ping = { .version = EGRESS_VERSION, .type = EGRESS_PING };

	on_egress(c, 0);
	if (c->sock < 0)
		return;
	if (++c->silent > BEATS_MAX) {
		egress_conn_lost(c);
		return;
	}
	/* If the connection is full, replies to the requests in it will arrive. */
	if (!c->asks)
		(void)egress_conn_ask(c->service, &ping, sizeof(ping), NULL, 0,
				      egress_conn_pong, NULL);
	loop_timer_set(c->beat, BEAT_MS);
}

static void on_egress_started(void *ctx, const struct warren_error *failure,
			      const char *data UNUSED, size_t size UNUSED, int fd)
{
	struct service *s = ctx;
	struct egress_conn *c = &service_network(s)->conn;
	int r;

	c->starting = false;
	if (s->closing) {
		if (fd >= 0)
			(void)close(fd);
		return;
	}
	c->started_at = loop_now(s->loop);
	if (failure || fd < 0) {
		if (failure)
			c->failure = *failure;
		egress_conn_lost(c);
		return;
	}
	c->sock = fd;
	c->silent = 0;
	loop_timer_set(c->beat, BEAT_MS);
	r = loop_watch(s->loop, fd, LOOP_READ, on_egress, c, &c->watch);
	if (r < 0) {
		(void)error_errno(&c->failure, -r, "watch warren-egress");
		egress_conn_lost(c);
		return;
	}
	network_all_step(s, true);
}

static void egress_conn_on_timer(void *ctx)
{
	struct egress_conn *c = ctx;

	/*
	 * This starts warren-egress, if a sandbox needs it. If another request has
	 * started it before, it serves the sandboxes already.
	 */
	if (c->sock < 0)
		network_all_step(c->service, false);
}

void egress_conn_start(struct service *s)
{
	struct egress_conn *c = &service_network(s)->conn;
	struct warden_proto_header msg = { .type = WIRE_EGRESS };
	int r;

	if (c->sock >= 0 || c->starting || s->closing)
		return;
	if (c->wait_ms && loop_now(s->loop) - c->started_at < c->wait_ms) {
		loop_timer_set(c->timer, c->wait_ms);
		return;
	}
	r = warden_conn_ask(s, &msg, sizeof(msg), on_egress_started, s);
	c->starting = r == 0;
	if (r < 0 && r != -ESHUTDOWN)
		loop_timer_set(c->timer, WAIT_MS_MAX);
}

/* Its connections break, but no sandbox can need the authority without it. */
bool egress_conn_renew(struct service *s)
{
	struct egress_conn *c = &service_network(s)->conn;
	uint64_t now = loop_now(s->loop);

	if (s->closing || (c->renewed_at && now - c->renewed_at < RENEW_MS))
		return false;
	c->renewed_at = now;
	if (s->note)
		s->note(s->note_ctx, "warren-egress has no certificate authority and is "
				     "restarted to create one");
	egress_conn_end(c);
	network_all_step(s, false);
	return true;
}

int egress_conn_open(struct service *s, struct warren_error *err)
{
	struct egress_conn *c = &service_network(s)->conn;
	int r;

	*c = (struct egress_conn){ .service = s, .sock = -1, .asks_tail = &c->asks };
	r = loop_timer_new(s->loop, egress_conn_on_timer, c, &c->timer);
	if (r == 0)
		r = loop_timer_new(s->loop, egress_conn_on_late, c, &c->late);
	if (r == 0)
		r = loop_timer_new(s->loop, egress_conn_on_beat, c, &c->beat);
	return r < 0 ? error_errno(err, -r, "start the service") : 0;
}

void egress_conn_close(struct service *s)
{
	struct egress_conn *c = &service_network(s)->conn;

	if (!c->service)
		return;
	egress_conn_end(c);
	c->timer = loop_timer_free(c->timer);
	c->late = loop_timer_free(c->late);
	c->beat = loop_timer_free(c->beat);
}

int egress_conn_ask(struct service *s, void *msg, size_t size, const int *fds,
		    size_t n_fds, egress_answer_fn fn, void *ctx)
{
	struct egress_conn *c = &service_network(s)->conn;
	struct egress_header *h = msg;
	struct egress_ask *a;
	int r;

	if (c->sock < 0)
		return -ENOTCONN;
	a = malloc(sizeof(*a));
	if (!a)
		return -ENOMEM;
	h->cookie = ++c->cookie;
	*a = (struct egress_ask){ .cookie = h->cookie, .fn = fn, .ctx = ctx };
	r = fd_send_now(c->sock, msg, size, fds, n_fds);
	if (r < 0) {
		free(a);
		return fd_may_send_again(r) ? -EAGAIN : -ENOTCONN;
	}
	*c->asks_tail = a;
	c->asks_tail = &a->next;
	if (h->type == EGRESS_QUERY || h->type == EGRESS_COUNT) {
		a->until = loop_now(s->loop) + LATE_MS;
		if (!c->late_set)
			loop_timer_set(c->late, LATE_MS);
		c->late_set = true;
	}
	return 0;
}

uint64_t network_egress_ends(const struct service *s)
{
	return service_network(s)->conn.ends;
}
