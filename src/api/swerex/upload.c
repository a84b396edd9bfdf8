/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upload.c - handler: write or unpack the file of a form
 *
 * The form names the target after the file, so the data is kept until the whole form has
 * arrived, in a file without a name in the service's own directory. From there it is
 * copied to the target in pieces, so that other work has its turn in between.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/multipart.h"
#include "api/swerex/internal.h"
#include "base/fd.h"
#include "net/loop.h"
#include "service/files/file_writer.h"
#include "service/files/untar.h"

#define FILE_MAX  (1ULL << 30) /* maximum size of the file */
#define VALUE_MAX 4096         /* maximum for any other field */
#define PIECE     (256U << 10)

/* The words that a SWE-ReX server accepts as true in a form. */
#define TRUE_WORDS " true True TRUE 1 on yes y t "

struct upload {
	struct ask *ask; /* NULL: the client is gone */
	struct job *job; /* set when the whole form has arrived */
	struct multipart form;
	struct buf value, target, unzip;
	bool has_file;
	int spool, out;
	uint64_t size, sent;
	struct files *files;
	struct untar *untar;
	struct loop_timer *timer;
	char path[4096];
	bool parents, zip;
};

static void upload_free(struct upload *u)
{
	u->untar = untar_free(u->untar);
	u->files = files_end(u->files);
	u->timer = loop_timer_free(u->timer);
	buf_done(&u->value);
	buf_done(&u->target);
	buf_done(&u->unzip);
	if (u->spool >= 0)
		(void)close(u->spool);
	if (u->out >= 0)
		(void)close(u->out);
	free(u);
}

/* -------------------------------------------------------------- writing to the target */

static void upload_fail(struct upload *u, const struct warren_error *err)
{
	if (u->zip && err->code == EBADMSG)
		job_raise(u->job, "zipfile.BadZipFile", err->msg, strlen(err->msg));
	else
		job_fail(u->job, err, u->target.data);
	upload_free(u);
}

static void upload_fail_errno(struct upload *u, int code)
{
	struct warren_error err = WARREN_ERROR_INIT;

	(void)error_errno(&err, code, "write the file");
	upload_fail(u, &err);
}

static void upload_succeed(struct upload *u)
{
	AUTO_BUF struct buf out = BUF_INIT(64);

	buf_puts(&out, "{}");
	job_answer(u->job, 200, &out);
	upload_free(u);
}

static void upload_on_written(void *ctx, struct files_answer *a UNUSED,
			      const struct warren_error *err)
{
	if (err)
		upload_fail(ctx, err);
	else
		upload_succeed(ctx);
}

static ssize_t upload_next_piece(struct upload *u, char *piece)
{
	ssize_t n = pread(u->spool, piece, PIECE, (off_t)u->sent);

	if (n > 0)
		u->sent += (uint64_t)n;
	return n < 0 ? -errno : n;
}

static void upload_on_piece_written(void *ctx, struct files_answer *a UNUSED,
				    const struct warren_error *err)
{
	struct upload *u = ctx;

	if (err)
		upload_fail(u, err);
	else
		loop_timer_set(u->timer, 0);
}

static void upload_on_timer(void *ctx)
{
	static char piece[PIECE];
	struct upload *u = ctx;
	ssize_t n = upload_next_piece(u, piece);
	struct warren_error err = WARREN_ERROR_INIT;
	struct file_writer *ignored = NULL;
	int r = n < 0 ? (int)n : 0;

	if (u->untar && r == 0) {
		untar_feed(u->untar, piece, (size_t)n);
		return;
	}
	if (r < 0) {
		upload_fail_errno(u, -r);
	} else if (n > 0) {
		files_call(u->files, "write", u->path);
		if (file_writer_start(u->files, u->out, 0, false, piece, (size_t)n,
				      upload_on_piece_written, u, &ignored, &err) < 0)
			upload_fail(u, &err);
	} else {
		(void)close(TAKE_FD(u->out));
		files_stat(u->files, -1, u->path, true, upload_on_written, u);
	}
}

static void upload_on_more(void *ctx)
{
	loop_timer_set(((struct upload *)ctx)->timer, 0);
}

/* Untar calls this, so it must not be freed here. */
static void upload_on_unpacked(void *ctx, uint64_t entries UNUSED, uint64_t bytes UNUSED,
			       const struct warren_error *err)
{
	struct upload *u = ctx;
	AUTO_BUF struct buf out = BUF_INIT(64);

	buf_puts(&out, "{}");
	if (err && err->code == EBADMSG)
		job_raise(u->job, "zipfile.BadZipFile", err->msg, strlen(err->msg));
	else if (err)
		job_fail(u->job, err, NULL);
	else
		job_answer(u->job, 200, &out);
	u->job = NULL;
	loop_timer_set(u->timer, 0);
}

static void on_over(void *ctx)
{
	struct upload *u = ctx;

	if (u->job)
		upload_on_timer(u);
	else
		upload_free(u);
}

static void upload_open_target(struct upload *u);

static void upload_on_parents(void *ctx, struct files_answer *a UNUSED,
			      const struct warren_error *err)
{
	if (err)
		upload_fail(ctx, err);
	else
		upload_open_target(ctx);
}

static void upload_make_parents(struct upload *u)
{
	char dir[4096];
	char *slash;

	(void)strcpy(dir, u->path);
	slash = strrchr(dir, '/');
	if (!u->zip)
		slash[slash == dir] = '\0';
	u->parents = true;
	files_make_dirs(u->files, dir, 0755, upload_on_parents, u);
}

static void upload_on_target(void *ctx, struct files_answer *a,
			     const struct warren_error *err)
{
	struct upload *u = ctx;
	struct untar_options o = {
		.zip = true, .more = upload_on_more, .end = upload_on_unpacked, .ctx = u
	};
	struct stat st;

	if (err && err->code == ENOENT && !u->parents) {
		upload_make_parents(u);
		return;
	}
	if (err) {
		upload_fail(u, err);
		return;
	}
	u->out = TAKE_FD(a->fd);
	if (!u->zip && (fstat(u->out, &st) < 0 || !S_ISREG(st.st_mode))) {
		upload_fail_errno(u, ENXIO);
		return;
	}
	if (u->zip) {
		o.dir = u->out;
		u->untar = untar_new(u->files, &o);
		if (!u->untar) {
			upload_fail_errno(u, ENOMEM);
			return;
		}
		u->out = -1;
	}
	loop_timer_set(u->timer, 0);
}

static void upload_open_target(struct upload *u)
{
	files_open(u->files, -1, u->path,
		   u->zip ? O_PATH | O_DIRECTORY : O_WRONLY | O_CREAT | O_TRUNC, 0644,
		   upload_on_target, u);
}

static void on_files(void *ctx, struct files *f, const struct warren_error *err)
{
	struct upload *u = ctx;

	u->files = f;
	if (!f)
		upload_fail(u, err);
	else
		upload_open_target(u);
}

/* ---------------------------------------------------------------- arrival of the form */

static void upload_refuse(struct upload *u, int status, const char *why)
{
	struct ask *ask = u->ask;

	ask->state = NULL;
	ask->gone = NULL;
	ask_refuse(ask, status, "%s", why);
	upload_free(u);
}

/* The form is complete. */
static void upload_complete(struct upload *u)
{
	struct ask *ask = u->ask;
	struct service *service = ask->sx->service;
	struct sandbox *sandbox = sandbox_find(service, NULL, ask->sandbox);
	bool is_new;

	if (!multipart_is_whole(&u->form) || !u->has_file || u->target.len == 0) {
		upload_refuse(u, 422,
			      "the form needs the fields 'file' and 'target_path', and a "
			      "closing boundary");
		return;
	}
	u->zip = field_is_word(TRUE_WORDS, u->unzip.data ? u->unzip.data : "",
			       u->unzip.len);
	if (!sandbox || strlen(u->target.data) != u->target.len ||
	    !swerex_path(sandbox, u->target.data, u->path)) {
		upload_refuse(u, sandbox ? 422 : 404,
			      sandbox ? "target_path is not a path" : "it is gone");
		return;
	}
	ask->state = NULL;
	ask->gone = NULL;
	u->job = job_join(ask, NULL, &is_new);
	if (!u->job) {
		u->ask = ask;
		upload_refuse(u, 503, "out of memory");
		return;
	}
	u->ask = NULL;
	service_permit(service, ask->caller.token, ask->caller.expires_at);
	files_begin(sandbox, NULL, on_files, u);
	service_permit(service, NULL, 0);
}

static int take_value(struct upload *u, const char *data, size_t n)
{
	int r = 0;

	if (strcmp(u->form.name, "file") == 0) {
		u->size += n;
		r = u->size > FILE_MAX ? -EFBIG : fd_write_all(u->spool, data, n);
	} else {
		buf_add(&u->value, data, n);
		r = u->value.failed ? -EFBIG : 0;
	}
	return r;
}

static int end_value(struct upload *u)
{
	struct buf *to = strcmp(u->form.name, "target_path") == 0 ? &u->target
			 : strcmp(u->form.name, "unzip") == 0     ? &u->unzip
								  : NULL;

	if (strcmp(u->form.name, "file") == 0) {
		u->has_file = true;
		return 0;
	}
	if (!to)
		return -EINVAL;
	buf_done(to);
	*to = u->value;
	u->value = (struct buf)BUF_INIT(VALUE_MAX);
	return 0;
}

static int upload_take(struct upload *u, const char *data, size_t n,
		       struct warren_error *err)
{
	while (n > 0) {
		const char *part = NULL;
		size_t used = 0, size = 0;
		int ev = multipart_take(&u->form, data, n, &used, &part, &size, err);

		if (ev == MULTIPART_PART && strcmp(u->form.name, "file") == 0 &&
		    (u->has_file || u->size > 0))
			ev = error_set(err, EBADMSG, "the form has two files");
		else if (ev == MULTIPART_DATA)
			ev = take_value(u, part, size);
		else if (ev == MULTIPART_END)
			ev = end_value(u);
		if (ev < 0)
			return ev;
		data += used;
		n -= used;
	}
	return 0;
}

static void upload_on_piece(struct http_request *req, const char *data, size_t n)
{
	struct ask *ask = req->user;
	struct upload *u = ask->state;
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	if (!u)
		return;
	if (n == 0) {
		upload_complete(u);
		return;
	}
	r = upload_take(u, data, n, &err);
	if (r == -EFBIG)
		upload_refuse(u, 413, "the file, or a field, is too large");
	else if (r == -EBADMSG)
		upload_refuse(u, 422, err.msg);
	else if (r == -EINVAL)
		upload_refuse(u, 422, "the form has an unknown field");
	else if (r < 0)
		upload_refuse(u, 507, "there is no space for the file");
}

static void upload_gone(struct ask *ask)
{
	struct upload *u = ask->state;

	ask->state = NULL;
	if (u)
		upload_free(u);
}

void swerex_upload(struct ask *ask)
{
	struct upload *u = calloc(1, sizeof(*u));
	struct warren_error err = WARREN_ERROR_INIT;

	if (!u) {
		ask_refuse(ask, 503, "out of memory");
		return;
	}
	u->ask = ask;
	u->out = -1;
	u->value = u->target = u->unzip = (struct buf)BUF_INIT(VALUE_MAX);
	u->spool = service_spool(ask->sx->service);
	if (multipart_init(&u->form, http_header(ask->req, "Content-Type"), &err) < 0 ||
	    !ask->req->has_body)
		upload_refuse(u, 422, err.code ? err.msg : "the body must be a form");
	else if (u->spool < 0 || loop_timer_new(service_loop(ask->sx->service), on_over,
						u, &u->timer) < 0)
		upload_refuse(u, 507, "there is no space for the file");
	else {
		ask->state = u;
		ask->gone = upload_gone;
		http_stream(ask->req, upload_on_piece);
	}
}
