/* SPDX-License-Identifier: Apache-2.0 */
/*
 * subscribe.h - subscriptions: send a message when a file or the output of an exec
 * changes
 *
 * Subscriptions of a legacy client belong to its session, and messages go to the stream
 * of the session; without a stream, messages are dropped. Subscriptions of a modern
 * client belong to one request, subscriptions/listen, and last as long as that request.
 */
#ifndef API_MCP_SUBSCRIBE_H
#define API_MCP_SUBSCRIBE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define MCP_SUBS_MAX 32 /* maximum per session or request */

struct mcp_sub;
struct mcp_call;
struct mcp_exchange;

struct mcp_subs {
	struct mcp_sub *first;
	size_t n;
	struct mcp_exchange *stream; /* where messages go; NULL: nowhere */
	const json_t
		*id; /* id of the request; NULL: the subscriptions belong to a session */
	/*
	 * Called when a subscription is open, or could not be opened (@ready is false).
	 */
	void (*opened)(struct mcp_call *c, struct mcp_subs *of, const char *uri,
		       bool ready, const char *why);
};

/*
 * Open a subscription on behalf of @c. Calls of->opened later. On failure, returns -1
 * with the reason in @why, and does not call it.
 */
int mcp_subs_add(struct mcp_subs *of, struct mcp_call *c, const char *uri, char *why,
		 size_t size);
void mcp_subs_remove(struct mcp_subs *of, const char *uri);
void mcp_subs_done(struct mcp_subs *of);

void mcp_resources_subscribe(struct mcp_call *c);
void mcp_resources_unsubscribe(struct mcp_call *c);
void mcp_listen(struct mcp_call *c);
/* End the request properly, because the service stops. */
void mcp_listen_end(struct mcp_call *c);

#endif /* API_MCP_SUBSCRIBE_H */
