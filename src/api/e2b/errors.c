/* SPDX-License-Identifier: Apache-2.0 */
/*
 * errors.c - errors in the forms that the SDKs expect
 *
 * The control plane answers with a number, an RPC with a word, a stream with its last
 * message. Clients look at the texts of some errors (doc/e2b.md).
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/e2b/internal.h"

/* -------------------------------------------------------------------- the control plane
 */

/* @word: the error_code, which some errors have; NULL: none. */
static void rest_to_json(struct buf *out, int status, const char *word,
			 const char *message)
{
	struct json j = { .out = out };

	json_open(&j, NULL, '{');
	json_int(&j, "code", status);
	json_str(&j, "message", message);
	if (word)
		json_str(&j, "error_code", word);
	json_close(&j, '}');
}

static void show_rest(struct call *c, int status, const char *word, const char *given,
		      uint64_t retry)
{
	char message[sizeof(((struct api_error *)NULL)->message)];
	AUTO_BUF struct buf out = BUF_INIT(8192);
	struct http_header headers[4] = {
		{ "X-Request-Id", http_request_id(c->req) },
		{ "Content-Type", "application/json" },
	};
	size_t n = 2;
	char seconds[24];

	(void)snprintf(message, sizeof(message), "%s", given);
	call_hide_dirs(c, message);
	rest_to_json(&out, status, word, message);
	if (retry) {
		(void)snprintf(seconds, sizeof(seconds), "%ju", (uintmax_t)retry);
		headers[n++] = (struct http_header){ "Retry-After", seconds };
	} else {
		/* SDKs would repeat a request three times that cannot succeed. */
		headers[n++] = (struct http_header){ "Should-Retry", "false" };
	}
	c->answered = true;
	(void)http_respond(c->req, status, headers, n, out.data, out.len);
}

/* Statuses that mean something else to the SDKs than to clients of v1. */
static int rest_status(enum api_code code)
{
	static const struct {
		enum api_code code;
		int status;
	} theirs[] = {
		{ API_ERR_COMMAND_NOT_FOUND, 400 },
		{ API_ERR_COMMAND_NOT_EXECUTABLE, 400 },
		{ API_ERR_LIMIT_REFUSED, 400 },
		{ API_ERR_IS_A_DIRECTORY, 400 },
		{ API_ERR_NOT_A_DIRECTORY, 400 },
		{ API_ERR_SPECIAL_FILE, 400 },
		{ API_ERR_IDEMPOTENCY_CONFLICT, 422 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(theirs); i++)
		if (theirs[i].code == code)
			return theirs[i].status;
	return api_code_status(code);
}

void e2b_show_rest(struct call *c, const struct api_error *err)
{
	int status = rest_status(err->code);

	if (status == 501)
		c->v1->e2b_unsupported++;
	show_rest(c, status,
		  err->code == API_ERR_INTERNAL ? "internal_server_error" : NULL,
		  e2b_message(err),
		  status == 503                         ? 1
		  : err->code == API_ERR_QUOTA_EXCEEDED ? 0
							: api_error_retry_after(err));
}

void e2b_refuse(struct call *c, int status, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	if (c->answered)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (status == 501)
		c->v1->e2b_unsupported++;
	show_rest(c, status, NULL, text, 0);
}

void e2b_refuse_as(struct call *c, int status, const char *word, const char *message)
{
	if (!c->answered)
		show_rest(c, status, word, message, 0);
}

/* -------------------------------------------------------------------------- RPCs */

static const struct {
	const char *code;
	int status;
} codes[] = {
	{ "canceled", 499 },
	{ "unknown", 500 },
	{ "invalid_argument", 400 },
	{ "deadline_exceeded", 504 },
	{ "not_found", 404 },
	{ "already_exists", 409 },
	{ "permission_denied", 403 },
	{ "resource_exhausted", 429 },
	{ "failed_precondition", 400 },
	{ "aborted", 409 },
	{ "unimplemented", 501 },
	{ "internal", 500 },
	{ "unavailable", 503 },
	{ "unauthenticated", 401 },
};

static int code_status(const char *code)
{
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (strcmp(codes[i].code, code) == 0)
			return codes[i].status;
	return 500;
}

/* The code of the protocol for a status of v1. */
static const char *rpc_code_of(int status)
{
	static const struct {
		int status;
		const char *code;
	} by_status[] = {
		{ 400, "invalid_argument" },   { 401, "unauthenticated" },
		{ 403, "permission_denied" },  { 404, "not_found" },
		{ 408, "deadline_exceeded" },  { 409, "failed_precondition" },
		{ 413, "resource_exhausted" }, { 415, "invalid_argument" },
		{ 417, "invalid_argument" },   { 422, "invalid_argument" },
		{ 429, "resource_exhausted" }, { 431, "resource_exhausted" },
		{ 501, "unimplemented" },      { 502, "unavailable" },
		{ 503, "unavailable" },        { 504, "deadline_exceeded" },
		{ 505, "unimplemented" },      { 507, "resource_exhausted" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(by_status); i++)
		if (by_status[i].status == status)
			return by_status[i].code;
	return "internal";
}

const char *e2b_rpc_code(const struct api_error *err)
{
	return err->code == API_ERR_FILE_EXISTS ? "already_exists"
						: rpc_code_of(rest_status(err->code));
}

/* @c: the call; NULL: the server refused it, whose texts name no directories. */
static void rpc_to_json(struct json *j, const struct call *c, const char *key,
			const char *code, const char *message)
{
	char shown[1024];

	(void)snprintf(shown, sizeof(shown), "%s", message);
	if (c)
		call_hide_dirs(c, shown);
	json_open(j, key, '{');
	json_str(j, "code", code);
	json_str(j, "message", shown);
	json_close(j, '}');
}

static void count_unsupported(struct call *c, const char *code)
{
	if (strcmp(code, "unimplemented") == 0)
		c->v1->e2b_unsupported++;
}

static void show_unary(struct call *c, const char *code, const char *message)
{
	AUTO_BUF struct buf out = BUF_INIT(8192);
	struct json j = { .out = &out };
	const struct http_header headers[] = {
		{ "X-Request-Id", http_request_id(c->req) },
		{ "Content-Type", "application/json" },
	};

	count_unsupported(c, code);
	rpc_to_json(&j, c, NULL, code, message);
	c->answered = true;
	(void)http_respond(c->req, code_status(code), headers, ARRAY_SIZE(headers),
			   out.data, out.len);
}

/* Write the last message of a stream, with an error. */
static void stream_to_json(struct buf *framed, const struct call *c, const char *code,
			   const char *message)
{
	AUTO_BUF struct buf out = BUF_INIT(8192);
	struct json j = { .out = &out };

	json_open(&j, NULL, '{');
	rpc_to_json(&j, c, "error", code, message);
	json_close(&j, '}');
	envelope_put(framed, ENVELOPE_LAST, out.data, out.len);
}

void e2b_end_stream(struct call *c, const char *code, const char *message)
{
	AUTO_BUF struct buf framed = BUF_INIT(8192);

	count_unsupported(c, code);
	stream_to_json(&framed, c, code, message);
	envelope_begin(c);
	(void)http_write(c->req, framed.data, framed.len);
	(void)http_end(c->req);
}

void e2b_show_unary(struct call *c, const struct api_error *err)
{
	show_unary(c, e2b_rpc_code(err), e2b_message(err));
}

void e2b_show_stream(struct call *c, const struct api_error *err)
{
	e2b_end_stream(c, e2b_rpc_code(err), e2b_message(err));
}

void e2b_refuse_rpc(struct call *c, const char *code, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	if (c->answered)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	switch (((const struct e2b_op *)c->route.op)->form) {
	case E2B_STREAM:
		e2b_end_stream(c, code, text);
		break;
	case E2B_UNARY:
		show_unary(c, code, text);
		break;
	case E2B_REST:
	case E2B_PROXY:
		show_rest(c, code_status(code), NULL, text, 0);
		break;
	}
}

void e2b_refuse_type(struct call *c, enum e2b_form form)
{
	const char *wanted = form == E2B_STREAM ? E2B_STREAM_TYPE : E2B_UNARY_TYPE;
	AUTO_BUF struct buf out = BUF_INIT(8192);
	struct json j = { .out = &out };
	const struct http_header headers[] = {
		{ "X-Request-Id", http_request_id(c->req) },
		{ "Content-Type", "application/json" },
		{ "Accept-Post", wanted },
	};
	char text[128];

	(void)snprintf(text, sizeof(text), "Content-Type must be %s", wanted);
	rpc_to_json(&j, NULL, NULL, "invalid_argument", text);
	c->answered = true;
	(void)http_respond(c->req, 415, headers, ARRAY_SIZE(headers), out.data, out.len);
}

bool e2b_refuse_user(struct call *c, const char *user, const struct warren_error *err)
{
	if (err->code != EINVAL || !strstr(err->msg, "has no user"))
		return false;
	e2b_refuse_rpc(c, "unauthenticated", "invalid username: '%s'",
		       user && *user ? user : "user");
	return true;
}

/* --------------------------------------------------------------- ports of a sandbox */

#define PORT_CLOSED "The sandbox is running but port is not open"

static void proxy_to_json(struct buf *out, const char *sandbox, int status,
			  const char *message, int64_t port)
{
	struct json j = { .out = out };

	json_open(&j, NULL, '{');
	json_str(&j, "sandboxId", sandbox);
	json_str(&j, "message", message);
	if (port)
		json_int(&j, "port", port);
	json_int(&j, "code", status);
	json_close(&j, '}');
}

static void show_proxy(struct call *c, int status, const char *message, int64_t port)
{
	AUTO_BUF struct buf out = BUF_INIT(8192);
	const struct http_header headers[] = {
		{ "X-Request-Id", http_request_id(c->req) },
		{ "Content-Type", "application/json" },
	};

	proxy_to_json(&out, c->route.sandbox, status, message, port);
	c->answered = true;
	(void)http_respond(c->req, status, headers, ARRAY_SIZE(headers), out.data,
			   out.len);
}

void e2b_show_proxy(struct call *c, const struct api_error *err)
{
	if (err->code == API_ERR_PORT_CLOSED)
		show_proxy(c, 502, PORT_CLOSED, c->route.number[1]);
	else
		show_proxy(c, api_code_status(err->code), err->message, 0);
}

void e2b_refuse_gone(struct call *c)
{
	if (!c->answered)
		show_proxy(c, 502, "The sandbox was not found", 0);
}

/* ----------------------------------------------------------- refusals of the server */

void e2b_write_refusal(enum e2b_form form, struct http_refusal *refusal,
		       const char *sandbox, uint16_t port, struct buf *body)
{
	const char *code = rpc_code_of(refusal->status);
	struct json j = { .out = body };

	switch (form) {
	case E2B_REST:
		rest_to_json(body, refusal->status, NULL, refusal->message);
		break;
	case E2B_UNARY:
		rpc_to_json(&j, NULL, NULL, code, refusal->message);
		break;
	case E2B_STREAM:
		stream_to_json(body, NULL, code, refusal->message);
		refusal->status = 200;
		refusal->type = "application/connect+json";
		break;
	case E2B_PROXY:
		if (strcmp(refusal->code, "port_closed") == 0)
			proxy_to_json(body, sandbox, refusal->status, PORT_CLOSED, port);
		else
			proxy_to_json(body, sandbox, refusal->status, refusal->message,
				      0);
		break;
	}
}
