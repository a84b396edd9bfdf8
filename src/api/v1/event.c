/* SPDX-License-Identifier: Apache-2.0 */
/* event.c - handler: stream events */
#include <errno.h>
#include <string.h>

#include "api/v1/v1.h"
#include "base/date.h"
#include "base/json.h"
#include "net/loop.h"

#define HEARTBEAT_MS 15000
#define AT_ONCE      64 /* maximum number of events to read in one turn */

struct listening {
	struct call *call;
	struct waiter listener;
	struct loop_timer *timer;
	uint64_t last;
	bool sse, blocked, all;
	char sandbox[ID_LEN + 1]; /* only events of this sandbox; "": of all */
};

static void listening_gone(struct call *c)
{
	struct listening *l = c->state;

	c->state = NULL;
	if (!l)
		return;
	event_unlisten(&l->listener);
	l->timer = loop_timer_free(l->timer);
	free(l);
}

static void event_put_line(struct listening *l, const struct buf *json)
{
	AUTO_BUF struct buf out = BUF_INIT(8192);

	if (l->sse)
		buf_printf(&out, "id: %ju\ndata: ", (uintmax_t)l->last);
	buf_add(&out, json->data, json->len);
	buf_puts(&out, l->sse ? "\n\n" : "\n");
	l->blocked = http_write(l->call->req, out.data, out.len) != 0;
}

/* Select the tenant's own events and those for all tenants, filtered as requested. */
static bool event_wanted(const struct listening *l, const struct event *e)
{
	const struct api_value *v = l->call->query.v;
	const struct api_value *types = &v[V1_STREAM_EVENTS_QUERY_TYPE];

	if (!l->all && e->owner[0] && strcmp(e->owner, l->call->caller.tenant) != 0)
		return false;
	if (l->sandbox[0] && strcmp(l->sandbox, e->sandbox) != 0)
		return false;
	for (size_t i = 0; i < types->n; i++)
		if (strcmp(types->items[i].text, event_type_name(e->type)) == 0)
			return true;
	return types->n == 0;
}

/* Return the name of the field that names the object of an event. */
static const char *event_object_key(enum event_type type)
{
	if (type == EVENT_SESSION_OPENED || type == EVENT_SESSION_CLOSED)
		return "session_id";
	if (type == EVENT_SECRET_SET || type == EVENT_SECRET_DELETED)
		return "secret";
	if (type == EVENT_VOLUME_CREATED || type == EVENT_VOLUME_DELETED)
		return "volume";
	if (type == EVENT_SNAPSHOT_CREATED || type == EVENT_SNAPSHOT_DELETED)
		return "snapshot";
	return "exec_id";
}

static void event_put(struct listening *l, const struct event *e)
{
	AUTO_BUF struct buf json = BUF_INIT(4096);
	struct json j = { .out = &json };
	char at[DATE_SIZE];

	date_iso(at, service_wall(e->at));
	json_open(&j, NULL, '{');
	json_u64(&j, "id", e->id);
	json_str(&j, "type", event_type_name(e->type));
	json_str(&j, "time", at);
	if (e->owner[0])
		json_str(&j, "owner", e->owner);
	if (e->sandbox[0])
		json_str(&j, "sandbox_id", e->sandbox);
	if (e->image)
		json_str(&j, "image", e->image);
	if (e->denial)
		json_raw(&j, "denial", e->denial, strlen(e->denial));
	if (e->object[0])
		json_str(&j, event_object_key(e->type), e->object);
	if (e->has_result) {
		json_raw(&j, "result", "", 0);
		result_to_json(&json, &e->result);
	}
	if (e->state >= 0)
		json_str(&j, "state", sandbox_state_name((enum sandbox_state)e->state));
	if (e->reason[0])
		json_str(&j, "reason", e->reason);
	json_close(&j, '}');
	event_put_line(l, &json);
}

/*
 * A client that was disconnected for too long gets a gap event, and then the current
 * events. So does a client whose cursor is too large: it comes from another service, or
 * from a database that has been restored to an earlier state.
 */
static void tell_missed(struct listening *l)
{
	AUTO_BUF struct buf json = BUF_INIT(256);
	uint64_t first = event_first(l->call->v1->service);
	char at[DATE_SIZE];

	if (l->last >= first && l->last <= event_last(l->call->v1->service))
		return;
	l->last = first;
	date_iso(at, service_wall(service_time()));
	buf_printf(&json, "{\"type\":\"gap\",\"id\":%ju,\"time\":\"%s\"}",
		   (uintmax_t)first, at);
	event_put_line(l, &json);
}

/* Let other clients have their turn. */
static void event_go_on(struct listening *l)
{
	const struct event *e;
	unsigned n = 0;

	tell_missed(l);
	while (!l->blocked && n++ < AT_ONCE &&
	       (e = event_after(l->call->v1->service, l->last))) {
		l->last = e->id;
		if (event_wanted(l, e))
			event_put(l, e);
	}
	if (!l->blocked && n > AT_ONCE)
		loop_timer_set(l->timer, 0);
}

static void event_heard(struct waiter *listener, void *of UNUSED)
{
	struct listening *l = listener->ctx;

	/* Do not send the event within the call that emitted it. */
	if (!l->blocked)
		loop_timer_set(l->timer, 0);
}

static void event_on_drained(struct http_request *req)
{
	struct listening *l = ((struct call *)req->user)->state;

	if (!l)
		return;
	l->blocked = false;
	event_go_on(l);
}

/* A heartbeat also contains the cursor. */
static void put_heartbeat(struct listening *l)
{
	AUTO_BUF struct buf json = BUF_INIT(256);
	char at[DATE_SIZE];

	date_iso(at, service_wall(service_time()));
	buf_printf(&json, "{\"type\":\"heartbeat\",\"id\":%ju,\"time\":\"%s\"}",
		   (uintmax_t)l->last, at);
	event_put_line(l, &json);
}

/* A client that reconnects with the id of its last event loses nothing. */
static void event_on_stop(struct call *c, bool last UNUSED)
{
	struct listening *l = c->state;

	if (!l || !l->timer)
		return;
	put_heartbeat(l);
	event_unlisten(&l->listener);
	l->timer = loop_timer_free(l->timer);
	l->blocked = true; /* nothing more */
	c->req->drained = NULL;
	(void)http_end(c->req);
}

static void v1_event_on_timer(void *ctx)
{
	struct listening *l = ctx;

	loop_timer_set(l->timer, HEARTBEAT_MS);
	if (l->blocked)
		return;
	if (event_last(l->call->v1->service) > l->last) {
		event_go_on(l);
		return;
	}
	put_heartbeat(l);
}

/* Events of a deleted sandbox can still be requested by its id. Return false if the
 * request was refused. */
static bool read_sandbox(struct call *c, const char *word, char ret[ID_LEN + 1])
{
	struct api_error err = { 0 };

	if (!word || access_sandbox(c->v1, &c->caller, word, ret, &err) == 0)
		return true;
	if (err.code == API_ERR_SANDBOX_NOT_FOUND && id_valid(word)) {
		(void)memcpy(ret, word, ID_LEN + 1);
		return true;
	}
	call_error(c, &err);
	return false;
}

void v1_stream_events(struct call *c)
{
	char sandbox[ID_LEN + 1] = "";
	struct api_value *v = c->query.v;
	uint64_t since = v[V1_STREAM_EVENTS_QUERY_SINCE].given
				 ? (uint64_t)v[V1_STREAM_EVENTS_QUERY_SINCE].number
				 : event_last(c->v1->service);
	struct listening *l;

	if (!call_last_event(c, &since) ||
	    !read_sandbox(c, v[V1_STREAM_EVENTS_QUERY_SANDBOX_ID].text, sandbox))
		return;
	l = calloc(1, sizeof(*l));
	if (!l || loop_timer_new(service_loop(c->v1->service), v1_event_on_timer, l,
				 &l->timer) < 0) {
		free(l);
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	l->call = c;
	l->listener = (struct waiter){ .fn = event_heard, .ctx = l };
	l->sse =
		v[V1_STREAM_EVENTS_QUERY_FORMAT].number == V1_STREAM_EVENTS_FORMAT_IS_SSE;
	l->all = c->caller.scopes & V1_SCOPE_ADMIN;
	l->last = since;
	(void)memcpy(l->sandbox, sandbox, sizeof(l->sandbox));
	c->state = l;
	c->gone = listening_gone;
	c->stop = event_on_stop;
	c->req->drained = event_on_drained;
	call_begin_stream(c, l->sse);
	event_listen(c->v1->service, &l->listener);
	loop_timer_set(l->timer, HEARTBEAT_MS);
	event_go_on(l);
}
