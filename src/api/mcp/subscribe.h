/* SPDX-License-Identifier: Apache-2.0 */
/*
 * subscribe.h - subscriptions: a message when a file or the output of an exec changes
 *
 * Subscriptions of a legacy client belong to its session, and messages go to the stream
 * of the session; without a stream they are dropped. Those of a modern client belong to
 * one request, subscriptions/listen, which lasts as long as they do.
 */
#ifndef API_MCP_SUBSCRIBE_H
#define API_MCP_SUBSCRIBE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define MCP_SUBS_MAX 32 /* of a session, or of a request */

struct mcp_sub;
struct mcp_call;
struct mcp_exchange;

struct mcp_subs {
	struct mcp_sub *first;
	size_t n;
	struct mcp_exchange *stream; /* where messages go; NULL: nowhere */
	const json_t *id;            /* of the request; NULL: a session's */
	/* A subscription is open, or was not to be opened (@ready false). */
	void (*opened)(struct mcp_call *c, struct mcp_subs *of, const char *uri,
		       bool ready, const char *why);
};

/*
 * Open a subscription on behalf of @c; of->opened is called later, unless this returns
 * -1. Then @why is the reason.
 */
int mcp_subs_add(struct mcp_subs *of, struct mcp_call *c, const char *uri, char *why,
		 size_t size);
void mcp_subs_remove(struct mcp_subs *of, const char *uri);
void mcp_subs_done(struct mcp_subs *of);

void mcp_resources_subscribe(struct mcp_call *c);
void mcp_resources_unsubscribe(struct mcp_call *c);
void mcp_listen(struct mcp_call *c);
/* The service stops: end the request in order. */
void mcp_listen_end(struct mcp_call *c);

#endif /* API_MCP_SUBSCRIBE_H */
