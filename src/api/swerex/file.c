/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file.c - handlers: read a file as text, and write text to a file
 *
 * They work like Python's Path.read_text() and write_text(): an existing file is
 * overwritten and keeps its owner and mode. Missing directories are created.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/path.h"
#include "api/swerex/codec.h"
#include "api/swerex/internal.h"
#include "base/fd.h"
#include "service/files/file_writer.h"

#define TEXT_MAX (32U << 20) /* maximum size of a file that is read as text */

struct filing {
	struct job *job;
	struct files *files;
	char path[4096];
	bool parents; /* they were created */
	/* The file that is read: */
	int fd;
	size_t size;
	struct reply *reply;
	int result;
	struct warren_error error;
};

bool swerex_path(const struct sandbox *sandbox, const char *path, char out[4096])
{
	return api_path(sandbox_workdir(sandbox), path, out);
}

static void filing_free(struct filing *k)
{
	k->files = files_end(k->files);
	reply_unref(k->reply);
	if (k->fd >= 0)
		(void)close(k->fd);
	free(k);
}

/* Report the error with the path as the client gave it. */
static void swerex_file_fail(struct filing *k, const struct warren_error *err)
{
	job_fail(k->job, err, field_text(k->job->body, "path", ""));
	filing_free(k);
}

static void file_fail_errno(struct filing *k, int code)
{
	struct warren_error err = WARREN_ERROR_INIT;

	(void)error_errno(&err, code, "use the file");
	swerex_file_fail(k, &err);
}

static void swerex_file_begin(struct job *job, struct sandbox *sandbox,
			      void (*begun)(void *ctx, struct files *f,
					    const struct warren_error *err))
{
	const char *path = field_text(job->body, "path", "");
	struct filing *k = calloc(1, sizeof(*k));

	if (!k || strlen(path) != field_size(job->body, "path") ||
	    !swerex_path(sandbox, path, k->path)) {
		job_raisef(job, "builtins.ValueError", "%s",
			   strlen(path) != field_size(job->body, "path")
				   ? "embedded null byte"
				   : "the path is too long");
		free(k);
		return;
	}
	k->job = job;
	k->fd = -1;
	files_begin(sandbox, NULL, begun, k);
}

/* --------------------------------------------------------------------- reading */

static int file_read_all(int fd, size_t size, struct buf *out)
{
	char *room = buf_reserve(out, size);
	ssize_t n = room ? fd_read_all(fd, room, size) : -ENOMEM;

	if (n < 0)
		return (int)n;
	out->len += (size_t)n;
	return 0;
}

/* Runs on another thread: reading and decoding a file may take long. */
static void file_read_text(void *ctx)
{
	struct filing *k = ctx;
	struct reply *r = k->reply;
	const json_t *body = k->job->body;
	int e = file_read_all(k->fd, k->size, &r->raw[0]);

	if (e < 0) {
		k->result = error_errno(&k->error, -e, "use the file");
		return;
	}
	k->result = codec_open(&r->codec, field_text(body, "encoding", NULL),
			       field_text(body, "errors", NULL),
			       r->raw[0].data ? r->raw[0].data : "", r->raw[0].len,
			       &k->error);
	if (k->result == 0)
		k->result = codec_check(r->codec, &k->error);
}

static void on_text(void *ctx)
{
	struct filing *k = ctx;
	struct reply *r = k->reply;

	if (k->result == -EILSEQ || k->result == -ENOSYS) {
		job_raisef(k->job,
			   k->result == -EILSEQ ? "builtins.UnicodeDecodeError"
						: "builtins.LookupError",
			   "%s", k->error.msg);
	} else if (k->result < 0) {
		swerex_file_fail(k, &k->error);
		return;
	} else {
		r->status = 200;
		buf_puts(&r->json, "{\"content\":\"");
		reply_put(r, REPLY_FILE, 0, 0, r->raw[0].len);
		buf_puts(&r->json, "\"}");
		job_reply(k->job, TAKE_PTR(k->reply));
	}
	filing_free(k);
}

static void file_on_open(void *ctx, struct files_answer *a,
			 const struct warren_error *err)
{
	struct filing *k = ctx;
	struct stat st;

	if (err) {
		swerex_file_fail(k, err);
		return;
	}
	k->fd = TAKE_FD(a->fd);
	/*
	 * Check what init passed on: only a regular file never blocks and has a reliable
	 * size.
	 */
	if (fstat(k->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		file_fail_errno(k, S_ISDIR(st.st_mode) ? EISDIR : ENXIO);
		return;
	}
	if (st.st_size > TEXT_MAX) {
		file_fail_errno(k, EFBIG);
		return;
	}
	/* Files in /proc have no size before they are read. */
	k->size = st.st_size > 0 ? (size_t)st.st_size : 1U << 20;
	k->reply = reply_new(k->job->sx);
	if (k->reply && !reply_charge(k->reply, k->job->tenant, k->size)) {
		job_crowded(k->job, "the file cannot be read now");
		filing_free(k);
	} else if (!k->reply ||
		   loop_work(service_loop(k->job->sx->service), k->job->tenant,
			     file_read_text, on_text, k) < 0) {
		file_fail_errno(k, ENOMEM);
	}
}

static void on_read_begun(void *ctx, struct files *f, const struct warren_error *err)
{
	struct filing *k = ctx;

	k->files = f;
	if (!f)
		swerex_file_fail(k, err);
	else
		files_open(f, -1, k->path, O_RDONLY, 0, file_on_open, k);
}

void swerex_read_file(struct job *job, struct sandbox *sandbox)
{
	swerex_file_begin(job, sandbox, on_read_begun);
}

/* --------------------------------------------------------------------- writing */

/* If a process provides the filesystem, only the next stat reports a write that
 * failed. */
static void file_on_written(void *ctx, struct files_answer *a UNUSED,
			    const struct warren_error *err)
{
	struct filing *k = ctx;
	AUTO_BUF struct buf out = BUF_INIT(64);

	if (err) {
		swerex_file_fail(k, err);
		return;
	}
	buf_puts(&out, "{}");
	job_answer(k->job, 200, &out);
	filing_free(k);
}

static void open_to_write(struct filing *k);

static void file_on_parents(void *ctx, struct files_answer *a UNUSED,
			    const struct warren_error *err)
{
	struct filing *k = ctx;

	if (err)
		swerex_file_fail(k, err);
	else
		open_to_write(k);
}

static void file_make_parents(struct filing *k)
{
	char dir[4096];
	char *slash;

	(void)strcpy(dir, k->path);
	slash = strrchr(dir, '/');
	slash[slash == dir] = '\0';
	k->parents = true;
	files_make_dirs(k->files, dir, 0777 & ~022, file_on_parents, k);
}

static void on_text_written(void *ctx, struct files_answer *a UNUSED,
			    const struct warren_error *err)
{
	struct filing *k = ctx;

	if (err)
		swerex_file_fail(k, err);
	else
		files_stat(k->files, -1, k->path, true, file_on_written, k);
}

static void on_open_to_write(void *ctx, struct files_answer *a,
			     const struct warren_error *err)
{
	struct filing *k = ctx;
	AUTO_CLOSE int fd = err ? -1 : TAKE_FD(a->fd);
	struct warren_error failure = WARREN_ERROR_INIT;
	struct file_writer *ignored = NULL;
	struct stat st;

	if (err && err->code == ENOENT && !k->parents) {
		file_make_parents(k);
		return;
	}
	if (err) {
		swerex_file_fail(k, err);
		return;
	}
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		file_fail_errno(k, ENXIO);
		return;
	}
	files_call(k->files, "write", k->path);
	if (file_writer_start(k->files, fd, 0, false,
			      field_text(k->job->body, "content", ""),
			      field_size(k->job->body, "content"), on_text_written, k,
			      &ignored, &failure) < 0)
		swerex_file_fail(k, &failure);
}

static void open_to_write(struct filing *k)
{
	files_open(k->files, -1, k->path, O_WRONLY | O_CREAT | O_TRUNC, 0644,
		   on_open_to_write, k);
}

static void on_write_begun(void *ctx, struct files *f, const struct warren_error *err)
{
	struct filing *k = ctx;

	k->files = f;
	if (!f)
		swerex_file_fail(k, err);
	else
		open_to_write(k);
}

void swerex_write_file(struct job *job, struct sandbox *sandbox)
{
	swerex_file_begin(job, sandbox, on_write_begun);
}
