/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_sse.c - HTTP+SSE, the transport of the revision 2024-11-05, at /sse
 *
 * GET opens a session and a stream of events, which lasts as long as the session. Its
 * first event has the address that messages are sent to by POST. Such a POST is answered
 * without a body; the response to its message is an event of the stream.
 */
#include <string.h>

#include "api/mcp/internal.h"

/* Maximum size of responses that the client has not read. */
#define SSE_OUT_MAX (8U << 20)

void mcp_sse_open(struct mcp_exchange *x)
{
	AUTO_BUF struct buf first = BUF_INIT(256);
	struct rpc_error err = { 0 };
	struct mcp_session *s = mcp_session_new(x, NULL, &err);

	if (!s) {
		mcp_exchange_refuse(x, err.code == RPC_INTERNAL_ERROR ? 503 : 400, &err);
		return;
	}
	x->out.max = SSE_OUT_MAX;
	x->session = s;
	x->is_get = true;
	s->stream = s->subs.stream = x;
	buf_printf(&first, "event: endpoint\ndata: " MCP_SSE_PATH "?session_id=%s\n\n",
		   s->id);
	mcp_exchange_begin(x);
	x->blocked = http_write(x->req, first.data, first.len) != 0;
}

void mcp_sse_message(struct mcp_exchange *x, json_t *json)
{
	struct rpc_error err = { 0 };
	struct rpc_message m;
	struct mcp_call *c = NULL;
	int status = mcp_session_find(x, &err);

	if (!status && rpc_read(json, &m, &err) < 0)
		status = 400;
	if (!status && m.kind == RPC_REQUEST) {
		c = mcp_call_new(x->session->stream, json, &m);
		status = c ? 0 : 503;
		if (!c)
			(void)rpc_error_set(&err, RPC_INTERNAL_ERROR, "out of memory");
	}
	if (status) {
		mcp_exchange_refuse(x, status, &err);
		return;
	}
	mcp_exchange_empty(x, 202);
	if (c)
		mcp_call_run(c);
	else
		mcp_notified(x, &m);
}
