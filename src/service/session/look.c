/* SPDX-License-Identifier: Apache-2.0 */
/*
 * look.c - tenants take turns with expensive searches
 *
 * A client's regular expression on endless output can keep the loop busy for as long as
 * there is output. So these searches take turns: all of them together take at most a
 * quarter of the service's time, and the next turn goes to another tenant if one waits. A
 * search of one tenant therefore waits only for the search in progress, no matter how
 * many searches another tenant has queued.
 */
#include "service/session/look.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "service/session/internal.h"

#define LOOK_AT_ONCE 1000000 /* maximum time of consecutive searches, in ns */
/* Length of the pause, as a multiple of the time of the searches. */
#define LOOK_PAUSE 3

struct look_tenant {
	struct look_tenant *next;
	struct look *first, **tail;
	char name[];
};

struct look_queue {
	struct look_tenant *first,
		**tail; /* the tenant whose turn is next; NULL: no searches */
	struct loop_timer *timer;
	bool armed;
	uint64_t next; /* time of the next search, in ns */
};

static void look_arm(struct look_queue *q)
{
	uint64_t now = clock_now();

	if (q->armed || !q->first)
		return;
	q->armed = true;
	loop_timer_set(q->timer, now < q->next ? (q->next - now) / 1000000 + 1 : 0);
}

/*
 * Take the next search of the next tenant; its other searches come after those of all
 * other tenants.
 */
static struct look *look_pop(struct look_queue *q)
{
	struct look_tenant *t = QUEUE_TAKE(q->first, q->tail);
	struct look *l = QUEUE_TAKE(t->first, t->tail);

	l->next = NULL;
	l->tenant = NULL;
	if (t->first)
		QUEUE_PUT(q->tail, t);
	else
		free(t);
	return l;
}

static void look_on_timer(void *ctx)
{
	struct look_queue *q = ctx;
	uint64_t begun = clock_now(), now = begun;

	q->armed = false;
	while (q->first && now >= q->next && now - begun < LOOK_AT_ONCE) {
		struct look *l = look_pop(q);

		l->fn(l->ctx); /* this call may free the search */
		now = clock_now();
	}
	if (now >= q->next)
		q->next = now + LOOK_PAUSE * (now - begun);
	look_arm(q);
}

static struct look_tenant *look_find_tenant(struct look_queue *q, const char *name)
{
	struct look_tenant *t = q->first;

	while (t && strcmp(t->name, name) != 0)
		t = t->next;
	if (t)
		return t;
	t = calloc(1, sizeof(*t) + strlen(name) + 1);
	if (!t)
		return NULL;
	(void)strcpy(t->name, name);
	t->tail = &t->first;
	QUEUE_PUT(q->tail, t);
	return t;
}

bool look_wait(struct service *s, struct look *l, const char *tenant)
{
	struct look_queue *q = service_sessions(s)->looks;
	struct look_tenant *t;

	if (l->tenant)
		return true;
	t = look_find_tenant(q, tenant);
	if (!t)
		return false;
	l->tenant = t;
	QUEUE_PUT(t->tail, l);
	look_arm(q);
	return true;
}

void look_cancel(struct service *s, struct look *l)
{
	struct look_queue *q = service_sessions(s)->looks;
	struct look_tenant *t = l->tenant, **at;
	struct look **p;

	if (!t)
		return;
	LIST_FIND(t->first, p, *p == l);
	(void)QUEUE_CUT(t->tail, p);
	l->next = NULL;
	l->tenant = NULL;
	if (t->first)
		return;
	LIST_FIND(q->first, at, *at == t);
	(void)QUEUE_CUT(q->tail, at);
	free(t);
}

int look_open(struct service *s)
{
	struct look_queue *q = calloc(1, sizeof(*q));
	int r;

	if (!q)
		return -ENOMEM;
	q->tail = &q->first;
	r = loop_timer_new(s->loop, look_on_timer, q, &q->timer);
	if (r < 0) {
		free(q);
		return r;
	}
	service_sessions(s)->looks = q;
	return 0;
}

void look_close(struct service *s)
{
	struct look_queue *q = TAKE_PTR(service_sessions(s)->looks);

	if (q)
		q->timer = loop_timer_free(q->timer);
	free(q);
}
