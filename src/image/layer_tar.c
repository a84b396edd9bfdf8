/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer_tar.c - walk the directory of a layer in a fixed order, and write each entry
 *
 * At any depth, the walk has only one open directory. For each directory on the path to
 * it, it keeps a frame with the sorted names. It goes up through "..", and checks that
 * this is the directory from which it came.
 */
#include "image/layer_tar.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "archive/tar.h"
#include "image/layer_links.h"
#include "image/layer_tar_internal.h"
#include "image/unpack_internal.h"

#define BLOCK     (256U << 10) /* bytes that are collected for the sink */
#define PATH_SIZE 4096
#define NAMES_MAX (256U << 20) /* bytes of names in all frames */
#define OPAQUE    ".wh..wh..opq"
#define WHITEOUT  ".wh."

/* A directory on the path, and the names in it that are still to be written. */
struct layer_frame {
	struct buf names; /* one after the other, each with its NUL */
	const char **list;
	size_t n, next;
	dev_t dev;
	ino_t ino;
	size_t path_len; /* the length of its path */
};

struct layer_walk {
	const struct layer_tar_options *o;
	int at; /* the directory of the last frame */
	struct layer_frame *frames;
	size_t depth, cap, names_len;
	char path[PATH_SIZE]; /* of the current entry; "": the layer itself */
	struct layer_links links;
	struct buf out;
	struct layer_tar_result result;
};

/* -------------------------------------------------------------------- output */

static int layer_tar_flush(struct layer_walk *w, struct warren_error *err)
{
	int r = w->out.failed ? error_errno(err, ENOMEM, "write the layer") : 0;

	if (r < 0 || w->out.len == 0)
		return r;
	w->result.bytes += w->out.len;
	if (w->o->max_bytes && w->result.bytes > w->o->max_bytes)
		return error_set(err, EFBIG, "the layer is larger than %ju bytes",
				 (uintmax_t)w->o->max_bytes);
	r = w->o->sink(w->o->ctx, w->out.data, w->out.len);
	w->out.len = 0;
	return r;
}

/* Write the header of the current entry, called @name; @pax has its attributes. */
static int layer_tar_put(struct layer_walk *w, const struct tar_header *h,
			 struct buf *pax, struct warren_error *err)
{
	w->result.entries++;
	tar_put_header(&w->out, h, pax);
	if (pax->failed)
		return error_set(err, E2BIG,
				 "the attributes of '%.200s' are larger than 1 MiB",
				 h->name);
	return w->out.len >= BLOCK || w->out.failed ? layer_tar_flush(w, err) : 0;
}

static struct tar_header layer_tar_header(const struct stat *st, const char *name,
					  char type)
{
	return (struct tar_header){
		.name = name,
		.link = "",
		.type = type,
		.mode = st->st_mode & 07777,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.mtime = st->st_mtim.tv_sec,
		.mtime_nsec = st->st_mtim.tv_sec < 0 ? 0 : (uint32_t)st->st_mtim.tv_nsec,
	};
}

/* Write @n bytes from @offset of @fd, or zeros if @fd < 0. */
static int layer_tar_bytes(struct layer_walk *w, int fd, off_t offset, uint64_t n,
			   struct warren_error *err)
{
	while (n > 0) {
		size_t room = BLOCK - w->out.len, some = n < room ? (size_t)n : room;
		char *to = buf_reserve(&w->out, some);
		ssize_t got = (ssize_t)some;
		int r;

		if (!to)
			return error_errno(err, ENOMEM, "read '%.200s'", w->path);
		if (fd < 0)
			(void)memset(to, 0, some);
		else
			got = pread(fd, to, some, offset);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return error_errno(err, errno, "read '%.200s'", w->path);
		if (got == 0)
			return error_set(err, EIO, "'%.200s' became shorter", w->path);
		w->out.len += (size_t)got;
		offset += got;
		n -= (uint64_t)got;
		r = w->out.len < BLOCK ? 0 : layer_tar_flush(w, err);
		if (r != 0)
			return r;
	}
	return 0;
}

/* Write the data of a file; holes are not read. */
static int layer_tar_data(struct layer_walk *w, int fd, const struct stat *st,
			  struct warren_error *err)
{
	bool sparse = st->st_blocks < (st->st_size + 511) / 512;
	off_t at = 0, size = st->st_size;
	int r = 0;

	if (w->o->max_bytes && (uint64_t)size > w->o->max_bytes)
		return error_set(err, EFBIG, "the layer is larger than %ju bytes",
				 (uintmax_t)w->o->max_bytes);
	while (r == 0 && at < size) {
		off_t data = sparse ? lseek(fd, at, SEEK_DATA) : at, hole = size;

		if (data < 0) /* ENXIO: the rest is a hole; otherwise there are none */
			data = errno == ENXIO ? size : at;
		if (data > size)
			data = size;
		r = layer_tar_bytes(w, -1, 0, (uint64_t)(data - at), err);
		if (sparse && data < size)
			hole = lseek(fd, data, SEEK_HOLE);
		if (hole < 0 || hole > size)
			hole = size;
		if (r == 0)
			r = layer_tar_bytes(w, fd, data, (uint64_t)(hole - data), err);
		at = hole;
	}
	if (r == 0)
		tar_pad(&w->out, (uint64_t)size);
	return r;
}

/* --------------------------------------------------------------------- files */

static int layer_tar_whiteout(struct layer_walk *w, const char *base,
			      struct warren_error *err)
{
	AUTO_BUF struct buf pax = BUF_INIT(LAYER_PAX_MAX);
	const size_t dir = strlen(w->path) - strlen(base);
	/*
	 * The entry has no time, so the archive does not depend on when the layer was
	 * unpacked.
	 */
	struct tar_header h = { .link = "", .type = '0' };
	char name[PATH_SIZE];

	if (strlen(w->path) + strlen(WHITEOUT) >= sizeof(name))
		return error_set(err, ENAMETOOLONG, "the path '%.200s...' is too long",
				 w->path);
	(void)snprintf(name, sizeof(name), "%.*s" WHITEOUT "%s", (int)dir, w->path, base);
	h.name = name;
	return layer_tar_put(w, &h, &pax, err);
}

static int layer_tar_file(struct layer_walk *w, const char *base, const struct stat *st,
			  struct warren_error *err)
{
	AUTO_BUF struct buf pax = BUF_INIT(LAYER_PAX_MAX);
	struct tar_header h = layer_tar_header(st, w->path, '0');
	AUTO_CLOSE int fd =
		openat(w->at, base, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat opened;
	int r;

	if (fd < 0 || fstat(fd, &opened) < 0)
		return error_errno(err, errno, "open '%.200s'", w->path);
	if (opened.st_ino != st->st_ino || opened.st_size != st->st_size)
		return error_set(err, EIO, "'%.200s' was replaced", w->path);
	h.size = (uint64_t)st->st_size;
	r = layer_xattrs(fd, w->path, &pax, NULL, &w->result.skipped, err);
	if (r == 0)
		r = layer_tar_put(w, &h, &pax, err);
	return r == 0 ? layer_tar_data(w, fd, st, err) : r;
}

static int layer_tar_symlink(struct layer_walk *w, const char *base,
			     const struct stat *st, struct warren_error *err)
{
	AUTO_BUF struct buf pax = BUF_INIT(LAYER_PAX_MAX);
	struct tar_header h = layer_tar_header(st, w->path, '2');
	char target[PATH_SIZE];
	ssize_t n = readlinkat(w->at, base, target, sizeof(target));

	if (n < 0)
		return error_errno(err, errno, "read the link '%.200s'", w->path);
	if ((size_t)n == sizeof(target))
		return error_set(err, ENAMETOOLONG, "the target of '%.200s' is too long",
				 w->path);
	target[n] = '\0';
	h.link = target;
	h.mode = 0777;
	return layer_tar_put(w, &h, &pax, err);
}

/* Write a file, symbolic link or pipe; a second name of it is a hard link. */
static int layer_tar_single(struct layer_walk *w, const char *base, const struct stat *st,
			    struct warren_error *err)
{
	AUTO_BUF struct buf pax = BUF_INIT(LAYER_PAX_MAX);
	struct tar_header h;
	const char *first = NULL;

	if (st->st_nlink > 1 && layer_links_see(&w->links, st, w->path, &first) < 0)
		return error_errno(err, ENOMEM, "remember the hard link '%.200s'",
				   w->path);
	if (first) {
		h = layer_tar_header(st, w->path, '1');
		h.link = first;
		return layer_tar_put(w, &h, &pax, err);
	}
	if (S_ISREG(st->st_mode))
		return layer_tar_file(w, base, st, err);
	if (S_ISLNK(st->st_mode))
		return layer_tar_symlink(w, base, st, err);
	h = layer_tar_header(st, w->path, '6');
	return layer_tar_put(w, &h, &pax, err);
}

/* --------------------------------------------------------------- directories */

static int layer_tar_compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void layer_frame_done(struct layer_walk *w, struct layer_frame *f)
{
	w->names_len -= f->names.len;
	buf_done(&f->names);
	free(f->list);
	*f = (struct layer_frame){ 0 };
}

/* Sort the names that were read. */
static int layer_frame_sort(struct layer_frame *f)
{
	const char *p = f->names.data;

	f->list = calloc(f->n + 1, sizeof(*f->list));
	if (!f->list)
		return -ENOMEM;
	for (size_t i = 0; i < f->n; i++, p += strlen(p) + 1)
		f->list[i] = p;
	qsort(f->list, f->n, sizeof(*f->list), layer_tar_compare);
	return 0;
}

/* Read and sort the names of the directory @fd. */
static int layer_frame_read(struct layer_walk *w, struct layer_frame *f, int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *e;

	if (!d) {
		r = -errno;
		close_p(&copy);
		return r;
	}
	f->names.max = NAMES_MAX - w->names_len;
	while ((errno = 0, e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		buf_add(&f->names, e->d_name, strlen(e->d_name) + 1);
		f->n++;
	}
	r = f->names.failed ? -ENOMEM : -errno;
	w->names_len += f->names.len;
	(void)closedir(d);
	return r < 0 ? r : layer_frame_sort(f);
}

static int layer_frame_push(struct layer_walk *w, int fd, const struct stat *st,
			    struct warren_error *err)
{
	struct layer_frame *f;
	int r;

	if (w->depth > UNPACK_DEPTH)
		return error_set(err, ENAMETOOLONG,
				 "'%.200s' is in more than %d directories", w->path,
				 UNPACK_DEPTH);
	if (w->depth == w->cap) {
		size_t cap = w->cap ? w->cap * 2 : 16;
		void *larger = realloc(w->frames, cap * sizeof(*w->frames));

		if (!larger)
			return error_errno(err, ENOMEM, "read '%.200s'", w->path);
		w->frames = larger;
		w->cap = cap;
	}
	f = &w->frames[w->depth++];
	*f = (struct layer_frame){ .dev = st->st_dev,
				   .ino = st->st_ino,
				   .path_len = strlen(w->path) };
	r = layer_frame_read(w, f, fd);
	return r < 0 ? error_errno(err, -r, "read the directory '%.200s'", w->path) : 0;
}

/* Go up to the parent of the last frame. */
static int layer_frame_pop(struct layer_walk *w, struct warren_error *err)
{
	const struct layer_frame *up;
	struct stat st;
	int fd;

	layer_frame_done(w, &w->frames[--w->depth]);
	if (w->depth == 0)
		return 0;
	up = &w->frames[w->depth - 1];
	fd = openat(w->at, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)close(w->at);
	w->at = fd;
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, errno, "leave the directory '%.200s'", w->path);
	if (st.st_ino != up->ino || st.st_dev != up->dev)
		return error_set(err, EIO, "a directory of the layer was moved");
	return 0;
}

/* Write the directory @fd, which becomes the current one. */
static int layer_tar_dir(struct layer_walk *w, int fd, const struct stat *st,
			 struct warren_error *err)
{
	AUTO_BUF struct buf pax = BUF_INIT(LAYER_PAX_MAX);
	char name[PATH_SIZE + sizeof("/" OPAQUE)] = "";
	struct tar_header h = layer_tar_header(st, name, '5');
	bool opaque = false;
	int r;

	if (w->at >= 0)
		(void)close(w->at);
	w->at = fd;
	(void)snprintf(name, sizeof(name), "%s/", *w->path ? w->path : ".");
	r = layer_xattrs(fd, name, &pax, &opaque, &w->result.skipped, err);
	if (r == 0)
		r = layer_tar_put(w, &h, &pax, err);
	if (r == 0 && opaque) {
		size_t n = strlen(w->path);

		if (n + sizeof("/" OPAQUE) > sizeof(w->path))
			return error_set(err, ENAMETOOLONG,
					 "the path '%.200s...' is too long", w->path);
		buf_done(&pax);
		(void)snprintf(name, sizeof(name), "%s%s" OPAQUE, w->path, n ? "/" : "");
		h = (struct tar_header){ .name = name, .link = "", .type = '0' };
		r = layer_tar_put(w, &h, &pax, err);
	}
	return r == 0 ? layer_frame_push(w, fd, st, err) : r;
}

static int layer_tar_enter(struct layer_walk *w, const char *base,
			   struct warren_error *err)
{
	struct stat st;
	int fd = openat(w->at, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return error_errno(err, errno, "open '%.200s'", w->path);
	if (fstat(fd, &st) < 0) {
		int r = error_errno(err, errno, "inspect '%.200s'", w->path);

		(void)close(fd);
		return r;
	}
	return layer_tar_dir(w, fd, &st, err);
}

/* ------------------------------------------------------------------ the walk */

static int layer_tar_entry(struct layer_walk *w, const char *base,
			   struct warren_error *err)
{
	struct stat st;

	if (fstatat(w->at, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return error_errno(err, errno, "inspect '%.200s'", w->path);
	if (S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0))
		return layer_tar_whiteout(w, base, err);
	if (strncmp(base, WHITEOUT, strlen(WHITEOUT)) == 0)
		return error_set(err, EINVAL,
				 "'%.200s' cannot be part of an image: names that begin "
				 "with '" WHITEOUT "' stand for removed files",
				 w->path);
	switch (st.st_mode & S_IFMT) {
	case S_IFDIR:
		return layer_tar_enter(w, base, err);
	case S_IFREG:
	case S_IFLNK:
	case S_IFIFO:
		return layer_tar_single(w, base, &st, err);
	case S_IFSOCK:
		w->result.skipped++;
		return 0;
	default:
		return error_set(err, EPERM,
				 "'%.200s' is a device, which an image of "
				 "Warren cannot have",
				 w->path);
	}
}

/* Write the next entry of the last frame. */
static int layer_tar_step(struct layer_walk *w, struct warren_error *err)
{
	struct layer_frame *f = &w->frames[w->depth - 1];
	const char *base;
	int n;

	if (f->next == f->n)
		return layer_frame_pop(w, err);
	base = f->list[f->next++];
	w->path[f->path_len] = '\0';
	n = snprintf(w->path + f->path_len, sizeof(w->path) - f->path_len, "%s%s",
		     f->path_len ? "/" : "", base);
	if (n < 0 || (size_t)n >= sizeof(w->path) - f->path_len)
		return error_set(err, ENAMETOOLONG, "the path '%.200s...' is too long",
				 w->path);
	return layer_tar_entry(w, base, err);
}

static int layer_tar_all(struct layer_walk *w, int dir, struct warren_error *err)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;
	struct stat st;

	if (fd < 0)
		return error_errno(err, errno, "open the layer");
	w->at = fd;
	if (fstat(fd, &st) < 0)
		return error_errno(err, errno, "inspect the layer");
	w->at = -1;
	r = layer_tar_dir(w, fd, &st, err);
	while (r == 0 && w->depth > 0)
		r = layer_tar_step(w, err);
	if (r != 0)
		return r;
	tar_end(&w->out);
	return layer_tar_flush(w, err);
}

int layer_tar_write(int dir, const struct layer_tar_options *options,
		    struct layer_tar_result *ret, struct warren_error *err)
{
	struct layer_walk w = { .o = options,
				.at = -1,
				.out = BUF_INIT(BLOCK + 2 * LAYER_PAX_MAX) };
	int r = layer_tar_all(&w, dir, err);

	while (w.depth > 0)
		layer_frame_done(&w, &w.frames[--w.depth]);
	free(w.frames);
	close_p(&w.at);
	layer_links_done(&w.links);
	buf_done(&w.out);
	if (r == 0)
		*ret = w.result;
	return r;
}
