/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waiter.h - callbacks that wait for an event: an end, output, a state
 *
 * A waiter is its owner's memory, all zeros but for fn and ctx, until it was cancelled
 * or, if it is told once, was told. Whoever offers something to wait for keeps a list of
 * waiters.
 */
#ifndef BASE_WAITER_H
#define BASE_WAITER_H

#include "base/list.h"

struct waiters;

struct waiter {
	void (*fn)(struct waiter *w, void *of); /* @of is what it waited for */
	void *ctx;
	void *of;             /* private from here on */
	struct waiters *list; /* NULL: it does not wait */
	struct waiter *next, **prev;
};

struct waiters {
	struct waiter *first;
	struct waiter *next; /* the one that is told next, while they are; NULL */
};

static inline void waiter_add(struct waiters *list, struct waiter *w, void *of)
{
	w->of = of;
	w->list = list;
	DLIST_PUSH(list->first, w);
}

/* What it waited for; NULL: it did not wait. */
static inline void *waiter_cancel(struct waiter *w)
{
	if (!w->list)
		return NULL;
	if (w->list->next == w)
		w->list->next = w->next;
	DLIST_REMOVE(w);
	w->list = NULL;
	return w->of;
}

/*
 * All that wait now are told, and wait on. Any of them may cancel itself or others, and
 * add more, which are not told this time. The list must stay until the last was told.
 */
static inline void waiters_tell(struct waiters *list)
{
	for (struct waiter *w = list->first; w; w = list->next) {
		list->next = w->next;
		w->fn(w, w->of);
	}
}

#endif /* BASE_WAITER_H */
