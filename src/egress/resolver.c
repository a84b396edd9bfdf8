/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resolver.c - c-ares in the event loop
 *
 * c-ares reports which of its sockets to watch. The loop calls c-ares when they are
 * ready, and when a timeout has passed. c-ares may report a result before
 * ares_getaddrinfo() returns, so a task delivers the results. It cannot cancel a single
 * query: a cancelled query continues to exist, without an owner, until c-ares has
 * finished it.
 */
#include "egress/resolver.h"

#include <ares.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/list.h"

#define RESOLVER_TRY_MS   2000
#define RESOLVER_TRIES    2
#define RESOLVER_RECHECK  5000 /* time between two checks of /etc/resolv.conf, in ms */
#define RESOLVER_CONF     "/etc/resolv.conf"
#define RESOLVER_TICK_MAX 1000 /* time between two checks for timeouts, in ms */

struct resolver_socket {
	struct resolver_socket *next, **prev;
	struct resolver *resolver;
	struct loop_watch *watch;
	int fd;
};

struct resolver {
	struct net_loop *loop;
	struct loop_timer *timer;
	ares_channel channel;
	struct resolver_socket *sockets;
	char *servers;
	size_t n_queries; /* number of queries of c-ares */
	uint64_t checked; /* time of the last check of /etc/resolv.conf */
	struct timespec changed;
};

struct resolver_query {
	struct resolver *resolver;
	resolver_done_fn *done; /* NULL: cancelled */
	void *ctx;
	struct loop_task task;
	enum resolver_status status;
	bool finished; /* c-ares has reported a result */
	size_t n;
	union resolver_address addresses[RESOLVER_ADDRESSES_MAX];
};

/* ----------------------------------------------------------- sockets and timeouts */

static void resolver_tick(struct resolver *r)
{
	struct timeval most = { .tv_sec = RESOLVER_TICK_MAX / 1000 }, tv;

	if (r->n_queries == 0) {
		loop_timer_stop(r->timer);
		return;
	}
	(void)ares_timeout(r->channel, &most, &tv);
	loop_timer_set(r->timer,
		       (uint64_t)tv.tv_sec * 1000 + (uint64_t)tv.tv_usec / 1000 + 1);
}

static void resolver_on_timer(void *ctx)
{
	struct resolver *r = ctx;

	ares_process_fd(r->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	resolver_tick(r);
}

static void resolver_on_socket(void *ctx, unsigned events)
{
	const struct resolver_socket *s = ctx;
	struct resolver *r = s->resolver;
	int fd = s->fd;

	ares_process_fd(r->channel, events & LOOP_READ ? fd : ARES_SOCKET_BAD,
			events & LOOP_WRITE ? fd : ARES_SOCKET_BAD);
	resolver_tick(r);
}

static void resolver_socket_free(struct resolver_socket *s)
{
	s->watch = loop_watch_free(s->watch);
	DLIST_REMOVE(s);
	free(s);
}

static struct resolver_socket *resolver_socket_new(struct resolver *r, int fd,
						   unsigned events)
{
	struct resolver_socket *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->resolver = r;
	s->fd = fd;
	if (loop_watch(r->loop, fd, events, resolver_on_socket, s, &s->watch) < 0) {
		free(s);
		return NULL;
	}
	DLIST_PUSH(r->sockets, s);
	return s;
}

/* c-ares asks to watch a socket for events. If there are none, it is about to close the
 * socket. */
static void resolver_on_state(void *ctx, ares_socket_t fd, int readable, int writable)
{
	struct resolver *r = ctx;
	unsigned events = (readable ? LOOP_READ : 0U) | (writable ? LOOP_WRITE : 0U);
	struct resolver_socket *s = r->sockets;

	while (s && s->fd != fd)
		s = s->next;
	if (!events && s)
		resolver_socket_free(s);
	else if (events && s)
		(void)loop_watch_set(s->watch, events);
	else if (events)
		/* If this fails, the query times out. */
		(void)resolver_socket_new(r, fd, events);
}

/* ------------------------------------------------------------------------ queries */

static void resolver_deliver(void *ctx)
{
	struct resolver_query *q = ctx;

	if (q->done)
		q->done(q->ctx, q->status, q->addresses, q->n);
	free(q);
}

static enum resolver_status resolver_status_of(int status)
{
	if (status == ARES_SUCCESS || status == ARES_ENODATA)
		return RESOLVER_NO_DATA; /* this applies only if there are no addresses */
	if (status == ARES_ENOTFOUND || status == ARES_EBADNAME)
		return RESOLVER_NO_NAME;
	return RESOLVER_FAILED;
}

static void resolver_on_result(void *ctx, int status, int timeouts UNUSED,
			       struct ares_addrinfo *info)
{
	struct resolver_query *q = ctx;

	q->status = resolver_status_of(status);
	for (const struct ares_addrinfo_node *a = info ? info->nodes : NULL;
	     a && q->n < RESOLVER_ADDRESSES_MAX; a = a->ai_next) {
		if ((a->ai_family != AF_INET && a->ai_family != AF_INET6) ||
		    a->ai_addrlen > sizeof(q->addresses[0]))
			continue;
		(void)memcpy(&q->addresses[q->n++], a->ai_addr, a->ai_addrlen);
		q->status = RESOLVER_OK;
	}
	ares_freeaddrinfo(info);
	q->finished = true;
	q->resolver->n_queries--;
	loop_defer(q->resolver->loop, &q->task);
}

static int resolver_open(struct resolver *r)
{
	struct ares_options o = { .flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
				  .timeout = RESOLVER_TRY_MS,
				  .tries = RESOLVER_TRIES,
				  .sock_state_cb = resolver_on_state,
				  .sock_state_cb_data = r };
	int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES |
		   ARES_OPT_SOCK_STATE_CB;
	int status = ares_init_options(&r->channel, &o, mask);

	if (status != ARES_SUCCESS) {
		r->channel = NULL;
		return status == ARES_ENOMEM ? -ENOMEM : -EIO;
	}
	if (r->servers &&
	    ares_set_servers_ports_csv(r->channel, r->servers) != ARES_SUCCESS)
		return -EINVAL;
	return 0;
}

/* Check whether the servers have changed, for example because a laptop is in another
 * network. */
static void resolver_recheck(struct resolver *r)
{
	struct stat st;

	if (r->servers || r->n_queries > 0 ||
	    loop_now(r->loop) < r->checked + RESOLVER_RECHECK)
		return;
	r->checked = loop_now(r->loop);
	if (stat(RESOLVER_CONF, &st) < 0 || (st.st_mtim.tv_sec == r->changed.tv_sec &&
					     st.st_mtim.tv_nsec == r->changed.tv_nsec))
		return;
	r->changed = st.st_mtim;
	if (r->channel)
		ares_destroy(r->channel);
	(void)resolver_open(r);
}

struct resolver_query *resolver_lookup(struct resolver *r, const char *name,
				       resolver_done_fn *done, void *ctx)
{
	const struct ares_addrinfo_hints hints = { .ai_family = AF_UNSPEC,
						   .ai_socktype = SOCK_STREAM };
	struct resolver_query *q;

	resolver_recheck(r);
	if (!r->channel || r->n_queries >= RESOLVER_QUERIES_MAX)
		return NULL;
	q = calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	*q = (struct resolver_query){ .resolver = r, .done = done, .ctx = ctx };
	q->task.fn = resolver_deliver;
	q->task.ctx = q;
	r->n_queries++;
	ares_getaddrinfo(r->channel, name, NULL, &hints, resolver_on_result, q);
	resolver_tick(r);
	return q;
}

struct resolver_query *resolver_cancel(struct resolver_query *q)
{
	if (!q)
		return NULL;
	q->done = NULL;
	if (q->finished) {
		loop_task_cancel(&q->task);
		free(q);
	}
	return NULL;
}

int resolver_new(struct net_loop *loop, const char *servers, struct resolver **ret,
		 struct warren_error *err)
{
	struct resolver *r = calloc(1, sizeof(*r));
	struct stat st;
	int e = r ? 0 : -ENOMEM;

	if (r) {
		r->loop = loop;
		r->servers = servers ? strdup(servers) : NULL;
		if (stat(RESOLVER_CONF, &st) == 0)
			r->changed = st.st_mtim;
		e = ares_library_init(ARES_LIB_INIT_ALL) == ARES_SUCCESS ? 0 : -ENOMEM;
	}
	if (e == 0)
		e = loop_timer_new(loop, resolver_on_timer, r, &r->timer);
	if (e == 0)
		e = resolver_open(r);
	if (e < 0) {
		(void)resolver_free(r);
		return error_errno(err, -e, "open a resolver");
	}
	*ret = r;
	return 0;
}

struct resolver *resolver_free(struct resolver *r)
{
	if (!r)
		return NULL;
	if (r->channel)
		ares_destroy(r->channel); /* reports all queries as failed */
	while (r->sockets)
		resolver_socket_free(r->sockets);
	r->timer = loop_timer_free(r->timer);
	free(r->servers);
	free(r);
	return NULL;
}
