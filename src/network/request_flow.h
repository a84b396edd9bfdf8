/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request_flow.h - the requests that a client sends over one connection of HTTP/1
 *
 *	struct request_flow f = REQUEST_FLOW_INIT;
 *
 *	do {
 *		used = request_flow_feed(&f, data, n, &event);
 *		...
 *	} while (event != FLOW_MORE && event != FLOW_REFUSED && !f.connect);
 *
 * Each request of a connection is one for policy_decide(): FLOW_HEAD has it. The end of
 * its body is found with the strict parsers of net/http_head.h and net/http_body.h, which
 * refuse what two programs could frame differently; so a second request cannot be hidden
 * in the body of the first.
 *
 * The names in a request must agree: that in an absolute target with the header Host,
 * and that with the host that the connection is for. What is sent on must be written
 * anew from what was parsed, with one Host, and not be the client's bytes.
 *
 * A connection that is no longer HTTP (CONNECT; or an upgrade that the server accepts)
 * must not be fed any more. What is in a tunnel is judged by itself. Only @websocket may
 * be sent on as an upgrade: in HTTP/2, there would be requests that are not judged.
 */
#ifndef NETWORK_REQUEST_FLOW_H
#define NETWORK_REQUEST_FLOW_H

#include "net/http_body.h"
#include "net/http_head.h"
#include "network/decide.h"

#define REQUEST_HEAD_MAX 65536
#define REQUEST_PATH_MAX 4096

enum flow_event {
	FLOW_MORE,    /* more bytes are needed */
	FLOW_HEAD,    /* a request begins: @request, @head */
	FLOW_BODY,    /* a piece of its body: @piece */
	FLOW_END,     /* the request is complete */
	FLOW_REFUSED, /* answer with @status, which @why explains, and close */
};

struct request_flow {
	/* The caller's: */
	const struct host *host; /* what the connection is for; NULL: it is a proxy's */
	uint16_t port;           /* of the host */
	bool tls;                /* it is the inside of TLS */

	/* What was parsed; valid until the next head. */
	struct request request; /* for CONNECT: opening */
	struct http_head head;
	bool connect;
	bool websocket;    /* the client wants to upgrade to that, and to nothing else */
	const char *piece; /* in the caller's bytes */
	size_t piece_len;
	int status;
	const char *why;

	/* Private: */
	uint8_t state;
	struct buf bytes; /* of a head */
	size_t scanned;
	struct http_body body;
	char name[HOST_TEXT_SIZE], path[REQUEST_PATH_MAX];
};

#define REQUEST_FLOW_INIT                           \
	{                                           \
		.bytes = BUF_INIT(REQUEST_HEAD_MAX) \
	}

/*
 * Use bytes up to one event; returns how many. FLOW_MORE: all were used, and all that
 * they mean was reported. After FLOW_REFUSED and behind CONNECT, none are used.
 */
size_t request_flow_feed(struct request_flow *f, const char *data, size_t n,
			 enum flow_event *ret_event);
void request_flow_done(struct request_flow *f);

#define AUTO_REQUEST_FLOW CLEANUP(request_flow_done)

#endif /* NETWORK_REQUEST_FLOW_H */
