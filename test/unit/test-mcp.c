/* SPDX-License-Identifier: Apache-2.0 */
/* test-mcp.c - MCP without a server: protocol versions, messages, and the table of
 * tools */
#include <string.h>

#include "api/body.h"
#include "api/mcp/rpc.h"
#include "api/mcp/tools.h"

#include "lib/tap.h"

static json_t *load(const char *text)
{
	struct api_error err = { 0 };

	return body_load(text, strlen(text), JSON_ALLOW_NUL | JSON_DECODE_ANY, &err);
}

static int code_of(const char *text, enum rpc_kind *ret_kind)
{
	struct rpc_error err = { 0 };
	struct rpc_message m;
	json_t *json = load(text);
	int r = rpc_read(json, &m, &err);

	*ret_kind = m.kind;
	json_decref(json);
	return r < 0 ? err.code : 0;
}

TEST(message_types_are_distinguished)
{
	static const struct {
		const char *text;
		int code;
		enum rpc_kind kind;
	} table[] = {
		{ "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"a\"}", 0, RPC_REQUEST },
		{ "{\"method\":\"a\",\"jsonrpc\":\"2.0\"}", 0, RPC_NOTIFICATION },
		{ "{\"jsonrpc\":\"2.0\",\"id\":\"\",\"result\":{}}", 0, RPC_RESPONSE },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{}}", 0, RPC_RESPONSE },
		{ "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"a\"}", -32600, 0 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1.0,\"method\":\"a\"}", -32600, 0 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\\u0000\"}", -32600, 0 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"result\":1}", -32600,
		  0 },
		{ "{\"jsonrpc\":\"2.0\",\"result\":1}", -32600, 0 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":1}", -32602,
		  0 },
		{ "[]", -32600, 0 },
		{ "1", -32600, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		enum rpc_kind kind;

		EQ(code_of(table[i].text, &kind), table[i].code);
		if (table[i].code == 0)
			EQ((int)kind, (int)table[i].kind);
	}
}

TEST(the_protocol_era_is_chosen_by_header_and_body)
{
	json_t *modern =
		load("{\"params\":{\"_meta\":{\"" RPC_META "protocolVersion\":\"x\"}}}");
	json_t *legacy = load("{\"params\":{}}");

	EQ((int)rpc_era(NULL, legacy), (int)RPC_LEGACY);
	EQ((int)rpc_era("2025-06-18", legacy), (int)RPC_LEGACY);
	EQ((int)rpc_era("2026-07-28", legacy), (int)RPC_MODERN);
	EQ((int)rpc_era("nonsense", legacy), (int)RPC_MODERN);
	EQ((int)rpc_era(NULL, modern), (int)RPC_MODERN);
	EQ((int)rpc_era("2025-06-18", modern), (int)RPC_MODERN);
	STREQ(rpc_negotiate("2024-11-05"), "2024-11-05");
	STREQ(rpc_negotiate("2026-07-28"), "2025-11-25");
	STREQ(rpc_negotiate(NULL), "2025-11-25");
	json_decref(modern);
	json_decref(legacy);
}

static void check_fields(const struct mcp_object *o)
{
	for (size_t i = 0; i < o->n; i++) {
		const struct mcp_field *f = &o->fields[i];

		OK(f->name && f->about && f->about[strlen(f->about) - 1] == '.');
		OK(schema_find(o, f->name) == f); /* no name occurs twice */
		OK(f->min <= f->max || f->type == MCP_STRING);
		OK(!f->fallback || (f->fallback >= f->min && f->fallback <= f->max));
		OK((f->type == MCP_LIST) == (f->items != NULL));
	}
}

TEST(tools_are_complete)
{
	for (size_t i = 0; i < MCP_TOOL_COUNT; i++) {
		const struct mcp_tool *t = &mcp_tools[i];
		AUTO_BUF struct buf out = BUF_INIT(1U << 20);
		struct json j = { .out = &out };
		json_t *json;

		OK(t->name && t->title && t->description && t->scope);
		OK(strlen(t->name) <= 64);
		OK(mcp_tool_find(t->name) == t);
		OK(!(t->hints & MCP_READ_ONLY) || !(t->hints & MCP_DESTRUCTIVE));
		check_fields(&t->input);
		check_fields(&t->output);
		mcp_tool_write(&j, t);
		json = load(out.data);
		OK(json_is_object(json));
		STREQ(rpc_text(json_object_get(json, "inputSchema"), "type"), "object");
		STREQ(rpc_text(json_object_get(json, "outputSchema"), "type"), "object");
		json_decref(json);
	}
	OK(!mcp_tool_find("nonsense"));
}

static bool refuses(const char *tool, const char *args, const char *word)
{
	AUTO_BUF struct buf why = BUF_INIT(4096);
	json_t *json = load(args);
	bool fits = schema_check(&mcp_tool_find(tool)->input, json, &why);

	json_decref(json);
	return word ? !fits && strstr(why.data, word) : fits;
}

TEST(arguments_are_checked)
{
	OK(refuses("read_file", "{\"path\":\"/x\"}", NULL));
	OK(refuses("read_file", "{}", "path: this argument is required"));
	OK(refuses("read_file", "{\"path\":5}", "path: must be a string"));
	OK(refuses("read_file", "{\"path\":\"\"}", "path: must not be empty"));
	OK(refuses("read_file", "{\"path\":\"a\\u0000b\"}", "path: must not contain"));
	OK(refuses("read_file", "{\"path\":\"/x\",\"limit\":0}",
		   "limit: must be from 1"));
	OK(refuses("read_file", "{\"path\":\"/x\",\"limit\":\"1\"}",
		   "limit: must be an integer"));
	OK(refuses("read_file", "{\"path\":\"/x\",\"y\":1}",
		   "y: there is no such argument"));
	OK(refuses("run_command", "{\"command\":\"x\",\"env\":{\"A\":1}}",
		   "env: the value of"));
	OK(refuses("write_file", "{\"path\":\"/x\",\"content\":\"a\\u0000\"}", NULL));
	OK(refuses("sandbox_create", "{\"limits\":{\"memory\":\"1m\",\"pids\":5}}",
		   NULL));
	OK(refuses("sandbox_create", "{\"network\":\"x\"}",
		   "network: must be one of: none"));
	OK(refuses("edit_file",
		   "{\"path\":\"a\",\"old_text\":\"a\",\"new_text\":\"\","
		   "\"replace_all\":1}",
		   "replace_all: must be a boolean"));
}

TEST_MAIN()
