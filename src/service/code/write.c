/* SPDX-License-Identifier: Apache-2.0 */
/* write.c - write the program and its files into the sandbox of a run, one by one */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "service/code/internal.h"

#define CODE_WRITE_PIECE (256U << 10)

static void code_write_next(struct code_run *run);
static void code_write_open(struct code_run *run);

void code_write_cancel(struct code_run *run)
{
	run->writer = file_writer_cancel(run->writer);
	if (run->fd >= 0)
		(void)close(TAKE_FD(run->fd));
}

/* A full disk or a lack of memory is reported as the limit that the client can raise. */
void code_write_fail(struct code_run *run, const struct warren_error *err)
{
	struct warren_error why = *err;

	if (err->code == ENOSPC || err->code == EDQUOT || err->code == EFBIG)
		(void)error_set(&why, EINVAL,
				"/limits/disk: the files do not fit into %ju bytes",
				(uintmax_t)run->plan.limits.disk);
	else if (err->code == ENOBUFS)
		(void)error_set(&why, EINVAL,
				"/limits/memory: %ju bytes are not enough for the files",
				(uintmax_t)run->plan.limits.memory);
	code_fail_used(run, &why);
}

static const char *code_write_path(const struct code_run *run, char *out, size_t size)
{
	(void)snprintf(out, size, CODE_DIR "/%s", run->plan.files[run->file].name);
	return out;
}

static void code_write_on_named(void *ctx, struct files_answer *a UNUSED,
				const struct warren_error *err)
{
	struct code_run *run = ctx;

	if (err) {
		code_write_fail(run, err);
		return;
	}
	run->file++;
	code_write_next(run);
}

/*
 * A file has been written completely. If it is a copy, the next request with its name
 * reports errors.
 */
static void code_write_end_file(struct code_run *run)
{
	char path[2048];

	(void)close(TAKE_FD(run->fd));
	if (files_are_copies(run->files)) {
		files_stat(run->files, -1, code_write_path(run, path, sizeof(path)),
			   false, code_write_on_named, run);
		return;
	}
	run->file++;
	code_write_next(run);
}

static void code_write_piece(struct code_run *run);

static void code_write_on_piece(void *ctx, struct files_answer *a UNUSED,
				const struct warren_error *err)
{
	struct code_run *run = ctx;

	run->writer = NULL;
	if (err)
		code_write_fail(run, err);
	else
		code_write_piece(run);
}

static void code_write_piece(struct code_run *run)
{
	const struct code_file *file = &run->plan.files[run->file];
	struct warren_error err = WARREN_ERROR_INIT;

	while (run->offset < file->size) {
		size_t left = file->size - run->offset;
		size_t n = left < CODE_WRITE_PIECE ? left : CODE_WRITE_PIECE;
		const char *data = (const char *)file->data + run->offset;
		int r;

		run->offset += n;
		r = file_writer_start(run->files, run->fd, run->stream, false, data, n,
				      code_write_on_piece, run, &run->writer, &err);
		if (r < 0)
			code_write_fail(run, &err);
		if (r != 1)
			return;
	}
	code_write_end_file(run);
}

void code_write_opened(struct code_run *run)
{
	run->offset = 0;
	run->stream = file_writer_stream();
	code_write_piece(run);
}

static void code_write_on_open(void *ctx, struct files_answer *a,
			       const struct warren_error *err)
{
	struct code_run *run = ctx;

	if (err) {
		code_write_fail(run, err);
		return;
	}
	run->fd = TAKE_FD(a->fd);
	code_write_opened(run);
}

static void code_write_on_dirs(void *ctx, struct files_answer *a UNUSED,
			       const struct warren_error *err)
{
	struct code_run *run = ctx;

	if (err)
		code_write_fail(run, err);
	else
		code_write_open(run);
}

static void code_write_open(struct code_run *run)
{
	char path[2048];

	files_open(run->files, -1, code_write_path(run, path, sizeof(path)),
		   CODE_WRITE_FLAGS, 0644, code_write_on_open, run);
}

static void code_write_next(struct code_run *run)
{
	char path[2048];

	if (run->file == run->plan.n_files) {
		run->files = files_end(run->files);
		if (run->taken)
			code_warm_hand_over(run);
		else
			code_execute(run);
		return;
	}
	if (!strchr(run->plan.files[run->file].name, '/')) {
		code_write_open(run);
		return;
	}
	(void)code_write_path(run, path, sizeof(path));
	*strrchr(path, '/') = '\0';
	files_make_dirs(run->files, path, 0755, code_write_on_dirs, run);
}

static void code_write_on_begun(void *ctx, struct files *f,
				const struct warren_error *err)
{
	struct code_run *run = code_ticket_use(ctx);

	if (!run) {
		(void)files_end(f);
	} else if (!f) {
		code_fail_used(run, err);
	} else {
		run->files = f;
		if (run->warm)
			code_warm_open(run);
		else
			code_write_next(run);
	}
}

void code_write(struct code_run *run)
{
	struct sandbox *sandbox = code_use_sandbox(run);
	struct code_ticket *t = sandbox ? code_ticket_new(run) : NULL;

	if (t)
		files_begin(sandbox, NULL, code_write_on_begun, t);
}
