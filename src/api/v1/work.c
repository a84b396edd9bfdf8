/* SPDX-License-Identifier: Apache-2.0 */
/*
 * work.c - handlers: list works, show their changes, accept or reject them
 *
 * The works in the service's state directory are files of the user who runs the service,
 * and belong to no tenant of the database. So only an administrator of the machine's own
 * tenant may see them. warren-work(1) does all the work, as a child of the warden; its
 * answer passes through, as fast as the client reads, with the names and contents that a
 * program in a sandbox chose.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/v1/v1.h"
#include "base/base64.h"
#include "base/json.h"
#include "service/core/work_job.h"

#define WORK_INPUT_MAX (16U << 20)

struct work_call {
	struct call *call;
	struct work_job *job;
	const char *type; /* of the answer; NULL: JSON */
	bool empty;       /* the answer has no body */
	bool cut_brace;   /* the first byte of the program's object is already sent */
	bool begun;
	struct buf input;
};

static void work_call_gone(struct call *c)
{
	struct work_call *w = c->state;

	c->state = NULL;
	if (!w)
		return;
	w->job = work_job_cancel(w->job);
	buf_done(&w->input);
	free(w);
}

/* ------------------------------------------------------------------- answer */

/* Errors of a work that cannot be opened, and of one that can. */
static const struct {
	int errnum;
	enum api_code unopened, opened;
} work_codes[] = {
	{ ENOENT, API_ERR_WORK_NOT_FOUND, API_ERR_FILE_NOT_FOUND },
	{ EINVAL, API_ERR_AMBIGUOUS_ID, API_ERR_INVALID_REQUEST },
	{ EBUSY, API_ERR_WORK_IN_USE, API_ERR_WORK_IN_USE },
	{ EPERM, API_ERR_PERMISSION_DENIED, API_ERR_PERMISSION_NEEDED },
	{ ESTALE, API_ERR_CONFLICT, API_ERR_CONFLICT },
	{ EUCLEAN, API_ERR_INTERNAL, API_ERR_INTERNAL },
};

static void work_on_failed(void *ctx, const struct warren_error *err, bool unopened)
{
	struct work_call *w = ctx;

	w->job = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(work_codes); i++)
		if (work_codes[i].errnum == err->code) {
			call_refuse(w->call,
				    unopened ? work_codes[i].unopened
					     : work_codes[i].opened,
				    "%s", err->msg);
			return;
		}
	call_fail(w->call, err);
}

/* The answer is an error that also has the fields of the program's object. */
static void work_begin_conflict(struct work_call *w)
{
	struct call *c = w->call;
	AUTO_BUF struct buf out = BUF_INIT(16384);
	struct api_error err = { 0 };

	(void)api_error_set(&err, API_ERR_MERGE_CONFLICT,
			    "nothing was accepted, because changes are in conflict; "
			    "`conflicts` says what to do with them");
	api_error_write(&err, http_request_id(c->req), &out);
	w->cut_brace = true;
	call_begin_json(c, 409);
	out.data[out.len - 1] = ',';
	(void)http_write(c->req, out.data, out.len);
}

static void work_on_begin(void *ctx, bool conflict)
{
	struct work_call *w = ctx;

	if (w->empty)
		return;
	w->begun = true;
	if (conflict)
		work_begin_conflict(w);
	else if (w->type)
		call_begin_bytes(w->call, w->type);
	else
		call_begin_json(w->call, 200);
}

static bool work_on_data(void *ctx, const char *data, size_t n)
{
	struct work_call *w = ctx;
	struct call *c = w->call;
	const size_t skip = w->cut_brace;
	bool more;

	if (w->empty)
		return true;
	w->cut_brace = false;
	/* A client that is gone ends the call, and with it @w. */
	(void)call_ref(c);
	more = n == skip || http_write(c->req, data + skip, n - skip) == 0;
	call_unref(c);
	return more;
}

static void work_on_end(void *ctx, bool whole)
{
	struct work_call *w = ctx;

	w->job = NULL;
	if (!whole && w->begun)
		http_abort(w->call->req);
	else if (!whole)
		call_refuse(w->call, API_ERR_INTERNAL, "the answer is not complete");
	else if (w->empty)
		call_empty(w->call, 204);
	else
		(void)http_end(w->call->req);
}

static void work_on_drained(struct http_request *req)
{
	const struct work_call *w = ((struct call *)req->user)->state;

	if (w && w->job)
		work_job_continue(w->job);
}

/* Only for what changes nothing: the service waits for the others. */
static void work_stop(struct call *c, bool last)
{
	struct work_call *w = c->state;

	if (!last || !w)
		return;
	w->job = work_job_cancel(w->job);
	if (w->begun)
		http_abort(c->req);
	else
		call_refuse(c, API_ERR_SHUTTING_DOWN,
			    "the service is stopping: try again");
}

/* -------------------------------------------------------------------- start */

static bool work_is_ours(const struct call *c)
{
	return strcmp(c->caller.tenant, DB_LOCAL) == 0;
}

/* The state of a call about the work in the path; NULL: the call is refused. */
static struct work_call *work_call_new(struct call *c)
{
	struct work_call *w;

	if (!work_is_ours(c)) {
		call_refuse(c, API_ERR_WORK_NOT_FOUND, "there is no work '%.64s'",
			    c->route.n_params ? c->route.param[0] : "");
		return NULL;
	}
	w = calloc(1, sizeof(*w));
	if (!w) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return NULL;
	}
	*w = (struct work_call){ .call = c, .input = BUF_INIT(WORK_INPUT_MAX) };
	c->state = w;
	c->gone = work_call_gone;
	c->req->drained = work_on_drained;
	return w;
}

/* @input is in @w->input, or in the body. */
static void work_start(struct work_call *w, struct warden_proto_work *msg,
		       const char *input, size_t size)
{
	static const struct work_job_ops ops = { .failed = work_on_failed,
						 .begin = work_on_begin,
						 .data = work_on_data,
						 .end = work_on_end };
	struct warren_error err = WARREN_ERROR_INIT;
	struct call *c = w->call;

	if (c->route.n_params)
		(void)snprintf(msg->work, sizeof(msg->work), "%s", c->route.param[0]);
	msg->input = (uint32_t)size;
	if (work_job_start(c->v1->service, msg, input, &ops, w, &w->job, &err) < 0)
		call_fail(c, &err);
}

/* -------------------------------------------------------------------- input */

/* Append @text, or the bytes that it means in base64. */
static void work_put_text(struct buf *out, const char *text, bool base64)
{
	size_t n = strlen(text);
	char *room;
	ssize_t r;

	if (!base64) {
		buf_add(out, text, n);
		return;
	}
	room = buf_reserve(out, n / 4 * 3);
	r = room ? base64_decode(text, n, room) : 0;
	out->len += r > 0 ? (size_t)r : 0;
}

/* Append a path and a NUL byte; false: the path has one itself, and the call is refused.
 */
static bool work_put_path(struct work_call *w, const char *text, bool base64)
{
	size_t at = w->input.len;

	work_put_text(&w->input, text, base64);
	if (!w->input.failed && memchr(w->input.data + at, 0, w->input.len - at)) {
		call_refuse(w->call, API_ERR_INVALID_REQUEST,
			    "a path cannot contain a NUL byte");
		return false;
	}
	buf_add(&w->input, "", 1);
	return true;
}

static bool work_put_list(struct work_call *w, const char *field, bool base64)
{
	json_t *item;
	size_t i;

	json_array_foreach(body_json(&w->call->body, field), i, item)
	{
		if (!work_put_path(w, json_string_value(item), base64))
			return false;
	}
	return true;
}

static bool work_put_query(struct work_call *w, const struct api_value *v, bool base64)
{
	for (size_t i = 0; i < v->n; i++)
		if (!work_put_path(w, v->items[i].text, base64))
			return false;
	return true;
}

/* Start with what is in @w->input; it is too large if a buffer is full. */
static void work_start_with_input(struct work_call *w, struct warden_proto_work *msg,
				  uint32_t kind)
{
	if (w->input.failed) {
		call_refuse(w->call,
			    w->input.full ? API_ERR_BODY_TOO_LARGE : API_ERR_OVERLOADED,
			    w->input.full
				    ? "the paths have more than %u bytes"
				    : "out of memory for the paths (at most %u bytes)",
			    WORK_INPUT_MAX);
		return;
	}
	if (w->input.len)
		msg->flags |= kind;
	work_start(w, msg, w->input.data, w->input.len);
}

/* Start with the patch or the paths of the body. */
static void work_start_with_body(struct work_call *w, struct warden_proto_work *msg)
{
	const struct body *b = &w->call->body;
	const char *patch = body_text(b, "patch");
	const bool paths = body_has(b, "paths") || body_has(b, "paths_base64");
	const bool encoded = body_has(b, "patch_base64");

	if ((patch && (encoded || paths)) || (encoded && paths)) {
		call_refuse(w->call, API_ERR_INVALID_REQUEST,
			    "only one of paths, patch and patch_base64 can be given");
		return;
	}
	if (patch) {
		msg->flags |= WIRE_WORK_PATCH;
		work_start(w, msg, patch, strlen(patch));
		return;
	}
	if (encoded)
		work_put_text(&w->input, body_text(b, "patch_base64"), true);
	else if (!work_put_list(w, "paths", false) ||
		 !work_put_list(w, "paths_base64", true))
		return;
	work_start_with_input(w, msg, encoded ? WIRE_WORK_PATCH : WIRE_WORK_PATHS);
}

/* ----------------------------------------------------------------- handlers */

void v1_list_works(struct call *c)
{
	const struct api_value *v = c->query.v;
	const char *cursor = v[V1_LIST_WORKS_QUERY_CURSOR].text;
	struct warden_proto_work msg = {
		.verb = WIRE_WORK_LIST,
		.limit = (uint32_t)v[V1_LIST_WORKS_QUERY_LIMIT].number,
	};
	AUTO_BUF struct buf none = BUF_INIT(64);
	struct work_call *w;

	if (!work_is_ours(c)) {
		buf_puts(&none, "{\"works\":[],\"next_cursor\":null}");
		call_json(c, 200, &none);
		return;
	}
	if (cursor && !id_valid(cursor)) {
		call_refuse(c, API_ERR_INVALID_REQUEST,
			    "cursor: must be the next_cursor of an earlier page");
		return;
	}
	w = work_call_new(c);
	if (!w)
		return;
	c->stop = work_stop;
	(void)snprintf(msg.after, sizeof(msg.after), "%s", cursor ? cursor : "");
	work_start(w, &msg, NULL, 0);
}

void v1_get_work(struct call *c)
{
	struct warden_proto_work msg = { .verb = WIRE_WORK_SHOW };
	struct work_call *w = work_call_new(c);

	if (!w)
		return;
	c->stop = work_stop;
	work_start(w, &msg, NULL, 0);
}

void v1_delete_work(struct call *c)
{
	struct warden_proto_work msg = { .verb = WIRE_WORK_REMOVE };
	struct work_call *w = work_call_new(c);

	if (!w)
		return;
	w->empty = true;
	work_start(w, &msg, NULL, 0);
}

/* The values of a query about changes. */
struct work_query {
	const struct api_value *path, *path_base64, *ignored;
};

static void work_show_changes(struct call *c, uint32_t verb, const struct work_query *q,
			      const char *type)
{
	struct warden_proto_work msg = { .verb = verb,
					 .flags = q->ignored->number ? WIRE_WORK_IGNORED
								     : 0 };
	struct work_call *w = work_call_new(c);

	if (!w || !work_put_query(w, q->path, false) ||
	    !work_put_query(w, q->path_base64, true))
		return;
	w->type = type;
	c->stop = work_stop;
	work_start_with_input(w, &msg, WIRE_WORK_PATHS);
}

void v1_list_work_changes(struct call *c)
{
	const struct api_value *v = c->query.v;

	work_show_changes(
		c, WIRE_WORK_CHANGES,
		&(const struct work_query){
			.path = &v[V1_LIST_WORK_CHANGES_QUERY_PATH],
			.path_base64 = &v[V1_LIST_WORK_CHANGES_QUERY_PATH_BASE64],
			.ignored = &v[V1_LIST_WORK_CHANGES_QUERY_IGNORED] },
		NULL);
}

void v1_diff_work(struct call *c)
{
	const struct api_value *v = c->query.v;

	work_show_changes(c, WIRE_WORK_DIFF,
			  &(const struct work_query){
				  .path = &v[V1_DIFF_WORK_QUERY_PATH],
				  .path_base64 = &v[V1_DIFF_WORK_QUERY_PATH_BASE64],
				  .ignored = &v[V1_DIFF_WORK_QUERY_IGNORED] },
			  "text/x-patch");
}

static uint32_t work_allowed(const struct body *b)
{
#define WORK_WORD(word) word,
	static const char *const words[] = { WIRE_WORK_ALLOW(WORK_WORD) };
	uint32_t allow = 0;
	json_t *item;
	size_t i;

	json_array_foreach(body_json(b, "allow"), i, item)
	{
		for (size_t k = 0; k < ARRAY_SIZE(words); k++)
			if (strcmp(json_string_value(item), words[k]) == 0)
				allow |= 1U << k;
	}
	return allow;
}

void v1_accept_work(struct call *c)
{
	const struct body *b = &c->body;
	struct warden_proto_work msg = {
		.verb = WIRE_WORK_ACCEPT,
		.flags = body_bool(b, "ignored") ? WIRE_WORK_IGNORED : 0,
		.allow = work_allowed(b),
		.conflicts = (uint32_t)body_word(b, "conflicts"),
	};
	struct work_call *w = work_call_new(c);

	if (w)
		work_start_with_body(w, &msg);
}

void v1_reject_work(struct call *c)
{
	struct warden_proto_work msg = { .verb = WIRE_WORK_REJECT };
	struct work_call *w = work_call_new(c);

	if (w)
		work_start_with_body(w, &msg);
}
