/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - answer requests, and keep requests that wait */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/v1/v1.h"
#include "base/parse.h"
#include "config/config.h"
#include "net/loop.h"
#include "net/ws.h"

#define LAST_EVENT_MAX 9007199254740991ULL /* the same maximum as for the parameter */

struct call *call_ref(struct call *c)
{
	c->refs++;
	return c;
}

static void body_drop(void *ctx)
{
	body_done(ctx);
	free(ctx);
}

/* Freeing a body with 100,000 values takes several milliseconds. */
void call_drop_body(struct call *c)
{
	struct body *b = c->body_is_large ? malloc(sizeof(*b)) : NULL;

	if (b) {
		*b = c->body;
		if (loop_work(service_loop(c->v1->service), c->caller.tenant, body_drop,
			      NULL, b) == 0) {
			c->body = (struct body){ 0 };
			return;
		}
		free(b);
	}
	body_done(&c->body);
}

void call_unref(struct call *c)
{
	if (--c->refs > 0)
		return;
	call_drop_body(c);
	free(c);
}

/* The headers of all answers, followed by those of this answer. */
#define COMMON(c)                                      \
	{ "X-Request-Id", http_request_id((c)->req) }, \
	{                                              \
		"Cache-Control", "no-store"            \
	}

void call_json(struct call *c, int status, const struct buf *body)
{
	if (c->answered)
		return;
	if (body->failed) {
		call_refuse(c, API_ERR_OVERLOADED, "not enough memory for the answer");
		return;
	}
	const struct http_header headers[] = { COMMON(c),
					       { "Content-Type", "application/json" } };

	c->answered = true;
	(void)http_respond(c->req, status, headers, ARRAY_SIZE(headers), body->data,
			   body->len);
}

void call_empty(struct call *c, int status)
{
	if (c->answered)
		return;
	const struct http_header headers[] = { COMMON(c) };

	c->answered = true;
	(void)http_respond(c->req, status, headers, ARRAY_SIZE(headers), NULL, 0);
}

void call_text(struct call *c, const char *type, const void *data, size_t size)
{
	if (c->answered)
		return;
	const struct http_header headers[] = { COMMON(c), { "Content-Type", type } };

	c->answered = true;
	(void)http_respond(c->req, 200, headers, ARRAY_SIZE(headers), data, size);
}

void call_hide_dirs(const struct call *c, char *text)
{
	if (c->req->peer->kind == HTTP_PEER_UNIX && !c->caller.token[0])
		return;
	service_hide_dirs(c->v1->service, text);
}

void call_error(struct call *c, const struct api_error *given)
{
	/* The memory is static, because "out of memory" must be reported without
	 * allocating any. */
	static char room[32768];
	struct buf body = BUF_IN(room);
	struct api_error shown = *given;
	const struct api_error *err = &shown;
	uint64_t retry = api_error_retry_after(given);
	struct http_header headers[6];
	char seconds[24];
	size_t n = 0;

	if (c->answered)
		return;
	if (api_code_status(given->code) >= 500)
		(void)snprintf(c->cause, sizeof(c->cause), "%.255s", given->message);
	call_hide_dirs(c, shown.message);
	if (c->show_error) {
		c->show_error(c, err);
		return;
	}
	const struct http_header common[] = { COMMON(c) };

	for (; n < ARRAY_SIZE(common); n++)
		headers[n] = common[n];
	headers[n++] = (struct http_header){ "Content-Type", "application/json" };
	if (retry) {
		(void)snprintf(seconds, sizeof(seconds), "%ju", (uintmax_t)retry);
		headers[n++] = (struct http_header){ "Retry-After", seconds };
	}
	if (err->code == API_ERR_UNAUTHORIZED)
		headers[n++] = (struct http_header){ "WWW-Authenticate", "Bearer" };
	if (err->code == API_ERR_UPGRADE_REQUIRED)
		headers[n++] = (struct http_header){
			"Upgrade", c->route.op && c->route.op->upgrade == API_UPGRADE_TCP
					   ? "tcp"
					   : "websocket"
		};
	for (size_t i = 0; i < err->n_details; i++)
		if (err->code == API_ERR_METHOD_NOT_ALLOWED &&
		    strcmp(err->details[i].key, "allow") == 0)
			headers[n++] =
				(struct http_header){ "Allow", err->details[i].text };
	api_error_write(err, http_request_id(c->req), &body);
	c->answered = true;
	(void)http_respond(c->req, api_code_status(err->code), headers, n, body.data,
			   body.len);
}

void call_refuse(struct call *c, enum api_code code, const char *fmt, ...)
{
	struct api_error err = { 0 };
	char text[sizeof(err.message)];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)api_error_set(&err, code, "%s", text);
	call_error(c, &err);
}

/* Report the state that prevents the operation: that of the sandbox or, if the sandbox
 * runs, that of the exec. */
static void tell_state(struct call *c, struct api_error *err)
{
	const struct sandbox *sandbox =
		c->route.n_params > 0
			? sandbox_find(c->v1->service, NULL, c->route.param[0])
			: NULL;
	enum sandbox_state state =
		sandbox ? sandbox_row(sandbox)->state : SANDBOX_DELETING;

	if (state == SANDBOX_RUNNING)
		api_error_text(err, "state", "exited");
	else
		api_error_text(err, "state", "%s",
			       sandbox ? sandbox_state_name(state) : "gone");
}

void call_fail(struct call *c, const struct warren_error *engine)
{
	struct api_error err = { 0 };

	(void)api_error_from(&err, engine);
	if (engine->code == EDQUOT || engine->code == EUSERS)
		api_error_denial(&err, service_denied(c->v1->service, engine));
	if (err.code == API_ERR_WRONG_STATE)
		tell_state(c, &err);
	call_error(c, &err);
}

bool call_page(struct call *c, const struct api_value *cursor, uint64_t *ret)
{
	struct warren_error why = WARREN_ERROR_INIT;
	struct api_error err = { 0 };

	if (!cursor->text || parse_u64(cursor->text, INT64_MAX, ret, &why) == 0)
		return true;
	(void)api_error_set(
		&err, API_ERR_INVALID_REQUEST,
		"cursor: must be the next_cursor of an earlier page; is '%.64s'",
		cursor->text);
	api_error_text(&err, "parameter", "cursor");
	call_error(c, &err);
	return false;
}

bool call_last_event(struct call *c, uint64_t *ret)
{
	const char *last = http_header(c->req, "Last-Event-ID");
	struct warren_error why = WARREN_ERROR_INIT;

	/* Some clients send an empty header if they have not seen any event. */
	if (!last || !*last || parse_u64(last, LAST_EVENT_MAX, ret, &why) == 0)
		return true;
	call_refuse(c, API_ERR_INVALID_REQUEST,
		    "Last-Event-ID: must be an integer from 0 to %llu, is '%.64s'",
		    LAST_EVENT_MAX, last);
	return false;
}

void call_begin_stream(struct call *c, bool sse)
{
	if (c->answered)
		return;
	const struct http_header headers[] = {
		COMMON(c),
		{ "Content-Type", sse ? "text/event-stream" : "application/x-ndjson" },
		{ "X-Accel-Buffering", "no" },
	};

	c->answered = true;
	(void)http_begin_response(c->req, 200, headers, ARRAY_SIZE(headers), -1);
}

void call_begin_json(struct call *c, int status)
{
	if (c->answered)
		return;
	const struct http_header headers[] = { COMMON(c),
					       { "Content-Type", "application/json" } };

	c->answered = true;
	(void)http_begin_response(c->req, status, headers, ARRAY_SIZE(headers), -1);
}

void call_begin_bytes(struct call *c, const char *type)
{
	if (c->answered)
		return;
	const struct http_header headers[] = { COMMON(c), { "Content-Type", type } };

	c->answered = true;
	(void)http_begin_response(c->req, 200, headers, ARRAY_SIZE(headers), -1);
}

bool call_wants_socket(const struct call *c)
{
	return http_header_has(c->req, "Upgrade", "websocket");
}

bool call_check_socket(struct call *c)
{
	const char *why = NULL;
	int status = ws_check(c->req, &why);

	if (status == 0)
		return true;
	call_refuse(c,
		    status == 426 || !call_wants_socket(c) ? API_ERR_UPGRADE_REQUIRED
							   : API_ERR_INVALID_REQUEST,
		    "%s", why);
	return false;
}

struct sandbox *call_sandbox(struct call *c)
{
	bool all = c->caller.scopes & V1_SCOPE_ADMIN;
	struct sandbox *sandbox = sandbox_find(
		c->v1->service, all ? NULL : c->caller.tenant, c->route.param[0]);

	if (!sandbox)
		call_refuse(c, API_ERR_SANDBOX_NOT_FOUND, "there is no sandbox '%s'",
			    c->route.param[0]);
	return sandbox;
}

struct sandbox *call_sandbox_to_use(struct call *c)
{
	struct sandbox *sandbox = call_sandbox(c);
	struct warren_error err = WARREN_ERROR_INIT;

	if (!sandbox || sandbox_check_run(sandbox, &err) == 0)
		return sandbox;
	call_fail(c, &err);
	return NULL;
}

struct exec *call_exec(struct call *c)
{
	struct sandbox *sandbox = call_sandbox_to_use(c);
	struct exec *exec = sandbox ? exec_of_sandbox(sandbox, c->route.param[1]) : NULL;

	if (sandbox && !exec)
		call_refuse(c, API_ERR_EXEC_NOT_FOUND, "sandbox '%s' has no exec '%s'",
			    c->route.param[0], c->route.param[1]);
	return exec;
}
