/* SPDX-License-Identifier: Apache-2.0 */
/* tools.h - the table of tools, without their handlers */
#ifndef API_MCP_TOOLS_H
#define API_MCP_TOOLS_H

#include "api/mcp/schema.h"

/* In the order of tools/list. */
#define MCP_TOOLS(X)                      \
	X(CODE_RUN, code_run)             \
	X(RUN_COMMAND, run_command)       \
	X(SESSION_RUN, session_run)       \
	X(READ_FILE, read_file)           \
	X(WRITE_FILE, write_file)         \
	X(EDIT_FILE, edit_file)           \
	X(LIST_FILES, list_files)         \
	X(SEARCH_FILES, search_files)     \
	X(UPLOAD, upload)                 \
	X(DOWNLOAD, download)             \
	X(SANDBOX_CREATE, sandbox_create) \
	X(SANDBOX_LIST, sandbox_list)     \
	X(SANDBOX_DELETE, sandbox_delete) \
	X(SANDBOX_PAUSE, sandbox_pause)   \
	X(SANDBOX_RESUME, sandbox_resume) \
	X(PORT_URL, port_url)

enum mcp_tool_id {
#define MCP_TOOL_ID(id, name) MCP_TOOL_##id,
	MCP_TOOLS(MCP_TOOL_ID)
#undef MCP_TOOL_ID
	MCP_TOOL_COUNT,
};

/* Hints for clients; those that are not set are false. */
enum mcp_hint {
	MCP_READ_ONLY = 1 << 0,
	MCP_DESTRUCTIVE = 1 << 1,
	MCP_IDEMPOTENT = 1 << 2,
	MCP_OPEN_WORLD = 1 << 3,
};

struct mcp_tool {
	const char *name, *title, *description;
	const char *scope; /* scope that a token must have */
	unsigned hints;    /* bits of enum mcp_hint */
	struct mcp_object input, output;
};

extern const struct mcp_tool mcp_tools[MCP_TOOL_COUNT];

/* Find a tool by name; NULL: there is no such tool. */
const struct mcp_tool *mcp_tool_find(const char *name);
/* Write one tool, as in tools/list. */
void mcp_tool_write(struct json *j, const struct mcp_tool *tool);

/* Limits that the descriptions of the tools mention. */
#define MCP_OUTPUT_DEFAULT  65536
#define MCP_OUTPUT_MAX      262144
#define MCP_TIMEOUT_DEFAULT 60000
#define MCP_TIMEOUT_MAX     3600000
#define MCP_READ_MAX        262144  /* maximum number of bytes of text in one response */
#define MCP_DOWNLOAD_MAX    4194304 /* maximum number of bytes of a file in one response */
#define MCP_EDIT_MAX        4194304 /* maximum size of a file that is edited */

#endif /* API_MCP_TOOLS_H */
