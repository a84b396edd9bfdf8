/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search.c - walk a tree and match names and contents
 *
 * A file is read in pieces, and its lines are matched one by one, for a millisecond at a
 * time. Other work has its turn in between, no matter how large the file or how expensive
 * the pattern is.
 */
#include "service/files/search.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "net/loop.h"

#define BINARY_LOOK 8192U
#define PIECE       65536U
#define SLICE_NS    1000000
#define COSTLY      200000U /* in steps of a pattern, which take a few nanoseconds each */

struct search {
	struct files *files;
	struct net_loop *loop;
	struct search_options o;
	struct walk *walk;
	struct loop_timer *deadline;
	struct loop_task turn;
	char *path;      /* path where the search began */
	char *file_path; /* path of the file that is being read */
	size_t skip;
	int fd;
	uint64_t offset, line,
		in_line; /* in_line: bytes of the line before the current part */
	bool line_matched;
	char room[PIECE];
	size_t have, at;
	bool eof, alone, truncated, timed_out, over;
	uint64_t matches;
	/* A line that is matched on another thread, because it is expensive. */
	struct {
		bool busy, gone; /* gone: no client waits for the result */
		bool ends, found;
		size_t n, where;
	} far;
};

struct search *search_free(struct search *s)
{
	if (!s)
		return NULL;
	s->walk = walk_free(s->walk);
	loop_task_cancel(&s->turn);
	if (s->far.busy) {
		s->deadline = loop_timer_free(s->deadline);
		s->far.gone = true; /* on_tried() frees it */
		return NULL;
	}
	s->deadline = loop_timer_free(s->deadline);
	s->o.name = pattern_free(s->o.name);
	s->o.content = pattern_free(s->o.content);
	if (s->fd >= 0)
		loop_close(s->loop, s->fd);
	free(s->path);
	free(s->file_path);
	free(s);
	return NULL;
}

static void search_finish(struct search *s, const struct warren_error *err)
{
	if (s->over)
		return;
	s->over = true;
	loop_task_cancel(&s->turn);
	loop_timer_stop(s->deadline);
	s->o.end(s->o.ctx, s->truncated, s->timed_out, err);
}

/* Return false if there are enough matches. */
static bool search_found(struct search *s, const struct search_match *m)
{
	if (s->matches >= s->o.max_matches) {
		s->truncated = true;
		return false;
	}
	s->matches++;
	s->o.match(s->o.ctx, m);
	return true;
}

/* ----------------------------------------------------------------- contents of a file */

static void file_over(struct search *s)
{
	if (s->fd >= 0)
		loop_close(s->loop, TAKE_FD(s->fd));
	if (s->alone || s->truncated)
		search_finish(s, NULL);
	else
		walk_go_on(s->walk, WALK_PAST);
}

/*
 * A line was matched, or a part of a line that is too long. Return false if there are
 * enough matches.
 */
static bool pass_line(struct search *s, size_t n, bool ends, bool matched, size_t where)
{
	struct search_match m = { .path = s->file_path,
				  .mode = S_IFREG,
				  .line = s->line,
				  .text = s->room + s->at,
				  .size = n,
				  .column = s->in_line + where + 1 };
	bool more = true;

	if (matched) {
		s->line_matched = true;
		more = search_found(s, &m);
	}
	s->in_line += n;
	if (ends) {
		s->line++;
		s->in_line = 0;
		s->line_matched = false;
	}
	s->at += n + (ends ? 1 : 0);
	return more;
}

/* Runs on another thread, which is the only one that uses the buffer and the pattern at
 * this time. */
static void try_far(void *ctx)
{
	struct search *s = ctx;
	size_t end;

	s->far.found = pattern_find(s->o.content, s->room + s->at, s->far.n,
				    &s->far.where, &end);
}

static void on_tried(void *ctx)
{
	struct search *s = ctx;

	s->far.busy = false;
	if (s->far.gone) {
		(void)search_free(s);
		return;
	}
	if (s->over)
		return;
	if (pass_line(s, s->far.n, s->far.ends, s->far.found, s->far.where))
		loop_later(s->loop, &s->turn);
	else
		file_over(s);
}

/*
 * Return 2 if the line is matched on another thread, 1 if more data is needed, 0 if a
 * line was matched, or -1 at the end.
 */
static int search_next_line(struct search *s)
{
	const char *line = s->room + s->at;
	size_t left = s->have - s->at;
	size_t n = left < SEARCH_LINE_MAX ? left : SEARCH_LINE_MAX;
	const char *end = memchr(line, '\n', n);
	size_t where = 0, to;
	bool matched;

	if (!end && n < SEARCH_LINE_MAX && !s->eof)
		return 1;
	if (n == 0)
		return -1;
	if (end)
		n = (size_t)(end - line);
	if (!s->line_matched && n * pattern_cost(s->o.content) > COSTLY) {
		s->far.n = n;
		s->far.ends = end != NULL;
		s->far.where = 0;
		s->far.busy = loop_work(s->loop, files_tenant(s->files), try_far,
					on_tried, s) == 0;
		if (s->far.busy)
			return 2;
	}
	matched = !s->line_matched && pattern_find(s->o.content, line, n, &where, &to);
	return pass_line(s, n, end != NULL, matched, where) ? 0 : -1;
}

static int search_read_more(struct search *s)
{
	ssize_t n;

	(void)memmove(s->room, s->room + s->at, s->have - s->at);
	s->have -= s->at;
	s->at = 0;
	n = pread(s->fd, s->room + s->have, sizeof(s->room) - s->have, (off_t)s->offset);
	if (n < 0)
		return -errno;
	if (s->offset == 0 &&
	    memchr(s->room, '\0', (size_t)n < BINARY_LOOK ? (size_t)n : BINARY_LOOK))
		return -EILSEQ;
	s->offset += (uint64_t)n;
	s->have += (size_t)n;
	/* Ignore data that is appended during the search. */
	s->eof = n == 0 || s->offset > s->o.max_file_size;
	return 0;
}

static void search_read_on(struct search *s)
{
	uint64_t until = clock_now() + SLICE_NS;

	for (;;) {
		int r = search_next_line(s);

		if (r == 2)
			return;
		if (r < 0 || (r == 1 && search_read_more(s) < 0)) {
			file_over(s);
			return;
		}
		if (r == 0 && clock_now() > until) {
			loop_later(s->loop, &s->turn);
			return;
		}
	}
}

static void search_on_turn(void *ctx)
{
	struct search *s = ctx;

	if (!s->over)
		search_read_on(s);
}

/*
 * Is this error harmless? Files that cannot be read or are gone are skipped, as by
 * grep(1). But if memory or a tool is missing, matches could be missed.
 */
static bool may_pass(int code)
{
	static const int codes[] = { EACCES, EPERM, ENOENT, ENOTDIR,
				     EISDIR, ELOOP, ENXIO,  EIO };

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (codes[i] == code)
			return true;
	return false;
}

static void search_on_open(void *ctx, struct files_answer *a,
			   const struct warren_error *err)
{
	struct search *s = ctx;
	struct stat st;

	if (err) {
		if (s->alone || !may_pass(err->code))
			search_finish(s, err);
		else
			file_over(s);
		return;
	}
	s->fd = TAKE_FD(a->fd);
	if (fstat(s->fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    (uint64_t)st.st_size > s->o.max_file_size) {
		file_over(s);
		return;
	}
	s->offset = s->in_line = 0;
	s->line = 1;
	s->have = s->at = 0;
	s->eof = s->line_matched = false;
	loop_later(s->loop, &s->turn);
}

/* ----------------------------------------------------------------- walk over the tree */

static bool search_fits(struct search *s, const char *path, const char *name,
			uint32_t mode)
{
	const char *subject = s->o.whole_path ? path + s->skip : name;
	size_t from, to;

	if (s->o.type && (mode & S_IFMT) != s->o.type)
		return false;
	return !s->o.name ||
	       pattern_find(s->o.name, subject, strlen(subject), &from, &to);
}

static enum walk_say search_on_entry(void *ctx, const struct walk_entry *e)
{
	struct search *s = ctx;
	uint32_t mode = e->found->is.mode;
	struct search_match m = { .path = e->path, .mode = mode };

	if (s->over)
		return WALK_STOP;
	if (!s->o.hidden && e->name[0] == '.')
		return WALK_PAST;
	if (!search_fits(s, e->path, e->name, mode))
		return WALK_ON;
	if (!s->o.content)
		return search_found(s, &m) ? WALK_ON : WALK_STOP;
	if (!S_ISREG(mode) || e->found->is.size > s->o.max_file_size)
		return WALK_ON;
	free(s->file_path);
	s->file_path = strdup(e->path);
	if (!s->file_path)
		return WALK_STOP;
	files_open(s->files, e->dir, e->name, O_RDONLY | O_NOFOLLOW, 0, search_on_open,
		   s);
	return WALK_WAIT;
}

static void search_on_stat(void *ctx, struct files_answer *a,
			   const struct warren_error *err)
{
	struct search *s = ctx;
	const char *name = strrchr(s->path, '/') + 1;
	struct search_match m = { .path = s->path };
	struct proto_found is;
	size_t at = 0;

	if (err || proto_next(a->entries, a->size, &at, &is) != 1) {
		search_finish(s, err);
		return;
	}
	m.mode = is.is.mode;
	s->skip = (size_t)(name - s->path);
	if (!search_fits(s, s->path, name, is.is.mode)) {
		search_finish(s, NULL);
	} else if (!s->o.content) {
		(void)search_found(s, &m);
		search_finish(s, NULL);
	} else {
		s->file_path = strdup(s->path);
		files_open(s->files, -1, s->path, O_RDONLY, 0, search_on_open, s);
	}
}

static void search_on_walked(void *ctx, int r, const struct warren_error *err)
{
	struct search *s = ctx;

	s->walk = NULL;
	if (s->over)
		return;
	if (r == -ENOTDIR) {
		s->alone = true; /* one file */
		files_stat(s->files, -1, s->path, true, search_on_stat, s);
	} else {
		search_finish(s, r < 0 ? err : NULL);
	}
}

static void on_deadline(void *ctx)
{
	struct search *s = ctx;

	s->timed_out = true;
	s->walk = walk_free(s->walk);
	search_finish(s, NULL);
}

void search_start(struct files *f, const struct search_options *options,
		  struct search **ret)
{
	struct search *s = malloc(sizeof(*s));
	struct walk_options walk = { .depth = options->depth,
				     .entry = search_on_entry,
				     .end = search_on_walked };
	struct warren_error err = WARREN_ERROR_INIT;

	*ret = NULL;
	if (s) {
		(void)memset(s, 0, sizeof(*s));
		s->files = f;
		s->o = *options;
		s->fd = -1;
		s->loop = files_loop(f);
		s->turn = (struct loop_task){ .fn = search_on_turn, .ctx = s };
		s->path = strdup(options->path);
	}
	if (!s || !s->path ||
	    loop_timer_new(files_loop(f), on_deadline, s, &s->deadline) < 0) {
		if (s)
			s->o.name = s->o.content = NULL;
		(void)search_free(s);
		(void)pattern_free(options->name);
		(void)pattern_free(options->content);
		(void)error_errno(&err, ENOMEM, "search");
		options->end(options->ctx, false, false, &err);
		return;
	}
	s->skip = s->path[1] ? strlen(s->path) + 1 : 1;
	*ret = s;
	loop_timer_set(s->deadline, options->timeout_ms);
	walk_start(f, s->path, &walk, s, &s->walk);
}
