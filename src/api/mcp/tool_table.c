/* SPDX-License-Identifier: Apache-2.0 */
/* tool_table.c - the table of tools: names, texts, arguments, results, hints */
#include <string.h>

#include "api/mcp/tools.h"
#include "base/macro.h"

/* clang-format off */
#define SANDBOX_ARG \
	{ "sandbox", MCP_STRING, .min = 1, .max = 63, \
	  .about = "Id or name of the sandbox. Default: the sandbox of this session, which is created on first use." }
#define SANDBOX_RESULT \
	{ "sandbox", MCP_STRING, true, .about = "Id of the sandbox." }
#define PATH_ARG(what) \
	{ "path", MCP_STRING, true, .min = 1, .max = 4095, \
	  .about = what " A relative path is below the working directory of the sandbox." }
#define PATH_RESULT \
	{ "path", MCP_STRING, true, .about = "The absolute path." }
#define TIMEOUT_ARG \
	{ "timeout_ms", MCP_INTEGER, .min = 1, .max = MCP_TIMEOUT_MAX, .fallback = MCP_TIMEOUT_DEFAULT, \
	  .about = "Milliseconds after which it is killed, with all its processes." }
#define OUTPUT_ARG \
	{ "max_output", MCP_INTEGER, .min = 2, .max = MCP_OUTPUT_MAX, .fallback = MCP_OUTPUT_DEFAULT, \
	  .about = "Bytes of stdout and of stderr to return. Of longer output, the beginning and the end are returned." }
#define OUTPUT_RESULT \
	{ "stdout", MCP_STRING, true, .about = "Standard output. Bytes that are not UTF-8 are U+FFFD." }, \
	{ "stderr", MCP_STRING, true, .about = "Standard error." }, \
	{ "exit_code", MCP_INTEGER, true, .about = "The exit code; 128 and the number of the signal if a signal ended it." }, \
	{ "timed_out", MCP_BOOLEAN, true, .about = "Whether it was stopped because of timeout_ms." }, \
	{ "duration_ms", MCP_INTEGER, true, .about = "How long it took." }, \
	{ "truncated", MCP_BOOLEAN, true, .about = "Whether some output is missing." }

static const struct mcp_field run_command_in[] = {
	{ "command", MCP_STRING, true, .min = 1, .max = 131071, .about = "A command line for /bin/sh." },
	SANDBOX_ARG,
	{ "cwd", MCP_STRING, .min = 1, .max = 4095, .about = "Working directory. Default: that of the sandbox." },
	{ "env", MCP_STRING_MAP, .about = "Further environment variables." },
	{ "user", MCP_STRING, .min = 1, .max = 64, .about = "User or uid to run as. Default: that of the sandbox." },
	{ "stdin", MCP_STRING, .nul = true, .about = "Text for standard input. Default: it is empty." },
	TIMEOUT_ARG,
	OUTPUT_ARG,
};
static const struct mcp_field run_command_out[] = {
	SANDBOX_RESULT,
	{ "exec", MCP_STRING, true, .about = "Id of the exec." },
	OUTPUT_RESULT,
	{ "signal", MCP_INTEGER, .about = "The signal that ended it." },
	{ "oom", MCP_BOOLEAN, true, .about = "Whether a process was killed because memory ran out." },
	{ "error", MCP_STRING, .about = "Why the result is incomplete." },
};

static const struct mcp_field read_file_in[] = {
	PATH_ARG("The file."),
	SANDBOX_ARG,
	{ "offset", MCP_INTEGER, .min = 1, .max = 1000000000, .fallback = 1, .about = "The first line to return." },
	{ "limit", MCP_INTEGER, .min = 1, .max = 100000, .fallback = 2000, .about = "How many lines to return. At most 256 KiB are returned." },
};
static const struct mcp_field read_file_out[] = {
	SANDBOX_RESULT,
	PATH_RESULT,
	{ "content", MCP_STRING, true, .about = "The lines. Bytes that are not UTF-8 are U+FFFD." },
	{ "size", MCP_INTEGER, true, .about = "Bytes of the whole file." },
	{ "first_line", MCP_INTEGER, true, .about = "Number of the first line." },
	{ "truncated", MCP_BOOLEAN, true, .about = "Whether the file has more lines." },
	{ "next_offset", MCP_INTEGER, .about = "The offset to continue with." },
	{ "binary", MCP_BOOLEAN, true, .about = "Whether it is not UTF-8; then use download." },
};

static const struct mcp_field write_file_in[] = {
	PATH_ARG("The file."),
	{ "content", MCP_STRING, true, .nul = true, .about = "The whole new content." },
	SANDBOX_ARG,
};
static const struct mcp_field write_file_out[] = {
	SANDBOX_RESULT,
	PATH_RESULT,
	{ "size", MCP_INTEGER, true, .about = "Bytes of the file." },
	{ "created", MCP_BOOLEAN, true, .about = "Whether there was no such file before." },
};

static const struct mcp_field edit_file_in[] = {
	PATH_ARG("The file."),
	{ "old_text", MCP_STRING, true, .min = 1, .nul = true, .about = "The text to replace, exactly as it is in the file." },
	{ "new_text", MCP_STRING, true, .nul = true, .about = "The text to put there." },
	{ "replace_all", MCP_BOOLEAN, .about = "Replace every occurrence. Default: old_text must occur once." },
	SANDBOX_ARG,
};
static const struct mcp_field edit_file_out[] = {
	SANDBOX_RESULT,
	PATH_RESULT,
	{ "size", MCP_INTEGER, true, .about = "Bytes of the file." },
	{ "replacements", MCP_INTEGER, true, .about = "How many occurrences were replaced." },
};

static const struct mcp_field upload_in[] = {
	PATH_ARG("The file."),
	{ "data", MCP_STRING, true, .about = "The whole new content, in base64. A request can have 8 MiB." },
	{ "mode", MCP_STRING, .min = 1, .max = 4, .about = "Its mode in octal, such as 0755. Default: 0644, or that of the file that it replaces." },
	SANDBOX_ARG,
};

static const struct mcp_field download_in[] = {
	PATH_ARG("The file."),
	SANDBOX_ARG,
	{ "offset", MCP_INTEGER, .min = 0, .max = INT64_C(1) << 50, .about = "The first byte to return. Default: 0." },
	{ "limit", MCP_INTEGER, .min = 1, .max = MCP_DOWNLOAD_MAX, .fallback = MCP_DOWNLOAD_MAX, .about = "How many bytes to return." },
};
static const struct mcp_field download_out[] = {
	SANDBOX_RESULT,
	PATH_RESULT,
	{ "size", MCP_INTEGER, true, .about = "Bytes of the whole file." },
	{ "offset", MCP_INTEGER, true, .about = "Where the returned bytes begin." },
	{ "length", MCP_INTEGER, true, .about = "How many bytes are returned." },
	{ "end", MCP_BOOLEAN, true, .about = "Whether they reach the end of the file." },
};

const struct mcp_tool mcp_tools[MCP_TOOL_COUNT] = {
	[MCP_TOOL_RUN_COMMAND] = {
		"run_command", "Run a command",
		"Run a shell command in a sandbox and return its output and exit code. Each command starts in a new shell; use session_run to keep the working directory and variables. A command that fails is an error of the tool, with its output.",
		"exec", MCP_DESTRUCTIVE, MCP_OBJECT(run_command_in), MCP_OBJECT(run_command_out) },
	[MCP_TOOL_READ_FILE] = {
		"read_file", "Read a file",
		"Return lines of a text file of a sandbox.",
		"files", MCP_READ_ONLY | MCP_IDEMPOTENT, MCP_OBJECT(read_file_in), MCP_OBJECT(read_file_out) },
	[MCP_TOOL_WRITE_FILE] = {
		"write_file", "Write a file",
		"Create or replace a text file of a sandbox. Missing directories are created. The file is replaced in one step.",
		"files", MCP_DESTRUCTIVE | MCP_IDEMPOTENT, MCP_OBJECT(write_file_in), MCP_OBJECT(write_file_out) },
	[MCP_TOOL_EDIT_FILE] = {
		"edit_file", "Edit a file",
		"Replace a text in a file of a sandbox. The text must occur exactly once, unless replace_all is set.",
		"files", MCP_DESTRUCTIVE, MCP_OBJECT(edit_file_in), MCP_OBJECT(edit_file_out) },
	[MCP_TOOL_UPLOAD] = {
		"upload", "Upload a file",
		"Create or replace a file of a sandbox with bytes in base64. Use write_file for text.",
		"files", MCP_DESTRUCTIVE | MCP_IDEMPOTENT, MCP_OBJECT(upload_in), MCP_OBJECT(write_file_out) },
	[MCP_TOOL_DOWNLOAD] = {
		"download", "Download a file",
		"Return bytes of a file of a sandbox, as an embedded resource in base64. Use read_file for text.",
		"files", MCP_READ_ONLY | MCP_IDEMPOTENT, MCP_OBJECT(download_in), MCP_OBJECT(download_out) },
};
/* clang-format on */

const struct mcp_tool *mcp_tool_find(const char *name)
{
	for (size_t i = 0; i < MCP_TOOL_COUNT; i++)
		if (strcmp(mcp_tools[i].name, name) == 0)
			return &mcp_tools[i];
	return NULL;
}

void mcp_tool_write(struct json *j, const struct mcp_tool *tool)
{
	static const struct {
		unsigned bit;
		const char *name;
	} hints[] = {
		{ MCP_READ_ONLY, "readOnlyHint" },
		{ MCP_DESTRUCTIVE, "destructiveHint" },
		{ MCP_IDEMPOTENT, "idempotentHint" },
		{ MCP_OPEN_WORLD, "openWorldHint" },
	};

	json_open(j, NULL, '{');
	json_str(j, "name", tool->name);
	json_str(j, "title", tool->title);
	json_str(j, "description", tool->description);
	schema_write(j, "inputSchema", &tool->input, true);
	schema_write(j, "outputSchema", &tool->output, false);
	json_open(j, "annotations", '{');
	json_str(j, "title", tool->title);
	for (size_t i = 0; i < ARRAY_SIZE(hints); i++)
		json_bool(j, hints[i].name, tool->hints & hints[i].bit);
	json_close(j, '}');
	json_close(j, '}');
}
