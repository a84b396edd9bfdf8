/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.c - the watches of a tree, and their events
 *
 * A directory is watched before it is listed, so a new file in the directory is never
 * missed, but may be both in the list and among the events. So the names in the list are
 * reported only when all events from before the list have been read, and only if no event
 * has reported them. A watch that is added and removed after listing marks this position
 * among the events.
 *
 * A directory that is renamed keeps its watches with new paths; a directory that leaves
 * the tree loses them.
 */
#include "service/files/watch.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "net/loop.h"
#include "service/files/internal.h"

#define WATCHES_MAX 65536
#define MASK                                                                           \
	(IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | \
	 IN_DELETE_SELF | IN_MOVE_SELF)
#define READS_AT_ONCE 16
#define NAMES_MAX     (64U << 10) /* bytes of names; more are reported at once */
#define MARK_AT       "/dev/null" /* nothing else watches it */
#define PATH_COST     48          /* memory for each path, in addition to its bytes */

/* A directory that must be watched and listed. */
struct todo {
	struct todo *next;
	bool quiet; /* its contents existed before the watch */
	char path[];
};

struct watch {
	struct files *files;
	struct service *service;
	char *tenant; /* tenant that owns the watch */
	bool charged; /* the inotify instance is charged to the tenant */
	struct fair_quota_lease memory; /* memory of all paths */
	uint64_t bytes;                 /* total size of all paths */
	struct fair_quota_lease user;   /* watch_hold() */
	struct warren_error full; /* why no more paths can be watched; code 0: they can */
	struct watch_options o;
	int fd;     /* the inotify */
	int events; /* socket for the events; -1: inotify itself */
	struct loop_watch *reading;
	char **paths; /* indexed by the number of the watch */
	size_t n_paths, count;
	struct todo *todo, **todo_tail;
	struct todo *doing;
	int doing_wd; /* -1: its watch is not added yet */
	struct buf
		listed;  /* its names that are not reported yet; see watch_names_put() */
	struct buf told; /* its names that events have reported while it is listed */
	int mark;        /* the watch that marks the end of earlier events; -1: none */
	struct walk *walk;
	char *root;
	bool ready, dead;
	char *moved; /* the old path of a rename, until the new one is known */
	uint32_t cookie;
	bool moved_dir;
};

static void next_todo(struct watch *w);

static void watch_failed(struct watch *w, const struct warren_error *err)
{
	if (w->dead)
		return;
	w->dead = true;
	watch_pause(w, true);
	w->o.failed(w->o.ctx, err);
}

/* Charge one unit of @share to the tenant, or refuse it. */
static int watch_charge(struct watch *w, struct fair_quota *share, const char *name,
			struct warren_error *err)
{
	struct watch_denial *d = w->o.denial;
	int r = fair_quota_take(share, w->tenant);

	if (r == 0)
		return 0;
	if (r != -EDQUOT)
		return error_errno(err, -r, "watch '%s'", w->root);
	w->service->metrics.denied++;
	d->quota = name;
	fair_quota_look(share, w->tenant, &d->used, &d->maximum);
	return error_set(err, EDQUOT,
			 "the tenant '%s' has %ju %s and cannot have more, because "
			 "other tenants need some too",
			 w->tenant, (uintmax_t)d->used, name);
}

/* Charge the memory of one more path. Return false if there is no room; then the watch
 * ends. */
static bool hold_path(struct watch *w, const char *path)
{
	const struct denial *why;
	struct warren_error err = WARREN_ERROR_INIT;
	uint64_t bytes = w->bytes + strlen(path) + PATH_COST;

	if (w->full.code)
		return false;
	if (lease_memory(w->service, w->tenant, bytes, &w->memory, &err) == 0) {
		w->bytes = bytes;
		return true;
	}
	why = service_denied(w->service, &err);
	if (why)
		*w->o.denial = (struct watch_denial){ .quota = why->quota,
						      .used = why->used,
						      .maximum = why->maximum };
	(void)error_set(&w->full, err.code == EUSERS ? EDQUOT : err.code, "%s", err.msg);
	return false;
}

static void drop_path(struct watch *w, const char *path)
{
	if (path)
		w->bytes -= strlen(path) + PATH_COST;
}

static void add_todo(struct watch *w, const char *path, bool quiet)
{
	struct todo *t =
		hold_path(w, path) ? malloc(sizeof(*t) + strlen(path) + 1) : NULL;

	if (!t)
		return;
	t->next = NULL;
	t->quiet = quiet;
	(void)strcpy(t->path, path);
	*w->todo_tail = t;
	w->todo_tail = &t->next;
}

/* ---------------------------------------------------- names of a new directory */

/* Each name is between two NULs, and begins with 'd' if it is a directory. */
static void watch_names_put(struct buf *names, char kind, const char *name)
{
	if (names->len == 0)
		buf_add(names, "", 1);
	buf_add(names, &kind, 1);
	buf_add(names, name, strlen(name) + 1);
}

static char *watch_names_find(const struct buf *names, char kind, const char *name)
{
	char text[NAME_MAX + 4] = { '\0', kind };
	size_t n = strlen(name);

	if (names->len == 0 || n > NAME_MAX)
		return NULL;
	(void)memcpy(text + 2, name, n + 1);
	return memmem(names->data, names->len, text, n + 3);
}

/* Report a name of the directory that is being added to the watch. */
static void watch_report_new(struct watch *w, const char *name, bool is_dir)
{
	const char *dir = w->doing->path;
	char path[8192];

	/* It may have been renamed in the meantime. */
	if (w->doing_wd >= 0 && w->paths[w->doing_wd])
		dir = w->paths[w->doing_wd];

	(void)snprintf(path, sizeof(path), "%s%s%s", dir, dir[1] ? "/" : "", name);
	w->o.event(w->o.ctx, WATCH_CREATED, path, NULL);
	if (is_dir)
		add_todo(w, path, false);
}

/*
 * An event is about a name of this directory. If it does not say that the file is new,
 * the file is older than the watch, so its creation is reported first.
 */
static void watch_tell_name(struct watch *w, const struct inotify_event *ev)
{
	static const char kinds[] = "df";
	bool is_new = ev->mask & (IN_CREATE | IN_MOVED_TO);

	for (size_t i = 0; i < 2; i++) {
		char *at = watch_names_find(&w->listed, kinds[i], ev->name);

		if (!at)
			continue;
		at[1] = '-';
		if (!is_new)
			watch_report_new(w, ev->name, kinds[i] == 'd');
	}
	if (w->walk && (is_new || ev->mask & (IN_DELETE | IN_MOVED_FROM)) &&
	    w->told.len + strlen(ev->name) + 3 < NAMES_MAX)
		watch_names_put(&w->told, 'f', ev->name);
}

/* Report what no event has reported, unless the directory is gone. */
static void watch_report_listed(struct watch *w)
{
	bool gone = w->doing_wd >= 0 && !w->paths[w->doing_wd];

	for (size_t at = 1; at < w->listed.len && !w->dead && !gone;
	     at += strlen(w->listed.data + at) + 1)
		if (w->listed.data[at] != '-')
			watch_report_new(w, w->listed.data + at + 1,
					 w->listed.data[at] == 'd');
	buf_done(&w->listed);
	buf_done(&w->told);
	w->listed = (struct buf)BUF_INIT(NAMES_MAX);
	w->told = (struct buf)BUF_INIT(NAMES_MAX);
	w->doing_wd = w->mark = -1;
}

static void todo_done(struct watch *w)
{
	watch_report_listed(w);
	drop_path(w, w->doing->path);
	free(w->doing);
	w->doing = NULL;
	next_todo(w);
}

static enum walk_say watch_on_entry(void *ctx, const struct walk_entry *e)
{
	struct watch *w = ctx;

	bool is_dir = S_ISDIR(e->found->is.mode);
	const char *slash = strrchr(e->path, '/'), *name = slash ? slash + 1 : e->path;

	if (w->doing->quiet) {
		if (is_dir)
			add_todo(w, e->path, true);
	} else if (!watch_names_find(&w->told, 'f', name)) {
		if (w->listed.len + strlen(name) + 3 < NAMES_MAX)
			watch_names_put(&w->listed, is_dir ? 'd' : 'f', name);
		else
			watch_report_new(w, name, is_dir);
	}
	return WALK_PAST;
}

/* Removing this watch causes an event, which comes after all earlier events. */
static void watch_on_mark(void *ctx, struct files_answer *a,
			  const struct warren_error *err)
{
	struct watch *w = ctx;

	if (!err && inotify_rm_watch(w->fd, (int)a->value) == 0)
		w->mark = (int)a->value;
	else
		todo_done(w);
}

static void watch_on_walked(void *ctx, int r UNUSED,
			    const struct warren_error *err UNUSED)
{
	struct watch *w = ctx;

	w->walk = NULL;
	if (w->listed.len == 0)
		todo_done(w);
	else
		files_add_watch(w->files, w->fd, MARK_AT, IN_ATTRIB | IN_MASK_CREATE,
				watch_on_mark, w);
}

/* The directory is no longer watched. */
static void forget_path(struct watch *w, size_t wd)
{
	drop_path(w, w->paths[wd]);
	free(w->paths[wd]);
	w->paths[wd] = NULL;
	w->count--;
	fair_quota_give(&service_files(w->service)->watched, w->tenant, 1);
}

static int set_path(struct watch *w, size_t wd, const char *path,
		    struct warren_error *err)
{
	AUTO_FREE char *copy = strdup(path);
	int r;

	if (!copy)
		return error_errno(err, ENOMEM, "watch '%s'", path);
	if (wd > (size_t)8 * WATCHES_MAX || w->count >= WATCHES_MAX)
		return error_set(err, ENOSPC, "more than %d directories to watch",
				 WATCHES_MAX);
	if (wd >= w->n_paths) {
		size_t n = (wd + 1) * 2;
		char **paths = reallocarray(w->paths, n, sizeof(*paths));

		if (!paths)
			return error_errno(err, ENOMEM, "watch '%s'", path);
		(void)memset(paths + w->n_paths, 0, (n - w->n_paths) * sizeof(*paths));
		w->paths = paths;
		w->n_paths = n;
	}
	r = w->paths[wd] ? 0
			 : watch_charge(w, &service_files(w->service)->watched,
					"watched directories", err);
	if (r < 0)
		return r;
	if (!hold_path(w, path)) {
		if (!w->paths[wd])
			fair_quota_give(&service_files(w->service)->watched, w->tenant,
					1);
		*err = w->full;
		return -err->code;
	}
	w->count += w->paths[wd] == NULL;
	drop_path(w, w->paths[wd]);
	free(w->paths[wd]);
	w->paths[wd] = TAKE_PTR(copy);
	return 0;
}

static void on_added(void *ctx, struct files_answer *a, const struct warren_error *err)
{
	static const struct walk_options options = { .depth = 1,
						     .nofollow = true,
						     .entry = watch_on_entry,
						     .end = watch_on_walked };
	struct watch *w = ctx;
	struct warren_error full = WARREN_ERROR_INIT;

	/* Directories below the path that are gone or cannot be read are skipped. */
	if (err && (!w->ready && w->count == 0)) {
		watch_failed(w, err);
		return;
	}
	if (!err && set_path(w, a->value, w->doing->path, &full) < 0) {
		watch_failed(w, &full);
		return;
	}
	if (err && err->code == ENOSPC) {
		watch_failed(w, err);
		return;
	}
	if (err || !w->o.recursive) {
		todo_done(w);
		return;
	}
	w->doing_wd = (int)a->value;
	walk_start(w->files, w->doing->path, &options, w, &w->walk);
}

static void next_todo(struct watch *w)
{
	struct todo *t = w->todo;
	uint32_t mask = MASK | (w->ready || w->count > 0 ? IN_ONLYDIR : 0);

	if (w->dead || w->doing)
		return;
	if (w->full.code) {
		watch_failed(w, &w->full);
		return;
	}
	if (!t) {
		if (!w->ready) {
			w->ready = true;
			w->o.event(w->o.ctx, WATCH_READY, NULL, NULL);
			watch_pause(w, false);
		}
		return;
	}
	w->todo = t->next;
	if (!w->todo)
		w->todo_tail = &w->todo;
	w->doing = t;
	files_add_watch(w->files, w->fd, t->path, mask, on_added, w);
}

/* ----------------------------------------------------------------------- events */

static bool is_below(const char *path, const char *dir, size_t n)
{
	return strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* A directory was moved to @to; NULL: it was moved out of the watched tree. */
static void move_paths(struct watch *w, const char *from, const char *to)
{
	size_t n = strlen(from);

	for (size_t i = 0; i < w->n_paths; i++) {
		char *path = NULL;

		if (!w->paths[i] || !is_below(w->paths[i], from, n))
			continue;
		if (to && asprintf(&path, "%s%s", to, w->paths[i] + n) < 0)
			path = NULL;
		if (!to)
			(void)inotify_rm_watch(w->fd, (int)i);
		if (!path) {
			forget_path(w, i);
			continue;
		}
		drop_path(w, w->paths[i]);
		free(w->paths[i]);
		w->paths[i] = path;
		(void)hold_path(w, path); /* if this fails, the watch ends soon */
	}
}

/* The file was moved out of the watched tree. */
static void flush_moved(struct watch *w)
{
	char *from = TAKE_PTR(w->moved);

	if (!from)
		return;
	if (w->moved_dir && w->o.recursive)
		move_paths(w, from, NULL);
	w->o.event(w->o.ctx, WATCH_REMOVED, from, NULL);
	free(from);
}

static void on_moved_to(struct watch *w, const struct inotify_event *ev, const char *path)
{
	char *from = w->moved && w->cookie == ev->cookie ? TAKE_PTR(w->moved) : NULL;

	flush_moved(w);
	w->o.event(w->o.ctx, WATCH_MOVED, path, from);
	if (ev->mask & IN_ISDIR && w->o.recursive) {
		if (from)
			move_paths(w, from, path);
		else
			add_todo(w, path, true);
	}
	free(from);
}

static void watch_on_event(struct watch *w, const struct inotify_event *ev)
{
	const char *dir =
		ev->wd >= 0 && (size_t)ev->wd < w->n_paths ? w->paths[ev->wd] : NULL;
	static const struct {
		uint32_t bit;
		enum watch_type type;
	} types[] = {
		{ IN_CREATE, WATCH_CREATED },
		{ IN_MODIFY, WATCH_MODIFIED },
		{ IN_ATTRIB, WATCH_ATTRIBUTES },
		{ IN_DELETE, WATCH_REMOVED },
	};
	char path[8192];

	if (ev->mask & IN_Q_OVERFLOW) {
		w->o.event(w->o.ctx, WATCH_OVERFLOW, NULL, NULL);
		if (w->doing && w->mark >= 0) /* the mark may be among what was lost */
			todo_done(w);
		return;
	}
	if (ev->wd == w->mark && ev->mask & IN_IGNORED && w->doing) {
		todo_done(w);
		return;
	}
	if (!dir)
		return;
	if (ev->wd == w->doing_wd && ev->len > 0)
		watch_tell_name(w, ev);
	if (ev->mask & IN_IGNORED) {
		forget_path(w, (size_t)ev->wd);
		return;
	}
	/* The event of the parent directory reports this, except for the path itself. */
	if (ev->mask & (IN_DELETE_SELF | IN_MOVE_SELF)) {
		if (strcmp(dir, w->root) == 0)
			w->o.event(w->o.ctx, WATCH_REMOVED, dir, NULL);
		return;
	}
	if (ev->len == 0 && ev->mask & IN_ISDIR && strcmp(dir, w->root) != 0)
		return; /* the event of the parent directory reports it */
	(void)snprintf(path, sizeof(path), "%s%s%s", dir,
		       ev->len > 0 && dir[1] ? "/" : "", ev->len > 0 ? ev->name : "");
	if (ev->mask & IN_MOVED_FROM) {
		flush_moved(w);
		w->moved = strdup(path);
		w->cookie = ev->cookie;
		w->moved_dir = ev->mask & IN_ISDIR;
		return;
	}
	if (ev->mask & IN_MOVED_TO) {
		on_moved_to(w, ev, path);
		return;
	}
	flush_moved(w);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (ev->mask & types[i].bit)
			w->o.event(w->o.ctx, types[i].type, path, NULL);
	if (ev->mask & IN_CREATE && ev->mask & IN_ISDIR && w->o.recursive)
		add_todo(w, path, false);
}

/* Return the size of the event at @data, which has @n bytes; 0: it is incomplete. */
static size_t event_size(const char *data, size_t n)
{
	const struct inotify_event *ev = (const void *)data;

	if (n < sizeof(*ev) || ev->len > n - sizeof(*ev) ||
	    ev->len % _Alignof(struct inotify_event) != 0 ||
	    (ev->len > 0 && !memchr(ev->name, '\0', ev->len)))
		return 0;
	return sizeof(*ev) + ev->len;
}

static void on_readable(void *ctx, unsigned events UNUSED)
{
	_Alignas(struct inotify_event) static char room[PROTO_EVENTS_MAX];
	struct watch *w = ctx;
	struct warren_error err = WARREN_ERROR_INIT;
	ssize_t n = w->events >= 0 ? recv(w->events, room, sizeof(room), MSG_DONTWAIT)
				   : read(w->fd, room, sizeof(room));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	for (size_t at = 0, size = 1; n > 0 && at < (size_t)n && !w->dead; at += size) {
		size = event_size(room + at, (size_t)n - at);
		if (size == 0) {
			n = -1;
			break;
		}
		watch_on_event(w, (const void *)(room + at));
	}
	if (n <= 0 && !w->dead) {
		(void)error_set(&err, EAGAIN,
				"the process that watches the sandbox's files has ended; "
				"watch again");
		watch_failed(w, &err);
		return;
	}
	/* Both events of a rename arrive together. */
	flush_moved(w);
	next_todo(w);
}

void watch_pause(struct watch *w, bool pause)
{
	if (w->reading)
		(void)loop_watch_set(w->reading,
				     pause || !w->ready || w->dead ? 0 : LOOP_READ);
}

int watch_hold(struct watch *w, uint64_t bytes, struct warren_error *err)
{
	/* Memory that was freed is given back. */
	if (bytes < w->user.n / 4)
		lease_end(w->service, LEASE_MEMORY, &w->user);
	return lease_memory(w->service, w->tenant, bytes, &w->user, err);
}

struct watch *watch_free(struct watch *w)
{
	if (!w)
		return NULL;
	w->walk = walk_free(w->walk);
	w->reading = loop_watch_free(w->reading);
	while (w->todo) {
		struct todo *t = w->todo;

		w->todo = t->next;
		free(t);
	}
	free(w->doing);
	buf_done(&w->listed);
	buf_done(&w->told);
	for (size_t i = 0; i < w->n_paths; i++)
		free(w->paths[i]);
	free(w->paths);
	if (w->count > 0)
		fair_quota_give(&service_files(w->service)->watched, w->tenant, w->count);
	if (w->charged)
		fair_quota_give(&service_files(w->service)->watches, w->tenant, 1);
	lease_end(w->service, LEASE_MEMORY, &w->memory);
	lease_end(w->service, LEASE_MEMORY, &w->user);
	free(w->tenant);
	free(w->moved);
	free(w->root);
	if (w->fd >= 0)
		(void)close(w->fd);
	if (w->events >= 0)
		(void)close(w->events);
	free(w);
	return NULL;
}

static int watch_begin(struct watch *w, struct warren_error *err)
{
	int r = loop_watch(files_loop(w->files), w->events >= 0 ? w->events : w->fd,
			   LOOP_READ, on_readable, w, &w->reading);

	if (r < 0)
		return error_errno(err, -r, "watch '%s'", w->root);
	watch_pause(w, true);
	add_todo(w, w->root, true);
	next_todo(w);
	return 0;
}

static void watch_on_notify(void *ctx, struct files_answer *a,
			    const struct warren_error *err)
{
	struct watch *w = ctx;
	struct warren_error why = WARREN_ERROR_INIT;

	if (err) {
		watch_failed(w, err);
		return;
	}
	w->fd = TAKE_FD(a->fd);
	w->events = TAKE_FD(a->events);
	if (w->fd < 0 || w->events < 0)
		(void)error_set(&why, EPROTO,
				"the sandbox's file worker violated the protocol");
	else if (watch_begin(w, &why) == 0)
		return;
	watch_failed(w, &why);
}

struct watch *watch_new(struct files *f, const struct watch_options *options,
			struct warren_error *err)
{
	struct watch *w = calloc(1, sizeof(*w));

	if (!w) {
		(void)error_errno(err, ENOMEM, "watch '%s'", options->path);
		return NULL;
	}
	w->files = f;
	files_last(f);
	w->service = sandbox_service(files_sandbox(f));
	w->o = *options;
	w->todo_tail = &w->todo;
	w->fd = w->events = w->doing_wd = w->mark = -1;
	w->listed = (struct buf)BUF_INIT(NAMES_MAX);
	w->told = (struct buf)BUF_INIT(NAMES_MAX);
	w->root = strdup(options->path);
	w->tenant = strdup(sandbox_row(files_sandbox(f))->owner);
	if (!w->root || !w->tenant) {
		(void)error_errno(err, ENOMEM, "watch '%s'", options->path);
		return watch_free(w);
	}
	if (watch_charge(w, &service_files(w->service)->watches, "watches", err) < 0)
		return watch_free(w);
	w->charged = true;
	if (files_have_workers(f)) {
		files_notify(f, watch_on_notify, w);
		return w;
	}
	w->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (w->fd < 0) {
		(void)error_errno(err, errno, "watch '%s'", options->path);
		return watch_free(w);
	}
	return watch_begin(w, err) < 0 ? watch_free(w) : w;
}
