/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_proxy.h - hand a request on to a server that nobody trusts, and its answer back
 *
 * Nothing is passed on as it came: the request is written anew from what was
 * understood of it, and so is the answer. What the other side may not say (two
 * lengths, a line end in a value, an upgrade nobody asked for) becomes a 502. An
 * upgrade that both sides want makes the connection a pipe of bytes.
 */
#ifndef NET_HTTP_PROXY_H
#define NET_HTTP_PROXY_H

#include "net/http.h"

struct http_proxy_options {
	const char *target; /* to ask for; NULL: what the client asked for */
	const char *host;   /* to name; NULL: what the client named */
	/* Headers that are not handed on, by name, NULL-terminated; NULL: none. */
	const char *const *without;
	/* A header that the answer gets on top of the server's own; name NULL: none. */
	struct http_header with;
	unsigned
		head_ms; /* without progress, until the head of the answer; 0: 60 s; then 504 */
	/* Called once and last, as closed() of a request, whose user and callbacks are the proxy's. */
	void (*closed)(void *ctx, int why);
	void *ctx;
};

/*
 * Answer @req with what the server at the other end of @fd (taken), a stream
 * socket that is connected or about to be, says to it. The caller is done with both.
 */
void http_proxy(struct http_request *req, int fd,
		const struct http_proxy_options *options);

#endif /* NET_HTTP_PROXY_H */
