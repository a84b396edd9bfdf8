/* SPDX-License-Identifier: Apache-2.0 */
/* diff.c - handlers: list the changed files of a sandbox, and undo its last command */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/v1/file.h"
#include "base/date.h"
#include "base/utf8.h"
#include "db/db.h"
#include "service/core/diff.h"
#include "service/core/undo.h"

#define DIFF_LIST_BYTES (256U << 20)
#define DIFF_TIME_MAX   INT64_C(253402300799)
#define DIFF_SIZE_MAX   UINT64_C(9007199254740991)

/* The next record; NULL: there is none, or it is not valid. */
static const struct warren_change *diff_next(const char *data, size_t size, size_t *at)
{
	const struct warren_change *c = (const void *)(data + *at);
	size_t left = size - *at;

	if (left < sizeof(*c) || c->record_size > left || c->record_size % 8 != 0 ||
	    c->record_size <= sizeof(*c) ||
	    !memchr(c->path, 0, c->record_size - sizeof(*c)))
		return NULL;
	*at += c->record_size;
	return c;
}

static void v1_diff_put_change(struct json *j, const struct warren_change *c)
{
	const char *kind = c->kind == 'A'   ? "added"
			   : c->kind == 'D' ? "deleted"
					    : "changed";
	size_t n = strlen(c->path);
	/* A process in the sandbox can set any time. */
	int64_t sec = c->mtime_sec < 0               ? 0
		      : c->mtime_sec > DIFF_TIME_MAX ? DIFF_TIME_MAX
						     : c->mtime_sec;
	char text[80];

	json_open(j, NULL, '{');
	json_str(j, "kind", kind);
	json_str(j, "path", c->path);
	if (!utf8_valid(c->path, n))
		json_base64(j, "path_base64", c->path, n);
	json_str(j, "type", file_type_name(c->mode));
	json_u64(j, "size", c->size > DIFF_SIZE_MAX ? 0 : c->size);
	(void)snprintf(text, sizeof(text), "%04o", c->mode & 07777);
	json_str(j, "mode", text);
	json_u64(j, "uid", c->uid);
	json_u64(j, "gid", c->gid);
	date_iso(text, sec * 1000 + c->mtime_nsec % 1000000000 / 1000000);
	json_str(j, "modified_at", text);
	json_close(j, '}');
}

static void diff_answer(struct call *c, const struct diff_result *result,
			const char *data, size_t size)
{
	AUTO_BUF struct buf out = BUF_INIT(DIFF_LIST_BYTES);
	struct json j = { .out = &out };
	const struct warren_change *change;
	size_t at = 0;

	json_open(&j, NULL, '{');
	json_open(&j, "changes", '[');
	while ((change = diff_next(data, size, &at)))
		v1_diff_put_change(&j, change);
	json_close(&j, ']');
	if (result->more)
		json_u64(&j, "next_offset",
			 (uint64_t)c->query.v[V1_LIST_CHANGES_QUERY_OFFSET].number +
				 result->n);
	else
		json_nil(&j, "next_offset");
	json_bool(&j, "too_deep", result->too_deep);
	json_close(&j, '}');
	call_json(c, 200, &out);
}

/* The image of a snapshot may be removed after its row was read. */
static void diff_fail(struct call *c, const struct warren_error *err)
{
	if (err->code == ENOMEDIUM)
		call_refuse(c, API_ERR_SNAPSHOT_NOT_FOUND, "there is no snapshot '%s'",
			    c->query.v[V1_LIST_CHANGES_QUERY_SNAPSHOT].text);
	else
		call_fail(c, err);
}

static void diff_on_done(void *ctx, const struct diff_result *result,
			 const struct warren_error *err)
{
	struct call *c = ctx;
	struct stat st;
	size_t n = 0;
	void *map = NULL;

	c->state = NULL;
	if (!result) {
		diff_fail(c, err);
		call_unref(c);
		return;
	}
	if (fstat(result->fd, &st) == 0)
		n = (size_t)st.st_size;
	map = n > 0 ? mmap(NULL, n, PROT_READ, MAP_PRIVATE, result->fd, 0) : NULL;
	if (map == MAP_FAILED)
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
	else
		diff_answer(c, result, map, n);
	if (map && map != MAP_FAILED)
		(void)munmap(map, n);
	(void)close(result->fd);
	call_unref(c);
}

/* The client is gone, or has its answer. */
static void diff_gone(struct call *c)
{
	struct diff_op *op = c->state;

	c->state = NULL;
	if (!op)
		return;
	sandbox_diff_cancel(op);
	call_unref(c);
}

void v1_list_changes(struct call *c)
{
	AUTO_SNAPSHOT_ROW struct snapshot_row row = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	struct sandbox *sandbox = call_sandbox(c);
	struct diff_op *op;
	struct api_value *v = c->query.v;
	const char *word = v[V1_LIST_CHANGES_QUERY_SNAPSHOT].text;
	struct diff_request request = {
		.skip = (uint64_t)v[V1_LIST_CHANGES_QUERY_OFFSET].number,
		.max = (uint64_t)v[V1_LIST_CHANGES_QUERY_LIMIT].number,
		.timeout_ms = (uint64_t)v[V1_LIST_CHANGES_QUERY_TIMEOUT_MS].number,
	};

	if (!sandbox)
		return;
	if (word && db_get_snapshot(service_db(c->v1->service), c->caller.tenant, word,
				    &row, &err) < 0) {
		if (err.code == ENOENT)
			call_refuse(c, API_ERR_SNAPSHOT_NOT_FOUND, "%s", err.msg);
		else
			call_fail(c, &err);
		return;
	}
	/* A token for one sandbox says nothing about copies of others. */
	if (word && c->caller.sandbox[0] && strcmp(row.source, c->caller.sandbox) != 0) {
		call_refuse(c, API_ERR_SNAPSHOT_NOT_FOUND,
			    "there is no snapshot '%.128s'", word);
		return;
	}
	request.image = word ? row.image : NULL;
	op = sandbox_diff_new(sandbox, &request, diff_on_done, c, &err);
	if (!op) {
		diff_fail(c, &err);
		return;
	}
	c->gone = diff_gone;
	c->state = op;
	(void)call_ref(c);
	sandbox_diff_start(op, sandbox);
}

static void undo_on_done(void *ctx, const struct warren_undone *undone,
			 const struct warren_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(4096);
	struct json j = { .out = &out };
	struct call *c = ctx;

	if (c->req && !undone) {
		call_fail(c, err);
	} else if (c->req) {
		json_open(&j, NULL, '{');
		json_u64(&j, "removed", undone->removed);
		json_u64(&j, "restored", undone->restored);
		json_u64(&j, "changed", undone->changed);
		json_u64(&j, "frozen_usec", undone->frozen_ns / 1000);
		json_close(&j, '}');
		call_json(c, 200, &out);
	}
	call_unref(c);
}

void v1_undo_command(struct call *c)
{
	struct sandbox *sandbox = call_sandbox(c);

	if (sandbox)
		sandbox_undo(sandbox, undo_on_done, call_ref(c));
}
