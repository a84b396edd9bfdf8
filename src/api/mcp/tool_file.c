/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool_file.c - tools for one file: read_file, write_file, edit_file, upload, download
 *
 * Contents are read, searched and encoded on another thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/mcp/filing.h"
#include "base/base64.h"
#include "base/utf8.h"

#define SCAN_MAX (64ULL << 20) /* maximum number of bytes to read in search of a line */

/* Work on another thread. The thread gets copies only, because the call may end first. */
struct file_job {
	struct mcp_call *call; /* a reference; also keeps the texts of the arguments */
	enum rpc_era era;
	char sandbox[ID_LEN + 1];
	char path[API_PATH_MAX];
	int fd;
	uint64_t size; /* size of the file */
	int64_t offset, limit;
	bool all;
	struct buf out; /* the result, or the new content */
	uint64_t n;
	int error;
	const char *why; /* a fixed text, used instead of `error` */
	void (*work)(struct file_job *job);
	void (*done)(struct file_job *job, struct mcp_filing *k);
};

static void file_job_work(void *ctx)
{
	struct file_job *job = ctx;

	job->work(job);
	if (job->fd >= 0)
		(void)close(job->fd);
}

static void file_job_done(void *ctx)
{
	struct file_job *job = ctx;
	struct mcp_call *c = job->call;
	struct warren_error err = WARREN_ERROR_INIT;

	if (!c->done && job->why) {
		mcp_tool_error(c, "'%s': %s", job->path, job->why);
	} else if (!c->done && job->error) {
		(void)error_errno(&err, -job->error, "read '%s'", job->path);
		mcp_tool_fail(c, &err);
	} else if (!c->done) {
		job->done(job, c->state);
	}
	mcp_call_unref(c);
	buf_done(&job->out);
	free(job);
}

/* Takes the descriptor of @k. */
static void file_job_start(struct mcp_filing *k, void (*work)(struct file_job *job),
			   void (*done)(struct file_job *job, struct mcp_filing *k))
{
	struct mcp_call *c = k->call;
	struct file_job *job = calloc(1, sizeof(*job));

	if (job) {
		*job = (struct file_job){ .call = c,
					  .era = c->era,
					  .fd = k->fd,
					  .size = (uint64_t)k->st.st_size,
					  .offset = mcp_arg_int(c, "offset"),
					  .limit = mcp_arg_int(c, "limit"),
					  .all = mcp_arg_bool(c, "replace_all"),
					  .out = BUF_INIT(MCP_RESULT_MAX),
					  .work = work,
					  .done = done };
		(void)strcpy(job->sandbox, c->sandbox);
		(void)strcpy(job->path, k->path);
	}
	if (!job || loop_work(service_loop(c->mcp->service), c->caller.tenant,
			      file_job_work, file_job_done, job) < 0) {
		free(job);
		mcp_tool_error(c, "out of memory; try again");
		return;
	}
	k->fd = -1;
	(void)mcp_call_ref(c);
}

static void file_job_answer(struct file_job *job, struct mcp_filing *k)
{
	mcp_call_result(k->call, &job->out);
}

/* --------------------------------------------------------------------- read_file */

struct file_lines {
	struct buf text;
	int64_t first, limit; /* lines */
	int64_t line;         /* line of the next byte */
	uint64_t scanned;
	bool full; /* there are more lines than were requested */
};

static void file_lines_add(struct file_lines *l, const char *data, size_t n)
{
	while (n > 0 && !l->full) {
		const char *end = memchr(data, '\n', n);
		size_t len = end ? (size_t)(end - data) + 1 : n;

		if (l->line >= l->first + l->limit) {
			l->full = true;
			return;
		}
		if (l->line >= l->first) {
			size_t room = MCP_READ_MAX - l->text.len;

			buf_add(&l->text, data, len < room ? len : room);
			l->full = len > room;
		}
		l->line += end && !l->full;
		data += len;
		n -= len;
	}
}

/* Read the requested lines; -E2BIG: they are too far into the file. */
static int file_lines_read(int fd, struct file_lines *l)
{
	char piece[65536];

	for (;;) {
		ssize_t n = pread(fd, piece, sizeof(piece), (off_t)l->scanned);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0 || l->full)
			return 0;
		l->scanned += (uint64_t)n;
		file_lines_add(l, piece, (size_t)n);
		if (l->scanned > SCAN_MAX && l->line < l->first)
			return -E2BIG;
	}
}

static void file_read_work(struct file_job *job)
{
	struct file_lines l = { .text = BUF_INIT(MCP_READ_MAX),
				.first = job->offset,
				.limit = job->limit,
				.line = 1 };
	AUTO_BUF struct buf text = BUF_INIT(MCP_RESULT_MAX);
	struct json j = { .out = &text };

	job->error = file_lines_read(job->fd, &l);
	if (job->error == -E2BIG)
		job->why = "the line is more than 64 MiB into the file: use run_command "
			   "with sed";
	json_open(&j, NULL, '{');
	json_str(&j, "sandbox", job->sandbox);
	json_str(&j, "path", job->path);
	json_strn(&j, "content", l.text.data ? l.text.data : "", l.text.len);
	json_u64(&j, "size", job->size);
	json_int(&j, "first_line", l.first);
	json_bool(&j, "truncated", l.full);
	if (l.full)
		json_int(&j, "next_offset", l.line);
	json_bool(&j, "binary", !utf8_valid(l.text.data ? l.text.data : "", l.text.len));
	json_close(&j, '}');
	if (!job->error)
		mcp_tool_wrap(job->era, &text, false, &job->out);
	buf_done(&l.text);
}

/* ---------------------------------------------------------------------- download */

static void file_download_uri(struct json *j, const struct file_job *job)
{
	AUTO_BUF struct buf uri = BUF_INIT(4UL * API_PATH_MAX);

	buf_printf(&uri, "warren://%s", job->sandbox);
	for (const unsigned char *p = (const unsigned char *)job->path; *p; p++)
		if (strchr("%?#[]<>\"{}|\\^` ", *p) || *p < 0x20 || *p >= 0x7f)
			buf_printf(&uri, "%%%02X", *p);
		else
			buf_add(&uri, p, 1);
	json_str(j, "uri", uri.data ? uri.data : "");
}

/* Formats of images that models can see, recognised by bytes at a fixed position. */
static const struct file_image {
	size_t at;
	const char *bytes, *type;
} file_images[] = {
	{ 0, "\x89PNG\r\n\x1a\n", "image/png" },
	{ 0, "\xff\xd8\xff", "image/jpeg" },
	{ 0, "GIF87a", "image/gif" },
	{ 0, "GIF89a", "image/gif" },
	{ 8, "WEBPVP8", "image/webp" },
};

static const char *file_image_type(const struct buf *data)
{
	for (size_t i = 0; i < ARRAY_SIZE(file_images); i++) {
		const struct file_image *f = &file_images[i];
		size_t n = strlen(f->bytes);

		if (data->len >= f->at + n &&
		    memcmp(data->data + f->at, f->bytes, n) == 0)
			return f->type;
	}
	return NULL;
}

/* Write a complete image as an image, so that a model sees it, and any other content as
 * bytes. */
static void file_download_write(struct json *j, const struct file_job *job,
				const struct buf *data)
{
	bool whole = job->offset == 0 && data->len >= job->size;
	const char *image = whole ? file_image_type(data) : NULL;

	json_open(j, NULL, '{');
	json_str(j, "type", image ? "image" : "resource");
	if (image) {
		json_str(j, "mimeType", image);
		json_base64(j, "data", data->data, data->len);
	} else {
		json_open(j, "resource", '{');
		file_download_uri(j, job);
		json_str(j, "mimeType", "application/octet-stream");
		json_base64(j, "blob", data->data ? data->data : "", data->len);
		json_close(j, '}');
	}
	json_close(j, '}');
}

static void file_download_work(struct file_job *job)
{
	AUTO_BUF struct buf data = BUF_INIT(MCP_DOWNLOAD_MAX + 65536);
	AUTO_BUF struct buf about = BUF_INIT(65536);
	struct json j = { .out = &job->out }, s = { .out = &about };
	uint64_t next;

	job->error = mcp_filing_read(job->fd, (uint64_t)job->offset, (size_t)job->limit,
				     &data);
	if (job->error)
		return;
	next = (uint64_t)job->offset + data.len;
	json_open(&s, NULL, '{');
	json_str(&s, "sandbox", job->sandbox);
	json_str(&s, "path", job->path);
	json_u64(&s, "size", job->size);
	json_int(&s, "offset", job->offset);
	json_u64(&s, "length", data.len);
	json_bool(&s, "end", next >= job->size);
	json_close(&s, '}');
	mcp_result_open(&j, job->era, false);
	json_open(&j, "content", '[');
	json_open(&j, NULL, '{');
	json_str(&j, "type", "text");
	json_strn(&j, "text", about.data, about.len);
	json_close(&j, '}');
	file_download_write(&j, job, &data);
	json_close(&j, ']');
	json_raw(&j, "structuredContent", about.data, about.len);
	json_close(&j, '}');
}

/* --------------------------------------------------------------- write, upload */

static void file_write_stored(struct mcp_filing *k, bool created)
{
	AUTO_BUF struct buf text = BUF_INIT(65536);
	struct json j = { .out = &text };

	json_open(&j, NULL, '{');
	json_str(&j, "sandbox", k->call->sandbox);
	json_str(&j, "path", k->path);
	json_u64(&j, "size", k->size);
	json_bool(&j, "created", created);
	json_close(&j, '}');
	mcp_tool_result(k->call, &text, false);
}

/* Take the content that a thread has created, to write it. */
static void file_take_content(struct mcp_filing *k, struct file_job *job)
{
	buf_done(&k->data);
	k->data = job->out;
	k->content = k->data.data ? k->data.data : "";
	k->size = k->data.len;
	job->out = (struct buf)BUF_INIT(0);
}

static void file_write_placed(struct mcp_call *c, struct sandbox *sandbox)
{
	struct mcp_filing *k = mcp_filing_new(c);

	if (!k || !mcp_arg_path(c, sandbox, "path", k->path))
		return;
	k->content = mcp_arg_text(c, "content");
	k->size = mcp_arg_size(c, "content");
	k->stored = file_write_stored;
	mcp_filing_store(k, sandbox);
}

void mcp_tool_write_file(struct mcp_call *c)
{
	mcp_place(c, file_write_placed);
}

/* Parse 1 to 4 octal digits; -1: invalid. */
static int file_mode_parse(const char *text)
{
	size_t n = strlen(text);

	return n < 1 || n > 4 || strspn(text, "01234567") != n
		       ? -1
		       : (int)strtol(text, NULL, 8);
}

static void file_upload_work(struct file_job *job)
{
	size_t n = mcp_arg_size(job->call, "data");
	char *room = buf_reserve(&job->out, n / 4 * 3 + 1);
	ssize_t size = room ? base64_decode(mcp_arg_text(job->call, "data"), n, room) : 0;

	if (size < 0)
		job->why = "data: must be base64, with its padding";
	else
		job->out.len = (size_t)size;
}

static void file_upload_decoded(struct file_job *job, struct mcp_filing *k)
{
	struct sandbox *sandbox = mcp_place_again(k->call);

	if (!sandbox)
		return;
	if (job->out.failed) {
		mcp_tool_error(k->call, "out of memory; try again");
		return;
	}
	file_take_content(k, job);
	k->stored = file_write_stored;
	mcp_filing_store(k, sandbox);
}

static void file_upload_placed(struct mcp_call *c, struct sandbox *sandbox)
{
	struct mcp_filing *k = mcp_filing_new(c);
	const char *mode = mcp_arg_text(c, "mode");

	if (!k || !mcp_arg_path(c, sandbox, "path", k->path))
		return;
	if (mode && file_mode_parse(mode) < 0) {
		mcp_tool_error(c, "mode: must be 1 to 4 octal digits, such as 0755");
		return;
	}
	k->sets_mode = mode != NULL;
	k->mode = mode ? (unsigned)file_mode_parse(mode) : k->mode;
	file_job_start(k, file_upload_work, file_upload_decoded);
}

void mcp_tool_upload(struct mcp_call *c)
{
	mcp_place(c, file_upload_placed);
}

/* --------------------------------------------------------------------- edit_file */

/* Runs on another thread; the call keeps its arguments alive. */
static void file_edit_work(struct file_job *job)
{
	AUTO_BUF struct buf old = BUF_INIT(MCP_EDIT_MAX + 65536);
	const char *from = mcp_arg_text(job->call, "old_text");
	const char *to = mcp_arg_text(job->call, "new_text");
	size_t n = mcp_arg_size(job->call, "old_text");
	const char *at, *end, *hit;

	if (job->size > MCP_EDIT_MAX) {
		job->why = "the file is too large to edit: use run_command with sed";
		return;
	}
	job->error = mcp_filing_read(job->fd, 0, MCP_EDIT_MAX + 1, &old);
	at = old.data ? old.data : "";
	end = at + old.len;
	while (!job->error && (hit = memmem(at, (size_t)(end - at), from, n))) {
		job->n++;
		buf_add(&job->out, at, (size_t)(hit - at));
		buf_add(&job->out, to, mcp_arg_size(job->call, "new_text"));
		at = hit + n;
	}
	buf_add(&job->out, at, (size_t)(end - at));
	if (job->n == 0)
		job->why =
			"old_text does not occur in the file: read the file again, and "
			"copy the text exactly, including whitespace";
	else if (job->n > 1 && !job->all)
		job->why =
			"old_text occurs several times in the file: add more context to "
			"it, or set replace_all";
	else if (job->out.len > MCP_BODY_MAX)
		job->why = "the file would become too large";
}

static void file_edit_stored(struct mcp_filing *k, bool created UNUSED)
{
	AUTO_BUF struct buf text = BUF_INIT(65536);
	struct json j = { .out = &text };

	json_open(&j, NULL, '{');
	json_str(&j, "sandbox", k->call->sandbox);
	json_str(&j, "path", k->path);
	json_u64(&j, "size", k->size);
	json_u64(&j, "replacements", k->count);
	json_close(&j, '}');
	mcp_tool_result(k->call, &text, false);
}

static void file_edit_done(struct file_job *job, struct mcp_filing *k)
{
	if (job->out.failed) {
		mcp_tool_error(k->call, "out of memory; try again");
		return;
	}
	file_take_content(k, job);
	k->count = job->n;
	k->stored = file_edit_stored;
	mcp_filing_replace(k);
}

/* ------------------------------------------------- tools that open the file first */

static const struct file_tool {
	void (*work)(struct file_job *job);
	void (*done)(struct file_job *job, struct mcp_filing *k);
} file_tools[MCP_TOOL_COUNT] = {
	[MCP_TOOL_READ_FILE] = { file_read_work, file_job_answer },
	[MCP_TOOL_DOWNLOAD] = { file_download_work, file_job_answer },
	[MCP_TOOL_EDIT_FILE] = { file_edit_work, file_edit_done },
};

static void file_tool_opened(struct mcp_filing *k)
{
	const struct file_tool *t = &file_tools[k->call->tool - mcp_tools];

	file_job_start(k, t->work, t->done);
}

static void file_tool_placed(struct mcp_call *c, struct sandbox *sandbox)
{
	struct mcp_filing *k = mcp_filing_new(c);

	if (!k || !mcp_arg_path(c, sandbox, "path", k->path))
		return;
	k->opened = file_tool_opened;
	mcp_filing_open(k, sandbox);
}

void mcp_tool_read_file(struct mcp_call *c)
{
	mcp_place(c, file_tool_placed);
}

void mcp_tool_download(struct mcp_call *c)
{
	mcp_place(c, file_tool_placed);
}

void mcp_tool_edit_file(struct mcp_call *c)
{
	mcp_place(c, file_tool_placed);
}
