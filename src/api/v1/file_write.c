/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_write.c - handlers: write a body to a file, or append it
 *
 * A new file is written completely before it replaces the old one. Until then it has no
 * name, so it disappears if its writer dies. If the filesystem does not support such
 * files, it has a temporary name in the same directory, which is removed when the request
 * ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "api/v1/file.h"
#include "service/files/file_writer.h"

#define GATHER_LEAST (32U << 10) /* smallest amount of data that is worth waiting for */

struct writing {
	struct file_call fc;
	struct file_target_op *finding;
	struct file_target target;
	bool append, parents;
	bool nameless; /* O_TMPFILE */
	bool made;     /* the file has its final name */
	unsigned mode;
	int fd;
	struct file_writer *writer; /* the write that a thread is doing; NULL: none */
	uint32_t stream;
	unsigned under_way; /* pieces */
	const char *room;   /* buffer for the next piece; NULL: none */
	size_t room_size;
	size_t gathered; /* bytes in the buffer that are not being written yet */
	bool ended;      /* the whole body has arrived */
	char name[64];   /* temporary name in the directory */
};

static void file_write_ignore(void *ctx UNUSED, struct files_answer *a UNUSED,
			      const struct warren_error *err UNUSED)
{
}

static void writing_done(struct file_call *fc)
{
	struct writing *w = (struct writing *)fc;
	struct files_change c = { .verb = PROTO_UNLINK, .dir = w->target.dir, .to = -1 };

	w->finding = file_target_free(w->finding);
	w->writer = file_writer_cancel(w->writer);
	if (w->made && fc->files)
		files_change_one(fc->files, c, w->name, NULL, file_write_ignore, NULL);
	if (w->fd >= 0)
		(void)close(w->fd);
	if (w->target.dir >= 0)
		(void)close(w->target.dir);
}

static void file_write_failed(struct writing *w, int code)
{
	struct warren_error err = WARREN_ERROR_INIT;

	(void)error_errno(&err, code, "write '%s'", w->fc.path);
	file_fail(w->fc.call, &err);
}

static void file_write_finish(struct writing *w)
{
	file_answer_info(&w->fc, w->append || w->target.exists ? 200 : 201);
}

static void on_renamed(void *ctx, struct files_answer *a UNUSED,
		       const struct warren_error *err)
{
	struct writing *w = ctx;

	if (err) {
		file_fail(w->fc.call, err);
		return;
	}
	w->made = false;
	file_write_finish(w);
}

static void on_put(void *ctx, struct files_answer *a UNUSED,
		   const struct warren_error *err)
{
	struct writing *w = ctx;

	if (err)
		file_fail(w->fc.call, err);
	else
		file_write_finish(w);
}

static void rename_it(struct writing *w)
{
	struct files_change c = { .verb = PROTO_RENAME, .dir = w->target.dir, .to = -1 };

	files_call(w->fc.files, "write", w->fc.path);
	files_change_one(w->fc.files, c, w->name, w->target.name, on_renamed, w);
}

static void on_owned(void *ctx, struct files_answer *a UNUSED,
		     const struct warren_error *err UNUSED)
{
	rename_it(ctx);
}

static void give_it(struct writing *w)
{
	struct files_change c = { .verb = PROTO_CHOWN,
				  .owner = w->target.is.uid,
				  .group = w->target.is.gid,
				  .dir = w->target.dir,
				  .to = -1 };

	files_change_one(w->fc.files, c, w->name, NULL, on_owned, w);
}

/*
 * If the file is a copy, the first request that names it reports whether it could be
 * written; see on_owned().
 */
static void on_arrived(void *ctx, struct files_answer *a UNUSED,
		       const struct warren_error *err)
{
	struct writing *w = ctx;

	if (err)
		file_fail(w->fc.call, err);
	else
		give_it(w);
}

/* All data has arrived. */
static void file_write_complete(struct writing *w)
{
	bool give = w->target.exists && files_uid(w->fc.files) == 0;
	struct files_change c = { .verb = PROTO_PUT,
				  .flags = give ? PROTO_CHANGE_OWNER : 0,
				  .owner = w->target.is.uid,
				  .group = w->target.is.gid,
				  .mode = w->stream,
				  .dir = w->target.dir,
				  .to = w->fd };

	if (w->nameless) {
		files_call(w->fc.files, "write", w->fc.path);
		files_change_one(w->fc.files, c, w->name, w->target.name, on_put, w);
	}
	(void)close(TAKE_FD(w->fd));
	if (w->append)
		file_write_finish(w);
	else if (give && !w->nameless && files_are_copies(w->fc.files))
		files_stat(w->fc.files, w->target.dir, w->name, false, on_arrived, w);
	else if (give && !w->nameless)
		give_it(w);
	else if (!w->nameless)
		rename_it(w);
}

static void file_write_on_piece_written(void *ctx, struct files_answer *a,
					const struct warren_error *err);

/* Return false if the write failed or has ended; then the request has ended too. */
static bool write_piece(struct writing *w, const char *data, size_t n)
{
	struct call *c = w->fc.call;
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	files_call(w->fc.files, "write", w->fc.path);
	w->under_way++;
	r = file_writer_start(w->fc.files, w->fd, w->stream, w->nameless, data, n,
			      file_write_on_piece_written, w, &w->writer, &err);
	if (r < 0)
		file_fail(c, &err);
	if (r < 0 || c->answered)
		return false;
	w->under_way -= r == 1;
	return true;
}

static bool write_gathered(struct writing *w)
{
	size_t n = w->gathered;

	w->gathered = 0;
	return n == 0 || write_piece(w, w->room, n);
}

static void file_write_on_piece_written(void *ctx, struct files_answer *a UNUSED,
					const struct warren_error *err)
{
	struct writing *w = ctx;

	w->writer = NULL;
	w->under_way--;
	if (err) {
		file_fail(w->fc.call, err);
	} else if (!w->ended) {
		if (write_gathered(w))
			http_resume(w->fc.call->req);
	} else if (!w->nameless && w->under_way == 0) {
		file_write_complete(w);
	}
}

/*
 * Data that arrives during a write is gathered while there is space: a client may send
 * small pieces, and each request to a worker costs as much as writing many pages.
 */
static void file_write_on_piece(struct http_request *req, const char *data, size_t n)
{
	struct call *c = req->user;
	struct writing *w = c->state;
	bool more;

	if (!w || c->answered || w->fd < 0)
		return;
	if (n == 0) {
		w->ended = true;
		/* A file without a name gets its name after the last piece, or never gets
		 * one. */
		if (write_gathered(w) && (w->nameless || w->under_way == 0))
			file_write_complete(w);
		return;
	}
	if (w->room && data == w->room + w->gathered) {
		w->gathered += n;
		if (w->under_way > 0 && w->room_size - w->gathered >= GATHER_LEAST)
			return;
		more = write_gathered(w);
	} else {
		more = write_gathered(w) && write_piece(w, data, n);
	}
	if (more && w->under_way >= file_writer_ahead(w->fc.files))
		http_pause(req);
}

static char *file_write_on_room(struct http_request *req, size_t *size)
{
	struct call *c = req->user;
	struct writing *w = c->state;
	size_t all = *size + (w ? w->gathered : 0);
	char *room;

	if (!w || c->answered || w->fd < 0)
		return NULL;
	room = files_room(w->fc.files, &all);
	if (!room)
		return NULL;
	w->room = room;
	w->room_size = all;
	*size = all - w->gathered;
	return room + w->gathered;
}

static void open_named(struct writing *w);

/* The errors of open(2) on a filesystem that does not support files without a name. */
static bool file_write_needs_name(int code)
{
	return code == EOPNOTSUPP || code == EISDIR || code == EINVAL || code == ENOENT;
}

static void file_write_on_open(void *ctx, struct files_answer *a,
			       const struct warren_error *err)
{
	struct writing *w = ctx;
	struct stat st;

	if (err && w->nameless && file_write_needs_name(err->code)) {
		w->nameless = false;
		open_named(w);
		return;
	}
	if (err) {
		file_fail(w->fc.call, err);
		return;
	}
	w->fd = TAKE_FD(a->fd);
	w->made = !w->append && !w->nameless;
	if (fstat(w->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		file_write_failed(w, ENXIO);
		return;
	}
	w->fc.call->req->room = file_write_on_room;
	if (w->fc.call->req->has_body)
		http_stream(w->fc.call->req, file_write_on_piece);
	else
		file_write_complete(w);
}

static void open_named(struct writing *w)
{
	files_call(w->fc.files, "write", w->fc.path);
	files_open(w->fc.files, w->target.dir, w->name,
		   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, w->mode, file_write_on_open,
		   w);
}

static void file_write_on_target(void *ctx, struct file_target *p,
				 const struct warren_error *err)
{
	struct writing *w = ctx;
	char id[ID_LEN + 1];

	w->finding = NULL;
	if (err) {
		file_fail(w->fc.call, err);
		return;
	}
	w->target = *p;
	files_call(w->fc.files, "write", w->fc.path);
	if (w->append) {
		files_open(w->fc.files, p->dir, p->name,
			   O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, w->mode,
			   file_write_on_open, w);
		return;
	}
	if (p->exists)
		w->mode = p->is.mode & 07777;
	id_make(id);
	(void)snprintf(w->name, sizeof(w->name), ".warren-%s~", id);
	w->nameless = true;
	files_open(w->fc.files, p->dir, ".", O_WRONLY | O_TMPFILE, w->mode,
		   file_write_on_open, w);
}

static void file_write_begun(struct file_call *fc)
{
	struct writing *w = (struct writing *)fc;

	file_target_find(fc->files, fc->path, w->parents, file_write_on_target, w,
			 &w->finding);
}

static void file_write_begin(struct call *c, bool append, const char *path,
			     const char *user, const char *mode, bool parents)
{
	struct writing *w = calloc(1, sizeof(*w));

	if (w) {
		w->fc.begun = file_write_begun;
		w->fc.done = writing_done;
		w->append = append;
		w->parents = parents;
		w->mode = mode ? file_mode(mode) : 0644;
		w->stream = file_writer_stream();
		w->fd = w->target.dir = -1;
	}
	file_begin(c, w ? &w->fc : NULL, path, user);
}

void v1_write_file(struct call *c)
{
	struct api_value *v = c->query.v;

	file_write_begin(c, false, v[V1_WRITE_FILE_QUERY_PATH].text,
			 v[V1_WRITE_FILE_QUERY_USER].text,
			 v[V1_WRITE_FILE_QUERY_MODE].text,
			 v[V1_WRITE_FILE_QUERY_PARENTS].number);
}

void v1_append_file(struct call *c)
{
	struct api_value *v = c->query.v;

	file_write_begin(c, true, v[V1_APPEND_FILE_QUERY_PATH].text,
			 v[V1_APPEND_FILE_QUERY_USER].text,
			 v[V1_APPEND_FILE_QUERY_MODE].text,
			 v[V1_APPEND_FILE_QUERY_PARENTS].number);
}
