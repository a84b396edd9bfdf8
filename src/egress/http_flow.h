/* SPDX-License-Identifier: Apache-2.0 */
/* http_flow.h - the state of an HTTP connection, shared by http_flow.c and
 * http_response.c */
#ifndef EGRESS_HTTP_FLOW_H
#define EGRESS_HTTP_FLOW_H

#include "egress/egress_internal.h"
#include "network/request_flow.h"

#define HTTP_FLOW_READ       65536U /* maximum number of bytes of a client that wait */
#define HTTP_FLOW_METHOD_MAX 32     /* bytes of a method that are compared */
/* The client's head, and RULE_HEADERS_MAX more. */
#define HTTP_FLOW_UNSENT ((size_t)8 * REQUEST_HEAD_MAX)

struct http_flow {
	struct request_flow parser;
	struct buf pending; /* bytes of the client that were not parsed yet */
	size_t pending_off;
	struct buf unsent; /* a request that waits for the connection to the server */
	struct buf head;   /* head of a response */
	size_t head_scanned;
	struct http_body body; /* body of a response */
	bool proxy;            /* this is a proxy, where each request names its host */
	bool busy; /* a request was allowed, and its response is not complete */
	bool request_done, response_done;
	bool in_body;   /* the head of the response was forwarded */
	bool is_head;   /* the request is HEAD, so the response has no body */
	bool websocket; /* the request asks for an upgrade to WebSocket */
	bool close;     /* close the connection after this response */
	bool broken;    /* the server accepts no more of the request */
};

/* A request or a response is complete: continue with the next request. */
void http_flow_next(struct egress_flow *f);

#endif /* EGRESS_HTTP_FLOW_H */
