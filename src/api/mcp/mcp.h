/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mcp.h - the Model Context Protocol: sandboxes as tools for an agent, at /mcp and /sse
 *
 * Theory of operation
 *
 * A POST carries one message, or an array of messages from an old client. It becomes an
 * exchange, and each request in it becomes a call. The method table (methods.c) has the
 * handler of each call; the handler of `tools/call` uses the tool table. A call is
 * answered once: with JSON, or with the last event of a stream if something else, such as
 * progress, had to be sent first.
 *
 * Clients of the legacy era (rpc.h) have a session, which belongs to the token that
 * opened it. Modern clients have no session, unless they send Warren-Session, as `warren
 * mcp` does. A session has its own sandbox, which is created when a tool first needs one.
 * The sandbox is deleted when the session ends: by DELETE, after a long time without use,
 * when its token is removed, or when the service restarts. (MCP_MARK marks its row in the
 * database.) Without a session, a tool needs the argument `sandbox`.
 *
 * If a modern client disconnects, its call is cancelled. The call of a legacy client
 * continues until a message cancels it or its session ends.
 *
 *	transport.c	HTTP: methods, headers, bodies
 *	http_sse.c	HTTP+SSE, the transport of old clients, at /sse
 *	exchange.c	responses, and streams of events
 *	rpc.c		messages and eras
 *	session.c	sessions
 *	call.c		calls: results, errors, progress, log messages, cancellation
 *	methods.c	the table of methods, and the small ones
 *	place.c		the sandbox of a call
 *	tool_table.c	the table of tools: names, texts, schemas
 *	schema.c	schemas of arguments and results
 *	tools.c		lists and calls tools
 *	tool_*.c	tools, by subject
 *	filing.c	opens and replaces files
 *	clip.c		shortens long output
 *	resources.c	files, output and sandboxes as resources
 *	subscribe.c	messages when resources change
 *	prompts.c	prompts, and completion of arguments
 */
#ifndef API_MCP_MCP_H
#define API_MCP_MCP_H

#include <stdbool.h>
#include <sys/types.h>

#include "api/create.h"
#include "net/http.h"
#include "service/core/fair_quota.h"

struct config;
struct service;
struct warden_policy;
struct live;
struct api_record;
struct mcp_session;
struct mcp_exchange;

/*
 * Template name that marks a sandbox that is deleted with its session. User templates
 * cannot have this name.
 */
#define MCP_MARK "mcp:session"

struct mcp {
	struct service *service;
	struct live *live; /* NULL: requests do not end with their tokens */
	const struct config *config;
	const struct warden_policy *policy;
	uid_t owner; /* user who started the service; needs no token on the unix socket */
	void (*record)(const struct api_record *record); /* NULL: no log */
	api_create_fn create;
	void *create_ctx;
	/* Private. */
	struct mcp_session *sessions;
	struct mcp_exchange *exchanges;
	struct fair_quota session_quota;
	struct loop_timer *chores; /* ends idle sessions; NULL: there are no sessions */
	bool stopping;
};

/* Return whether the request is for this API. */
bool mcp_wants(const struct http_request *req);
void mcp_request(struct http_request *req, struct mcp *mcp);
/* Delete the sandboxes of sessions that an earlier process left behind. */
void mcp_restore(struct mcp *mcp);
/* Like v1_stop(). */
void mcp_stop(struct mcp *mcp, bool last);
/* Free everything. Call this when no request is left. */
void mcp_done(struct mcp *mcp);

#endif /* API_MCP_MCP_H */
