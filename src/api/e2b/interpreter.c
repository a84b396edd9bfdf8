/* SPDX-License-Identifier: Apache-2.0 */
/* interpreter.c - the code interpreter of a sandbox: its contexts, and cells to run */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/e2b/context.h"
#include "api/path.h"

static void interpreter_text(struct call *c, int status, const char *text)
{
	const struct http_header headers[] = {
		{ "X-Request-Id", http_request_id(c->req) },
		{ "Content-Type", "text/plain" },
	};

	c->answered = true;
	(void)http_respond(c->req, status, headers, ARRAY_SIZE(headers), text,
			   strlen(text));
}

void e2b_interpreter_health(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(16);

	buf_puts(&out, "\"OK\"");
	call_json(c, 200, &out);
}

/* The kernel that a request names; NULL: refused. */
static const struct code_kernel *interpreter_kernel(struct call *c)
{
	const char *language = body_text(&c->body, "language");
	const struct code_kernel *k =
		code_kernel_find(language && *language ? language : "python");

	if (!k)
		e2b_refuse(c, 501,
			   "there is no kernel for '%.60s': use python, javascript, "
			   "typescript or bash, or run its program as a command",
			   language);
	return k;
}

static struct e2b_context *interpreter_find(struct call *c, const char *id)
{
	struct e2b_context *x = context_find(call_e2b(c), c->route.sandbox, id);
	char text[128];

	if (!x) {
		(void)snprintf(text, sizeof(text), "Context %.64s not found", id);
		interpreter_text(c, 404, text);
	}
	return x;
}

/* @cwd NULL: the default context. NULL: refused. */
static struct e2b_context *interpreter_new(struct call *c, const struct code_kernel *k,
					   const char *cwd)
{
	const struct sandbox *sandbox =
		sandbox_find(c->v1->service, NULL, c->route.sandbox);
	struct warren_error err = WARREN_ERROR_INIT;
	struct e2b_context *x =
		sandbox ? context_new(call_e2b(c), sandbox, k, cwd, &err) : NULL;

	if (!sandbox)
		e2b_refuse_gone(c);
	else if (!x && err.code == EUSERS)
		e2b_refuse(c, 429, "%s", err.msg);
	else if (!x)
		call_fail(c, &err);
	return x;
}

/* --------------------------------------------------------------------------- contexts */

/* Languages whose default context exists from the start. */
static const char *const interpreter_defaults[] = { "python", "javascript" };

static void interpreter_show(struct json *j, const struct e2b_context *x)
{
	json_open(j, NULL, '{');
	json_str(j, "id", x->id);
	json_str(j, "language", x->kernel->name);
	json_str(j, "cwd", x->cwd);
	json_close(j, '}');
}

void e2b_contexts_list(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);
	struct json j = { .out = &out };
	const struct e2b_context *x;

	for (size_t i = 0; i < ARRAY_SIZE(interpreter_defaults); i++) {
		const struct code_kernel *k = code_kernel_find(interpreter_defaults[i]);

		if (!context_default(call_e2b(c), c->route.sandbox, k) &&
		    !interpreter_new(c, k, NULL))
			return;
	}
	json_open(&j, NULL, '[');
	x = call_e2b(c)->contexts[e2b_bucket(c->route.sandbox)];
	for (; x; x = x->next)
		if (!x->removed && strcmp(x->sandbox, c->route.sandbox) == 0)
			interpreter_show(&j, x);
	json_close(&j, ']');
	call_json(c, 200, &out);
}

void e2b_contexts_create(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(65536);
	struct json j = { .out = &out };
	const struct sandbox *sandbox =
		sandbox_find(c->v1->service, NULL, c->route.sandbox);
	const char *cwd = body_text(&c->body, "cwd");
	const struct code_kernel *k = interpreter_kernel(c);
	const struct e2b_context *x;
	char path[4096];

	if (!k)
		return;
	if (!sandbox || !api_path(sandbox_workdir(sandbox), cwd ? cwd : "", path)) {
		e2b_refuse(c, 400, "cwd: it is too long");
		return;
	}
	x = interpreter_new(c, k, path);
	if (!x)
		return;
	interpreter_show(&j, x);
	call_json(c, 200, &out);
}

void e2b_contexts_delete(struct call *c)
{
	struct e2b_context *x = interpreter_find(c, c->route.param[1]);

	if (!x)
		return;
	context_remove(x, "the context was removed");
	call_empty(c, 204);
}

void e2b_contexts_restart(struct call *c)
{
	struct e2b_context *x = interpreter_find(c, c->route.param[1]);

	if (!x)
		return;
	context_stop(x, "the kernel was restarted");
	call_empty(c, 204);
}

/* ------------------------------------------------------------------------------- cells
 */

void e2b_interpreter_execute(struct call *c)
{
	const char *id = body_text(&c->body, "context_id");
	const struct code_kernel *k;
	struct e2b_context *x;

	if (id && *id && body_has(&c->body, "language")) {
		interpreter_text(c, 400,
				 "Only one of context_id or language can be provided");
		return;
	}
	k = interpreter_kernel(c);
	if (!k)
		return;
	if (id && *id) {
		x = interpreter_find(c, id);
		k = x ? x->kernel : NULL;
	} else {
		x = context_default(call_e2b(c), c->route.sandbox, k);
		if (!x)
			x = interpreter_new(c, k, NULL);
	}
	if (x)
		context_run(x, c, body_json(&c->body, "env_vars"),
			    body_text(&c->body, "code"), k->language);
}
