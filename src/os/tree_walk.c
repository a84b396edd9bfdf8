/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree_walk.c - the walk, depth first
 *
 * Every directory on the way down stays open, so that the walk returns to the right one
 * even if a directory is moved in the meantime.
 */
#include "os/tree_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/macro.h"

#define WALK_ENTRIES_SIZE (32U << 10)

struct walk_entry {
	uint64_t ino;
	int64_t off;
	uint16_t size;
	uint8_t type;
	char name[];
};

struct tree_walk_level {
	struct tree_side old, new;
	_Alignas(8) char entries[WALK_ENTRIES_SIZE];
};

static int walk_dir(struct tree_walk *w);

static bool walk_is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

/*
 * An entry that cannot be read for another reason (too many open files, an error of the
 * disk) must not look like one that does not exist.
 */
static void walk_note_error(struct tree_walk *w)
{
	if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP && errno != EACCES)
		w->error = errno;
}

static bool walk_has(struct tree_walk *w, int dir, const char *name, struct stat *st)
{
	if (dir < 0)
		return false;
	if (fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) == 0)
		return true;
	walk_note_error(w);
	return false;
}

static void walk_find(struct tree_walk *w, const struct tree_side *side, const char *name,
		      struct tree_entry *ret)
{
	size_t i = 0;

	*ret = (struct tree_entry){ .dir = -1 };
	while (i < side->n_uppers && !walk_has(w, side->uppers[i], name, &ret->st))
		i++;
	ret->in_upper = i < side->n_uppers;
	if (ret->in_upper || walk_has(w, side->lower, name, &ret->st)) {
		ret->exists = !walk_is_whiteout(&ret->st);
		ret->dir = ret->in_upper ? side->uppers[i] : side->lower;
	}
}

static int walk_open(struct tree_walk *w, int dir, const char *name)
{
	int fd = dir < 0 ? -1
			 : openat(dir, name,
				  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dir >= 0 && fd < 0)
		walk_note_error(w);
	return fd;
}

static bool walk_is_opaque(int dir)
{
	char mark = 0;

	return fgetxattr(dir, "user.overlay.opaque", &mark, 1) == 1 && mark == 'y';
}

static void walk_open_side(struct tree_walk *w, const struct tree_side *from,
			   const char *name, const struct tree_entry *e,
			   struct tree_side *ret)
{
	*ret = tree_side(-1, -1);
	if (!e->exists || !S_ISDIR(e->st.st_mode))
		return;
	for (size_t i = 0; i < from->n_uppers; i++) {
		struct stat st;
		int fd;

		if (!walk_has(w, from->uppers[i], name, &st))
			continue;
		/* Something else, or an opaque directory, hides what is below it. */
		fd = S_ISDIR(st.st_mode) ? walk_open(w, from->uppers[i], name) : -1;
		if (fd < 0)
			return;
		ret->uppers[ret->n_uppers++] = fd;
		if (walk_is_opaque(fd))
			return;
	}
	ret->lower = walk_open(w, from->lower, name);
}

static void walk_close_side(struct tree_side *side)
{
	for (size_t i = 0; i < side->n_uppers; i++)
		(void)close(side->uppers[i]);
	if (side->lower >= 0)
		(void)close(side->lower);
}

static int walk_descend(struct tree_walk *w, const char *name,
			const struct tree_pair *pair)
{
	struct tree_walk_level *l = &w->levels[w->depth];
	int r;

	if (w->depth + 1 == TREE_WALK_DEPTH_MAX) {
		w->too_deep = true;
		return 0;
	}
	walk_open_side(w, &l->old, name, &pair->old, &l[1].old);
	walk_open_side(w, &l->new, name, &pair->new, &l[1].new);
	w->depth++;
	r = w->error ? -w->error : walk_dir(w);
	w->depth--;
	walk_close_side(&l[1].old);
	walk_close_side(&l[1].new);
	return r;
}

static int walk_one(struct tree_walk *w, const char *name)
{
	struct tree_walk_level *l = &w->levels[w->depth];
	size_t length = w->path_length, n = strlen(name);
	struct tree_pair pair = { .name = name };
	int r;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return 0;
	walk_find(w, &l->old, name, &pair.old);
	walk_find(w, &l->new, name, &pair.new);
	if (w->error)
		return -w->error;
	if (!pair.old.exists && !pair.new.exists)
		return 0;
	/* Both are the same file of the lower directory. */
	if (pair.old.exists && pair.new.exists && !pair.old.in_upper &&
	    !pair.new.in_upper)
		return 0;
	w->path[length] = '/';
	(void)memcpy(w->path + length + 1, name, n + 1);
	w->path_length = length + 1 + n;
	r = w->visit(w, &pair);
	if (r > 0) {
		r = walk_descend(w, name, &pair);
		if (r == 0 && w->leave)
			r = w->leave(w, &pair);
	}
	w->path_length = length;
	w->path[length] = '\0';
	return r;
}

/* Is the entry in one of the first @n upper directories? */
static bool walk_is_above(struct tree_walk *w, const struct tree_side *side, size_t n,
			  const char *name)
{
	struct stat st;

	for (size_t i = 0; i < n; i++)
		if (walk_has(w, side->uppers[i], name, &st))
			return true;
	return false;
}

/*
 * Walk through the entries of @dir that are in none of the first @n_new and @n_old upper
 * directories of the two sides.
 */
static int walk_entries(struct tree_walk *w, int dir, size_t n_new, size_t n_old)
{
	const struct tree_walk_level *l = &w->levels[w->depth];
	char *entries = w->levels[w->depth].entries;
	long n;

	if (dir < 0)
		return 0;
	while ((n = syscall(SYS_getdents64, dir, entries, WALK_ENTRIES_SIZE)) > 0)
		for (long at = 0; at < n;) {
			const struct walk_entry *e = (const void *)(entries + at);
			int r;

			at += e->size;
			if (walk_is_above(w, &l->new, n_new, e->name) ||
			    walk_is_above(w, &l->old, n_old, e->name))
				continue;
			r = walk_one(w, e->name);
			if (r < 0)
				return r;
		}
	return n < 0 && errno != ENOENT ? -errno : 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as TREE_WALK_DEPTH_MAX */
static int walk_dir(struct tree_walk *w)
{
	const struct tree_side *old = &w->levels[w->depth].old,
			       *new = &w->levels[w->depth].new;
	int r = 0;

	for (size_t i = 0; r == 0 && i < new->n_uppers; i++)
		r = walk_entries(w, new->uppers[i], i, 0);
	for (size_t i = 0; r == 0 && i < old->n_uppers; i++)
		r = walk_entries(w, old->uppers[i], new->n_uppers, i);
	/* If only one of the trees shows the lower directory, all of it differs. */
	if (r == 0 && (old->lower < 0) != (new->lower < 0))
		r = walk_entries(w, old->lower < 0 ? new->lower : old->lower,
				 new->n_uppers, old->n_uppers);
	return r;
}

/* The limit of an ordinary process is too low for a deep tree. */
static void walk_raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static int walk_reopen(struct tree_walk *w, int dir)
{
	int fd = dir < 0 ? -1 : openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir >= 0 && fd < 0)
		w->error = errno;
	return fd;
}

/* Directories are read from their beginning, however often they are walked through. */
static void walk_copy_side(struct tree_walk *w, const struct tree_side *side,
			   struct tree_side *ret)
{
	*ret = tree_side(-1, walk_reopen(w, side->lower));
	for (size_t i = 0; i < side->n_uppers; i++) {
		int fd = walk_reopen(w, side->uppers[i]);

		if (fd >= 0)
			ret->uppers[ret->n_uppers++] = fd;
	}
}

int tree_walk(struct tree_walk *w, const struct tree_side *old,
	      const struct tree_side *new)
{
	size_t size = sizeof(*w->levels) * TREE_WALK_DEPTH_MAX;
	void *levels = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int r;

	if (levels == MAP_FAILED)
		return -ENOMEM;
	walk_raise_limit();
	w->levels = levels;
	w->error = 0;
	w->depth = 0;
	w->path_length = 0;
	w->path[0] = '\0';
	walk_copy_side(w, old, &w->levels->old);
	walk_copy_side(w, new, &w->levels->new);
	r = w->error ? -w->error : walk_dir(w);
	if (r == 0)
		r = -w->error;
	walk_close_side(&w->levels->old);
	walk_close_side(&w->levels->new);
	(void)munmap(levels, size);
	return r;
}
