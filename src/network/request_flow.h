/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request_flow.h - split the bytes of an HTTP/1 connection into requests that can be
 * judged
 *
 *	struct request_flow f = REQUEST_FLOW_INIT;
 *
 *	do {
 *		used = request_flow_feed(&f, data, n, &event);
 *		...
 *	} while (event != FLOW_MORE && event != FLOW_REFUSED && !f.connect);
 *
 * Each request on a connection must be judged with policy_decide(); FLOW_HEAD provides
 * it. The strict parsers in net/http_head.h and net/http_body.h find the end of its body.
 * They refuse a message that two programs could frame differently, so a second request
 * cannot be hidden in the body of the first.
 *
 * The host names in a request must agree: an absolute target, the header Host, and the
 * host that the connection is for. The caller must not forward the client's bytes. It
 * must write a new request from the parsed one, with a single Host.
 *
 * After CONNECT, or after an upgrade that the server accepts, a connection is no longer
 * HTTP, and its bytes must not be fed to this parser. The content of a tunnel is judged
 * separately. Only an upgrade with @websocket may be forwarded: after an upgrade to
 * HTTP/2, requests would not be judged.
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
	FLOW_BODY,    /* a piece of the request's body: @piece */
	FLOW_END,     /* the request is complete */
	FLOW_REFUSED, /* answer with @status, which @why explains, and close */
};

struct request_flow {
	/* Set by the caller: */
	const struct host
		*host; /* host that the connection is for; NULL: any, as for a proxy */
	uint16_t port; /* port of the host */
	bool tls;      /* the bytes were decrypted from TLS */

	/* What was parsed; valid until the next head. */
	struct request request; /* for CONNECT, `opening` is set */
	struct http_head head;
	bool connect;
	bool websocket;    /* the client requests an upgrade to WebSocket only */
	const char *piece; /* points into the caller's bytes */
	size_t piece_len;
	int status;
	const char *why;

	/* Private: */
	uint8_t state;
	struct buf bytes; /* bytes of an incomplete head */
	size_t scanned;
	struct http_body body;
	char name[HOST_TEXT_SIZE], path[REQUEST_PATH_MAX];
};

#define REQUEST_FLOW_INIT                           \
	{                                           \
		.bytes = BUF_INIT(REQUEST_HEAD_MAX) \
	}

/*
 * Parse bytes up to the next event. Returns how many were used. FLOW_MORE: all bytes were
 * used, and all their events were reported. After FLOW_REFUSED and after CONNECT, no
 * bytes are used.
 */
size_t request_flow_feed(struct request_flow *f, const char *data, size_t n,
			 enum flow_event *ret_event);
void request_flow_done(struct request_flow *f);

#define AUTO_REQUEST_FLOW CLEANUP(request_flow_done)

#endif /* NETWORK_REQUEST_FLOW_H */
