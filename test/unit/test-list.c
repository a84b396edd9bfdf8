/* SPDX-License-Identifier: Apache-2.0 */
/* test-list.c - lists and queues of structs, and waiters */
#include "base/list.h"

#include "base/macro.h"
#include "base/waiter.h"
#include "lib/tap.h"

struct item {
	int n;
	struct item *next, **prev;
	struct item *other;
};

/* Return the numbers of the items as one number: 1, 2, 3 becomes 123. */
static int order(const struct item *list)
{
	int all = 0;

	for (; list; list = list->next)
		all = all * 10 + list->n;
	return all;
}

TEST(a_list_grows_at_both_ends)
{
	struct item a = { .n = 1 }, b = { .n = 2 }, c = { .n = 3 }, *list = NULL;

	LIST_PUSH(list, &b);
	LIST_PUSH(list, &a);
	LIST_APPEND(list, &c);
	EQ(order(list), 123);
	OK(LIST_POP(list) == &a);
	EQ(order(list), 23);
	OK(LIST_POP(list) == &b && LIST_POP(list) == &c && LIST_POP(list) == NULL);
}

TEST(only_present_items_are_removed)
{
	struct item a = { .n = 1 }, b = { .n = 2 }, c = { .n = 3 }, *list = NULL;
	struct item **at;

	LIST_APPEND(list, &a);
	LIST_APPEND(list, &b);
	OK(LIST_REMOVE(list, &a));
	OK(!LIST_REMOVE(list, &c));
	EQ(order(list), 2);
	LIST_FIND(list, at, (*at)->n == 2);
	OK(*at == &b);
	LIST_FIND(list, at, (*at)->n == 9);
	OK(*at == NULL && at == &b.next);
}

TEST(a_list_can_use_another_member_as_its_link)
{
	struct item a = { .n = 1 }, b = { .n = 2, .other = &a }, *list = &b;

	OK(LIST_REMOVE_BY(list, &a, other));
	OK(list == &b && b.other == NULL);
}

TEST(a_queue_knows_its_end)
{
	struct item a = { .n = 1 }, b = { .n = 2 }, c = { .n = 3 }, *first, **tail, **at;

	QUEUE_INIT(first, tail);
	OK(QUEUE_TAKE(first, tail) == NULL);
	QUEUE_PUT(tail, &a);
	QUEUE_PUT(tail, &b);
	QUEUE_PUT(tail, &c);
	EQ(order(first), 123);
	LIST_FIND(first, at, *at == &c);
	OK(QUEUE_CUT(tail, at) == &c); /* it was the last: the tail is now after b */
	QUEUE_PUT(tail, &c);
	EQ(order(first), 123);
	LIST_FIND(first, at, (*at)->n == 9);
	OK(QUEUE_CUT(tail, at) == NULL);
	OK(QUEUE_TAKE(first, tail) == &a && QUEUE_TAKE(first, tail) == &b);
	OK(QUEUE_TAKE(first, tail) == &c && tail == &first);
}

TEST(linked_items_are_removed_without_a_walk)
{
	struct item a = { .n = 1 }, b = { .n = 2 }, c = { .n = 3 }, *list = NULL;

	DLIST_PUSH(list, &a);
	DLIST_PUSH(list, &b);
	DLIST_PUSH(list, &c);
	EQ(order(list), 321);
	DLIST_REMOVE(&b);
	OK(b.prev == NULL);
	EQ(order(list), 31);
	DLIST_REMOVE(&c);
	DLIST_REMOVE(&a);
	OK(list == NULL);
}

struct guest {
	struct waiter w;
	int told;
	struct guest *cancels; /* canceled when this one is called */
	struct guest *adds;
};

static void guest_told(struct waiter *w, void *of)
{
	struct guest *g = w->ctx;

	g->told++;
	if (g->cancels)
		(void)waiter_cancel(&g->cancels->w);
	if (g->adds)
		waiter_add(of, &g->adds->w, of);
}

static void guests_wait(struct waiters *list, struct guest *g, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		g[i].w = (struct waiter){ .fn = guest_told, .ctx = &g[i] };
		waiter_add(list, &g[i].w, list);
	}
}

TEST(all_waiters_are_called_and_stay)
{
	struct waiters list = { 0 };
	struct guest g[3] = { 0 };

	guests_wait(&list, g, 3);
	waiters_tell(&list);
	waiters_tell(&list);
	for (size_t i = 0; i < 3; i++)
		EQ(g[i].told, 2);
	OK(waiter_cancel(&g[1].w) == &list);
	OK(waiter_cancel(&g[1].w) == NULL);
	waiters_tell(&list);
	EQ(g[0].told, 3);
	EQ(g[1].told, 2);
	EQ(g[2].told, 3);
}

TEST(a_called_waiter_may_cancel_itself_and_the_next)
{
	struct waiters list = { 0 };
	struct guest g[4] = { 0 };

	guests_wait(&list, g, 4); /* called from the last to the first */
	g[3].cancels = &g[2];
	g[1].cancels = &g[1];
	waiters_tell(&list);
	EQ(g[3].told, 1);
	EQ(g[2].told, 0);
	EQ(g[1].told, 1);
	EQ(g[0].told, 1);
	waiters_tell(&list);
	EQ(g[1].told, 1);
	EQ(g[0].told, 2);
}

TEST(a_new_waiter_is_called_the_next_time)
{
	struct waiters list = { 0 };
	struct guest g[2] = { 0 }, late = { 0 };

	guests_wait(&list, g, 2);
	late.w = (struct waiter){ .fn = guest_told, .ctx = &late };
	g[1].adds = &late;
	waiters_tell(&list);
	EQ(late.told, 0);
	EQ(g[0].told, 1);
	g[1].adds = NULL;
	waiters_tell(&list);
	EQ(late.told, 1);
}

TEST_MAIN()
