/* SPDX-License-Identifier: Apache-2.0 */
/*
 * swerex.c - route requests of the SWE-ReX API and identify the caller
 *
 * A client without a valid token gets no information. The path or the token names the
 * sandbox; a token for one sandbox gives access to no other.
 */
#include "api/swerex/swerex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/body.h"
#include "api/record.h"
#include "api/swerex/internal.h"
#include "base/clock.h"
#include "config/config.h"

#define PREFIX    "/swerex/"
#define FILE_BODY (16U << 20) /* maximum size of a body with the text of a file */

#define PARSE_AT_ONCE (64U << 10)
/* Maximum size of all requests together; a tenant may use half of it. */
#define BODIES_MAX (256U << 20)
#define BODY_SMALL (16U << 10) /* bodies up to this size are not counted */
/* One copy as JSON, and one in the form that the operation needs. */
#define BODY_COPIES 2
#define BODY_FLAGS  (JSON_ALLOW_NUL | JSON_DECODE_ANY)

/* clang-format off */
static const struct field create_fields[] = {
	{ "startup_source", FIELD_TEXTS },
	{ "session", FIELD_TEXT },
	{ "session_type", FIELD_TEXT, .words = " bash " },
	{ "startup_timeout", FIELD_NUMBER },
};

static const struct field run_fields[] = {
	{ "command", FIELD_TEXT, .nul = true },
	{ "session", FIELD_TEXT },
	{ "timeout", FIELD_MAYBE_NUMBER },
	{ "is_interactive_command", FIELD_BOOL },
	{ "is_interactive_quit", FIELD_BOOL },
	{ "check", FIELD_TEXT, .words = " silent raise ignore " },
	{ "error_msg", FIELD_TEXT },
	{ "expect", FIELD_TEXTS },
	{ "n_retry", FIELD_COUNT },
	{ "action_type", FIELD_TEXT, .words = " bash bash_interrupt " },
};

static const struct field close_fields[] = {
	{ "session", FIELD_TEXT },
	{ "session_type", FIELD_TEXT, .words = " bash " },
};

static const struct field execute_fields[] = {
	{ "command", FIELD_COMMAND, .required = true, .nul = true },
	{ "timeout", FIELD_MAYBE_NUMBER },
	{ "shell", FIELD_BOOL },
	{ "check", FIELD_BOOL },
	{ "error_msg", FIELD_TEXT },
	{ "env", FIELD_MAYBE_MAP },
	{ "cwd", FIELD_MAYBE_TEXT },
	{ "merge_output_streams", FIELD_BOOL },
};

static const struct field read_fields[] = {
	{ "path", FIELD_TEXT, .required = true, .nul = true },
	{ "encoding", FIELD_MAYBE_TEXT },
	{ "errors", FIELD_MAYBE_TEXT },
};

static const struct field write_fields[] = {
	{ "content", FIELD_TEXT, .required = true, .nul = true },
	{ "path", FIELD_TEXT, .required = true, .nul = true },
};

#define FIELDS(f) .fields = (f), .n_fields = ARRAY_SIZE(f)

static const struct call calls[] = {
	{ "GET", "/" },
	{ "GET", "/is_alive" },
	{ "POST", "/create_session", "exec", swerex_create_session, FIELDS(create_fields) },
	{ "POST", "/run_in_session", "exec", swerex_run_in_session, FIELDS(run_fields) },
	{ "POST", "/close_session", "exec", swerex_close_session, FIELDS(close_fields) },
	{ "POST", "/execute", "exec", swerex_execute, FIELDS(execute_fields) },
	{ "POST", "/read_file", "files", swerex_read_file, FIELDS(read_fields) },
	{ "POST", "/write_file", "files", swerex_write_file, FIELDS(write_fields),
	  .max_body = FILE_BODY },
	{ "POST", "/upload", "files" },
	{ "POST", "/close", "exec", swerex_close },
};
/* clang-format on */

/* -------------------------------------------------------------- operations and access */

static const struct call *find_call(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (strcmp(calls[i].path, path) == 0)
			return &calls[i];
	return NULL;
}

bool swerex_wants(const struct http_request *req)
{
	const struct call *call = find_call(req->path);

	if (strncmp(req->path, PREFIX, strlen(PREFIX)) == 0)
		return true;
	if (strncmp(req->path, "/v1/", 4) == 0)
		return false;
	return http_header(req, "X-API-Key") || (call && call->path[1]);
}

/*
 * Return the part of the path after the sandbox. *@ret_word is the id, name or beginning
 * of an id in the path ("": the token selects the sandbox). NULL: no sandbox can have
 * this name.
 */
static const char *read_prefix(const struct ask *ask, char ret_word[DB_NAME_MAX + 1])
{
	const char *path = ask->req->path;
	size_t n;

	ret_word[0] = '\0';
	if (strncmp(path, PREFIX, strlen(PREFIX)) != 0)
		return path;
	path += strlen(PREFIX);
	n = strcspn(path, "/");
	if (n == 0 || n > DB_NAME_MAX)
		return NULL;
	(void)memcpy(ret_word, path, n);
	ret_word[n] = '\0';
	return path[n] ? path + n : "/";
}

/* Find the sandbox that @word names for the caller. */
static int swerex_resolve(struct ask *ask, const char *word, struct api_error *err)
{
	const struct caller *c = &ask->caller;
	struct warren_error why = WARREN_ERROR_INIT;
	int r = sandbox_resolve(ask->sx->service, c->tenant, access_may(c, "admin"), word,
				ask->sandbox, &why);

	if (r < 0)
		ask->sandbox[0] = '\0';
	return r < 0 ? api_error_set(err, API_ERR_SANDBOX_NOT_FOUND, "%s", why.msg) : 0;
}

/*
 * Return 0, or the status of the refusal. @word is the sandbox in the path; "": the token
 * selects it; NULL: there can be no such sandbox. The token is checked first, so that a
 * client without a token cannot find out which sandboxes exist.
 */
static int swerex_admit(struct ask *ask, const char *word, struct api_error *err)
{
	const char *key = http_header(ask->req, "X-API-Key");
	struct swerex *sx = ask->sx;
	struct caller *c = &ask->caller;

	if (access_origin(sx->config->domain, ask->req, err) < 0)
		return 403;
	(void)strcpy(c->tenant, DB_LOCAL);
	if (key) {
		if (access_token(sx->service, key, c, err) < 0)
			return 401;
	} else if (!access_is_owner(sx->owner, ask->req->peer)) {
		return 401;
	} else {
		(void)access_scopes_parse("admin", &c->scopes);
	}
	if (word && !word[0])
		(void)strcpy(ask->sandbox, c->sandbox);
	else if (word && swerex_resolve(ask, word, err) < 0 && !c->sandbox[0])
		return 404;
	if (c->sandbox[0] && strcmp(c->sandbox, ask->sandbox) != 0)
		return word ? 401 : 404;
	return !word ? 404 : ask->sandbox[0] ? 0 : 401;
}

static struct sandbox *swerex_find_sandbox(const struct ask *ask)
{
	return sandbox_find(ask->sx->service,
			    access_may(&ask->caller, "admin") ? NULL : ask->caller.tenant,
			    ask->sandbox);
}

/* --------------------------------------------------------------------- bodies */

static void answer_get(struct ask *ask, const struct sandbox *sandbox)
{
	enum sandbox_state state = sandbox_row(sandbox)->state;
	bool alive = state == SANDBOX_RUNNING || state == SANDBOX_PAUSED;
	AUTO_BUF struct buf out = BUF_INIT(4096), why = BUF_INIT(1024);
	struct json j = { .out = &out };

	json_open(&j, NULL, '{');
	if (!ask->call->path[1]) {
		json_str(&j, "message", "hello world");
	} else {
		if (!alive)
			buf_printf(&why, "the sandbox is %s", sandbox_state_name(state));
		json_bool(&j, "is_alive", alive);
		json_str(&j, "message", alive ? "" : why.data);
	}
	json_close(&j, '}');
	ask_answer(ask, 200, &out);
}

static void refuse_fields(struct ask *ask, const struct buf *detail)
{
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);
	struct json j = { .out = &out };

	json_open(&j, NULL, '{');
	json_raw(&j, "detail", detail->data ? detail->data : "[]", detail->len);
	json_close(&j, '}');
	ask_answer(ask, 422, &out);
}

/* The sandbox runs, or was resumed for this request. */
static void swerex_on_usable(void *ctx, int r, const struct warren_error *err)
{
	struct job *job = ctx;
	struct sandbox *sandbox = r < 0 ? NULL : job_sandbox(job);

	if (r < 0)
		job_raisef(job, "builtins.RuntimeError", "%s", err->msg);
	else if (sandbox)
		job->call->handler(job, sandbox);
}

/* A request may outlive its connection, so its memory is charged to the tenant. */
static bool charge_body(const struct ask *ask, struct job *job)
{
	return ask->body_size <= BODY_SMALL ||
	       fair_quota_lease(&ask->sx->bodies, job->tenant,
				BODY_COPIES * ask->body_size, &job->body_lease) == 0;
}

static void swerex_start(struct ask *ask, json_t *body)
{
	const char *id = http_header(ask->req, "X-Request-ID");
	struct service *service = ask->sx->service;
	struct sandbox *sandbox = swerex_find_sandbox(ask);
	bool is_new = false;
	struct job *job;

	if (!sandbox) {
		json_decref(body);
		ask_refuse(ask, 404, "there is no sandbox '%s'", ask->sandbox);
		return;
	}
	job = job_join(ask, id, &is_new);
	if (!job || !is_new) {
		json_decref(body);
		if (!job)
			ask_refuse(ask, 503, "out of memory");
		return;
	}
	job->body = body;
	(void)snprintf(job->tenant, sizeof(job->tenant), "%s",
		       sandbox_row(sandbox)->owner);
	if (!charge_body(ask, job)) {
		job_refuse(job, 503,
			   "the tenant has too many large requests in progress; nothing "
			   "was started: wait until some of them end");
		return;
	}
	service_permit(service, ask->caller.token, ask->caller.expires_at);
	session_use_named(sandbox, field_text(body, "session", "default"),
			  swerex_on_usable, job);
	service_permit(service, NULL, 0);
}

static void refuse_json(struct ask *ask, const char *why)
{
	AUTO_BUF struct buf detail = BUF_INIT(16384);
	struct json j = { .out = &detail };

	json_open(&j, NULL, '[');
	json_open(&j, NULL, '{');
	json_str(&j, "type", "json_invalid");
	json_open(&j, "loc", '[');
	json_str(&j, NULL, "body");
	json_close(&j, ']');
	json_str(&j, "msg", why);
	json_close(&j, '}');
	json_close(&j, ']');
	refuse_fields(ask, &detail);
}

/* Takes over @body; if it is NULL, @why contains the reason. */
static void on_parsed(struct ask *ask, json_t *body, const struct api_error *why)
{
	AUTO_BUF struct buf detail = BUF_INIT(1U << 20);
	const struct call *call = ask->call;

	if (!body && why->code != API_ERR_INVALID_JSON) {
		ask_refuse(ask, 503, "%s", why->message);
	} else if (!body) {
		refuse_json(ask, why->message);
	} else if (!fields_check(body, call->fields, call->n_fields, &detail)) {
		json_decref(body);
		refuse_fields(ask, &detail);
	} else {
		swerex_start(ask, body);
	}
}

/* A large body takes a tenth of a second to parse, so it is parsed on another thread. */
struct parse {
	struct ask *ask; /* NULL: gone */
	struct buf text;
	json_t *body;
	struct api_error why;
};

static void parse_work(void *ctx)
{
	struct parse *p = ctx;

	p->body = body_load(p->text.data, p->text.len, BODY_FLAGS, &p->why);
	buf_done(&p->text);
}

static void parse_done(void *ctx)
{
	struct parse *p = ctx;
	struct ask *ask = p->ask;

	if (ask) {
		ask->parse = NULL;
		on_parsed(ask, p->body, &p->why);
	} else {
		json_decref(p->body);
	}
	free(p);
}

static void parse_apart(struct ask *ask, size_t n)
{
	struct parse *p = calloc(1, sizeof(*p));

	if (p)
		p->ask = ask;
	/* The bytes of the body are charged until the request ends. */
	if (p && http_keep(ask->req, n))
		p->text = http_take_body(ask->req);
	if (p && p->text.data &&
	    loop_work(service_loop(ask->sx->service), ask->caller.tenant, parse_work,
		      parse_done, p) == 0) {
		ask->parse = p;
		return;
	}
	if (p)
		buf_done(&p->text);
	free(p);
	ask_refuse(ask, 503, "not enough memory for the request body; try again");
}

static void swerex_on_body(struct http_request *req, const char *data, size_t n)
{
	struct ask *ask = req->user;
	struct api_error why = { 0 };

	ask->body_size = n;
	if (ask->call->n_fields == 0)
		swerex_start(ask, NULL);
	else if (n > PARSE_AT_ONCE)
		parse_apart(ask, n);
	else
		on_parsed(ask, body_load(data, n, BODY_FLAGS, &why), &why);
}

static void swerex_read_body(struct ask *ask)
{
	size_t max = ask->call->max_body ? ask->call->max_body
					 : (size_t)ask->sx->config->request_body;

	if (ask->req->has_body)
		http_collect(ask->req, max ? max : 1U << 20, swerex_on_body);
	else
		swerex_on_body(ask->req, "", 0);
}

/* --------------------------------------------------------- start and end of a request */

static void swerex_on_closed(struct http_request *req, int why UNUSED)
{
	struct ask *ask = req->user;
	struct api_record r = {
		.request_id = http_request_id(req),
		.method = req->method,
		.path = req->path,
		.tenant = ask->caller.token[0] ? ask->caller.tenant : "",
		.status = http_status(req),
		.usec = (clock_now() - ask->begun) / 1000,
		.cause = ask->cause,
	};

	/* An exception raised by a program in the sandbox is not an error of Warren. */
	r.proxied = r.status == 511;
	if (ask->sx->record)
		ask->sx->record(&r);
	live_leave(&ask->live);
	ask->req = NULL;
	reply_left(ask);
	if (ask->parse)
		ask->parse->ask = NULL;
	if (ask->gone)
		ask->gone(ask);
	job_leave(ask);
	free(ask);
}

void swerex_request(struct http_request *req, struct swerex *sx)
{
	struct ask *ask = calloc(1, sizeof(*ask));
	struct api_error err = { 0 };
	char word[DB_NAME_MAX + 1];
	const char *path;
	struct sandbox *sandbox;
	int status;

	if (!ask) {
		(void)http_refuse(req, 503, "overloaded", "out of memory");
		return;
	}
	sx->answers.limit = REPLIES_MAX;
	sx->bodies.limit = BODIES_MAX;
	ask->sx = sx;
	ask->req = req;
	ask->begun = clock_now();
	req->user = ask;
	req->closed = swerex_on_closed;
	path = read_prefix(ask, word);
	status = swerex_admit(ask, path ? word : NULL, &err);
	http_known(req, status != 401 && ask->caller.token[0]);
	if (status == 0 && live_enter(sx->live, &ask->live, req, &ask->caller, &err) < 0)
		status = api_code_status(err.code);
	if (status == 0 && ask->caller.token[0] &&
	    http_owner(req, ask->caller.tenant) < 0) {
		(void)api_error_set(&err, API_ERR_OVERLOADED, "out of memory");
		status = 503;
	}
	ask->call = path ? find_call(path) : NULL;
	sandbox = status == 0 ? swerex_find_sandbox(ask) : NULL;
	if (status == 401)
		ask_refuse(ask, 401, "Invalid API Key");
	else if (status != 0 && status != 404)
		ask_refuse(ask, status, "%s", err.message);
	else if (!ask->call || !sandbox)
		ask_refuse(ask, 404, "%s",
			   path && !ask->call ? "Not Found"
			   : err.message[0]   ? err.message
					      : "there is no such sandbox");
	else if (strcmp(req->method, ask->call->method) != 0)
		ask_refuse(ask, 405, "Method Not Allowed");
	else if (ask->call->scope && !access_may(&ask->caller, ask->call->scope))
		ask_refuse(ask, 403, "the token lacks the scope '%s'", ask->call->scope);
	else if (!access_body_is_plain(req))
		ask_refuse(ask, 415,
			   "Content-Encoding is not supported: send the body without it");
	else if (ask->call->handler)
		swerex_read_body(ask);
	else if (ask->call->scope)
		swerex_upload(ask);
	else
		answer_get(ask, sandbox);
}
