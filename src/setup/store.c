/* SPDX-License-Identifier: Apache-2.0 */
/* store.c - keep ready layers, find and remove them */
#include "setup/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/fd.h"
#include "base/hex.h"
#include "base/json.h"
#include "base/strv.h"
#include "base/userdirs.h"
#include "os/tree_remove.h"

#define RECORD_NAME "record"
#define RECORD_MAX  (1 << 20)
#define PREFIX_MIN  4

int setup_store_open(const char *state_dir, struct setup_store *ret,
		     struct warren_error *err)
{
	AUTO_FREE char *dir = NULL, *path = NULL;
	AUTO_CLOSE int fd = -1;
	int r = 0;

	if (!state_dir) {
		r = state_dir_default(&dir, err);
		state_dir = dir;
	}
	if (r < 0)
		return r;
	if (asprintf(&path, "%s/setups", state_dir) < 0) {
		path = NULL;
		return error_errno(err, ENOMEM, "open the store of setups");
	}
	r = fd_make_dirs(path, 0700);
	if (r < 0)
		return error_errno(err, -r, "create %s", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return error_errno(err, errno, "open %s", path);
	*ret = (struct setup_store){ .fd = TAKE_FD(fd), .path = TAKE_PTR(path) };
	return 0;
}

void setup_store_close(struct setup_store *s)
{
	if (s->fd >= 0)
		(void)close(s->fd);
	free(s->path);
	*s = (struct setup_store){ .fd = -1 };
}

/* ------------------------------------------------------------------ record */

static int layer_write(const struct setup_layer *l, int dir, struct warren_error *err)
{
	struct buf AUTO_BUF out = BUF_INIT(RECORD_MAX);
	struct json j = { .out = &out };
	AUTO_CLOSE int fd = -1;
	int r;

	json_open(&j, NULL, '{');
	json_str(&j, "base", l->base);
	json_str(&j, "project", l->project);
	json_str(&j, "image", l->image);
	json_u64(&j, "created_ms", l->created_ms);
	json_u64(&j, "took_ms", l->took_ms);
	json_bool(&j, "part", l->part);
	json_open(&j, "steps", '[');
	for (char **v = l->steps; v && *v; v++)
		json_str(&j, NULL, *v);
	json_close(&j, ']');
	json_close(&j, '}');
	if (out.failed)
		return error_errno(err, ENOMEM, "record the setup");
	fd = openat(dir, RECORD_NAME, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : fd_write_all(fd, out.data, out.len);
	return r < 0 ? error_errno(err, -r, "record the setup") : 0;
}

static void layer_digits(const json_t *root, const char *name, char *ret)
{
	const char *text = json_string_value(json_object_get(root, name));

	(void)snprintf(ret, SHA256_DIGITS + 1, "%s",
		       text && hex_is(text, SHA256_DIGITS) ? text : "");
}

static char *layer_text(const json_t *root, const char *name)
{
	const char *text = json_string_value(json_object_get(root, name));

	return strdup(text ? text : "");
}

static int layer_read(int dir, struct setup_layer *l)
{
	AUTO_FREE char *text = malloc(RECORD_MAX);
	json_t *root, *step;
	size_t i;
	ssize_t n = text ? fd_read_file_at(dir, RECORD_NAME, text, RECORD_MAX) : -ENOMEM;
	int r = 0;

	if (n < 0)
		return (int)n;
	root = json_loadb(text, (size_t)n, 0, NULL);
	if (!root)
		return -EBADMSG;
	layer_digits(root, "base", l->base);
	l->project = layer_text(root, "project");
	l->image = layer_text(root, "image");
	l->created_ms = (uint64_t)json_integer_value(json_object_get(root, "created_ms"));
	l->took_ms = (uint64_t)json_integer_value(json_object_get(root, "took_ms"));
	l->part = json_is_true(json_object_get(root, "part"));
	json_array_foreach(json_object_get(root, "steps"), i,
			   step) if (r == 0 && json_is_string(step)) r =
		strv_add(&l->steps, json_string_value(step));
	json_decref(root);
	return l->project && l->image ? r : -ENOMEM;
}

void setup_layer_done(struct setup_layer *l)
{
	if (l->lock >= 0)
		(void)close(l->lock);
	free(l->project);
	free(l->image);
	(void)strv_free(l->steps);
	*l = (struct setup_layer){ .lock = -1 };
}

/* ----------------------------------------------------------------- layers */

/* Is the descriptor still the directory @key? Another process may have replaced it. */
static bool store_is_current(const struct setup_store *s, const char *key, int fd)
{
	struct stat mine, there;

	return fstat(fd, &mine) == 0 &&
	       fstatat(s->fd, key, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

/* Open a layer, and lock it with @operation of flock(2). */
static int store_open_layer(const struct setup_store *s, const char *key, int operation)
{
	for (;;) {
		AUTO_CLOSE int fd = openat(
			s->fd, key, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

		if (fd < 0)
			return -errno;
		if (flock(fd, operation) < 0)
			return -errno;
		if (store_is_current(s, key, fd))
			return TAKE_FD(fd);
	}
}

int setup_store_use(const struct setup_store *s, const char *key, struct setup_layer *ret,
		    struct warren_error *err)
{
	struct setup_layer l = { .lock = -1 };
	int r;

	if (!hex_is(key, SHA256_DIGITS))
		return error_set(err, ENOENT, "'%s' is not the key of a setup", key);
	l.lock = store_open_layer(s, key, LOCK_SH);
	r = l.lock < 0 ? l.lock : layer_read(l.lock, &l);
	if (r < 0) {
		setup_layer_done(&l);
		return error_errno(err, -r, "setup %.12s", key);
	}
	(void)strcpy(l.key, key);
	*ret = l;
	return 0;
}

static int store_compare(const void *a, const void *b)
{
	const struct setup_layer *x = a, *y = b;

	return x->created_ms < y->created_ms ? 1 : x->created_ms > y->created_ms ? -1 : 0;
}

void setup_store_list_done(struct setup_layer *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		setup_layer_done(&v[i]);
	free(v);
}

int setup_store_list(const struct setup_store *s, struct setup_layer **ret, size_t *ret_n,
		     struct warren_error *err)
{
	struct setup_layer *v = NULL;
	const struct dirent *e;
	size_t n = 0;
	int fd = openat(s->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d) {
		if (fd >= 0)
			(void)close(fd);
		return error_errno(err, errno, "read %s", s->path);
	}
	while ((e = readdir(d))) {
		struct warren_error ignored = WARREN_ERROR_INIT;
		struct setup_layer l = { .lock = -1 }, *more;

		if (!hex_is(e->d_name, SHA256_DIGITS) ||
		    setup_store_use(s, e->d_name, &l, &ignored) < 0)
			continue;
		/* Only what is in use has to stay locked. */
		(void)close(l.lock);
		l.lock = -1;
		more = reallocarray(v, n + 1, sizeof(*v));
		if (!more) {
			setup_layer_done(&l);
			setup_store_list_done(v, n);
			(void)closedir(d);
			return error_errno(err, ENOMEM, "read %s", s->path);
		}
		v = more;
		v[n++] = l;
	}
	(void)closedir(d);
	if (n > 0)
		qsort(v, n, sizeof(*v), store_compare);
	*ret = v;
	*ret_n = n;
	return 0;
}

int setup_store_find(const struct setup_store *s, const char *prefix,
		     char ret[SHA256_DIGITS + 1], struct warren_error *err)
{
	struct setup_layer *v = NULL;
	size_t n = 0, matches = 0;
	int r = setup_store_list(s, &v, &n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if (strlen(prefix) >= PREFIX_MIN &&
		    strncmp(v[i].key, prefix, strlen(prefix)) == 0) {
			(void)strcpy(ret, v[i].key);
			matches++;
		}
	setup_store_list_done(v, n);
	if (matches == 0)
		return error_set(err, ENOENT,
				 "there is no setup '%s' ('warren setup ls' lists them)",
				 prefix);
	if (matches > 1)
		return error_set(err, ENOTUNIQ,
				 "'%s' is ambiguous (%zu matches); use more of the key",
				 prefix, matches);
	return 0;
}

/* ---------------------------------------------------------------- removal */

/* Move a layer to an unused name, and remove it. Its lock is @fd. */
static int store_remove_locked(const struct setup_store *s, const char *key,
			       struct warren_error *err)
{
	char old[SHA256_DIGITS + 32];
	int r;

	(void)snprintf(old, sizeof(old), ".old-%ld-%.16s", (long)getpid(), key);
	if (renameat(s->fd, key, s->fd, old) < 0)
		return error_errno(err, errno, "remove setup %.12s", key);
	r = tree_remove(s->fd, s->fd, old);
	return r < 0 ? error_errno(err, -r, "remove setup %.12s", key) : 0;
}

static int store_check_unused(const struct setup_store *s, const char *key,
			      struct warren_error *err)
{
	struct setup_layer *v = NULL;
	size_t n = 0;
	int r = setup_store_list(s, &v, &n, err);

	for (size_t i = 0; r == 0 && i < n; i++)
		if (strcmp(v[i].base, key) == 0)
			r = error_set(
				err, EBUSY,
				"setup %.12s is the base of %.12s: remove that first",
				key, v[i].key);
	setup_store_list_done(v, n);
	return r;
}

static int store_remove_one(const struct setup_store *s, const char *key,
			    struct warren_error *err)
{
	AUTO_CLOSE int fd = -1;
	int r = store_check_unused(s, key, err);

	if (r < 0)
		return r;
	fd = store_open_layer(s, key, LOCK_EX | LOCK_NB);
	if (fd == -EWOULDBLOCK)
		return error_set(err, EBUSY, "setup %.12s is in use by a sandbox", key);
	if (fd < 0)
		return error_errno(err, -fd, "setup %.12s", key);
	return store_remove_locked(s, key, err);
}

/* What a layer says about itself; "": it cannot be read. */
static void store_read_base(const struct setup_store *s, const char *key,
			    char base[SHA256_DIGITS + 1], bool *part)
{
	struct warren_error unread = WARREN_ERROR_INIT;
	struct setup_layer l;

	base[0] = '\0';
	*part = false;
	if (setup_store_use(s, key, &l, &unread) < 0)
		return;
	(void)strcpy(base, l.base);
	*part = l.part;
	setup_layer_done(&l);
}

int setup_store_remove(const struct setup_store *s, const char *key,
		       struct warren_error *err)
{
	struct warren_error used = WARREN_ERROR_INIT;
	char base[SHA256_DIGITS + 1], next[SHA256_DIGITS + 1];
	bool part;
	int r;

	store_read_base(s, key, base, &part);
	r = store_remove_one(s, key, err);
	if (r < 0)
		return r;
	for (; base[0]; (void)strcpy(base, next)) {
		store_read_base(s, base, next, &part);
		if (!part || store_remove_one(s, base, &used) < 0)
			break;
	}
	return 0;
}

/* Find a layer above @key on which no other layer lies; @key itself if there is none. */
static void store_find_top(const struct setup_layer *v, size_t n, const char *key,
			   char ret[SHA256_DIGITS + 1])
{
	(void)snprintf(ret, SHA256_DIGITS + 1, "%s", key);
	for (size_t depth = 0; depth < SETUP_CHAIN_MAX; depth++)
		for (size_t i = 0; i < n; i++)
			if (strcmp(v[i].base, ret) == 0) {
				(void)strcpy(ret, v[i].key);
				break;
			}
}

int setup_store_remove_above(const struct setup_store *s, const char *key,
			     struct warren_error *err)
{
	char top[SHA256_DIGITS + 1] = "";

	while (strcmp(top, key) != 0) {
		struct setup_layer *v = NULL;
		size_t n = 0;
		int r = setup_store_list(s, &v, &n, err);

		if (r < 0)
			return r;
		store_find_top(v, n, key, top);
		setup_store_list_done(v, n);
		r = store_remove_one(s, top, err);
		if (r < 0 && r != -ENOENT)
			return r;
	}
	return 0;
}

/* ------------------------------------------------------------------ making */

int setup_store_lock(const struct setup_store *s, const char *key, bool wait,
		     struct warren_error *err)
{
	char name[SHA256_DIGITS + 16];

	(void)snprintf(name, sizeof(name), ".lock-%s", key);
	for (;;) {
		AUTO_CLOSE int fd = openat(
			s->fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

		if (fd < 0)
			return error_errno(err, errno, "lock setup %.12s", key);
		if (flock(fd, wait ? LOCK_EX : LOCK_EX | LOCK_NB) < 0)
			return error_errno(err, errno, "lock setup %.12s", key);
		if (store_is_current(s, name, fd))
			return TAKE_FD(fd);
	}
}

void setup_store_unlock(const struct setup_store *s, const char *key, int lock)
{
	char name[SHA256_DIGITS + 16];

	if (lock < 0)
		return;
	(void)snprintf(name, sizeof(name), ".lock-%s", key);
	(void)unlinkat(s->fd, name, 0);
	(void)close(lock);
}

/* Is this the file that replaces a cache of names (base/dir_cache.h)? */
static bool store_is_memory(const char *name)
{
	size_t n = strlen(name);

	return strncmp(name, ".scan-", 6) == 0 && strcmp(name + n - 4, ".new") == 0;
}

/* Remove a file that a process locked, if the process was killed. */
static void store_sweep_lock(const struct setup_store *s, const char *name)
{
	AUTO_CLOSE int fd = openat(s->fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && store_is_current(s, name, fd))
		(void)unlinkat(s->fd, name, 0);
}

/* Remove what processes that were killed have left. */
static void setup_store_sweep(const struct setup_store *s)
{
	int top = openat(s->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = top < 0 ? NULL : fdopendir(top);
	const struct dirent *e;

	if (!d) {
		if (top >= 0)
			(void)close(top);
		return;
	}
	while ((e = readdir(d))) {
		AUTO_CLOSE int fd = -1;

		if (strncmp(e->d_name, ".lock-", 6) == 0 || store_is_memory(e->d_name))
			store_sweep_lock(s, e->d_name);
		if (strncmp(e->d_name, ".new-", 5) != 0 &&
		    strncmp(e->d_name, ".old-", 5) != 0)
			continue;
		fd = openat(s->fd, e->d_name,
			    O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
			(void)tree_remove(s->fd, s->fd, e->d_name);
	}
	(void)closedir(d);
}

int setup_store_begin(const struct setup_store *s, struct setup_new *ret,
		      struct warren_error *err)
{
	struct setup_new n = { .fd = -1 };
	unsigned attempt = 0;

	setup_store_sweep(s);
	/* Another process may sweep the directory before it is locked. */
	while (n.fd < 0) {
		if (attempt == 100)
			return error_errno(err, EEXIST, "create a directory in %s",
					   s->path);
		(void)snprintf(n.name, sizeof(n.name), ".new-%ld-%u", (long)getpid(),
			       attempt++);
		if (mkdirat(s->fd, n.name, 0700) < 0 && errno != EEXIST)
			return error_errno(err, errno, "create %s/%s", s->path, n.name);
		n.fd = store_open_layer(s, n.name, LOCK_EX | LOCK_NB);
	}
	if (mkdirat(n.fd, "root", 0700) < 0 || mkdirat(n.fd, "project", 0700) < 0) {
		int code = errno;

		setup_store_drop(s, &n);
		return error_errno(err, code, "create %s/%s", s->path, n.name);
	}
	*ret = n;
	return 0;
}

void setup_store_drop(const struct setup_store *s, struct setup_new *n)
{
	if (n->fd < 0)
		return;
	(void)tree_remove(s->fd, s->fd, n->name);
	(void)close(n->fd);
	n->fd = -1;
}

int setup_store_commit(const struct setup_store *s, struct setup_new *n,
		       const struct setup_layer *l, struct warren_error *err)
{
	AUTO_CLOSE int old = -1;
	int r = layer_write(l, n->fd, err);

	if (r < 0)
		return r;
	if (syncfs(n->fd) < 0)
		return error_errno(err, errno, "write the setup to disk");
	old = store_open_layer(s, l->key, LOCK_EX | LOCK_NB);
	if (old == -EWOULDBLOCK)
		return error_set(
			err, EBUSY,
			"setup %.12s is in use by a sandbox, and was not replaced",
			l->key);
	if (old >= 0) {
		r = store_remove_locked(s, l->key, err);
		if (r < 0)
			return r;
	}
	if (renameat(s->fd, n->name, s->fd, l->key) < 0)
		return error_errno(err, errno, "keep the setup");
	(void)fsync(s->fd);
	(void)close(n->fd);
	n->fd = -1;
	return 0;
}

/* ----------------------------------------------------------------- answers */

int setup_store_answer(const struct setup_store *s, const char *digest)
{
	char name[SHA256_DIGITS + 16], text[8];
	ssize_t n;

	(void)snprintf(name, sizeof(name), ".asked-%s", digest);
	n = fd_read_file_at(s->fd, name, text, sizeof(text));
	return n < 0 ? -ENOENT : strcmp(text, "yes") == 0;
}

int setup_store_set_answer(const struct setup_store *s, const char *digest, bool yes,
			   struct warren_error *err)
{
	char name[SHA256_DIGITS + 16];
	AUTO_CLOSE int fd = -1;
	int r;

	(void)snprintf(name, sizeof(name), ".asked-%s", digest);
	fd = openat(s->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
		    0600);
	r = fd < 0 ? -errno : fd_write_all(fd, yes ? "yes" : "no", yes ? 3 : 2);
	return r < 0 ? error_errno(err, -r, "remember the answer") : 0;
}
