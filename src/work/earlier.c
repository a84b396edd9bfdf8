/* SPDX-License-Identifier: Apache-2.0 */
/*
 * earlier.c - files that a sandbox changed before its work was resumed
 *
 * Lines are "<time>,<commit> <path>"; a path with "/" at its end stands for all that is
 * in the directory, which the sandbox has created, replaced or removed.
 */
#include "work/earlier.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "work/changes_internal.h"
#include "work/files_internal.h"
#include "work/reach.h"
#include "work/record.h"

#define EARLIER_SIZE_MAX ((size_t)512 << 20)

struct earlier_file {
	const char *path, *head;
	uint64_t since_ns;
};

struct work_earlier {
	char *text; /* the strings are in it */
	struct earlier_file *v;
	size_t n;
	bool trees; /* some of the paths end with "/" */
};

void earlier_free(struct work_earlier *e)
{
	if (!e)
		return;
	free(e->text);
	free(e->v);
	free(e);
}

static int earlier_compare(const void *a, const void *b)
{
	return strcmp(((const struct earlier_file *)a)->path,
		      ((const struct earlier_file *)b)->path);
}

/* ------------------------------------------------------------------------ read */

static int earlier_add(struct work_earlier *e, size_t *cap, char *key, const char *path)
{
	struct earlier_file f = { .path = path };
	const char *time = strsep(&key, ",");
	struct warren_error ignored;

	f.head = key;
	if (!key || !path[0] || parse_u64(time, UINT64_MAX, &f.since_ns, &ignored) < 0)
		return -EBADMSG;
	if (e->n == *cap) {
		struct earlier_file *more;

		*cap = *cap ? *cap * 2 : 64;
		more = reallocarray(e->v, *cap, sizeof(*more));
		if (!more)
			return -ENOMEM;
		e->v = more;
	}
	e->v[e->n++] = f;
	e->trees |= path[strlen(path) - 1] == '/';
	return 0;
}

/*
 * Without the list, changes of the user would look as if the sandbox had seen them; so a
 * damaged one means that it has seen nothing since the start.
 */
static struct work_earlier *earlier_load(struct work *w)
{
	struct work_earlier *e = w->earlier;
	char *at, *key, *path;
	size_t n, cap = 0;
	int r;

	if (e)
		return e;
	e = w->earlier = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	r = work_file_read_at(w->dir_fd, "earlier", EARLIER_SIZE_MAX, &e->text, &n);
	if (r == -ENOENT)
		return e;
	at = e->text;
	while (r == 0 && (r = record_next(&at, e->text + n, &key, &path)) > 0)
		r = earlier_add(e, &cap, key, path);
	if (e->n > 0)
		qsort(e->v, e->n, sizeof(*e->v), earlier_compare);
	if (r < 0) {
		earlier_free(e);
		w->earlier = NULL;
	}
	return w->earlier;
}

static const struct earlier_file *earlier_get(const struct work_earlier *e,
					      const char *path)
{
	const struct earlier_file key = { .path = path };

	return e->n == 0 ? NULL
			 : bsearch(&key, e->v, e->n, sizeof(*e->v), earlier_compare);
}

static const struct earlier_file *earlier_find(const struct work_earlier *e,
					       const char *path)
{
	const struct earlier_file *f = earlier_get(e, path);
	char above[PATH_MAX];
	size_t n = strlen(path);

	if (f || !e->trees || n >= sizeof(above))
		return f;
	(void)memcpy(above, path, n + 1);
	for (size_t i = n; !f && i-- > 0;)
		if (above[i] == '/') {
			above[i + 1] = '\0';
			f = earlier_get(e, above);
		}
	return f ? f : earlier_get(e, "/");
}

uint64_t earlier_since(struct work *w, const char *path)
{
	const struct work_earlier *e = earlier_load(w);
	const struct earlier_file *f = e ? earlier_find(e, path) : NULL;

	return !e ? w->started_ns : f ? f->since_ns : w->since_ns;
}

const char *earlier_head(struct work *w, const char *path)
{
	const struct work_earlier *e = earlier_load(w);
	const struct earlier_file *f = e ? earlier_find(e, path) : NULL;

	return !e ? w->head : !f ? w->since_head : f->head[0] ? f->head : NULL;
}

bool earlier_has(struct work *w, const char *path)
{
	const struct work_earlier *e = earlier_load(w);

	return !e || earlier_find(e, path);
}

/* ----------------------------------------------------------------------- renew */

/* A walk through what the sandbox has. */
struct earlier_walk {
	struct work *w;
	struct buf out;
	char path[PATH_MAX];
	size_t length;
	unsigned depth;
};

static void earlier_put(struct earlier_walk *k, bool tree)
{
	const char *head = earlier_head(k->w, k->path);
	AUTO_FREE char *key = NULL, *path = NULL;

	if (asprintf(&key, "%llu,%s", (unsigned long long)earlier_since(k->w, k->path),
		     head ? head : "") < 0 ||
	    asprintf(&path, "%s%s", k->path, tree ? "/" : "") < 0)
		k->out.failed = true;
	else
		record_line(&k->out, key, path);
}

/* Is the sandbox's file the same as the user's? Then both go on with it. */
static bool earlier_is_same(const struct earlier_walk *k, int upper, int lower,
			    const char *name, const struct stat *st)
{
	struct change_at theirs = { .dir = upper, .name = name, .st = *st },
			 yours = { .dir = lower, .name = name };

	if (fstatat(lower, name, &yours.st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	reach_mode(k->w, upper, name, &theirs.st);
	return theirs.st.st_mode == yours.st.st_mode && change_same(&theirs, &yours) == 1;
}

static int earlier_dir(struct earlier_walk *k, int upper, int lower);

/* NOLINTNEXTLINE(misc-no-recursion): as deep as CHANGES_DEPTH_MAX */
static int earlier_entry(struct earlier_walk *k, int upper, int lower, const char *name)
{
	AUTO_CLOSE int below = -1, old = -1;
	struct stat st;
	int r;

	if (fstatat(upper, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode) && earlier_is_same(k, upper, lower, name, &st))
		return 0;
	if (S_ISDIR(st.st_mode)) {
		below = beneath_dir(upper, name, O_RDONLY);
		old = beneath_dir(lower, name, O_RDONLY);
	}
	earlier_put(k, false);
	/* It may hide a directory. */
	if (stat_is_whiteout(&st))
		earlier_put(k, true);
	if (!S_ISDIR(st.st_mode))
		return 0;
	/* All that it has is the sandbox's; or it cannot be known what is not. */
	if (below < 0 || old < 0 || dir_is_opaque(below) ||
	    k->depth >= CHANGES_DEPTH_MAX) {
		earlier_put(k, true);
		return 0;
	}
	k->depth++;
	r = earlier_dir(k, below, old);
	k->depth--;
	return r;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as CHANGES_DEPTH_MAX */
static int earlier_dir(struct earlier_walk *k, int upper, int lower)
{
	AUTO_FREE struct dir_reader *reader = calloc(1, sizeof(*reader));
	const size_t length = k->length, slash = length > 0;
	const struct dir_entry *e;
	int r;

	if (!reader)
		return -ENOMEM;
	reader->fd = upper;
	while ((r = dir_next(reader, &e)) > 0) {
		const size_t n = strlen(e->name);

		if (length + slash + n >= sizeof(k->path))
			return -ENAMETOOLONG;
		if (slash)
			k->path[length] = '/';
		(void)memcpy(k->path + length + slash, e->name, n + 1);
		k->length = length + slash + n;
		r = earlier_entry(k, upper, lower, e->name);
		k->length = length;
		k->path[length] = '\0';
		if (r < 0)
			return r;
	}
	return r;
}

int earlier_renew(struct work *w, uint64_t *ret_ns)
{
	AUTO_FREE struct earlier_walk *k = calloc(1, sizeof(*k));
	AUTO_CLOSE int upper = changes_upper(w), lower = changes_lower(w);
	struct stat st;
	int r = upper < 0 ? upper : lower < 0 ? lower : k ? 0 : -ENOMEM;

	if (r < 0)
		return r;
	k->w = w;
	k->out = (struct buf)BUF_INIT(EARLIER_SIZE_MAX);
	if (dir_is_opaque(upper))
		earlier_put(k, true);
	else
		r = earlier_dir(k, upper, lower);
	if (r == 0 && k->out.failed)
		r = -ENOMEM;
	/* Files get their times from the same clock as this one. */
	r = r < 0 ? r
		  : work_file_replace(w->dir_fd, "earlier", k->out.len ? k->out.data : "",
				      k->out.len, true);
	buf_done(&k->out);
	if (r < 0)
		return r;
	if (fstatat(w->dir_fd, "earlier", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	earlier_free(w->earlier);
	w->earlier = NULL;
	*ret_ns = stat_ctime_ns(&st);
	return 0;
}
