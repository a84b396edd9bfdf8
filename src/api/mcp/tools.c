/* SPDX-License-Identifier: Apache-2.0 */
/* tools.c - list and call tools; their arguments, results and errors */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/mcp/internal.h"
#include "api/path.h"
#include "config/config.h"

static void (*const tool_handlers[MCP_TOOL_COUNT])(struct mcp_call *c) = {
#define MCP_HANDLER(id, name) [MCP_TOOL_##id] = mcp_tool_##name,
	MCP_TOOLS(MCP_HANDLER)
#undef MCP_HANDLER
};

void mcp_ignore(void *ctx UNUSED, int r UNUSED, const struct warren_error *err UNUSED)
{
}

/* ------------------------------------------------------------------- tools/list */

void mcp_tools_list(struct mcp_call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);
	struct json j = { .out = &out };

	if (!mcp_list_open(c, &j, "tools"))
		return;
	for (size_t i = 0; i < MCP_TOOL_COUNT; i++)
		mcp_tool_write(&j, &mcp_tools[i]);
	json_close(&j, ']');
	json_close(&j, '}');
	mcp_call_result(c, &out);
}

/* ------------------------------------------------------------------- tools/call */

void mcp_tools_call(struct mcp_call *c)
{
	AUTO_BUF struct buf why = BUF_INIT(4096);
	const char *name = rpc_text(c->params, "name");

	c->args = json_object_get(c->params, "arguments");
	c->tool = name ? mcp_tool_find(name) : NULL;
	if (!name)
		mcp_call_error(c, RPC_INVALID_PARAMS, "params.name: must be a string");
	else if (!c->tool)
		mcp_call_error(c, RPC_INVALID_PARAMS, "there is no tool '%.64s'", name);
	else if (c->args && !json_is_object(c->args))
		mcp_call_error(c, RPC_INVALID_PARAMS,
			       "params.arguments: must be an object");
	else if (!access_may(&c->caller, c->tool->scope))
		mcp_tool_error(c, "the token lacks the scope '%s', which %s needs",
			       c->tool->scope, name);
	else if (!schema_check(&c->tool->input, c->args, &why))
		mcp_tool_error(c, "%s", why.data ? why.data : "out of memory");
	else
		tool_handlers[c->tool - mcp_tools](c);
}

/* ----------------------------------------------------------------- arguments */

json_t *mcp_arg_json(const struct mcp_call *c, const char *name)
{
	return json_object_get(c->args, name);
}

const char *mcp_arg_text(const struct mcp_call *c, const char *name)
{
	return json_string_value(mcp_arg_json(c, name));
}

size_t mcp_arg_size(const struct mcp_call *c, const char *name)
{
	return json_string_length(mcp_arg_json(c, name));
}

int64_t mcp_arg_int(const struct mcp_call *c, const char *name)
{
	const json_t *value = mcp_arg_json(c, name);
	const struct mcp_field *f = schema_find(&c->tool->input, name);

	return value ? json_integer_value(value) : f ? f->fallback : 0;
}

bool mcp_arg_bool(const struct mcp_call *c, const char *name)
{
	return json_is_true(mcp_arg_json(c, name));
}

bool mcp_arg_path(struct mcp_call *c, const struct sandbox *sandbox, const char *name,
		  char out[4096])
{
	const char *path = mcp_arg_text(c, name);

	if (api_path(sandbox_workdir(sandbox), path ? path : ".", out))
		return true;
	mcp_tool_error(c, "%s: the path is too long", name);
	return false;
}

/* ------------------------------------------------------------------- results */

static void tools_write_result(enum rpc_era era, const struct buf *structured,
			       const struct buf *text, bool failed, struct buf *out)
{
	struct json j = { .out = out };

	mcp_result_open(&j, era, false);
	json_open(&j, "content", '[');
	json_open(&j, NULL, '{');
	json_str(&j, "type", "text");
	json_strn(&j, "text", text->data, text->len);
	json_close(&j, '}');
	json_close(&j, ']');
	json_raw(&j, "structuredContent", structured->data, structured->len);
	if (failed)
		json_bool(&j, "isError", true);
	json_close(&j, '}');
	out->failed = out->failed || structured->failed || text->failed;
}

void mcp_tool_wrap(enum rpc_era era, const struct buf *structured, bool failed,
		   struct buf *out)
{
	tools_write_result(era, structured, structured, failed, out);
}

/* A result that must be written; a large one is written on another thread. */
struct mcp_wrap {
	struct mcp_call *call; /* a reference */
	enum rpc_era era;
	bool failed;
	struct buf structured, rest, out;
	size_t shown; /* number of bytes of `structured` that the text contains before
			 `rest` */
};

static void tools_wrap_work(void *ctx)
{
	struct mcp_wrap *w = ctx;
	AUTO_BUF struct buf text = BUF_INIT(MCP_RESULT_MAX);

	if (w->shown == w->structured.len) {
		mcp_tool_wrap(w->era, &w->structured, w->failed, &w->out);
		return;
	}
	buf_add(&text, w->structured.data, w->shown);
	buf_add(&text, w->rest.data, w->rest.len);
	tools_write_result(w->era, &w->structured, &text, w->failed, &w->out);
}

static void tools_wrap_done(void *ctx)
{
	struct mcp_wrap *w = ctx;

	mcp_call_result(w->call, &w->out);
	mcp_call_unref(w->call);
	buf_done(&w->structured);
	buf_done(&w->rest);
	buf_done(&w->out);
	free(w);
}

void mcp_tool_result_short(struct mcp_call *c, struct buf *structured, size_t shown,
			   const struct buf *rest, bool failed)
{
	struct mcp_wrap *w;

	if (c->done)
		return;
	w = calloc(1, sizeof(*w));
	if (!w) {
		mcp_tool_error(c, "out of memory; try again");
		return;
	}
	*w = (struct mcp_wrap){ .call = mcp_call_ref(c),
				.era = c->era,
				.failed = failed,
				.structured = *structured,
				.rest = BUF_INIT(rest->len),
				.out = BUF_INIT(MCP_RESULT_MAX),
				.shown = shown };
	*structured = (struct buf)BUF_INIT(0);
	buf_add(&w->rest, rest->data, rest->len);
	w->structured.failed |= rest->failed || w->rest.failed;
	if (w->structured.len <= MCP_AT_ONCE || w->structured.failed ||
	    loop_work(service_loop(c->mcp->service), c->caller.tenant, tools_wrap_work,
		      tools_wrap_done, w) < 0) {
		tools_wrap_work(w);
		tools_wrap_done(w);
	}
}

void mcp_tool_result(struct mcp_call *c, struct buf *structured, bool failed)
{
	struct buf none = BUF_INIT(0);

	mcp_tool_result_short(c, structured, structured->len, &none, failed);
}

void mcp_tool_error(struct mcp_call *c, const char *fmt, ...)
{
	AUTO_BUF struct buf out = BUF_INIT(65536);
	struct json j = { .out = &out };
	char text[4096];
	va_list ap;

	if (c->done)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	error_hide_dir(text, c->mcp->config->run_dir);
	error_hide_dir(text, c->mcp->config->state_dir);
	if (!c->tool) {
		mcp_resource_error(c, text);
		return;
	}
	mcp_result_open(&j, c->era, false);
	json_open(&j, "content", '[');
	json_open(&j, NULL, '{');
	json_str(&j, "type", "text");
	json_str(&j, "text", text);
	json_close(&j, '}');
	json_close(&j, ']');
	json_bool(&j, "isError", true);
	json_close(&j, '}');
	mcp_call_result(c, &out);
}

void mcp_tool_fail(struct mcp_call *c, const struct warren_error *err)
{
	mcp_tool_error(c, "%s", err->msg);
}
