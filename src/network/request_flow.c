/* SPDX-License-Identifier: Apache-2.0 */
/* request_flow.c - parse the heads and bodies of a connection, and find out what each
 * head requests */
#include "network/request_flow.h"

#include <string.h>
#include <strings.h>

#include "network/header.h"

/* Number of bytes that are searched for the end of a head at a time. */
#define HEAD_PIECE 1024U

enum {
	STATE_HEAD,
	STATE_BODY, /* the body and its end */
	STATE_OVER, /* refused, or changed into a tunnel */
};

static enum flow_event flow_refuse(struct request_flow *f, int status, const char *why)
{
	f->state = STATE_OVER;
	f->connect = false;
	f->status = status;
	f->why = why;
	return FLOW_REFUSED;
}

static bool flow_same_host(const struct host *a, const struct host *b)
{
	return host_contains(a, b) && host_contains(b, a);
}

/* Return the first header of that name; NULL: there is none. */
static const char *flow_header(const struct http_head *h, const char *name)
{
	for (size_t i = 0; i < h->n_fields; i++)
		if (strcasecmp(h->fields[i].name, name) == 0)
			return h->fields[i].value;
	return NULL;
}

/*
 * Does the request ask for an upgrade, and does every header about it name only
 * "websocket"? A request with a body does not count: a server that ignores the body would
 * take it for a second request, which no rule has judged.
 */
static bool flow_is_websocket(const struct http_head *h)
{
	if (!h->upgrade || h->chunked || h->length > 0 || !flow_header(h, "upgrade"))
		return false;
	for (size_t i = 0; i < h->n_fields; i++)
		if (strcasecmp(h->fields[i].name, "upgrade") == 0 &&
		    strcasecmp(h->fields[i].value, "websocket") != 0)
			return false;
	return true;
}

/* Some servers use the path that such a header contains, instead of the target. */
static bool flow_has_other_path(const struct http_head *h)
{
	static const char *const names[] = { "x-original-url", "x-rewrite-url" };

	for (size_t i = 0; i < h->n_fields; i++)
		for (size_t k = 0; k < ARRAY_SIZE(names); k++)
			if (header_names_alike(h->fields[i].name, names[k]))
				return true;
	return false;
}

static bool flow_parse_host(const char *text, char *name, struct host *h, uint16_t *port)
{
	struct warren_error err = WARREN_ERROR_INIT;

	return host_parse_port(text, strlen(text), name, h, port, &err) == 0 &&
	       h->kind != HOST_SUFFIX && (h->kind != HOST_NET || h->net.bits == 128);
}

/*
 * Does @text name the host of the request? If it contains a port, the port must match.
 * Otherwise, the port must be @usual, or can be any port of the connection.
 */
static bool flow_agrees(struct request_flow *f, const char *text, uint16_t usual)
{
	char name[HOST_TEXT_SIZE];
	struct host h;
	uint16_t port = 0;

	if (!flow_parse_host(text, name, &h, &port))
		return false;
	return flow_same_host(&h, &f->request.host) &&
	       (port ? port : usual) == f->request.port;
}

/* Read the host from the target of a request to a proxy. */
static const char *flow_read_authority(struct request_flow *f)
{
	uint16_t usual = f->connect ? 0 : 80;

	if (f->head.https)
		return "https needs CONNECT";
	if (!flow_parse_host(f->head.authority, f->name, &f->request.host,
			     &f->request.port))
		return "the host of the request target is malformed";
	if (f->request.port == 0)
		f->request.port = usual;
	return f->request.port ? NULL : "CONNECT needs a port";
}

/* Find the host and port of a request; all parts of the request that name them must
 * agree. */
static enum flow_event flow_find_host(struct request_flow *f)
{
	const char *header = flow_header(&f->head, "host"), *why;
	uint16_t usual = f->tls ? 443 : 80;

	if (f->host) {
		f->request.host = *f->host;
		f->request.port = f->port;
		usual = f->port;
		if (f->head.authority && (f->head.https != f->tls ||
					  !flow_agrees(f, f->head.authority, usual)))
			return flow_refuse(f, 421,
					   "the request target names another host");
	} else {
		if (!f->head.authority)
			return flow_refuse(f, 400, "a proxy needs an absolute target");
		why = flow_read_authority(f);
		if (why)
			return flow_refuse(f, 400, why);
		usual = f->request.port;
	}
	if (header && !flow_agrees(f, header, usual))
		return flow_refuse(f, 421, "the header Host names another host");
	return FLOW_HEAD;
}

static enum flow_event flow_read_head(struct request_flow *f)
{
	enum flow_event event;
	int status = http_head_proxy_request(f->bytes.data, f->bytes.len, &f->head);

	if (status != 0)
		return flow_refuse(f, status, f->head.why);
	f->connect = strcmp(f->head.method, "CONNECT") == 0;
	f->request = (struct request){ 0 };
	if (f->connect && f->host)
		return flow_refuse(f, 405, "CONNECT is only for a proxy");
	if (f->connect && (f->head.chunked || f->head.has_length))
		return flow_refuse(f, 400, "CONNECT has no body");
	event = flow_find_host(f);
	if (event != FLOW_HEAD)
		return event;
	if (f->connect) {
		f->request.opening = true;
		f->state = STATE_OVER;
		return FLOW_HEAD;
	}
	f->request.protocol = f->tls ? RULE_HTTPS : RULE_HTTP;
	f->request.method = f->head.method;
	f->websocket = flow_is_websocket(&f->head);
	if (!flow_has_other_path(&f->head) &&
	    rule_path(f->head.target, f->path, sizeof(f->path)))
		f->request.path = f->path;
	http_body_init(&f->body,
		       f->head.chunked      ? HTTP_BODY_CHUNKED
		       : f->head.has_length ? HTTP_BODY_LENGTH
					    : HTTP_BODY_NONE,
		       f->head.length);
	f->state = STATE_BODY;
	return FLOW_HEAD;
}

/* Add a piece of a head; *@ret_used is the number of bytes that belong to the head. */
static enum flow_event flow_add(struct request_flow *f, const char *data, size_t n,
				size_t *ret_used)
{
	size_t before = f->bytes.len, room = f->bytes.max - before;
	long len;

	*ret_used = 0;
	if (room == 0)
		return flow_refuse(f, 431, "the header is too long");
	n = n < room ? n : room;
	buf_add(&f->bytes, data, n);
	if (f->bytes.failed)
		return flow_refuse(f, 503, "out of memory");
	len = http_head_find(f->bytes.data, f->bytes.len, &f->scanned);
	if (len < 0)
		return flow_refuse(f, 400, "it is not a request");
	*ret_used = n;
	if (len == 0)
		return FLOW_MORE;
	f->bytes.len = (size_t)len;
	*ret_used = (size_t)len - before;
	return flow_read_head(f);
}

static size_t flow_feed_head(struct request_flow *f, const char *data, size_t n,
			     enum flow_event *ret_event)
{
	size_t used = 0, more;

	/* Add the data in pieces, because bytes after the head would be copied
	 * unnecessarily. */
	while (used < n && *ret_event == FLOW_MORE) {
		size_t part = n - used < HEAD_PIECE ? n - used : HEAD_PIECE;

		*ret_event = flow_add(f, data + used, part, &more);
		used += more;
	}
	return used;
}

static enum flow_event flow_end(struct request_flow *f)
{
	f->state = STATE_HEAD;
	f->bytes.len = 0;
	f->scanned = 0;
	return FLOW_END;
}

static size_t flow_feed_body(struct request_flow *f, const char *data, size_t n,
			     enum flow_event *ret_event)
{
	long used = 0;

	if (!f->body.done)
		used = http_body_take(&f->body, data, n, &f->piece, &f->piece_len);
	if (used < 0) {
		*ret_event = flow_refuse(f, 400, "a chunk of the body is malformed");
		return 0;
	}
	if (f->piece_len > 0)
		*ret_event = FLOW_BODY;
	else if (f->body.done)
		*ret_event = flow_end(f);
	return (size_t)used;
}

size_t request_flow_feed(struct request_flow *f, const char *data, size_t n,
			 enum flow_event *ret_event)
{
	f->piece = NULL;
	f->piece_len = 0;
	*ret_event = FLOW_MORE;
	if (f->state == STATE_OVER)
		return 0;
	if (f->state == STATE_BODY)
		return flow_feed_body(f, data, n, ret_event);
	return n > 0 ? flow_feed_head(f, data, n, ret_event) : 0;
}

void request_flow_done(struct request_flow *f)
{
	buf_done(&f->bytes);
}
