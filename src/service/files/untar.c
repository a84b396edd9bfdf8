/* SPDX-License-Identifier: Apache-2.0 */
/*
 * untar.c - write the entries of an archive to files, one after another
 *
 * A file appears only when it is complete, and replaces an existing file only then. While
 * it is written, it has no name (O_TMPFILE), or, if the filesystem does not support that,
 * a temporary name in the same directory. If a file exists where an entry creates a link,
 * it is removed; missing directories are created. Each of these is tried at most once for
 * an entry. The modes of directories are set at the end, because a read-only directory
 * could not be filled.
 */
#include "service/files/untar.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "archive/tar.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "net/loop.h"
#include "service/files/file_writer.h"
#include "service/files/internal.h"

#define DEFERRED_MAX (32U << 20)
#define RAW_SIZE     65536U
#define WRITING_MAX  4       /* maximum number of such pieces in progress */
#define SLICE_NS     1000000 /* maximum time before other work has its turn */

struct untar {
	struct files *files;
	struct untar_options o;
	struct tar_reader tar;
	struct unpack *unpack; /* NULL: not known yet */
	struct buf in;         /* data that has not been unpacked yet */
	size_t in_off;
	char raw[RAW_SIZE]; /* decompressed data */
	size_t raw_len, raw_off;
	bool waiting; /* for init */
	bool running, fed_all, over;
	unsigned under_way;     /* unanswered requests */
	unsigned writing;       /* number of requests that write file data */
	bool full;              /* wait until fewer requests are in progress */
	uint32_t stream;        /* stream number of the file that is being written */
	bool cleared, parented; /* what was already tried for this entry */
	size_t way; /* length of the part of the name whose directories exist; 0: all */
	int fd;     /* the file that is being written */
	bool named; /* files without a name are not supported here */
	int parent; /* directory of the last file; -1: the top directory */
	char *parent_name;  /* NULL: none */
	char beside[32];    /* temporary name of the file in its directory */
	struct buf placing; /* name of the last complete file, relative to the top */
	uint64_t entries, bytes;
	struct buf dirs;                /* modes and names of directories */
	struct fair_quota_lease memory; /* for those */
	size_t dirs_off;
	struct warren_error err;
	struct loop_task turn;
};

struct deferred {
	uint32_t mode, name_size;
	int64_t mtime;
};

static void untar_run(struct untar *u);
static void untar_make_entry(struct untar *u);

static void untar_on_turn(void *ctx)
{
	struct untar *u = ctx;

	if (!u->running && !u->waiting && !u->over)
		untar_run(u);
}

struct untar *untar_new(struct files *f, const struct untar_options *options)
{
	struct untar *u = malloc(sizeof(*u));

	if (!u)
		return NULL;
	(void)memset(u, 0, offsetof(struct untar, raw));
	(void)memset(&u->raw_len, 0, sizeof(*u) - offsetof(struct untar, raw_len));
	u->files = f;
	u->o = *options;
	u->fd = u->parent = -1;
	u->in = (struct buf)BUF_INIT(4U << 20);
	u->dirs = (struct buf)BUF_INIT(DEFERRED_MAX);
	u->placing = (struct buf)BUF_INIT(FILES_NAMES_MAX);
	tar_init(&u->tar);
	u->turn = (struct loop_task){ .fn = untar_on_turn, .ctx = u };
	return u;
}

static void untar_ignore(void *ctx UNUSED, struct files_answer *a UNUSED,
			 const struct warren_error *err UNUSED)
{
}

/* Write the path of @name in the directory of the entry. */
static void put_beside(const struct untar *u, const char *name, struct buf *out)
{
	const char *entry = u->tar.entry.name, *slash = strrchr(entry, '/');

	if (slash)
		buf_add(out, entry, (size_t)(slash + 1 - entry));
	buf_puts(out, name);
}

static void unlink_file(struct untar *u, const struct buf *name)
{
	struct files_change c = { .verb = PROTO_UNLINK, .dir = u->o.dir, .to = -1 };

	if (!name->failed)
		files_change_one(u->files, c, name->data, NULL, untar_ignore, NULL);
}

/* Remove the incomplete file that is being written. */
static void drop_file(struct untar *u)
{
	AUTO_BUF struct buf name = BUF_INIT(FILES_NAMES_MAX);

	loop_close(files_loop(u->files), TAKE_FD(u->fd));
	put_beside(u, u->beside, &name);
	if (u->named)
		unlink_file(u, &name);
}

static void leave_parent(struct untar *u)
{
	if (u->parent >= 0)
		(void)close(TAKE_FD(u->parent));
	free(u->parent_name);
	u->parent_name = NULL;
}

struct untar *untar_free(struct untar *u)
{
	if (!u)
		return NULL;
	tar_done(&u->tar);
	u->unpack = unpack_free(u->unpack);
	loop_task_cancel(&u->turn);
	buf_done(&u->in);
	buf_done(&u->dirs);
	lease_end(files_service(u->files), LEASE_MEMORY, &u->memory);
	buf_done(&u->placing);
	if (u->fd >= 0)
		drop_file(u);
	leave_parent(u);
	if (u->o.dir >= 0)
		(void)close(u->o.dir);
	free(u);
	return NULL;
}

static void untar_finish(struct untar *u, const struct warren_error *err)
{
	if (u->over)
		return;
	u->over = true;
	u->o.end(u->o.ctx, u->entries, u->bytes, err);
}

static void untar_go_on(struct untar *u)
{
	u->waiting = false;
	if (!u->running)
		untar_run(u);
}

static void untar_change(struct untar *u, struct files_change c, const char *first,
			 const char *second, files_fn fn)
{
	c.dir = u->o.dir;
	c.to = -1;
	u->waiting = true;
	files_change_one(u->files, c, first, second, fn, u);
}

/* -------------------------------------------------- obstacles in the path of an entry */

static void untar_make_parents(struct untar *u);

static void on_way(void *ctx, struct files_answer *a UNUSED,
		   const struct warren_error *err)
{
	struct untar *u = ctx;

	if (err) {
		untar_finish(u, err);
		return;
	}
	if (u->way > 0)
		untar_make_parents(u);
	else
		untar_make_entry(u);
}

/*
 * Create parents from the top, as many in each request as fit: a name of 4,096 bytes has
 * up to 2,047 parents.
 */
static void untar_make_parents(struct untar *u)
{
	AUTO_BUF struct buf names = BUF_INIT(FILES_NAMES_MAX);
	struct files_change c = { .verb = PROTO_MKDIR,
				  .flags = PROTO_CHANGE_LENIENT,
				  .mode = 0755,
				  .dir = u->o.dir,
				  .to = -1 };
	const char *name = u->tar.entry.name;

	const char *p = strchr(name + u->way, '/');

	for (; p && c.n < FILES_BATCH; p = strchr(p + 1, '/')) {
		if (names.len + (size_t)(p - name) + 1 > FILES_NAMES_MAX)
			break;
		buf_add(&names, name, (size_t)(p - name));
		buf_add(&names, "", 1);
		c.n++;
	}
	u->way = p ? (size_t)(p - name) : 0;
	c.names = names.data;
	c.size = names.failed ? 0 : names.len;
	u->waiting = true;
	files_change(u->files, &c, on_way, u);
}

/* Return true if something was done, and the entry can be tried again. */
static bool untar_clear_way(struct untar *u, int code)
{
	if (code == ENOENT && !u->parented && strchr(u->tar.entry.name, '/')) {
		u->parented = true;
		u->way = 0;
		untar_make_parents(u);
		return true;
	}
	if (code == EEXIST && !u->cleared && u->tar.entry.type != TAR_DIRECTORY) {
		u->cleared = true;
		untar_change(u,
			     (struct files_change){ .verb = PROTO_UNLINK,
						    .flags = PROTO_CHANGE_LENIENT },
			     u->tar.entry.name, NULL, on_way);
		return true;
	}
	return false;
}

/* ----------------------------------------------------------------------- entries */

/* Handle the answer to one request. The final answer is sent after all requests were
 * answered. */
static void untar_heard(struct untar *u, const struct warren_error *err)
{
	u->under_way--;
	if (err && !u->over) {
		u->err = *err;
		untar_finish(u, &u->err);
	} else if (u->fed_all && !u->waiting && !u->running) {
		untar_run(u);
	}
}

/*
 * The file has its name now. If it was a copy, this answer also reports errors of its
 * writes. The next file is opened after that, so only one file is open at a time.
 */
static void on_placed(void *ctx, struct files_answer *a UNUSED,
		      const struct warren_error *err)
{
	struct untar *u = ctx;

	if (err && u->named)
		unlink_file(u, &u->placing);
	untar_heard(u, err);
}

/* Give the complete file its name. Later requests wait for this in init. */
static void place_file(struct untar *u)
{
	AUTO_CLOSE int fd = TAKE_FD(u->fd);
	const char *name = u->tar.entry.name, *slash = strrchr(name, '/');
	struct files_change c = { .verb = PROTO_PUT,
				  .mode = u->stream,
				  .dir = u->parent < 0 ? u->o.dir : u->parent,
				  .to = fd };

	u->under_way++;
	files_call(u->files, "write", name);
	if (!u->named) {
		files_change_one(u->files, c, u->beside, slash ? slash + 1 : name,
				 on_placed, u);
		return;
	}
	(void)close(TAKE_FD(fd)); /* this completes a copy */
	u->placing.len = 0;
	put_beside(u, u->beside, &u->placing);
	c = (struct files_change){ .verb = PROTO_RENAME, .dir = u->o.dir, .to = -1 };
	files_change_one(u->files, c, u->placing.failed ? "" : u->placing.data, name,
			 on_placed, u);
}

/*
 * Missing permissions to set the mode or owner are ignored, as other programs do. If the
 * filesystem cannot set it, this is reported.
 */
static void on_dressed(void *ctx, struct files_answer *a UNUSED,
		       const struct warren_error *err)
{
	untar_heard(ctx, err && err->code == EOPNOTSUPP ? err : NULL);
}

/* Set the mode after the owner, because changing the owner clears bits of the mode. */
static void dress_one(struct untar *u, struct files_change c)
{
	u->under_way++;
	files_change_one(u->files, c, u->tar.entry.name, NULL, on_dressed, u);
}

static void untar_dress(struct untar *u)
{
	const struct tar_entry *e = &u->tar.entry;
	struct files_change c = { .dir = u->o.dir,
				  .to = -1,
				  .owner = e->uid,
				  .group = e->gid,
				  .mode = e->mode,
				  .mtime_sec = e->mtime };

	if (u->o.owners) {
		c.verb = PROTO_CHOWN;
		dress_one(u, c);
		c.verb = PROTO_CHMOD;
		if (e->type == TAR_FILE)
			dress_one(u, c);
	}
	c.verb = PROTO_UTIME;
	if (e->type != TAR_DIRECTORY)
		dress_one(u, c);
}

/* Directories get their modes after their contents, so keep their names until then. */
static int untar_defer(struct untar *u)
{
	const struct tar_entry *e = &u->tar.entry;
	struct deferred d = { .mode = e->mode,
			      .name_size = (uint32_t)strlen(e->name) + 1,
			      .mtime = e->mtime };
	const struct sandbox *sandbox = files_sandbox(u->files);

	if (sandbox &&
	    lease_memory(files_service(u->files), sandbox->row.owner,
			 u->dirs.len + sizeof(d) + d.name_size, &u->memory, &u->err) < 0)
		return -u->err.code;
	buf_add(&u->dirs, &d, sizeof(d));
	buf_add(&u->dirs, e->name, d.name_size);
	return 0;
}

/* The errors of open(2) on a filesystem that does not support files without a name. */
static bool untar_needs_name(const struct untar *u, int code)
{
	return u->tar.entry.type == TAR_FILE && !u->named &&
	       (code == EOPNOTSUPP || code == EISDIR || code == EINVAL || code == ENOENT);
}

static void untar_on_made(void *ctx, struct files_answer *a,
			  const struct warren_error *err)
{
	struct untar *u = ctx;
	struct stat st;

	if (err && untar_needs_name(u, err->code)) {
		u->named = true;
		untar_make_entry(u);
		return;
	}
	if (err) {
		if (!untar_clear_way(u, err->code))
			untar_finish(u, err);
		return;
	}
	if (u->tar.entry.type == TAR_FILE) {
		u->fd = TAKE_FD(a->fd);
		u->stream = file_writer_stream();
		if (fstat(u->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
			(void)error_errno(&u->err, ENXIO, "write '%s'",
					  u->tar.entry.name);
			untar_finish(u, &u->err);
			return;
		}
	} else if (u->tar.entry.type == TAR_DIRECTORY && untar_defer(u) < 0) {
		untar_finish(u, &u->err);
		return;
	}
	u->entries++;
	untar_go_on(u);
}

static void open_file(struct untar *u)
{
	AUTO_BUF struct buf name = BUF_INIT(FILES_NAMES_MAX);
	unsigned mode = u->tar.entry.mode;

	u->waiting = true;
	files_call(u->files, "write", u->tar.entry.name);
	if (!u->named) {
		files_open(u->files, u->parent >= 0 ? u->parent : u->o.dir, ".",
			   O_WRONLY | O_TMPFILE, mode, untar_on_made, u);
		return;
	}
	put_beside(u, u->beside, &name);
	files_open(u->files, u->o.dir, name.failed ? "" : name.data,
		   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode, untar_on_made, u);
}

static void untar_on_parent(void *ctx, struct files_answer *a,
			    const struct warren_error *err)
{
	struct untar *u = ctx;

	if (err) {
		leave_parent(u);
		if (!untar_clear_way(u, err->code))
			untar_finish(u, err);
		return;
	}
	u->parent = TAKE_FD(a->fd);
	open_file(u);
}

/* A file without a name is created in a directory, which is usually that of the previous
 * file. */
static void untar_make_file(struct untar *u)
{
	const char *name = u->tar.entry.name, *slash = strrchr(name, '/');
	size_t n = slash ? (size_t)(slash - name) : 0;
	struct warren_error err = WARREN_ERROR_INIT;
	char id[ID_LEN + 1];

	id_make(id);
	(void)snprintf(u->beside, sizeof(u->beside), ".warren-%s~", id);
	if (u->named || (u->parent_name ? strlen(u->parent_name) == n &&
						  strncmp(u->parent_name, name, n) == 0
					: n == 0)) {
		open_file(u);
		return;
	}
	leave_parent(u);
	if (n == 0) {
		open_file(u);
		return;
	}
	u->parent_name = strndup(name, n);
	if (!u->parent_name) {
		(void)error_errno(&err, ENOMEM, "unpack");
		untar_finish(u, &err);
		return;
	}
	u->waiting = true;
	files_open(u->files, u->o.dir, u->parent_name, O_PATH | O_DIRECTORY, 0,
		   untar_on_parent, u);
}

static void untar_make_entry(struct untar *u)
{
	const struct tar_entry *e = &u->tar.entry;

	switch (e->type) {
	case TAR_FILE:
		untar_make_file(u);
		break;
	case TAR_DIRECTORY:
		untar_change(u,
			     (struct files_change){ .verb = PROTO_MKDIR,
						    .flags = PROTO_CHANGE_LENIENT,
						    .mode = e->mode | 0700 },
			     e->name, NULL, untar_on_made);
		break;
	case TAR_SYMLINK:
		untar_change(u, (struct files_change){ .verb = PROTO_SYMLINK }, e->link,
			     e->name, untar_on_made);
		break;
	case TAR_LINK:
		untar_change(u, (struct files_change){ .verb = PROTO_LINK }, e->link,
			     e->name, untar_on_made);
		break;
	}
}

/* --------------------------------------------------------------- modes of directories */

/* As on_dressed(). */
static void on_dir_mode(void *ctx, struct files_answer *a UNUSED,
			const struct warren_error *err)
{
	struct untar *u = ctx;

	if (err && err->code == EOPNOTSUPP)
		untar_finish(u, err);
	else
		untar_go_on(u);
}

/* Set the mode of the next directory; 0: none is left. */
static int dress_dir(struct untar *u)
{
	struct deferred d;
	const char *name;
	struct files_change c = { .verb = PROTO_CHMOD };

	if (u->dirs.failed || u->dirs_off >= u->dirs.len)
		return 0;
	(void)memcpy(&d, u->dirs.data + u->dirs_off, sizeof(d));
	name = u->dirs.data + u->dirs_off + sizeof(d);
	u->dirs_off += sizeof(d) + d.name_size;
	c.mode = d.mode;
	untar_change(u, c, name, NULL, on_dir_mode);
	c = (struct files_change){
		.verb = PROTO_UTIME, .mtime_sec = d.mtime, .dir = u->o.dir, .to = -1
	};
	files_change_one(u->files, c, name, NULL, untar_ignore, NULL);
	return 1;
}

static void untar_at_end(struct untar *u)
{
	if (!tar_is_whole(&u->tar) || !u->unpack || !unpack_is_whole(u->unpack)) {
		(void)error_set(&u->err, EBADMSG,
				"the archive is damaged: it ends too soon");
		untar_finish(u, &u->err);
	} else if (!dress_dir(u)) {
		untar_finish(u, NULL);
	}
}

/* ---------------------------------------------------------------- data of the archive */

static int untar_begin_entry(struct untar *u)
{
	u->cleared = u->parented = false;
	if (!u->tar.entry.name[0])
		return 0; /* the entry is the top directory itself */
	untar_make_entry(u);
	return 0;
}

static int end_entry(struct untar *u)
{
	if (u->fd >= 0)
		place_file(u);
	if (u->tar.entry.name[0])
		untar_dress(u);
	return 0;
}

static void on_data_written(void *ctx, struct files_answer *a UNUSED,
			    const struct warren_error *err)
{
	struct untar *u = ctx;
	bool full = u->full;

	u->writing--;
	u->full = false;
	untar_heard(u, err);
	if (full && !u->over)
		untar_go_on(u);
}

/*
 * Later requests wait for this write in init, as for place_file(); no other process has
 * the file open.
 */
static int write_data(struct untar *u, const char *data, size_t n)
{
	struct file_writer *ignored;
	int r;

	if (u->fd < 0)
		return 0;
	u->bytes += n;
	files_call(u->files, "write", u->tar.entry.name);
	u->under_way++;
	u->writing++;
	r = file_writer_start(u->files, u->fd, u->stream, true, data, n, on_data_written,
			      u, &ignored, &u->err);
	if (r != 0) {
		u->under_way--;
		u->writing--;
	} else if (u->writing >= WRITING_MAX) {
		u->waiting = u->full = true;
	}
	return r < 0 ? r : 0;
}

/* Handle one event of the tar reader. Return 1 if it needs more data, or -errno. */
static int take_tar(struct untar *u)
{
	const char *data = u->raw + u->raw_off;
	size_t used = 0;
	int ev = tar_take(&u->tar, data, u->raw_len - u->raw_off, &used, &u->err);

	u->raw_off += used;
	switch (ev) {
	case TAR_ENTRY:
		return untar_begin_entry(u);
	case TAR_DATA:
		return write_data(u, data, used);
	case TAR_ENTRY_END:
		return end_entry(u);
	case TAR_MORE:
	case TAR_OVER:
		return u->raw_off == u->raw_len;
	default:
		return ev;
	}
}

/* Get more data for the tar reader. Return 1 if there is none. */
static int untar_refill(struct untar *u)
{
	const char *data = u->in.data + u->in_off;
	size_t n = u->in.len - u->in_off, used = 0;
	int r = 0;

	/* The first four bytes identify the format. */
	if (!u->unpack && (n >= 4 || (u->fed_all && n > 0)))
		r = unpack_new(u->o.zip ? PACK_ZIP : unpack_kind(data, n), &u->unpack,
			       &u->err);
	if (r < 0 || !u->unpack)
		return r < 0 ? r : 1;
	u->raw_off = u->raw_len = 0;
	r = unpack_take(u->unpack, data, n, &used, u->raw, sizeof(u->raw), &u->raw_len,
			&u->err);
	u->in_off += used;
	return r < 0 ? r : used == 0 && u->raw_len == 0;
}

static void untar_run(struct untar *u)
{
	uint64_t until = clock_now() + SLICE_NS;
	int r = 0, starved = 0;

	u->running = true;
	while (!u->waiting && !u->over && r >= 0 && !starved && clock_now() < until) {
		r = take_tar(u);
		if (r == 1) {
			r = untar_refill(u);
			starved = r == 1;
		}
	}
	u->running = false;
	if (u->waiting || u->over)
		return;
	if (r < 0)
		untar_finish(u, &u->err);
	else if (!starved)
		loop_later(files_loop(u->files), &u->turn);
	else if (u->fed_all && !u->under_way)
		untar_at_end(u);
	else if (!u->fed_all)
		u->o.more(u->o.ctx);
}

void untar_feed(struct untar *u, const char *data, size_t n)
{
	if (u->over)
		return;
	/* At most the beginning of an item is left. */
	if (u->in_off > 0) {
		(void)memmove(u->in.data, u->in.data + u->in_off, u->in.len - u->in_off);
		u->in.len -= u->in_off;
		u->in_off = 0;
	}
	buf_add(&u->in, data, n);
	u->fed_all |= n == 0;
	if (u->in.failed) {
		(void)error_errno(&u->err, ENOMEM, "unpack");
		untar_finish(u, &u->err);
		return;
	}
	untar_run(u);
}
