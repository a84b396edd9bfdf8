/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox.c - operations on sandboxes: list, show, pause, connect, end */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/e2b/internal.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/parse.h"
#include "base/percent.h"
#include "config/config.h"
#include "service/exec/exec.h"

#define PAGE_MAX    100
#define TIMEOUT_V1  15
#define TIMEOUT_V2  300
#define RESUMED_MIN 300 /* seconds */
/* A sandbox without an end has this one: 9999-12-31T00:00:00Z. */
#define NO_END_MS 253402214400000

#define RUNNING (1U << SANDBOX_RUNNING)
#define PAUSED                                                                         \
	(1U << SANDBOX_PAUSED | 1U << SANDBOX_HIBERNATED | 1U << SANDBOX_HIBERNATING | \
	 1U << SANDBOX_STOPPED | 1U << SANDBOX_ON_DISK)

/* The sandbox in the path, in one of @states; NULL: the call was refused. */
static struct sandbox *find_in_path(struct call *c, uint32_t states)
{
	bool all = c->caller.scopes & V1_SCOPE_ADMIN;
	struct sandbox *sandbox = sandbox_find(
		c->v1->service, all ? NULL : c->caller.tenant, c->route.sandbox);

	if (!sandbox || !((1U << sandbox_row(sandbox)->state) & states)) {
		e2b_refuse(
			c, 404,
			"Sandbox \"%.64s\" doesn't exist or you don't have access to it",
			c->route.param[0]);
		return NULL;
	}
	return sandbox;
}

struct sandbox *e2b_sandbox(struct call *c)
{
	return find_in_path(c, RUNNING | PAUSED | 1U << SANDBOX_CREATING);
}

static bool e2b_is_paused(enum sandbox_state state)
{
	return (1U << state) & PAUSED;
}

/* -------------------------------------------------------------------------- show */

static void show_time(struct json *j, const char *key, int64_t time)
{
	char text[DATE_SIZE];

	date_iso(text, service_wall(time));
	json_str(j, key, text);
}

static void show_metadata(struct json *j, const struct sandbox_row *row)
{
	json_open(j, "metadata", '{');
	for (size_t i = 0; i < row->n_labels; i++)
		if (strncmp(row->labels[i].key, E2B_LABEL, strlen(E2B_LABEL)) != 0)
			json_str(j, row->labels[i].key, row->labels[i].value);
	json_close(j, '}');
}

static const char *row_label(const struct sandbox_row *row, const char *key)
{
	for (size_t i = 0; i < row->n_labels; i++)
		if (strcmp(row->labels[i].key, key) == 0)
			return row->labels[i].value;
	return NULL;
}

static uint64_t show_megabytes(uint64_t bytes)
{
	return bytes >> 20;
}

/* The volumes among the mounts of the sandbox. */
static void show_volumes(struct json *j, const struct sandbox_row *row)
{
	json_t *spec = row->spec && strstr(row->spec, "\"volume\"")
			       ? json_loads(row->spec, 0, NULL)
			       : NULL;
	json_t *mount;
	size_t i;

	if (!spec)
		return;
	json_open(j, "volumeMounts", '[');
	json_array_foreach(json_object_get(spec, "mounts"), i, mount)
	{
		const char *name = json_string_value(json_object_get(mount, "volume"));

		if (!name)
			continue;
		json_open(j, NULL, '{');
		json_str(j, "name", name);
		json_str(j, "path", json_string_value(json_object_get(mount, "target")));
		json_close(j, '}');
	}
	json_close(j, ']');
	json_decref(spec);
}

static void show_listed(struct json *j, const struct sandbox_row *row)
{
	const char *template = row_label(row, E2B_LABEL_TEMPLATE);
	const char *id = row_label(row, E2B_LABEL_TEMPLATE_ID);
	bool paused = e2b_is_paused(row->state);
	char text[DATE_SIZE];

	json_str(j, "sandboxID", row->id);
	json_str(j, "templateID",
		 id           ? id
		 : template   ? template
		 : row->image ? row->image
			      : "");
	if (template)
		json_str(j, "alias", template);
	json_str(j, "clientID", "warren");
	show_time(j, "startedAt", row->created_at);
	if (paused || row->expires_at) {
		show_time(j, "endAt", paused ? row->changed_at : row->expires_at);
	} else {
		date_iso(text, NO_END_MS);
		json_str(j, "endAt", text);
	}
	json_u64(j, "cpuCount", e2b_cpu_count(row));
	json_u64(j, "memoryMB", show_megabytes(e2b_memory_size(row)));
	json_u64(j, "diskSizeMB", show_megabytes(row->disk));
	show_metadata(j, row);
	show_volumes(j, row);
	json_str(j, "state", paused ? "paused" : "running");
	json_str(j, "envdVersion", ENVD_VERSION);
}

void e2b_get(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);
	struct json j = { .out = &out };
	const struct sandbox *sandbox = e2b_sandbox(c);
	const struct sandbox_row *row;
	char token[E2B_TOKEN_LEN + 1];
	json_t *spec;
	const char *on_ttl;

	if (!sandbox)
		return;
	row = sandbox_row(sandbox);
	spec = json_loads(row->spec ? row->spec : "{}", 0, NULL);
	on_ttl = json_string_value(json_object_get(spec, "on_ttl"));
	json_open(&j, NULL, '{');
	show_listed(&j, row);
	if (e2b_may_open(c)) {
		e2b_token(call_e2b(c), row->id, "envd", token);
		json_str(&j, "envdAccessToken", token);
	}
	json_str(&j, "domain", NULL);
	e2b_network_to_json(&j, sandbox);
	json_open(&j, "lifecycle", '{');
	json_str(&j, "onTimeout",
		 on_ttl && strcmp(on_ttl, "delete") != 0 ? "pause" : "kill");
	json_bool(&j, "autoResume", row_label(row, E2B_LABEL_RESUME) != NULL);
	json_close(&j, '}');
	if (e2b_is_paused(row->state))
		json_str(&j, "pauseMode",
			 row->state == SANDBOX_PAUSED ? "full" : "filesystem");
	json_close(&j, '}');
	json_decref(spec);
	call_json(c, 200, &out);
}

/* -------------------------------------------------------------------------- list */

struct listing {
	struct json json;
	const char *template; /* NULL: any */
	int64_t started_after;
	size_t limit, n, n_rows;
	uint64_t last;
	bool more, oldest_first;
};

static int list_one(void *ctx, const struct sandbox_row *row)
{
	struct listing *l = ctx;
	const char *template = row_label(row, E2B_LABEL_TEMPLATE);
	const char *id = row_label(row, E2B_LABEL_TEMPLATE_ID);

	l->more = ++l->n_rows == DB_PAGE_MAX; /* there may be another one */
	if ((l->template && (!template || strcmp(template, l->template) != 0) &&
	     (!id || strcmp(id, l->template) != 0)) ||
	    service_wall(row->created_at) < l->started_after) {
		l->last = row->seq;
		return 0;
	}
	if (l->n == l->limit) {
		l->more = true;
		return 1;
	}
	l->last = row->seq;
	l->n++;
	json_open(&l->json, NULL, '{');
	show_listed(&l->json, row);
	json_close(&l->json, '}');
	return 0;
}

/*
 * Metadata to filter by is encoded three times: the parameter of the query, the list of
 * pairs, and each key and value.
 */
struct metadata {
	char *text;
	struct db_label labels[DB_LABELS_MAX];
	size_t n;
};

static bool metadata_decode(char *text)
{
	return percent_decode(text, strlen(text), true, text, strlen(text) + 1) >= 0;
}

static void metadata_done(struct metadata *m)
{
	free(m->text);
}

_Static_assert(DB_LABELS_MAX == 64, "metadata_read() names the maximum");

static bool metadata_refuse(struct call *c, const char *why)
{
	e2b_refuse(c, 400, "metadata: %s", why);
	return false;
}

/* False: refused. */
static bool metadata_read(struct call *c, struct metadata *m)
{
	static const char form[] = "must be an encoded list of key=value";
	char *at = m->text = e2b_query_whole(c, "metadata"), *next;

	if (!at) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return false;
	}
	if (!*at)
		return true;
	if (!metadata_decode(at))
		return metadata_refuse(c, form);
	for (; at; at = next) {
		char *value = strchr(at, '=');

		next = strchr(at, '&');
		if (!value || (next && next < value))
			return metadata_refuse(c, form);
		if (m->n == DB_LABELS_MAX)
			return metadata_refuse(c, "it has more than 64 keys");
		*value++ = '\0';
		if (next)
			*next++ = '\0';
		if (!metadata_decode(at) || !metadata_decode(value))
			return metadata_refuse(c, form);
		m->labels[m->n++] = (struct db_label){ at, value };
	}
	return true;
}

static bool list_states(struct call *c, uint32_t *ret)
{
	char text[64];
	const char *at = text;

	*ret = RUNNING | PAUSED;
	if (!e2b_query(c, "state", text, sizeof(text)) || !text[0])
		return true;
	*ret = 0;
	while (*at) {
		size_t n = strcspn(at, ",");

		if (n == 7 && memcmp(at, "running", 7) == 0)
			*ret |= RUNNING;
		else if (n == 6 && memcmp(at, "paused", 6) == 0)
			*ret |= PAUSED;
		else
			return false;
		at += n + (at[n] == ',');
	}
	return true;
}

static bool list_number(struct call *c, const char *name, uint64_t most, uint64_t *ret)
{
	struct warren_error why = WARREN_ERROR_INIT;
	char text[64];

	return !e2b_query(c, name, text, sizeof(text)) || !text[0] ||
	       parse_u64(text, most, ret, &why) == 0;
}

static bool list_order(struct call *c, struct sandbox_filter *filter)
{
	char text[64];

	if (!e2b_query(c, "order", text, sizeof(text)) || !text[0])
		return true;
	filter->oldest_first = strcmp(text, "asc") == 0;
	return filter->oldest_first || strcmp(text, "desc") == 0;
}

/* A token continues only a list of the same order. */
#define ASCENDING "asc-"

static bool list_last(struct call *c, struct sandbox_filter *filter)
{
	size_t n = filter->oldest_first ? strlen(ASCENDING) : 0;
	struct warren_error why = WARREN_ERROR_INIT;
	char text[E2B_TEMPLATE_MAX + 1];

	return !e2b_query(c, "nextToken", text, sizeof(text)) || !text[0] ||
	       (strncmp(text, ASCENDING, n) == 0 &&
		parse_u64(text + n, INT64_MAX, &filter->last, &why) == 0);
}

struct running_count {
	const char *owner;
	size_t n;
};

static void e2b_count_running(void *ctx, struct sandbox *sandbox)
{
	struct running_count *k = ctx;
	const struct sandbox_row *row = sandbox_row(sandbox);

	k->n += row->state == SANDBOX_RUNNING && strcmp(row->owner, k->owner) == 0;
}

static void list_answer(struct call *c, struct listing *l, uint32_t states)
{
	char next[32], running[32];
	struct running_count count = { .owner = c->caller.tenant };
	struct http_header headers[4] = {
		{ "X-Request-Id", http_request_id(c->req) },
		{ "Content-Type", "application/json" },
	};
	size_t n = 2;

	json_close(&l->json, ']');
	if (l->json.out->failed) {
		call_refuse(c, API_ERR_OVERLOADED, "not enough memory for the answer");
		return;
	}
	if (l->more) {
		(void)snprintf(next, sizeof(next), "%s%ju",
			       l->oldest_first ? ASCENDING : "", (uintmax_t)l->last);
		headers[n++] = (struct http_header){ "X-Next-Token", next };
	}
	if (states & RUNNING) {
		service_each(c->v1->service, e2b_count_running, &count);
		(void)snprintf(running, sizeof(running), "%zu", count.n);
		headers[n++] = (struct http_header){ "X-Total-Running", running };
	}
	c->answered = true;
	(void)http_respond(c->req, 200, headers, n, l->json.out->data, l->json.out->len);
}

static void list_sandboxes(struct call *c, uint32_t states)
{
	AUTO_BUF struct buf out = BUF_INIT(16U << 20);
	CLEANUP(metadata_done) struct metadata metadata = { 0 };
	struct listing l = { .json = { .out = &out }, .limit = PAGE_MAX };
	struct sandbox_filter filter = { .owner = c->caller.tenant, .states = states };
	struct warren_error err = WARREN_ERROR_INIT;
	uint64_t limit = PAGE_MAX;
	char template[E2B_TEMPLATE_MAX + 1], after[E2B_WORD_MAX + 1];

	if (!metadata_read(c, &metadata))
		return;
	if (!list_order(c, &filter)) {
		e2b_refuse(c, 400, "order: must be 'asc' or 'desc'");
		return;
	}
	l.oldest_first = filter.oldest_first;
	if (!list_last(c, &filter)) {
		e2b_refuse(c, 400, "Invalid next token");
		return;
	}
	if (!list_number(c, "limit", PAGE_MAX, &limit) || limit == 0) {
		e2b_refuse(c, 400, "limit: must be from 1 to 100");
		return;
	}
	l.limit = (size_t)limit;
	filter.labels = metadata.labels;
	filter.n_labels = metadata.n;
	if (e2b_query(c, "template", template, sizeof(template)) && template[0])
		l.template = template;
	if (l.template && strchr(template, ':')) {
		e2b_refuse(c, 400, "template: must not have a tag");
		return;
	}
	if (e2b_query(c, "startedAfter", after, sizeof(after)) && after[0] &&
	    date_parse_ms(after, &l.started_after) < 0) {
		e2b_refuse(c, 400,
			   "startedAfter: must be a time like "
			   "2026-01-20T15:04:05Z");
		return;
	}
	json_open(&l.json, NULL, '[');
	if (db_list_sandboxes(service_db(c->v1->service), &filter, list_one, &l, &err) <
	    0)
		call_fail(c, &err);
	else
		list_answer(c, &l, states);
}

void e2b_list(struct call *c)
{
	uint32_t states;

	if (!list_states(c, &states))
		e2b_refuse(c, 400, "state: must be a list of 'running' and 'paused'");
	else
		list_sandboxes(c, states);
}

void e2b_list_running(struct call *c)
{
	list_sandboxes(c, RUNNING);
}

/* ------------------------------------------------------------------ end and lifetime */

/* Another request may have deleted the sandbox while this one waited. */
void e2b_fail(struct call *c, const struct warren_error *err)
{
	if (err->code != ESTALE || find_in_path(c, ~(1U << SANDBOX_DELETING)))
		call_fail(c, err);
}

void e2b_on_done(void *ctx, int r, const struct warren_error *err)
{
	struct call *c = ctx;

	if (c->req && r < 0)
		e2b_fail(c, err);
	else if (c->req)
		call_empty(c, 204);
	call_unref(c);
}

void e2b_kill(struct call *c)
{
	struct sandbox *sandbox = find_in_path(c, ~(1U << SANDBOX_DELETING));

	if (sandbox)
		sandbox_delete(sandbox, e2b_on_done, call_ref(c));
}

int e2b_check_timeout(const struct call *c, int64_t seconds, struct api_error *err)
{
	uint64_t max = c->v1->config->max.ttl_ms;

	if (!max || max > TIMEOUT_MAX * 1000ULL)
		max = TIMEOUT_MAX * 1000ULL;
	if (seconds <= 0 || (uint64_t)seconds * 1000 <= max)
		return 0;
	return api_error_set(err, API_ERR_INVALID_REQUEST,
			     "Timeout cannot be greater than %g hours",
			     (double)max / 3600000);
}

/* Set the end of the sandbox; @extend: never to an earlier time. False: refused. */
static bool set_end(struct call *c, struct sandbox *sandbox, int64_t seconds, bool extend)
{
	const struct sandbox_row *row = sandbox_row(sandbox);
	int64_t end = service_time() + (seconds > 0 ? seconds : 0) * 1000;
	struct sandbox_change change = { .sets_times = true,
					 .expires_at = end,
					 .idle_timeout_ms = row->idle_timeout_ms,
					 .wake_on_use = -1 };
	struct warren_error err = WARREN_ERROR_INIT;
	struct api_error refusal = { 0 };

	if (e2b_check_timeout(c, seconds, &refusal) < 0) {
		call_error(c, &refusal);
		return false;
	}
	if (extend && (row->expires_at == 0 || row->expires_at >= end))
		return true;
	if (sandbox_change(sandbox, &change, &err) < 0) {
		call_fail(c, &err);
		return false;
	}
	return true;
}

/*
 * A sandbox that another API has created may have no end, and then gets one only if a
 * client asks for it. A paused sandbox of this API has no end either, but had one.
 */
static bool has_no_end(const struct sandbox *sandbox)
{
	return !sandbox_row(sandbox)->expires_at &&
	       !e2b_label(sandbox, E2B_LABEL_TIMEOUT);
}

/*
 * Traffic has resumed the sandbox: it runs as long as its creator asked for, but at least
 * RESUMED_MIN.
 */
bool e2b_renew(struct call *c, struct sandbox *sandbox)
{
	const char *label = e2b_label(sandbox, E2B_LABEL_TIMEOUT);
	struct warren_error ignored = WARREN_ERROR_INIT;
	uint64_t seconds = 0, max = c->v1->config->max.ttl_ms / 1000;

	if (has_no_end(sandbox))
		return true;
	if (!label || parse_u64(label, TIMEOUT_MAX, &seconds, &ignored) < 0 ||
	    seconds < RESUMED_MIN)
		seconds = RESUMED_MIN;
	if (max && seconds > max)
		seconds = max;
	return set_end(c, sandbox, (int64_t)seconds, false);
}

void e2b_timeout(struct call *c)
{
	struct sandbox *sandbox = e2b_sandbox(c);

	if (!sandbox)
		return;
	if (e2b_is_paused(sandbox_row(sandbox)->state))
		e2b_refuse(c, 404, "Sandbox \"%s\" is paused", c->route.sandbox);
	else if (set_end(c, sandbox, body_int(&c->body, "timeout"), false))
		call_empty(c, 204);
}

void e2b_refresh(struct call *c)
{
	struct sandbox *sandbox = e2b_sandbox(c);
	int64_t seconds = body_has(&c->body, "duration") ? body_int(&c->body, "duration")
							 : TIMEOUT_V1;

	if (sandbox && set_end(c, sandbox, seconds, true))
		call_empty(c, 204);
}

/* -------------------------------------------------------------------- pause, connect */

struct pausing {
	struct call *call;
	int64_t expires_at; /* before */
};

static int pause_set_end(struct sandbox *sandbox, int64_t at, struct warren_error *err)
{
	const struct sandbox_change change = {
		.sets_times = true,
		.expires_at = at,
		.idle_timeout_ms = sandbox_row(sandbox)->idle_timeout_ms,
		.wake_on_use = -1
	};

	return sandbox_change(sandbox, &change, err);
}

static void pause_on_done(void *ctx, int r, const struct warren_error *err)
{
	struct pausing *p = ctx;
	struct call *c = p->call;
	struct sandbox *sandbox = sandbox_find(c->v1->service, NULL, c->route.sandbox);
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (r < 0 && sandbox)
		(void)pause_set_end(sandbox, p->expires_at, &ignored);
	free(p);
	e2b_on_done(c, r, err);
}

/* A paused sandbox has no end: it is kept until a client connects to it or kills it. */
static void pause_begin(struct call *c, struct sandbox *sandbox, bool memory)
{
	struct pausing *p = malloc(sizeof(*p));
	struct warren_error err = WARREN_ERROR_INIT;
	int r = p ? 0 : error_errno(&err, ENOMEM, "pause the sandbox");

	if (p)
		*p = (struct pausing){ c, sandbox_row(sandbox)->expires_at };
	if (r == 0 && !c->v1->config->max.ttl_ms)
		r = pause_set_end(sandbox, 0, &err);
	if (r < 0) {
		free(p);
		call_fail(c, &err);
		return;
	}
	(void)call_ref(c);
	if (memory)
		sandbox_pause(sandbox, true, pause_on_done, p);
	else
		sandbox_hibernate(sandbox, 0, pause_on_done, p);
}

void e2b_pause(struct call *c)
{
	struct sandbox *sandbox = e2b_sandbox(c);
	bool memory = !body_has(&c->body, "memory") || body_bool(&c->body, "memory");

	if (!sandbox)
		return;
	if (e2b_is_paused(sandbox_row(sandbox)->state))
		e2b_refuse(c, 409,
			   "Error pausing sandbox - sandbox '%s' is already paused",
			   c->route.sandbox);
	else
		pause_begin(c, sandbox, memory);
}

/* It is still paused. */
void e2b_without_end(struct call *c, struct sandbox *sandbox)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (e2b_is_paused(sandbox_row(sandbox)->state) && !c->v1->config->max.ttl_ms)
		(void)pause_set_end(sandbox, 0, &ignored);
}

struct connecting {
	int64_t timeout;
	bool endless; /* the end does not change */
	int status;   /* of the answer: 201 if the sandbox was resumed */
};

static void connect_gone(struct call *c)
{
	free(TAKE_PTR(c->state));
}

static void connect_answer(struct call *c, const struct sandbox *sandbox, int status)
{
	AUTO_BUF struct buf out = BUF_INIT(65536);
	struct json j = { .out = &out };

	json_open(&j, NULL, '{');
	e2b_sandbox_to_json(c, sandbox, &j);
	json_close(&j, '}');
	call_json(c, status, &out);
}

static void connect_on_running(void *ctx, int r, const struct warren_error *err)
{
	struct call *c = ctx;
	struct connecting *k = c->state;
	struct sandbox *sandbox = sandbox_find(c->v1->service, NULL, c->route.sandbox);

	if (r < 0 && sandbox)
		e2b_without_end(c, sandbox);
	if (!c->req || !k)
		sandbox = NULL;
	if (c->req && r < 0)
		e2b_fail(c, err);
	else if (c->req && !sandbox)
		(void)e2b_sandbox(c);
	else if (sandbox &&
		 (k->endless || set_end(c, sandbox, k->timeout, k->status == 200)))
		connect_answer(c, sandbox, k->status);
	call_unref(c);
}

/* Its processes are new: they begin with the commands of its template. */
static void connect_on_started(void *ctx, int r, const struct warren_error *err)
{
	struct call *c = ctx;
	struct sandbox *sandbox = sandbox_find(c->v1->service, NULL, c->route.sandbox);

	if (r == 0 && sandbox)
		e2b_restart_template(c, sandbox, connect_on_running, c);
	else
		connect_on_running(c, r, err);
}

/* The sandbox was paused with its processes, which are gone now. */
static void connect_on_emptied(void *ctx, int r, const struct warren_error *err)
{
	struct call *c = ctx;
	struct sandbox *sandbox = sandbox_find(c->v1->service, NULL, c->route.sandbox);

	if (r == 0 && sandbox)
		sandbox_start(sandbox, connect_on_started, c);
	else
		connect_on_running(c, r, err);
}

static void connect_sandbox(struct call *c, int64_t otherwise)
{
	struct sandbox *sandbox = e2b_sandbox(c);
	struct connecting *k = sandbox ? calloc(1, sizeof(*k)) : NULL;
	bool boots = body_has(&c->body, "memory") && !body_bool(&c->body, "memory");
	enum sandbox_state state;

	if (!sandbox)
		return;
	if (!k) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	state = sandbox_row(sandbox)->state;
	k->timeout =
		body_has(&c->body, "timeout") ? body_int(&c->body, "timeout") : otherwise;
	k->endless = has_no_end(sandbox) && !body_has(&c->body, "timeout");
	k->status = e2b_is_paused(state) ? 201 : 200;
	c->state = k;
	c->gone = connect_gone;
	if (k->timeout <= 0)
		e2b_refuse(c, 400, "Timeout must be greater than 0");
	else if (e2b_is_paused(state) && !k->endless &&
		 !set_end(c, sandbox, k->timeout, false))
		return; /* refused; a client that leaves now must not leave it without an
			   end */
	else if (state == SANDBOX_PAUSED && boots)
		sandbox_hibernate(sandbox, 0, connect_on_emptied, call_ref(c));
	else if (state == SANDBOX_PAUSED)
		sandbox_pause(sandbox, false, connect_on_running, call_ref(c));
	else if (e2b_is_paused(state))
		sandbox_start(sandbox, connect_on_started, call_ref(c));
	else
		connect_on_running(call_ref(c), 0, NULL);
}

void e2b_connect_v1(struct call *c)
{
	connect_sandbox(c, TIMEOUT_V1);
}

void e2b_connect_v2(struct call *c)
{
	connect_sandbox(c, TIMEOUT_V2);
}

void e2b_resume_old(struct call *c)
{
	const struct sandbox *sandbox = e2b_sandbox(c);

	if (!sandbox)
		return;
	if (body_bool(&c->body, "autoPause"))
		e2b_refuse(c, 501,
			   "autoPause: it can only be chosen when a sandbox is "
			   "created");
	else if (!e2b_is_paused(sandbox_row(sandbox)->state))
		e2b_refuse(c, 409, "sandbox '%s' is already running", c->route.sandbox);
	else
		connect_sandbox(c, TIMEOUT_V1);
}

/* -------------------------------------------------------------------------- others */

void e2b_health(struct call *c)
{
	call_text(c, "text/plain", "Health check successful", 23);
}
