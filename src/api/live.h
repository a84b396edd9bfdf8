/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live.h - requests in progress, and the tokens that opened them
 *
 * A token is checked when a request begins. Some requests last for hours: terminals,
 * tunnels, events, output, watches, waits, uploads, proxied requests. The service ends
 * them together with their token: when it is revoked, expires, or is deleted with its
 * tenant or its sandbox. This applies to all APIs.
 *
 * A request in progress keeps its connection busy. Tenants share the TCP connections
 * (service/core/fair_quota.h); a tenant that has used up its share gets a 429.
 */
#ifndef API_LIVE_H
#define API_LIVE_H

#include "api/access.h"
#include "service/core/fair_quota.h"

struct net_loop;
struct live;

/*
 * A request in progress. The owner of the request embeds this struct, zeroed, and calls
 * live_leave() before freeing it.
 */
struct live_request {
	struct live_request *next, *prev; /* NULL: not in the list */
	struct http_request *req;         /* NULL: already closed */
	const struct caller *caller;
	struct live *live;
	struct fair_quota_lease busy; /* part of the tenant's share */
	/* The token of the request has changed and must be checked again. */
	bool doubtful;
	/*
	 * For an object that outlives its requests: called when the token ends; otherwise
	 * NULL.
	 */
	void (*ended)(struct live_request *r);
};

/*
 * Create the list for a server on @loop with tokens in @db; each @db has one such list.
 * @tcp_max: maximum number of TCP connections; 0: no limit.
 */
int live_new(struct net_loop *loop, struct db *db, uint64_t tcp_max, struct live **ret);
/* Accepts NULL; returns NULL. Call this before @db is closed. */
struct live *live_free(struct live *l);

/*
 * Record that the authorized @caller has begun @req. @caller must stay valid until
 * live_leave(). -EBADMSG: its tenant has too many requests in progress, and @err is the
 * refusal; live_leave() must be called even then.
 */
int live_enter(struct live *l, struct live_request *r, struct http_request *req,
	       const struct caller *caller, struct api_error *err);
/*
 * The same for a caller whose tenant is known by something else than a token.
 */
int live_count(struct live *l, struct live_request *r, struct http_request *req,
	       const struct caller *caller, struct api_error *err);
/*
 * Like live_enter(), for an object that lasts longer than a request, such as a session.
 * @ended is called once, from the loop, when the token of @caller is no longer valid.
 */
void live_hold(struct live *l, struct live_request *r, const struct caller *caller,
	       void (*ended)(struct live_request *r));
void live_leave(struct live_request *r);

#endif /* API_LIVE_H */
