/* SPDX-License-Identifier: Apache-2.0 */
/* methods.c - the table of methods; `initialize`, `server/discover` and other small ones
 */
#include <string.h>

#include "api/mcp/internal.h"
#include "warren.h"

static const char instructions[] =
	"Warren runs commands and programs in sandboxes: isolated Linux machines that start "
	"in milliseconds. Tools without the argument 'sandbox' use the sandbox of this "
	"session, which is created on first use and deleted when the session ends. A client "
	"without a session calls sandbox_create first and passes the id in 'sandbox'. Use "
	"session_run if commands depend on each other (working directory, variables), and "
	"run_command otherwise. Sandboxes have no access to the internet.";

void mcp_write_server(struct json *j, const char *key)
{
	json_open(j, key, '{');
	json_str(j, "name", "warren");
	json_str(j, "version", warren_version());
	json_close(j, '}');
}

void mcp_write_capabilities(struct json *j, enum rpc_era era UNUSED)
{
	static const char *const names[] = { "tools", "resources", "prompts",
					     "completions", "logging" };

	json_open(j, "capabilities", '{');
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		json_open(j, names[i], '{');
		if (strcmp(names[i], "resources") == 0)
			json_bool(j, "subscribe", true);
		json_close(j, '}');
	}
	json_close(j, '}');
}

static void methods_initialize(struct mcp_call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(16384);
	struct json j = { .out = &out };
	const char *version = rpc_text(c->params, "protocolVersion");
	struct rpc_error err = { 0 };
	struct mcp_session *s;

	if (!version) {
		mcp_call_error(c, RPC_INVALID_PARAMS,
			       "params.protocolVersion: must be a string");
		return;
	}
	s = c->session ? c->session : mcp_session_new(c->exchange, NULL, &err);
	if (!s) {
		mcp_call_fail(c, &err);
		return;
	}
	s->version = rpc_negotiate(version);
	c->exchange->opened = !c->session;
	c->exchange->session = s;
	mcp_result_open(&j, c->era, false);
	json_str(&j, "protocolVersion", s->version);
	mcp_write_capabilities(&j, c->era);
	mcp_write_server(&j, "serverInfo");
	json_str(&j, "instructions", instructions);
	json_close(&j, '}');
	mcp_call_result(c, &out);
}

static void methods_discover(struct mcp_call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(16384);
	struct json j = { .out = &out };

	mcp_result_open(&j, c->era, true);
	json_open(&j, "supportedVersions", '[');
	json_str(&j, NULL, RPC_MODERN_VERSION);
	json_close(&j, ']');
	mcp_write_capabilities(&j, c->era);
	json_str(&j, "instructions", instructions);
	json_close(&j, '}');
	mcp_call_result(c, &out);
}

static void methods_set_level(struct mcp_call *c)
{
	int level = mcp_level_parse(rpc_text(c->params, "level"));

	if (level < 0) {
		mcp_call_error(
			c, RPC_INVALID_PARAMS,
			"params.level: must be debug, info, notice, warning, error, "
			"critical, alert or emergency");
		return;
	}
	c->session->log_level = level;
	mcp_call_empty(c);
}

static const struct mcp_method {
	const char *name;
	unsigned eras; /* bits of enum rpc_era */
	void (*handler)(struct mcp_call *c);
} methods[] = {
	{ "initialize", RPC_LEGACY, methods_initialize },
	{ "ping", RPC_LEGACY, mcp_call_empty },
	{ "server/discover", RPC_MODERN, methods_discover },
	{ "logging/setLevel", RPC_LEGACY, methods_set_level },
	{ "tools/list", RPC_LEGACY | RPC_MODERN, mcp_tools_list },
	{ "tools/call", RPC_LEGACY | RPC_MODERN, mcp_tools_call },
	{ "resources/list", RPC_LEGACY | RPC_MODERN, mcp_resources_list },
	{ "resources/templates/list", RPC_LEGACY | RPC_MODERN, mcp_resources_templates },
	{ "resources/read", RPC_LEGACY | RPC_MODERN, mcp_resources_read },
	{ "resources/subscribe", RPC_LEGACY, mcp_resources_subscribe },
	{ "resources/unsubscribe", RPC_LEGACY, mcp_resources_unsubscribe },
	{ "subscriptions/listen", RPC_MODERN, mcp_listen },
	{ "prompts/list", RPC_LEGACY | RPC_MODERN, mcp_prompts_list },
	{ "prompts/get", RPC_LEGACY | RPC_MODERN, mcp_prompts_get },
	{ "completion/complete", RPC_LEGACY | RPC_MODERN, mcp_complete },
};

/* Read the log level of a modern request. Return -1 if the request was refused. */
static int methods_read_level(struct mcp_call *c)
{
	const json_t *level = json_object_get(c->meta, RPC_META "logLevel");

	if (!level || c->era != RPC_MODERN)
		return 0;
	c->log_level = mcp_level_parse(rpc_text(c->meta, RPC_META "logLevel"));
	if (c->log_level >= 0)
		return 0;
	mcp_call_error(c, RPC_INVALID_PARAMS,
		       "params._meta." RPC_META "logLevel: there is no such level");
	return -1;
}

void mcp_call_run(struct mcp_call *c)
{
	struct service *s = c->mcp->service;
	const struct mcp_method *m = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		if ((methods[i].eras & c->era) && strcmp(methods[i].name, c->method) == 0)
			m = &methods[i];
	if (!m) {
		mcp_call_error(c, RPC_METHOD_NOT_FOUND, "there is no method '%.64s'",
			       c->method);
		return;
	}
	if (c->session && c->session->n_calls > MCP_CALLS_MAX) {
		mcp_call_error(c, RPC_INTERNAL_ERROR,
			       "the session has %d requests in progress and cannot have "
			       "more: wait for some of them",
			       MCP_CALLS_MAX);
		return;
	}
	if (methods_read_level(c) < 0)
		return;
	loop_mark(service_loop(s), m->name);
	service_permit(s, c->caller.token, c->caller.expires_at);
	m->handler(c);
	service_permit(s, NULL, 0);
}
