/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup.c - queries of names: choose the next one, and deliver results
 *
 * Results are delivered by a task, a few at a time: thousands of connections may wait for
 * one name, and each of them then connects.
 */
#include "egress/lookup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "network/host.h"

#define LOOKUP_BUCKETS 64
/* Number of results that are delivered in one turn of the loop. */
#define LOOKUP_TURN 16
/* Credit for a query; the rate is credit per ms. */
#define LOOKUP_COST UINT64_C(1000)

enum lookup_state {
	LOOKUP_WAITING, /* in the queue of its client; then LOOKUP_RUNNING */
	LOOKUP_RUNNING, /* the resolver has it; then LOOKUP_FINISHED */
	/* In the queue of results; freed when all lookups have the result. */
	LOOKUP_FINISHED,
};

/* A query of a name, and the lookups that get its result. */
struct lookup_query {
	struct lookup_query *next, **prev;             /* in a bucket; NULL: finished */
	struct lookup_query *queue_next, **queue_prev; /* waiting, or finished */
	struct lookup_client *client;
	enum lookup_state state;
	struct resolver_query *running;
	struct lookup *lookups, **tail;
	enum resolver_status status;
	size_t n;
	union resolver_address addresses[RESOLVER_ADDRESSES_MAX];
	char name[];
};

struct lookup_negative {
	char *name;
	enum resolver_status status;
	uint64_t until; /* ms of the loop's clock */
};

struct lookup_client {
	struct lookups *all;
	/* In the ring of clients that take turns; NULL: there is nothing to start. */
	struct lookup_client *turn_next, **turn_prev;
	struct lookup_query *buckets[LOOKUP_BUCKETS]; /* waiting and running */
	struct lookup_query *waiting, **waiting_tail;
	size_t n_waiting, n_running;
	uint64_t rate, credit;
	uint64_t credited;        /* ms of the loop's clock */
	struct loop_timer *timer; /* fires when there is credit for a query again */
	lookup_event_fn *event;
	void *event_ctx;
	struct lookup_negative negative[LOOKUP_NEGATIVE_MAX];
	size_t next_negative; /* the row that is replaced next */
};

struct lookups {
	struct net_loop *loop;
	struct lookup_resolver resolver;
	struct lookup_client *turn, **turn_tail;
	size_t n_running;
	struct lookup_query *finished, **finished_tail;
	struct loop_task task; /* delivers results */
};

/* ------------------------------------------------------------------------- queries */

static struct lookup_query **lookup_bucket(struct lookup_client *c, const char *name)
{
	uint32_t h = 2166136261U; /* FNV-1a */

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 16777619U;
	return &c->buckets[h % LOOKUP_BUCKETS];
}

static struct lookup_query *lookup_find(struct lookup_client *c, const char *name)
{
	struct lookup_query *q = *lookup_bucket(c, name);

	while (q && strcmp(q->name, name) != 0)
		q = q->next;
	return q;
}

static struct lookup_query *lookup_query_new(struct lookup_client *c, const char *name)
{
	size_t n = strlen(name) + 1;
	struct lookup_query *q = n > HOST_TEXT_SIZE ? NULL : calloc(1, sizeof(*q) + n);

	if (!q)
		return NULL;
	q->client = c;
	q->tail = &q->lookups;
	(void)memcpy(q->name, name, n);
	return q;
}

static void lookup_query_finish(struct lookup_query *q, enum resolver_status status)
{
	struct lookups *all = q->client->all;

	if (q->prev)
		DLIST_REMOVE(q);
	q->state = LOOKUP_FINISHED;
	q->status = status;
	DQUEUE_PUT_BY(all->finished_tail, q, queue_next, queue_prev);
	loop_later(all->loop, &all->task);
}

static void lookup_query_free(struct lookup_query *q)
{
	struct lookup_client *c = q->client;

	if (q->prev)
		DLIST_REMOVE(q);
	if (q->state == LOOKUP_WAITING) {
		DQUEUE_REMOVE_BY(c->waiting_tail, q, queue_next, queue_prev);
		c->n_waiting--;
	} else if (q->state == LOOKUP_FINISHED) {
		DQUEUE_REMOVE_BY(c->all->finished_tail, q, queue_next, queue_prev);
	} else {
		(void)c->all->resolver.cancel(q->running);
		c->n_running--;
		c->all->n_running--;
	}
	free(q);
}

/* --------------------------------------------------------------------------- turns */

static uint64_t lookup_burst(const struct lookup_client *c)
{
	return c->rate * LOOKUP_BURST_S * LOOKUP_COST;
}

/* Add the credit of the time that has passed, and return how many queries it is for. */
static uint64_t lookup_credit(struct lookup_client *c)
{
	uint64_t now = loop_now(c->all->loop), ms = now - c->credited;

	/* After the time of a burst, the credit is complete anyway. */
	if (ms > LOOKUP_BURST_S * 1000)
		ms = LOOKUP_BURST_S * 1000;
	c->credited = now;
	c->credit += c->rate * ms;
	if (c->credit > lookup_burst(c))
		c->credit = lookup_burst(c);
	return c->credit / LOOKUP_COST;
}

/*
 * A client is in the ring while it has a query that it may start. If only the rate
 * prevents this, the timer puts it there.
 */
static void lookup_client_update(struct lookup_client *c)
{
	bool able = c->waiting && c->n_running < LOOKUP_QUERIES_EACH;
	bool ready = able && lookup_credit(c) > 0;

	if (able && !ready)
		loop_timer_set(c->timer,
			       (LOOKUP_COST - c->credit + c->rate - 1) / c->rate);
	if (ready && !c->turn_prev)
		DQUEUE_PUT_BY(c->all->turn_tail, c, turn_next, turn_prev);
	else if (!ready && c->turn_prev)
		DQUEUE_REMOVE_BY(c->all->turn_tail, c, turn_next, turn_prev);
}

static void lookup_client_count(struct lookup_client *c, enum lookup_event event)
{
	if (c->event)
		c->event(c->event_ctx, event);
}

static void lookup_on_resolved(void *ctx, enum resolver_status status,
			       const union resolver_address *addresses, size_t n);

static void lookup_run(struct lookup_query *q)
{
	struct lookup_client *c = q->client;
	const struct lookup_resolver *r = &c->all->resolver;

	DQUEUE_REMOVE_BY(c->waiting_tail, q, queue_next, queue_prev);
	c->n_waiting--;
	c->credit -= LOOKUP_COST;
	lookup_client_count(c, LOOKUP_QUERIED);
	q->running = r->start(r->ctx, q->name, lookup_on_resolved, q);
	if (!q->running) {
		lookup_query_finish(q, RESOLVER_FAILED);
		return;
	}
	q->state = LOOKUP_RUNNING;
	c->n_running++;
	c->all->n_running++;
}

static void lookups_run(struct lookups *all)
{
	while (all->turn && all->n_running < LOOKUP_QUERIES_ALL) {
		struct lookup_client *c = all->turn;

		/* Its next turn comes after those of all others. It is in the queue: */
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
		DQUEUE_REMOVE_BY(all->turn_tail, c, turn_next, turn_prev);
		lookup_run(c->waiting);
		lookup_client_update(c);
	}
}

static void lookup_on_credit(void *ctx)
{
	struct lookup_client *c = ctx;

	lookup_client_update(c);
	lookups_run(c->all);
}

/* ------------------------------------------------------------------------- results */

static void lookup_remember(struct lookup_client *c, const struct lookup_query *q)
{
	struct lookup_negative *row = &c->negative[c->next_negative];

	if (q->status != RESOLVER_NO_NAME && q->status != RESOLVER_NO_DATA)
		return;
	c->next_negative = (c->next_negative + 1) % LOOKUP_NEGATIVE_MAX;
	free(row->name);
	row->name = strdup(q->name);
	row->status = q->status;
	row->until = loop_now(c->all->loop) + LOOKUP_NEGATIVE_MS;
}

static const struct lookup_negative *lookup_known(const struct lookup_client *c,
						  const char *name)
{
	uint64_t now = loop_now(c->all->loop);

	for (size_t i = 0; i < LOOKUP_NEGATIVE_MAX; i++) {
		const struct lookup_negative *row = &c->negative[i];

		if (row->name && row->until > now && strcmp(row->name, name) == 0)
			return row;
	}
	return NULL;
}

static void lookup_on_resolved(void *ctx, enum resolver_status status,
			       const union resolver_address *addresses, size_t n)
{
	struct lookup_query *q = ctx;
	struct lookup_client *c = q->client;

	q->running = NULL;
	c->n_running--;
	c->all->n_running--;
	q->n = n < RESOLVER_ADDRESSES_MAX ? n : RESOLVER_ADDRESSES_MAX;
	if (q->n > 0)
		(void)memcpy(q->addresses, addresses, q->n * sizeof(*addresses));
	lookup_query_finish(q, status);
	lookup_remember(c, q);
	lookup_client_update(c);
	lookups_run(c->all);
}

/* The functions may start and cancel lookups, but not free a client. */
static void lookups_deliver(void *ctx)
{
	struct lookups *all = ctx;
	struct lookup_query *q = all->finished;

	for (int i = 0; q && q->lookups && i < LOOKUP_TURN; i++) {
		struct lookup *l = q->lookups;

		lookup_cancel(l);
		l->done(l->ctx, q->status, q->addresses, q->n);
	}
	if (q && q->lookups) {
		DQUEUE_REMOVE_BY(all->finished_tail, q, queue_next, queue_prev);
		DQUEUE_PUT_BY(all->finished_tail, q, queue_next, queue_prev);
	} else if (q) {
		lookup_query_free(q);
	}
	if (all->finished)
		loop_later(all->loop, &all->task);
}

/* ----------------------------------------------------------------------- interface */

/* May another query join those that wait? Counts it if the rate makes it wait. */
static bool lookup_admit(struct lookup_client *c, enum lookup_patience patience)
{
	uint64_t soon = lookup_credit(c);

	if (c->n_waiting >= LOOKUP_WAITING_MAX)
		return false;
	if (c->n_waiting < soon)
		return true;
	lookup_client_count(c, LOOKUP_LIMITED);
	return patience == LOOKUP_WAITS || c->n_waiting < soon + c->rate;
}

static struct lookup_query *lookup_join(struct lookup_client *c, const char *name,
					enum lookup_patience patience)
{
	const struct lookup_negative *known = lookup_known(c, name);
	struct lookup_query *q = known ? NULL : lookup_find(c, name);

	if (q || (!known && !lookup_admit(c, patience)))
		return q;
	q = lookup_query_new(c, name);
	if (!q)
		return NULL;
	if (known) {
		lookup_query_finish(q, known->status);
		return q;
	}
	DLIST_PUSH(*lookup_bucket(c, name), q);
	DQUEUE_PUT_BY(c->waiting_tail, q, queue_next, queue_prev);
	c->n_waiting++;
	return q;
}

bool lookup_start(struct lookup *l, struct lookup_client *c, const char *name,
		  enum lookup_patience patience, resolver_done_fn *done, void *ctx)
{
	struct lookup_query *q = lookup_join(c, name, patience);

	if (!q)
		return false;
	*l = (struct lookup){ .query = q, .done = done, .ctx = ctx };
	DQUEUE_PUT_BY(q->tail, l, next, prev);
	lookup_client_update(c);
	lookups_run(c->all);
	return true;
}

void lookup_cancel(struct lookup *l)
{
	struct lookup_query *q = l->query;
	struct lookup_client *c;

	if (!q)
		return;
	l->query = NULL;
	DQUEUE_REMOVE_BY(q->tail, l, next, prev);
	if (q->lookups || q->state != LOOKUP_WAITING)
		return;
	c = q->client;
	lookup_query_free(q);
	lookup_client_update(c);
}

int lookup_client_new(struct lookups *all, lookup_event_fn *event, void *ctx,
		      struct lookup_client **ret)
{
	struct lookup_client *c = calloc(1, sizeof(*c));

	if (!c || loop_timer_new(all->loop, lookup_on_credit, c, &c->timer) < 0) {
		free(c);
		return -ENOMEM;
	}
	c->all = all;
	c->waiting_tail = &c->waiting;
	c->event = event;
	c->event_ctx = ctx;
	c->rate = LOOKUP_RATE;
	c->credit = lookup_burst(c);
	c->credited = loop_now(all->loop);
	*ret = c;
	return 0;
}

void lookup_client_set_rate(struct lookup_client *c, uint64_t per_second)
{
	bool unused = lookup_credit(c) == lookup_burst(c) / LOOKUP_COST;

	c->rate = per_second < LOOKUP_RATE_MAX ? per_second : LOOKUP_RATE_MAX;
	if (unused || c->credit > lookup_burst(c))
		c->credit = lookup_burst(c);
	lookup_client_update(c);
	lookups_run(c->all);
}

struct lookup_client *lookup_client_free(struct lookup_client *c)
{
	if (!c)
		return NULL;
	for (struct lookup_query *q = c->all->finished, *next; q; q = next) {
		next = q->queue_next;
		if (q->client == c)
			lookup_query_free(q);
	}
	for (size_t i = 0; i < LOOKUP_BUCKETS; i++)
		while (c->buckets[i])
			lookup_query_free(c->buckets[i]);
	lookup_client_update(c);
	lookups_run(c->all);
	for (size_t i = 0; i < LOOKUP_NEGATIVE_MAX; i++)
		free(c->negative[i].name);
	c->timer = loop_timer_free(c->timer);
	free(c);
	return NULL;
}

int lookups_new(struct net_loop *loop, const struct lookup_resolver *resolver,
		struct lookups **ret)
{
	struct lookups *all = calloc(1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	all->loop = loop;
	all->resolver = *resolver;
	all->turn_tail = &all->turn;
	all->finished_tail = &all->finished;
	all->task.fn = lookups_deliver;
	all->task.ctx = all;
	*ret = all;
	return 0;
}

struct lookups *lookups_free(struct lookups *all)
{
	if (!all)
		return NULL;
	loop_task_cancel(&all->task);
	free(all);
	return NULL;
}
