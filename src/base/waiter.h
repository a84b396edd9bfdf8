/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waiter.h - callbacks that wait for an event: an end, output, a state
 *
 * A waiter is its owner's memory, zeroed except for fn and ctx, until it was cancelled
 * or, if it is called only once, was called. An object that can be waited for has a list
 * of waiters.
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
	struct waiter *next; /* the next one to call, during waiters_tell(); NULL */
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
 * Calls all waiters, which stay in the list. Any of them may cancel itself or others, and
 * add more, which are not called this time. The list must stay until the last was called.
 */
static inline void waiters_tell(struct waiters *list)
{
	for (struct waiter *w = list->first; w; w = list->next) {
		list->next = w->next;
		w->fn(w, w->of);
	}
}

#endif /* BASE_WAITER_H */
