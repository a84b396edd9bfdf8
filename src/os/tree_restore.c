/* SPDX-License-Identifier: Apache-2.0 */
/* tree_restore.c - the three passes: count, remove, write */
#include "os/tree_restore.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macro.h"
#include "os/tree_copy.h"
#include "os/tree_restore_internal.h"
#include "os/tree_walk.h"

/* The maximum length of a part of a long path. */
#define RESTORE_PART_MAX 2048
/* The space that a file takes in addition to its contents, and each of its names. */
#define RESTORE_ENTRY_SIZE 4096U
#define RESTORE_NAME_SIZE  320U

/* The state of a restoration, in one mapping. */
struct restore_state {
	struct tree_restore *t;
	struct warren_error *err;
	struct tree_walk walk;
	struct tree_compare compare;
	struct restore_links *links;
	uint64_t need, gain;            /* bytes */
	bool fresh;                     /* a file was created */
	int roots[TREE_WALK_DEPTH_MAX]; /* directories of the mounted root, by depth */
	char target[4096];
};

static int restore_failed(const struct restore_state *s, int code, const char *what)
{
	const char *path = s->walk.path_length ? s->walk.path : "/";

	return error_errno(s->err, code, "%s '%.400s'", what, path);
}

static bool restore_same_type(const struct tree_pair *p)
{
	return p->old.exists && p->new.exists &&
	       (p->old.st.st_mode & S_IFMT) == (p->new.st.st_mode &S_IFMT);
}

static bool restore_is_dir(const struct tree_entry *e)
{
	return e->exists && S_ISDIR(e->st.st_mode);
}

/* The copy has no sockets, so it is not known whether this one existed. It stays. */
static bool restore_keeps(const struct tree_pair *p)
{
	return p->new.exists &&S_ISSOCK(p->new.st.st_mode) &&
	       (!p->old.exists || S_ISSOCK(p->old.st.st_mode));
}

/* --------------------------------------------------------------- the first pass */

static uint64_t restore_size(const struct tree_entry *e)
{
	return (uint64_t)e->st.st_blocks * 512;
}

/* The space that one name needs: all names of a file in the copy share its contents. */
static uint64_t restore_share(const struct tree_entry *old)
{
	uint64_t n = old->in_upper && old->st.st_nlink > 1 ? old->st.st_nlink : 1;

	return (restore_size(old) + RESTORE_ENTRY_SIZE + n - 1) / n + RESTORE_NAME_SIZE;
}

/* Is the space of a file that will be removed free then? */
static bool restore_frees(struct restore_state *s, const struct tree_entry *new)
{
	return new->in_upper && (new->st.st_nlink <= 1 || S_ISDIR(new->st.st_mode) ||
				 restore_links_last(s->links, &new->st));
}

static int restore_count(struct tree_walk *w, const struct tree_pair *p)
{
	struct restore_state *s = w->ctx;
	bool same = restore_same_type(p), dir = restore_is_dir(&p->old);

	if (s->t->deadline && clock_now() > s->t->deadline)
		return error_set(s->err, ETIMEDOUT,
				 "there was not enough time to find what changed");
	if (dir && w->depth + 1 == TREE_WALK_DEPTH_MAX)
		return restore_failed(s, ELOOP, "restore");
	if (restore_keeps(p))
		return 0;
	if (p->new.exists && !same && restore_frees(s, &p->new))
		s->gain += restore_size(&p->new);
	if (p->old.exists && !same)
		s->need += restore_share(&p->old);
	if (same && !dir && tree_compare(&s->compare, p, true) != 1) {
		uint64_t old = restore_size(&p->old),
			 new = p->new.in_upper ? restore_size(&p->new) : 0;

		s->need += RESTORE_ENTRY_SIZE + (old > new ? old - new : 0);
	}
	return dir || restore_is_dir(&p->new);
}

static int restore_check_space(struct restore_state *s)
{
	struct statvfs fs;
	uint64_t have;

	if (fstatvfs(s->t->upper, &fs) < 0)
		return error_errno(s->err, errno, "find out how much space is free");
	have = (uint64_t)fs.f_bavail * fs.f_frsize + s->gain;
	if (s->need <= have)
		return 0;
	return error_set(
		s->err, ENOSPC,
		"the files need %ju bytes, and %ju bytes are free in the sandbox",
		(uintmax_t)s->need, (uintmax_t)have);
}

/* -------------------------------------------------------------- the second pass */

/* Return 1 if the directory was opened, so that the walk continues in it. */
static int restore_enter(struct restore_state *s, const char *name)
{
	int fd = tree_open_root_dir(s->roots[s->walk.depth], name);

	if (fd == -EXDEV)
		return 0; /* something is mounted there, which is not restored */
	if (fd < 0)
		return restore_failed(s, -fd, "open");
	if (s->walk.depth + 1 == TREE_WALK_DEPTH_MAX) {
		(void)close(fd);
		return restore_failed(s, ELOOP, "restore");
	}
	s->roots[s->walk.depth + 1] = fd;
	return 1;
}

static int restore_leave(struct tree_walk *w, const struct tree_pair *p UNUSED)
{
	struct restore_state *s = w->ctx;

	(void)close(TAKE_FD(s->roots[w->depth + 1]));
	return 0;
}

static int restore_remove(struct tree_walk *w, const struct tree_pair *p)
{
	struct restore_state *s = w->ctx;
	int r;

	if (restore_keeps(p) || !p->new.exists)
		return 0;
	if (restore_same_type(p))
		return S_ISDIR(p->old.st.st_mode) ? restore_enter(s, p->name) : 0;
	r = tree_remove(s->t->root, s->roots[w->depth], p->name);
	if (r < 0)
		return restore_failed(s, -r, "remove");
	s->t->removed++;
	return 0;
}

/* --------------------------------------------------------------- the third pass */

/*
 * A security module of the machine may forbid changes of its attributes. Then the sandbox
 * could not change them either.
 */
static bool restore_may_fail(const struct tree_attribute *a)
{
	return (errno == EPERM || errno == EACCES || errno == EOPNOTSUPP) &&
	       strncmp(a->name, "security.", 9) == 0 &&
	       strcmp(a->name, "security.capability") != 0;
}

static int restore_remove_attributes(struct restore_state *s, int from, int to)
{
	const bool layers[2] = { tree_is_layer(from), tree_is_layer(to) };
	char *names = s->compare.names[1];
	ssize_t n = flistxattr(to, names, sizeof(s->compare.names[1]));

	for (const char *name = names; n > 0 && name < names + n;
	     name += strlen(name) + 1) {
		struct tree_attribute shown, stored;

		if (!tree_attribute_shown(layers[1], true, name, &shown))
			continue;
		tree_attribute_stored(layers[0], &shown, &stored);
		if (fgetxattr(from, stored.name, NULL, 0) < 0 &&
		    fremovexattr(to, name) < 0 && !restore_may_fail(&shown))
			return -errno;
	}
	return 0;
}

static int restore_attributes(struct restore_state *s, int from, int to)
{
	const bool layers[2] = { tree_is_layer(from), tree_is_layer(to) };
	char *names = s->compare.names[0], *value = s->compare.values[0];
	ssize_t n = flistxattr(from, names, sizeof(s->compare.names[0]));

	for (const char *name = names; n > 0 && name < names + n;
	     name += strlen(name) + 1) {
		struct tree_attribute shown, stored;
		ssize_t size;

		if (!tree_attribute_shown(layers[0], true, name, &shown))
			continue;
		tree_attribute_stored(layers[1], &shown, &stored);
		size = fgetxattr(from, name, value, sizeof(s->compare.values[0]));
		if (size < 0 || (fsetxattr(to, stored.name, value, (size_t)size, 0) < 0 &&
				 !restore_may_fail(&shown)))
			return -errno;
	}
	return restore_remove_attributes(s, from, to);
}

/* The owner first: a change of the owner clears set-id bits and file capabilities. */
static int restore_meta(struct restore_state *s, int from, int to, const struct stat *st)
{
	const struct timespec times[2] = { st->st_atim, st->st_mtim };
	int r;

	if (fchown(to, st->st_uid, st->st_gid) < 0)
		return -errno;
	r = restore_attributes(s, from, to);
	if (r < 0)
		return r;
	return fchmod(to, st->st_mode & 07777) < 0 || futimens(to, times) < 0 ? -errno
									      : 0;
}

/* For a file that cannot be opened: a link or a named pipe. */
static int restore_meta_at(int dir, const char *name, const struct stat *st)
{
	const struct timespec times[2] = { st->st_atim, st->st_mtim };

	if (fchownat(dir, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
	    (!S_ISLNK(st->st_mode) && fchmodat(dir, name, st->st_mode & 07777, 0) < 0) ||
	    utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

/* Fill the file @to, which exists. */
static int restore_fill(struct restore_state *s, const struct tree_pair *p, int to,
			bool contents)
{
	AUTO_CLOSE int from = openat(p->old.dir, p->name,
				     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct tree_copy copy = { 0 };
	int r = 0;

	if (from < 0)
		return -errno;
	if (contents && ftruncate(to, 0) < 0)
		return -errno;
	if (contents && p->old.st.st_size > 0)
		r = tree_copy_contents(&copy, from, to, &p->old.st);
	return r < 0 ? r : restore_meta(s, from, to, &p->old.st);
}

static int restore_create(struct restore_state *s, const struct tree_pair *p)
{
	int dir = s->roots[s->walk.depth];
	AUTO_CLOSE int to = -1;
	ssize_t n;

	s->fresh = true;
	if (S_ISREG(p->old.st.st_mode)) {
		to = openat(dir, p->name,
			    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		return to < 0 ? -errno : restore_fill(s, p, to, true);
	}
	if (S_ISLNK(p->old.st.st_mode)) {
		n = readlinkat(p->old.dir, p->name, s->target, sizeof(s->target) - 1);
		if (n < 0)
			return -errno;
		s->target[n] = '\0';
		if (symlinkat(s->target, dir, p->name) < 0)
			return -errno;
	} else if (mknodat(dir, p->name, p->old.st.st_mode & (S_IFMT | 0777), 0) < 0) {
		return -errno;
	}
	return restore_meta_at(dir, p->name, &p->old.st);
}

static int restore_replace(struct restore_state *s, const struct tree_pair *p)
{
	if (unlinkat(s->roots[s->walk.depth], p->name, 0) < 0 && errno != ENOENT)
		return -errno;
	s->t->restored++;
	return restore_create(s, p);
}

/* Return whether only owner, mode and time differ. */
static bool restore_same_contents(struct restore_state *s, const struct tree_pair *p)
{
	struct tree_pair other = *p;

	other.new.st.st_mode = p->old.st.st_mode;
	other.new.st.st_uid = p->old.st.st_uid;
	other.new.st.st_gid = p->old.st.st_gid;
	other.new.st.st_mtim = p->old.st.st_mtim;
	return tree_compare(&s->compare, &other, true) == 1;
}

/* Both exist, with the same type, and differ. The file keeps its inode if it can. */
static int restore_rewrite(struct restore_state *s, const struct tree_pair *p)
{
	int dir = s->roots[s->walk.depth];
	bool same = restore_same_contents(s, p);
	AUTO_CLOSE int to = -1;

	if (!S_ISREG(p->old.st.st_mode)) {
		if (!same)
			return restore_replace(s, p);
		s->t->changed++;
		return restore_meta_at(dir, p->name, &p->old.st);
	}
	/* Without contents, a program that is being executed can be opened too. */
	to = openat(dir, p->name,
		    (same ? O_RDONLY : O_WRONLY) | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (to < 0) /* it is being executed, or a process has a lease of it */
		return restore_replace(s, p);
	*(same ? &s->t->changed : &s->t->restored) += 1;
	return restore_fill(s, p, to, !same);
}

static int restore_file(struct restore_state *s, const struct tree_pair *p)
{
	if (!p->new.exists) {
		s->t->restored++;
		return restore_create(s, p);
	}
	return tree_compare(&s->compare, p, true) == 1 ? 0 : restore_rewrite(s, p);
}

/* Did the file have several names, in the upper directory or in the lower one? */
static bool restore_had_names(const struct tree_pair *p)
{
	return p->old.exists && !S_ISDIR(p->old.st.st_mode) && p->old.st.st_nlink > 1;
}

/* Link to @path below @root, which may be longer than the kernel accepts. */
static int restore_link(int root, const char *path, int dir, const char *name)
{
	AUTO_CLOSE int at = -1;
	char part[RESTORE_PART_MAX + 1];

	while (strlen(path) > RESTORE_PART_MAX) {
		const char *end = memrchr(path, '/', RESTORE_PART_MAX);
		int next;

		if (!end)
			return -ENAMETOOLONG;
		(void)memcpy(part, path, (size_t)(end - path));
		part[end - path] = '\0';
		next = openat(at < 0 ? root : at, part,
			      O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return -errno;
		if (at >= 0)
			(void)close(at);
		at = next;
		path = end + 1;
	}
	return linkat(at < 0 ? root : at, path, dir, name, 0) < 0 ? -errno : 0;
}

/* A file with several names, before or now. */
static int restore_linked(struct restore_state *s, const struct tree_pair *p)
{
	/* Overlayfs may show different numbers for the names of one file. */
	const struct stat *new = p->new.in_upper ? &p->new.st : NULL;
	int dir = s->roots[s->walk.depth], r;
	const char *other = NULL;

	s->fresh = false;
	/* There is room for all files of the copy with several names. */
	if (restore_links_full(s->links) && !(restore_had_names(p) && p->old.in_upper))
		return p->new.exists ? restore_replace(s, p) : restore_file(s, p);
	switch (restore_links_find(s->links, &p->old.st, new, &other)) {
	case RESTORE_LINK_SAME:
		return 0;
	case RESTORE_LINK_OTHER:
		if (p->new.exists && unlinkat(dir, p->name, 0) < 0)
			return -errno;
		s->t->restored++;
		return restore_link(s->t->root, other + 1, dir, p->name);
	case RESTORE_LINK_TAKEN:
		r = restore_replace(s, p);
		break;
	case RESTORE_LINK_FIRST:
	default:
		r = restore_file(s, p);
	}
	return r < 0 ? r
		     : restore_links_add(s->links, &p->old.st, s->fresh ? NULL : new,
					 s->walk.path);
}

static int restore_write(struct tree_walk *w, const struct tree_pair *p)
{
	struct restore_state *s = w->ctx;
	bool linked = restore_had_names(p) || (p->new.in_upper && p->new.st.st_nlink > 1);
	int r;

	if (restore_keeps(p) || !p->old.exists)
		return 0;
	if (S_ISDIR(p->old.st.st_mode)) {
		if (!p->new.exists) {
			if (mkdirat(s->roots[w->depth], p->name, 0700) < 0 &&
			    errno != EEXIST)
				return restore_failed(s, errno, "create");
			s->t->restored++;
		}
		return restore_enter(s, p->name);
	}
	r = linked ? restore_linked(s, p) : restore_file(s, p);
	return r < 0 ? restore_failed(s, -r, "restore") : 0;
}

/* The attributes of a directory come last, because its entries change its times. */
static int restore_dir(struct restore_state *s, int from, int to)
{
	struct stat old, new;
	int r = 0;

	if (fstat(from, &old) < 0 || fstat(to, &new) < 0)
		return -errno;
	/* If only the time differs, changes of the entries caused it. */
	s->t->changed += old.st_mode != new.st_mode || old.st_uid != new.st_uid ||
			 old.st_gid != new.st_gid;
	if (old.st_mode != new.st_mode || old.st_uid != new.st_uid ||
	    old.st_gid != new.st_gid || old.st_mtim.tv_sec != new.st_mtim.tv_sec ||
	    old.st_mtim.tv_nsec != new.st_mtim.tv_nsec)
		r = restore_meta(s, from, to, &old);
	else
		r = restore_attributes(s, from, to);
	return r;
}

static int restore_leave_dir(struct tree_walk *w, const struct tree_pair *p)
{
	struct restore_state *s = w->ctx;
	AUTO_CLOSE int from = openat(p->old.dir, p->name,
				     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = from < 0 ? -errno : restore_dir(s, from, s->roots[w->depth + 1]);

	(void)close(TAKE_FD(s->roots[w->depth + 1]));
	return r < 0 ? restore_failed(s, -r, "restore") : 0;
}

static int restore_pass(struct restore_state *s,
			int (*visit)(struct tree_walk *w, const struct tree_pair *p),
			int (*leave)(struct tree_walk *w, const struct tree_pair *p))
{
	const struct tree_side old = tree_side(s->t->copy, s->t->lower),
			       new = tree_side(s->t->upper, s->t->lower);
	int r;

	s->walk.visit = visit;
	s->walk.leave = leave;
	s->walk.ctx = s;
	s->err->code = 0;
	r = tree_walk(&s->walk, &old, &new);
	return r < 0 && s->err->code == 0 ? restore_failed(s, -r, "restore") : r;
}

static int restore_root(struct restore_state *s)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
	AUTO_CLOSE int from = openat(s->t->copy, ".", flags),
		       to = openat(s->t->root, ".", flags);
	int r = from < 0 || to < 0 ? -errno : restore_dir(s, from, to);

	return r < 0 ? restore_failed(s, -r, "restore") : 0;
}

/* Each of these passes has its own record of files with several names. */
static int restore_plan(struct restore_state *s)
{
	int r;

	s->links = restore_links_new();
	r = s->links ? restore_pass(s, restore_count, NULL)
		     : error_errno(s->err, ENOMEM, "restore the files");
	restore_links_free(s->links);
	s->links = NULL;
	return r < 0 ? r : restore_check_space(s);
}

static int restore_run(struct restore_state *s)
{
	int r = restore_plan(s);

	if (r == 0) {
		s->links = restore_links_new();
		r = s->links ? 0 : error_errno(s->err, ENOMEM, "restore the files");
	}
	if (r == 0)
		r = restore_pass(s, restore_remove, restore_leave);
	if (r == 0)
		r = restore_pass(s, restore_write, restore_leave_dir);
	return r < 0 ? r : restore_root(s);
}

int tree_restore(struct tree_restore *t, struct warren_error *err)
{
	struct restore_state *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int r;

	if (s == MAP_FAILED)
		return error_errno(err, ENOMEM, "restore the files");
	s->t = t;
	s->err = err;
	s->compare.all = true;
	s->roots[0] = t->root;
	t->removed = t->restored = t->changed = 0;
	r = restore_run(s);
	restore_links_free(s->links);
	(void)munmap(s, sizeof(*s));
	return r;
}
