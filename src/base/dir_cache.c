/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dir_cache.c - a file with the entries of directories
 *
 * After the version and the rules, each with its NUL, an entry is the path with its NUL,
 * struct cache_entry, and the names, each with its NUL. Most starts change nothing, so
 * entries are found in the order of the file, and copied as they are.
 */
#include "base/dir_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macro.h"

#define CACHE_MAX  (64U << 20)
#define CACHE_DIRS 400000
/* ns: more than the resolution of times of files, if these have nanoseconds or not */
#define CACHE_RECENT  50000000U
#define CACHE_COARSE  2000000000U
#define CACHE_VERSION "warren directories 2"

/* ---------------------------------------------------------------- reading */

struct cache_reader {
	const char *at, *end;
	bool failed;
};

static const char *cache_text(struct cache_reader *r)
{
	const char *text = r->at;
	const char *nul = r->failed ? NULL : memchr(text, 0, (size_t)(r->end - text));

	if (!nul) {
		r->failed = true;
		return "";
	}
	r->at = nul + 1;
	return text;
}

/* What follows the path of an entry. */
struct cache_entry {
	uint64_t stamp[DIR_STAMP];
	uint32_t files, dirs; /* names */
};

static struct dir_names cache_names(struct cache_reader *r, uint32_t n)
{
	struct dir_names names = { .text = r->at, .n = n };

	for (uint32_t i = 0; i < n && !r->failed; i++)
		(void)cache_text(r);
	return names;
}

static struct dir_known cache_entry(struct cache_reader *r)
{
	struct dir_known k = { .raw = r->at, .path = cache_text(r) };
	struct cache_entry e;

	if (r->failed || (size_t)(r->end - r->at) < sizeof(e)) {
		r->failed = true;
		return k;
	}
	(void)memcpy(&e, r->at, sizeof(e));
	r->at += sizeof(e);
	(void)memcpy(k.stamp, e.stamp, sizeof(k.stamp));
	k.files = cache_names(r, e.files);
	k.dirs = cache_names(r, e.dirs);
	k.raw_size = (size_t)(r->at - k.raw);
	return k;
}

static int cache_compare(const void *a, const void *b)
{
	return strcmp(((const struct dir_known *)a)->path,
		      ((const struct dir_known *)b)->path);
}

static void cache_parse(struct dir_cache *c, size_t size)
{
	struct cache_reader r = { .at = c->text, .end = c->text + size };
	size_t room = 0;
	bool known = strcmp(cache_text(&r), CACHE_VERSION) == 0;
	const char *header = cache_text(&r);

	if (!known || (c->header && strcmp(header, c->header) != 0))
		return;
	while (!r.failed && r.at < r.end && c->n < CACHE_DIRS) {
		struct dir_known k = cache_entry(&r);

		if (c->n == room) {
			size_t more = room ? 2 * room : 256;
			struct dir_known *v = reallocarray(c->v, more, sizeof(*v));

			if (!v)
				break;
			c->v = v;
			room = more;
		}
		c->v[c->n++] = k;
	}
	if (r.failed)
		c->n = 0;
}

void dir_cache_load(struct dir_cache *c, int at, const char *path, const char *header)
{
	AUTO_CLOSE int fd =
		path ? openat(at, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
		     : -1;
	struct timespec now = { 0 };
	struct stat st;
	ssize_t n;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	*c = (struct dir_cache){ .path = path,
				 .header = header,
				 .out = BUF_INIT(CACHE_MAX),
				 .now_ns = (uint64_t)now.tv_sec * 1000000000 +
					   (uint64_t)now.tv_nsec };
	if (!path)
		return;
	buf_add(&c->out, CACHE_VERSION, sizeof(CACHE_VERSION));
	buf_add(&c->out, header, strlen(header) + 1);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    st.st_uid != geteuid() || (st.st_mode & 022) || st.st_size <= 0 ||
	    st.st_size > CACHE_MAX)
		return;
	c->text = malloc((size_t)st.st_size);
	n = c->text ? fd_read_all(fd, c->text, (size_t)st.st_size) : 0;
	if (n > 0)
		cache_parse(c, (size_t)n);
}

/* ------------------------------------------------------------- directories */

bool dir_cache_trusts(int dir)
{
	static const long local[] = { EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,
				      BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC, TMPFS_MAGIC };
	struct statfs fs;

	if (fstatfs(dir, &fs) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(local); i++)
		if ((long)fs.f_type == local[i])
			return true;
	return false;
}

static uint64_t cache_ns(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec;
}

static void cache_stamp(const struct stat *st, uint64_t ret[DIR_STAMP])
{
	ret[0] = st->st_ino;
	ret[1] = (uint64_t)st->st_mtim.tv_sec;
	ret[2] = (uint64_t)st->st_mtim.tv_nsec;
	ret[3] = (uint64_t)st->st_ctim.tv_sec;
	ret[4] = (uint64_t)st->st_ctim.tv_nsec;
	ret[5] = (uint64_t)st->st_dev;
}

/* Find the entry of a path; usually, it is the next one of the file. */
static const struct dir_known *cache_search(struct dir_cache *c, const char *path)
{
	struct dir_known wanted = { .path = path };

	if (!c->sorted && c->next < c->n && strcmp(c->v[c->next].path, path) == 0)
		return &c->v[c->next++];
	if (!c->sorted)
		qsort(c->v, c->n, sizeof(*c->v), cache_compare);
	c->sorted = true;
	return bsearch(&wanted, c->v, c->n, sizeof(*c->v), cache_compare);
}

const struct dir_known *dir_cache_find(struct dir_cache *c, const char *path,
				       const struct stat *st)
{
	const struct dir_known *k;
	uint64_t stamp[DIR_STAMP];

	if (c->n == 0 || !S_ISDIR(st->st_mode))
		return NULL;
	cache_stamp(st, stamp);
	k = cache_search(c, path);
	return k && memcmp(k->stamp, stamp, sizeof(k->stamp)) == 0 ? k : NULL;
}

void dir_cache_keep(struct dir_cache *c, const struct dir_known *k)
{
	if (c->path)
		buf_add(&c->out, k->raw, k->raw_size);
}

static void cache_put_names(struct buf *out, struct dir_names names)
{
	const char *name = NULL;

	FOR_EACH_DIR_NAME(names, name)
	buf_add(out, name, strlen(name) + 1);
}

static bool cache_is_recent(const struct dir_cache *c, const struct stat *st)
{
	uint64_t margin = st->st_mtim.tv_nsec == 0 && st->st_ctim.tv_nsec == 0
				  ? CACHE_COARSE
				  : CACHE_RECENT;

	return cache_ns(&st->st_mtim) + margin > c->now_ns ||
	       cache_ns(&st->st_ctim) + margin > c->now_ns;
}

void dir_cache_add(struct dir_cache *c, const char *path, const struct stat *st,
		   struct dir_names files, struct dir_names dirs)
{
	struct cache_entry e = { .files = (uint32_t)files.n, .dirs = (uint32_t)dirs.n };

	if (!c->path)
		return;
	/* Without times, it is not found again. */
	cache_stamp(st, e.stamp);
	if (cache_is_recent(c, st))
		(void)memset(e.stamp + 1, 0, 4 * sizeof(e.stamp[0]));
	buf_add(&c->out, path, strlen(path) + 1);
	buf_add(&c->out, &e, sizeof(e));
	cache_put_names(&c->out, files);
	cache_put_names(&c->out, dirs);
}

/*
 * Open the file that will replace the cache, and lock it. What a process that was killed
 * has left is used again. -1: another process writes it now, or a failure.
 */
static int cache_open_new(int at, const char *name)
{
	AUTO_CLOSE int fd =
		openat(at, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct stat mine, there;

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -1;
	/* The process that had it locked may have renamed it just now. */
	if (fstat(fd, &mine) < 0 || fstatat(at, name, &there, AT_SYMLINK_NOFOLLOW) < 0 ||
	    mine.st_ino != there.st_ino || !S_ISREG(mine.st_mode) || ftruncate(fd, 0) < 0)
		return -1;
	return TAKE_FD(fd);
}

bool dir_cache_save(struct dir_cache *c, int at)
{
	AUTO_FREE char *name = NULL;
	AUTO_CLOSE int fd = -1;

	if (!c->path || c->out.failed)
		return false;
	if (!c->changed)
		return true;
	if (asprintf(&name, "%s.new", c->path) < 0) {
		name = NULL;
		return false;
	}
	fd = cache_open_new(at, name);
	if (fd < 0)
		return false;
	if (fd_write_all(fd, c->out.data, c->out.len) == 0 &&
	    renameat(at, name, at, c->path) == 0)
		return true;
	(void)unlinkat(at, name, 0);
	return false;
}

void dir_cache_read(struct dir_cache *c, int at, const char *path)
{
	AUTO_CLOSE int fd = openat(at, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;
	ssize_t n;

	*c = (struct dir_cache){ .out = BUF_INIT(0) };
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > CACHE_MAX)
		return;
	c->text = malloc((size_t)st.st_size + 1);
	n = c->text ? fd_read_all(fd, c->text, (size_t)st.st_size) : 0;
	if (n > 0)
		cache_parse(c, (size_t)n);
}

bool dir_cache_inode(struct dir_cache *c, const char *path, uint64_t *ret)
{
	const struct dir_known *k = c->n > 0 ? cache_search(c, path) : NULL;

	*ret = k ? k->stamp[0] : 0;
	return k;
}

void dir_cache_done(struct dir_cache *c)
{
	free(c->text);
	free(c->v);
	buf_done(&c->out);
	*c = (struct dir_cache){ 0 };
}
