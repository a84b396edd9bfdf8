/* SPDX-License-Identifier: Apache-2.0 */
/* file_watch.c - handler: stream the changes of a file, directory or tree */
#include <errno.h>

#include "api/v1/file.h"
#include "net/loop.h"
#include "service/files/watch.h"

#define HEARTBEAT_MS 15000

struct watching {
	struct file_call fc;
	struct watch *watch;
	struct watch_denial denial;
	struct loop_timer *timer;
	uint64_t n;
	bool recursive, sse, blocked, begun;
};

static void watching_done(struct file_call *fc)
{
	struct watching *w = (struct watching *)fc;

	w->watch = watch_free(w->watch);
	w->timer = loop_timer_free(w->timer);
}

static void file_watch_put(struct watching *w, const char *type, const char *path,
			   const char *from)
{
	AUTO_BUF struct buf out = BUF_INIT(65536);
	struct json j = { .out = &out };

	if (!w->begun)
		call_begin_stream(w->fc.call, w->sse);
	w->begun = true;
	if (w->sse)
		buf_printf(&out, "id: %ju\ndata: ", (uintmax_t)++w->n);
	json_open(&j, NULL, '{');
	json_str(&j, "type", type);
	if (path)
		json_str(&j, "path", path);
	if (from)
		json_str(&j, "from", from);
	json_close(&j, '}');
	buf_puts(&out, w->sse ? "\n\n" : "\n");
	if (http_write(w->fc.call->req, out.data, out.len) == 1 && !w->blocked) {
		w->blocked = true;
		if (w->watch)
			watch_pause(w->watch, true);
	}
	loop_timer_set(w->timer, HEARTBEAT_MS);
}

static void file_watch_on_event(void *ctx, enum watch_type type, const char *path,
				const char *from)
{
	static const char *const names[] = {
		[WATCH_READY] = "ready",       [WATCH_CREATED] = "created",
		[WATCH_MODIFIED] = "modified", [WATCH_ATTRIBUTES] = "attributes",
		[WATCH_REMOVED] = "removed",   [WATCH_MOVED] = "moved",
		[WATCH_OVERFLOW] = "overflow",
	};

	file_watch_put(ctx, names[type], path, from);
}

/* This limit is shared by all tenants, so it is neither a tenant's quota nor a full
 * disk. */
static void file_watch_fail(struct watching *w, const struct warren_error *why)
{
	const struct watch_denial *d = &w->denial;
	struct api_error err = { 0 };

	if (!d->quota) {
		file_fail(w->fc.call, why);
		return;
	}
	(void)api_error_from(&err, why);
	api_error_text(&err, "quota", "%s", d->quota);
	api_error_number(&err, "used", d->used);
	api_error_number(&err, "maximum", d->maximum);
	call_error(w->fc.call, &err);
}

static void file_watch_on_failed(void *ctx, const struct warren_error *err)
{
	struct watching *w = ctx;

	if (w->begun)
		http_abort(w->fc.call->req);
	else
		file_watch_fail(w, err);
}

static void file_watch_on_timer(void *ctx)
{
	struct watching *w = ctx;

	if (w->begun && !w->blocked)
		file_watch_put(w, "heartbeat", NULL, NULL);
}

static void file_watch_on_drained(struct http_request *req)
{
	struct watching *w = ((struct call *)req->user)->state;

	if (!w || !w->blocked)
		return;
	w->blocked = false;
	if (w->watch)
		watch_pause(w->watch, false);
}

static void file_watch_on_stop(struct call *c, bool last UNUSED)
{
	struct watching *w = c->state;

	if (!w || !w->begun || !w->watch)
		return;
	w->watch = watch_free(w->watch);
	loop_timer_stop(w->timer);
	(void)http_end(c->req);
}

static void file_watch_begun(struct file_call *fc)
{
	struct watching *w = (struct watching *)fc;
	struct watch_options o = { .path = fc->path,
				   .recursive = w->recursive,
				   .event = file_watch_on_event,
				   .failed = file_watch_on_failed,
				   .ctx = w,
				   .denial = &w->denial };
	struct warren_error err = WARREN_ERROR_INIT;

	if (loop_timer_new(files_loop(fc->files), file_watch_on_timer, w, &w->timer) <
	    0) {
		call_refuse(fc->call, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	fc->call->req->drained = file_watch_on_drained;
	fc->call->stop = file_watch_on_stop;
	w->watch = watch_new(fc->files, &o, &err);
	if (!w->watch)
		file_watch_fail(w, &err);
}

void v1_watch_files(struct call *c)
{
	struct api_value *v = c->query.v;
	struct watching *w = calloc(1, sizeof(*w));

	if (w) {
		w->fc.begun = file_watch_begun;
		w->fc.done = watching_done;
		w->recursive = v[V1_WATCH_FILES_QUERY_RECURSIVE].number;
		w->sse = v[V1_WATCH_FILES_QUERY_FORMAT].number ==
			 V1_WATCH_FILES_FORMAT_IS_SSE;
	}
	file_begin(c, w ? &w->fc : NULL, v[V1_WATCH_FILES_QUERY_PATH].text,
		   v[V1_WATCH_FILES_QUERY_USER].text);
}
