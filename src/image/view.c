/* SPDX-License-Identifier: Apache-2.0 */
/* view.c - look up paths in stacked layers */
#include "image/view.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/fd.h"
#include "base/strv.h"
#include "image/base_layer.h"

#define VIEW_LINKS_MAX   40
#define VIEW_ENTRIES_MAX 4000000

void view_close(struct view *v)
{
	for (size_t i = 0; i < v->n; i++)
		if (v->dirs[i] >= 0)
			(void)close(v->dirs[i]);
	free(v->dirs);
	*v = (struct view){ 0 };
}

static int view_add(struct view *v, int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	v->dirs[v->n++] = fd;
	return 0;
}

/* The base that the layers are stacked on; none if it is "". */
static int view_add_base(struct view *v, const struct store *s, const char *base,
			 struct warren_error *err)
{
	AUTO_FREE char *state = NULL, *path = NULL;
	int r;

	if (!base || !base[0])
		return 0;
	if (store_daemon_image(base))
		return store_refuse_daemon(err);
	if (strcmp(base, "host") != 0) {
		r = view_add(v, AT_FDCWD, base + strlen("dir:"));
		return r < 0 ? error_errno(err, -r, "open '%s'", base) : 0;
	}
	state = strndup(s->path, strlen(s->path) - strlen("/layers/d"));
	if (!state)
		return error_errno(err, ENOMEM, "open the base of the image");
	r = skel_open(SKEL_HOST, state, &v->dirs[v->n], &path, err);
	v->n += r == 0;
	return r;
}

int view_open(const struct store *s, const struct store_image *image, int top,
	      struct view *ret, struct warren_error *err)
{
	size_t n = strv_len((union strv){ image->layers });
	struct view v = { .dirs = calloc(n + 2, sizeof(int)) };
	int r = v.dirs ? 0 : -ENOMEM;

	if (r == 0 && top >= 0)
		r = view_add(&v, top, ".");
	while (r == 0 && n-- > 0) {
		char name[STORE_SHORT_LEN + 1];

		r = store_layer(s, image->layers[n], name);
		if (r == 0)
			r = view_add(&v, s->data, name);
	}
	if (r < 0)
		r = error_errno(err, -r, "open the layers of the image");
	else
		r = view_add_base(&v, s, image->base, err);
	if (r < 0) {
		view_close(&v);
		return r;
	}
	*ret = v;
	return 0;
}

int view_open_plain(int dir, struct view *ret)
{
	struct view v = { .dirs = calloc(1, sizeof(int)), .plain = true };
	int r = v.dirs ? view_add(&v, dir, ".") : -ENOMEM;

	if (r < 0)
		view_close(&v);
	else
		*ret = v;
	return r;
}

int view_open_under(int dir, int layer, struct view *ret)
{
	struct view v = { .dirs = calloc(2, sizeof(int)) };
	int r = v.dirs ? view_add(&v, layer, ".") : -ENOMEM;

	if (r == 0)
		r = view_add(&v, dir, ".");
	if (r < 0)
		view_close(&v);
	else
		*ret = v;
	return r;
}

/* ------------------------------------------------------------------ lookup */

static bool view_whiteout(const struct view *v, const struct stat *st)
{
	return !v->plain && S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

static bool view_opaque(const struct view *v, int dir)
{
	char value[2];

	return !v->plain &&
	       fgetxattr(dir, "user.overlay.opaque", value, sizeof(value)) == 1 &&
	       value[0] == 'y';
}

/* What one layer says about a path. */
enum view_answer {
	VIEW_FOUND,
	VIEW_BELOW, /* nothing: lower layers decide */
	VIEW_GONE,  /* it does not exist, whatever lower layers have */
};

struct view_walk {
	int dir; /* the directory that the last component is in; -1: none */
	char base[NAME_MAX + 1];
	struct stat st;
	bool opaque; /* a directory on the way hides lower layers */
};

static void view_walk_done(struct view_walk *w)
{
	if (w->dir >= 0)
		(void)close(w->dir);
	w->dir = -1;
}

/* Enter the directory w->base; its parent is closed. */
static int view_enter(const struct view *v, struct view_walk *w)
{
	int fd = openat(w->dir, w->base,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	(void)close(w->dir);
	w->dir = fd;
	w->opaque |= view_opaque(v, fd);
	return 0;
}

/* Look at w->base. -errno, or enum view_answer. */
static int view_look(const struct view *v, struct view_walk *w)
{
	if (fstatat(w->dir, w->base, &w->st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno != ENOENT)
			return -errno;
		return w->opaque ? VIEW_GONE : VIEW_BELOW;
	}
	return view_whiteout(v, &w->st) ? VIEW_GONE : VIEW_FOUND;
}

/* Walk @path in layer @layer. @w must be closed by view_walk_done(). */
static int view_walk(const struct view *v, size_t layer, const char *path,
		     struct view_walk *w)
{
	*w = (struct view_walk){ .base = "." };
	w->dir = openat(v->dirs[layer], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (w->dir < 0)
		return -errno;
	if (!*path)
		return view_look(v, w);
	while (*path) {
		size_t n = strcspn(path, "/");
		int r;

		if (n > NAME_MAX)
			return -ENAMETOOLONG;
		(void)memcpy(w->base, path, n);
		w->base[n] = '\0';
		path += n + (path[n] == '/');
		r = view_look(v, w);
		if (r != VIEW_FOUND || !*path)
			return r;
		if (!S_ISDIR(w->st.st_mode))
			return VIEW_GONE;
		r = view_enter(v, w);
		if (r < 0)
			return r;
	}
	return VIEW_GONE;
}

int view_stat(const struct view *v, const char *path, struct stat *ret, size_t *ret_layer)
{
	for (size_t i = 0; i < v->n; i++) {
		struct view_walk w;
		int r = view_walk(v, i, path, &w);

		view_walk_done(&w);
		if (r < 0)
			return r;
		if (r == VIEW_GONE)
			return -ENOENT;
		if (r == VIEW_FOUND) {
			*ret = w.st;
			if (ret_layer)
				*ret_layer = i;
			return 0;
		}
	}
	return -ENOENT;
}

int view_open_in(const struct view *v, size_t layer, const char *path)
{
	struct view_walk w;
	int r = view_walk(v, layer, path, &w), fd = -ENOENT;

	if (r < 0)
		fd = r;
	else if (r == VIEW_FOUND && (S_ISREG(w.st.st_mode) || S_ISDIR(w.st.st_mode))) {
		fd = openat(w.dir, w.base,
			    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0)
			fd = -errno;
	}
	view_walk_done(&w);
	return fd;
}

int view_readlink(const struct view *v, size_t layer, const char *path, char **ret)
{
	char target[PATH_MAX];
	struct view_walk w;
	int r = view_walk(v, layer, path, &w);
	ssize_t n = -1;

	if (r == VIEW_FOUND) {
		n = readlinkat(w.dir, w.base, target, sizeof(target));
		r = n < 0 ? -errno : 0;
	} else if (r >= 0) {
		r = -ENOENT;
	}
	view_walk_done(&w);
	if (r < 0)
		return r;
	*ret = strndup(target, (size_t)n);
	return *ret ? 0 : -ENOMEM;
}

/* -------------------------------------------------------------------- links */

struct view_resolve_op {
	const struct view *v;
	char done[PATH_MAX]; /* without links */
	char *rest;          /* to be resolved; owned */
	unsigned links;
	bool missing; /* the end of `done` does not exist */
};

static void view_pop(char *path)
{
	char *slash = strrchr(path, '/');

	*(slash ? slash : path) = '\0';
}

/* A link is at the end of `done`: put its target before the rest. */
static int view_follow(struct view_resolve_op *op, size_t layer)
{
	AUTO_FREE char *target = NULL;
	char *joined = NULL;
	int r;

	if (++op->links > VIEW_LINKS_MAX)
		return -ELOOP;
	r = view_readlink(op->v, layer, op->done, &target);
	if (r < 0)
		return r;
	if (asprintf(&joined, "%s/%s", target, op->rest) < 0)
		return -ENOMEM;
	free(op->rest);
	op->rest = joined;
	view_pop(op->done);
	if (target[0] == '/')
		op->done[0] = '\0';
	return strlen(joined) > 2UL * PATH_MAX ? -ENAMETOOLONG : 0;
}

/* One component of op->rest, which has @n bytes and is not "..". */
static int view_step(struct view_resolve_op *op, size_t n, bool last)
{
	size_t len = strlen(op->done), layer = 0;
	bool more = op->rest[n + strspn(op->rest + n, "/")] != '\0';
	struct stat st = { 0 };
	int r;

	if (len + n + 2 > sizeof(op->done) || n > NAME_MAX)
		return -ENAMETOOLONG;
	(void)snprintf(op->done + len, sizeof(op->done) - len, "%s%.*s", len ? "/" : "",
		       (int)n, op->rest);
	(void)memmove(op->rest, op->rest + n, strlen(op->rest + n) + 1);
	if (op->missing)
		return 0;
	r = view_stat(op->v, op->done, &st, &layer);
	if (r == -ENOENT) {
		op->missing = true;
		return 0;
	}
	if (r < 0)
		return r;
	if (S_ISLNK(st.st_mode) && (more || last))
		return view_follow(op, layer);
	return more && !S_ISDIR(st.st_mode) ? -ENOTDIR : 0;
}

int view_resolve(const struct view *v, const char *path, bool last, char **ret_path)
{
	struct view_resolve_op op = { .v = v, .rest = strdup(path) };
	int r = op.rest ? 0 : -ENOMEM;

	while (r == 0) {
		size_t skip = strspn(op.rest, "/"), n;

		(void)memmove(op.rest, op.rest + skip, strlen(op.rest + skip) + 1);
		n = strcspn(op.rest, "/");
		if (n == 0)
			break;
		if (n == 1 && op.rest[0] == '.') {
			(void)memmove(op.rest, op.rest + 1, strlen(op.rest + 1) + 1);
		} else if (n == 2 && strncmp(op.rest, "..", 2) == 0) {
			view_pop(op.done);
			(void)memmove(op.rest, op.rest + 2, strlen(op.rest + 2) + 1);
			/* What remains may exist. */
			if (op.missing) {
				struct stat st;

				op.missing = view_stat(v, op.done, &st, NULL) < 0;
			}
		} else {
			r = view_step(&op, n, last);
		}
	}
	free(op.rest);
	if (r < 0)
		return r;
	*ret_path = strdup(op.done);
	return *ret_path ? !op.missing : -ENOMEM;
}

/* ----------------------------------------------------------------- contents */

struct view_names {
	struct view_name {
		char *name;
		size_t layer;
		bool whiteout;
	} * v;
	size_t n, cap;
};

static int view_names_add(struct view_names *names, const char *name, size_t layer,
			  bool whiteout)
{
	if (names->n == VIEW_ENTRIES_MAX)
		return -E2BIG;
	if (names->n == names->cap) {
		size_t cap = names->cap ? names->cap * 2 : 64;
		void *grown = reallocarray(names->v, cap, sizeof(*names->v));

		if (!grown)
			return -ENOMEM;
		names->v = grown;
		names->cap = cap;
	}
	names->v[names->n] = (struct view_name){ strdup(name), layer, whiteout };
	return names->v[names->n++].name ? 0 : -ENOMEM;
}

static int view_read_dir(const struct view *v, size_t layer, int dir,
			 struct view_names *names)
{
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;

	if (!d) {
		r = -errno;
		close_p(&copy);
		return r;
	}
	while (r == 0 && (errno = 0, e = readdir(d))) {
		struct stat st = { 0 };

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (e->d_type == DT_CHR || e->d_type == DT_UNKNOWN)
			(void)fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW);
		r = view_names_add(names, e->d_name, layer, view_whiteout(v, &st));
	}
	if (r == 0 && errno)
		r = -errno;
	(void)closedir(d);
	return r;
}

/* By name, then the highest layer first. */
static int view_compare(const void *a, const void *b)
{
	const struct view_name *x = a, *y = b;
	int c = strcmp(x->name, y->name);

	return c ? c : x->layer < y->layer ? -1 : x->layer > y->layer;
}

/* The first of each name counts. */
static int view_unique(struct view_names *names, char ***ret)
{
	char **list = calloc(names->n + 1, sizeof(*list));
	const char *last = NULL;
	size_t n = 0;

	if (!list)
		return -ENOMEM;
	if (names->n > 0)
		qsort(names->v, names->n, sizeof(*names->v), view_compare);
	for (size_t i = 0; i < names->n; i++) {
		bool again = last && strcmp(last, names->v[i].name) == 0;

		last = names->v[i].name;
		if (again || names->v[i].whiteout)
			continue;
		list[n] = strdup(last);
		if (!list[n++]) {
			(void)strv_free(list);
			return -ENOMEM;
		}
	}
	*ret = list;
	return 0;
}

/* Collect the names of one layer. Returns whether lower layers count, or -errno. */
static int view_list_layer(const struct view *v, size_t layer, const char *path,
			   struct view_names *names)
{
	struct view_walk w;
	int r = view_walk(v, layer, path, &w);

	if (r == VIEW_FOUND && !S_ISDIR(w.st.st_mode))
		r = VIEW_GONE;
	if (r == VIEW_FOUND) {
		r = view_enter(v, &w);
		if (r == 0)
			r = view_read_dir(v, layer, w.dir, names);
		if (r == 0)
			r = !w.opaque;
	} else if (r >= 0) {
		r = r == VIEW_BELOW;
	}
	view_walk_done(&w);
	return r;
}

int view_list(const struct view *v, const char *path, char ***ret)
{
	struct view_names names = { 0 };
	int r = 1;

	for (size_t i = 0; r > 0 && i < v->n; i++)
		r = view_list_layer(v, i, path, &names);
	if (r >= 0)
		r = view_unique(&names, ret);
	for (size_t i = 0; i < names.n; i++)
		free(names.v[i].name);
	free(names.v);
	return r;
}

int view_read(const struct view *v, const char *path, size_t max, char **ret,
	      size_t *ret_size)
{
	AUTO_FREE char *resolved = NULL, *text = NULL;
	AUTO_CLOSE int fd = -1;
	struct stat st;
	size_t layer;
	ssize_t n;
	int r = view_resolve(v, path, true, &resolved);

	if (r == 0)
		return -ENOENT;
	if (r > 0)
		r = view_stat(v, resolved, &st, &layer);
	if (r < 0)
		return r;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	fd = view_open_in(v, layer, resolved);
	text = malloc(max + 1);
	if (fd < 0 || !text)
		return fd < 0 ? fd : -ENOMEM;
	n = fd_read_all(fd, text, max + 1);
	if (n < 0)
		return (int)n;
	if ((size_t)n > max)
		return -EFBIG;
	text[n] = '\0';
	*ret = TAKE_PTR(text);
	*ret_size = (size_t)n;
	return 0;
}
