/* SPDX-License-Identifier: Apache-2.0 */
/* filing.c - the work of a call with one file: open it to read, or replace it */
#include "api/mcp/filing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"

/*
 * Number of bytes that are copied in one turn of the loop. Copying the largest content at
 * once would take milliseconds, and much longer on a busy machine.
 */
#define FILING_PIECE (256U << 10)

static void filing_ignore(void *ctx UNUSED, struct files_answer *a UNUSED,
			  const struct warren_error *err UNUSED)
{
}

static void filing_stop(struct mcp_call *c)
{
	struct mcp_filing *k = c->state;
	struct files_change remove = { .verb = PROTO_UNLINK,
				       .dir = k->place.dir,
				       .to = -1 };

	k->finding = file_target_free(k->finding);
	k->writer = file_writer_cancel(k->writer);
	loop_task_cancel(&k->next_piece);
	if (k->made && k->files)
		files_change_one(k->files, remove, k->name, NULL, filing_ignore, NULL);
	if (k->fd >= 0)
		(void)close(k->fd);
	if (k->place.dir >= 0)
		(void)close(k->place.dir);
	k->files = files_end(k->files);
	buf_done(&k->data);
	free(k);
}

struct mcp_filing *mcp_filing_new(struct mcp_call *c)
{
	struct mcp_filing *k = calloc(1, sizeof(*k));

	if (!k) {
		mcp_tool_error(c, "out of memory; try again");
		return NULL;
	}
	k->call = c;
	k->fd = k->place.dir = -1;
	k->mode = 0644;
	k->data = (struct buf)BUF_INIT(MCP_BODY_MAX);
	c->state = k;
	c->stop = filing_stop;
	return k;
}

void mcp_filing_fail(struct mcp_filing *k, const struct warren_error *err)
{
	if (k->failed)
		k->failed(k->call, err);
	else
		mcp_tool_fail(k->call, err);
}

static void filing_fail_errno(struct mcp_filing *k, int code, const char *what)
{
	struct warren_error err = WARREN_ERROR_INIT;

	(void)error_errno(&err, code, "%s '%s'", what, k->path);
	mcp_filing_fail(k, &err);
}

static void filing_on_begun(void *ctx, struct files *f, const struct warren_error *err)
{
	struct mcp_call *c = ctx;
	struct mcp_filing *k = c->done ? NULL : c->state;

	if (!k) {
		(void)files_end(f);
	} else if (!f) {
		mcp_filing_fail(k, err);
	} else {
		k->files = f;
		k->begun(k);
	}
	mcp_call_unref(c);
}

/* Start the request as the sandbox's user, and continue with @begun. */
static void filing_begin(struct mcp_filing *k, struct sandbox *sandbox,
			 void (*begun)(struct mcp_filing *k))
{
	k->begun = begun;
	files_begin(sandbox, NULL, filing_on_begun, mcp_call_ref(k->call));
}

/* ------------------------------------------------------------- opening a file to read */

static void filing_on_open(void *ctx, struct files_answer *a,
			   const struct warren_error *err)
{
	struct mcp_filing *k = ctx;

	if (err) {
		mcp_filing_fail(k, err);
		return;
	}
	k->fd = TAKE_FD(a->fd);
	/* Only a regular file never blocks and has a reliable size. */
	if (fstat(k->fd, &k->st) < 0 || !S_ISREG(k->st.st_mode)) {
		filing_fail_errno(k, S_ISDIR(k->st.st_mode) ? EISDIR : ENXIO, "read");
		return;
	}
	k->opened(k);
}

static void filing_open(struct mcp_filing *k)
{
	files_open(k->files, -1, k->path, O_RDONLY, 0, filing_on_open, k);
}

void mcp_filing_open(struct mcp_filing *k, struct sandbox *sandbox)
{
	filing_begin(k, sandbox, filing_open);
}

int mcp_filing_read(int fd, uint64_t offset, size_t max, struct buf *out)
{
	char *room = buf_reserve(out, max);
	ssize_t n;

	if (!room)
		return -ENOMEM;
	if (lseek(fd, (off_t)offset, SEEK_SET) < 0)
		return -errno;
	n = fd_read_all(fd, room, max);
	if (n < 0)
		return (int)n;
	out->len += (size_t)n;
	return 0;
}

/* ------------------------------------------------------------------- replacing a file */

static void filing_on_put(void *ctx, struct files_answer *a UNUSED,
			  const struct warren_error *err)
{
	struct mcp_filing *k = ctx;

	if (err) {
		mcp_filing_fail(k, err);
		return;
	}
	k->made = false;
	k->stored(k, !k->place.exists);
}

static void filing_rename(struct mcp_filing *k)
{
	struct files_change c = { .verb = PROTO_RENAME, .dir = k->place.dir, .to = -1 };

	files_call(k->files, "write", k->path);
	files_change_one(k->files, c, k->name, k->place.name, filing_on_put, k);
}

static void filing_on_owned(void *ctx, struct files_answer *a UNUSED,
			    const struct warren_error *err UNUSED)
{
	filing_rename(ctx);
}

/*
 * If the file is a copy, the first request that names it reports whether it could be
 * written.
 */
static void filing_on_arrived(void *ctx, struct files_answer *a UNUSED,
			      const struct warren_error *err)
{
	struct mcp_filing *k = ctx;
	struct files_change c = { .verb = PROTO_CHOWN,
				  .owner = k->place.is.uid,
				  .group = k->place.is.gid,
				  .dir = k->place.dir,
				  .to = -1 };

	if (err)
		mcp_filing_fail(k, err);
	else if (k->place.exists && files_uid(k->files) == 0)
		files_change_one(k->files, c, k->name, NULL, filing_on_owned, k);
	else
		filing_rename(k);
}

/* Complete the file: all of its bytes were written. */
static void filing_finish(struct mcp_filing *k)
{
	bool give = k->place.exists && files_uid(k->files) == 0;
	struct files_change c = { .verb = PROTO_PUT,
				  .flags = give ? PROTO_CHANGE_OWNER : 0,
				  .owner = k->place.is.uid,
				  .group = k->place.is.gid,
				  .mode = k->stream,
				  .dir = k->place.dir,
				  .to = k->fd };

	files_call(k->files, "write", k->path);
	if (k->nameless)
		files_change_one(k->files, c, k->name, k->place.name, filing_on_put, k);
	(void)close(TAKE_FD(k->fd));
	if (!k->nameless)
		files_stat(k->files, k->place.dir, k->name, false, filing_on_arrived, k);
}

static void filing_write_piece(void *ctx);

static void filing_on_written(void *ctx, struct files_answer *a UNUSED,
			      const struct warren_error *err)
{
	struct mcp_filing *k = ctx;

	k->writer = NULL;
	if (err)
		mcp_filing_fail(k, err);
	else
		filing_write_piece(k);
}

static void filing_write_piece(void *ctx)
{
	struct mcp_filing *k = ctx;
	struct warren_error err = WARREN_ERROR_INIT;
	const char *data = k->content + k->written;
	size_t left = k->size - k->written, n = left < FILING_PIECE ? left : FILING_PIECE;
	int r;

	if (n == 0) {
		filing_finish(k);
		return;
	}
	files_call(k->files, "write", k->path);
	k->written += n;
	r = file_writer_start(k->files, k->fd, k->stream, k->nameless, data, n,
			      filing_on_written, k, &k->writer, &err);
	if (r < 0)
		mcp_filing_fail(k, &err);
	else if (r == 1)
		loop_later(service_loop(k->call->mcp->service), &k->next_piece);
}

static void filing_open_named(struct mcp_filing *k);

/* The errors of open(2) on a filesystem that does not support files without a name. */
static bool filing_needs_name(int code)
{
	return code == EOPNOTSUPP || code == EISDIR || code == EINVAL || code == ENOENT;
}

static void filing_on_new(void *ctx, struct files_answer *a,
			  const struct warren_error *err)
{
	struct mcp_filing *k = ctx;
	struct stat st;

	if (err && k->nameless && filing_needs_name(err->code)) {
		k->nameless = false;
		filing_open_named(k);
		return;
	}
	if (err) {
		mcp_filing_fail(k, err);
		return;
	}
	k->fd = TAKE_FD(a->fd);
	k->made = !k->nameless;
	if (fstat(k->fd, &st) < 0 || !S_ISREG(st.st_mode))
		filing_fail_errno(k, ENXIO, "write");
	else
		filing_write_piece(k);
}

static void filing_open_named(struct mcp_filing *k)
{
	files_call(k->files, "write", k->path);
	files_open(k->files, k->place.dir, k->name,
		   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, k->mode, filing_on_new, k);
}

static void filing_on_place(void *ctx, struct file_target *p,
			    const struct warren_error *err)
{
	struct mcp_filing *k = ctx;
	char id[ID_LEN + 1];

	k->finding = NULL;
	if (err) {
		mcp_filing_fail(k, err);
		return;
	}
	k->place = *p;
	if (p->exists && S_ISDIR(p->is.mode)) {
		filing_fail_errno(k, EISDIR, "write");
		return;
	}
	if (p->exists && !k->sets_mode)
		k->mode = p->is.mode & 07777;
	id_make(id);
	(void)snprintf(k->name, sizeof(k->name), ".warren-%s~", id);
	k->nameless = true;
	k->stream = file_writer_stream();
	k->next_piece = (struct loop_task){ .fn = filing_write_piece, .ctx = k };
	files_call(k->files, "write", k->path);
	files_open(k->files, p->dir, ".", O_WRONLY | O_TMPFILE, k->mode, filing_on_new,
		   k);
}

void mcp_filing_replace(struct mcp_filing *k)
{
	if (k->fd >= 0)
		(void)close(TAKE_FD(k->fd));
	file_target_find(k->files, k->path, true, filing_on_place, k, &k->finding);
}

void mcp_filing_store(struct mcp_filing *k, struct sandbox *sandbox)
{
	filing_begin(k, sandbox, mcp_filing_replace);
}
