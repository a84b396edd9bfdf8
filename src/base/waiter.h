/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waiter.h - callbacks that wait for an event, such as an end, output or a state
 *
 * The owner allocates a waiter, zeroed except for fn and ctx. The waiter must stay valid
 * until it is cancelled or, if it is called only once, until that call. An object that
 * can be waited for has a list of waiters.
 */
#ifndef BASE_WAITER_H
#define BASE_WAITER_H

#include "base/list.h"

struct waiters;

struct waiter {
	void (*fn)(struct waiter *w, void *of); /* @of is the object that @w waits for */
	void *ctx;
	void *of;             /* private from here on */
	struct waiters *list; /* NULL: the waiter does not wait */
	struct waiter *next, **prev;
};

struct waiters {
	struct waiter *first;
	struct waiter
		*next; /* next waiter to call during waiters_tell(), otherwise NULL */
};

static inline void waiter_add(struct waiters *list, struct waiter *w, void *of)
{
	w->of = of;
	w->list = list;
	DLIST_PUSH(list->first, w);
}

/* Cancel @w; return the object that it waited for, or NULL if it did not wait. */
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
 * Call all waiters and leave them in the list. A waiter may cancel itself or others, and
 * may add new ones, which are not called this time. The list must stay valid until the
 * last call returns.
 */
static inline void waiters_tell(struct waiters *list)
{
	for (struct waiter *w = list->first; w; w = list->next) {
		list->next = w->next;
		w->fn(w, w->of);
	}
}

#endif /* BASE_WAITER_H */
