/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-mcp.c - any MCP message is parsed, checked for its protocol version, and its
 * arguments are checked */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/body.h"
#include "api/mcp/rpc.h"
#include "api/mcp/tools.h"

/* The output must be valid JSON. */
static void must_load(const struct buf *out)
{
	struct api_error err = { 0 };
	json_t *json =
		out->failed ? NULL : body_load(out->data, out->len, JSON_ALLOW_NUL, &err);

	if (!out->failed && !json)
		abort();
	json_decref(json);
}

static void check_arguments(json_t *json)
{
	const json_t *params = json_object_get(json, "params");
	const char *name = rpc_text(params, "name");
	const struct mcp_tool *tool = name ? mcp_tool_find(name) : NULL;
	AUTO_BUF struct buf why = BUF_INIT(4096);
	const json_t *args = json_object_get(params, "arguments");

	if (tool && (!args || json_is_object(args)) &&
	    !schema_check(&tool->input, args, &why) && !why.failed && why.len == 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);
	struct api_error why = { 0 };
	struct rpc_error err = { 0 };
	struct rpc_message m;
	json_t *json = body_load((const char *)data, size,
				 JSON_ALLOW_NUL | JSON_DECODE_ANY, &why);
	const char *version;
	struct rpc_headers h = { 0 };

	if (!json)
		return 0;
	version = rpc_text(json_object_get(json, "headers"), "version");
	if (rpc_read(json, &m, &err) < 0) {
		rpc_write_error(&out, NULL, &err);
	} else if (m.kind == RPC_REQUEST) {
		h.version = version;
		h.method = m.method;
		h.name = rpc_text(json_object_get(json, "headers"), "name");
		if (rpc_era(version, json) == RPC_MODERN &&
		    rpc_check_modern(&m, &h, &err) < 0)
			rpc_write_error(&out, m.id, &err);
		else
			rpc_write_result(&out, m.id, "{}", 2);
		check_arguments(json);
	}
	if (out.len > 0)
		must_load(&out);
	json_decref(json);
	return 0;
}
