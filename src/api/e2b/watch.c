/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.c - changes of files: as a stream, or collected until the client asks
 *
 * A change may be sent with a description of the file, which takes a request to the
 * sandbox; so changes wait in a queue, and are handled one after another. While the queue
 * is long, or the client does not take its changes, no further ones are read: the kernel
 * keeps them, and if they become too many, the watch ends. What a watch keeps counts for
 * the tenant.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "api/e2b/fs_call.h"
#include "base/list.h"
#include "base/parse.h"
#include "net/loop.h"
#include "service/files/watch.h"

#define QUEUE_HIGH   256          /* so many changes wait before no more are read */
#define QUEUE_MAX    (1U << 20)   /* bytes of changes that wait */
#define COLLECT_HIGH (512U << 10) /* the same for changes that a client has not read */
#define COLLECT_MAX  (1U << 20)
#define UNUSED_MS    600000 /* a watcher that no client asks is removed */
#define SWEEP_MS     60000
#define WATCHERS_MAX 64 /* of one sandbox */
#define KEEPALIVE_S  90

struct change {
	struct change *next;
	const char *type;
	char path[];
};

/* A watched directory. */
struct fs_watch {
	struct files *files;
	struct watch *watch;
	struct watch_denial denial;
	struct fs_accounts accounts;
	struct file_resolve_op *resolving; /* a link; NULL: not now */
	struct proto_entry link;
	char base[4096];
	bool include_entry;
	struct change *first, **tail;
	size_t n, bytes; /* of the queue */
	size_t kept;     /* bytes that are kept for the client */
	bool looking;    /* at the file of the first change */
	bool stepping; /* in watch_go_on(), which an answer at once must not call again */
	bool held;     /* the client must read first */
	bool ended;    /* it has failed */
	/* A change, as JSON without the outer braces of its message. */
	void (*deliver)(struct fs_watch *w, const struct buf *json);
	void (*ready)(struct fs_watch *w);
	void (*failed)(struct fs_watch *w, const char *code, const char *why);
};

/* A watcher that clients ask for its changes. */
struct e2b_watcher {
	struct fs_watch w;
	struct e2b *e2b;
	struct e2b_watcher *next, **prev;
	struct call *call; /* waits for the watch; NULL: it is complete */
	char id[ID_LEN + 1], sandbox[ID_LEN + 1];
	struct buf events;
	bool lost; /* it does not work any more */
	int64_t used_at;
};

static void watch_drop_queue(struct fs_watch *w)
{
	while (w->first) {
		struct change *c = w->first;

		w->first = c->next;
		free(c);
	}
	w->tail = &w->first;
	w->n = w->bytes = 0;
}

static void fs_watch_done(struct fs_watch *w)
{
	w->watch = watch_free(w->watch);
	w->resolving = file_resolve_free(w->resolving);
	w->files = files_end(w->files);
	fs_accounts_done(&w->accounts);
	watch_drop_queue(w);
}

static bool watch_has_sandbox(struct service *s, const char *id)
{
	const struct sandbox *sandbox = sandbox_find(s, NULL, id);

	return sandbox && sandbox_row(sandbox)->state == SANDBOX_RUNNING;
}

/* The watch cannot continue. */
static void fs_watch_fail(struct fs_watch *w, const char *code, const char *why)
{
	if (w->ended)
		return;
	w->ended = true;
	watch_drop_queue(w);
	if (w->watch)
		watch_pause(w->watch, true);
	w->failed(w, code, why);
}

/* Count the memory of the watch; false: it has failed. */
static bool fs_watch_count(struct fs_watch *w)
{
	size_t bytes =
		w->bytes + w->kept + w->accounts.passwd.len + w->accounts.group.len;
	struct warren_error err = WARREN_ERROR_INIT;

	if (!w->watch || w->ended || watch_hold(w->watch, bytes, &err) == 0)
		return !w->ended;
	fs_watch_fail(w, "resource_exhausted", err.msg);
	return false;
}

/* -------------------------------------------------------------------------- changes */

static void watch_go_on(struct fs_watch *w);

static const char *watch_name(const struct fs_watch *w, const char *path)
{
	size_t n = strlen(w->base);

	if (strncmp(path, w->base, n) != 0)
		return path;
	path += n;
	return *path == '/' ? path + 1 : path;
}

static void watch_deliver(struct fs_watch *w, struct fs_entry *e)
{
	AUTO_BUF struct buf out = BUF_INIT(65536);
	struct json j = { .out = &out };
	struct change *c = QUEUE_TAKE(w->first, w->tail);
	const char *name;

	if (!c)
		return;
	name = watch_name(w, c->path);
	w->n--;
	w->bytes -= sizeof(*c) + strlen(c->path) + 1;
	json_open(&j, NULL, '{');
	json_str(&j, "name", name);
	json_str(&j, "type", c->type);
	if (e) {
		e->path = c->path;
		fs_entry_to_json(&w->accounts, e, &j, "entry");
	}
	json_close(&j, '}');
	if (*name)
		w->deliver(w, &out);
	free(c);
}

static void watch_on_resolved(void *ctx, const struct file_resolved *r,
			      const struct warren_error *err)
{
	struct fs_watch *w = ctx;
	struct fs_entry e = { .is = w->link };

	w->resolving = NULL;
	w->looking = false;
	if (!err)
		fs_resolved(&e, r);
	watch_deliver(w, &e);
	watch_go_on(w);
}

static void watch_on_stat(void *ctx, struct files_answer *a,
			  const struct warren_error *err)
{
	struct fs_watch *w = ctx;
	struct proto_found found;
	size_t at = 0;
	bool exists = !err && proto_next(a->entries, a->size, &at, &found) == 1;

	if (exists && S_ISLNK(found.is.mode) && w->first) {
		w->link = found.is;
		file_resolve(w->files, w->first->path, watch_on_resolved, w,
			     &w->resolving);
		return;
	}
	w->looking = false;
	watch_deliver(w, exists ? &(struct fs_entry){ .is = found.is } : NULL);
	watch_go_on(w);
}

static bool watch_describes(const struct fs_watch *w, const struct change *c)
{
	return w->include_entry && strcmp(c->type, "EVENT_TYPE_REMOVE") != 0 &&
	       strcmp(c->type, "EVENT_TYPE_RENAME") != 0;
}

static void watch_go_on(struct fs_watch *w)
{
	if (w->stepping)
		return;
	w->stepping = true;
	while (w->first && !w->looking && !w->held) {
		if (!watch_describes(w, w->first)) {
			watch_deliver(w, NULL);
			continue;
		}
		w->looking = true;
		files_stat(w->files, -1, w->first->path, false, watch_on_stat, w);
	}
	w->stepping = false;
	if (fs_watch_count(w) && w->watch)
		watch_pause(w->watch, w->held || w->n > QUEUE_HIGH);
}

static void watch_put(struct fs_watch *w, const char *type, const char *path)
{
	size_t bytes = sizeof(struct change) + strlen(path) + 1;
	struct change *c = w->bytes + bytes <= QUEUE_MAX ? malloc(bytes) : NULL;

	if (!c || w->ended) {
		free(c);
		fs_watch_fail(w, "resource_exhausted", "too many changes at once");
		return;
	}
	w->bytes += bytes;
	c->next = NULL;
	c->type = type;
	(void)strcpy(c->path, path);
	QUEUE_PUT(w->tail, c);
	w->n++;
	watch_go_on(w);
}

static void e2b_watch_on_event(void *ctx, enum watch_type type, const char *path,
			       const char *from)
{
	static const char *const names[] = {
		[WATCH_CREATED] = "EVENT_TYPE_CREATE",
		[WATCH_MODIFIED] = "EVENT_TYPE_WRITE",
		[WATCH_ATTRIBUTES] = "EVENT_TYPE_CHMOD",
		[WATCH_REMOVED] = "EVENT_TYPE_REMOVE",
		[WATCH_MOVED] = "EVENT_TYPE_CREATE",
		[WATCH_OVERFLOW] = NULL,
	};
	struct fs_watch *w = ctx;

	if (type == WATCH_READY) {
		w->ready(w);
		return;
	}
	if (type == WATCH_OVERFLOW) {
		fs_watch_fail(w, "resource_exhausted", "too many changes at once");
		return;
	}
	if (type == WATCH_MOVED && from)
		watch_put(w, "EVENT_TYPE_RENAME", from);
	if (path)
		watch_put(w, names[type], path);
}

/* The codes are those of other requests about files. */
static void watch_on_failed(void *ctx, const struct warren_error *err)
{
	struct api_error why = { 0 };

	file_error(&why, err);
	/* EAGAIN: what watched the files has ended, so a new watch will work. */
	fs_watch_fail(ctx, err->code == EAGAIN ? "unavailable" : e2b_rpc_code(&why),
		      why.message);
}

/* Begin to watch @path. The files of @f belong to the watch from now on. */
static void fs_watch_begin(struct fs_watch *w, struct fs_call *f)
{
	const struct body *body = &f->fc.call->body;
	struct watch_options o = { .path = w->base,
				   .recursive = body_bool(body, "recursive"),
				   .event = e2b_watch_on_event,
				   .failed = watch_on_failed,
				   .ctx = w,
				   .denial = &w->denial };
	struct warren_error err = WARREN_ERROR_INIT;

	w->tail = &w->first;
	w->include_entry = body_bool(body, "includeEntry");
	w->files = TAKE_PTR(f->fc.files);
	if (w->include_entry) {
		w->accounts = f->accounts;
		f->accounts = (struct fs_accounts){ 0 };
	}
	(void)strcpy(w->base, f->fc.path);
	if (!w->base[1])
		w->base[0] = '\0'; /* the root: names begin after its slash */
	o.path = w->base[0] ? w->base : "/";
	files_last(w->files);
	w->watch = watch_new(w->files, &o, &err);
	if (!w->watch)
		watch_on_failed(w, &err);
}

/* Only a directory can be watched. */
static void watch_on_directory(void *ctx, struct files_answer *a,
			       const struct warren_error *err)
{
	struct fs_call *f = ctx;
	struct proto_found found;

	if (err)
		fs_fail(f, err);
	else if (!file_entry(f->fc.call, a, NULL, &found))
		return;
	else if (!S_ISDIR(found.is.mode))
		e2b_refuse_rpc(f->fc.call, "invalid_argument",
			       "path '%s' is not a directory", f->asked);
	else
		f->next(f);
}

static void watch_check(struct fs_call *f, void (*next)(struct fs_call *f))
{
	f->next = next;
	files_stat(f->fc.files, -1, f->fc.path, true, watch_on_directory, f);
}

static const char *watch_asked(const struct call *c)
{
	const char *path = body_text(&c->body, "path");

	return path ? path : "";
}

/* ------------------------------------------------------------------------- as a stream
 */

struct watch_stream {
	struct fs_call fs;
	struct fs_watch w;
	struct loop_timer *timer; /* for keepalives, and then for the end */
	uint64_t keepalive_ms, end_at;
	bool begun;
};

static struct watch_stream *stream_of(struct fs_watch *w)
{
	return (struct watch_stream *)((char *)w - offsetof(struct watch_stream, w));
}

static void watch_stream_done(struct fs_call *f)
{
	struct watch_stream *s = (struct watch_stream *)f;

	s->timer = loop_timer_free(s->timer);
	fs_watch_done(&s->w);
}

static void watch_send(struct watch_stream *s, const char *key, const struct buf *json)
{
	AUTO_BUF struct buf message = BUF_INIT(128U << 10), out = BUF_INIT(128U << 10);
	struct call *c = s->fs.fc.call;

	buf_printf(&message, "{\"%s\":", key);
	buf_add(&message, json->data, json->len);
	buf_puts(&message, "}");
	envelope_put(&out, 0, message.data, message.len);
	if (message.failed || out.failed || json->failed)
		http_abort(c->req);
	else if (http_write(c->req, out.data, out.len) == 1)
		s->w.held = true;
}

static void watch_send_empty(struct watch_stream *s, const char *key)
{
	AUTO_BUF struct buf none = BUF_INIT(16);

	buf_puts(&none, "{}");
	watch_send(s, key, &none);
}

static void watch_stream_deliver(struct fs_watch *w, const struct buf *json)
{
	watch_send(stream_of(w), "filesystem", json);
}

static void watch_stream_ready(struct fs_watch *w)
{
	struct watch_stream *s = stream_of(w);

	s->begun = true;
	envelope_begin(s->fs.fc.call);
	watch_send_empty(s, "start");
}

static void watch_stream_failed(struct fs_watch *w, const char *code, const char *why)
{
	struct watch_stream *s = stream_of(w);
	struct call *c = s->fs.fc.call;

	if (!c->req)
		return;
	/* Clients take a stream without an end for the end of the sandbox. */
	if (s->begun && !watch_has_sandbox(c->v1->service, c->route.sandbox))
		http_abort(c->req);
	else
		e2b_end_stream(c, code, why);
}

static void watch_stream_on_drained(struct http_request *req)
{
	struct watch_stream *s = ((struct call *)req->user)->state;

	if (!s)
		return;
	s->w.held = false;
	watch_go_on(&s->w);
}

static void watch_stream_arm(struct watch_stream *s)
{
	uint64_t now = (uint64_t)service_time();
	uint64_t ms = s->keepalive_ms;

	if (s->end_at && s->end_at < now + ms)
		ms = s->end_at > now ? s->end_at - now : 0;
	loop_timer_set(s->timer, ms);
}

static void watch_stream_on_timer(void *ctx)
{
	struct watch_stream *s = ctx;

	if (s->end_at && (uint64_t)service_time() >= s->end_at) {
		fs_watch_fail(&s->w, "deadline_exceeded",
			      "the time limit of the request has passed");
		return;
	}
	if (s->begun && !s->w.held)
		watch_send_empty(s, "keepalive");
	watch_stream_arm(s);
}

static void watch_stream_on_stop(struct call *c, bool last UNUSED)
{
	struct watch_stream *s = c->state;

	if (s && s->begun)
		http_abort(c->req);
}

static void watch_stream_start(struct fs_call *f)
{
	struct watch_stream *s = (struct watch_stream *)f;
	struct call *c = f->fc.call;

	if (loop_timer_new(files_loop(f->fc.files), watch_stream_on_timer, s, &s->timer) <
	    0) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	s->w.deliver = watch_stream_deliver;
	s->w.ready = watch_stream_ready;
	s->w.failed = watch_stream_failed;
	c->req->drained = watch_stream_on_drained;
	c->stop = watch_stream_on_stop;
	watch_stream_arm(s);
	fs_watch_begin(&s->w, f);
}

static void watch_stream_check(struct fs_call *f)
{
	watch_check(f, watch_stream_start);
}

void e2b_fs_watch_dir(struct call *c)
{
	struct watch_stream *s = calloc(1, sizeof(*s));
	uint64_t timeout = e2b_timeout_ms(c);
	char user[64];

	if (s) {
		s->fs.next = watch_stream_check;
		s->fs.done = watch_stream_done;
		s->keepalive_ms = e2b_keepalive_ms(c);
		s->end_at = timeout ? (uint64_t)service_time() + timeout : 0;
	}
	fs_begin(c, s ? &s->fs : NULL, e2b_user(c, user), watch_asked(c));
}

/* ------------------------------------------------------------------------- watchers */

static struct e2b_watcher *watcher_of(struct fs_watch *w)
{
	return (struct e2b_watcher *)((char *)w - offsetof(struct e2b_watcher, w));
}

static void watcher_free(struct e2b_watcher *w)
{
	if (w->prev)
		DLIST_REMOVE(w);
	fs_watch_done(&w->w);
	buf_done(&w->events);
	free(w);
}

void e2b_forget_watchers(struct e2b *e)
{
	while (e->watchers)
		watcher_free(e->watchers);
	e->watch_timer = loop_timer_free(e->watch_timer);
}

static void watcher_on_sweep(void *ctx)
{
	struct e2b *e = ctx;
	int64_t now = service_time();
	struct e2b_watcher *next;

	for (struct e2b_watcher *w = e->watchers; w; w = next) {
		next = w->next;
		if (w->used_at + UNUSED_MS < now && !w->call)
			watcher_free(w);
	}
	if (e->watchers)
		loop_timer_set(e->watch_timer, SWEEP_MS);
}

static void watcher_deliver(struct fs_watch *fw, const struct buf *json)
{
	struct e2b_watcher *w = watcher_of(fw);

	if (w->events.len > 0)
		buf_puts(&w->events, ",");
	buf_add(&w->events, json->data, json->len);
	fw->kept = w->events.len;
	fw->held = w->events.len > COLLECT_HIGH;
	if (w->events.failed || json->failed)
		fs_watch_fail(fw, "resource_exhausted", "too many changes at once");
}

static void watcher_ready(struct fs_watch *fw)
{
	struct e2b_watcher *w = watcher_of(fw);
	struct call *c = TAKE_PTR(w->call);
	AUTO_BUF struct buf out = BUF_INIT(128);

	if (!c)
		return;
	buf_printf(&out, "{\"watcherId\":\"%s\"}", w->id);
	if (c->req)
		call_json(c, 200, &out);
	call_unref(c);
}

static void watcher_failed(struct fs_watch *fw, const char *code, const char *why)
{
	struct e2b_watcher *w = watcher_of(fw);
	struct call *c = TAKE_PTR(w->call);

	w->lost = true;
	buf_done(&w->events);
	/* With its sandbox, a watcher ends at once: it counts with those of the tenant.
	 */
	if (!watch_has_sandbox(w->e2b->v1->service, w->sandbox)) {
		w->used_at = -UNUSED_MS;
		loop_timer_set(w->e2b->watch_timer, 1);
	}
	if (!c)
		return;
	if (c->req)
		e2b_refuse_rpc(c, code, "%s", why);
	w->used_at = 0; /* no client knows it */
	call_unref(c);
}

static size_t watcher_count(const struct e2b *e, const char *sandbox)
{
	size_t n = 0;

	for (const struct e2b_watcher *w = e->watchers; w; w = w->next)
		n += strcmp(w->sandbox, sandbox) == 0;
	return n;
}

static void watcher_start(struct fs_call *f)
{
	struct call *c = f->fc.call;
	struct e2b *e = call_e2b(c);
	struct e2b_watcher *w;

	if (watcher_count(e, c->route.sandbox) >= WATCHERS_MAX) {
		e2b_refuse_rpc(c, "resource_exhausted",
			       "the sandbox has %d watchers: remove one first",
			       WATCHERS_MAX);
		return;
	}
	w = calloc(1, sizeof(*w));
	if (!w ||
	    (!e->watch_timer && loop_timer_new(files_loop(f->fc.files), watcher_on_sweep,
					       e, &e->watch_timer) < 0)) {
		free(w);
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	if (!e->watchers)
		loop_timer_set(e->watch_timer, SWEEP_MS);
	id_make(w->id);
	(void)memcpy(w->sandbox, c->route.sandbox, sizeof(w->sandbox));
	w->e2b = e;
	w->events = (struct buf)BUF_INIT(COLLECT_MAX);
	w->used_at = service_time();
	w->call = call_ref(c);
	w->w.deliver = watcher_deliver;
	w->w.ready = watcher_ready;
	w->w.failed = watcher_failed;
	DLIST_PUSH(e->watchers, w);
	fs_watch_begin(&w->w, f);
}

static void watcher_check(struct fs_call *f)
{
	watch_check(f, watcher_start);
}

void e2b_fs_create_watcher(struct call *c)
{
	struct fs_call *f = calloc(1, sizeof(*f));
	char user[64];

	if (f)
		f->next = watcher_check;
	fs_begin(c, f, e2b_user(c, user), watch_asked(c));
}

/* NULL: refused. */
static struct e2b_watcher *watcher_find(struct call *c)
{
	const char *id = body_text(&c->body, "watcherId");
	struct e2b_watcher *w = call_e2b(c)->watchers;

	while (w && (strcmp(w->id, id) != 0 || strcmp(w->sandbox, c->route.sandbox) != 0))
		w = w->next;
	if (!w)
		e2b_refuse_rpc(c, "not_found", "watcher with id %s not found", id);
	return w;
}

void e2b_fs_get_watcher_events(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(COLLECT_MAX + 64);
	struct e2b_watcher *w = watcher_find(c);

	if (!w)
		return;
	w->used_at = service_time();
	if (w->lost) {
		e2b_refuse_rpc(c, "resource_exhausted",
			       "changes were lost: create another watcher");
		return;
	}
	buf_puts(&out, "{\"events\":[");
	buf_add(&out, w->events.data ? w->events.data : "", w->events.len);
	buf_puts(&out, "]}");
	buf_done(&w->events);
	w->events = (struct buf)BUF_INIT(COLLECT_MAX);
	w->w.kept = 0;
	w->w.held = false;
	call_json(c, 200, &out);
	watch_go_on(&w->w);
}

void e2b_fs_remove_watcher(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(16);
	struct e2b_watcher *w = watcher_find(c);

	if (!w)
		return;
	watcher_free(w);
	buf_puts(&out, "{}");
	call_json(c, 200, &out);
}
