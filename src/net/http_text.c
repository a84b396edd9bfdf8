/* SPDX-License-Identifier: Apache-2.0 */
/* http_text.c - look up headers, decode percent-encoding, names of statuses */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/percent.h"
#include "net/http_internal.h"

static const struct {
	int status;
	const char *text;
	const char *code; /* error code in the body of a refusal */
} statuses[] = {
	{ 200, "OK", NULL },
	{ 101, "Switching Protocols", NULL },
	{ 201, "Created", NULL },
	{ 202, "Accepted", NULL },
	{ 204, "No Content", NULL },
	{ 206, "Partial Content", NULL },
	{ 301, "Moved Permanently", NULL },
	{ 302, "Found", NULL },
	{ 303, "See Other", NULL },
	{ 304, "Not Modified", NULL },
	{ 307, "Temporary Redirect", NULL },
	{ 308, "Permanent Redirect", NULL },
	{ 400, "Bad Request", "bad_request" },
	{ 401, "Unauthorized", "unauthorized" },
	{ 402, "Payment Required", NULL },
	{ 403, "Forbidden", "forbidden" },
	{ 404, "Not Found", "not_found" },
	{ 405, "Method Not Allowed", "method_not_allowed" },
	{ 406, "Not Acceptable", NULL },
	{ 408, "Request Timeout", "timeout" },
	{ 409, "Conflict", "conflict" },
	{ 410, "Gone", NULL },
	{ 411, "Length Required", NULL },
	{ 412, "Precondition Failed", NULL },
	{ 413, "Content Too Large", "too_large" },
	{ 414, "URI Too Long", "too_large" },
	{ 415, "Unsupported Media Type", "unsupported_media_type" },
	{ 416, "Range Not Satisfiable", NULL },
	{ 417, "Expectation Failed", "bad_request" },
	{ 421, "Misdirected Request", "misdirected" },
	{ 422, "Unprocessable Content", NULL },
	{ 426, "Upgrade Required", "bad_request" },
	{ 428, "Precondition Required", NULL },
	{ 429, "Too Many Requests", "too_many_requests" },
	{ 431, "Request Header Fields Too Large", "too_large" },
	{ 500, "Internal Server Error", "internal" },
	{ 501, "Not Implemented", "not_implemented" },
	{ 502, "Bad Gateway", "bad_gateway" },
	{ 503, "Service Unavailable", "unavailable" },
	{ 504, "Gateway Timeout", "gateway_timeout" },
	{ 505, "HTTP Version Not Supported", "bad_request" },
	{ 507, "Insufficient Storage", NULL },
};

const char *http_status_text(int status)
{
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++)
		if (statuses[i].status == status)
			return statuses[i].text;
	return "Status";
}

const char *http_refusal_code(int status)
{
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++)
		if (statuses[i].status == status && statuses[i].code)
			return statuses[i].code;
	return "error";
}

const char *http_header(const struct http_request *req, const char *name)
{
	for (size_t i = 0; i < req->n_headers; i++)
		if (strcasecmp(req->headers[i].name, name) == 0)
			return req->headers[i].value;
	return NULL;
}

bool http_header_has(const struct http_request *req, const char *name, const char *token)
{
	for (size_t i = 0; i < req->n_headers; i++)
		if (strcasecmp(req->headers[i].name, name) == 0 &&
		    http_list_has(req->headers[i].value, token))
			return true;
	return false;
}

const char *http_request_id(struct http_request *req)
{
	return request_of(req)->id;
}

void http_peer_text(const struct http_peer *peer, char *text, size_t size)
{
	char address[INET6_ADDRSTRLEN] = "";

	if (peer->kind == HTTP_PEER_UNIX) {
		(void)snprintf(text, size, "unix:pid=%d,uid=%u", (int)peer->pid,
			       peer->uid);
	} else if (IN6_IS_ADDR_V4MAPPED(&peer->address)) {
		(void)inet_ntop(AF_INET, &peer->address.s6_addr[12], address,
				sizeof(address));
		(void)snprintf(text, size, "%s:%u", address, peer->port);
	} else {
		(void)inet_ntop(AF_INET6, &peer->address, address, sizeof(address));
		(void)snprintf(text, size, "[%s]:%u", address, peer->port);
	}
}

int http_query_next(const char **at, char *name, size_t name_size, char *value,
		    size_t value_size)
{
	const char *p = *at, *end, *equals;
	ssize_t r;

	if (!p)
		return 0;
	p += strspn(p, "&");
	if (!*p)
		return 0;
	end = p + strcspn(p, "&");
	equals = memchr(p, '=', (size_t)(end - p));
	*at = end;
	r = percent_decode(p, (size_t)((equals ? equals : end) - p), true, name,
			   name_size);
	if (r == -ENOSPC) /* longer than every name that the caller knows */
		name[0] = '\0';
	else if (r < 0)
		return (int)r;
	if (!value)
		return 1;
	p = equals ? equals + 1 : end;
	r = percent_decode(p, (size_t)(end - p), true, value, value_size);
	return r < 0 ? (int)r : 1;
}
