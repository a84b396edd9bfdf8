/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_proxy.h - forward a request, or all bytes, to an untrusted server
 *
 * Nothing is passed on unchanged: the request is written again from its parsed form, and
 * so is the answer. An invalid answer of the server (two lengths, a line end in a value,
 * an upgrade that was not requested) becomes a 502. An upgrade that both sides want makes
 * the connection a pipe of bytes. A tunnel is
 * one from the start: the server need not speak HTTP.
 */
#ifndef NET_HTTP_PROXY_H
#define NET_HTTP_PROXY_H

#include "net/http.h"

struct http_proxy_options {
	const char *target; /* to ask for; NULL: what the client asked for */
	const char *host;   /* to name; NULL: what the client named */
	/* Headers that are not passed on, by name, NULL-terminated; NULL: none. */
	const char *const *without;
	/* The same of the answer; must outlive the request. */
	const char *const *answer_without;
	/* A header that the answer gets on top of the server's own; name NULL: none. */
	struct http_header with;
	unsigned head_ms; /* without progress, until the head of the answer; 0: 60 s; then
			     504 */
	/*
	 * Called once and last, as closed() of a request, whose user and callbacks are
	 * the proxy's.
	 */
	void (*closed)(void *ctx, int why);
	void *ctx;
};

/*
 * Answer @req with what the server at the other end of @fd (taken), a stream
 * socket that is connected or about to be, says to it. The caller is done with both.
 */
void http_proxy(struct http_request *req, int fd,
		const struct http_proxy_options *options);

/*
 * Answer @req with 101 and @headers, and be a pipe between its client and @fd (taken)
 * from then on: each half ends by itself. @closed is called as above.
 */
void http_tunnel(struct http_request *req, int fd, const struct http_header *headers,
		 size_t n_headers, void (*closed)(void *ctx, int why), void *ctx);

#endif /* NET_HTTP_PROXY_H */
