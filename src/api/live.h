/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live.h - requests under way, by the token that opened them
 *
 * A token is judged when a request begins. Some requests last for hours:
 * terminals, tunnels, events, output, watches, waits, uploads, what is proxied. They end
 * with their token: when it is revoked or expires, or is deleted with its tenant or its
 * sandbox, whoever does that, and whichever face the request came by.
 *
 * A request under way keeps its connection busy. Of the connections by TCP, which serve
 * all tenants, each tenant has a share (service/core/fair_quota.h): who has it is refused
 * with 429.
 */
#ifndef API_LIVE_H
#define API_LIVE_H

#include "api/access.h"
#include "service/core/fair_quota.h"

struct net_loop;
struct live;

/*
 * A request's place among them; its owner embeds it, zeroed, and leaves before it is
 * gone.
 */
struct live_request {
	struct live_request *next, *prev; /* NULL: it is none of them */
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
 * @caller, who was admitted, has begun @req, and stays where it is until live_leave().
 * -EBADMSG: its tenant has too many under way, as @err says; live_leave() is due all the
 * same.
 */
int live_enter(struct live *l, struct live_request *r, struct http_request *req,
	       const struct caller *caller, struct api_error *err);
void live_leave(struct live_request *r);

#endif /* API_LIVE_H */
