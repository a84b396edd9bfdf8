/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mcp.h - the Model Context Protocol: sandboxes as tools of an agent, at /mcp and /sse
 *
 * Theory of operation
 *
 * A POST carries one message (or, of old clients, an array of them). It becomes an
 * exchange, and each request in it a call. The table of methods (methods.c) has the
 * handler of a call; `tools/call` goes on to the table of tools. A call answers once:
 * with JSON, or as the last event of a stream if something had to be sent before, such
 * as progress.
 *
 * Clients of the legacy era (rpc.h) have a session, which belongs to the token that
 * opened it. Modern clients have none; but a client that sends Warren-Session, as `warren
 * mcp` does, has one in this service. A session has its own sandbox, which is created
 * when a tool first needs one. It is deleted when the session ends: by DELETE, after a
 * long time without use, with its token, and when the service starts again (its row is
 * marked with MCP_MARK). Without a session, a tool needs the argument `sandbox`.
 *
 * If a modern client leaves, its call is cancelled; a call of a legacy client goes on
 * until it is cancelled by a message or its session ends.
 *
 *	transport.c	HTTP: methods, headers, bodies
 *	http_sse.c	HTTP+SSE, the transport of old clients, at /sse
 *	exchange.c	answers, and streams of events
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

/* The template of a sandbox that ends with its session; no user's template has it. */
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

/* Whether the request is for this API. */
bool mcp_wants(const struct http_request *req);
void mcp_request(struct http_request *req, struct mcp *mcp);
/* Delete the sandboxes of sessions of an earlier process. */
void mcp_restore(struct mcp *mcp);
/* Like v1_stop(). */
void mcp_stop(struct mcp *mcp, bool last);
/* Call it when no request is left. */
void mcp_done(struct mcp *mcp);

#endif /* API_MCP_MCP_H */
