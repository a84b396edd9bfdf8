/* SPDX-License-Identifier: Apache-2.0 */
/* volume.c - handlers: create, copy, list, show and delete volumes */
#include "service/volume/volume.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/v1/v1.h"
#include "base/date.h"
#include "base/json.h"
#include "base/volume_name.h"
#include "config/config.h"

#define VOLUME_USERS_SHOWN 1000

/* The object stays open, for more fields. */
static void volume_to_json(struct json *j, const struct volume_row *row)
{
	char created[DATE_SIZE];

	date_iso(created, service_wall(row->created_at));
	json_open(j, NULL, '{');
	json_str(j, "name", row->name);
	json_u64(j, "size", row->size);
	json_raw(j, "labels", row->labels, strlen(row->labels));
	json_u64(j, "users", row->users);
	json_str(j, "created_at", created);
}

static void volume_fail(struct call *c, const struct warren_error *err)
{
	struct api_error answer = { 0 };

	if (err->code == ENOENT)
		call_refuse(c, API_ERR_VOLUME_NOT_FOUND, "%s", err->msg);
	else if (err->code == EBUSY) {
		(void)api_error_set(&answer, API_ERR_VOLUME_IN_USE, "%s", err->msg);
		call_error(c, &answer);
	} else
		call_fail(c, err);
}

/* ---------------------------------------------------------------------- create */

struct volume_creation {
	struct call *call;
	char name[VOLUME_NAME_MAX + 1];
};

static void volume_on_create(void *ctx, int r, const struct warren_error *err)
{
	AUTO_VOLUME_ROW struct volume_row row = { 0 };
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);
	struct json j = { .out = &out };
	struct warren_error why = WARREN_ERROR_INIT;
	struct volume_creation *k = ctx;
	struct call *c = k->call;

	if (c->req && r == 0)
		r = db_get_volume(service_db(c->v1->service), c->caller.tenant, k->name,
				  &row, &why);
	if (c->req && r != 0) {
		volume_fail(c, why.code ? &why : err);
	} else if (c->req) {
		volume_to_json(&j, &row);
		json_close(&j, '}');
		call_synced(c, 201, &out);
	}
	call_unref(c);
	free(k);
}

static void volume_begin_create(struct call *c, const char *from, uint64_t size)
{
	const struct config *cfg = c->v1->config;
	const char *name = body_text(&c->body, "name");
	json_t *given = body_json(&c->body, "labels");
	char *labels = given ? json_dumps(given, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	struct volume_creation *k = calloc(1, sizeof(*k));
	const struct volume_request request = {
		.tenant = c->caller.tenant,
		.name = name,
		.from = from,
		.size = size,
		.labels = labels ? labels : "{}",
		.quota = { .volumes = cfg->quota_volumes,
			   .bytes = cfg->quota_volume_bytes },
	};

	if (k && (labels || !given)) {
		k->call = call_ref(c);
		(void)snprintf(k->name, sizeof(k->name), "%s", name);
		volume_create(c->v1->service, &request, volume_on_create, k);
	} else {
		free(k);
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
	}
	free(labels);
}

void v1_create_volume(struct call *c)
{
	volume_begin_create(c, NULL,
			    body_has(&c->body, "size") ? body_size(&c->body, "size")
						       : VOLUME_SIZE_DEFAULT);
}

void v1_copy_volume(struct call *c)
{
	volume_begin_create(c, c->route.param[0], 0);
}

/* ------------------------------------------------------------------------ show */

struct volume_page {
	struct json *j;
	size_t n, max;
	char last[VOLUME_NAME_MAX + 1];
	bool more;
};

static int volume_list_one(void *ctx, const struct volume_row *row)
{
	struct volume_page *p = ctx;

	if (p->n == p->max) {
		p->more = true;
		return 1;
	}
	p->n++;
	volume_to_json(p->j, row);
	json_close(p->j, '}');
	(void)snprintf(p->last, sizeof(p->last), "%s", row->name);
	return 0;
}

void v1_list_volumes(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(64U << 20);
	struct json j = { .out = &out };
	const char *after = c->query.v[V1_LIST_VOLUMES_QUERY_CURSOR].text;
	struct volume_page p = {
		.j = &j,
		.max = (size_t)c->query.v[V1_LIST_VOLUMES_QUERY_LIMIT].number,
	};
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	json_open(&j, NULL, '{');
	json_open(&j, "volumes", '[');
	r = db_each_volume(service_db(c->v1->service), c->caller.tenant,
			   after ? after : "", p.max + 1, volume_list_one, &p, &err);
	if (r < 0) {
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

static int volume_show_user(void *ctx, const char *sandbox)
{
	json_str(ctx, NULL, sandbox);
	return 0;
}

static void volume_on_usage(void *ctx, const struct warren_error *failure,
			    const char *data, size_t size, int fd UNUSED)
{
	AUTO_VOLUME_ROW struct volume_row row = { 0 };
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);
	struct json j = { .out = &out };
	struct warden_proto_volume_usage usage;
	struct warren_error err = WARREN_ERROR_INIT;
	struct call *c = ctx;
	struct db *db = service_db(c->v1->service);
	int r = c->req ? db_get_volume(db, c->caller.tenant, c->route.param[0], &row,
				       &err)
		       : -ECANCELED;

	if (r == 0) {
		volume_to_json(&j, &row);
		json_open(&j, "sandboxes", '[');
		r = db_each_volume_user(db, row.id, VOLUME_USERS_SHOWN, volume_show_user,
					&j, &err);
		json_close(&j, ']');
		if (!failure && size == sizeof(usage)) {
			(void)memcpy(&usage, data, sizeof(usage));
			json_u64(&j, "disk_bytes", usage.disk);
		}
		json_close(&j, '}');
	}
	if (c->req && r < 0)
		volume_fail(c, &err);
	else if (c->req)
		call_json(c, 200, &out);
	call_unref(c);
}

void v1_get_volume(struct call *c)
{
	struct warden_proto_volume m = { .verb = WIRE_VOLUME_USAGE };

	volume_ask(c->v1->service, c->caller.tenant, c->route.param[0], &m,
		   volume_on_usage, call_ref(c));
}

/* ---------------------------------------------------------------------- delete */

static void volume_on_delete(void *ctx, int r, const struct warren_error *err)
{
	struct call *c = ctx;

	if (c->req && r < 0)
		volume_fail(c, err);
	else if (c->req)
		call_synced(c, 204, NULL);
	call_unref(c);
}

void v1_delete_volume(struct call *c)
{
	volume_delete(c->v1->service, c->caller.tenant, c->route.param[0],
		      volume_on_delete, call_ref(c));
}
