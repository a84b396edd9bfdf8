/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup.h - resolve names for sandboxes, so that none of them delays the others
 *
 * A sandbox decides how many names it asks for, and servers of its choice decide how long
 * the answers take. So:
 *
 *	- A sandbox has at most LOOKUP_QUERIES_EACH queries in progress, and all
 *	  sandboxes together have LOOKUP_QUERIES_ALL. A query counts until the resolver
 *	  has finished it, even if the client that asked has closed its connection.
 *	- A sandbox makes at most so many queries per second (lookup_client_set_rate()),
 *	  after a burst of LOOKUP_BURST_S seconds' worth. This bounds the load on the
 *	  name servers, and what names can carry out of the sandbox.
 *	- Names that wait are queried in turn: one name of each sandbox after another.
 *	- All lookups of one name that a sandbox has in progress share one query.
 *	- A name without addresses is not queried again for LOOKUP_NEGATIVE_MS.
 *	  Addresses are not cached: each connection is judged by the current ones.
 *
 * Sandboxes do not share queries or results. Otherwise, a sandbox could measure which
 * names another one uses.
 */
#ifndef EGRESS_LOOKUP_H
#define EGRESS_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

#include "egress/resolver.h"

#define LOOKUP_QUERIES_EACH 32
#define LOOKUP_QUERIES_ALL  1024
#define LOOKUP_WAITING_MAX  8192 /* names of a sandbox that wait */
#define LOOKUP_RATE         200  /* queries of a sandbox per second, by default */
#define LOOKUP_RATE_MAX     1000000
#define LOOKUP_BURST_S      UINT64_C(5)
#define LOOKUP_NEGATIVE_MS  2000
#define LOOKUP_NEGATIVE_MAX 16 /* names of a sandbox that have no addresses */

struct lookups;
struct lookup_client;
struct lookup_query;

/* One lookup, as a member of its owner's struct. Zero: not in progress. */
struct lookup {
	struct lookup *next, **prev;
	struct lookup_query *query; /* NULL: not in progress */
	resolver_done_fn *done;
	void *ctx;
};

/* How queries are made; the tests of this module have their own. */
struct lookup_resolver {
	struct resolver_query *(*start)(void *ctx, const char *name,
					resolver_done_fn *done, void *done_ctx);
	struct resolver_query *(*cancel)(struct resolver_query *q);
	void *ctx;
};

int lookups_new(struct net_loop *loop, const struct lookup_resolver *resolver,
		struct lookups **ret) MUST_CHECK; /* -ENOMEM */
/* There must be no clients left. Accepts NULL; returns NULL. */
struct lookups *lookups_free(struct lookups *all);

/* What happens to queries of a client, for counters. */
enum lookup_event {
	LOOKUP_QUERIED, /* a query was sent to the resolver */
	LOOKUP_LIMITED, /* a query has to wait for the rate, or is refused because of it
			 */
};
typedef void lookup_event_fn(void *ctx, enum lookup_event event);

/* A client is a sandbox. @event may be NULL. */
int lookup_client_new(struct lookups *all, lookup_event_fn *event, void *ctx,
		      struct lookup_client **ret) MUST_CHECK;
/* Set the number of queries per second, from 1 to LOOKUP_RATE_MAX. */
void lookup_client_set_rate(struct lookup_client *c, uint64_t per_second);
/* There must be no lookups in progress. Accepts NULL; returns NULL. */
struct lookup_client *lookup_client_free(struct lookup_client *c);

enum lookup_patience {
	LOOKUP_WAITS, /* until the rate permits the query */
	/* At most about a second; for callers whose clients ask again. */
	LOOKUP_WAITS_BRIEFLY,
};
/*
 * Resolve a name, in lower case. @done is called from the loop, later. False: too many
 * names wait, or there is no memory.
 */
bool lookup_start(struct lookup *l, struct lookup_client *c, const char *name,
		  enum lookup_patience patience, resolver_done_fn *done, void *ctx);
/* Cancel a lookup: @done will not be called. Has no effect if none is in progress. */
void lookup_cancel(struct lookup *l);

static inline bool lookup_is_active(const struct lookup *l)
{
	return l->query;
}

#endif /* EGRESS_LOOKUP_H */
