/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.c - copies of sandboxes: snapshots, which are templates, and forks
 *
 * A snapshot is known by its id or by its name, followed by ":default" if it has no tag.
 */
#include "service/snapshot/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/e2b/internal.h"
#include "api/v1/sandbox.h"
#include "base/parse.h"
#include "base/snapshot_name.h"

#define PAGE_MAX     100
#define FORK_TIMEOUT 15 /* seconds, if the request does not say */
#define TAG          ":default"

static void snapshot_show(struct json *j, const struct snapshot_row *row)
{
	char text[SNAPSHOT_NAME_MAX + 16];
	size_t n = strcspn(row->names, ",");

	(void)snprintf(text, sizeof(text), "%.*s%s", n ? (int)n : ID_LEN,
		       n ? row->names : row->id, n && strchr(row->names, ':') ? "" : TAG);
	json_str(j, "snapshotID", text);
	json_open(j, "names", '[');
	for (const char *p = row->names; *p; p += strspn(p, ",")) {
		n = strcspn(p, ",");
		(void)snprintf(text, sizeof(text), "%.*s", (int)n, p);
		json_str(j, NULL, text);
		p += n;
	}
	json_close(j, ']');
}

/* The name or id of a snapshot, as the service knows it. */
static void snapshot_word(const char *given, char ret[257])
{
	size_t n = strlen(given), tag = strlen(TAG);

	if (n > tag && strcmp(given + n - tag, TAG) == 0)
		n -= tag;
	(void)snprintf(ret, 257, "%.*s", (int)n, given);
}

/* -------------------------------------------------------------------------- create */

static void e2b_snapshot_answer(struct call *c, const char *id)
{
	AUTO_SNAPSHOT_ROW struct snapshot_row row = { 0 };
	AUTO_BUF struct buf out = BUF_INIT(65536);
	struct json j = { .out = &out };
	struct warren_error err = WARREN_ERROR_INIT;

	if (db_get_snapshot(service_db(c->v1->service), NULL, id, &row, &err) < 0) {
		call_fail(c, &err);
		return;
	}
	json_open(&j, NULL, '{');
	snapshot_show(&j, &row);
	json_close(&j, '}');
	call_synced(c, 201, &out);
}

static void e2b_snapshot_on_created(void *ctx, int r, const char *id,
				    const struct warren_error *err)
{
	struct call *c = ctx;

	if (c->req && r < 0)
		e2b_fail(c, err);
	else if (c->req)
		e2b_snapshot_answer(c, id);
	call_unref(c);
}

/* A sandbox of the snapshot has the same user, working directory and commands, by labels.
 */
static void snapshot_put_defaults(const struct sandbox *sandbox, struct buf *out)
{
	json_t *spec = json_loads(sandbox_row(sandbox)->spec, 0, NULL);
	struct json j = { .out = out };

	json_open(&j, NULL, '{');
	for (size_t i = 0; i < ARRAY_SIZE(e2b_kept); i++) {
		const char *value =
			json_string_value(json_object_get(spec, e2b_kept[i].field));

		if (value)
			json_str(&j, e2b_kept[i].label, value);
	}
	if (e2b_label(sandbox, E2B_LABEL_BUILD))
		json_str(&j, E2B_LABEL_BUILD, e2b_label(sandbox, E2B_LABEL_BUILD));
	json_close(&j, '}');
	json_decref(spec);
}

void e2b_create_snapshot(struct call *c)
{
	struct sandbox *sandbox = e2b_sandbox(c);
	const char *name = body_text(&c->body, "name");
	char word[257];
	struct snapshot_request request = { .quota = v1_snapshot_quota(c->v1) };
	AUTO_BUF struct buf labels = BUF_INIT(8192);

	if (!sandbox || !v1_has_snapshots(c, sandbox))
		return;
	if (body_has(&c->body, "memory") && body_bool(&c->body, "memory")) {
		e2b_refuse(c, 501,
			   "memory: a snapshot has the files only: omit it, or pause the "
			   "sandbox to keep its memory");
		return;
	}
	if (name && *name) {
		snapshot_word(name, word);
		request.name = word;
	}
	snapshot_put_defaults(sandbox, &labels);
	request.labels = labels.data;
	if (labels.failed)
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
	else
		snapshot_create(sandbox, &request, e2b_snapshot_on_created, call_ref(c));
}

/* ---------------------------------------------------------------------------- list */

struct snapshot_page {
	struct json json;
	/* "": any */
	char sandbox[E2B_WORD_MAX + 1], name[E2B_TEMPLATE_MAX + 1];
	size_t n, limit;
	char last[ID_LEN + 1];
	bool more;
};

static bool snapshot_is_named(const struct snapshot_row *row, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = row->names; *p; p += strspn(p, ",")) {
		size_t len = strcspn(p, ",");

		if (len == n && memcmp(p, name, n) == 0)
			return true;
		p += len;
	}
	return false;
}

static int e2b_snapshot_list_one(void *ctx, const struct snapshot_row *row)
{
	struct snapshot_page *p = ctx;

	/* The client did not create the snapshot of a fork, and it ends with the copies.
	 */
	if (row->transient && !row->names[0])
		return 0;
	if ((p->sandbox[0] && (!row->source || strcmp(row->source, p->sandbox) != 0)) ||
	    (p->name[0] && !snapshot_is_named(row, p->name)))
		return 0;
	if (p->n == p->limit) {
		p->more = true;
		return 1;
	}
	p->n++;
	(void)memcpy(p->last, row->id, sizeof(p->last));
	json_open(&p->json, NULL, '{');
	snapshot_show(&p->json, row);
	json_close(&p->json, '}');
	return 0;
}

void e2b_list_snapshots(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(4U << 20);
	struct snapshot_page p = { .json = { .out = &out }, .limit = PAGE_MAX };
	struct warren_error err = WARREN_ERROR_INIT;
	char after[E2B_TEMPLATE_MAX + 1], limit[E2B_NUMBER_MAX + 1];
	char name[E2B_TEMPLATE_MAX + 1];
	uint64_t most = PAGE_MAX;
	struct http_header headers[3] = {
		{ "X-Request-Id", http_request_id(c->req) },
		{ "Content-Type", "application/json" },
	};

	if (e2b_query(c, "limit", limit, sizeof(limit)) &&
	    (parse_u64(limit, PAGE_MAX, &most, &err) < 0 || most == 0)) {
		e2b_refuse(c, 400, "limit: must be from 1 to 100");
		return;
	}
	p.limit = (size_t)most;
	(void)e2b_query(c, "nextToken", after, sizeof(after));
	(void)e2b_query(c, "sandboxID", p.sandbox, sizeof(p.sandbox));
	p.sandbox[strcspn(p.sandbox, "-")] = '\0'; /* it may have the id of a client */
	if (e2b_query(c, "name", name, sizeof(name)))
		snapshot_word(name, p.name);
	json_open(&p.json, NULL, '[');
	if (db_each_snapshot(service_db(c->v1->service), c->caller.tenant, after, 0,
			     e2b_snapshot_list_one, &p, &err) < 0) {
		call_fail(c, &err);
		return;
	}
	json_close(&p.json, ']');
	headers[2] = (struct http_header){ "X-Next-Token", p.last };
	c->answered = true;
	(void)http_respond(c->req, 200, headers, p.more ? 3 : 2, out.data, out.len);
}

/* -------------------------------------------------------------------------- delete */

static void e2b_snapshot_on_deleted(void *ctx, int r, const struct warren_error *err)
{
	struct call *c = ctx;

	if (c->req && r == -ENOENT)
		e2b_refuse(c, 404, "template '%s' not found", c->route.param[0]);
	else if (c->req && r == -EBUSY)
		e2b_refuse(c, 409, "%s", err->msg);
	else if (c->req && r < 0)
		call_fail(c, err);
	else if (c->req)
		call_synced(c, 204, NULL);
	call_unref(c);
}

void e2b_delete_template(struct call *c)
{
	char word[257];

	if (e2b_delete_own_template(c))
		return;
	snapshot_word(c->route.param[0], word);
	snapshot_delete(c->v1->service, c->caller.tenant, word, true,
			e2b_snapshot_on_deleted, call_ref(c));
}

/* ---------------------------------------------------------------------------- fork */

/* A copy whose end cannot be set would exist without the client's knowledge: delete it.
 */
static int fork_set_end(struct sandbox *sandbox, int64_t seconds,
			struct warren_error *err)
{
	const struct sandbox_change change = {
		.sets_times = true,
		.expires_at = service_time() + seconds * 1000,
		.idle_timeout_ms = sandbox_row(sandbox)->idle_timeout_ms,
		.wake_on_use = -1,
	};
	int r = sandbox_change(sandbox, &change, err);

	if (r < 0)
		sandbox_delete(sandbox, e2b_ignore, NULL);
	return r;
}

/* The copies of a fork, while they start the commands of their template. */
struct fork_start {
	struct call *call;
	size_t n, left;
	struct fork_copy {
		struct fork_start *all;
		char id[ID_LEN + 1]; /* "": it does not exist */
		struct warren_error err;
	} copies[];
};

static void fork_show(struct call *c, struct fork_copy *copy, int64_t seconds,
		      struct json *j)
{
	struct sandbox *sandbox =
		copy->id[0] ? sandbox_find(c->v1->service, NULL, copy->id) : NULL;

	if (sandbox && !copy->err.code)
		(void)fork_set_end(sandbox, seconds, &copy->err);
	json_open(j, NULL, '{');
	if (sandbox && !copy->err.code) {
		json_open(j, "sandbox", '{');
		e2b_sandbox_to_json(c, sandbox, j);
	} else {
		json_open(j, "error", '{');
		json_int(j, "code", copy->err.code ? 500 : 404);
		json_str(j, "message",
			 copy->err.code ? copy->err.msg
					: "it was deleted in the meantime");
	}
	json_close(j, '}');
	json_close(j, '}');
}

static void fork_start_end(struct fork_start *f)
{
	struct call *c = f->call;
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);
	struct json j = { .out = &out };
	int64_t seconds = body_has(&c->body, "timeout") ? body_int(&c->body, "timeout")
							: FORK_TIMEOUT;

	json_open(&j, NULL, '[');
	for (size_t i = 0; c->req && i < f->n; i++)
		fork_show(c, &f->copies[i], seconds, &j);
	json_close(&j, ']');
	for (size_t i = 0; !c->req && i < f->n; i++) {
		struct sandbox *sandbox =
			sandbox_find(c->v1->service, NULL, f->copies[i].id);

		if (sandbox) /* no client knows it */
			sandbox_delete(sandbox, e2b_ignore, NULL);
	}
	if (c->req)
		call_json(c, 201, &out);
	call_unref(c);
	free(f);
}

/* The commands of one copy run, or failed. */
static void fork_on_started(void *ctx, int r, const struct warren_error *err)
{
	struct fork_copy *copy = ctx;
	struct fork_start *f = copy->all;
	struct sandbox *sandbox =
		r < 0 ? sandbox_find(f->call->v1->service, NULL, copy->id) : NULL;

	if (r < 0)
		copy->err = *err;
	if (sandbox)
		sandbox_delete(sandbox, e2b_ignore, NULL);
	if (--f->left == 0)
		fork_start_end(f);
}

static void fork_on_all(struct call *c, struct sandbox **all, size_t n)
{
	struct fork_start *f = calloc(1, sizeof(*f) + n * sizeof(f->copies[0]));

	if (!f) {
		sandbox_discard(c->v1->service, all, n);
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	f->call = call_ref(c);
	f->n = n;
	f->left = n + 1; /* one for this function */
	for (size_t i = 0; i < n; i++) {
		f->copies[i].all = f;
		if (all[i])
			(void)strcpy(f->copies[i].id, sandbox_row(all[i])->id);
	}
	for (size_t i = 0; i < n; i++) {
		struct sandbox *sandbox =
			sandbox_find(c->v1->service, NULL, f->copies[i].id);

		if (sandbox)
			e2b_restart_template(c, sandbox, fork_on_started, &f->copies[i]);
		else
			f->left--;
	}
	if (--f->left == 0)
		fork_start_end(f);
}

void e2b_fork(struct call *c)
{
	struct api_error refusal = { 0 };

	if (!e2b_sandbox(c))
		return;
	if (body_has(&c->body, "timeout") &&
	    e2b_check_timeout(c, body_int(&c->body, "timeout"), &refusal) < 0) {
		call_error(c, &refusal);
		return;
	}
	if (body_has(&c->body, "timeout") && body_int(&c->body, "timeout") <= 0) {
		e2b_refuse(c, 400, "Timeout must be greater than 0");
		return;
	}
	c->route.param[0] = c->route.sandbox;
	v1_fork(c, (size_t)body_int(&c->body, "count"), fork_on_all);
}
