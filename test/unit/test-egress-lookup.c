/* SPDX-License-Identifier: Apache-2.0 */
/* test-egress-lookup.c - names are resolved in turn, and one sandbox delays no other */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "egress/lookup.h"

#include "lib/tap.h"

#define MANY 4000

/* A query of the resolver that these tests have. */
struct resolver_query {
	char name[64];
	resolver_done_fn *done; /* NULL: it was answered or cancelled */
	void *ctx;
};

static struct resolver_query asked[2 * MANY];
static size_t n_asked, n_cancelled;
static bool out_of_memory;

static struct resolver_query *fake_start(void *ctx, const char *name,
					 resolver_done_fn *done, void *done_ctx)
{
	struct resolver_query *q = &asked[n_asked];

	(void)ctx;
	if (out_of_memory)
		return NULL;
	n_asked++;
	*q = (struct resolver_query){ .done = done, .ctx = done_ctx };
	(void)snprintf(q->name, sizeof(q->name), "%s", name);
	return q;
}

static struct resolver_query *fake_cancel(struct resolver_query *q)
{
	n_cancelled++;
	q->done = NULL;
	return NULL;
}

static void fake_answer(size_t i, enum resolver_status status)
{
	const union resolver_address a = { .v4 = { .sin_family = AF_INET } };
	resolver_done_fn *done = asked[i].done;

	asked[i].done = NULL;
	done(asked[i].ctx, status, &a, status == RESOLVER_OK);
}

static struct net_loop *loop;
static struct lookups *all;
static struct lookup_client *busy, *other;
static struct lookup lookups[MANY];
static size_t n_done;
static enum resolver_status last;

static void on_done(void *ctx, enum resolver_status status,
		    const union resolver_address *addresses, size_t n)
{
	(void)addresses;
	OK((status == RESOLVER_OK) == (n == 1));
	last = status;
	n_done++;
	if (ctx)
		OK(lookup_start(ctx, busy, "again.example", LOOKUP_WAITS, on_done, NULL));
}

static void begin(void)
{
	const struct lookup_resolver fake = { fake_start, fake_cancel, NULL };
	struct warren_error err = WARREN_ERROR_INIT;

	n_asked = n_cancelled = n_done = 0;
	EQ(loop_new(&loop, &err), 0);
	EQ(lookups_new(loop, &fake, &all), 0);
	EQ(lookup_client_new(all, NULL, NULL, &busy), 0);
	EQ(lookup_client_new(all, NULL, NULL, &other), 0);
}

static void end(void)
{
	for (size_t i = 0; i < MANY; i++)
		lookup_cancel(&lookups[i]);
	busy = lookup_client_free(busy);
	other = lookup_client_free(other);
	all = lookups_free(all);
	loop = loop_free(loop);
}

static void stop_loop(void *ctx)
{
	loop_stop(ctx);
}

static void wait_done(size_t want)
{
	struct loop_timer *t = NULL;

	EQ(loop_timer_new(loop, stop_loop, loop, &t), 0);
	while (n_done < want) {
		loop_timer_set(t, 1);
		loop_run(loop);
	}
	t = loop_timer_free(t);
}

/* Wait until the resolver has got @want queries, and answer each. */
static void wait_asked(size_t want)
{
	struct loop_timer *t = NULL;

	EQ(loop_timer_new(loop, stop_loop, loop, &t), 0);
	for (size_t i = 0; i < n_asked || n_asked < want; i += i < n_asked) {
		if (i == n_asked) {
			loop_timer_set(t, 1);
			loop_run(loop);
		} else if (asked[i].done) {
			fake_answer(i, RESOLVER_OK);
		}
	}
	t = loop_timer_free(t);
}

/* Start lookups of different names for the busy client. */
static void start_many(size_t n)
{
	char name[64];

	for (size_t i = 0; i < n; i++) {
		(void)snprintf(name, sizeof(name), "n%zu.example", i);
		OK(lookup_start(&lookups[i], busy, name, LOOKUP_WAITS, on_done, NULL));
	}
}

TEST(a_sandbox_has_few_queries_and_another_is_not_delayed)
{
	begin();
	start_many(1000);
	EQ(n_asked, (size_t)LOOKUP_QUERIES_EACH);
	OK(lookup_start(&lookups[1000], other, "other.example", LOOKUP_WAITS, on_done,
			NULL));
	EQ(n_asked, (size_t)LOOKUP_QUERIES_EACH + 1);
	STREQ(asked[LOOKUP_QUERIES_EACH].name, "other.example");
	/* One that ends makes room for one. */
	fake_answer(0, RESOLVER_OK);
	EQ(n_asked, (size_t)LOOKUP_QUERIES_EACH + 2);
	wait_done(1);
	end();
}

TEST(a_query_counts_until_it_has_ended)
{
	begin();
	start_many(1000);
	for (size_t i = 0; i < 1000; i++)
		lookup_cancel(&lookups[i]);
	/* The names that waited are forgotten, the queries that run are not. */
	start_many(1000);
	EQ(n_asked, (size_t)LOOKUP_QUERIES_EACH);
	EQ(n_cancelled, (size_t)0);
	end();
	EQ(n_cancelled, (size_t)LOOKUP_QUERIES_EACH);
}

TEST(lookups_of_one_name_share_a_query)
{
	begin();
	for (size_t i = 0; i < MANY; i++)
		OK(lookup_start(&lookups[i], busy, "a.example", LOOKUP_WAITS, on_done,
				NULL));
	EQ(n_asked, (size_t)1);
	/* Sandboxes share nothing. */
	lookup_cancel(&lookups[7]);
	OK(lookup_start(&lookups[7], other, "a.example", LOOKUP_WAITS, on_done, NULL));
	EQ(n_asked, (size_t)2);
	fake_answer(0, RESOLVER_OK);
	wait_done(MANY - 1);
	OK(lookup_is_active(&lookups[7]));
	fake_answer(1, RESOLVER_OK);
	wait_done(MANY);
	/* Addresses are not remembered. */
	OK(lookup_start(&lookups[0], busy, "a.example", LOOKUP_WAITS, on_done, NULL));
	EQ(n_asked, (size_t)3);
	end();
}

TEST(sandboxes_that_wait_have_turns)
{
	const size_t n_clients = LOOKUP_QUERIES_ALL / LOOKUP_QUERIES_EACH;
	struct lookup_client *clients[LOOKUP_QUERIES_ALL / LOOKUP_QUERIES_EACH];
	struct lookup *l = lookups;
	char name[64];

	begin();
	/* As many queries as all may have, and more that wait. */
	for (size_t i = 0; i < n_clients; i++) {
		EQ(lookup_client_new(all, NULL, NULL, &clients[i]), 0);
		for (size_t k = 0; k < LOOKUP_QUERIES_EACH + 20; k++) {
			(void)snprintf(name, sizeof(name), "c%zu-%zu", i, k);
			OK(lookup_start(l++, clients[i], name, LOOKUP_WAITS, on_done,
					NULL));
		}
	}
	EQ(n_asked, (size_t)LOOKUP_QUERIES_ALL);
	OK(lookup_start(l++, other, "first", LOOKUP_WAITS, on_done, NULL));
	OK(lookup_start(l++, other, "second", LOOKUP_WAITS, on_done, NULL));
	EQ(n_asked, (size_t)LOOKUP_QUERIES_ALL);
	/* The first client has room, but the other one waited for longer. */
	fake_answer(0, RESOLVER_OK);
	STREQ(asked[LOOKUP_QUERIES_ALL].name, "first");
	fake_answer(1, RESOLVER_OK);
	STREQ(asked[LOOKUP_QUERIES_ALL + 1].name, "c0-32");
	fake_answer(2, RESOLVER_OK);
	STREQ(asked[LOOKUP_QUERIES_ALL + 2].name, "second");
	fake_answer(3, RESOLVER_OK);
	STREQ(asked[LOOKUP_QUERIES_ALL + 3].name, "c0-33");
	wait_done(4);
	for (size_t i = 0; i < MANY; i++)
		lookup_cancel(&lookups[i]);
	for (size_t i = 0; i < n_clients; i++)
		clients[i] = lookup_client_free(clients[i]);
	end();
}

TEST(a_missing_name_is_remembered_for_a_short_time)
{
	static const enum resolver_status missing[] = { RESOLVER_NO_NAME,
							RESOLVER_NO_DATA };

	for (size_t i = 0; i < ARRAY_SIZE(missing); i++) {
		begin();
		/* The loop's clock does not change between a result and the next start.
		 */
		OK(lookup_start(&lookups[0], busy, "again.example", LOOKUP_WAITS, on_done,
				&lookups[1]));
		fake_answer(0, missing[i]);
		wait_done(2);
		EQ(n_asked, (size_t)1);
		EQ(last, missing[i]);
		/* Another sandbox does not learn this. */
		OK(lookup_start(&lookups[2], other, "again.example", LOOKUP_WAITS,
				on_done, NULL));
		EQ(n_asked, (size_t)2);
		end();
	}
	begin();
	OK(lookup_start(&lookups[0], busy, "again.example", LOOKUP_WAITS, on_done, NULL));
	fake_answer(0, RESOLVER_NO_NAME);
	wait_done(1);
	(void)usleep((LOOKUP_NEGATIVE_MS + 100) * 1000);
	n_done = 0;
	OK(lookup_start(&lookups[1], other, "wakes the loop", LOOKUP_WAITS, on_done,
			NULL));
	fake_answer(1, RESOLVER_OK);
	wait_done(1);
	OK(lookup_start(&lookups[2], busy, "again.example", LOOKUP_WAITS, on_done, NULL));
	EQ(n_asked, (size_t)3);
	end();
}

static size_t n_events[2];

static void on_event(void *ctx, enum lookup_event event)
{
	(void)ctx;
	n_events[event]++;
}

/* Ask for @n different names; returns how many lookups were started. */
static size_t ask_many(struct lookup_client *c, size_t n, enum lookup_patience patience)
{
	size_t started = 0;
	char name[64];

	for (size_t i = 0; i < n; i++) {
		size_t before = n_asked;

		(void)snprintf(name, sizeof(name), "%zu-%zu", n_asked, i);
		started += lookup_start(&lookups[i], c, name, patience, on_done, NULL);
		if (n_asked > before)
			fake_answer(before, RESOLVER_OK);
	}
	return started;
}

/* The loop's clock does not change between two calls, so these numbers are exact. */
TEST(queries_per_second_are_limited)
{
	struct lookup_client *slow;

	begin();
	(void)memset(n_events, 0, sizeof(n_events));
	EQ(lookup_client_new(all, on_event, NULL, &slow), 0);
	lookup_client_set_rate(slow, 20);
	/* A burst passes. Then, as many lookups wait as a second permits. */
	EQ(ask_many(slow, 500, LOOKUP_WAITS_BRIEFLY), (size_t)LOOKUP_BURST_S * 20 + 20);
	EQ(n_asked, (size_t)LOOKUP_BURST_S * 20);
	EQ(n_events[LOOKUP_QUERIED], n_asked);
	EQ(n_events[LOOKUP_LIMITED], (size_t)500 - LOOKUP_BURST_S * 20);
	/* A name that already waits needs no further query. */
	OK(lookup_start(&lookups[500], slow, "100-100", LOOKUP_WAITS_BRIEFLY, on_done,
			NULL));
	EQ(n_events[LOOKUP_LIMITED], (size_t)500 - LOOKUP_BURST_S * 20);
	/* A connection waits, for as long as it takes. */
	OK(lookup_start(&lookups[501], slow, "patient", LOOKUP_WAITS, on_done, NULL));
	/* Another sandbox is not affected. */
	OK(lookup_start(&lookups[502], other, "free", LOOKUP_WAITS_BRIEFLY, on_done,
			NULL));
	EQ(n_asked, (size_t)LOOKUP_BURST_S * 20 + 1);
	STREQ(asked[n_asked - 1].name, "free");
	/* Time permits further queries, in the order in which they were made. */
	wait_done(LOOKUP_BURST_S * 20);
	wait_asked(LOOKUP_BURST_S * 20 + 22);
	STREQ(asked[n_asked - 1].name, "patient");
	for (size_t i = 0; i < MANY; i++)
		lookup_cancel(&lookups[i]);
	slow = lookup_client_free(slow);
	end();
}

TEST(a_change_of_the_rate_gives_no_new_burst)
{
	begin();
	lookup_client_set_rate(busy, 10);
	EQ(ask_many(busy, 200, LOOKUP_WAITS_BRIEFLY), (size_t)LOOKUP_BURST_S * 10 + 10);
	EQ(n_asked, (size_t)LOOKUP_BURST_S * 10);
	lookup_client_set_rate(busy, 1000);
	lookup_client_set_rate(busy, 10);
	EQ(n_asked, (size_t)LOOKUP_BURST_S * 10);
	/* A rate without limits lets those that wait pass soon. */
	lookup_client_set_rate(busy, UINT64_MAX);
	wait_asked(LOOKUP_BURST_S * 10 + 10);
	end();
}

TEST(a_client_with_a_waiting_query_can_end)
{
	begin();
	lookup_client_set_rate(busy, 1);
	EQ(ask_many(busy, 100, LOOKUP_WAITS), (size_t)100);
	EQ(n_asked, (size_t)LOOKUP_BURST_S);
	end();
	EQ(n_asked, (size_t)LOOKUP_BURST_S);
}

TEST(a_failure_is_not_remembered)
{
	begin();
	OK(lookup_start(&lookups[0], busy, "again.example", LOOKUP_WAITS, on_done,
			&lookups[1]));
	fake_answer(0, RESOLVER_FAILED);
	wait_done(1);
	EQ(n_asked, (size_t)2);
	end();
}

TEST(what_cannot_be_queried_fails)
{
	begin();
	out_of_memory = true;
	OK(lookup_start(&lookups[0], busy, "a.example", LOOKUP_WAITS, on_done, NULL));
	out_of_memory = false;
	wait_done(1);
	EQ(last, RESOLVER_FAILED);
	end();
}

TEST_MAIN()
