/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cors.c - let pages in browsers use the data plane, whatever their origin
 *
 * The data plane knows its clients by tokens that they send, never by cookies or by the
 * address of the browser. So a page of another origin can do nothing that its author
 * could not do without a browser. A browser asks first (a "preflight"), without the
 * headers that name the sandbox.
 */
#include <string.h>

#include "api/e2b/internal.h"

bool e2b_is_preflight(const struct http_request *req, bool envd)
{
	bool other;
	struct route route;

	if (strcmp(req->method, "OPTIONS") != 0 || !http_header(req, "Origin") ||
	    !http_header(req, "Access-Control-Request-Method"))
		return false;
	if (envd ||
	    http_header_has(req, "Access-Control-Request-Headers", "e2b-sandbox-id"))
		return true;
	/* "/health" and others exist on the control plane, too. */
	return (strcmp(req->path, "/files") == 0 || strchr(req->path, '.')) &&
	       !e2b_find_data(ENVD_PORT, req->method, req->path, &route, &other) && other;
}

void e2b_answer_preflight(struct http_request *req)
{
	const char *asked = http_header(req, "Access-Control-Request-Headers");
	const struct http_header headers[] = {
		{ "Access-Control-Allow-Origin", "*" },
		{ "Access-Control-Allow-Methods", "HEAD, GET, POST, PUT, PATCH, DELETE" },
		{ "Access-Control-Max-Age", "7200" },
		{ "Vary", "Origin, Access-Control-Request-Method, "
			  "Access-Control-Request-Headers" },
		/* "*" would not include Authorization. */
		{ "Access-Control-Allow-Headers", asked },
	};

	(void)http_respond(req, 204, headers, ARRAY_SIZE(headers) - (asked ? 0 : 1), NULL,
			   0);
}

void e2b_allow_origins(struct http_request *req)
{
	if (!http_header(req, "Origin"))
		return;
	(void)http_add_header(req, "Access-Control-Allow-Origin", "*");
	(void)http_add_header(req, "Access-Control-Expose-Headers",
			      "Content-Disposition, Content-Range, ETag, Retry-After, "
			      "X-Request-Id");
	(void)http_add_header(req, "Vary", "Origin");
}
