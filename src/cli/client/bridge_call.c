/* SPDX-License-Identifier: Apache-2.0 */
/* bridge_call.c - one message: a request over HTTP, and its answer */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "cli/client/bridge.h"

#define HEADER_MAX (12U << 10)
/* Maximum size of the name of a tool or a resource, encoded. */
#define NAME_MAX_ (8U << 10)
#define EVENT_MAX (16U << 20)

/* ----------------------------------------------------------------------- lifetime */

struct bridge_call *bridge_call_new(struct bridge *b, enum bridge_kind kind, char *body,
				    size_t size, json_t *message)
{
	struct bridge_call *c = calloc(1, sizeof(*c));

	if (!c) {
		free(body);
		json_decref(message);
		return NULL;
	}
	*c = (struct bridge_call){ .bridge = b,
				   .kind = kind,
				   .body = body,
				   .size = size,
				   .message = message,
				   .reply = BUF_INIT(BRIDGE_REPLY_MAX),
				   .event = BUF_INIT(EVENT_MAX) };
	/* Only a request is answered: a response of the client has no method. */
	if (json_object_get(message, "method"))
		c->id = json_object_get(message, "id");
	b->n_calls++;
	b->bytes += size;
	LIST_APPEND(b->calls, c);
	return c;
}

struct bridge_call *bridge_call_free(struct bridge_call *c)
{
	struct bridge_call **at;

	if (!c)
		return NULL;
	LIST_FIND(c->bridge->calls, at, *at == c);
	if (*at)
		*at = c->next;
	if (c->bridge->stream == c)
		c->bridge->stream = NULL;
	c->bridge->n_calls--;
	c->bridge->bytes -= c->size;
	c->request = request_free(c->request);
	json_decref(c->message);
	buf_done(&c->reply);
	buf_done(&c->event);
	free(c->version);
	free(c->body);
	free(c);
	return NULL;
}

const char *bridge_call_header(const struct bridge_call *c, const char *name)
{
	struct curl_header *h = NULL;

	return c->request && curl_easy_header(c->request->easy, name, 0, CURLH_HEADER, -1,
					      &h) == CURLHE_OK
		       ? h->value
		       : NULL;
}

/* -------------------------------------------------------------------- answers */

/* Handle one message of the service. The message itself shows whether it is the
 * answer. */
static void bridge_call_take(struct bridge_call *c, const char *text, size_t n)
{
	AUTO_JSON json_t *message = NULL;
	const json_t *id;

	if (c->id) {
		message = json_loadb(text, n, JSON_ALLOW_NUL, NULL);
		id = json_object_get(message, "id");
		if (id && !json_object_get(message, "method") && json_equal(id, c->id)) {
			c->answered = true;
			if (c->cancelled)
				return;
		}
	}
	if (c->kind != BRIDGE_REOPEN)
		bridge_put(c->bridge, text, n);
}

/* Collect the lines "data: ..."; an empty line ends the event. Ignore other fields. */
static void bridge_call_line(struct bridge_call *c, const char *line, size_t n)
{
	if (n > 0 && line[n - 1] == '\r')
		n--;
	if (n == 0) {
		if (c->event.len > 0 && !c->event.failed)
			bridge_call_take(c, c->event.data, c->event.len);
		c->event.len = 0;
	} else if (n >= 5 && memcmp(line, "data:", 5) == 0) {
		size_t skip = n > 5 && line[5] == ' ' ? 6 : 5;

		if (c->event.len > 0)
			buf_add(&c->event, "\n", 1);
		buf_add(&c->event, line + skip, n - skip);
	}
}

static void bridge_call_events(struct bridge_call *c, const char *data, size_t n)
{
	while (n > 0) {
		const char *end = memchr(data, '\n', n);
		size_t part = end ? (size_t)(end - data) : n;

		buf_add(&c->reply, data, part);
		if (end && !c->reply.failed) {
			bridge_call_line(c, c->reply.data ? c->reply.data : "",
					 c->reply.len);
			c->reply.len = 0;
		}
		part += end != NULL;
		data += part;
		n -= part;
	}
}

/* Handle a part of an answer with a status below 400. */
static int bridge_call_on_data(void *arg, const char *data, size_t n)
{
	struct bridge_call *c = arg;
	const char *type;

	if (!c->has_type) {
		type = bridge_call_header(c, "Content-Type");
		c->is_stream = type && strncasecmp(type, "text/event-stream", 17) == 0;
		c->has_type = true;
	}
	if (c->is_stream)
		bridge_call_events(c, data, n);
	else
		buf_add(&c->reply, data, n);
	return c->reply.failed || c->event.failed ? -1 : 0;
}

/*
 * Handle an answer with a status of 400 or more: pass on errors of the protocol, and
 * convert all others.
 */
static void bridge_call_refused(struct bridge_call *c)
{
	const struct request *r = c->request;
	AUTO_JSON json_t *body =
		json_loadb(r->answer.data ? r->answer.data : "", r->answer.len, 0, NULL);
	const json_t *error = json_object_get(body, "error");
	AUTO_FREE char *text = NULL;

	if (error && json_object_get(body, "jsonrpc") && c->id) {
		(void)json_object_set(body, "id", c->id);
		text = json_dumps(body, JSON_COMPACT);
		if (text)
			bridge_put(c->bridge, text, strlen(text));
	} else if (error && !c->message) {
		bridge_put(c->bridge, r->answer.data, r->answer.len);
	} else if (c->id) {
		bridge_put_error(c->bridge, c->id, BRIDGE_INTERNAL, "%s", r->err.msg);
	}
}

void bridge_call_finish(struct bridge_call *c)
{
	const struct request *r = c->request;

	if (r->err.code == 0 && !c->is_stream && c->reply.len > 0) {
		c->answered = true;
		if (!c->cancelled && c->kind != BRIDGE_REOPEN)
			bridge_put(c->bridge, c->reply.data, c->reply.len);
	}
	if (c->answered || c->cancelled || c->kind == BRIDGE_REOPEN ||
	    c->kind == BRIDGE_STREAM)
		return;
	if (r->status >= 400)
		bridge_call_refused(c);
	else if (c->id && c->reply.failed)
		bridge_put_error(c->bridge, c->id, BRIDGE_INTERNAL,
				 "the answer is too long: at most %u bytes",
				 BRIDGE_REPLY_MAX);
	else if (c->id)
		bridge_put_error(c->bridge, c->id, BRIDGE_INTERNAL, "%s",
				 r->err.code ? r->err.msg
					     : "the service did not answer the request");
}

/* -------------------------------------------------------------------- requests */

static int bridge_add(struct request *r, const char *name, const char *value,
		      struct warren_error *err)
{
	char line[HEADER_MAX];
	int n = snprintf(line, sizeof(line), "%s: %s", name, value);

	if (n < 0 || (size_t)n >= sizeof(line))
		return error_set(err, E2BIG, "the header %s is too long", name);
	return request_add_header(r, line, err);
}

/* Encode text that cannot be sent as a header. */
static int bridge_add_name(struct request *r, const char *value, struct warren_error *err)
{
	static const char head[] = "=?base64?";
	size_t n = strlen(value);
	bool plain = n > 0 && value[0] != ' ' && value[n - 1] != ' ' &&
		     strncmp(value, head, sizeof(head) - 1) != 0;
	char coded[NAME_MAX_ + 16];

	for (size_t i = 0; i < n; i++)
		plain = plain && value[i] >= ' ' && value[i] <= '~';
	if (plain)
		return bridge_add(r, "Mcp-Name", value, err);
	if ((n + 2) / 3 * 4 > NAME_MAX_)
		return error_set(err, E2BIG, "the name in the message is too long");
	(void)strcpy(coded, head);
	base64_encode(value, n, coded + strlen(coded));
	(void)strcat(coded, "?=");
	return bridge_add(r, "Mcp-Name", coded, err);
}

/* Add the headers that the modern transport requires. */
static int bridge_add_modern(const struct bridge_call *c, struct warren_error *err)
{
	static const struct {
		const char *method, *param;
	} named[] = {
		{ "tools/call", "name" },
		{ "prompts/get", "name" },
		{ "resources/read", "uri" },
	};
	const json_t *params = json_object_get(c->message, "params");
	const char *method = json_string_value(json_object_get(c->message, "method"));
	int r = bridge_add(c->request, "MCP-Protocol-Version", c->version, err);

	for (const char *p = method; p && *p; p++)
		if (*p <= ' ' || *p > '~')
			return error_set(err, EINVAL, "the method is not a valid name");
	if (r == 0)
		r = bridge_add(c->request, "Mcp-Method", method, err);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(named); i++) {
		const char *value =
			json_string_value(json_object_get(params, named[i].param));

		if (value && method && strcmp(method, named[i].method) == 0)
			r = bridge_add_name(c->request, value, err);
	}
	return r;
}

static int bridge_add_legacy(const struct bridge_call *c, struct warren_error *err)
{
	const struct bridge *b = c->bridge;
	int r = 0;

	if (b->session)
		r = bridge_add(c->request, "Mcp-Session-Id", b->session, err);
	if (r == 0 && b->version)
		r = bridge_add(c->request, "MCP-Protocol-Version", b->version, err);
	return r;
}

/* Add the options for the sandbox. */
static int bridge_add_options(const struct bridge_call *c, struct warren_error *err)
{
	const struct bridge_options *o = c->bridge->o;
	const struct {
		const char *header, *value;
	} all[] = {
		{ "Warren-Session", c->bridge->name },   { "Warren-Sandbox", o->sandbox },
		{ "Warren-Keep", o->keep ? "1" : NULL }, { "Warren-Image", o->image },
		{ "Warren-Network", o->network },        { "Warren-Project", o->project },
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(all); i++)
		if (all[i].value)
			r = bridge_add(c->request, all[i].header, all[i].value, err);
	return r;
}

int bridge_call_start(struct bridge_call *c, struct warren_error *err)
{
	bool stream = c->kind == BRIDGE_STREAM;
	int r = request_new(c->bridge->client, stream ? "GET" : "POST", "/mcp",
			    &c->request, err);

	if (r == 0)
		r = request_add_header(c->request,
				       stream ? "Accept: text/event-stream"
					      : "Accept: application/json, "
						"text/event-stream",
				       err);
	if (r == 0)
		r = bridge_add_options(c, err);
	if (r == 0 && c->kind == BRIDGE_MODERN)
		r = bridge_add_modern(c, err);
	if (r == 0 && (c->kind == BRIDGE_LEGACY || stream))
		r = bridge_add_legacy(c, err);
	if (r == 0 && !stream)
		r = request_bytes(c->request, "application/json", c->body, c->size, err);
	if (r < 0)
		return r;
	c->request->on_data = bridge_call_on_data;
	c->request->arg = c;
	return request_start(c->request, err);
}
