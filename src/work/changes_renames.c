/* SPDX-License-Identifier: Apache-2.0 */
/*
 * changes_renames.c - pair files that were removed with equal ones that were added
 *
 * A move is accepted by the rules for the new place: if the file is ignored there, or git
 * executes it, the move is one change that needs an option. Otherwise, the user could
 * accept the removal of the old file and then reject or lose the new one, which is the
 * only copy. So ignored directories, which are listed as one change, are also searched
 * for such files.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "work/changes_internal.h"

#define RENAME_COMPARES_MAX 10000
#define RENAME_BYTES_MAX    ((uint64_t)4 << 30)
#define RENAME_STEPS_MAX    ((uint64_t)50 << 20)

/* What may still be compared to find renames. */
struct rename_budget {
	unsigned compares;
	uint64_t bytes, steps;
};

/* Return whether two files of @size may be compared. */
static bool rename_afford(struct rename_budget *b, uint64_t size)
{
	if (b->compares == 0 || b->bytes < size)
		return false;
	b->compares--;
	b->bytes -= size;
	return true;
}

static int rename_by_size(const void *a, const void *b)
{
	const struct change *x = *(const struct change *const *)a,
			    *y = *(const struct change *const *)b;

	if (x->old_size != y->old_size)
		return x->old_size < y->old_size ? -1 : 1;
	return strcmp(x->path, y->path);
}

/* Is the change accepted without an option? */
static bool rename_is_plain(const struct change *c)
{
	return !c->ignored && !(c->guard & ~(unsigned)GUARD_SETID);
}

static bool rename_is_gone(const struct change *c)
{
	return c->kind == CHANGE_REMOVED && !c->tree && !c->ignored && !c->guard &&
	       c->old_size > 0 && (S_ISREG(c->old_mode) || S_ISLNK(c->old_mode));
}

static bool rename_is_new(const struct change *c)
{
	return c->kind == CHANGE_ADDED && c->path && !c->tree && !c->inner &&
	       c->guard != GUARD_SETID && c->new_size > 0 &&
	       (S_ISREG(c->new_mode) || S_ISLNK(c->new_mode));
}

static int rename_same(int lower, int upper, const char *from, const char *to)
{
	struct change_at old = { .dir = -1 }, new = { .dir = -1 };
	int r = change_at_open(lower, from, &old);

	r = r < 0 ? r : change_at_open(upper, to, &new);
	r = r < 0 ? r : change_same(&old, &new);
	close_p(&old.dir);
	close_p(&new.dir);
	/* If a file cannot be read, it does not count as renamed. */
	return r == -EACCES ? r : r > 0;
}

static const char *rename_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Find the removed file that became @c, preferably one with the same name. */
static int rename_find(int upper, int lower, struct change **gone, size_t n,
		       struct change *c, struct rename_budget *budget)
{
	struct change *best = NULL;
	size_t low = 0;

	for (size_t high = n; low < high;) {
		size_t middle = low + (high - low) / 2;

		if (gone[middle]->old_size < c->new_size)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < n && budget->compares > 0 && budget->steps > 0 &&
	       gone[low]->old_size == c->new_size;
	     low++) {
		const char *from = gone[low]->path; /* NULL: it became another file */
		bool name = from && strcmp(rename_base(from), rename_base(c->path)) == 0;
		int r;

		budget->steps--;
		if (!from || (best && !name) ||
		    (gone[low]->old_mode & S_IFMT) != (c->new_mode & S_IFMT))
			continue;
		if (!rename_afford(budget, c->new_size))
			break;
		r = rename_same(lower, upper, gone[low]->path, c->path);
		if (r < 0)
			return r;
		if (r > 0)
			best = gone[low];
		if (r > 0 && name)
			break;
	}
	if (!best)
		return 0;
	c->kind = CHANGE_RENAMED;
	c->from = best->path;
	c->old_mode = best->old_mode;
	c->old_size = best->old_size;
	c->touched = best->touched;
	best->path = NULL; /* dropped by the caller */
	return 0;
}

/* Find the ignored directory that is one change and contains the file; or NULL. */
static struct change *rename_tree(const struct change *v, size_t n, const char *path)
{
	AUTO_FREE char *copy = strdup(path);
	struct change *tree = NULL;

	for (char *slash = copy; slash && n && (slash = strchr(slash, '/'));
	     *slash++ = '/') {
		*slash = '\0';
		tree = bsearch(&(const struct change){ .path = copy }, v, n, sizeof(*v),
			       change_compare);
		if (tree && tree->tree && tree->ignored)
			return tree;
	}
	return NULL;
}

bool changes_may_be_moved_inside(const struct changes *c)
{
	bool gone = false, tree = false;

	for (size_t i = 0; i < c->n; i++) {
		gone |= rename_is_gone(&c->v[i]);
		tree |= c->v[i].tree && c->v[i].ignored && c->v[i].new_mode;
	}
	return gone && tree;
}

static int rename_by_path(const void *a, const void *b)
{
	return change_compare(*(const struct change *const *)a,
			      *(const struct change *const *)b);
}

/* Added files that may be renamed ones; first those that need no option. */
struct rename_targets {
	struct change **v;
	size_t n_plain, n;
};

static int rename_find_targets(const struct changes *c, const struct changes *inside,
			       struct rename_targets *ret)
{
	struct change **v = calloc(c->n + inside->n + 1, sizeof(struct change *));
	size_t n = 0, n_plain;

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < c->n; i++)
		if (rename_is_new(&c->v[i]) && rename_is_plain(&c->v[i]))
			v[n++] = &c->v[i];
	n_plain = n;
	for (size_t i = 0; i < c->n; i++)
		if (rename_is_new(&c->v[i]) && !rename_is_plain(&c->v[i]))
			v[n++] = &c->v[i];
	for (size_t i = 0; i < inside->n; i++)
		if (rename_is_new(&inside->v[i]) && inside->v[i].ignored &&
		    rename_tree(c->v, c->n, inside->v[i].path))
			v[n++] = &inside->v[i];
	/* The first match is taken, so use the order of a list with all files. */
	if (n > n_plain)
		qsort(v + n_plain, n - n_plain, sizeof(struct change *), rename_by_path);
	*ret = (struct rename_targets){ v, n_plain, n };
	return 0;
}

/* List files that were moved into ignored directories as separate changes. */
static int rename_take_out(struct changes *c, struct changes *inside)
{
	const size_t n = c->n;
	struct change *more = reallocarray(c->v, n + inside->n + 1, sizeof(*more));

	if (!more)
		return -ENOMEM;
	c->v = more;
	for (size_t i = 0; i < inside->n; i++) {
		struct change *moved = &inside->v[i], *tree;

		if (moved->kind != CHANGE_RENAMED)
			continue;
		tree = rename_tree(c->v, n, moved->path);
		if (tree && tree->n_files) {
			tree->n_files--;
			tree->new_size -= moved->new_size;
		}
		c->v[c->n++] = *moved;
		*moved = (struct change){ 0 };
	}
	/* Drop directories with nothing left, except those whose mode was changed. */
	for (size_t i = 0; i < n; i++)
		if (c->v[i].tree && !c->v[i].n_files &&
		    (!c->v[i].old_mode || c->v[i].old_mode == c->v[i].new_mode))
			change_done(&c->v[i]);
	return 0;
}

static void rename_compact(struct changes *c)
{
	size_t out = 0;

	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].path)
			c->v[out++] = c->v[i];
	c->n = out;
	if (c->n > 0)
		qsort(c->v, c->n, sizeof(*c->v), change_compare);
}

/* Find the removed files that became one of the targets. */
static int rename_find_all(int upper, int lower, struct changes *c,
			   const struct rename_targets *targets)
{
	AUTO_FREE struct change **gone = calloc(c->n + 1, sizeof(struct change *));
	struct rename_budget budget = { RENAME_COMPARES_MAX, RENAME_BYTES_MAX,
					RENAME_STEPS_MAX };
	size_t n = 0;
	int r = 0;

	if (!gone)
		return -ENOMEM;
	for (size_t i = 0; i < c->n; i++)
		if (rename_is_gone(&c->v[i]))
			gone[n++] = &c->v[i];
	if (n == 0)
		return 0;
	qsort(gone, n, sizeof(struct change *), rename_by_size);
	for (size_t i = 0; r == 0 && i < targets->n; i++)
		r = rename_find(upper, lower, gone, n, targets->v[i], &budget);
	return r;
}

int changes_find_renames(int upper, int lower, struct changes *c, struct changes *inside)
{
	struct rename_targets targets = { 0 };
	int r;

	rename_compact(c);
	r = rename_find_targets(c, inside, &targets);
	if (r == 0)
		r = rename_find_all(upper, lower, c, &targets);
	free(targets.v);
	rename_compact(c);
	if (r == 0 && inside->n > 0)
		r = rename_take_out(c, inside);
	rename_compact(c);
	return r;
}
