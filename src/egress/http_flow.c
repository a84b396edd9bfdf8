/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_flow.c - HTTP/1: judge each request, and write it again from its parsed form
 *
 * Requests are handled one after another: the next request is parsed when the response to
 * the previous one is complete. So a refusal has its correct place among the responses,
 * and the response to an upgrade is recognised. Data that the client sends in the
 * meantime waits.
 *
 * A request is written from its parsed form, with a single Host and its own framing, so
 * the server cannot see a different request than the one that was judged. Responses are
 * forwarded unchanged; they are parsed only to find their ends.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "egress/http_flow.h"
#include "network/header.h"
#include "network/request_flow.h"

/* Free a request that may contain secrets. */
static void http_flow_wipe(struct buf *b)
{
	if (b->data)
		explicit_bzero(b->data, b->len);
	buf_done(b);
}

void http_flow_free(struct egress_flow *f)
{
	struct http_flow *h = f->http;

	if (!h)
		return;
	request_flow_done(&h->parser);
	buf_done(&h->pending);
	http_flow_wipe(&h->unsent);
	buf_done(&h->head);
	free(h);
	f->http = NULL;
}

/* ------------------------------------------------------------------------ refusals */

static const char *http_flow_phrase(int status)
{
	static const struct {
		int status;
		const char *phrase;
	} phrases[] = {
		{ 400, "Bad Request" },
		{ 403, "Forbidden" },
		{ 405, "Method Not Allowed" },
		{ 421, "Misdirected Request" },
		{ 431, "Request Header Fields Too Large" },
		{ 501, "Not Implemented" },
		{ 502, "Bad Gateway" },
		{ 503, "Service Unavailable" },
		{ 504, "Gateway Timeout" },
		{ 505, "HTTP Version Not Supported" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(phrases); i++)
		if (phrases[i].status == status)
			return phrases[i].phrase;
	return "Error";
}

void http_flow_fail(struct egress_flow *f, int status, const char *why)
{
	AUTO_BUF struct buf out = BUF_INIT(8192);
	int r;

	/* A new response cannot begin inside another one. */
	if (f->http && (f->http->in_body || f->http->head.len)) {
		egress_flow_reset(f);
		return;
	}
	buf_printf(&out,
		   "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
		   "Content-Length: %zu\r\nConnection: close\r\n\r\nwarren: ",
		   status, http_flow_phrase(status), strlen(why) + strlen("warren: \n"));
	buf_puts(&out, why); /* buf_printf() is only for short texts */
	buf_puts(&out, "\n");
	r = out.failed ? -ENOMEM : end_write(&f->client, out.data, out.len);
	if (r < 0)
		egress_flow_reset(f);
	else
		egress_flow_linger(f);
}

static void http_flow_deny(struct egress_flow *f, const struct request *q,
			   const struct decision *d)
{
	AUTO_BUF struct buf text = BUF_INIT(4096);

	egress_denied(f->sandbox, q, d, NULL);
	egress_put_reason(q, d, &text);
	http_flow_fail(f, 403, text.failed ? "denied by policy" : text.data);
}

/* ------------------------------------------------------------------------ requests */

static bool http_flow_drops(const struct http_head *head, const char *name)
{
	static const char *const names[] = {
		"host",
		"connection",
		"proxy-connection",
		"keep-alive",
		"proxy-authorization",
		"proxy-authenticate",
		"te",
		"trailer",
		"transfer-encoding",
		"content-length",
		"upgrade",
		"http2-settings",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (header_names_alike(name, names[i]))
			return true;
	/* The client declares these headers to be for this connection only. */
	for (size_t i = 0; i < head->n_fields; i++)
		if (strcasecmp(head->fields[i].name, "connection") == 0 &&
		    http_list_has(head->fields[i].value, name))
			return true;
	return false;
}

static void http_flow_put_host(const struct request *q, uint16_t usual, struct buf *out)
{
	char text[HOST_TEXT_SIZE];

	host_text(&q->host, text);
	buf_printf(out,
		   q->host.kind == HOST_NET && strchr(text, ':') ? "Host: [%s]"
								 : "Host: %s",
		   text);
	if (q->port != usual)
		buf_printf(out, ":%u", q->port);
	buf_puts(out, "\r\n");
}

/* Does the rule set this header, so that the client's own is removed? */
static bool http_flow_replaces(const struct rule *add, const char *name)
{
	for (size_t i = 0; add && i < add->n_headers; i++)
		if (header_names_alike(add->headers[i].name, name))
			return true;
	return false;
}

static int http_flow_put_headers(const struct policy *p, const struct rule *add,
				 struct buf *out)
{
	int r = 0;

	for (size_t i = 0; add && r == 0 && i < add->n_headers; i++) {
		buf_puts(out, add->headers[i].name);
		buf_puts(out, ": ");
		r = rule_expand_header(p, &add->headers[i], out);
		buf_puts(out, "\r\n");
	}
	return r;
}

static void http_flow_put_head(const struct http_flow *h, const struct rule *add,
			       struct buf *out)
{
	const struct http_head *head = &h->parser.head;
	const char *target = head->target;

	/* Do not use buf_printf(), which is only for short texts. */
	buf_puts(out, head->method);
	buf_puts(out, target[0] == '/' || target[0] == '*' ? " " : " /");
	buf_puts(out, target);
	buf_puts(out, head->minor ? " HTTP/1.1\r\n" : " HTTP/1.0\r\n");
	http_flow_put_host(&h->parser.request, h->parser.tls ? 443 : 80, out);
	for (size_t i = 0; i < head->n_fields; i++) {
		const struct http_field *field = &head->fields[i];

		if (http_flow_drops(head, field->name) ||
		    http_flow_replaces(add, field->name))
			continue;
		buf_add(out, field->name, field->name_len);
		buf_puts(out, ": ");
		buf_add(out, field->value, field->value_len);
		buf_puts(out, "\r\n");
	}
	if (head->chunked)
		buf_puts(out, "Transfer-Encoding: chunked\r\n");
	else if (head->has_length)
		buf_printf(out, "Content-Length: %ju\r\n", (uintmax_t)head->length);
	if (h->websocket)
		buf_puts(out, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
	else if (h->close)
		buf_puts(out, "Connection: close\r\n");
	else if (head->minor == 0)
		buf_puts(out, "Connection: keep-alive\r\n");
}

/* Send a part of the request, or keep it until there is a connection. */
static void http_flow_send(struct egress_flow *f, const char *data, size_t n)
{
	struct http_flow *h = f->http;

	if (h->broken || n == 0)
		return;
	egress_count(f, 0, n);
	if (f->upstream != UPSTREAM_READY)
		buf_add(&h->unsent, data, n);
	else if (end_write(&f->server, data, n) < 0)
		http_flow_server_broken(f);
}

void http_flow_server_broken(struct egress_flow *f)
{
	f->http->broken = f->http->close = true;
	free(f->server.queue);
	f->server.queue = NULL;
	f->server.queue_len = f->server.queue_off = 0;
}

/* Write the head with the headers that the policy adds. False: the flow has failed. */
static bool http_flow_write_head(struct egress_flow *f)
{
	const struct http_flow *h = f->http;
	const struct rule *add = policy_headers(f->sandbox->index, &f->q);
	CLEANUP(http_flow_wipe) struct buf out = BUF_INIT(HTTP_FLOW_UNSENT);

	/* For TRACE, the server would return the added headers to the client. */
	if (add && strcmp(h->parser.head.method, "TRACE") == 0) {
		http_flow_fail(f, 405, "TRACE is not allowed if headers are added");
		return false;
	}
	http_flow_put_head(h, add, &out);
	if (http_flow_put_headers(&f->sandbox->policy, add, &out) < 0) {
		http_flow_fail(f, 502, "a header of the policy cannot be added");
		return false;
	}
	buf_puts(&out, "\r\n");
	if (out.failed) {
		http_flow_fail(f, 431, "the header is too long");
		return false;
	}
	http_flow_send(f, out.data, out.len);
	return true;
}

/* Is this request for the same host? A proxy's next request may be for another one. */
static bool http_flow_same_host(const struct egress_flow *f, const struct request *q)
{
	return f->q.port == q->port && f->q.host.kind == q->host.kind &&
	       (f->q.host.kind != HOST_NAME || f->name) &&
	       host_compare(&f->q.host, &q->host) == 0;
}

/* Make @q the current request of the flow. Return false if the flow has ended. */
static bool http_flow_adopt(struct egress_flow *f, const struct request *q)
{
	bool same = http_flow_same_host(f, q);

	if (!same) {
		upstream_stop(f);
		if (!egress_flow_set_host(f, &q->host, q->port)) {
			http_flow_fail(f, 502, "the host has no name");
			return false;
		}
	}
	f->q.protocol = q->protocol;
	if (!egress_flow_set_request(f, q->method, q->path)) {
		egress_flow_reset(f);
		return false;
	}
	return true;
}

/*
 * Some servers use the method that a header names, instead of that of the request. So the
 * policy must allow both. Return false if it does not, and the request was denied.
 */
static bool http_flow_judge_overrides(struct egress_flow *f)
{
	static const char *const names[] = { "x-http-method-override", "x-http-method",
					     "x-method-override" };
	const struct http_head *head = &f->http->parser.head;
	char method[HTTP_FLOW_METHOD_MAX + 1];
	struct request q = f->q;
	struct decision d;

	q.method = method;
	for (size_t i = 0; i < head->n_fields; i++) {
		const struct http_field *field = &head->fields[i];
		size_t k = 0, n = 0;

		while (k < ARRAY_SIZE(names) &&
		       !header_names_alike(field->name, names[k]))
			k++;
		if (k == ARRAY_SIZE(names))
			continue;
		for (; n < field->value_len && n < HTTP_FLOW_METHOD_MAX; n++)
			method[n] = (char)toupper((unsigned char)field->value[n]);
		method[n] = '\0';
		policy_decide(f->sandbox->index, &q, &d);
		if (!d.allowed) {
			http_flow_deny(f, &q, &d);
			return false;
		}
	}
	return true;
}

/*
 * Does the request have a body that servers do not expect? Some of them do not read it,
 * and would take it for the next request, which is not judged. So it must be the last
 * request of the connection.
 */
static bool http_flow_has_odd_body(const struct http_head *head)
{
	static const char *const usual[] = { "POST", "PUT", "PATCH" };

	if (!head->chunked && (!head->has_length || head->length == 0))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(usual); i++)
		if (strcmp(head->method, usual[i]) == 0)
			return false;
	return true;
}

/* A request for a host was parsed. Return false to stop parsing. */
static bool http_flow_request(struct egress_flow *f)
{
	struct http_flow *h = f->http;
	const struct http_head *head = &h->parser.head;
	struct decision d;

	if (!http_flow_adopt(f, &h->parser.request))
		return false;
	policy_decide(f->sandbox->index, &f->q, &d);
	if (!d.allowed) {
		http_flow_deny(f, &f->q, &d);
		return false;
	}
	if (!http_flow_judge_overrides(f))
		return false;
	egress_flow_record(f);
	h->busy = true;
	h->request_done = h->response_done = h->in_body = false;
	h->is_head = strcmp(head->method, "HEAD") == 0;
	h->websocket = h->parser.websocket;
	h->close = head->close || (head->minor == 0 && !head->keep_alive) ||
		   http_flow_has_odd_body(head);
	if (!http_flow_write_head(f))
		return false;
	if (f->upstream == UPSTREAM_READY) {
		egress_flow_set_timer(f, 0);
		return true;
	}
	if (f->upstream == UPSTREAM_NONE)
		upstream_start(f);
	return !f->over && f->state == EGRESS_FLOW_HTTP && f->upstream == UPSTREAM_READY;
}

/* From here on, the connection is a tunnel, whose content is judged separately. */
static void http_flow_tunnel(struct egress_flow *f)
{
	struct http_flow *h = f->http;
	struct request q = h->parser.request;
	bool known;

	buf_add(&f->first, h->pending.data ? h->pending.data + h->pending_off : "",
		h->pending.len - h->pending_off);
	upstream_stop(f);
	known = egress_flow_set_host(f, &q.host, q.port);
	(void)egress_flow_set_request(f, NULL, NULL);
	f->reply = FRONT_OWES_CONNECT;
	http_flow_free(f);
	if (known && !f->first.failed)
		egress_flow_open(f);
	else
		front_reply(f, 502, "the host has no name");
}

static void http_flow_body(struct egress_flow *f)
{
	const struct request_flow *p = &f->http->parser;
	char size[24];

	if (!p->head.chunked) {
		http_flow_send(f, p->piece, p->piece_len);
		return;
	}
	(void)snprintf(size, sizeof(size), "%zx\r\n", p->piece_len);
	http_flow_send(f, size, strlen(size));
	http_flow_send(f, p->piece, p->piece_len);
	http_flow_send(f, "\r\n", 2);
}

static void http_flow_request_end(struct egress_flow *f)
{
	struct http_flow *h = f->http;

	if (h->parser.head.chunked)
		http_flow_send(f, "0\r\n\r\n", 5);
	h->request_done = true;
	http_flow_next(f);
}

/* Handle one event of the parser. Return false if another event must continue the
 * parsing. */
static bool http_flow_event(struct egress_flow *f, enum flow_event event)
{
	struct http_flow *h = f->http;

	switch (event) {
	case FLOW_HEAD:
		if (!h->parser.connect)
			return http_flow_request(f);
		http_flow_tunnel(f);
		return false;
	case FLOW_BODY:
		http_flow_body(f);
		return true;
	case FLOW_END:
		http_flow_request_end(f);
		return false; /* http_flow_next() continues */
	case FLOW_REFUSED:
		egress_denied(f->sandbox, &f->q, &(struct decision){ 0 }, h->parser.why);
		http_flow_fail(f, h->parser.status, h->parser.why);
		return false;
	case FLOW_MORE:
		break;
	}
	return false;
}

/* May bytes of the client be parsed now? */
static bool http_flow_may_parse(const struct egress_flow *f)
{
	const struct http_flow *h = f->http;

	if (f->over || f->state != EGRESS_FLOW_HTTP)
		return false;
	return !h->busy || (!h->request_done && f->upstream == UPSTREAM_READY);
}

static void http_flow_parse(struct egress_flow *f)
{
	struct http_flow *h = f->http;
	bool more = true;

	while (more && http_flow_may_parse(f)) {
		enum flow_event event = FLOW_MORE;
		size_t left = h->pending.len - h->pending_off;

		h->pending_off += request_flow_feed(
			&h->parser, left ? h->pending.data + h->pending_off : "", left,
			&event);
		more = http_flow_event(f, event);
	}
	/* After a CONNECT, the flow may even use HTTP again, with another parser. */
	if (f->over || f->http != h || h->pending_off < h->pending.len)
		return;
	/* Everything was parsed. Free the buffer, because an idle connection does not
	 * need it. */
	buf_done(&h->pending);
	h->pending = (struct buf)BUF_INIT(HTTP_FLOW_READ);
	h->pending_off = 0;
}

/* The request and the response are complete, or the response makes the rest of the
 * request pointless. */
void http_flow_next(struct egress_flow *f)
{
	struct http_flow *h = f->http;

	if (!h->response_done || (!h->request_done && !h->close))
		return;
	if (h->close || f->client.ended) {
		egress_flow_linger(f);
		return;
	}
	h->busy = false;
	(void)egress_flow_set_request(f, NULL, NULL);
	http_flow_parse(f);
}

bool http_flow_wants_client(const struct egress_flow *f)
{
	const struct http_flow *h = f->http;

	return h->pending_off == h->pending.len && !end_has_queue(&f->server) &&
	       !end_has_queue(&f->client) && (!h->busy || f->upstream == UPSTREAM_READY);
}

void http_flow_from_client(struct egress_flow *f)
{
	struct http_flow *h = f->http;
	size_t want = egress_allowance(f, egress_buffer_max(f->sandbox));
	char *at;
	ssize_t n;

	if (want == 0)
		return;
	at = buf_reserve(&h->pending, want);
	n = at ? end_read(&f->client, at, want) : -ENOMEM;
	if (n == -EAGAIN)
		return;
	if (n < 0) {
		egress_flow_reset(f);
		return;
	}
	if (n == 0) {
		/* A request that was received completely is still answered. */
		if (!h->busy || !h->request_done)
			egress_flow_end(f);
		return;
	}
	h->pending.len += (size_t)n;
	http_flow_parse(f);
}

void http_flow_connected(struct egress_flow *f)
{
	struct http_flow *h = f->http;

	if (h->unsent.failed ||
	    (h->unsent.len && end_write(&f->server, h->unsent.data, h->unsent.len) < 0)) {
		http_flow_fail(f, 502, "the server closed the connection");
		return;
	}
	http_flow_wipe(&h->unsent);
	h->unsent = (struct buf)BUF_INIT(HTTP_FLOW_UNSENT);
	http_flow_parse(f);
}

/* ---------------------------------------------------------------------- start of HTTP */

bool http_flow_start(struct egress_flow *f, bool proxy)
{
	struct http_flow *h = calloc(1, sizeof(*h));

	if (!h)
		return false;
	*h = (struct http_flow){ .parser = REQUEST_FLOW_INIT,
				 .pending = BUF_INIT(HTTP_FLOW_READ),
				 .unsent = BUF_INIT(HTTP_FLOW_UNSENT),
				 .head = BUF_INIT(REQUEST_HEAD_MAX + EGRESS_SCRATCH),
				 .proxy = proxy };
	if (!proxy) {
		h->parser.host = &f->q.host;
		h->parser.port = f->q.port;
		h->parser.tls = f->client.tls != NULL;
	}
	h->parser.bytes.max = egress_share(f->sandbox, EGRESS_HEADS, REQUEST_HEAD_MAX);
	f->http = h;
	f->state = EGRESS_FLOW_HTTP;
	f->q.protocol = proxy ? 0 : f->client.tls ? RULE_HTTPS : RULE_HTTP;
	if (f->upstream == UPSTREAM_NONE)
		egress_flow_set_timer(f, EGRESS_FIRST_MS);
	/* The bytes that were classified are the beginning of the first request. */
	h->pending.max = f->first.len > HTTP_FLOW_READ ? f->first.len : HTTP_FLOW_READ;
	buf_add(&h->pending, f->first.data ? f->first.data : "", f->first.len);
	buf_done(&f->first);
	f->first = (struct buf)BUF_INIT((size_t)2 * HTTP_FLOW_READ);
	if (h->pending.len)
		http_flow_parse(f);
	return true;
}
