/* SPDX-License-Identifier: Apache-2.0 */
/* file.c - shared by the file handlers: setup, errors, and a file as JSON */
#include "api/v1/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/date.h"

static void file_gone(struct call *c)
{
	struct file_call *fc = c->state;

	c->state = NULL;
	if (!fc)
		return;
	if (fc->done)
		fc->done(fc);
	fc->files = files_end(fc->files);
	free(fc);
}

static void on_begun(void *ctx, struct files *f, const struct warren_error *err)
{
	struct call *c = ctx;
	struct file_call *fc = c->state;

	if (!c->req || !fc) {
		(void)files_end(f);
	} else if (!f && fc->failed) {
		fc->failed(fc, err);
	} else if (!f) {
		call_fail(c, err);
	} else {
		fc->files = f;
		fc->begun(fc);
	}
	call_unref(c);
}

void file_begin(struct call *c, struct file_call *fc, const char *path, const char *user)
{
	struct sandbox *sandbox = call_sandbox(c);

	if (!sandbox || !fc) {
		if (sandbox)
			call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		free(fc);
		return;
	}
	if (strlen(path) >= sizeof(fc->path)) {
		call_refuse(c, API_ERR_INVALID_REQUEST, "the path is too long");
		free(fc);
		return;
	}
	fc->call = c;
	(void)strcpy(fc->path, path);
	files_tidy(fc->path);
	c->state = fc;
	c->gone = file_gone;
	files_begin(sandbox, user, on_begun, call_ref(c));
}

void file_error(struct api_error *ret, const struct warren_error *engine)
{
	switch (engine->code) {
	case ENOENT:
		(void)api_error_set(ret, API_ERR_FILE_NOT_FOUND, "%s", engine->msg);
		break;
	case EXDEV:
		(void)api_error_set(ret, API_ERR_INVALID_REQUEST, "%s", engine->msg);
		break;
	case ENODEV:
		(void)api_error_set(ret, API_ERR_SPECIAL_FILE, "%s", engine->msg);
		break;
	case ENOBUFS: /* the sandbox's memory limit was reached */
		(void)api_error_set(ret, API_ERR_OUT_OF_MEMORY, "%s", engine->msg);
		break;
	case EDQUOT:
	case EFBIG:
		(void)api_error_set(ret, API_ERR_DISK_FULL, "%s", engine->msg);
		break;
	case EPIPE: /* file requests have no stdin, so this means that the sandbox has
		       ended */
		(void)api_error_set(ret, API_ERR_SANDBOX_FAILED, "%s", engine->msg);
		break;
	case ETXTBSY:
	case EAGAIN: /* a process is changing the path */
	case EBUSY:
		(void)api_error_set(ret, API_ERR_CONFLICT, "%s", engine->msg);
		break;
	default:
		(void)api_error_from(ret, engine);
	}
}

void file_fail(struct call *c, const struct warren_error *engine)
{
	struct api_error err = { 0 };

	file_error(&err, engine);
	call_error(c, &err);
}

bool file_entry(struct call *c, const struct files_answer *a,
		const struct warren_error *err, struct proto_found *ret)
{
	struct warren_error bad = WARREN_ERROR_INIT;
	size_t at = 0;

	if (!err && proto_next(a->entries, a->size, &at, ret) == 1)
		return true;
	if (!err)
		(void)error_set(&bad, EPROTO, "the sandbox's init violated the protocol");
	file_fail(c, err ? err : &bad);
	return false;
}

void show_etag(char out[80], uint64_t ino, int64_t sec, uint32_t nsec, uint64_t size)
{
	(void)snprintf(out, 80, "\"%jx-%jx.%x-%jx\"", (uintmax_t)ino, (uintmax_t)sec,
		       nsec, (uintmax_t)size);
}

/* The rows are in the order of FileType in openapi.yaml. */
static const struct {
	mode_t type;
	const char *name;
} types[] = {
	{ S_IFREG, "file" },         { S_IFDIR, "directory" }, { S_IFLNK, "link" },
	{ S_IFIFO, "fifo" },         { S_IFSOCK, "socket" },   { S_IFCHR, "char_device" },
	{ S_IFBLK, "block_device" },
};

const char *file_type_name(uint32_t mode)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if ((mode & S_IFMT) == types[i].type)
			return types[i].name;
	return types[0].name;
}

uint32_t file_type_mode(size_t word)
{
	return word < ARRAY_SIZE(types) ? types[word].type : 0;
}

void show_file(struct json *j, const char *path, const struct proto_found *found)
{
	const struct proto_entry *is = &found->is;
	char text[80];
	int64_t sec = is->mtime_sec;

	/* Limit the date to four-digit years: a process in the sandbox can set any time.
	 */
	if (sec < 0 || sec > 253402300799)
		sec = sec < 0 ? 0 : 253402300799;
	json_open(j, NULL, '{');
	json_str(j, "path", path);
	json_str(j, "type", file_type_name(is->mode));
	json_u64(j, "size", is->size > INT64_C(9007199254740991) ? 0 : is->size);
	(void)snprintf(text, sizeof(text), "%04o", is->mode & 07777);
	json_str(j, "mode", text);
	json_u64(j, "uid", is->uid);
	json_u64(j, "gid", is->gid);
	date_iso(text, sec * 1000 + is->mtime_nsec % 1000000000 / 1000000);
	json_str(j, "modified_at", text);
	if (S_ISLNK(is->mode))
		json_str(j, "link_target", found->link);
	if (S_ISREG(is->mode)) {
		show_etag(text, is->ino, is->mtime_sec, is->mtime_nsec, is->size);
		json_str(j, "etag", text);
	}
	json_close(j, '}');
}

static void answer_info(struct file_call *fc, struct files_answer *a,
			const struct warren_error *err, int status)
{
	AUTO_BUF struct buf out = BUF_INIT(65536);
	struct json j = { .out = &out };
	struct proto_found found;

	if (!file_entry(fc->call, a, err, &found))
		return;
	show_file(&j, fc->path, &found);
	call_json(fc->call, status, &out);
}

static void on_info_200(void *ctx, struct files_answer *a, const struct warren_error *err)
{
	answer_info(ctx, a, err, 200);
}

static void on_info_201(void *ctx, struct files_answer *a, const struct warren_error *err)
{
	answer_info(ctx, a, err, 201);
}

void file_answer_info(struct file_call *fc, int status)
{
	files_stat(fc->files, -1, fc->path, false,
		   status == 201 ? on_info_201 : on_info_200, fc);
}

unsigned file_mode(const char *text)
{
	return (unsigned)strtoul(text, NULL, 8) & 07777;
}
