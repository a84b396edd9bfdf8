/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template.c - templates of a tenant: list, show, tag and delete them
 *
 * A template is known by its id or by its name, which may begin with the tenant and a
 * slash. A tag after a colon selects a build; without one, it is "default".
 */
#include "service/template/template.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/e2b/internal.h"
#include "api/v1/sandbox.h"
#include "base/date.h"
#include "base/parse.h"
#include "config/config.h"
#include "net/loop.h"
#include "spec/spec.h"

#define TEMPLATE_PAGE_MAX 100
#define TEMPLATE_SLICE    16 /* templates that are written in one turn */

/* Templates that SDKs use by default, and that need no configuration. */
static const char *const template_builtin[] = { "base", "code-interpreter-v1" };

const char *const e2b_template_states[TEMPLATE_STATE_MAX] = {
	[TEMPLATE_WAITING] = "waiting",
	[TEMPLATE_BUILDING] = "building",
	[TEMPLATE_READY] = "ready",
	[TEMPLATE_ERROR] = "error",
};

bool e2b_has_template(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(template_builtin); i++)
		if (strcmp(name, template_builtin[i]) == 0)
			return true;
	return false;
}

bool e2b_is_configured(const struct call *c, const char *name)
{
	return json_object_get(c->v1->config->templates, name);
}

/* ---------------------------------------------------------------------- find */

int e2b_find_template(struct call *c, const char *word, struct template_row *ret,
		      char tag[E2B_NAME_MAX + 1], struct warren_error *err)
{
	const char *slash = strchr(word, '/'), *tenant = c->caller.tenant;
	char name[E2B_NAME_MAX + 1];
	size_t n;

	(void)strcpy(tag, "default");
	if (slash && ((size_t)(slash - word) != strlen(tenant) ||
		      strncmp(word, tenant, strlen(tenant)) != 0))
		return error_set(err, ENOENT, "it belongs to another tenant");
	if (slash)
		word = slash + 1;
	n = strcspn(word, ":");
	if (n > E2B_NAME_MAX || (word[n] && strlen(word + n + 1) > E2B_NAME_MAX))
		return error_set(err, ENOENT, "the name is too long");
	(void)snprintf(name, sizeof(name), "%.*s", (int)n, word);
	if (word[n])
		(void)snprintf(tag, E2B_NAME_MAX + 1, "%s", word + n + 1);
	return db_get_template(service_db(c->v1->service), tenant, name, ret, err);
}

static bool e2b_template_find(struct call *c, const char *word, struct template_row *ret,
			      char tag[E2B_NAME_MAX + 1])
{
	struct warren_error err = WARREN_ERROR_INIT;
	int r = e2b_find_template(c, word, ret, tag, &err);

	if (r == -ENOENT)
		e2b_refuse(c, 404, "template '%.200s' not found", word);
	else if (r < 0)
		call_fail(c, &err);
	return r == 0;
}

bool e2b_template(struct call *c, struct template_row *ret)
{
	char tag[E2B_NAME_MAX + 1];

	return e2b_template_find(c, c->route.param[0], ret, tag);
}

/* ---------------------------------------------------------------------- show */

static void template_put_time(struct json *j, const char *key, int64_t time)
{
	char text[DATE_SIZE];

	date_iso(text, service_wall(time));
	json_str(j, key, text);
}

static void template_put_names(struct json *j, const char *name)
{
	json_open(j, "aliases", '[');
	json_str(j, NULL, name);
	json_close(j, ']');
	json_open(j, "names", '[');
	json_str(j, NULL, name);
	json_close(j, ']');
}

/* What a sandbox may use unless its template says otherwise. */
static void template_read_limits(struct call *c, struct warren_spec *ret)
{
	struct body none = { .schema = v1_face.ops[V1_CREATE_SANDBOX].schema,
			     .json = json_object() };
	struct api_error ignored = { 0 };

	*ret = (struct warren_spec){ 0 };
	if (none.json)
		(void)!limits_read(c->v1->config, &none, ret, &ignored);
	json_decref(none.json);
}

/* What a sandbox of the build may use. */
static void template_put_limits(const struct warren_spec *limits, struct json *j,
				const char *text)
{
	json_t *spec = json_loads(text, 0, NULL);
	const uint64_t given[] = {
		(uint64_t)json_integer_value(json_object_get(spec, "cpuCount")),
		(uint64_t)json_integer_value(json_object_get(spec, "memoryMB")),
		(uint64_t)json_integer_value(json_object_get(spec, "diskMB")),
	};

	json_u64(j, "cpuCount", given[0] ? given[0] : (limits->cpu_millis + 999) / 1000);
	json_u64(j, "memoryMB", given[1] ? given[1] : limits->memory >> 20);
	json_u64(j, "diskSizeMB", given[2] ? given[2] : limits->disk >> 20);
	json_decref(spec);
}

/* Write the fields that a list and a single template have. */
static void template_show_fields(const struct warren_spec *limits, struct json *j,
				 const struct template_row *row)
{
	json_str(j, "templateID", row->id);
	json_str(j, "buildID", row->build);
	template_put_limits(limits, j, row->spec);
	json_bool(j, "public", false);
	template_put_names(j, row->name);
	template_put_time(j, "createdAt", row->created_at);
	template_put_time(j, "updatedAt", row->updated_at);
	json_nil(j, "createdBy");
	json_nil(j, "lastSpawnedAt");
	json_int(j, "spawnCount", 0);
	json_u64(j, "buildCount", row->builds);
	json_str(j, "envdVersion", ENVD_VERSION);
	json_str(j, "buildStatus", e2b_template_states[row->state]);
}

/* A list that is written in slices, because a tenant can have many templates. */
struct template_page {
	struct call *call;
	struct loop_task turn;
	struct warren_spec limits;
	struct buf out;
	struct json json;
	size_t n, limit;
	char last[E2B_TEMPLATE_MAX + 1]; /* the list goes on after this template */
	bool more;
};

static int e2b_template_list_one(void *ctx, const struct template_row *row)
{
	struct template_page *p = ctx;
	struct json *j = &p->json;

	if (p->n == p->limit) {
		p->more = true;
		return 1;
	}
	p->n++;
	(void)snprintf(p->last, sizeof(p->last), "%s", row->id);
	json_open(j, NULL, '{');
	template_show_fields(&p->limits, j, row);
	json_close(j, '}');
	return 0;
}

/* False: refused. */
static bool template_read_page(struct call *c, struct template_page *p)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	char text[DB_NAME_MAX + 1];
	uint64_t most = TEMPLATE_PAGE_MAX;

	(void)e2b_query(c, "nextToken", p->last, sizeof(p->last));
	if (e2b_query(c, "limit", text, sizeof(text)) &&
	    (parse_u64(text, TEMPLATE_PAGE_MAX, &most, &ignored) < 0 || most == 0)) {
		e2b_refuse(c, 400, "limit: must be from 1 to 100");
		return false;
	}
	if (e2b_query(c, "teamID", text, sizeof(text)) &&
	    strcmp(text, c->caller.tenant) != 0) {
		e2b_refuse(c, 404, "team '%s' not found", text);
		return false;
	}
	/* The first version of this operation has no pages. */
	p->limit = strncmp(c->req->path, "/v2", 3) == 0 ? (size_t)most : TEMPLATES_MAX;
	return true;
}

static void template_page_gone(struct call *c)
{
	struct template_page *p = c->state;

	loop_task_cancel(&p->turn);
	buf_done(&p->out);
	free(p);
}

static void template_page_end(struct template_page *p)
{
	struct call *c = p->call;
	const struct http_header headers[] = {
		{ "X-Request-Id", http_request_id(c->req) },
		{ "Content-Type", "application/json" },
		{ "X-Next-Token", p->last },
	};

	json_close(&p->json, ']');
	c->answered = true;
	(void)http_respond(c->req, 200, headers, p->more ? 3 : 2, p->out.data,
			   p->out.len);
}

static void template_page_turn(void *ctx)
{
	struct template_page *p = ctx;
	struct call *c = p->call;
	struct warren_error err = WARREN_ERROR_INIT;
	size_t before = p->n;
	char after[sizeof(p->last)];

	(void)memcpy(after, p->last, sizeof(after));
	if (db_each_template(service_db(c->v1->service), c->caller.tenant, after,
			     TEMPLATE_SLICE, e2b_template_list_one, p, &err) < 0)
		call_fail(c, &err);
	else if (p->more || p->n - before < TEMPLATE_SLICE)
		template_page_end(p);
	else
		loop_later(service_loop(c->v1->service), &p->turn);
}

void e2b_list_templates(struct call *c)
{
	struct template_page *p = calloc(1, sizeof(*p));

	if (!p) {
		call_fail(c, &(struct warren_error){ ENOMEM, "list the templates" });
		return;
	}
	p->call = c;
	p->out = (struct buf)BUF_INIT(4U << 20);
	p->json.out = &p->out;
	p->turn = (struct loop_task){ .fn = template_page_turn, .ctx = p };
	c->state = p;
	c->gone = template_page_gone;
	if (!template_read_page(c, p))
		return;
	template_read_limits(c, &p->limits);
	json_open(&p->json, NULL, '[');
	template_page_turn(p);
}

void e2b_get_template(struct call *c)
{
	AUTO_TEMPLATE_ROW struct template_row row = { 0 };
	AUTO_BUF struct buf out = BUF_INIT(65536);
	struct warren_spec limits;
	struct json j = { .out = &out };

	if (!e2b_template(c, &row))
		return;
	template_read_limits(c, &limits);
	json_open(&j, NULL, '{');
	template_show_fields(&limits, &j, &row);
	json_open(&j, "builds", '[');
	if (row.build[0]) {
		json_open(&j, NULL, '{');
		json_str(&j, "buildID", row.build);
		json_str(&j, "status", e2b_template_states[row.state]);
		template_put_time(&j, "createdAt", row.created_at);
		template_put_time(&j, "updatedAt", row.updated_at);
		template_put_limits(&limits, &j, row.spec);
		json_str(&j, "envdVersion", ENVD_VERSION);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	json_close(&j, '}');
	call_json(c, 200, &out);
}

void e2b_get_alias(struct call *c)
{
	AUTO_TEMPLATE_ROW struct template_row row = { 0 };
	AUTO_BUF struct buf out = BUF_INIT(4096);
	struct json j = { .out = &out };
	struct warren_error ignored = WARREN_ERROR_INIT;
	const char *name = c->route.param[0];
	char tag[E2B_NAME_MAX + 1];
	bool own = !e2b_is_configured(c, name) &&
		   e2b_find_template(c, name, &row, tag, &ignored) == 0;

	if (!own && !e2b_is_configured(c, name) && !e2b_has_template(name)) {
		e2b_refuse(c, 404, "template '%.200s' not found", name);
		return;
	}
	json_open(&j, NULL, '{');
	json_str(&j, "templateID", own ? row.id : name);
	json_bool(&j, "public", !own);
	json_close(&j, '}');
	call_json(c, 200, &out);
}

void e2b_publish_template(struct call *c)
{
	AUTO_TEMPLATE_ROW struct template_row row = { 0 };
	AUTO_BUF struct buf out = BUF_INIT(4096);
	struct json j = { .out = &out };

	if (!e2b_template(c, &row))
		return;
	if (body_bool(&c->body, "public")) {
		e2b_refuse(c, 501,
			   "a template belongs to its tenant: for all tenants, name its "
			   "image in 'templates' of the configuration");
		return;
	}
	json_open(&j, NULL, '{');
	json_open(&j, "names", '[');
	json_str(&j, NULL, row.name);
	json_close(&j, ']');
	json_close(&j, '}');
	call_json(c, 200, &out);
}

void e2b_refuse_push(struct call *c)
{
	e2b_refuse(c, 501,
		   "builds that push an image to a registry are not supported: build the "
		   "template with an SDK from 2.45 on, or build the image with 'warren "
		   "image build' and name it in 'templates' of the configuration");
}

/* ---------------------------------------------------------------------- tags */

static bool template_is_uuid(const char *tag)
{
	return strlen(tag) == TEMPLATE_UUID_LEN &&
	       strspn(tag, "0123456789abcdef-") == TEMPLATE_UUID_LEN;
}

bool e2b_tag_is_valid(const char *tag)
{
	size_t n = strspn(tag, "abcdefghijklmnopqrstuvwxyz0123456789-_.");

	return n > 0 && n <= E2B_NAME_MAX && !tag[n] && !template_is_uuid(tag);
}

/* The tags of the request, which the caller frees; NULL: refused. */
static const char **template_read_tags(struct call *c, size_t *ret_n)
{
	json_t *list = body_json(&c->body, "tags"), *value;
	const char **tags = calloc(json_array_size(list) + 1, sizeof(*tags));
	size_t i;

	if (!tags) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return NULL;
	}
	json_array_foreach(list, i, value)
	{
		tags[i] = json_string_value(value);
		if (!e2b_tag_is_valid(tags[i])) {
			e2b_refuse(c, 400,
				   "tags: '%.100s' is not valid: lower-case letters, "
				   "digits, '-', '_' and '.', and not a UUID",
				   tags[i]);
			free((void *)tags);
			return NULL;
		}
	}
	*ret_n = i;
	return tags;
}

static void template_answer_tags(struct call *c, const char *build,
				 const char *const *tags, size_t n)
{
	AUTO_BUF struct buf out = BUF_INIT(65536);
	struct json j = { .out = &out };

	json_open(&j, NULL, '{');
	json_str(&j, "buildID", build);
	json_open(&j, "tags", '[');
	for (size_t i = 0; i < n; i++)
		json_str(&j, NULL, tags[i]);
	json_close(&j, ']');
	json_close(&j, '}');
	call_synced(c, 201, &out);
}

void e2b_assign_tags(struct call *c)
{
	AUTO_TEMPLATE_ROW struct template_row row = { 0 };
	AUTO_TEMPLATE_BUILD_ROW struct template_build_row build = { 0 };
	struct db *db = service_db(c->v1->service);
	const char *target = body_text(&c->body, "target");
	struct warren_error err = WARREN_ERROR_INIT;
	char tag[E2B_NAME_MAX + 1];
	const char **tags;
	size_t n = 0;
	int r;

	if (!e2b_template_find(c, target, &row, tag))
		return;
	tags = template_read_tags(c, &n);
	if (!tags)
		return;
	r = db_find_template_tag(db, row.id, tag, &build, &err);
	if (r == 0)
		r = db_tag_template(db, row.id, build.id, tags, n, service_time(), &err);
	if (r == -ENOENT)
		e2b_refuse(c, 404, "template '%.200s' not found", target);
	else if (r < 0)
		call_fail(c, &err);
	else
		template_answer_tags(c, build.id, tags, n);
	if (r == 0)
		snapshot_sweep(c->v1->service);
	free((void *)tags);
}

void e2b_remove_tags(struct call *c)
{
	AUTO_TEMPLATE_ROW struct template_row row = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	char tag[E2B_NAME_MAX + 1];
	const char **tags;
	size_t n = 0;
	int r;

	if (!e2b_template_find(c, body_text(&c->body, "name"), &row, tag))
		return;
	tags = template_read_tags(c, &n);
	if (!tags)
		return;
	r = db_untag_template(service_db(c->v1->service), row.id, tags, n, &err);
	free((void *)tags);
	if (r == -ENOENT)
		e2b_refuse(c, 404, "%s", err.msg);
	else if (r < 0)
		call_fail(c, &err);
	else
		call_synced(c, 204, NULL);
	if (r == 0)
		snapshot_sweep(c->v1->service);
}

static int e2b_tag_list_one(void *ctx, const char *tag, const char *build,
			    int64_t created_at)
{
	struct json *j = ctx;

	json_open(j, NULL, '{');
	json_str(j, "tag", tag);
	json_str(j, "buildID", build);
	template_put_time(j, "createdAt", created_at);
	json_close(j, '}');
	return 0;
}

void e2b_list_tags(struct call *c)
{
	AUTO_TEMPLATE_ROW struct template_row row = { 0 };
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);
	struct json j = { .out = &out };
	struct warren_error err = WARREN_ERROR_INIT;

	if (!e2b_template(c, &row))
		return;
	json_open(&j, NULL, '[');
	if (db_each_template_tag(service_db(c->v1->service), row.id, e2b_tag_list_one, &j,
				 &err) < 0) {
		call_fail(c, &err);
		return;
	}
	json_close(&j, ']');
	call_json(c, 200, &out);
}

/* -------------------------------------------------------------------- delete */

/* 1: deleted, and answered; 0: there is no such template. */
int e2b_delete_own_template(struct call *c)
{
	AUTO_TEMPLATE_ROW struct template_row row = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	char tag[E2B_NAME_MAX + 1];
	int r = e2b_find_template(c, c->route.param[0], &row, tag, &err);

	if (r == -ENOENT || (r == 0 && strchr(c->route.param[0], ':')))
		return 0;
	if (r == 0) {
		template_build_cancel(c->v1->service, row.id);
		r = db_delete_template(service_db(c->v1->service), row.id, &err);
	}
	if (r < 0) {
		call_fail(c, &err);
		return 1;
	}
	snapshot_sweep(c->v1->service);
	call_synced(c, 204, NULL);
	return 1;
}
