/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.c - walk a tree in a sandbox, depth first, without following links
 *
 * A directory is opened by its name relative to its open parent. So the walk stays in
 * directories of the sandbox, even if files are renamed or replaced in the meantime. The
 * entries of a directory arrive in parts; the walk handles a part and enters its
 * directories before it requests the next part. If the entries must be sorted, the walk
 * first reads the whole directory, and keeps at most the requested number of entries. The
 * memory of large directories counts for the tenant.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "net/loop.h"
#include "service/files/internal.h"

/* Number of steps before other work has its turn; an entry takes several steps. */
#define AT_ONCE      64
#define LEVEL_MAX    (64U << 20)
#define SORT_AT_ONCE (128U << 10) /* bytes that can be sorted in a millisecond */

struct level {
	int fd;
	size_t path_len; /* length of the directory's path */
	struct buf data; /* entries, as init sent them */
	uint32_t *order; /* position of each entry in data */
	size_t n, i;
	bool ended; /* all entries have arrived */
	enum {
		FRESH,  /* the entry at i has not been reported */
		TOLD,   /* the entry was reported; now it is entered or skipped */
		INSIDE, /* the next level has the contents of the entry */
		LEFT,   /* the end of the entry was reported too */
	} phase;
};

/*
 * A large directory that is sorted on another thread: 100,000 names take a tenth of a
 * second.
 */
struct sorting {
	struct walk *walk; /* NULL: gone */
	struct level level;
	unsigned sorted;
	bool whole;
	struct warren_error err;
	int result;
};

struct walk {
	struct files *files;
	struct sorting *sorting; /* the last level is being sorted; NULL: it is not */
	struct walk_options o;
	void *ctx;
	struct level *levels; /* there are at most WALK_DEPTH_MAX */
	size_t n, cap;
	char path[4096 + WALK_DEPTH_MAX * 256];
	enum {
		WALKING,
		ASKED, /* init */
		WAITS  /* for walk_go_on() */
	} state;
	enum walk_say said;
	bool stepping, stop;
	struct fair_quota_lease memory; /* memory of all levels */
	struct warren_error err;
	struct loop_task turn;
};

int walk_root(const struct walk *w)
{
	return w->n > 0 ? w->levels[0].fd : -1;
}

static void level_done(struct level *l)
{
	if (l->fd >= 0)
		(void)close(l->fd);
	buf_done(&l->data);
	free(l->order);
}

struct walk *walk_free(struct walk *w)
{
	if (!w)
		return NULL;
	if (w->sorting)
		w->sorting->walk = NULL;
	while (w->n > 0)
		level_done(&w->levels[--w->n]);
	loop_task_cancel(&w->turn);
	lease_end(files_service(w->files), LEASE_MEMORY, &w->memory);
	free(w->levels);
	free(w);
	return NULL;
}

/* Count the memory of all levels for the tenant. */
static int walk_count(struct walk *w)
{
	const char *tenant = files_tenant(w->files); /* NULL: the sandbox is gone */
	uint64_t bytes = 0;

	for (size_t i = 0; i < w->n; i++)
		bytes += w->levels[i].data.len + w->levels[i].n * sizeof(uint32_t);
	return tenant ? lease_memory(files_service(w->files), tenant, bytes, &w->memory,
				     &w->err)
		      : 0;
}

static int walk_push(struct walk *w, int fd)
{
	if (w->n == w->cap) {
		size_t cap = w->cap ? w->cap * 2 : 8;
		struct level *levels = reallocarray(w->levels, cap, sizeof(*levels));

		if (!levels) {
			(void)close(fd);
			return error_errno(&w->err, ENOMEM, "walk through '%s'", w->path);
		}
		w->levels = levels;
		w->cap = cap;
	}
	if (files_need(w->files, w->n + 1, &w->err) < 0) {
		(void)close(fd);
		return -w->err.code;
	}
	w->levels[w->n++] = (struct level){ .fd = fd,
					    .path_len = strlen(w->path),
					    .data = BUF_INIT(LEVEL_MAX) };
	return 0;
}

/*
 * Find the position of each entry of @l. All entries are checked here, so that no later
 * step can fail.
 */
static int index_entries(struct level *l, struct warren_error *err)
{
	struct proto_found found;
	size_t n = 0;

	free(l->order);
	l->order = NULL;
	l->n = l->i = 0;
	for (size_t at = 0; at < l->data.len; n++)
		if (proto_next(l->data.data, l->data.len, &at, &found) != 1 ||
		    found.name[0] == '\0')
			return error_set(err, EPROTO,
					 "the sandbox's init violated the protocol");
	l->order = n > 0 ? malloc(n * sizeof(*l->order)) : NULL;
	if (n > 0 && !l->order)
		return error_errno(err, ENOMEM, "list a directory");
	for (size_t at = 0; l->n < n;) {
		l->order[l->n++] = (uint32_t)at;
		(void)proto_next(l->data.data, l->data.len, &at, &found);
	}
	return 0;
}

static int walk_by_name(const void *a, const void *b, void *data)
{
	const char *base = data;

	return strcmp(base + *(const uint32_t *)a + sizeof(struct proto_entry),
		      base + *(const uint32_t *)b + sizeof(struct proto_entry));
}

/* Sort the entries, and keep only the first @sorted ones. */
static int sort_level(struct level *l, unsigned sorted, bool whole,
		      struct warren_error *err)
{
	struct buf kept = BUF_INIT(LEVEL_MAX);
	int r = index_entries(l, err);

	if (r < 0 || l->n == 0)
		return r;
	if (whole && (l->n > sorted || !l->ended))
		return error_set(err, E2BIG,
				 "the directory has more than %u entries, or very long "
				 "names",
				 sorted);
	qsort_r(l->order, l->n, sizeof(*l->order), walk_by_name, l->data.data);
	if (l->n <= sorted)
		return 0;
	for (size_t i = 0; i < sorted; i++) {
		struct proto_found found;
		size_t at = l->order[i], from = at;

		(void)proto_next(l->data.data, l->data.len, &at, &found);
		buf_add(&kept, l->data.data + from, at - from);
	}
	if (kept.failed) {
		buf_done(&kept);
		return error_errno(err, ENOMEM, "list a directory");
	}
	buf_done(&l->data);
	l->data = kept;
	return index_entries(l, err); /* index the entries in their new order */
}

static void walk_step(struct walk *w);

static void files_walk_go_on(struct walk *w)
{
	w->state = WALKING;
	if (!w->stepping)
		walk_step(w);
}

static void walk_fail(struct walk *w, const struct warren_error *err)
{
	if (err != &w->err)
		w->err = *err;
	w->stop = true;
}

static void sorting_work(void *ctx)
{
	struct sorting *s = ctx;

	s->result = sort_level(&s->level, s->sorted, s->whole, &s->err);
}

static void sorting_done(void *ctx)
{
	struct sorting *s = ctx;
	struct walk *w = s->walk;

	if (w) {
		struct level *l = &w->levels[w->n - 1];

		w->sorting = NULL;
		l->data = s->level.data;
		l->order = s->level.order;
		l->n = s->level.n;
		l->i = 0;
		if (s->result < 0)
			walk_fail(w, &s->err);
		files_walk_go_on(w);
	} else {
		s->level.fd = -1;
		level_done(&s->level);
	}
	free(s);
}

/* Return 1 if another thread sorts the level; 0 or -errno if it is done. */
static int sort_soon(struct walk *w, struct level *l)
{
	struct sorting *s = l->data.len > SORT_AT_ONCE ? calloc(1, sizeof(*s)) : NULL;

	if (!s)
		return sort_level(l, w->o.sorted, w->o.whole, &w->err);
	s->walk = w;
	s->sorted = w->o.sorted;
	s->whole = w->o.whole;
	s->level.ended = l->ended;
	s->level.data = l->data;
	s->level.order = l->order;
	if (loop_work(files_loop(w->files), files_tenant(w->files), sorting_work,
		      sorting_done, s) < 0) {
		free(s);
		return sort_level(l, w->o.sorted, w->o.whole, &w->err);
	}
	l->data = (struct buf)BUF_INIT(LEVEL_MAX);
	l->order = NULL;
	l->n = l->i = 0;
	w->sorting = s;
	return 1;
}

/* Load the next part of @l. Return 1 if the walk continues after sorting. */
static int walk_load(struct walk *w, struct level *l, const struct files_answer *a)
{
	size_t most = (size_t)w->o.sorted * 128 + (4U << 20);

	l->ended = a->size == 0;
	if (!w->o.sorted) {
		buf_done(&l->data);
		l->data = (struct buf)BUF_INIT(LEVEL_MAX);
	}
	buf_add(&l->data, a->entries, a->size);
	if (l->data.failed)
		return error_errno(&w->err, ENOMEM, "walk through '%s'", w->path);
	if (!w->o.sorted)
		return index_entries(l, &w->err);
	if (walk_count(w) < 0)
		return -w->err.code;
	return l->ended || l->data.len > most ? sort_soon(w, l) : 0;
}

static void on_scanned(void *ctx, struct files_answer *a, const struct warren_error *err)
{
	struct walk *w = ctx;
	struct level *l = &w->levels[w->n - 1];
	bool was = w->stepping;
	int r = err ? -err->code : walk_load(w, l, a);

	if (r > 0)
		return;
	if (r < 0) {
		walk_fail(w, err ? err : &w->err);
	} else if (w->o.batch && l->n > 0) {
		enum walk_say say;

		w->path[l->path_len] = '\0';
		w->state = WAITS;
		w->stepping = true;
		say = w->o.batch(w->ctx, l->fd, w->path, l->data.data, l->data.len);
		w->stepping = was;
		w->stop |= say == WALK_STOP;
		if (say == WALK_WAIT && w->state == WAITS)
			return;
	}
	files_walk_go_on(w);
}

static void walk_on_opened(void *ctx, struct files_answer *a,
			   const struct warren_error *err)
{
	struct walk *w = ctx;
	bool gone = err &&
		    (err->code == ENOENT || err->code == ENOTDIR || err->code == ELOOP);

	if (!err) {
		if (walk_push(w, TAKE_FD(a->fd)) < 0)
			walk_fail(w, &w->err);
	} else if (w->n == 0 || (w->o.strict && !gone) || err->code == ESTALE) {
		walk_fail(w, err);
	} else {
		if (w->o.unread && !gone)
			w->o.unread(w->ctx);
		w->levels[w->n - 1].phase = LEFT;
		w->said = WALK_ON;
	}
	files_walk_go_on(w);
}

/* Report the current entry of @l to one of the callbacks. */
static void walk_tell(struct walk *w, struct level *l, const struct proto_found *found,
		      enum walk_say (*fn)(void *ctx, const struct walk_entry *e))
{
	size_t len = l->path_len;
	struct walk_entry e = { .dir = l->fd,
				.path = w->path,
				.name = found->name,
				.found = found,
				.depth = (unsigned)w->n };
	enum walk_say say;

	if (len > 1)
		w->path[len++] = '/';
	(void)memcpy(w->path + len, found->name, found->is.name_size + 1U);
	w->state = WAITS;
	say = fn ? fn(w->ctx, &e) : WALK_ON;
	if (say == WALK_WAIT)
		return;
	w->said = say;
	w->state = WALKING;
}

/* Enter or skip the entry, as the callback decided. */
static void walk_decide(struct walk *w, struct level *l, const struct proto_found *found)
{
	unsigned depth = w->o.depth ? w->o.depth : WALK_DEPTH_MAX;
	bool enter = w->said == WALK_ON && S_ISDIR(found->is.mode);

	l->phase = LEFT;
	if (enter && w->n < depth) {
		l->phase = INSIDE;
		w->state = ASKED;
		files_open(w->files, l->fd, found->name,
			   O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, walk_on_opened, w);
	} else if (enter && w->o.strict && !w->o.depth) {
		(void)error_set(&w->err, E2BIG, "'%.100s...' is nested too deeply",
				w->path);
		w->stop = true;
	}
}

static void entry_step(struct walk *w, struct level *l)
{
	struct proto_found found;
	size_t at = l->order[l->i];

	(void)proto_next(l->data.data, l->data.len, &at, &found);
	switch (l->phase) {
	case FRESH:
		l->phase = TOLD;
		walk_tell(w, l, &found, w->o.entry);
		break;
	case TOLD:
		walk_decide(w, l, &found);
		break;
	case INSIDE:
		l->phase = LEFT;
		walk_tell(w, l, &found, w->o.leave);
		break;
	case LEFT:
		l->phase = FRESH;
		l->i++;
		break;
	}
	w->stop |= w->said == WALK_STOP;
}

/* Do one step. Return 1 if the walk has ended. */
static int walk_advance(struct walk *w)
{
	struct level *l = w->n > 0 ? &w->levels[w->n - 1] : NULL;

	if (w->stop || !l)
		return 1;
	if (l->i < l->n && (!w->o.sorted || l->ended)) {
		entry_step(w, l);
	} else if (!l->ended) {
		w->state = ASKED;
		files_scan(w->files, l->fd, w->o.marks, on_scanned, w);
	} else {
		level_done(l);
		w->n--;
	}
	return 0;
}

static void walk_step(struct walk *w)
{
	int over = 0;

	w->stepping = true;
	for (int i = 0; i < AT_ONCE && w->state == WALKING && !over; i++)
		over = walk_advance(w);
	w->stepping = false;
	if (over) {
		void (*end)(void *, int, const struct warren_error *) = w->o.end;
		struct warren_error err = w->err;
		void *ctx = w->ctx;

		(void)walk_free(w);
		end(ctx, err.code ? -err.code : 0, &err);
	} else if (w->state == WALKING) {
		w->state = ASKED;
		loop_later(files_loop(w->files), &w->turn);
	}
}

static void walk_on_turn(void *ctx)
{
	files_walk_go_on(ctx);
}

void walk_go_on(struct walk *w, enum walk_say say)
{
	w->said = say;
	files_walk_go_on(w);
}

void walk_start(struct files *f, const char *path, const struct walk_options *options,
		void *ctx, struct walk **ret)
{
	struct walk *w = calloc(1, sizeof(*w));
	struct warren_error err = WARREN_ERROR_INIT;

	*ret = NULL;
	if (!w || strlen(path) >= 4096) {
		free(w);
		(void)error_errno(&err, ENOMEM, "walk through '%s'", path);
		options->end(ctx, -ENOMEM, &err);
		return;
	}
	w->files = f;
	w->o = *options;
	w->ctx = ctx;
	w->turn = (struct loop_task){ .fn = walk_on_turn, .ctx = w };
	(void)strcpy(w->path, path);
	w->state = ASKED;
	*ret = w;
	files_open(f, -1, path,
		   O_RDONLY | O_DIRECTORY | (options->nofollow ? O_NOFOLLOW : 0), 0,
		   walk_on_opened, w);
}
