/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template_build.c - builds of templates: request, start, and watch them
 *
 * The SDK requests a build, uploads the files of its steps, starts the build, and then
 * asks for its state and its log until it ends.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "api/e2b/internal.h"
#include "api/v1/image.h"
#include "api/validate.h"
#include "base/id.h"
#include "base/parse.h"
#include "base/snapshot_name.h"
#include "base/strv.h"
#include "config/config.h"
#include "service/template/template.h"

#define BUILD_LOGS_MAX 100 /* entries of one response */
/* The image that the SDK begins with by default. */
#define BUILD_DEFAULT_IMAGE "e2bdev/base"

/* --------------------------------------------------------------------- request */

static int e2b_build_make_id(char ret[TEMPLATE_UUID_LEN + 1])
{
	unsigned char b[16];

	if (getrandom(b, sizeof(b), 0) != (ssize_t)sizeof(b))
		return -EIO;
	b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
	b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
	(void)snprintf(ret, TEMPLATE_UUID_LEN + 1,
		       "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
		       "%02x%02x%02x%02x%02x%02x",
		       b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10],
		       b[11], b[12], b[13], b[14], b[15]);
	return 0;
}

/* Split "tenant/name:tag"; false: refused. */
static bool e2b_build_read_name(struct call *c, char name[E2B_NAME_MAX + 1], json_t *tags)
{
	const char *word = body_has(&c->body, "name") ? body_text(&c->body, "name")
						      : body_text(&c->body, "alias");
	const char *slash = word ? strchr(word, '/') : NULL;
	size_t n;

	if (slash && ((size_t)(slash - word) != strlen(c->caller.tenant) ||
		      strncmp(word, c->caller.tenant, (size_t)(slash - word)) != 0)) {
		e2b_refuse(c, 403, "name: '%.200s' belongs to another team", word);
		return false;
	}
	word = slash ? slash + 1 : word;
	n = word ? strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789-_") : 0;
	if (n == 0 || n > E2B_NAME_MAX || (word[n] && word[n] != ':') ||
	    (word[n] && !e2b_tag_is_valid(word + n + 1))) {
		e2b_refuse(c, 400,
			   "name: it has lower-case letters, digits, '-' and '_', and "
			   "may have a tag after ':'");
		return false;
	}
	(void)snprintf(name, E2B_NAME_MAX + 1, "%.*s", (int)n, word);
	if (word[n])
		(void)json_array_append_new(tags, json_string(word + n + 1));
	if (e2b_is_configured(c, name)) {
		e2b_refuse(c, 409,
			   "name: '%s' is a template of the service's configuration",
			   name);
		return false;
	}
	return true;
}

/* What the build keeps of the request; NULL: refused. */
static json_t *e2b_build_read_spec(struct call *c, json_t *tags)
{
	json_t *given = body_json(&c->body, "tags"), *value;
	json_t *spec = json_pack("{sO}", "tags", tags);
	uint64_t disk = (uint64_t)body_int(&c->body, "minFreeDiskMb");
	size_t i;

	json_array_foreach(given, i, value)
	{
		if (!e2b_tag_is_valid(json_string_value(value))) {
			e2b_refuse(c, 400, "tags: '%.100s' is not valid",
				   json_string_value(value));
			json_decref(spec);
			return NULL;
		}
		(void)json_array_append(tags, value);
	}
	if (json_array_size(tags) == 0)
		(void)json_array_append_new(tags, json_string("default"));
	if (body_has(&c->body, "cpuCount"))
		(void)json_object_set(spec, "cpuCount", body_json(&c->body, "cpuCount"));
	if (body_has(&c->body, "memoryMB"))
		(void)json_object_set(spec, "memoryMB", body_json(&c->body, "memoryMB"));
	if (disk > 0)
		(void)json_object_set(spec, "diskMB",
				      body_json(&c->body, "minFreeDiskMb"));
	return spec;
}

static void e2b_build_answer(struct call *c, const struct template_build_row *row,
			     const char *name, json_t *tags)
{
	AUTO_BUF struct buf out = BUF_INIT(65536);
	struct json j = { .out = &out };
	json_t *tag;
	size_t i;

	json_open(&j, NULL, '{');
	json_str(&j, "templateID", row->template);
	json_str(&j, "buildID", row->id);
	json_bool(&j, "public", false);
	json_open(&j, "names", '[');
	json_str(&j, NULL, name);
	json_close(&j, ']');
	json_open(&j, "tags", '[');
	json_array_foreach(tags, i, tag) json_str(&j, NULL, json_string_value(tag));
	json_close(&j, ']');
	json_open(&j, "aliases", '[');
	json_str(&j, NULL, name);
	json_close(&j, ']');
	json_close(&j, '}');
	call_synced(c, 202, &out);
}

static int e2b_build_insert(struct call *c, const char *name, const char *spec,
			    struct template_build_row *row, struct warren_error *err)
{
	struct db *db = service_db(c->v1->service);
	struct template_row template = { .tenant = c->caller.tenant,
					 .name = name,
					 .created_at = service_time() };
	int r;

	id_make(template.id);
	if (e2b_build_make_id(row->id) < 0)
		return error_errno(err, EIO, "create an id");
	row->spec = spec;
	row->created_at = service_time();
	row->state = TEMPLATE_WAITING;
	r = db_put_template(db, &template, row->template, err);
	return r < 0 ? r : db_insert_template_build(db, row, err);
}

void e2b_request_build(struct call *c)
{
	struct template_build_row row = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	json_t *tags = json_array(), *spec;
	const char *team = body_text(&c->body, "teamID");
	char name[E2B_NAME_MAX + 1], *text;

	if (team && strcmp(team, c->caller.tenant) != 0)
		e2b_refuse(c, 403, "teamID: the key belongs to another team");
	spec = !c->answered && e2b_build_read_name(c, name, tags)
		       ? e2b_build_read_spec(c, tags)
		       : NULL;
	text = spec ? json_dumps(spec, JSON_COMPACT) : NULL;
	if (spec && !text)
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
	else if (text && e2b_build_insert(c, name, text, &row, &err) < 0)
		call_fail(c, &err);
	else if (text)
		e2b_build_answer(c, &row, name, tags);
	free(text);
	json_decref(spec);
	json_decref(tags);
}

/* ----------------------------------------------------------------------- start */

struct build_start {
	struct template_row template;
	struct template_build_row row;
	struct template_plan plan;
	json_t *spec, *options;
	char base[ID_LEN + 1];                      /* a snapshot; "": none */
	char from[sizeof(SNAPSHOT_REGISTRY) + 512]; /* for FROM */
};

static void e2b_build_start_done(struct build_start *b)
{
	template_row_done(&b->template);
	template_build_row_done(&b->row);
	template_plan_done(&b->plan);
	json_decref(b->spec);
	json_decref(b->options);
}

static int e2b_build_refuse(struct api_error *err, const char *field, const char *why)
{
	return api_error_set(err, API_ERR_INVALID_REQUEST, "%s: %s", field, why);
}

/* Begin with a build of the tenant: its files, user, directory and commands. */
static int e2b_build_from_own(struct call *c, struct build_start *b, const char *name,
			      struct api_error *err)
{
	AUTO_TEMPLATE_ROW struct template_row template = { 0 };
	AUTO_TEMPLATE_BUILD_ROW struct template_build_row row = { 0 };
	static const char *const kept[] = { "startCmd", "readyCmd" };
	struct warren_error why = WARREN_ERROR_INIT;
	char tag[E2B_NAME_MAX + 1];
	const char *workdir;
	json_t *spec;
	int r = e2b_find_template(c, name, &template, tag, &why);

	if (r == 0)
		r = db_find_template_tag(service_db(c->v1->service), template.id, tag,
					 &row, &why);
	if (r == -ENOENT)
		return api_error_set(err, API_ERR_TEMPLATE_NOT_FOUND,
				     "template '%.200s' not found", name);
	if (r < 0)
		return api_error_from(err, &why);
	(void)snprintf(b->base, sizeof(b->base), "%s", row.snapshot);
	(void)snprintf(b->from, sizeof(b->from), SNAPSHOT_REGISTRY "/%s", row.snapshot);
	spec = json_loads(row.spec, 0, NULL);
	(void)snprintf(b->plan.user, sizeof(b->plan.user), "%s",
		       json_string_value(json_object_get(spec, "user")));
	workdir = json_string_value(json_object_get(spec, "workdir"));
	(void)snprintf(b->plan.workdir, sizeof(b->plan.workdir), "%s",
		       workdir ? workdir : "");
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		if (json_object_get(spec, kept[i]))
			(void)json_object_set(b->spec, kept[i],
					      json_object_get(spec, kept[i]));
	json_decref(spec);
	return 0;
}

/* An image of the service's own templates, or `host`. */
static void e2b_build_from_service(struct call *c, struct build_start *b,
				   const char *name)
{
	json_t *template = json_object_get(c->v1->config->templates, name);
	const char *image = json_string_value(json_object_get(template, "image"));

	(void)snprintf(b->from, sizeof(b->from), "%s", image ? image : "host");
	b->plan.prepare = image && strcmp(image, "host") != 0;
}

static int e2b_build_read_base(struct call *c, struct build_start *b,
			       struct api_error *err)
{
	const char *image = body_text(&c->body, "fromImage");
	const char *template = body_text(&c->body, "fromTemplate");
	size_t n;

	if (!image == !template)
		return e2b_build_refuse(
			err, "fromImage",
			"exactly one of fromImage and fromTemplate is needed");
	if (body_has(&c->body, "fromImageRegistry"))
		return api_error_set(err, API_ERR_NOT_SUPPORTED,
				     "fromImageRegistry: credentials of registries are "
				     "not kept for builds: pull the image with 'warren "
				     "image pull' after 'warren image login', and name "
				     "it in fromImage");
	(void)strcpy(b->plan.user, "user");
	(void)strcpy(b->plan.workdir, "/home/user");
	b->plan.base = b->from;
	if (template && !e2b_is_configured(c, template)) {
		int r = e2b_build_from_own(c, b, template, err);

		if (r == 0 || !e2b_has_template(template) ||
		    err->code != API_ERR_TEMPLATE_NOT_FOUND)
			return r;
		*err = (struct api_error){ 0 };
	}
	n = image ? strcspn(image, ":@") : 0;
	if (template || (n == strlen(BUILD_DEFAULT_IMAGE) &&
			 strncmp(image, BUILD_DEFAULT_IMAGE, n) == 0)) {
		e2b_build_from_service(c, b, template ? template : "base");
		return 0;
	}
	if (!*image ||
	    strspn(image, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			  "0123456789-_./:@") != strlen(image) ||
	    snapshot_is_ref(image))
		return e2b_build_refuse(err, "fromImage",
					"it is not the name of an image");
	(void)snprintf(b->from, sizeof(b->from), "%s", image);
	b->plan.prepare = strcmp(image, "host") != 0;
	return 0;
}

/* Write what warren-image(1) needs, except the snapshot. */
static int e2b_build_read_options(struct call *c, struct build_start *b,
				  struct image_stream_request *uses,
				  struct api_error *err)
{
	static const struct {
		const char *from, *to;
		json_int_t unit;
	} limits[] = {
		{ "cpuCount", "cpu_millis", 1000 },
		{ "memoryMB", "memory", 1 << 20 },
		{ "diskMB", "disk", 1 << 20 },
	};
	AUTO_BUF struct buf text = BUF_INIT(16U << 20);
	struct json j = { .out = &text };
	json_t *request = json_object(), *given = json_object();
	struct body body = { .schema = v1_face.ops[V1_CREATE_SANDBOX].schema,
			     .json = request };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		const json_t *value = json_object_get(b->spec, limits[i].from);

		if (value)
			(void)json_object_set_new(
				given, limits[i].to,
				json_integer(json_integer_value(value) * limits[i].unit));
	}
	(void)json_object_set_new(request, "limits", given);
	json_open(&j, NULL, '{');
	r = validate_json(body.schema, request, err);
	if (r == 0)
		r = v1_build_put_rules(c, &body, &j, uses, err);
	json_str(&j, "dockerfile", "Dockerfile");
	if (b->base[0])
		json_str(&j, "base", b->base);
	json_bool(&j, "no_cache", body_bool(&c->body, "force"));
	json_close(&j, '}');
	json_decref(request);
	if (r == 0)
		b->options =
			text.failed ? NULL : json_loadb(text.data, text.len, 0, NULL);
	return r < 0        ? r
	       : b->options ? 0
			    : api_error_set(err, API_ERR_OVERLOADED, "out of memory");
}

static int e2b_build_read_start(struct call *c, struct build_start *b,
				struct image_stream_request *uses, struct api_error *err)
{
	static const char *const commands[] = { "startCmd", "readyCmd" };
	int r = v1_build_check_scopes(c, err);

	b->spec = json_loads(b->row.spec, 0, NULL);
	if (r == 0)
		r = e2b_build_read_base(c, b, err);
	b->plan.force = body_bool(&c->body, "force");
	if (r == 0)
		r = template_plan_make(&b->plan, body_json(&c->body, "steps"), err);
	if (r == 0)
		r = e2b_build_read_options(c, b, uses, err);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(commands); i++) {
		const char *text = body_text(&c->body, commands[i]);

		if (text && *text)
			(void)json_object_set_new(b->spec, commands[i],
						  json_string(text));
	}
	(void)json_object_set_new(b->spec, "user", json_string(b->plan.user));
	if (b->plan.workdir[0])
		(void)json_object_set_new(b->spec, "workdir",
					  json_string(b->plan.workdir));
	return r;
}

static int e2b_build_begin(struct call *c, struct build_start *b,
			   const struct image_stream_request *uses,
			   struct warren_error *err)
{
	AUTO_STRV char **tags = NULL;
	struct template_build_row row = b->row;
	struct template_build_request request = {
		.row = &row,
		.tenant = c->caller.tenant,
		.options = b->options,
		.dockerfile = b->plan.dockerfile.data,
		.n_steps = b->plan.n,
		.steps = (const char *const *)b->plan.steps,
		.hashes = b->plan.hashes,
		.labels = "{}",
		.quota = v1_snapshot_quota(c->v1),
		.memory = uses->memory,
		.cpu_millis = uses->cpu_millis,
		.disk = uses->disk,
	};
	AUTO_FREE char *spec = json_dumps(b->spec, JSON_COMPACT);
	json_t *tag;
	size_t i;

	json_array_foreach(json_object_get(b->spec, "tags"), i,
			   tag) if (strv_add(&tags, json_string_value(tag)) <
				    0) return error_errno(err, ENOMEM, "start a build");
	if (!spec || !tags)
		return error_errno(err, ENOMEM, "start a build");
	request.tags = (const char *const *)tags;
	row.spec = spec;
	return template_build_start(c->v1->service, &request, err);
}

/* The build in the path; false: refused. */
static bool e2b_build_find(struct call *c, struct template_row *template,
			   struct template_build_row *ret)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	if (!e2b_template(c, template))
		return false;
	r = db_get_template_build(service_db(c->v1->service), template->id,
				  c->route.param[1], ret, &err);
	if (r == -ENOENT)
		e2b_refuse(c, 404, "build '%.64s' not found", c->route.param[1]);
	else if (r < 0)
		call_fail(c, &err);
	return r == 0;
}

void e2b_start_build(struct call *c)
{
	CLEANUP(e2b_build_start_done) struct build_start b = { 0 };
	struct image_stream_request uses = { 0 };
	struct warren_error why = WARREN_ERROR_INIT;
	struct api_error err = { 0 };
	int r;

	if (!e2b_build_find(c, &b.template, &b.row))
		return;
	if (b.row.state != TEMPLATE_WAITING) {
		e2b_refuse(c, 409, "build '%s' has begun before", b.row.id);
		return;
	}
	if (e2b_build_read_start(c, &b, &uses, &err) < 0) {
		call_error(c, &err);
		return;
	}
	r = e2b_build_begin(c, &b, &uses, &why);
	if (r == -ENOENT || r == -E2BIG)
		e2b_refuse(c, 400, "%s", why.msg);
	else if (r == -EBUSY)
		e2b_refuse(c, 409, "%s", why.msg);
	else if (r == -EAGAIN)
		e2b_refuse(c, 429, "%s", why.msg);
	else if (r < 0)
		call_fail(c, &why);
	else
		call_empty(c, 202);
}

/* ---------------------------------------------------------------------- status */

struct build_page {
	uint64_t offset, limit;
	int level;
	struct buf messages, entries;
	size_t n;
};

static bool e2b_build_read_page(struct call *c, struct build_page *p)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	char text[E2B_WORD_MAX + 1];

	p->limit = BUILD_LOGS_MAX;
	if ((e2b_query(c, "logsOffset", text, sizeof(text)) &&
	     parse_u64(text, UINT32_MAX, &p->offset, &ignored) < 0) ||
	    (e2b_query(c, "limit", text, sizeof(text)) &&
	     (parse_u64(text, UINT32_MAX, &p->limit, &ignored) < 0 || p->limit == 0))) {
		e2b_refuse(c, 400, "logsOffset, limit: must be numbers");
		return false;
	}
	if (e2b_query(c, "level", text, sizeof(text)))
		p->level = e2b_log_level(text);
	if (p->level < 0) {
		e2b_refuse(c, 400, "level: must be debug, info, warn or error");
		return false;
	}
	if (p->limit > BUILD_LOGS_MAX)
		p->limit = BUILD_LOGS_MAX;
	return true;
}

/* Add the entries of the page; each is a line. */
static void e2b_build_put_logs(struct build_page *p, const char *logs)
{
	struct json messages = { .out = &p->messages };
	uint64_t at = 0;

	json_open(&messages, NULL, '[');
	buf_puts(&p->entries, "[");
	for (const char *end; p->n < p->limit && (end = strchr(logs, '\n'));
	     logs = end + 1) {
		json_t *line;

		if (p->level == 0 && at < p->offset) {
			at++;
			continue;
		}
		line = json_loadb(logs, (size_t)(end - logs), 0, NULL);
		if (line &&
		    e2b_log_level(json_string_value(json_object_get(line, "level"))) >=
			    p->level &&
		    at++ >= p->offset) {
			buf_printf(&p->entries, "%s%.*s", p->n++ > 0 ? "," : "",
				   (int)(end - logs), logs);
			json_str(&messages, NULL,
				 json_string_value(json_object_get(line, "message")));
		}
		json_decref(line);
	}
	buf_puts(&p->entries, "]");
	json_close(&messages, ']');
}

static void e2b_build_put_reason(struct json *j, const struct template_build_row *row)
{
	json_open(j, "reason", '{');
	json_str(j, "message", row->reason);
	json_str(j, "step", row->step);
	json_close(j, '}');
}

static void e2b_build_show(struct call *c, bool only_logs)
{
	AUTO_TEMPLATE_ROW struct template_row template = { 0 };
	AUTO_TEMPLATE_BUILD_ROW struct template_build_row row = { 0 };
	AUTO_BUF struct buf out = BUF_INIT(16U << 20);
	struct build_page p = { .messages = BUF_INIT(8U << 20),
				.entries = BUF_INIT(8U << 20) };
	struct json j = { .out = &out };
	const char *logs;

	if (!e2b_build_find(c, &template, &row) || !e2b_build_read_page(c, &p))
		return;
	logs = template_build_log(c->v1->service, row.id);
	if (row.state == TEMPLATE_BUILDING && !logs) {
		row.state = TEMPLATE_ERROR;
		row.reason = "the result of the build could not be saved: build it again";
		row.step = "base";
	}
	e2b_build_put_logs(&p, logs ? logs : row.logs);
	json_open(&j, NULL, '{');
	if (only_logs) {
		json_raw(&j, "logs", p.entries.data, p.entries.len);
	} else {
		json_str(&j, "templateID", template.id);
		json_str(&j, "buildID", row.id);
		json_str(&j, "status", e2b_template_states[row.state]);
		json_raw(&j, "logs", p.messages.data, p.messages.len);
		json_raw(&j, "logEntries", p.entries.data, p.entries.len);
		if (row.state == TEMPLATE_ERROR)
			e2b_build_put_reason(&j, &row);
	}
	json_close(&j, '}');
	if (p.messages.failed || p.entries.failed)
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
	else
		call_json(c, 200, &out);
	buf_done(&p.messages);
	buf_done(&p.entries);
}

void e2b_build_status(struct call *c)
{
	e2b_build_show(c, false);
}

void e2b_build_logs(struct call *c)
{
	e2b_build_show(c, true);
}
