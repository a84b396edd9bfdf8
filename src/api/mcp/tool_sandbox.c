/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool_sandbox.c - tools for whole sandboxes: sandbox_create, sandbox_list,
 * sandbox_delete, sandbox_pause, sandbox_resume, port_url
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/mcp/internal.h"
#include "base/date.h"
#include "config/config.h"

static void sandbox_tool_write(struct json *j, const char *key,
			       const struct sandbox_row *row)
{
	char at[DATE_SIZE];

	date_iso(at, service_wall(row->created_at));
	json_open(j, key, '{');
	json_str(j, "sandbox", row->id);
	json_str(j, "state", sandbox_state_name(row->state));
	if (row->name)
		json_str(j, "name", row->name);
	if (row->image)
		json_str(j, "image", row->image);
	json_str(j, "backend", row->backend);
	json_str(j, "tier", row->tier);
	json_str(j, "created_at", at);
	if (row->expires_at) {
		date_iso(at, service_wall(row->expires_at));
		json_str(j, "expires_at", at);
	}
	json_close(j, '}');
}

static void sandbox_tool_answer(struct mcp_call *c, const struct sandbox *sandbox)
{
	AUTO_BUF struct buf out = BUF_INIT(16384);
	struct json j = { .out = &out };

	sandbox_tool_write(&j, NULL, sandbox_row(sandbox));
	mcp_tool_result(c, &out, false);
}

/* ---------------------------------------------------------------- sandbox_create */

struct mcp_creation {
	struct sandbox_waiter waiter;
	char id[ID_LEN + 1];
	bool given; /* the client has received the id of the sandbox */
};

/* If a client disconnects before it receives the id, the sandbox is removed. */
static void sandbox_create_stop(struct mcp_call *c)
{
	struct mcp_creation *k = c->state;
	struct sandbox *sandbox =
		k->given ? NULL : sandbox_find(c->mcp->service, NULL, k->id);

	sandbox_wait_abandon(&k->waiter);
	if (sandbox)
		sandbox_delete(sandbox, mcp_ignore, NULL);
	free(k);
}

static void sandbox_create_on_made(struct sandbox_waiter *w, struct sandbox *sandbox,
				   int state)
{
	struct mcp_call *c = w->ctx;
	struct mcp_creation *k = c->state;

	if (state >= 0 && sandbox_state_is_over((enum sandbox_state)state)) {
		mcp_tool_error(c, "the sandbox cannot be created: %s",
			       sandbox_row(sandbox)->error ? sandbox_row(sandbox)->error
							   : "it failed");
	} else if (state < 0) {
		mcp_tool_error(c, "the sandbox was not created in ten minutes");
	} else if (!sandbox || state == SANDBOX_GONE) {
		mcp_tool_error(c, "the sandbox was deleted in the meantime");
	} else {
		/* If no client waited for the answer, no client would know the sandbox.
		 */
		k->given = c->exchange != NULL;
		if (k->given && !c->exchange->is_get)
			(void)strcpy(c->exchange->created, k->id);
		mcp_call_log(c, MCP_INFO, "created the sandbox '%s'", k->id);
		sandbox_tool_answer(c, sandbox);
	}
}

void mcp_tool_sandbox_create(struct mcp_call *c)
{
	struct mcp_creation *k = calloc(1, sizeof(*k));
	json_t *request = c->args ? json_copy(c->args) : json_object();
	struct api_error err = { 0 };
	struct sandbox *sandbox = NULL;

	if (!k || !request) {
		mcp_tool_error(c, "out of memory; try again");
	} else if (c->caller.sandbox[0]) {
		mcp_tool_error(c, "the token is valid only for the sandbox '%s'",
			       c->caller.sandbox);
	} else if (c->mcp->create(c->mcp->create_ctx, &c->caller, request, NULL, &sandbox,
				  &err) < 0 ||
		   !sandbox) {
		mcp_tool_error(c, "%s", err.message);
	} else {
		(void)strcpy(k->id, sandbox_row(sandbox)->id);
		k->waiter = (struct sandbox_waiter){ .states = ~(1U << SANDBOX_CREATING),
						     .fn = sandbox_create_on_made,
						     .ctx = c };
		c->stop = sandbox_create_stop;
		if (c->exchange)
			mcp_exchange_keep_alive(c->exchange);
		sandbox_wait(sandbox, &k->waiter, MCP_CREATE_MS);
		c->state = TAKE_PTR(k);
	}
	json_decref(request);
	free(k);
}

/* ------------------------------------------------------------------ sandbox_list */

struct mcp_listing {
	struct json *j;
	const char *only; /* only the sandbox of the token; "": all */
	size_t n;
	uint64_t last;
};

static int sandbox_tool_list_one(void *ctx, const struct sandbox_row *row)
{
	struct mcp_listing *l = ctx;

	l->n++;
	l->last = row->seq;
	if (!l->only[0] || strcmp(l->only, row->id) == 0)
		sandbox_tool_write(l->j, NULL, row);
	return 0;
}

int mcp_sandboxes_write(struct mcp_call *c, struct json *j, size_t limit, uint64_t before,
			struct warren_error *err)
{
	struct mcp_listing l = { .j = j, .only = c->caller.sandbox };
	struct sandbox_filter filter = {
		.owner = access_may(&c->caller, "admin") ? NULL : c->caller.tenant,
		.last = before,
		.max = limit,
	};
	int r;

	json_open(j, NULL, '{');
	json_open(j, "sandboxes", '[');
	r = db_list_sandboxes(service_db(c->mcp->service), &filter, sandbox_tool_list_one,
			      &l, err);
	if (r < 0)
		return r;
	json_close(j, ']');
	if (c->session && c->session->sandbox[0])
		json_str(j, "own", c->session->sandbox);
	if (l.n == filter.max)
		json_u64(j, "next_before", l.last);
	json_close(j, '}');
	return 0;
}

void mcp_tool_sandbox_list(struct mcp_call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(MCP_RESULT_MAX);
	struct json j = { .out = &out };
	struct warren_error err = WARREN_ERROR_INIT;

	if (mcp_sandboxes_write(c, &j, (size_t)mcp_arg_int(c, "limit"),
				(uint64_t)mcp_arg_int(c, "before"), &err) < 0)
		mcp_tool_fail(c, &err);
	else
		mcp_tool_result(c, &out, false);
}

/* -------------------------------------------------------- delete, pause, resume */

static void sandbox_tool_on_deleted(void *ctx, int r, const struct warren_error *err)
{
	struct mcp_call *c = ctx;
	AUTO_BUF struct buf out = BUF_INIT(4096);
	struct json j = { .out = &out };

	if (!c->done && r < 0) {
		mcp_tool_fail(c, err);
	} else if (!c->done) {
		if (c->session && strcmp(c->session->sandbox, c->sandbox) == 0)
			c->session->sandbox[0] = '\0';
		json_open(&j, NULL, '{');
		json_str(&j, "sandbox", c->sandbox);
		json_bool(&j, "deleted", true);
		json_close(&j, '}');
		mcp_tool_result(c, &out, false);
	}
	mcp_call_unref(c);
}

void mcp_tool_sandbox_delete(struct mcp_call *c)
{
	struct sandbox *sandbox = mcp_place_named(c);

	if (sandbox)
		sandbox_delete(sandbox, sandbox_tool_on_deleted, mcp_call_ref(c));
}

static void sandbox_tool_on_changed(void *ctx, int r, const struct warren_error *err)
{
	struct mcp_call *c = ctx;
	struct sandbox *sandbox;

	if (!c->done && r < 0) {
		mcp_tool_fail(c, err);
	} else if (!c->done) {
		sandbox = mcp_place_again(c);
		if (sandbox)
			sandbox_tool_answer(c, sandbox);
	}
	mcp_call_unref(c);
}

void mcp_tool_sandbox_pause(struct mcp_call *c)
{
	struct sandbox *sandbox = mcp_place_named(c);

	if (sandbox)
		sandbox_pause(sandbox, true, sandbox_tool_on_changed, mcp_call_ref(c));
}

void mcp_tool_sandbox_resume(struct mcp_call *c)
{
	struct sandbox *sandbox = mcp_place_named(c);

	if (sandbox)
		sandbox_pause(sandbox, false, sandbox_tool_on_changed, mcp_call_ref(c));
}

/* ---------------------------------------------------------------------- port_url */

/* With a host name, every server in a sandbox has its own origin; a path always works. */
static void port_tool_url(struct mcp_call *c, char *url, size_t size)
{
	const char *domain = c->mcp->config->domain, *scheme = c->tls ? "https" : "http";
	const char *port = strrchr(c->host, ':');
	int64_t number = mcp_arg_int(c, "port");

	if (port && strchr(port, ']'))
		port = NULL;
	if (domain[0])
		(void)snprintf(url, size, "%s://%jd-%s.%s%s/", scheme, (intmax_t)number,
			       c->sandbox, domain, port ? port : "");
	else
		(void)snprintf(url, size, "%s://%s/v1/sandboxes/%s/ports/%jd/", scheme,
			       c->host, c->sandbox, (intmax_t)number);
}

static void port_tool_placed(struct mcp_call *c, struct sandbox *sandbox UNUSED)
{
	AUTO_BUF struct buf out = BUF_INIT(16384);
	struct json j = { .out = &out };
	char text[1024];

	json_open(&j, NULL, '{');
	json_str(&j, "sandbox", c->sandbox);
	json_int(&j, "port", mcp_arg_int(c, "port"));
	(void)snprintf(text, sizeof(text), "/v1/sandboxes/%s/ports/%jd/", c->sandbox,
		       (intmax_t)mcp_arg_int(c, "port"));
	json_str(&j, "path", text);
	if (c->host[0]) {
		port_tool_url(c, text, sizeof(text));
		json_str(&j, "url", text);
	}
	json_str(&j, "access",
		 "Requests need a token: Authorization: Bearer <token>. For a browser, "
		 "'warren port' forwards a local port.");
	json_close(&j, '}');
	mcp_tool_result(c, &out, false);
}

void mcp_tool_port_url(struct mcp_call *c)
{
	mcp_place(c, port_tool_placed);
}
