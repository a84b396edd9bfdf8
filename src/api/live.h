/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live.h - requests under way, by the token that opened them
 *
 * A token is checked when a request begins. Some requests last for hours: terminals,
 * tunnels, events, output, watches, waits, uploads, proxied requests. They end with their
 * token: when it is revoked or expires, or is deleted with its tenant or its sandbox, no
 * matter which API the request used.
 *
 * A request under way keeps its connection busy. Tenants share the TCP connections
 * (service/core/fair_quota.h): a tenant that has used up its share is refused with 429.
 */
#ifndef API_LIVE_H
#define API_LIVE_H

#include "api/access.h"
#include "service/core/fair_quota.h"

struct net_loop;
struct live;

/*
 * A request in this list; its owner embeds it, zeroed, and calls live_leave() before it
 * is freed.
 */
struct live_request {
	struct live_request *next, *prev; /* NULL: it is not in the list */
	struct http_request *req;         /* NULL: it is closed already */
	const struct caller *caller;
	struct live *live;
	struct fair_quota_lease busy; /* of the tenant's share */
	bool doubtful;                /* something happened to its token */
};

/*
 * Of a server on @loop whose tokens are in @db; there is one for each @db. @tcp_max: how
 * many connections by TCP there can be; 0: no limit.
 */
int live_new(struct net_loop *loop, struct db *db, uint64_t tcp_max, struct live **ret);
/* NULL is fine; returns NULL. Before @db is closed. */
struct live *live_free(struct live *l);

/*
 * @caller, which was admitted, has begun @req; its memory must stay until live_leave().
 * -EBADMSG: its tenant has too many requests under way, as @err says; live_leave() must
 * be called even then.
 */
int live_enter(struct live *l, struct live_request *r, struct http_request *req,
	       const struct caller *caller, struct api_error *err);
void live_leave(struct live_request *r);

#endif /* API_LIVE_H */
