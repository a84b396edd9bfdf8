/* SPDX-License-Identifier: Apache-2.0 */
/*
 * known.c - which files of the project the user has changed since the work started
 *
 * A file with a ctime before the start (or before a resume: earlier.h) has not changed,
 * if the clocks of both filesystems are the same: the clock of a remote one may be late.
 * Files that an accept wrote are newer; so their inode, ctime and size are kept in
 * <work>/known. The sandbox cannot set a ctime. If the user moves a directory, the files
 * in it keep theirs, so the directories are compared, too (moved.h). If an accept
 * replaces or removes one name of a file, the ctime that its other names have changes as
 * well; so that is kept for the inode, as "/<inode>".
 *
 * The user may have touched a file, or written the same contents again, as git does that
 * changes branches and comes back. So when the sandbox has ended, the sums of the files
 * that it changed are kept with their modes, unless the user had written them already:
 * then it is not known what they were. What a commit has is no proof, because the file
 * may have been another one at the start, and a filter may have converted it.
 *
 * Modes are kept, too: that of a file or directory when it was last known to be unchanged
 * by the user. It is what both sides' changes of the mode are compared with. The ctime of
 * a directory says nothing about its mode, because it changes with the entries.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "base/parse.h"
#include "work/accept.h"
#include "work/changes_internal.h"
#include "work/earlier.h"
#include "work/files_internal.h"
#include "work/moved.h"
#include "work/record.h"

#define KNOWN_SIZE_MAX ((size_t)512 << 20)

struct known_file {
	char *path;
	uint64_t ino, ctime_ns, size, mode; /* mode 0: not known */
	size_t order;                       /* in which it was added */
	char sum[ACCEPT_SUM_SIZE];          /* of its contents; "": not known */
};

struct work_known {
	struct known_file *v; /* sorted by path, up to @n_sorted */
	size_t n, n_sorted, cap;
	struct work_known *notes; /* see known_note(); NULL: none */
	size_t summed;            /* bytes: see known_note_sum() */
};

static int known_compare(const void *a, const void *b)
{
	return strcmp(((const struct known_file *)a)->path,
		      ((const struct known_file *)b)->path);
}

static int known_compare_order(const void *a, const void *b)
{
	const struct known_file *x = a, *y = b;
	int d = known_compare(a, b);

	return d ? d : x->order < y->order ? -1 : x->order > y->order;
}

/* NOLINTNEXTLINE(misc-no-recursion): notes have no notes */
void known_free(struct work_known *k)
{
	if (!k)
		return;
	for (size_t i = 0; i < k->n; i++)
		free(k->v[i].path);
	free(k->v);
	known_free(k->notes);
	free(k);
}

#define KNOWN_NUMBERS 4

static int known_append(struct work_known *k, const char *path,
			const uint64_t v[KNOWN_NUMBERS])
{
	char *copy;

	if (k->n == k->cap) {
		size_t cap = k->cap ? k->cap * 2 : 16;
		struct known_file *more = reallocarray(k->v, cap, sizeof(*more));

		if (!more)
			return -ENOMEM;
		k->v = more;
		k->cap = cap;
	}
	copy = strdup(path);
	if (!copy)
		return -ENOMEM;
	k->v[k->n] = (struct known_file){ copy, v[0], v[1], v[2], v[3], k->n, "" };
	k->n++;
	return 0;
}

/*
 * Lines are "<ino>,<ctime>,<size>,<mode>,<sum> <path>", without the sum if it is not
 * known, and without the mode in older works; a damaged file is as good as none.
 */
static int known_parse(struct work_known *k, char *text, size_t n)
{
	char *at = text, *key, *path;
	struct warren_error ignored;
	int r;

	while ((r = record_next(&at, text + n, &key, &path)) > 0) {
		uint64_t v[KNOWN_NUMBERS] = { 0 };

		for (int i = 0; i < KNOWN_NUMBERS; i++) {
			char *field = strsep(&key, ",");

			if (!field && i == 3)
				break;
			if (!field || parse_u64(field, UINT64_MAX, &v[i], &ignored) < 0)
				return -EBADMSG;
		}
		r = known_append(k, path, v);
		if (r < 0)
			return r;
		if (key && hex_is(key, SHA256_DIGITS))
			(void)memcpy(k->v[k->n - 1].sum, key, SHA256_DIGITS);
	}
	return r;
}

static struct work_known *known_load(struct work *w)
{
	AUTO_FREE char *text = NULL;
	size_t n;

	if (w->known)
		return w->known;
	w->known = calloc(1, sizeof(*w->known));
	if (w->known &&
	    work_file_read_at(w->dir_fd, "known", KNOWN_SIZE_MAX, &text, &n) == 0)
		(void)known_parse(w->known, text, n);
	return w->known;
}

static void known_sort(struct work_known *k)
{
	size_t out = 0;

	if (k->n == k->n_sorted)
		return;
	/* The last entry of a path is the newest one. */
	qsort(k->v, k->n, sizeof(*k->v), known_compare_order);
	for (size_t i = 0; i < k->n; i++) {
		if (out > 0 && strcmp(k->v[out - 1].path, k->v[i].path) == 0) {
			free(k->v[out - 1].path);
			k->v[out - 1] = k->v[i];
		} else {
			k->v[out++] = k->v[i];
		}
	}
	k->n = k->n_sorted = out;
	for (size_t i = 0; i < out; i++)
		k->v[i].order = i;
}

static int known_append_stat(struct work_known *k, const char *path,
			     const struct stat *st)
{
	return known_append(k, path,
			    (uint64_t[KNOWN_NUMBERS]){ st->st_ino, stat_ctime_ns(st),
						       (uint64_t)st->st_size,
						       st->st_mode });
}

int known_add(struct work *w, const char *path, const struct stat *st)
{
	struct work_known *k = known_load(w);

	return k ? known_append_stat(k, path, st) : -ENOMEM;
}

/* No path of a project begins with "/". */
static void known_inode_path(const struct stat *st, char ret[24])
{
	(void)snprintf(ret, 24, "/%llu", (unsigned long long)st->st_ino);
}

int known_add_inode(struct work *w, const struct stat *st)
{
	char path[24];

	known_inode_path(st, path);
	return known_add(w, path, st);
}

int known_save(struct work *w)
{
	struct work_known *k = known_load(w);
	struct buf b AUTO_BUF = BUF_INIT(KNOWN_SIZE_MAX);

	if (!k)
		return -ENOMEM;
	known_sort(k);
	for (size_t i = 0; i < k->n; i++) {
		char key[96 + ACCEPT_SUM_SIZE];

		(void)snprintf(key, sizeof(key), "%llu,%llu,%llu,%llu%s%s",
			       (unsigned long long)k->v[i].ino,
			       (unsigned long long)k->v[i].ctime_ns,
			       (unsigned long long)k->v[i].size,
			       (unsigned long long)k->v[i].mode,
			       k->v[i].sum[0] ? "," : "", k->v[i].sum);
		record_line(&b, key, k->v[i].path);
	}
	return b.failed ? -ENOMEM
			: work_file_replace(w->dir_fd, "known", b.data, b.len, true);
}

int known_keep_earlier(struct work *w)
{
	struct work_known *k = known_load(w);
	size_t out = 0;

	if (!k)
		return -ENOMEM;
	known_sort(k);
	for (size_t i = 0; i < k->n; i++)
		if (k->v[i].path[0] == '/' || earlier_has(w, k->v[i].path))
			k->v[out++] = k->v[i];
		else
			free(k->v[i].path);
	if (out == k->n)
		return 0;
	k->n = k->n_sorted = out;
	return known_save(w);
}

static const struct known_file *known_find(struct work *w, const char *path)
{
	struct work_known *k = known_load(w);
	const struct known_file key = { .path = (char *)(uintptr_t)path };

	if (!k || k->n == 0)
		return NULL;
	known_sort(k);
	return bsearch(&key, k->v, k->n, sizeof(*k->v), known_compare);
}

bool known_forget_sum(struct work *w, const char *path)
{
	const struct known_file *f = known_find(w, path);

	if (!f || !f->sum[0])
		return false;
	w->known->v[f - w->known->v].sum[0] = '\0';
	return true;
}

static bool known_is(const struct known_file *f, const struct stat *st)
{
	return f && f->ino == st->st_ino && f->ctime_ns == stat_ctime_ns(st) &&
	       f->size == (uint64_t)st->st_size;
}

/* The file, or another name of it. */
static bool known_has(struct work *w, const char *path, const struct stat *st)
{
	char inode[24];

	if (known_is(known_find(w, path), st))
		return true;
	known_inode_path(st, inode);
	return !S_ISDIR(st->st_mode) && known_is(known_find(w, inode), st);
}

static bool known_is_newer(struct work *w, const char *path, const struct stat *st)
{
	return stat_is_newer(st, earlier_since(w, path)) || moved_has(w, path);
}

/* The lower directory is a copy: compare it with the project. */
static bool known_differs(struct work *w, const char *path, const struct stat *st)
{
	struct change_at copy = { .st = *st }, now;
	AUTO_CLOSE int from = beneath_dir(w->dir_fd, "copy", O_PATH), dir = -1,
		       other = -1;

	dir = beneath_parent(w->project_fd, path, &now.name);
	other = from < 0 ? from : beneath_parent(from, path, &copy.name);
	if (dir < 0 || other < 0 ||
	    fstatat(dir, now.name, &now.st, AT_SYMLINK_NOFOLLOW) < 0)
		return true;
	now.dir = dir;
	copy.dir = other;
	if (!known_is_newer(w, path, &now.st) || known_has(w, path, &now.st))
		return false;
	return change_same(&copy, &now) != 1 ||
	       ((copy.st.st_mode ^ now.st.st_mode) & 07777);
}

bool known_written(struct work *w, const char *path, const struct stat *st)
{
	if (w->mode == WORK_COPY)
		return known_differs(w, path, st);
	return known_is_newer(w, path, st) && !known_has(w, path, st);
}

/* Get the sum of the project's file or link, if it still has the status @st. */
static int known_read_sum(struct work *w, const char *path, const struct stat *st,
			  char ret[ACCEPT_SUM_SIZE])
{
	const struct known_file is = { .ino = st->st_ino,
				       .ctime_ns = stat_ctime_ns(st),
				       .size = (uint64_t)st->st_size };
	AUTO_CHANGE_SIDE struct change_side s = { 0 };
	struct change_at at = { .dir = -1 };
	struct stat after;
	int r;

	if ((!S_ISREG(st->st_mode) && !S_ISLNK(st->st_mode)) ||
	    (uint64_t)st->st_size > TEXT_MAX)
		return -EFBIG;
	r = change_at_open(w->project_fd, path, &at);
	if (r == 0 && (!known_is(&is, &at.st) || at.st.st_mode != st->st_mode))
		r = -ESTALE;
	r = r < 0 ? r : change_side_read(&at, &s);
	if (r == 0 && (fstatat(at.dir, at.name, &after, AT_SYMLINK_NOFOLLOW) < 0 ||
		       !known_is(&is, &after) || s.large || s.text.len != is.size))
		r = -ESTALE;
	close_p(&at.dir);
	if (r == 0)
		accept_sum(&s, ret);
	return r;
}

/* Does a file that the user has written have the contents that it had before? */
static bool known_same(struct work *w, const char *path, const struct stat *st)
{
	const struct known_file *f = known_find(w, path);
	char sum[ACCEPT_SUM_SIZE];

	return f && f->sum[0] && f->size == (uint64_t)st->st_size &&
	       f->mode == st->st_mode && known_read_sum(w, path, st, sum) == 0 &&
	       strcmp(f->sum, sum) == 0;
}

bool known_touched(struct work *w, const char *path, const struct stat *st)
{
	return known_written(w, path, st) &&
	       (w->mode == WORK_COPY || !known_same(w, path, st));
}

mode_t known_mode(struct work *w, const char *path, const struct stat *st)
{
	const struct known_file *f;

	/* The lower directory is a copy, which the user does not change. */
	if (w->mode == WORK_COPY || !known_is_newer(w, path, st))
		return st->st_mode;
	if (!S_ISDIR(st->st_mode) && known_has(w, path, st))
		return st->st_mode;
	f = known_find(w, path);
	return f && (f->mode & S_IFMT) == (st->st_mode & S_IFMT) ? (mode_t)f->mode : 0;
}

/*
 * Sorting after each file would take too long, so these wait until known_note_save().
 */
int known_note(struct work *w, const char *path, const struct stat *st)
{
	struct work_known *k = known_load(w);

	if (!k)
		return -ENOMEM;
	if (w->mode == WORK_COPY || known_is_newer(w, path, st) || known_find(w, path))
		return 0;
	if (!k->notes)
		k->notes = calloc(1, sizeof(*k->notes));
	return k->notes ? known_append_stat(k->notes, path, st) : -ENOMEM;
}

/* Of one search for sums, so that the end of a work takes no longer than a second. */
#define KNOWN_SUMMED_MAX ((size_t)128 << 20)

int known_note_sum(struct work *w, const char *path)
{
	struct work_known *k = known_load(w);
	const struct known_file *f;
	struct stat st;
	char sum[ACCEPT_SUM_SIZE];
	int r;

	if (!k)
		return -ENOMEM;
	if (w->mode == WORK_COPY || beneath_stat(w->project_fd, path, &st) < 0 ||
	    known_written(w, path, &st))
		return 0;
	f = known_find(w, path);
	if ((f && f->sum[0] && known_is(f, &st) && f->mode == st.st_mode) ||
	    (uint64_t)st.st_size > KNOWN_SUMMED_MAX - k->summed ||
	    known_read_sum(w, path, &st, sum) < 0)
		return 0;
	k->summed += (size_t)st.st_size;
	if (!k->notes)
		k->notes = calloc(1, sizeof(*k->notes));
	r = k->notes ? known_append_stat(k->notes, path, &st) : -ENOMEM;
	if (r == 0)
		(void)memcpy(k->notes->v[k->notes->n - 1].sum, sum, sizeof(sum));
	return r;
}

int known_note_save(struct work *w)
{
	struct work_known *k = known_load(w);
	struct work_known *notes = k ? TAKE_PTR(k->notes) : NULL;
	int r = 0;

	if (!notes)
		return k ? 0 : -ENOMEM;
	for (size_t i = 0; r == 0 && i < notes->n; i++) {
		const struct known_file *f = &notes->v[i];

		r = known_append(k, f->path,
				 (uint64_t[KNOWN_NUMBERS]){ f->ino, f->ctime_ns, f->size,
							    f->mode });
		if (r == 0)
			(void)memcpy(k->v[k->n - 1].sum, f->sum, sizeof(f->sum));
	}
	k->summed = 0;
	known_free(notes);
	return r < 0 ? r : known_save(w);
}
