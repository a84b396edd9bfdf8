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
	{ "env", MCP_STRING_MAP, .max = 1024, .about = "Further environment variables." },
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

static const struct mcp_field code_artifact[] = {
	{ "path", MCP_STRING, true, .about = "Its path below /sandbox." },
	{ "size", MCP_INTEGER, true, .about = "Its bytes." },
	{ "text", MCP_STRING, .about = "Its content, if it is UTF-8." },
	{ "base64", MCP_STRING, .about = "Its content, if it is not." },
};
static const struct mcp_field code_run_in[] = {
	{ "language", MCP_STRING, true, .min = 1, .max = 32, .about = "The language: python, javascript, typescript, bash, go, rust, c, c++, java, ruby, perl, php, r, lua, and those of the service. The error for another one lists all." },
	{ "code", MCP_STRING, true, .max = 4194304, .about = "The program." },
	{ "stdin", MCP_STRING, .nul = true, .about = "Text for standard input. Default: it is empty." },
	{ "args", MCP_STRING_LIST, .max = 1024, .about = "Arguments of the program." },
	{ "env", MCP_STRING_MAP, .max = 1024, .about = "Further environment variables." },
	{ "files", MCP_STRING_MAP, .max = 256, .about = "Text files to write before it runs, by path below /sandbox, which is the working directory." },
	{ "files_base64", MCP_STRING_MAP, .max = 256, .about = "The same for bytes, in base64." },
	{ "artifacts", MCP_STRING_LIST, .max = 32, .about = "Files to return, as shell patterns for paths below /sandbox, such as out/*.csv. At most 2 MiB are returned." },
	{ "limits", MCP_VALUE_MAP, .max = 16, .about = "Limits as integers: memory and disk in bytes, and pids." },
	{ "image", MCP_STRING, .min = 1, .max = 255, .about = "The image of its files. Default: that of the language." },
	{ "timeout_ms", MCP_INTEGER, .min = 1, .max = MCP_TIMEOUT_MAX, .about = "Milliseconds after which it is killed. Default: that of the service." },
	OUTPUT_ARG,
};
static const struct mcp_field code_enforcement[] = {
	{ "name", MCP_STRING, true, .about = "The limit or protection." },
	{ "enforced", MCP_BOOLEAN, true, .about = "Whether it is enforced." },
	{ "detail", MCP_STRING, true, .about = "How, or why not." },
};
static const struct mcp_field code_run_out[] = {
	{ "language", MCP_STRING, true, .about = "The name of the language." },
	{ "phase", MCP_STRING, true, .words = "compile run", .about = "compile if the compiler failed, so that the program did not run." },
	OUTPUT_RESULT,
	{ "signal", MCP_INTEGER, .about = "The signal that ended it." },
	{ "oom", MCP_BOOLEAN, true, .about = "Whether a process was killed because memory ran out." },
	{ "artifacts", MCP_LIST, true, .about = "The files, sorted by path.", .items = code_artifact, .n_items = ARRAY_SIZE(code_artifact) },
	{ "artifacts_complete", MCP_BOOLEAN, true, .about = "Whether all files that match are returned." },
	{ "enforced", MCP_LIST, true, .about = "Each limit and protection of its sandbox, and whether it was enforced.", .items = code_enforcement, .n_items = ARRAY_SIZE(code_enforcement) },
};

static const struct mcp_field session_run_in[] = {
	{ "command", MCP_STRING, true, .min = 1, .max = 1048576, .about = "Shell commands." },
	{ "session", MCP_STRING, .min = 1, .max = 63, .about = "Name of the shell in the sandbox; it is opened on first use. Default: main." },
	SANDBOX_ARG,
	TIMEOUT_ARG,
	OUTPUT_ARG,
};
static const struct mcp_field session_run_out[] = {
	SANDBOX_RESULT,
	{ "session", MCP_STRING, true, .about = "Name of the shell." },
	OUTPUT_RESULT,
	{ "cwd", MCP_STRING, .about = "The working directory after the command." },
	{ "ended", MCP_BOOLEAN, true, .about = "Whether the shell has ended, such as by exit; the next command opens a new one." },
};

#define ENTRY_FIELDS \
	{ "path", MCP_STRING, true, .about = "The absolute path." }, \
	{ "type", MCP_STRING, true, .words = "file directory link special", .about = "What it is." }
static const struct mcp_field list_entry[] = {
	ENTRY_FIELDS,
	{ "size", MCP_INTEGER, .about = "Bytes of a file." },
	{ "mode", MCP_STRING, true, .about = "Permissions in octal." },
	{ "modified_at", MCP_STRING, true, .about = "When it was modified." },
	{ "target", MCP_STRING, .about = "Where a link points to." },
};
static const struct mcp_field list_files_in[] = {
	{ "path", MCP_STRING, .min = 1, .max = 4095, .about = "The directory. Default: the working directory of the sandbox." },
	SANDBOX_ARG,
	{ "depth", MCP_INTEGER, .min = 1, .max = 64, .fallback = 1, .about = "How many levels of directories to list." },
	{ "limit", MCP_INTEGER, .min = 1, .max = 5000, .fallback = 1000, .about = "How many entries to return." },
};
static const struct mcp_field list_files_out[] = {
	SANDBOX_RESULT,
	PATH_RESULT,
	{ "entries", MCP_LIST, true, .about = "The entries, sorted by name.", .items = list_entry, .n_items = ARRAY_SIZE(list_entry) },
	{ "truncated", MCP_BOOLEAN, true, .about = "Whether there are more entries." },
};

static const struct mcp_field search_match[] = {
	ENTRY_FIELDS,
	{ "line", MCP_INTEGER, .about = "Number of the line that matches, from 1." },
	{ "column", MCP_INTEGER, .about = "Byte of the line where the match begins, from 1." },
	{ "text", MCP_STRING, .about = "The line, at most 512 bytes of it." },
};
static const struct mcp_field search_files_in[] = {
	{ "path", MCP_STRING, .min = 1, .max = 4095, .about = "The directory to search. Default: the working directory of the sandbox." },
	{ "name", MCP_STRING, .min = 1, .max = 1024, .about = "A shell pattern for the name, such as *.py; with a slash, for the path below the directory." },
	{ "content", MCP_STRING, .min = 1, .max = 1024, .about = "A text that a line must contain." },
	{ "regex", MCP_BOOLEAN, .about = "Whether content is an extended regular expression." },
	{ "ignore_case", MCP_BOOLEAN, .about = "Whether upper and lower case are the same." },
	{ "hidden", MCP_BOOLEAN, .about = "Whether to search files whose name begins with a dot." },
	{ "max_matches", MCP_INTEGER, .min = 1, .max = 2000, .fallback = 200, .about = "How many matches to return." },
	SANDBOX_ARG,
};
static const struct mcp_field search_files_out[] = {
	SANDBOX_RESULT,
	PATH_RESULT,
	{ "matches", MCP_LIST, true, .about = "The matches.", .items = search_match, .n_items = ARRAY_SIZE(search_match) },
	{ "truncated", MCP_BOOLEAN, true, .about = "Whether there may be more matches." },
	{ "timed_out", MCP_BOOLEAN, true, .about = "Whether the search was ended after 30 seconds." },
};

static const struct mcp_field sandbox_create_in[] = {
	{ "image", MCP_STRING, .min = 1, .max = 255, .about = "The image of its files, such as python:3.12. Default: that of the service." },
	{ "name", MCP_STRING, .min = 1, .max = 63, .about = "A name for it." },
	{ "template", MCP_STRING, .min = 1, .max = 63, .about = "A template of the service for what is not given here." },
	{ "network", MCP_STRING, .words = "none loopback", .about = "Its network. Default: loopback." },
	{ "workdir", MCP_STRING, .min = 1, .max = 4095, .about = "Its working directory." },
	{ "user", MCP_STRING, .min = 1, .max = 64, .about = "Its user. Default: that of the image." },
	{ "env", MCP_STRING_MAP, .max = 1024, .about = "Environment variables." },
	{ "labels", MCP_STRING_MAP, .max = 64, .about = "Labels to find it by." },
	{ "limits", MCP_VALUE_MAP, .max = 16, .about = "Limits, such as memory (bytes, or a text like 512m), cpu_millis, pids, disk." },
	{ "read_only", MCP_BOOLEAN, .about = "Whether its files cannot be changed." },
	{ "ttl_ms", MCP_INTEGER, .min = 1000, .max = INT64_C(31536000000), .about = "Milliseconds after which it is deleted. Default: that of the service." },
};
#define SANDBOX_FIELDS \
	SANDBOX_RESULT, \
	{ "state", MCP_STRING, true, .about = "Its state, such as running or paused." }, \
	{ "name", MCP_STRING, .about = "Its name." }, \
	{ "image", MCP_STRING, .about = "Its image." }, \
	{ "backend", MCP_STRING, true, .about = "The backend that runs it." }, \
	{ "tier", MCP_STRING, true, .about = "How strongly it is isolated." }, \
	{ "created_at", MCP_STRING, true, .about = "When it was created." }, \
	{ "expires_at", MCP_STRING, .about = "When it will be deleted." }
static const struct mcp_field sandbox_out[] = { SANDBOX_FIELDS };
static const struct mcp_field sandbox_list_in[] = {
	{ "limit", MCP_INTEGER, .min = 1, .max = 100, .fallback = 50, .about = "How many sandboxes to return, the newest first." },
	{ "before", MCP_INTEGER, .min = 0, .max = INT64_C(1) << 52, .about = "The next_before of an earlier result, to continue it." },
};
static const struct mcp_field sandbox_list_out[] = {
	{ "sandboxes", MCP_LIST, true, .about = "The sandboxes.", .items = sandbox_out, .n_items = ARRAY_SIZE(sandbox_out) },
	{ "own", MCP_STRING, .about = "Id of the sandbox of this session." },
	{ "next_before", MCP_INTEGER, .about = "There may be more: pass it as before." },
};
static const struct mcp_field sandbox_in[] = { SANDBOX_ARG };
static const struct mcp_field sandbox_delete_out[] = {
	SANDBOX_RESULT,
	{ "deleted", MCP_BOOLEAN, true, .about = "True." },
};
static const struct mcp_field port_url_in[] = {
	{ "port", MCP_INTEGER, true, .min = 1, .max = 65535, .about = "The TCP port on which a server in the sandbox listens." },
	SANDBOX_ARG,
};
static const struct mcp_field port_url_out[] = {
	SANDBOX_RESULT,
	{ "port", MCP_INTEGER, true, .about = "The port." },
	{ "path", MCP_STRING, true, .about = "The path at this service that leads to the server." },
	{ "url", MCP_STRING, .about = "The URL, if the client uses the service over TCP." },
	{ "access", MCP_STRING, true, .about = "What a request needs." },
};

const struct mcp_tool mcp_tools[MCP_TOOL_COUNT] = {
	[MCP_TOOL_RUN_COMMAND] = {
		"run_command", "Run a command",
		"Run a shell command in a sandbox and return its output and exit code. Each command starts in a new shell; use session_run to keep the working directory and variables. A command that fails is an error of the tool, with its output.",
		"exec", MCP_DESTRUCTIVE, MCP_OBJECT(run_command_in), MCP_OBJECT(run_command_out) },
	[MCP_TOOL_CODE_RUN] = {
		"code_run", "Run code",
		"Run a program in a new sandbox without a network, and return its output. Nothing is kept afterwards; use run_command to work in a sandbox that stays.",
		"exec", MCP_READ_ONLY, MCP_OBJECT(code_run_in), MCP_OBJECT(code_run_out) },
	[MCP_TOOL_SESSION_RUN] = {
		"session_run", "Run a command in a shell",
		"Run commands in a shell of a sandbox that keeps its state: working directory, variables, functions. A shell runs one command at a time.",
		"exec", MCP_DESTRUCTIVE, MCP_OBJECT(session_run_in), MCP_OBJECT(session_run_out) },
	[MCP_TOOL_LIST_FILES] = {
		"list_files", "List files",
		"List a directory of a sandbox.",
		"files", MCP_READ_ONLY | MCP_IDEMPOTENT, MCP_OBJECT(list_files_in), MCP_OBJECT(list_files_out) },
	[MCP_TOOL_SEARCH_FILES] = {
		"search_files", "Search files",
		"Search a directory of a sandbox and all below it, by name, by content, or both.",
		"files", MCP_READ_ONLY | MCP_IDEMPOTENT, MCP_OBJECT(search_files_in), MCP_OBJECT(search_files_out) },
	[MCP_TOOL_SANDBOX_CREATE] = {
		"sandbox_create", "Create a sandbox",
		"Create a sandbox and return its id, which other tools take in 'sandbox'. It stays until sandbox_delete or ttl_ms, also after this session.",
		"write", 0, MCP_OBJECT(sandbox_create_in), MCP_OBJECT(sandbox_out) },
	[MCP_TOOL_SANDBOX_LIST] = {
		"sandbox_list", "List sandboxes",
		"List the sandboxes that can be used.",
		"read", MCP_READ_ONLY | MCP_IDEMPOTENT, MCP_OBJECT(sandbox_list_in), MCP_OBJECT(sandbox_list_out) },
	[MCP_TOOL_SANDBOX_DELETE] = {
		"sandbox_delete", "Delete a sandbox",
		"Delete a sandbox with its processes and files.",
		"write", MCP_DESTRUCTIVE | MCP_IDEMPOTENT, MCP_OBJECT(sandbox_in), MCP_OBJECT(sandbox_delete_out) },
	[MCP_TOOL_SANDBOX_PAUSE] = {
		"sandbox_pause", "Pause a sandbox",
		"Freeze all processes of a sandbox. It keeps its memory and files.",
		"write", MCP_IDEMPOTENT, MCP_OBJECT(sandbox_in), MCP_OBJECT(sandbox_out) },
	[MCP_TOOL_SANDBOX_RESUME] = {
		"sandbox_resume", "Resume a sandbox",
		"Continue a paused sandbox.",
		"write", MCP_IDEMPOTENT, MCP_OBJECT(sandbox_in), MCP_OBJECT(sandbox_out) },
	[MCP_TOOL_PORT_URL] = {
		"port_url", "Get the URL of a port",
		"Return the URL of a server that listens on a port in a sandbox.",
		"exec", MCP_READ_ONLY | MCP_IDEMPOTENT, MCP_OBJECT(port_url_in), MCP_OBJECT(port_url_out) },
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
