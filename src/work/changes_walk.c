/* SPDX-License-Identifier: Apache-2.0 */
/*
 * changes_walk.c - walk through the directory of changes, and what is below it
 *
 * Three directories are walked at the same time: the changes (upper), what is hidden, and
 * the project (lower). Where upper has no directory, nothing has changed. Where it has a
 * whiteout, or a directory that is opaque, all files of the project are removed, and that
 * part of the project is walked.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "work/changes_internal.h"
#include "work/commits.h"
#include "work/files_internal.h"
#include "work/reach.h"

/* A directory that is listed as one change. */
struct walk_tree {
	size_t length; /* of its path; 0: there is none */
	size_t at;     /* the change; SIZE_MAX: it is not listed yet */
	bool ignored;
	mode_t old_mode, new_mode;
};

struct changes_walk {
	struct work *w;
	unsigned flags;
	struct ignore_filter filter;
	struct changes out;
	size_t cap;
	char path[PATH_MAX];
	size_t length;
	size_t depth;
	/* About the directory that the walk is in: */
	struct walk_tree tree;
	bool git;      /* it is in a git directory, */
	size_t git_at; /* whose path has this length, with the "/" */
	bool ignored;
	bool tracked; /* it is ignored, but has tracked files */
};

/* A directory on all three sides; -1: it does not exist there. */
struct walk_dirs {
	int upper, hide, lower;
	bool opaque;    /* lower is not visible to the sandbox */
	unsigned guard; /* of everything below */
	mode_t inherit; /* S_ISGID, if new directories get it from this one; or 0 */
};

/* What a directory has of an entry. */
struct walk_names {
	const char *name;
	const struct stat *upper, *lower; /* NULL: it does not exist */
	int upper_dir, lower_dir;
	unsigned guard;
	mode_t inherit; /* set-id bits that it has from its directory */
	bool replaces; /* CHANGE_TYPE lists it, so that it is not listed if it is empty */
};

/* ------------------------------------------------------------------- results */

static struct change *search_append(struct changes_walk *k, size_t length, int *ret)
{
	struct change *c;

	if (k->out.n >= CHANGES_MAX) {
		*ret = -E2BIG;
		return NULL;
	}
	if (k->out.n == k->cap) {
		size_t cap = k->cap ? k->cap * 2 : 64;

		c = reallocarray(k->out.v, cap, sizeof(*c));
		if (!c) {
			*ret = -ENOMEM;
			return NULL;
		}
		k->out.v = c;
		k->cap = cap;
	}
	c = &k->out.v[k->out.n];
	*c = (struct change){ .path = strndup(k->path, length) };
	if (!c->path) {
		*ret = -ENOMEM;
		return NULL;
	}
	k->out.n++;
	return c;
}

/* Count a change of the directory that is listed as one change. */
static int search_count(struct changes_walk *k, uint64_t size, unsigned guard)
{
	struct walk_tree *t = &k->tree;
	struct change *c;
	int r = 0;

	if (t->at == SIZE_MAX) {
		c = search_append(k, t->length, &r);
		if (!c)
			return r;
		t->at = k->out.n - 1;
		c->tree = true;
		c->ignored = t->ignored;
		c->old_mode = t->old_mode;
		c->new_mode = t->new_mode;
		c->kind = !t->old_mode   ? CHANGE_ADDED
			  : !t->new_mode ? CHANGE_REMOVED
					 : CHANGE_MODIFIED;
	}
	c = &k->out.v[t->at];
	c->n_files++;
	c->new_size += size;
	c->guard |= guard;
	return 0;
}

/* Is it a file with a name that is Warren's, or in such a directory? */
static bool search_is_own(const char *path)
{
	return strncmp(path, ".warren-", strlen(".warren-")) == 0 ||
	       strstr(path, "/.warren-") != NULL;
}

/* Is it a link, or a file that can be executed? */
static bool search_is_executable(const struct stat *st)
{
	return st &&
	       (S_ISLNK(st->st_mode) || (S_ISREG(st->st_mode) && (st->st_mode & 0111)));
}

/*
 * Could git execute the file, or read its configuration from it, because the user's
 * configuration names it?
 */
static bool search_is_named(const struct changes_walk *k, const struct walk_names *e)
{
	const struct git_named *named = &k->filter.named;

	return (named->n > 0 &&
		git_named_has(named, k->path, !e->upper || S_ISDIR(e->upper->st_mode),
			      search_is_executable(e->upper) ||
				      search_is_executable(e->lower))) ||
	       (named->unclear &&
		((e->upper && guard_is_program(e->upper_dir, e->name, e->upper)) ||
		 (e->lower && guard_is_program(e->lower_dir, e->name, e->lower))));
}

static unsigned search_guards(const struct changes_walk *k, const struct walk_names *e)
{
	unsigned guard = e->guard | (k->git ? GUARD_GIT : 0);

	if (guard_is_dotgit(e->name) || guard_is_git_link(e->name))
		guard |= GUARD_GIT;
	if (search_is_named(k, e))
		guard |= GUARD_GIT;
	if (search_is_own(k->path))
		guard |= GUARD_DEVICE;
	if (!e->upper || stat_is_whiteout(e->upper))
		return guard;
	if (S_ISREG(e->upper->st_mode) && (e->upper->st_mode & MODE_SET_ID))
		guard |= GUARD_SETID;
	if (S_ISDIR(e->upper->st_mode) && (e->upper->st_mode & MODE_SET_ID & ~e->inherit &
					   ~(e->lower ? e->lower->st_mode : 0)))
		guard |= GUARD_SETID;
	if (!S_ISREG(e->upper->st_mode) && !S_ISDIR(e->upper->st_mode) &&
	    !S_ISLNK(e->upper->st_mode))
		guard |= GUARD_DEVICE;
	return guard;
}

/* Is the entry part of a directory that is listed as one change? Then it is counted. */
static bool search_collapsed(const struct changes_walk *k)
{
	if ((k->flags & CHANGES_EXPAND) || k->tree.length == 0)
		return false;
	return !k->tree.ignored || !k->tracked;
}

/* Does the user have something at the path? Directories on both sides do no harm. */
static bool search_project_has(const struct changes_walk *k, bool dir)
{
	struct stat st;

	int r = beneath_stat(k->w->project_fd, k->path, &st);

	/* A file or a link may be above it. */
	return r == 0 ? !dir || !S_ISDIR(st.st_mode) : r == -ENOTDIR || r == -ELOOP;
}

/* Does the file in a repository determine which commits exist? */
static bool search_is_ref(const struct changes_walk *k)
{
	return guard_git_refs(k->path + k->git_at) ||
	       (strncmp(k->path, ".git/", 5) == 0 && work_commits_is_log(k->path + 5) &&
		work_commits_were_detached(k->w, k->path + 5));
}

/* Is the file one of a repository that is neither listed nor counted? */
static bool search_is_quiet(const struct changes_walk *k)
{
	const char *path = k->path + k->git_at;

	return k->git && k->tree.length > 0 && !(k->flags & CHANGES_EXPAND) &&
	       !k->tree.ignored && !guard_git_notable(path) && !search_is_ref(k);
}

static int changes_found(struct changes_walk *k, enum change_kind kind,
			 const struct walk_names *e, unsigned guard)
{
	const struct stat *old = e->lower, *new = e->upper && !stat_is_whiteout(e->upper)
							  ? e->upper
							  : NULL;
	bool ignored = false, dir = S_ISDIR((new ? new : old)->st_mode);
	struct change *c;
	int r = 0;

	guard |= search_guards(k, e);
	/* The project itself may be a repository: then each file is listed. */
	if (k->git && k->tree.length > 0 && !(k->flags & CHANGES_EXPAND) &&
	    !k->tree.ignored && !guard_git_notable(k->path + k->git_at))
		return search_is_ref(k)
			       ? search_count(k, new ? (uint64_t) new->st_size : 0, guard)
			       : 0;
	if (!k->git)
		ignored = (k->ignored || ignore_filter_has(&k->filter, k->path, dir)) &&
			  !(old && ignore_filter_tracked(&k->filter, k->path));
	if (k->ignored && (ignored || k->git) && k->tree.length > 0 && k->tree.ignored &&
	    !(k->flags & CHANGES_EXPAND))
		return search_count(k, new ? (uint64_t) new->st_size : 0, guard);
	c = search_append(k, k->length, &r);
	if (!c)
		return r;
	c->kind = kind;
	c->guard = guard;
	c->ignored = ignored || (k->ignored && k->git);
	c->inner = k->git && !guard_git_notable(k->path + k->git_at);
	c->old_mode = old ? old->st_mode : 0;
	c->new_mode = new ? new->st_mode : 0;
	if (old && new && (old->st_mode & S_IFMT) == (new->st_mode &S_IFMT)) {
		c->base_mode = known_mode(k->w, k->path, old);
		if (c->base_mode == c->new_mode)
			c->new_mode = c->old_mode; /* only the user changed it */
	}
	/* A bit that the file already had. */
	if (kind == CHANGE_MODE && !(c->new_mode & ~c->old_mode & MODE_SET_ID))
		c->guard &= ~(unsigned)GUARD_SETID;
	c->old_size = old && !S_ISDIR(old->st_mode) ? (uint64_t)old->st_size : 0;
	c->new_size = new && !S_ISDIR(new->st_mode) ? (uint64_t) new->st_size : 0;
	c->touched = old && (S_ISDIR(old->st_mode)
				     ? c->base_mode != c->old_mode && kind == CHANGE_MODE
				     : known_touched(k->w, k->path, old));
	c->unseen = !old && (guard & GUARD_HIDDEN) && search_project_has(k, dir);
	return 0;
}

/*
 * Did the sandbox change the mode of something that both sides have? Not if it has the
 * mode that was there before the user changed it.
 */
static bool search_mode_differs(struct changes_walk *k, const struct stat *old,
				const struct stat *new)
{
	return ((old->st_mode ^ new->st_mode) & 07777) &&
	       ((known_mode(k->w, k->path, old) ^ new->st_mode) & 07777);
}

/* Before an accept writes to the directory. */
static int search_note_mode(struct changes_walk *k, const struct walk_names *e)
{
	return k->w->lock_fd >= 0 ? known_note(k->w, k->path, e->lower) : 0;
}

/* --------------------------------------------------------------------- entries */

static int search_dir(struct changes_walk *k, const struct walk_dirs *d, size_t *ret_n);

/* Append @name to the path; false: it is too long. */
static bool search_push(struct changes_walk *k, const char *name)
{
	size_t n = strlen(name), slash = k->length > 0;

	if (k->length + slash + n >= sizeof(k->path)) {
		k->out.n_skipped++;
		return false;
	}
	if (slash)
		k->path[k->length] = '/';
	(void)memcpy(k->path + k->length + slash, name, n + 1);
	k->length += slash + n;
	return true;
}

static void search_pop(struct changes_walk *k, size_t length)
{
	k->length = length;
	k->path[length] = '\0';
}

static int search_open(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Note whether the directory at the path is ignored, or a repository's. */
static void search_special(struct changes_walk *k, const char *name, mode_t old,
			   mode_t new)
{
	struct walk_tree tree = {
		.length = k->length, .at = SIZE_MAX, .old_mode = old, .new_mode = new
	};

	if (!k->git && guard_is_dotgit(name)) {
		k->git = true;
		k->git_at = k->length + (k->length > 0);
		if (!k->ignored)
			k->tree = tree;
		return;
	}
	if (k->git || k->ignored || !ignore_filter_has(&k->filter, k->path, true))
		return;
	k->ignored = tree.ignored = true;
	k->tracked = ignore_filter_tracked(&k->filter, k->path);
	k->tree = tree;
}

/* Would the directory have this entry, if some of the changes were accepted? */
static bool search_may_have(const struct walk_dirs *d, const char *name)
{
	struct stat st;

	return (d->upper >= 0 && fstatat(d->upper, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		!stat_is_whiteout(&st)) ||
	       (d->lower >= 0 && fstatat(d->lower, name, &st, AT_SYMLINK_NOFOLLOW) == 0);
}

/*
 * Could git use the directory as a repository? With a file "commondir", the rest of the
 * repository is in another directory.
 */
static bool search_is_bare(const struct walk_dirs *d)
{
	return search_may_have(d, "HEAD") &&
	       (search_may_have(d, "commondir") ||
		(search_may_have(d, "objects") && search_may_have(d, "refs")));
}

/* Does the user have a repository in the directory? */
static bool search_has_repository(const struct walk_dirs *d)
{
	struct stat st;

	return d->lower >= 0 &&
	       (fstatat(d->lower, ".git", &st, AT_SYMLINK_NOFOLLOW) == 0 ||
		(fstatat(d->lower, "HEAD", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		 fstatat(d->lower, "config", &st, AT_SYMLINK_NOFOLLOW) == 0));
}

/* What the kernel gives to new directories in a directory of the project. */
static mode_t search_inherit(const struct walk_dirs *d, const struct stat *old)
{
	return old ? old->st_mode & S_ISGID : d->inherit;
}

/*
 * Is it a new directory whose mode must be listed separately from its files? It must if
 * all users could write to it, or if it has a set-id bit that it would not inherit.
 */
static bool search_has_odd_mode(const struct walk_names *e, const struct stat *old,
				const struct stat *new)
{
	return new && !old && !e->replaces &&
	       (new->st_mode &(S_IWOTH | (MODE_SET_ID & ~e->inherit)));
}

/*
 * Walk through a directory of one or more sides; it is listed itself if it is empty, or
 * has an unusual mode.
 */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as CHANGES_DEPTH_MAX */
static int search_subdir(struct changes_walk *k, const struct walk_dirs *d,
			 const struct walk_names *e)
{
	const struct stat *old = e->lower && S_ISDIR(e->lower->st_mode) ? e->lower : NULL,
			  *new = e->upper &&S_ISDIR(e->upper->st_mode) ? e->upper : NULL;
	const struct walk_tree tree = k->tree;
	const size_t git_at = k->git_at;
	const bool git = k->git, ignored = k->ignored, tracked = k->tracked;
	AUTO_CLOSE int upper = -1, lower = -1, hide = -1;
	bool listed;
	size_t n = 0;
	int r = 0;

	if (k->depth >= CHANGES_DEPTH_MAX) {
		k->out.n_skipped++;
		return 0;
	}
	if (new)
		upper = search_open(d->upper, e->name);
	if (old)
		lower = search_open(d->lower, e->name);
	if (d->hide >= 0)
		hide = search_open(d->hide, e->name);
	if (new &&upper < 0)
		return upper;
	/* Otherwise, all that is in it would look new. */
	if (new &&lower == -EACCES)
		return lower;
	if (!new &&lower < 0) {
		k->out.n_skipped++;
		return 0;
	}
	search_special(k, e->name, old ? old->st_mode : 0, new ? new->st_mode : 0);
	k->depth++;
	r = search_dir(k,
		       &(struct walk_dirs){ upper, hide, lower,
					    d->opaque || (new &&dir_is_opaque(upper)),
					    e->guard, search_inherit(d, old) },
		       &n);
	k->depth--;
	listed = k->tree.length == k->length && k->tree.at != SIZE_MAX;
	if (k->tree.length != tree.length)
		k->tree = tree;
	k->git = git;
	k->git_at = git_at;
	k->ignored = ignored;
	k->tracked = tracked;
	if (r == 0 && n == 0 && !(old && new) && !e->replaces)
		r = changes_found(k, new ? CHANGE_ADDED : CHANGE_REMOVED, e, e->guard);
	else if (r == 0 && !listed && !search_collapsed(k) &&
		 search_has_odd_mode(e, old, new))
		r = changes_found(k, CHANGE_ADDED, e, e->guard);
	if (r == 0 && old && new && !search_collapsed(k))
		r = search_note_mode(k, e);
	/* If it is listed as one change, that has the mode, too. */
	if (r == 0 && old && new && !listed && search_mode_differs(k, old, new))
		r = changes_found(k, CHANGE_MODE, e, e->guard);
	return r;
}

static int search_file(struct changes_walk *k, const struct walk_dirs *d,
		       const struct walk_names *e)
{
	const struct change_at old = { .dir = d->lower,
				       .name = e->name,
				       .st = e->lower ? *e->lower : (struct stat){ 0 } },
			       new = { .dir = d->upper,
				       .name = e->name,
				       .st = *e->upper };
	unsigned guard = 0;
	int same;

	if (S_ISLNK(e->upper->st_mode)) {
		AUTO_FREE char *target = NULL;
		size_t n;
		int r = link_read(d->upper, e->name, &target, &n);

		if (r < 0)
			return r;
		guard = guard_link_out(k->path, target) ? GUARD_LINK_OUT : 0;
	}
	if (!e->lower)
		return changes_found(k, CHANGE_ADDED, e, guard);
	if ((e->lower->st_mode & S_IFMT) != (e->upper->st_mode & S_IFMT))
		return changes_found(k, CHANGE_TYPE, e, guard);
	same = search_is_quiet(k) ? 0 : change_same(&old, &new);
	/* One that cannot be read differs; the others in the directory are counted. */
	if (same < 0 && same != -ENOMEM && search_collapsed(k))
		same = 0;
	if (same < 0)
		return same;
	if (!search_collapsed(k)) {
		int r = search_note_mode(k, e);

		if (r < 0)
			return r;
	}
	if (same &&
	    !(S_ISREG(e->upper->st_mode) && search_mode_differs(k, e->lower, e->upper)))
		return 0;
	return changes_found(k, same ? CHANGE_MODE : CHANGE_MODIFIED, e, guard);
}

/* An entry of the project that the sandbox no longer sees. */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as CHANGES_DEPTH_MAX */
static int search_removed(struct changes_walk *k, const struct walk_dirs *d,
			  const struct walk_names *e)
{
	const struct walk_dirs below = { -1, d->hide, d->lower, true, d->guard, 0 };
	const struct walk_names gone = { .name = e->name,
					 .lower = e->lower,
					 .upper_dir = -1,
					 .lower_dir = e->lower_dir,
					 .guard = d->guard,
					 .replaces = e->upper &&
						     !stat_is_whiteout(e->upper) };

	if (S_ISDIR(e->lower->st_mode))
		return search_subdir(k, &below, &gone);
	return changes_found(k, CHANGE_REMOVED, &gone, 0);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as CHANGES_DEPTH_MAX */
static int search_entry(struct changes_walk *k, const struct walk_dirs *d,
			const struct walk_names *e)
{
	struct walk_names only;
	int r;

	if (!e->upper || stat_is_whiteout(e->upper))
		return e->lower ? search_removed(k, d, e) : 0;
	if (!S_ISDIR(e->upper->st_mode)) {
		/* The directory's files are removed, too. */
		r = e->lower && S_ISDIR(e->lower->st_mode) ? search_removed(k, d, e) : 0;
		return r < 0 ? r : search_file(k, d, e);
	}
	if (e->lower && !S_ISDIR(e->lower->st_mode)) {
		r = changes_found(k, CHANGE_TYPE, e, e->guard);
		only = *e;
		only.lower = NULL;
		only.replaces = true;
		return r < 0 ? r : search_subdir(k, d, &only);
	}
	return search_subdir(k, d, e);
}

/* ------------------------------------------------------------------ directories */

static bool search_stat(int dir, const char *name, struct stat *ret)
{
	return dir >= 0 && fstatat(dir, name, ret, AT_SYMLINK_NOFOLLOW) == 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as CHANGES_DEPTH_MAX */
static int search_one(struct changes_walk *k, const struct walk_dirs *d, const char *name,
		      size_t *ret_n)
{
	struct stat upper, lower, hide, here;
	struct walk_names e = { .name = name,
				.upper_dir = d->upper,
				.lower_dir = d->lower,
				.guard = d->guard,
				.inherit = d->inherit };
	size_t length = k->length;
	int r;

	if (search_stat(d->upper, name, &upper)) {
		reach_mode(k->w, d->upper, name, &upper);
		e.upper = &upper;
	}
	if (search_stat(d->lower, name, &lower))
		e.lower = &lower;
	if (search_stat(d->hide, name, &hide) && stat_is_whiteout(&hide)) {
		/* The sandbox never saw it. */
		e.lower = NULL;
		e.guard |= GUARD_HIDDEN;
	}
	/* The sandbox does not see other mounts, but what is below them. */
	if (e.lower && S_ISDIR(lower.st_mode) && fstat(d->lower, &here) == 0 &&
	    here.st_dev != lower.st_dev)
		e.lower = NULL;
	if (!e.upper && !e.lower)
		return 0;
	if (!e.upper || !stat_is_whiteout(e.upper))
		++*ret_n;
	if (!search_push(k, name))
		return 0;
	r = search_entry(k, d, &e);
	search_pop(k, length);
	return r;
}

/* @all: also the entries that upper has. */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as CHANGES_DEPTH_MAX */
static int search_names_of(struct changes_walk *k, const struct walk_dirs *d, int fd,
			   bool all, size_t *ret_n)
{
	AUTO_FREE struct dir_reader *reader = calloc(1, sizeof(*reader));
	const struct dir_entry *e;
	struct stat st;
	size_t ignored = 0;
	int r;

	if (!reader)
		return -ENOMEM;
	reader->fd = fd;
	while ((r = dir_next(reader, &e)) > 0) {
		if (!all && search_stat(d->upper, e->name, &st))
			continue;
		r = search_one(k, d, e->name, all || d->upper < 0 ? ret_n : &ignored);
		if (r < 0)
			return r;
	}
	return r;
}

/* *@ret_n is the number of entries that the sandbox sees; without upper, that it saw. */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as CHANGES_DEPTH_MAX */
static int search_dir(struct changes_walk *k, const struct walk_dirs *d, size_t *ret_n)
{
	size_t at = k->length + (k->length > 0);
	int r = 0;

	if (!k->git && search_is_bare(d)) {
		struct stat st;

		search_special(
			k, ".git",
			d->lower >= 0 && fstat(d->lower, &st) == 0 ? st.st_mode : 0,
			d->upper >= 0 && fstat(d->upper, &st) == 0 ? st.st_mode : 0);
	}
	/* The user may have made it since the work began. */
	if (!k->git && k->length > 0 && search_has_repository(d)) {
		r = ignore_filter_repository(&k->filter, k->path);
		if (r < 0)
			return r;
	}
	r = ignore_filter_enter(&k->filter, at, k->git ? -1 : d->upper,
				k->git ? -1 : d->lower);
	if (r == 0 && d->upper >= 0)
		r = search_names_of(k, d, d->upper, true, ret_n);
	if (r == 0 && d->lower >= 0 && (d->upper < 0 || d->opaque))
		r = search_names_of(k, d, d->lower, false, ret_n);
	ignore_filter_leave(&k->filter);
	return r;
}

/* The limit of an ordinary process is too low for a deep tree. */
static void search_raise_fds(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static void changes_walk_free(struct changes_walk *k)
{
	changes_done(&k->out);
	free(k);
}

/* @drop: the sandbox's .gitignore files do not count. */
static int search_all(struct changes_walk *k, const struct walk_dirs *top, bool drop)
{
	size_t n = 0;
	int r;

	k->tree.at = SIZE_MAX;
	/* A walk before this one may have read them. */
	if (lseek(top->upper, 0, SEEK_SET) < 0 || lseek(top->lower, 0, SEEK_SET) < 0)
		return -errno;
	r = ignore_filter_begin(&k->filter, k->w, drop);
	if (r == 0)
		r = search_dir(k, top, &n);
	if (r == 0 && k->filter.theirs == 0)
		r = -ECANCELED;
	k->out.patterns = k->filter.yours == 0 ? PATTERNS_UNKNOWN
			  : drop               ? PATTERNS_YOURS
					       : PATTERNS_ALL;
	ignore_filter_done(&k->filter);
	return r;
}

static int search_failed(struct changes_walk *k, int r, struct warren_error *err)
{
	if (r == -E2BIG)
		return error_set(err, E2BIG, "the sandbox changed more than %zu files",
				 CHANGES_MAX);
	return error_errno(err, -r, "read the change at '%s'", k->path);
}

int changes_walk(struct work *w, int upper, int hide, int lower, unsigned flags,
		 struct changes *ret, struct warren_error *err)
{
	struct walk_dirs top = { upper, hide, lower, dir_is_opaque(upper), 0, 0 };
	struct changes_walk *k = NULL;
	struct stat st;
	int r = -ECANCELED;

	if (fstat(lower, &st) == 0)
		top.inherit = st.st_mode & S_ISGID;
	search_raise_fds();
	for (int drop = 0; r == -ECANCELED && drop < 2; drop++) {
		if (k)
			changes_walk_free(k);
		k = calloc(1, sizeof(*k));
		if (!k)
			return error_errno(err, ENOMEM, "search for changes");
		k->w = w;
		k->flags = flags;
		r = search_all(k, &top, drop > 0);
	}
	if (r < 0) {
		r = search_failed(k, r, err);
	} else {
		*ret = k->out;
		k->out = (struct changes){ 0 };
	}
	changes_walk_free(k);
	return r;
}
