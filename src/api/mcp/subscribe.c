/* SPDX-License-Identifier: Apache-2.0 */
/*
 * subscribe.c - subscriptions: a message when a file or the output of an exec changes
 *
 * For a file, its directory is watched, because programs replace files rather than write
 * them. Several changes within a short time are one message.
 */
#include "api/mcp/subscribe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/mcp/internal.h"
#include "api/path.h"
#include "base/list.h"
#include "service/exec/exec.h"
#include "service/files/watch.h"

#define GATHER_MS 100

struct mcp_sub {
	struct mcp_sub *next;
	struct mcp_subs *of; /* NULL: removed */
	unsigned refs;
	struct mcp *mcp;
	struct mcp_call *opener; /* the call that opens it, until it is open; then NULL */
	char *uri;
	char path[API_PATH_MAX], dir[API_PATH_MAX];
	struct files *files;
	struct watch *watch;
	struct watch_denial denial;
	struct exec *exec;
	struct waiter output;
	struct loop_timer *timer;
	bool armed; /* the timer is set */
	/* The watch must not be freed in its own callbacks, so sub_on_task() frees it
	 * later. */
	struct loop_task task;
	bool failed;
	char why[512];
};

static void sub_unref(struct mcp_sub *s)
{
	if (--s->refs > 0)
		return;
	free(s->uri);
	free(s);
}

static void sub_close(struct mcp_sub *s)
{
	struct mcp_call *opener = s->opener;

	if (s->of) {
		(void)LIST_REMOVE(s->of->first, s);
		s->of->n--;
	}
	s->of = NULL;
	s->opener = NULL;
	loop_task_cancel(&s->task);
	s->watch = watch_free(s->watch);
	s->files = files_end(s->files);
	exec_watch_cancel(&s->output);
	s->exec = exec_unref(s->exec);
	s->timer = loop_timer_free(s->timer);
	sub_unref(s);
	if (opener)
		mcp_call_unref(opener);
}

/* Report that the subscription is open, or (if @why is not NULL) that it failed and is
 * closed. */
static void sub_settle(struct mcp_sub *s, const char *why)
{
	struct mcp_call *c = s->opener;
	struct mcp_subs *of = s->of;
	AUTO_FREE char *uri = strdup(s->uri);

	s->opener = NULL;
	if (why)
		sub_close(s);
	if (!c)
		return;
	if (of && !c->done)
		of->opened(c, of, uri ? uri : "", !why, why ? why : "");
	mcp_call_unref(c);
}

/* -------------------------------------------------------------------- messages */

static void sub_on_timer(void *ctx);

/* Do not set a timer again: continuous changes would postpone it forever.
 */
static void sub_arm(struct mcp_sub *s)
{
	if (s->armed || (!s->timer && loop_timer_new(service_loop(s->mcp->service),
						     sub_on_timer, s, &s->timer) < 0))
		return;
	s->armed = true;
	loop_timer_set(s->timer, GATHER_MS);
}

static void sub_on_timer(void *ctx)
{
	struct mcp_sub *s = ctx;
	struct mcp_exchange *stream = s->of->stream;
	AUTO_BUF struct buf out = BUF_INIT(65536);
	struct json j = { .out = &out };

	s->armed = false;
	if (!stream)
		return;
	if (stream->blocked) {
		sub_arm(s);
		return;
	}
	json_open(&j, NULL, '{');
	json_str(&j, "jsonrpc", "2.0");
	json_str(&j, "method", "notifications/resources/updated");
	json_open(&j, "params", '{');
	json_str(&j, "uri", s->uri);
	if (s->of->id) {
		json_open(&j, "_meta", '{');
		rpc_write_id(&j, RPC_META "subscriptionId", s->of->id);
		json_close(&j, '}');
	}
	json_close(&j, '}');
	json_close(&j, '}');
	(void)mcp_exchange_notify(stream, &out);
}

static void sub_touch(struct mcp_sub *s)
{
	if (!s->opener)
		sub_arm(s);
}

static void sub_on_event(void *ctx, enum watch_type type, const char *path,
			 const char *from)
{
	struct mcp_sub *s = ctx;

	if (type == WATCH_READY)
		loop_defer(service_loop(s->mcp->service), &s->task);
	else if (type == WATCH_OVERFLOW || (path && strcmp(path, s->path) == 0) ||
		 (from && strcmp(from, s->path) == 0))
		sub_touch(s);
}

static void sub_on_failed(void *ctx, const struct warren_error *err)
{
	struct mcp_sub *s = ctx;

	s->failed = true;
	(void)snprintf(s->why, sizeof(s->why), "%.511s", err->msg);
	loop_defer(service_loop(s->mcp->service), &s->task);
}

static void sub_on_task(void *ctx)
{
	struct mcp_sub *s = ctx;
	char why[sizeof(s->why)];

	(void)strcpy(why, s->why);
	sub_settle(s, s->failed ? why : NULL);
}

static void sub_on_output(struct waiter *w, void *of UNUSED)
{
	sub_touch(w->ctx);
}

/* --------------------------------------------------------------------- opening */

static void sub_on_begun(void *ctx, struct files *f, const struct warren_error *err)
{
	struct mcp_sub *s = ctx;
	struct watch_options o = { .path = s->dir,
				   .event = sub_on_event,
				   .failed = sub_on_failed,
				   .ctx = s,
				   .denial = &s->denial };
	struct warren_error why = WARREN_ERROR_INIT;

	if (!s->of) {
		(void)files_end(f);
	} else if (!f) {
		sub_settle(s, err->msg);
	} else {
		s->files = f;
		s->watch = watch_new(f, &o, &why);
		if (!s->watch)
			sub_settle(s, why.msg);
	}
	sub_unref(s);
}

static int sub_open_log(struct mcp_sub *s, struct sandbox *sandbox, const char *id,
			char *why, size_t size)
{
	struct warren_error err = WARREN_ERROR_INIT;

	s->exec = id_valid(id) ? exec_of_sandbox(sandbox, id) : NULL;
	if (!s->exec || exec_watch(s->exec, &s->output, &err) < 0) {
		(void)snprintf(why, size, "%s",
			       s->exec ? err.msg : "there is no such exec");
		return -1;
	}
	return 0;
}

static int sub_open_file(struct mcp_sub *s, struct sandbox *sandbox, const char *path,
			 char *why, size_t size)
{
	char *slash;

	if (!api_path("/", path, s->path)) {
		(void)snprintf(why, size, "the path is too long");
		return -1;
	}
	(void)strcpy(s->dir, s->path);
	slash = strrchr(s->dir, '/');
	slash[slash == s->dir] = '\0';
	s->refs++;
	files_begin(sandbox, NULL, sub_on_begun, s);
	return 0;
}

int mcp_subs_add(struct mcp_subs *of, struct mcp_call *c, const char *uri, char *why,
		 size_t size)
{
	AUTO_BUF struct buf text = BUF_INIT(1024);
	struct mcp_sub *s = calloc(1, sizeof(*s));
	struct sandbox *sandbox;
	json_t *args = NULL;
	bool is_log = false;
	int r = -1;

	(void)snprintf(why, size, "out of memory; try again");
	if (!s || !(s->uri = strdup(uri))) {
		free(s);
		return -1;
	}
	s->refs = 1;
	s->mcp = c->mcp;
	s->opener = mcp_call_ref(c);
	s->task = (struct loop_task){ .fn = sub_on_task, .ctx = s };
	s->output = (struct waiter){ .fn = sub_on_output, .ctx = s };
	s->of = of;
	LIST_PUSH(of->first, s);
	of->n++;
	if (of->n > MCP_SUBS_MAX)
		(void)snprintf(why, size, "there can be at most %d subscriptions",
			       MCP_SUBS_MAX);
	else if (!mcp_resource_split(uri, &args, &is_log))
		(void)snprintf(why, size,
			       "there is no such resource, or it never changes");
	else if (!access_may(&c->caller, is_log ? "exec" : "files"))
		(void)snprintf(why, size, "the token lacks the scope '%s'",
			       is_log ? "exec" : "files");
	else if (!(sandbox = mcp_place_find(c, rpc_text(args, "sandbox"), &text)))
		(void)snprintf(why, size, "%s", text.data ? text.data : "out of memory");
	else if (is_log)
		r = sub_open_log(s, sandbox, rpc_text(args, "path") + 1, why, size);
	else
		r = sub_open_file(s, sandbox, rpc_text(args, "path"), why, size);
	json_decref(args);
	/*
	 * A subscription that is still being opened is settled later; otherwise it is
	 * already settled and closed.
	 */
	if (r < 0)
		sub_close(s);
	else if (is_log)
		sub_settle(s, NULL);
	return r;
}

void mcp_subs_remove(struct mcp_subs *of, const char *uri)
{
	struct mcp_sub **at;

	LIST_FIND(of->first, at, strcmp((*at)->uri, uri) == 0);
	if (*at)
		sub_close(*at);
}

void mcp_subs_done(struct mcp_subs *of)
{
	while (of->first)
		sub_close(of->first);
}

/* ---------------------------------------------------- subscriptions of legacy clients */

static void subscribe_opened(struct mcp_call *c, struct mcp_subs *s UNUSED,
			     const char *uri UNUSED, bool ready, const char *why)
{
	if (ready)
		mcp_call_empty(c);
	else
		mcp_tool_error(c, "%s", why);
}

void mcp_resources_subscribe(struct mcp_call *c)
{
	const char *uri = rpc_text(c->params, "uri");
	struct mcp_subs *s = &c->session->subs;
	char why[512];

	if (!uri) {
		mcp_call_error(c, RPC_INVALID_PARAMS, "params.uri: must be a string");
		return;
	}
	mcp_subs_remove(s, uri);
	s->opened = subscribe_opened;
	s->stream = c->session->stream;
	if (mcp_subs_add(s, c, uri, why, sizeof(why)) < 0)
		mcp_tool_error(c, "%s", why);
}

void mcp_resources_unsubscribe(struct mcp_call *c)
{
	const char *uri = rpc_text(c->params, "uri");

	if (!uri) {
		mcp_call_error(c, RPC_INVALID_PARAMS, "params.uri: must be a string");
		return;
	}
	mcp_subs_remove(&c->session->subs, uri);
	mcp_call_empty(c);
}

/* ---------------------------------------------------- subscriptions of modern clients */

struct mcp_listening {
	struct mcp_subs subs;
	size_t left; /* number of subscriptions that are not open yet, plus one for the
			request itself */
	json_t *honoured;
};

static void listen_stop(struct mcp_call *c)
{
	struct mcp_listening *l = c->state;

	mcp_subs_done(&l->subs);
	json_decref(l->honoured);
	free(l);
}

/* The first message reports which of the requested subscriptions are active. */
static void listen_acknowledge(struct mcp_call *c, struct mcp_listening *l)
{
	AUTO_BUF struct buf out = BUF_INIT(512U << 10);
	struct json j = { .out = &out };
	char *uris = json_dumps(l->honoured, JSON_COMPACT);

	json_open(&j, NULL, '{');
	json_str(&j, "jsonrpc", "2.0");
	json_str(&j, "method", "notifications/subscriptions/acknowledged");
	json_open(&j, "params", '{');
	json_open(&j, "_meta", '{');
	rpc_write_id(&j, RPC_META "subscriptionId", c->id);
	json_close(&j, '}');
	json_open(&j, "notifications", '{');
	if (uris && json_array_size(l->honoured) > 0)
		json_raw(&j, "resourceSubscriptions", uris, strlen(uris));
	json_close(&j, '}');
	json_close(&j, '}');
	json_close(&j, '}');
	free(uris);
	l->subs.stream = c->exchange;
	if (!mcp_exchange_notify(c->exchange, &out))
		mcp_call_error(c, RPC_INTERNAL_ERROR, "out of memory; try again");
	else if (c->mcp->stopping)
		mcp_listen_end(c);
}

static void listen_opened(struct mcp_call *c, struct mcp_subs *s, const char *uri,
			  bool ready, const char *why UNUSED)
{
	struct mcp_listening *l = c->state;

	if (ready)
		(void)json_array_append_new(l->honoured, json_string(uri));
	if (s && --l->left == 0)
		listen_acknowledge(c, l);
}

void mcp_listen(struct mcp_call *c)
{
	const json_t *wishes = json_object_get(c->params, "notifications");
	const json_t *uris = json_object_get(wishes, "resourceSubscriptions");
	struct mcp_listening *l = calloc(1, sizeof(*l));
	char why[512];

	if (!json_is_object(wishes) || (uris && !json_is_array(uris)) ||
	    json_array_size(uris) > MCP_SUBS_MAX || !c->exchange->takes_events) {
		free(l);
		mcp_call_error(c, RPC_INVALID_PARAMS,
			       "params.notifications: must be an object, with at most %d "
			       "resourceSubscriptions, and Accept must list "
			       "text/event-stream",
			       MCP_SUBS_MAX);
		return;
	}
	if (!l || !(l->honoured = json_array())) {
		free(l);
		mcp_call_error(c, RPC_INTERNAL_ERROR, "out of memory; try again");
		return;
	}
	l->left = 1;
	l->subs.id = c->id;
	l->subs.opened = listen_opened;
	c->state = l;
	c->stop = listen_stop;
	c->listens = true;
	for (size_t i = 0; i < json_array_size(uris); i++) {
		const json_t *uri = json_array_get(uris, i);
		const char *text = json_string_value(uri);

		if (!text || strlen(text) != json_string_length(uri))
			continue;
		l->left++;
		if (mcp_subs_add(&l->subs, c, text, why, sizeof(why)) < 0)
			l->left--;
	}
	listen_opened(c, &l->subs, "", false, "");
}

void mcp_listen_end(struct mcp_call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(8192);
	struct json j = { .out = &out };

	json_open(&j, NULL, '{');
	json_str(&j, "resultType", "complete");
	json_open(&j, "_meta", '{');
	mcp_write_server(&j, RPC_META "serverInfo");
	rpc_write_id(&j, RPC_META "subscriptionId", c->id);
	json_close(&j, '}');
	json_close(&j, '}');
	mcp_call_result(c, &out);
}
