/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upload.c - write files: one as the body of a request, or several as a form
 *
 * A piece of the request is taken apart step by step, and each step waits for the one
 * before it: open a file, write to it. Until the piece is done, the client has to wait. A
 * compressed piece is decompressed bit by bit, because it can become a thousand times as
 * large.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "api/e2b/fs_call.h"
#include "api/e2b/path_set.h"
#include "api/multipart.h"
#include "archive/tar.h"
#include "net/loop.h"
#include "service/files/file_writer.h"

#define FILES_MAX 10000 /* in one form */
/* Of the answer, which names every file. */
#define ANSWER_MAX (4U << 20)
/* Of all metadata of a file, with a prefix for each key. */
#define METADATA_MAX 4096
#define KEY_MAX      246
/* Bytes that one step decompresses, and steps in one turn of the loop. */
#define UNPACK_BYTES (128U << 10)
#define UNPACK_STEPS 4

struct upload {
	struct fs_call fs;
	struct multipart form;
	bool raw; /* the body is the only file */
	char asked[4096];
	struct buf piece; /* the bytes that are being taken apart */
	size_t at;
	struct unpack *unpack; /* NULL: the body is not compressed */
	struct buf packed;     /* compressed bytes, which become pieces */
	size_t packed_at;
	unsigned steps;        /* of this turn */
	struct loop_task turn; /* goes on in the next */
	struct path_set seen;  /* the paths of all files */
	/* The attributes of all files, for PROTO_SET_ATTRIBUTES. */
	struct buf attributes;
	uint32_t n_attributes;
	bool finishing; /* the only file is complete */
	bool busy;      /* a step is not done */
	bool ended;     /* the whole body has arrived */
	int fd;         /* the file that is being written; -1: none */
	struct file_writer *writer;
	uint32_t stream;
	char path[4096];
	struct buf out;
	struct json json;
};

static void upload_done(struct fs_call *f)
{
	struct upload *u = (struct upload *)f;

	u->writer = file_writer_cancel(u->writer);
	if (u->fd >= 0)
		(void)close(u->fd);
	loop_task_cancel(&u->turn);
	u->unpack = unpack_free(u->unpack);
	buf_done(&u->piece);
	buf_done(&u->packed);
	path_set_done(&u->seen);
	buf_done(&u->attributes);
	buf_done(&u->out);
}

static void upload_go_on(struct upload *u);

static void upload_refuse_file(struct upload *u, const struct warren_error *err)
{
	struct call *c = u->fs.fc.call;

	if (err->code == EISDIR)
		e2b_refuse(c, 400, "path is a directory: %s", u->path);
	else
		file_fail(c, err);
}

/* A step is done: take the next. */
static void upload_step(struct upload *u)
{
	u->busy = false;
	upload_go_on(u);
}

/* ------------------------------------------------------------------- open a file */

static void upload_on_open(void *ctx, struct files_answer *a,
			   const struct warren_error *err);

static void upload_open(struct upload *u)
{
	files_open(u->fs.fc.files, -1, u->path, O_WRONLY | O_CREAT | O_TRUNC, 0644,
		   upload_on_open, u);
}

static void e2b_upload_on_parents(void *ctx, struct files_answer *a UNUSED,
				  const struct warren_error *err)
{
	struct upload *u = ctx;

	if (err)
		upload_refuse_file(u, err);
	else
		upload_open(u);
}

static void e2b_upload_make_parents(struct upload *u)
{
	char dir[4096];
	char *slash;

	(void)strcpy(dir, u->path);
	slash = strrchr(dir, '/');
	slash[slash == dir] = '\0';
	files_make_dirs(u->fs.fc.files, dir, 0755, e2b_upload_on_parents, u);
}

static void upload_on_open(void *ctx, struct files_answer *a,
			   const struct warren_error *err)
{
	struct upload *u = ctx;
	struct stat st;

	if (err && err->code == ENOENT && u->stream == 0) {
		u->stream = 1; /* the parents are missing: create them once */
		e2b_upload_make_parents(u);
		return;
	}
	if (err) {
		upload_refuse_file(u, err);
		return;
	}
	u->fd = TAKE_FD(a->fd);
	u->stream = file_writer_stream();
	if (fstat(u->fd, &st) < 0 || !S_ISREG(st.st_mode))
		e2b_refuse(u->fs.fc.call, 400, "path is not a regular file: %s", u->path);
	else
		upload_step(u);
}

/* Remember the path of the file; false: refused. */
static bool upload_note_path(struct upload *u)
{
	int r = path_set_add(&u->seen, u->path);

	if (r < 0)
		call_refuse(u->fs.fc.call, API_ERR_OVERLOADED, "out of memory");
	else if (r == 0)
		e2b_refuse(u->fs.fc.call, 400,
			   "you cannot upload multiple files to the same path '%s' in "
			   "one upload request",
			   u->path);
	return r > 0;
}

/* Does the form have too many files? Those before are written. True: refused. */
static bool upload_is_full(struct upload *u)
{
	if (u->seen.n < FILES_MAX && !u->out.failed)
		return false;
	e2b_refuse(
		u->fs.fc.call, 400,
		"one form can have at most %d files, and an answer of %u MiB with their "
		"paths; the first %zu are written: send the others in another request",
		FILES_MAX, ANSWER_MAX >> 20, u->seen.n);
	return true;
}

/* False: refused. */
static bool upload_begin_file(struct upload *u, const char *asked)
{
	if (upload_is_full(u))
		return false;
	if (!*asked) {
		e2b_refuse(u->fs.fc.call, 400,
			   "a file has no name: give it in the query or in the form");
		return false;
	}
	if (!fs_path(&u->fs, asked, u->path) || !upload_note_path(u))
		return false;
	u->busy = true;
	u->stream = 0;
	upload_open(u);
	return true;
}

/* --------------------------------------------------------------------- end a file */

static void upload_put_metadata(struct upload *u)
{
	const char *at = u->attributes.data + strlen(u->attributes.data) + 1;

	json_open(&u->json, "metadata", '{');
	for (uint32_t i = 1; i < u->n_attributes; i += 2) {
		const char *value = at + strlen(at) + 1;

		json_str(&u->json, at + strlen(FS_METADATA), value);
		at = value + strlen(value) + 1;
	}
	json_close(&u->json, '}');
}

static void upload_put_file(struct upload *u)
{
	const char *slash = strrchr(u->path, '/');

	if (u->fd >= 0)
		(void)close(TAKE_FD(u->fd));
	json_open(&u->json, NULL, '{');
	json_str(&u->json, "path", u->path);
	json_str(&u->json, "name", slash + 1);
	json_str(&u->json, "type", "file");
	if (u->n_attributes > 1)
		upload_put_metadata(u);
	json_close(&u->json, '}');
}

static void upload_refuse_metadata(struct upload *u)
{
	e2b_refuse(
		u->fs.fc.call, 501,
		"metadata of files is not supported by the filesystem or the backend of "
		"this sandbox; use the metadata of the sandbox");
}

static void upload_on_attributes(void *ctx, struct files_answer *a UNUSED,
				 const struct warren_error *err)
{
	struct upload *u = ctx;

	/* Without metadata, there is nothing to lose; the file may never have had any. */
	if (err && u->n_attributes > 1) {
		if (err->code == EOPNOTSUPP || err->code == EINVAL || err->code == ENOSYS)
			upload_refuse_metadata(u);
		else
			upload_refuse_file(u, err);
		return;
	}
	upload_put_file(u);
	upload_step(u);
}

/* A copy was written back. */
static void upload_on_settled(void *ctx, struct files_answer *a UNUSED,
			      const struct warren_error *err)
{
	struct upload *u = ctx;

	if (err) {
		upload_refuse_file(u, err);
		return;
	}
	upload_put_file(u);
	upload_step(u);
}

/* The file has all its bytes: give it its metadata, in place of what it had before. */
static void upload_end_file(struct upload *u)
{
	struct files *f = u->fs.fc.files;
	struct files_change change = { .verb = PROTO_SET_ATTRIBUTES,
				       .dir = u->fd,
				       .to = -1,
				       .names = u->attributes.data,
				       .size = u->attributes.len,
				       .n = u->n_attributes };

	if (u->fd >= 0 && u->n_attributes == 1 && files_are_copies(f)) {
		u->busy = true;
		files_stat(f, -1, u->path, true, upload_on_settled, u);
		return;
	}
	if (u->fd < 0 || (u->n_attributes == 1 && !files_have_workers(f))) {
		upload_put_file(u);
		return;
	}
	u->busy = true;
	files_call(f, "set the metadata of", u->path);
	files_change(f, &change, upload_on_attributes, u);
}

/* ------------------------------------------------------------------ write and finish */

static void e2b_upload_on_written(void *ctx, struct files_answer *a UNUSED,
				  const struct warren_error *err)
{
	struct upload *u = ctx;

	u->writer = NULL;
	if (err)
		upload_refuse_file(u, err);
	else
		upload_step(u);
}

static void upload_write(struct upload *u, const char *data, size_t n)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	if (n == 0 || u->fd < 0)
		return;
	u->busy = true;
	files_call(u->fs.fc.files, "write", u->path);
	r = file_writer_start(u->fs.fc.files, u->fd, u->stream, false, data, n,
			      e2b_upload_on_written, u, &u->writer, &err);
	if (r < 0)
		upload_refuse_file(u, &err);
	else if (r == 1)
		u->busy = false;
}

/* Everything was written; a last look at the file reports errors of a copy. */
static void upload_on_last(void *ctx, struct files_answer *a UNUSED,
			   const struct warren_error *err)
{
	struct upload *u = ctx;

	if (err) {
		upload_refuse_file(u, err);
		return;
	}
	json_close(&u->json, ']');
	if (u->out.failed && upload_is_full(u))
		return;
	call_json(u->fs.fc.call, 200, &u->out);
}

static void upload_finish(struct upload *u)
{
	if (u->unpack && !unpack_is_whole(u->unpack))
		e2b_refuse(u->fs.fc.call, 400, "the compressed body is not complete");
	else if (!u->raw && !multipart_is_whole(&u->form))
		e2b_refuse(u->fs.fc.call, 400, "the form has no end");
	if (u->raw && !u->finishing && !u->fs.fc.call->answered) {
		u->finishing = true;
		upload_end_file(u);
	}
	if (!u->busy && !u->fs.fc.call->answered)
		files_stat(u->fs.fc.files, -1, u->path[0] ? u->path : "/", true,
			   upload_on_last, u);
}

/* Take one step of a form. */
static void upload_take_form(struct upload *u)
{
	struct warren_error err = WARREN_ERROR_INIT;
	const char *data = NULL;
	size_t used = 0, n = 0;
	int ev = multipart_take(&u->form, u->piece.data + u->at, u->piece.len - u->at,
				&used, &data, &n, &err);

	u->at += used;
	if (ev < 0) {
		e2b_refuse(u->fs.fc.call, 400, "%s", err.msg);
	} else if (ev == MULTIPART_PART) {
		if (strcmp(u->form.name, "file") != 0)
			e2b_refuse(u->fs.fc.call, 400,
				   "the form has an unknown field '%s'", u->form.name);
		else
			(void)upload_begin_file(u, u->asked[0] ? u->asked : u->form.file);
	} else if (ev == MULTIPART_DATA) {
		upload_write(u, data, n);
	} else if (ev == MULTIPART_END) {
		upload_end_file(u);
	}
}

/* Decompress the next piece. False: there is none. */
static bool upload_unpack(struct upload *u)
{
	struct warren_error err = WARREN_ERROR_INIT;
	size_t used = 0, made = 0;
	char *room;

	u->piece.len = u->at = 0;
	if (!u->unpack)
		return false;
	room = buf_reserve(&u->piece, UNPACK_BYTES);
	if (!room) {
		call_refuse(u->fs.fc.call, API_ERR_OVERLOADED, "out of memory");
		return false;
	}
	if (unpack_take(u->unpack, u->packed.data + u->packed_at,
			u->packed.len - u->packed_at, &used, room, UNPACK_BYTES, &made,
			&err) < 0) {
		e2b_refuse(u->fs.fc.call, 400, "the compressed body is not valid");
		return false;
	}
	u->packed_at += used;
	u->piece.len = made;
	if (used == 0 && made == 0)
		u->packed.len = u->packed_at = 0;
	return used > 0 || made > 0;
}

/* Take the piece apart, until a step has to wait. */
static void upload_take_piece(struct upload *u)
{
	struct call *c = u->fs.fc.call;

	while (!u->busy && !c->answered && u->at < u->piece.len) {
		if (u->raw) {
			size_t n = u->piece.len - u->at;

			u->at = u->piece.len;
			upload_write(u, u->piece.data + u->piece.len - n, n);
		} else {
			upload_take_form(u);
		}
	}
}

static void upload_on_turn(void *ctx)
{
	struct upload *u = ctx;

	u->steps = 0;
	upload_go_on(u);
}

static void upload_go_on(struct upload *u)
{
	struct call *c = u->fs.fc.call;

	do {
		upload_take_piece(u);
		if (u->busy || c->answered)
			return;
		if (u->unpack && ++u->steps > UNPACK_STEPS) {
			loop_later(service_loop(c->v1->service), &u->turn);
			return;
		}
	} while (upload_unpack(u));
	if (c->answered)
		return;
	u->steps = 0;
	if (u->ended)
		upload_finish(u);
	else
		http_resume(c->req);
}

static void e2b_upload_on_piece(struct http_request *req, const char *data, size_t n)
{
	struct call *c = req->user;
	struct upload *u = c->state;

	if (!u || c->answered)
		return;
	if (n == 0) {
		u->ended = true;
		upload_go_on(u);
		return;
	}
	buf_add(u->unpack ? &u->packed : &u->piece, data, n);
	if (u->piece.failed || u->packed.failed) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	http_pause(req);
	upload_go_on(u);
}

static void upload_start(struct fs_call *f)
{
	struct upload *u = (struct upload *)f;
	struct http_request *req = f->fc.call->req;

	json_open(&u->json, NULL, '[');
	if (u->n_attributes > 1 && files_are_copies(f->fc.files)) {
		upload_refuse_metadata(u);
		return;
	}
	if (u->raw && !upload_begin_file(u, u->asked))
		return;
	u->ended = !req->has_body;
	if (req->has_body)
		http_stream(req, e2b_upload_on_piece);
	if (req->has_body && u->busy)
		http_pause(req);
	else if (u->ended && !u->busy)
		upload_go_on(u);
}

static bool upload_is_printable(const char *s)
{
	for (; *s; s++)
		if (*s < 0x20 || *s > 0x7e)
			return false;
	return true;
}

/* Has an earlier header the same key? The first value is used. */
static bool upload_has_key(const struct upload *u, const char *key)
{
	const char *at = u->attributes.data, *end = at + u->attributes.len;
	uint32_t i = 0;

	for (; at < end; at += strlen(at) + 1, i++)
		if (i % 2 == 1 && strcasecmp(at + strlen(FS_METADATA), key) == 0)
			return true;
	return false;
}

/* Add an attribute; the key is written in lower case. False: it is not valid. */
static bool upload_add_metadata(struct upload *u, const char *key, const char *value,
				size_t *total)
{
	size_t prefix = strlen(FS_METADATA), n = strlen(key);

	if (n == 0 || n > KEY_MAX || !upload_is_printable(key) ||
	    !upload_is_printable(value))
		return false;
	*total += prefix + n + strlen(value);
	if (*total > METADATA_MAX)
		return false;
	buf_puts(&u->attributes, FS_METADATA);
	for (; *key; key++)
		buf_add(&u->attributes, (char[]){ (char)tolower((unsigned char)*key) },
			1);
	buf_add(&u->attributes, "", 1);
	buf_add(&u->attributes, value, strlen(value) + 1);
	u->n_attributes += 2;
	return true;
}

/* Read the headers X-Metadata-KEY: VALUE. False: refused. */
static bool upload_read_metadata(struct upload *u, struct call *c)
{
	static const char header[] = "X-Metadata-";
	size_t n = sizeof(header) - 1, total = 0;

	buf_add(&u->attributes, FS_METADATA, sizeof(FS_METADATA));
	u->n_attributes = 1;
	for (size_t i = 0; i < c->req->n_headers; i++) {
		const struct http_header *h = &c->req->headers[i];

		if (strncasecmp(h->name, header, n) != 0 ||
		    upload_has_key(u, h->name + n))
			continue;
		if (!upload_add_metadata(u, h->name + n, h->value, &total)) {
			e2b_refuse(
				c, 400,
				"metadata of a file must have printable ASCII keys and "
				"values, keys of at most %d bytes, and at most %d bytes "
				"in all; see %.60s",
				KEY_MAX, METADATA_MAX, h->name);
			return false;
		}
	}
	if (u->attributes.failed)
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
	return !u->attributes.failed;
}

/* False: refused. */
static bool upload_set_encoding(struct upload *u, struct call *c)
{
	const char *encoding = http_header(c->req, "Content-Encoding");
	struct warren_error err = WARREN_ERROR_INIT;

	if (access_body_is_plain(c->req))
		return true;
	if (strcasecmp(encoding, "gzip") != 0)
		e2b_refuse(c, 400, "Content-Encoding '%.60s' is not supported: use gzip",
			   encoding);
	else if (unpack_new(PACK_GZIP, &u->unpack, &err) < 0)
		call_fail(c, &err);
	else
		return true;
	return false;
}

void e2b_file_write(struct call *c)
{
	const char *type = http_header(c->req, "Content-Type");
	struct warren_error why = WARREN_ERROR_INIT;
	struct upload *u;
	char user[64];

	if (!e2b_may_use_file(c))
		return;
	u = calloc(1, sizeof(*u));
	if (!u) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	u->fd = -1;
	u->piece = (struct buf)BUF_INIT(4U << 20);
	u->packed = (struct buf)BUF_INIT(4U << 20);
	u->attributes = (struct buf)BUF_INIT((size_t)2 * METADATA_MAX);
	u->out = (struct buf)BUF_INIT(ANSWER_MAX);
	u->turn = (struct loop_task){ .fn = upload_on_turn, .ctx = u };
	u->json = (struct json){ .out = &u->out };
	u->fs.done = upload_done;
	u->fs.next = upload_start;
	(void)e2b_query(c, "path", u->asked, sizeof(u->asked));
	(void)e2b_query(c, "username", user, sizeof(user));
	u->raw = type && strncasecmp(type, "application/octet-stream", 24) == 0;
	if (!upload_read_metadata(u, c) || !upload_set_encoding(u, c)) {
		upload_done(&u->fs);
		free(u);
	} else if (!u->raw && multipart_init(&u->form, type, &why) < 0) {
		upload_done(&u->fs);
		free(u);
		e2b_refuse(c, 400,
			   "the body must be multipart/form-data or "
			   "application/octet-stream");
	} else {
		u->form.parts_max = FILES_MAX + 1; /* upload_is_full() says why */
		fs_begin(c, &u->fs, user[0] ? user : NULL, u->asked);
	}
}
