/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live.h - requests under way, by the token that opened them
 *
 * A token is judged when a request begins. Some requests last for hours:
 * terminals, tunnels, events, output, watches, waits, uploads, what is proxied. They end
 * with their token: when it is revoked or expires, or is deleted with its tenant or its
 * sandbox, whoever does that, and whichever face the request came by.
 */
#ifndef API_LIVE_H
#define API_LIVE_H

#include "api/access.h"

struct net_loop;
struct live;

/* A request's place among them; its owner embeds it, zeroed, and leaves before it is gone. */
struct live_request {
	struct live_request *next, *prev; /* NULL: it is none of them */
	struct http_request *req;         /* NULL: it is closed already */
	const struct caller *caller;
	bool doubtful; /* something happened to its token */
};

/* Of a server on @loop whose tokens are in @db; there is one for each @db. */
int live_new(struct net_loop *loop, struct db *db, struct live **ret);
/* NULL is fine; returns NULL. Before @db is closed. */
struct live *live_free(struct live *l);

/* @caller, who was admitted, has begun @req; he stays where he is until live_leave(). */
void live_enter(struct live *l, struct live_request *r, struct http_request *req,
		const struct caller *caller);
void live_leave(struct live_request *r);

#endif /* API_LIVE_H */
