/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.c - handlers: create, list, show, tag and delete snapshots */
#include "service/snapshot/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/v1/v1.h"
#include "base/date.h"
#include "base/json.h"
#include "base/snapshot_name.h"
#include "config/config.h"

static void snapshot_to_json(struct json *j, const struct snapshot_row *row)
{
	char created[DATE_SIZE], name[SNAPSHOT_NAME_MAX + 1];

	date_iso(created, service_wall(row->created_at));
	json_open(j, NULL, '{');
	json_str(j, "id", row->id);
	json_open(j, "names", '[');
	for (const char *p = row->names; *p; p += strspn(p, ",")) {
		size_t n = strcspn(p, ",");

		(void)snprintf(name, sizeof(name), "%.*s", (int)n, p);
		json_str(j, NULL, name);
		p += n;
	}
	json_close(j, ']');
	json_str(j, "image", row->image);
	if (row->source[0])
		json_str(j, "source", row->source);
	else
		json_nil(j, "source");
	json_u64(j, "size", row->size);
	json_raw(j, "labels", row->labels, strlen(row->labels));
	json_u64(j, "users", row->users);
	json_str(j, "created_at", created);
	json_close(j, '}');
}

static void snapshot_refuse(struct call *c, const struct warren_error *err)
{
	struct api_error answer = { 0 };

	if (err->code == ENOENT) {
		call_refuse(c, API_ERR_SNAPSHOT_NOT_FOUND, "%s", err->msg);
	} else if (err->code == EBUSY) {
		(void)api_error_set(&answer, API_ERR_SNAPSHOT_IN_USE, "%s", err->msg);
		call_error(c, &answer);
	} else {
		call_fail(c, err);
	}
}

/* Answer with the snapshot @word; @tenant NULL: an id, of any tenant. */
static void snapshot_answer(struct call *c, int status, bool synced, const char *tenant,
			    const char *word)
{
	AUTO_SNAPSHOT_ROW struct snapshot_row row = { 0 };
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);
	struct json j = { .out = &out };
	struct warren_error err = WARREN_ERROR_INIT;

	if (db_get_snapshot(service_db(c->v1->service), tenant, word, &row, &err) < 0) {
		snapshot_refuse(c, &err);
		return;
	}
	snapshot_to_json(&j, &row);
	if (synced)
		call_synced(c, status, &out);
	else
		call_json(c, status, &out);
}

/* ---------------------------------------------------------------------- create */

struct snapshot_quota v1_snapshot_quota(const struct v1 *v1)
{
	return (struct snapshot_quota){ .snapshots = v1->config->quota_snapshots,
					.bytes = v1->config->quota_snapshot_bytes };
}

bool v1_has_snapshots(struct call *c, const struct sandbox *sandbox)
{
	const char *name = sandbox_row(sandbox)->backend;
	const struct config_backend *b = config_backend(c->v1->config, name);

	if (b && b->snapshots)
		return true;
	call_refuse(c, API_ERR_NOT_SUPPORTED,
		    "backend '%s' cannot make snapshots of sandboxes", name);
	return false;
}

static void snapshot_on_created(void *ctx, int r, const char *id,
				const struct warren_error *err)
{
	struct call *c = ctx;

	/* An error EBUSY is about the sandbox here. */
	if (c->req && r < 0)
		call_fail(c, err);
	else if (c->req)
		snapshot_answer(c, 201, true, NULL, id);
	call_unref(c);
}

void v1_create_snapshot(struct call *c)
{
	struct sandbox *sandbox = call_sandbox(c);
	json_t *given = body_json(&c->body, "labels");
	char *labels = given ? json_dumps(given, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	const struct snapshot_request request = {
		.name = body_text(&c->body, "name"),
		.labels = labels ? labels : "{}",
		.quota = v1_snapshot_quota(c->v1),
	};

	if (sandbox && given && !labels)
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
	else if (sandbox && v1_has_snapshots(c, sandbox))
		snapshot_create(sandbox, &request, snapshot_on_created, call_ref(c));
	free(labels);
}

/* ------------------------------------------------------------------------ show */

struct snapshot_page {
	struct json *j;
	size_t n, max;
	char last[ID_LEN + 1];
	bool more;
};

static int snapshot_list_one(void *ctx, const struct snapshot_row *row)
{
	struct snapshot_page *p = ctx;

	if (p->n == p->max) {
		p->more = true;
		return 1;
	}
	p->n++;
	snapshot_to_json(p->j, row);
	(void)memcpy(p->last, row->id, sizeof(p->last));
	return 0;
}

void v1_list_snapshots(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(64U << 20);
	struct json j = { .out = &out };
	const char *after = c->query.v[V1_LIST_SNAPSHOTS_QUERY_CURSOR].text;
	struct snapshot_page p = {
		.j = &j,
		.max = (size_t)c->query.v[V1_LIST_SNAPSHOTS_QUERY_LIMIT].number,
	};
	struct warren_error err = WARREN_ERROR_INIT;

	json_open(&j, NULL, '{');
	json_open(&j, "snapshots", '[');
	if (db_each_snapshot(service_db(c->v1->service), c->caller.tenant,
			     after ? after : "", p.max + 1, snapshot_list_one, &p,
			     &err) < 0) {
		call_fail(c, &err);
		return;
	}
	json_close(&j, ']');
	if (p.more)
		json_str(&j, "next_cursor", p.last);
	else
		json_raw(&j, "next_cursor", "null", 4);
	json_close(&j, '}');
	call_json(c, 200, &out);
}

void v1_get_snapshot(struct call *c)
{
	snapshot_answer(c, 200, false, c->caller.tenant, c->route.param[0]);
}

/* ------------------------------------------------------------- tag and delete */

void v1_tag_snapshot(struct call *c)
{
	struct warren_error err = WARREN_ERROR_INIT;
	char id[ID_LEN + 1];

	if (snapshot_tag(c->v1->service, c->caller.tenant, c->route.param[0],
			 body_text(&c->body, "name"), id, &err) < 0)
		snapshot_refuse(c, &err);
	else
		snapshot_answer(c, 200, true, c->caller.tenant, id);
}

static void snapshot_on_deleted(void *ctx, int r, const struct warren_error *err)
{
	struct call *c = ctx;

	if (c->req && r < 0)
		snapshot_refuse(c, err);
	else if (c->req)
		call_synced(c, 204, NULL);
	call_unref(c);
}

void v1_delete_snapshot(struct call *c)
{
	snapshot_delete(c->v1->service, c->caller.tenant, c->route.param[0],
			c->query.v[V1_DELETE_SNAPSHOT_QUERY_FORCE].number,
			snapshot_on_deleted, call_ref(c));
}
