/* SPDX-License-Identifier: Apache-2.0 */
/*
 * create.c - create sandboxes: a request of E2B becomes one of v1
 *
 * A template is a template of the configuration, or an image or a snapshot of this
 * machine. Without a template of that name, the templates of the SDKs are the image
 * `host` with the account `user`.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/e2b/internal.h"
#include "api/v1/sandbox.h"
#include "api/validate.h"
#include "base/parse.h"
#include "config/config.h"

#define TIMEOUT_V1 15 /* seconds, if the request does not say */
#define TIMEOUT_V2 300

struct creation {
	struct call *call;
	struct sandbox_waiter waiter;
	bool repeatable; /* the client can repeat the request with its key */
	bool again;      /* it has repeated the request */
	struct template_start start;
	/* The sandbox, while the commands of its template start; "": not now. */
	char starting[ID_LEN + 1];
};

/* What a request says about its template. */
struct create_template {
	const char *name;
	/* Of a template that was built; "": another one. */
	char id[ID_LEN + 1], alias[E2B_NAME_MAX + 1];
	struct template_start start;
};

void e2b_sandbox_to_json(struct call *c, const struct sandbox *sandbox, struct json *j)
{
	const struct sandbox_row *row = sandbox_row(sandbox);
	const char *template = e2b_label(sandbox, E2B_LABEL_TEMPLATE);
	const char *id = e2b_label(sandbox, E2B_LABEL_TEMPLATE_ID);
	char token[E2B_TOKEN_LEN + 1];

	json_str(j, "sandboxID", row->id);
	json_str(j, "templateID", id ? id : template ? template : row->image);
	if (template)
		json_str(j, "alias", template);
	json_str(j, "clientID", "warren");
	json_str(j, "envdVersion", ENVD_VERSION);
	e2b_token(call_e2b(c), row->id, "envd", token);
	json_str(j, "envdAccessToken", token);
	if (c->v1->config->domain[0])
		json_str(j, "domain", NULL);
	if (e2b_label(sandbox, E2B_LABEL_TRAFFIC)) {
		e2b_token(call_e2b(c), row->id, "traffic", token);
		json_str(j, "trafficAccessToken", token);
	}
}

/* ----------------------------------------------------------------- the request for v1 */

static int create_refuse(struct api_error *err, const char *field, const char *why)
{
	return api_error_set(err, API_ERR_INVALID_REQUEST, "%s: %s", field, why);
}

/* If the image is a snapshot, use what it kept of its source. */
static void create_put_kept(struct call *c, json_t *out, const char *name,
			    struct template_start *start)
{
	AUTO_SNAPSHOT_ROW struct snapshot_row row = { 0 };
	struct warren_error why = WARREN_ERROR_INIT;
	json_t *labels;

	if (db_get_snapshot(service_db(c->v1->service), c->caller.tenant, name, &row,
			    &why) < 0)
		return;
	labels = json_loads(row.labels, 0, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(e2b_kept); i++) {
		json_t *value = json_object_get(labels, e2b_kept[i].label);

		if (value)
			(void)json_object_set(out, e2b_kept[i].field, value);
	}
	if (json_object_get(labels, E2B_LABEL_BUILD))
		e2b_find_build_start(
			c, json_string_value(json_object_get(labels, E2B_LABEL_BUILD)),
			start);
	json_decref(labels);
}

/* The length of the name without the tag that everything has. */
static size_t create_plain_length(const char *name)
{
	size_t n = strlen(name), tag = strlen(":default");

	return n > tag && strcmp(name + n - tag, ":default") == 0 ? n - tag : n;
}

/* Put the template of the request into the request for v1. */
static int create_put_template(struct call *c, json_t *out, struct create_template *t,
			       struct warren_error *err)
{
	const char *name = t->name;
	char plain[257];
	int r;

	(void)snprintf(plain, sizeof(plain), "%.*s", (int)create_plain_length(name),
		       name);
	if (json_object_get(c->v1->config->templates, plain))
		return json_object_set_new(out, "template", json_string(plain));
	r = e2b_put_template(c, out, name, t->id, t->alias, &t->start, err);
	if (r > 0)
		t->name = t->alias;
	if (r != 0)
		return r < 0 ? r : 0;
	if (e2b_has_template(plain))
		return json_object_set_new(out, "image", json_string("host")) |
		       json_object_set_new(out, "user", json_string("user")) |
		       json_object_set_new(out, "workdir", json_string("/home/user"));
	r = json_object_set_new(out, "image", json_string(plain));
	create_put_kept(c, out, plain, &t->start);
	return r | json_object_set_new(out, "pull", json_string("never"));
}

/* Put what happens at the end of its time, and whether a use resumes it. */
static int create_put_lifecycle(const struct body *body, json_t *out,
				struct api_error *err)
{
	struct body resume = body_object(body, "autoResume");
	bool pause = body_bool(body, "autoPause");
	bool memory =
		!body_has(body, "autoPauseMemory") || body_bool(body, "autoPauseMemory");
	bool wake = body_bool(&resume, "enabled");

	if (!memory && !pause)
		return create_refuse(err, "autoPauseMemory", "it needs autoPause");
	if (!memory && wake)
		return create_refuse(
			err, "autoPauseMemory",
			"a sandbox without its memory does not resume by use");
	if (json_object_set_new(out, "on_ttl",
				json_string(!pause   ? "delete"
					    : memory ? "pause"
						     : "hibernate")) < 0 ||
	    json_object_set_new(out, "wake_on_use", json_boolean(wake)) < 0)
		return api_error_set(err, API_ERR_OVERLOADED, "out of memory");
	return 0;
}

static int create_put_timeout(struct call *c, int64_t otherwise, json_t *out,
			      int64_t *ret, struct api_error *err)
{
	const struct body *body = &c->body;

	*ret = body_has(body, "timeout") ? body_int(body, "timeout") : otherwise;
	if (*ret <= 0)
		return api_error_set(err, API_ERR_INVALID_REQUEST,
				     "Timeout must be greater than 0");
	if (e2b_check_timeout(c, *ret, err) < 0)
		return -1;
	return json_object_set_new(out, "ttl_ms", json_integer(*ret * 1000));
}

/* The field is in the request, or in its network; -1: in neither. */
static int create_internet(const struct body *body, const struct body *network)
{
	static const char field[] = "allow_internet_access";

	if (body_has(network, field))
		return body_bool(network, field);
	return body_has(body, field) ? body_bool(body, field) : -1;
}

/*
 * What the request denies, it denies of what the template in the configuration allows. 1:
 * the template allows every public address; -1: it says nothing, or the request denies
 * nothing; -EBADMSG: refused.
 */
static int create_internet_of_template(struct call *c, const struct body *network,
				       struct api_error *err)
{
	const char *name = body_text(&c->body, "templateID");
	char plain[257];
	json_t *policy;

	(void)snprintf(plain, sizeof(plain), "%.*s", (int)create_plain_length(name),
		       name);
	policy = json_object_get(json_object_get(c->v1->config->templates, plain),
				 "network");
	if (json_array_size(body_json(network, "denyOut")) == 0 || !policy)
		return -1;
	if (e2b_network_is_public(policy))
		return 1;
	if (json_array_size(json_object_get(policy, "allow")) == 0 ||
	    json_array_size(body_json(network, "allowOut")) > 0)
		return -1;
	return create_refuse(err, "network.denyOut",
			     "the template allows only some hosts: list in allowOut what "
			     "the sandbox may reach");
}

static int create_put_network(struct call *c, json_t *out, struct api_error *err)
{
	const struct body *body = &c->body;
	struct body network = body_object(body, "network");
	json_t *value = NULL;
	int internet = create_internet(body, &network);
	int r;

	if (internet < 0)
		internet = create_internet_of_template(c, &network, err);
	if (internet < -1)
		return internet;

	if (body_has(body, "allow_internet_access") &&
	    body_bool(body, "allow_internet_access") != internet)
		return create_refuse(err, "network.allow_internet_access",
				     "it differs from allow_internet_access");
	r = e2b_network(&network, internet, &value, err);
	if (r == 0 && value && json_object_set_new(out, "network", value) < 0)
		return api_error_set(err, API_ERR_OVERLOADED, "out of memory");
	return r;
}

/* A path for a mount is absolute, without redundant parts, and occurs once. */
static bool create_mount_is_valid(const json_t *list, size_t at)
{
	const json_t *path = json_object_get(json_array_get(list, at), "path");
	const char *text = json_string_value(path);
	size_t n = strlen(text);

	for (size_t i = 0; i < at; i++)
		if (json_equal(json_object_get(json_array_get(list, i), "path"), path))
			return false;
	return n > 1 && text[0] == '/' && text[n - 1] != '/' && !strstr(text, "//") &&
	       !strstr(text, "/./") && !strstr(text, "/../") &&
	       strcmp(strrchr(text, '/'), "/.") != 0 &&
	       strcmp(strrchr(text, '/'), "/..") != 0;
}

static int create_put_volumes(const struct body *body, json_t *out, struct api_error *err)
{
	json_t *list = body_json(body, "volumeMounts"), *value;
	json_t *mounts;
	size_t i;

	for (i = 0; i < json_array_size(list); i++)
		if (!create_mount_is_valid(list, i))
			return create_refuse(err, "volumeMounts",
					     "each path must be absolute, without '.' "
					     "and '..', and occur once");
	mounts = list ? json_array() : NULL;
	json_array_foreach(list, i, value)
	{
		json_t *one =
			json_pack("{sO, sO}", "volume", json_object_get(value, "name"),
				  "target", json_object_get(value, "path"));

		if (json_array_append_new(mounts, one) < 0) {
			json_decref(mounts);
			return api_error_set(err, API_ERR_OVERLOADED, "out of memory");
		}
	}
	return mounts ? json_object_set_new(out, "mounts", mounts) : 0;
}

/* ---------------------------------------------------------------------- labels */

/* The metadata of the request and the labels of this API. */
struct labels {
	struct db_label *all;
	size_t n;
	char timeout[24];
};

static int labels_read(const struct body *body, const struct create_template *template,
		       int64_t timeout, struct labels *ret, struct api_error *err)
{
	struct body resume = body_object(body, "autoResume");
	struct body network = body_object(body, "network");
	json_t *metadata = body_json(body, "metadata"), *value;
	const char *key;

	ret->all = calloc(json_object_size(metadata) + 7, sizeof(*ret->all));
	if (!ret->all)
		return api_error_set(err, API_ERR_OVERLOADED, "out of memory");
	json_object_foreach(metadata, key, value)
	{
		if (strncmp(key, E2B_LABEL, strlen(E2B_LABEL)) == 0)
			return create_refuse(err, "metadata",
					     "keys that begin with 'e2b:' are reserved");
		ret->all[ret->n++] = (struct db_label){ key, json_string_value(value) };
	}
	(void)snprintf(ret->timeout, sizeof(ret->timeout), "%jd", (intmax_t)timeout);
	ret->all[ret->n++] = (struct db_label){ E2B_LABEL_TEMPLATE, template->name };
	if (template->id[0])
		ret->all[ret->n++] =
			(struct db_label){ E2B_LABEL_TEMPLATE_ID, template->id };
	if (template->start.build[0])
		ret->all[ret->n++] =
			(struct db_label){ E2B_LABEL_BUILD, template->start.build };
	ret->all[ret->n++] = (struct db_label){ E2B_LABEL_TIMEOUT, ret->timeout };
	if (body_bool(&resume, "enabled"))
		ret->all[ret->n++] = (struct db_label){ E2B_LABEL_RESUME, "true" };
	if (body_has(&network, "allowPublicTraffic") &&
	    !body_bool(&network, "allowPublicTraffic"))
		ret->all[ret->n++] = (struct db_label){ E2B_LABEL_TRAFFIC, "true" };
	if (create_internet(body, &network) >= 0)
		ret->all[ret->n++] =
			(struct db_label){ E2B_LABEL_INTERNET,
					   create_internet(body, &network) ? "true"
									   : "false" };
	return 0;
}

/* ---------------------------------------------------------------------- creation */

static void creation_gone(struct call *c)
{
	struct creation *k = c->state;

	c->state = NULL;
	if (!k)
		return;
	if (k->repeatable)
		sandbox_wait_cancel(&k->waiter);
	else
		sandbox_wait_abandon(&k->waiter);
	/* No client knows the sandbox. */
	if (k->starting[0] && !k->repeatable) {
		struct sandbox *sandbox = sandbox_find(c->v1->service, NULL, k->starting);

		if (sandbox)
			sandbox_delete(sandbox, e2b_ignore, NULL);
	}
	template_start_done(&k->start);
	free(k);
}

static void create_answer(struct call *c, const struct sandbox *sandbox)
{
	AUTO_BUF struct buf out = BUF_INIT(65536);
	struct json j = { .out = &out };

	json_open(&j, NULL, '{');
	e2b_sandbox_to_json(c, sandbox, &j);
	json_close(&j, '}');
	call_json(c, 201, &out);
}

/* The template is ready, or failed to start. Nothing is left to do for a client that is
 * gone. */
static void create_on_started(void *ctx, int r, const struct warren_error *err)
{
	struct call *c = ctx;
	struct creation *k = c->state;
	struct sandbox *sandbox =
		k ? sandbox_find(c->v1->service, NULL, k->starting) : NULL;

	if (k)
		k->starting[0] = '\0';
	if (k && (r < 0 || !sandbox))
		e2b_refuse_as(c, 500, "sandbox_create_refused",
			      r < 0 ? err->msg
				    : "the sandbox was deleted in the meantime");
	else if (k)
		create_answer(c, sandbox);
	if (sandbox && r < 0)
		sandbox_delete(sandbox, e2b_ignore, NULL);
	call_unref(c);
}

static void create_start_template(struct creation *k, struct sandbox *sandbox)
{
	struct call *c = k->call;

	if (!k->start.start && !k->start.ready) {
		create_answer(c, sandbox);
		return;
	}
	(void)strcpy(k->starting, sandbox_row(sandbox)->id);
	e2b_start_template(c, sandbox, &k->start, k->again, create_on_started,
			   call_ref(c));
}

/* Is the message about this template? */
static bool create_is_about(const char *message, const char *template)
{
	size_t n = template ? strlen(template) : 0;

	return n > 0 && message[0] == '\'' && strncmp(message + 1, template, n) == 0 &&
	       message[n + 1] == '\'';
}

/* The SDK chooses a template for `mcp` that only the client can build. */
static int create_refuse_missing(const struct call *c, const char *template,
				 struct api_error *err)
{
	return api_error_set(
		err, API_ERR_TEMPLATE_NOT_FOUND, "template '%s' not found%s", template,
		body_has(&c->body, "mcp")
			? ": build a template that contains the program mcp-gateway, or "
			  "use the MCP server of this service, /mcp (doc/mcp.md)"
			: "");
}

/* Answer with the error of a sandbox whose creation failed. */
static void create_refuse_failed(struct call *c, const struct sandbox *sandbox)
{
	const struct sandbox_row *row = sandbox_row(sandbox);
	const char *template = e2b_label(sandbox, E2B_LABEL_TEMPLATE);
	struct warren_error err = WARREN_ERROR_INIT;
	struct api_error refusal = { 0 };

	(void)error_set(&err, sandbox_failure(sandbox) ? sandbox_failure(sandbox) : EIO,
			"%s", row->error ? row->error : "it failed");
	if (err.code == ENOMEDIUM && create_refuse_missing(c, template, &refusal) < 0)
		call_error(c, &refusal);
	else if (err.code == EINVAL && create_is_about(err.msg, template))
		e2b_refuse(c, 400, "templateID: %s", err.msg);
	else
		call_fail(c, &err);
}

static void create_on_made(struct sandbox_waiter *w, struct sandbox *sandbox, int state)
{
	struct creation *k = w->ctx;
	struct call *c = k->call;

	if (!sandbox) {
		call_refuse(c, API_ERR_SANDBOX_NOT_FOUND,
			    "the sandbox was deleted in the meantime");
	} else if (state != SANDBOX_FAILED) {
		create_start_template(k, sandbox);
	} else {
		create_refuse_failed(c, sandbox);
		sandbox_delete(sandbox, e2b_ignore, NULL);
	}
}

static void create_wait(struct call *c, struct sandbox *sandbox, bool repeatable,
			bool again, struct template_start *start)
{
	struct creation *k = calloc(1, sizeof(*k));

	if (!k) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	*k = (struct creation){
		.call = c, .repeatable = repeatable, .again = again, .start = *start
	};
	*start = (struct template_start){ 0 };
	k->waiter = (struct sandbox_waiter){ .states = ~(1U << SANDBOX_CREATING),
					     .fn = create_on_made,
					     .ctx = k };
	c->state = k;
	c->gone = creation_gone;
	sandbox_wait(sandbox, &k->waiter, 600000);
}

/* The key of a request that the client may repeat. */
static int create_read_key(struct call *c, struct wanted *w, struct api_error *err)
{
	const char *key = http_header(c->req, "Idempotency-Key");

	if (!key)
		return 0;
	if (!*key || strlen(key) > 255 ||
	    strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(key))
		return create_refuse(err, "Idempotency-Key",
				     "1 to 255 lower-case letters, digits and dashes");
	w->request.key = key;
	wanted_hash_all(&c->body, w->request.hash);
	return 0;
}

static int create_read(struct call *c, int64_t timeout, json_t *request, struct wanted *w,
		       struct labels *labels, struct create_template *template,
		       struct api_error *err)
{
	struct warren_error why = WARREN_ERROR_INIT;
	struct body body = { .schema = v1_face.ops[V1_CREATE_SANDBOX].schema,
			     .json = request };
	json_t *env = body_json(&c->body, "envVars");
	int64_t seconds = 0;
	int r = create_put_timeout(c, timeout, request, &seconds, err);

	if (r == 0)
		r = create_put_lifecycle(&c->body, request, err);
	if (r == 0)
		r = create_put_network(c, request, err);
	if (r == 0)
		r = create_put_volumes(&c->body, request, err);
	if (r < 0)
		return r;
	template->name = body_text(&c->body, "templateID");
	r = create_put_template(c, request, template, &why);
	if (why.code == ENOENT)
		return create_refuse_missing(c, template->name, err);
	if (r < 0 || (env && json_object_set(request, "env", env) < 0))
		return api_error_set(err, API_ERR_OVERLOADED, "out of memory");
	r = validate_json(body.schema, request, err);
	if (r == 0)
		r = wanted_read(c->v1, &c->caller, &body, w, err);
	if (r < 0 && create_is_about(err->message, template->name)) {
		const struct api_error ours = *err;

		(void)api_error_set(err, ours.code, "templateID: %s", ours.message);
	}
	if (r < 0 && err->code == API_ERR_VOLUME_NOT_FOUND)
		err->code = API_ERR_INVALID_REQUEST; /* 404 would mean the template */
	if (r == 0)
		r = labels_read(&c->body, template, seconds, labels, err);
	if (r == 0)
		r = create_read_key(c, w, err);
	if (r < 0)
		return r;
	w->row.labels = labels->all;
	w->row.n_labels = labels->n;
	return 0;
}

static void create_sandbox(struct call *c, int64_t timeout)
{
	CLEANUP(wanted_done) struct wanted w = { 0 };
	struct labels labels = { 0 };
	struct create_template template = { 0 };
	struct api_error refusal = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	struct sandbox *sandbox = NULL;
	json_t *request = json_object();
	int r = request ? create_read(c, timeout, request, &w, &labels, &template,
				      &refusal)
			: api_error_set(&refusal, API_ERR_OVERLOADED, "out of memory");

	if (r == 0)
		r = sandbox_create(c->v1->service, &w.row, &w.spec, &w.source, &w.request,
				   &sandbox, &err);
	if (refusal.message[0])
		call_error(c, &refusal);
	else if (r == -EEXIST)
		e2b_refuse_as(c, 422, "idempotency_request_mismatch",
			      "the Idempotency-Key was used for another request");
	else if (r < 0)
		call_fail(c, &err);
	else if (!sandbox)
		e2b_refuse(c, 409,
			   "the sandbox of this Idempotency-Key has been deleted");
	else
		create_wait(c, sandbox, w.request.key != NULL, r == 1, &template.start);
	template_start_done(&template.start);
	free(labels.all);
	json_decref(request);
}

void e2b_create_v1(struct call *c)
{
	create_sandbox(c, TIMEOUT_V1);
}

void e2b_create_v2(struct call *c)
{
	create_sandbox(c, TIMEOUT_V2);
}
