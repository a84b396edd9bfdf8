/* SPDX-License-Identifier: Apache-2.0 */
/* bridge.c - protocol versions, the session, cancellation, and the end of `warren mcp` */
#include "cli/client/bridge.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define VERSION_KEY "io.modelcontextprotocol/protocolVersion"
#define VERSION_MAX 64
#define STREAM_MS   1000 /* time before a stream that ended is opened again */
#define CANCEL_MS   100  /* time before a cancellation is repeated; doubled each time */
#define CANCELS_MAX 8
#define DELETE_MS   2000
#define TURN_MAX_MS 100

static uint64_t bridge_now(void)
{
	return clock_now() / 1000000;
}

/* ---------------------------------------------------------- connection to the service */

/*
 * Connect only when the first message arrives, because many agents start this program
 * without using it.
 */
static int bridge_connect(struct bridge *b, struct warren_error *err)
{
	const struct private_options own = { .mount = b->o->project };

	return b->client ? 0 : client_open_or_start(&own, &b->client, &b->own, err);
}

static void bridge_start(struct bridge_call *c)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct bridge *b = c->bridge;
	bool opens = c->kind == BRIDGE_INITIALIZE || c->kind == BRIDGE_REOPEN;

	c->epoch = b->epoch;
	if (bridge_connect(b, &err) == 0 && bridge_call_start(c, &err) == 0)
		return;
	if (c->id && c->kind != BRIDGE_REOPEN)
		bridge_put_error(b, c->id, BRIDGE_INTERNAL, "%s", err.msg);
	if (opens)
		b->opening = false;
	(void)bridge_call_free(c);
}

/* ------------------------------------------------ legacy and modern protocol versions */

/* Return the version that a modern request names, or NULL. */
static const char *bridge_version(const json_t *message)
{
	const json_t *meta = json_object_get(json_object_get(message, "params"), "_meta");

	return json_object_get(message, "id")
		       ? json_string_value(json_object_get(meta, VERSION_KEY))
		       : NULL;
}

/* Can @text be the value of a header without encoding? */
static bool bridge_is_plain(const char *text)
{
	size_t n = strlen(text);

	for (size_t i = 0; i < n; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return false;
	return n > 0 && n <= VERSION_MAX;
}

static enum bridge_kind bridge_kind_of(const json_t *message, const char *method,
				       const char *version)
{
	if (method && version)
		return BRIDGE_MODERN;
	return method && strcmp(method, "initialize") == 0 &&
			       json_object_get(message, "id")
		       ? BRIDGE_INITIALIZE
		       : BRIDGE_LEGACY;
}

/* ---------------------------------------------------------------- cancellation */

static struct bridge_call *bridge_find(const struct bridge *b, const json_t *id)
{
	struct bridge_call *c = b->calls;

	while (c && !(c->id && id && !c->answered && json_equal(c->id, id)))
		c = c->next;
	return c;
}

/*
 * Cancel a request of a legacy client at the service. The two use different connections,
 * so the request may arrive after its cancellation, which then has no effect. So repeat
 * the cancellation.
 */
static void bridge_send_cancel(struct bridge_call *of)
{
	struct bridge *b = of->bridge;
	AUTO_JSON json_t *message =
		json_pack("{s:s, s:s, s:{s:O}}", "jsonrpc", "2.0", "method",
			  "notifications/cancelled", "params", "requestId", of->id);
	char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
	struct bridge_call *c;

	of->cancel_at = bridge_now() + (CANCEL_MS << of->cancels++);
	if (!text)
		return;
	c = bridge_call_new(b, BRIDGE_LEGACY, text, strlen(text), TAKE_PTR(message));
	if (c)
		bridge_start(c);
}

/* For a modern service, closing the connection cancels the request. */
static void bridge_cancel(struct bridge *b, const json_t *message)
{
	const json_t *params = json_object_get(message, "params");
	struct bridge_call *c = bridge_find(b, json_object_get(params, "requestId"));

	if (!c || c->cancelled || c->kind == BRIDGE_INITIALIZE ||
	    c->kind == BRIDGE_REOPEN)
		return;
	if (c->kind == BRIDGE_MODERN || !c->request) {
		(void)bridge_call_free(c);
		return;
	}
	c->cancelled = true;
	bridge_send_cancel(c);
}

static void bridge_cancel_again(struct bridge *b)
{
	uint64_t now = bridge_now();

	for (struct bridge_call *c = b->calls; c; c = c->next)
		if (c->cancelled && !c->answered && c->cancels < CANCELS_MAX &&
		    now >= c->cancel_at)
			bridge_send_cancel(c);
}

/* -------------------------------------------------------------------- messages */

static bool bridge_admit(struct bridge *b, const json_t *message, size_t n)
{
	if (b->n_calls < BRIDGE_CALLS_MAX && b->bytes + n <= BRIDGE_BODY_MAX)
		return true;
	if (json_object_get(message, "id"))
		bridge_put_error(b, json_object_get(message, "id"), BRIDGE_INTERNAL,
				 "too many requests are in progress: wait for some of "
				 "them");
	return false;
}

/* Keep the message that opens the session, to open it again. */
static void bridge_keep_initialize(struct bridge *b, const struct bridge_call *c)
{
	free(b->initialize);
	b->initialize = malloc(c->size + 1);
	b->n_initialize = b->initialize ? c->size : 0;
	if (b->initialize)
		(void)memcpy(b->initialize, c->body, c->size);
	b->opening = true;
}

void bridge_message(struct bridge *b, const char *line, size_t n)
{
	json_error_t why;
	json_t *message = json_loadb(line, n, JSON_ALLOW_NUL, &why);
	const char *method = json_string_value(json_object_get(message, "method"));
	const char *version = bridge_version(message);
	enum bridge_kind kind = bridge_kind_of(message, method, version);
	struct bridge_call *c;
	char *body;

	if (!message) {
		bridge_put_error(b, NULL, BRIDGE_PARSE_ERROR, "not JSON: %s", why.text);
		return;
	}
	if (method && strcmp(method, "notifications/cancelled") == 0) {
		bridge_cancel(b, message);
		json_decref(message);
		return;
	}
	if (kind == BRIDGE_MODERN && !bridge_is_plain(version)) {
		bridge_put_error(b, json_object_get(message, "id"), BRIDGE_BAD_REQUEST,
				 "the version in _meta is not a valid one");
		json_decref(message);
		return;
	}
	body = bridge_admit(b, message, n) ? strndup(line, n) : NULL;
	if (!body) {
		json_decref(message);
		return;
	}
	c = bridge_call_new(b, kind, body, n, message);
	if (!c)
		return;
	if (kind == BRIDGE_MODERN)
		c->version = strdup(version);
	if (kind == BRIDGE_INITIALIZE)
		bridge_keep_initialize(b, c);
	if (kind != BRIDGE_LEGACY || !b->opening)
		bridge_start(c);
}

/* --------------------------------------------------------------------- session */

/* Return the text of the member "protocolVersion" of a result, if it can be a header. */
static char *bridge_result_version(const struct bridge_call *c)
{
	AUTO_JSON json_t *message = json_loadb(c->reply.data, c->reply.len, 0, NULL);
	const char *version = json_string_value(
		json_object_get(json_object_get(message, "result"), "protocolVersion"));

	return version && bridge_is_plain(version) ? strdup(version) : NULL;
}

static void bridge_set(char **what, char *value)
{
	free(*what);
	*what = value;
}

/* The answer to `initialize` has arrived: send the messages that waited for it. */
static void bridge_opened(struct bridge *b, struct bridge_call *c)
{
	const char *session = bridge_call_header(c, "Mcp-Session-Id");

	b->opening = false;
	b->epoch++;
	if (c->request->err.code != 0 || c->is_stream || c->reply.len == 0)
		return;
	bridge_set(&b->session, session ? strdup(session) : NULL);
	bridge_set(&b->version, bridge_result_version(c));
	/* A stream of another session stays open, and another stream is opened. */
	b->stream = NULL;
	b->no_stream = false;
	b->stream_at = 0;
}

/*
 * The service no longer knows the session. Return whether @c is repeated in another
 * session.
 */
static bool bridge_reopen(struct bridge *b, struct bridge_call *c)
{
	struct bridge_call *open;
	char *body;

	if (c->kind != BRIDGE_LEGACY || c->request->status != 404 || c->again ||
	    c->cancelled || !b->initialize)
		return false;
	c->request = request_free(c->request);
	c->reply.len = c->event.len = 0;
	c->has_type = c->is_stream = false;
	c->again = true;
	/*
	 * Another message noticed this first: the session has been opened again, or is
	 * being opened.
	 */
	if (b->opening || c->epoch != b->epoch)
		return true;
	b->opening = true;
	bridge_set(&b->session, NULL);
	body = strndup(b->initialize, b->n_initialize);
	open = body ? bridge_call_new(
			      b, BRIDGE_REOPEN, body, b->n_initialize,
			      json_loadb(body, b->n_initialize, JSON_ALLOW_NUL, NULL))
		    : NULL;
	if (open)
		bridge_start(open);
	else
		b->opening = false;
	return true;
}

/* ---------------------------------------------------------------------- stream */

static void bridge_open_stream(struct bridge *b)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct bridge_call *c;

	if (b->stream || b->no_stream || b->opening || !b->client ||
	    bridge_now() < b->stream_at)
		return;
	c = bridge_call_new(b, BRIDGE_STREAM, NULL, 0, NULL);
	if (!c)
		return;
	b->stream = c;
	b->stream_at = bridge_now() + STREAM_MS;
	if (bridge_call_start(c, &err) < 0)
		(void)bridge_call_free(c);
}

/* An unknown session is opened again with the next message. */
static void bridge_stream_ended(struct bridge *b, const struct bridge_call *c)
{
	long status = c->request->status;

	b->no_stream = status >= 400 && status < 500;
	b->stream_at = bridge_now() + STREAM_MS;
}

/* ---------------------------------------------------------------- completion of calls */

static void bridge_finish(struct bridge *b, struct bridge_call *c)
{
	bool opens = c->kind == BRIDGE_INITIALIZE || c->kind == BRIDGE_REOPEN;

	if (c == b->stream)
		bridge_stream_ended(b, c);
	if (bridge_reopen(b, c))
		return;
	if (opens)
		bridge_opened(b, c);
	bridge_call_finish(c);
	(void)bridge_call_free(c);
}

static struct bridge_call *bridge_next_ended(const struct bridge *b)
{
	struct bridge_call *c = b->calls;

	while (c && !(c->request && c->request->ended))
		c = c->next;
	return c;
}

/* Return the first message that waits for the session, if the session is open or has
 * failed. */
static struct bridge_call *bridge_next_waiting(const struct bridge *b)
{
	struct bridge_call *c = b->opening ? NULL : b->calls;

	while (c && c->request)
		c = c->next;
	return c;
}

void bridge_settle(struct bridge *b)
{
	struct bridge_call *c;

	while ((c = bridge_next_ended(b)))
		bridge_finish(b, c);
	while ((c = bridge_next_waiting(b)))
		bridge_start(c);
	bridge_cancel_again(b);
	bridge_open_stream(b);
}

int bridge_pause(const struct bridge *b)
{
	uint64_t now = bridge_now(), at = UINT64_MAX;

	for (const struct bridge_call *c = b->calls; c; c = c->next)
		if (c->cancelled && !c->answered && c->cancels < CANCELS_MAX &&
		    c->cancel_at < at)
			at = c->cancel_at;
	if (b->client && !b->stream && !b->no_stream && !b->opening && b->stream_at < at)
		at = b->stream_at;
	if (at == UINT64_MAX)
		return -1;
	return at <= now ? 0 : (int)(at - now);
}

bool bridge_is_busy(const struct bridge *b)
{
	const struct bridge_call *c = b->calls;

	while (c && (!c->id || c->cancelled))
		c = c->next;
	return c;
}

/* ----------------------------------------------------------------- end of the program */

/* Delete the session. This is not needed for a private service, which ends with all its
 * sandboxes. */
static void bridge_delete(struct bridge *b)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_REQUEST struct request *r = NULL;
	uint64_t until = bridge_now() + DELETE_MS;
	char line[256];
	int bad = request_new(b->client, "DELETE", "/mcp", &r, &err);

	(void)snprintf(line, sizeof(line), "Warren-Session: %s", b->name);
	if (bad == 0)
		bad = request_add_header(r, line, &err);
	if (bad == 0 && b->session) {
		(void)snprintf(line, sizeof(line), "Mcp-Session-Id: %s", b->session);
		bad = request_add_header(r, line, &err);
	}
	if (bad == 0)
		bad = request_start(r, &err);
	while (bad == 0 && !r->ended && bridge_now() < until)
		bad = client_turn(b->client, NULL, 0, TURN_MAX_MS, &err);
}

void bridge_end(struct bridge *b)
{
	while (b->calls)
		(void)bridge_call_free(b->calls);
	if (b->client && !b->own)
		bridge_delete(b);
	b->client = client_close(b->client);
	b->own = private_service_end(b->own);
	free(b->session);
	free(b->version);
	free(b->initialize);
	buf_done(&b->in.line);
	buf_done(&b->out);
}
