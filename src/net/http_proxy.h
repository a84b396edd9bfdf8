/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_proxy.h - forward a request, or all bytes, to an untrusted server
 *
 * The proxy parses the request and the response and rewrites both; it forwards neither
 * unchanged. An invalid response from the server (two lengths, a line end in a value, an
 * upgrade that was not requested) becomes a 502. If both sides agree to an upgrade, the
 * proxy forwards bytes from then on. A tunnel forwards bytes from the start, so the
 * server need not speak HTTP.
 */
#ifndef NET_HTTP_PROXY_H
#define NET_HTTP_PROXY_H

#include "net/http.h"

struct http_proxy_options {
	const char *target; /* target for the server; NULL: as the client sent it */
	const char *host; /* value of Host for the server; NULL: as the client sent it */
	/* Headers that are not forwarded, NULL-terminated; NULL: none. */
	const char *const *without;
	/* Headers of the response that are not forwarded; must outlive the request. */
	const char *const *answer_without;
	/* A header to add to the response; name NULL: none. */
	struct http_header with;
	/*
	 * How long to wait without progress for the head of the response; after that, the
	 * response is 504. 0: 60 s.
	 */
	unsigned head_ms;
	/*
	 * Called once and last, like closed() of a request. The proxy uses `user` and the
	 * callbacks of the request itself.
	 */
	void (*closed)(void *ctx, int why);
	void *ctx;
};

/*
 * Forward @req to the server at the other end of @fd, a stream socket that is connected
 * or connecting, and answer with the server's response. Takes @fd; the caller must not
 * use @req any more.
 */
void http_proxy(struct http_request *req, int fd,
		const struct http_proxy_options *options);

/*
 * Answer @req with 101 and @headers, then forward bytes between its client and @fd in
 * both directions. Each direction ends separately. Takes @fd. @closed is called once and
 * last.
 */
void http_tunnel(struct http_request *req, int fd, const struct http_header *headers,
		 size_t n_headers, void (*closed)(void *ctx, int why), void *ctx);

#endif /* NET_HTTP_PROXY_H */
