/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resolver.h - resolve names outside the sandboxes, without blocking
 *
 * This uses c-ares and not getaddrinfo(3), which blocks a thread for each name. A sandbox
 * can name servers that never answer, and would soon occupy all threads.
 *
 * Names are used as they are, without search domains. /etc/hosts is read.
 */
#ifndef EGRESS_RESOLVER_H
#define EGRESS_RESOLVER_H

#include <netinet/in.h>

#include "base/error.h"
#include "net/loop.h"

#define RESOLVER_ADDRESSES_MAX 16
/* Maximum number of queries at a time, of all sandboxes. */
#define RESOLVER_QUERIES_MAX 8192

union resolver_address {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

enum resolver_status {
	RESOLVER_OK,      /* there is at least one address */
	RESOLVER_NO_NAME, /* the name does not exist */
	RESOLVER_NO_DATA, /* the name exists and has no addresses */
	RESOLVER_FAILED,  /* no server has answered */
};

struct resolver;
struct resolver_query;

typedef void resolver_done_fn(void *ctx, enum resolver_status status,
			      const union resolver_address *addresses, size_t n);

/* @servers is "ADDRESS[:PORT],...", or NULL for those of /etc/resolv.conf. */
int resolver_new(struct net_loop *loop, const char *servers, struct resolver **ret,
		 struct warren_error *err) MUST_CHECK;
/* There must be no queries left. */
struct resolver *resolver_free(struct resolver *r);

/*
 * Resolve a name. @done is called from the loop, later. Returns NULL if there are too
 * many queries, or no memory.
 */
struct resolver_query *resolver_lookup(struct resolver *r, const char *name,
				       resolver_done_fn *done, void *ctx);
/*
 * Cancel a query: @done will not be called, but c-ares finishes the query. Accepts NULL;
 * returns NULL.
 */
struct resolver_query *resolver_cancel(struct resolver_query *q);

#endif /* EGRESS_RESOLVER_H */
