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
	  .about = "Timeout in milliseconds. When it expires, the command and all its processes are killed." }
#define OUTPUT_ARG \
	{ "max_output", MCP_INTEGER, .min = 2, .max = MCP_OUTPUT_MAX, .fallback = MCP_OUTPUT_DEFAULT, \
	  .about = "Maximum bytes of stdout and of stderr to return. If there is more output, only its beginning and its end are returned." }
#define OUTPUT_RESULT \
	{ "stdout", MCP_STRING, true, .about = "Standard output. Bytes that are not valid UTF-8 are replaced with U+FFFD." }, \
	{ "stderr", MCP_STRING, true, .about = "Standard error, in the same form as stdout." }, \
	{ "exit_code", MCP_INTEGER, true, .about = "The exit code, or 128 plus the signal number if a signal ended the command." }, \
	{ "timed_out", MCP_BOOLEAN, true, .about = "Whether the command was killed because timeout_ms expired." }, \
	{ "duration_ms", MCP_INTEGER, true, .about = "Duration in milliseconds." }, \
	{ "truncated", MCP_BOOLEAN, true, .about = "Whether some output is missing." }

static const struct mcp_field run_command_in[] = {
	{ "command", MCP_STRING, true, .min = 1, .max = 131071, .about = "A command line for /bin/sh." },
	SANDBOX_ARG,
	{ "cwd", MCP_STRING, .min = 1, .max = 4095, .about = "Working directory. Default: the working directory of the sandbox." },
	{ "env", MCP_STRING_MAP, .max = 1024, .about = "Additional environment variables." },
	{ "user", MCP_STRING, .min = 1, .max = 64, .about = "User name or uid to run as. Default: the user of the sandbox." },
	{ "stdin", MCP_STRING, .nul = true, .about = "Text for standard input. Default: empty." },
	TIMEOUT_ARG,
	OUTPUT_ARG,
};
static const struct mcp_field run_command_out[] = {
	SANDBOX_RESULT,
	{ "exec", MCP_STRING, true, .about = "Id of the exec." },
	OUTPUT_RESULT,
	{ "signal", MCP_INTEGER, .about = "Number of the signal that ended the command." },
	{ "oom", MCP_BOOLEAN, true, .about = "Whether a process was killed because memory ran out." },
	{ "error", MCP_STRING, .about = "Why the result is incomplete." },
};

static const struct mcp_field read_file_in[] = {
	PATH_ARG("The file."),
	SANDBOX_ARG,
	{ "offset", MCP_INTEGER, .min = 1, .max = 1000000000, .fallback = 1, .about = "The first line to return." },
	{ "limit", MCP_INTEGER, .min = 1, .max = 100000, .fallback = 2000, .about = "Maximum number of lines to return. At most 256 KiB are returned in any case." },
};
static const struct mcp_field read_file_out[] = {
	SANDBOX_RESULT,
	PATH_RESULT,
	{ "content", MCP_STRING, true, .about = "The lines. Bytes that are not valid UTF-8 are replaced with U+FFFD." },
	{ "size", MCP_INTEGER, true, .about = "Size of the whole file in bytes." },
	{ "first_line", MCP_INTEGER, true, .about = "Number of the first line." },
	{ "truncated", MCP_BOOLEAN, true, .about = "Whether the file has more lines." },
	{ "next_offset", MCP_INTEGER, .about = "The offset to pass to read the following lines." },
	{ "binary", MCP_BOOLEAN, true, .about = "Whether the file is not valid UTF-8. If so, use download instead." },
};

static const struct mcp_field write_file_in[] = {
	PATH_ARG("The file."),
	{ "content", MCP_STRING, true, .nul = true, .about = "The whole new content." },
	SANDBOX_ARG,
};
static const struct mcp_field write_file_out[] = {
	SANDBOX_RESULT,
	PATH_RESULT,
	{ "size", MCP_INTEGER, true, .about = "Size of the file in bytes." },
	{ "created", MCP_BOOLEAN, true, .about = "Whether the file is new." },
};

static const struct mcp_field edit_file_in[] = {
	PATH_ARG("The file."),
	{ "old_text", MCP_STRING, true, .min = 1, .nul = true, .about = "The text to replace, exactly as it is in the file." },
	{ "new_text", MCP_STRING, true, .nul = true, .about = "The text to replace old_text with." },
	{ "replace_all", MCP_BOOLEAN, .about = "Replace every occurrence. Default: old_text must occur once." },
	SANDBOX_ARG,
};
static const struct mcp_field edit_file_out[] = {
	SANDBOX_RESULT,
	PATH_RESULT,
	{ "size", MCP_INTEGER, true, .about = "Size of the file in bytes." },
	{ "replacements", MCP_INTEGER, true, .about = "How many occurrences were replaced." },
};

static const struct mcp_field upload_in[] = {
	PATH_ARG("The file."),
	{ "data", MCP_STRING, true, .about = "The whole new content, in base64. The whole request may have at most 8 MiB." },
	{ "mode", MCP_STRING, .min = 1, .max = 4, .about = "Permissions of the file in octal, such as 0755. Default: those of the file that is replaced, or 0644 for a new file." },
	SANDBOX_ARG,
};

static const struct mcp_field download_in[] = {
	PATH_ARG("The file."),
	SANDBOX_ARG,
	{ "offset", MCP_INTEGER, .min = 0, .max = INT64_C(1) << 50, .about = "The first byte to return. Default: 0." },
	{ "limit", MCP_INTEGER, .min = 1, .max = MCP_DOWNLOAD_MAX, .fallback = MCP_DOWNLOAD_MAX, .about = "Maximum number of bytes to return." },
};
static const struct mcp_field download_out[] = {
	SANDBOX_RESULT,
	PATH_RESULT,
	{ "size", MCP_INTEGER, true, .about = "Size of the whole file in bytes." },
	{ "offset", MCP_INTEGER, true, .about = "Position in the file of the first returned byte." },
	{ "length", MCP_INTEGER, true, .about = "Number of bytes returned." },
	{ "end", MCP_BOOLEAN, true, .about = "Whether the returned bytes reach the end of the file." },
};

static const struct mcp_field code_artifact[] = {
	{ "path", MCP_STRING, true, .about = "Path of the file, relative to /sandbox." },
	{ "size", MCP_INTEGER, true, .about = "Size of the file in bytes." },
	{ "text", MCP_STRING, .about = "Content of the file, if it is valid UTF-8." },
	{ "base64", MCP_STRING, .about = "Content of the file in base64, if it is not valid UTF-8." },
};
static const struct mcp_field code_run_in[] = {
	{ "language", MCP_STRING, true, .min = 1, .max = 32, .about = "The language: python, javascript, typescript, bash, go, rust, c, c++, java, ruby, perl, php, r, lua, or a language that the service configures. The error for an unknown language lists all languages." },
	{ "code", MCP_STRING, true, .max = 4194304, .about = "The program." },
	{ "stdin", MCP_STRING, .nul = true, .about = "Text for standard input. Default: empty." },
	{ "args", MCP_STRING_LIST, .max = 1024, .about = "Arguments of the program." },
	{ "env", MCP_STRING_MAP, .max = 1024, .about = "Additional environment variables." },
	{ "files", MCP_STRING_MAP, .max = 256, .about = "Text files to write before the program runs: an object of paths and contents. Paths are relative to /sandbox, which is the working directory." },
	{ "files_base64", MCP_STRING_MAP, .max = 256, .about = "Binary files to write before the program runs: an object of paths relative to /sandbox and contents in base64." },
	{ "artifacts", MCP_STRING_LIST, .max = 32, .about = "Files to return, as shell patterns for paths below /sandbox, such as out/*.csv. At most 2 MiB are returned." },
	{ "limits", MCP_VALUE_MAP, .max = 16, .about = "Resource limits as integers: memory and disk (in bytes), and pids (number of processes)." },
	{ "image", MCP_STRING, .min = 1, .max = 255, .about = "Image to run the program in. Default: the image of the language." },
	{ "timeout_ms", MCP_INTEGER, .min = 1, .max = MCP_TIMEOUT_MAX, .about = "Timeout in milliseconds. When it expires, the program is killed. Default: set by the service." },
	OUTPUT_ARG,
};
static const struct mcp_field code_enforcement[] = {
	{ "name", MCP_STRING, true, .about = "The limit or protection." },
	{ "enforced", MCP_BOOLEAN, true, .about = "Whether the limit or protection is enforced." },
	{ "detail", MCP_STRING, true, .about = "How the limit or protection is enforced, or why it is not." },
};
static const struct mcp_field code_run_out[] = {
	{ "language", MCP_STRING, true, .about = "The name of the language." },
	{ "phase", MCP_STRING, true, .words = "compile run", .about = "The last phase that ran. It is compile if the compiler failed, so that the program did not run." },
	OUTPUT_RESULT,
	{ "signal", MCP_INTEGER, .about = "Number of the signal that ended the command." },
	{ "oom", MCP_BOOLEAN, true, .about = "Whether a process was killed because memory ran out." },
	{ "artifacts", MCP_LIST, true, .about = "The files that match the requested patterns, sorted by path.", .items = code_artifact, .n_items = ARRAY_SIZE(code_artifact) },
	{ "artifacts_complete", MCP_BOOLEAN, true, .about = "Whether all files that match the patterns are returned." },
	{ "enforced", MCP_LIST, true, .about = "Each limit and protection of the sandbox, and whether it was enforced.", .items = code_enforcement, .n_items = ARRAY_SIZE(code_enforcement) },
};

static const struct mcp_field session_run_in[] = {
	{ "command", MCP_STRING, true, .min = 1, .max = 1048576, .about = "Shell commands." },
	{ "session", MCP_STRING, .min = 1, .max = 63, .about = "Name of the shell in the sandbox. A shell is opened when its name is first used. Default: main." },
	SANDBOX_ARG,
	TIMEOUT_ARG,
	OUTPUT_ARG,
};
static const struct mcp_field session_run_out[] = {
	SANDBOX_RESULT,
	{ "session", MCP_STRING, true, .about = "Name of the shell." },
	OUTPUT_RESULT,
	{ "cwd", MCP_STRING, .about = "The working directory after the command." },
	{ "ended", MCP_BOOLEAN, true, .about = "Whether the shell has ended, for example because of exit. The next command then opens a new shell." },
	{ "new_state", MCP_BOOLEAN, true, .about = "Whether the command ran in a new shell because the sandbox hibernated: variables, directory and jobs from before are gone." },
};

#define ENTRY_FIELDS \
	{ "path", MCP_STRING, true, .about = "The absolute path." }, \
	{ "type", MCP_STRING, true, .words = "file directory link special", .about = "Type of the entry." }
static const struct mcp_field list_entry[] = {
	ENTRY_FIELDS,
	{ "size", MCP_INTEGER, .about = "Size in bytes, for a file." },
	{ "mode", MCP_STRING, true, .about = "Permissions in octal." },
	{ "modified_at", MCP_STRING, true, .about = "Time of the last modification." },
	{ "target", MCP_STRING, .about = "Target of the link, for a symbolic link." },
};
static const struct mcp_field list_files_in[] = {
	{ "path", MCP_STRING, .min = 1, .max = 4095, .about = "The directory. Default: the working directory of the sandbox." },
	SANDBOX_ARG,
	{ "depth", MCP_INTEGER, .min = 1, .max = 64, .fallback = 1, .about = "Maximum number of directory levels to list." },
	{ "limit", MCP_INTEGER, .min = 1, .max = 5000, .fallback = 1000, .about = "Maximum number of entries to return." },
};
static const struct mcp_field list_files_out[] = {
	SANDBOX_RESULT,
	PATH_RESULT,
	{ "entries", MCP_LIST, true, .about = "The entries, sorted by name.", .items = list_entry, .n_items = ARRAY_SIZE(list_entry) },
	{ "truncated", MCP_BOOLEAN, true, .about = "Whether there are more entries." },
};

static const struct mcp_field search_match[] = {
	ENTRY_FIELDS,
	{ "line", MCP_INTEGER, .about = "Number of the line that matches, counted from 1." },
	{ "column", MCP_INTEGER, .about = "Byte position in the line where the match begins, counted from 1." },
	{ "text", MCP_STRING, .about = "The line that matches, cut after 512 bytes." },
};
static const struct mcp_field search_files_in[] = {
	{ "path", MCP_STRING, .min = 1, .max = 4095, .about = "The directory to search. Default: the working directory of the sandbox." },
	{ "name", MCP_STRING, .min = 1, .max = 1024, .about = "A shell pattern for file names, such as *.py. A pattern with a slash is matched against the path relative to the directory." },
	{ "content", MCP_STRING, .min = 1, .max = 1024, .about = "Text that a line must contain." },
	{ "regex", MCP_BOOLEAN, .about = "Whether to treat content as an extended regular expression." },
	{ "ignore_case", MCP_BOOLEAN, .about = "Whether to ignore case." },
	{ "hidden", MCP_BOOLEAN, .about = "Whether to also search files and directories whose names begin with a dot." },
	{ "max_matches", MCP_INTEGER, .min = 1, .max = 2000, .fallback = 200, .about = "Maximum number of matches to return." },
	SANDBOX_ARG,
};
static const struct mcp_field search_files_out[] = {
	SANDBOX_RESULT,
	PATH_RESULT,
	{ "matches", MCP_LIST, true, .about = "The matches.", .items = search_match, .n_items = ARRAY_SIZE(search_match) },
	{ "truncated", MCP_BOOLEAN, true, .about = "Whether there may be more matches." },
	{ "timed_out", MCP_BOOLEAN, true, .about = "Whether the search was stopped after 30 seconds." },
};

static const struct mcp_field sandbox_create_in[] = {
	{ "image", MCP_STRING, .min = 1, .max = 255, .about = "Image to create the sandbox from, such as python:3.12. Default: the default image of the service." },
	{ "name", MCP_STRING, .min = 1, .max = 63, .about = "Name for the sandbox." },
	{ "template", MCP_STRING, .min = 1, .max = 63, .about = "A template that is configured in the service. It provides the values that are not given here." },
	{ "network", MCP_STRING, .words = "none loopback", .about = "Network of the sandbox. Default: loopback." },
	{ "workdir", MCP_STRING, .min = 1, .max = 4095, .about = "Working directory of the sandbox." },
	{ "user", MCP_STRING, .min = 1, .max = 64, .about = "User of the sandbox. Default: the user of the image." },
	{ "env", MCP_STRING_MAP, .max = 1024, .about = "Environment variables." },
	{ "labels", MCP_STRING_MAP, .max = 64, .about = "Labels to find the sandbox by." },
	{ "limits", MCP_VALUE_MAP, .max = 16, .about = "Resource limits, such as memory (bytes, or text such as 512m), cpu_millis, pids and disk." },
	{ "read_only", MCP_BOOLEAN, .about = "Whether the root filesystem of the sandbox is read-only." },
	{ "ttl_ms", MCP_INTEGER, .min = 1000, .max = INT64_C(31536000000), .about = "Milliseconds after which the sandbox is deleted. Default: set by the service." },
};
#define SANDBOX_FIELDS \
	SANDBOX_RESULT, \
	{ "state", MCP_STRING, true, .about = "State of the sandbox, such as running or paused." }, \
	{ "name", MCP_STRING, .about = "Name of the sandbox." }, \
	{ "image", MCP_STRING, .about = "Image of the sandbox." }, \
	{ "backend", MCP_STRING, true, .about = "Backend that runs the sandbox." }, \
	{ "tier", MCP_STRING, true, .about = "Isolation tier of the sandbox." }, \
	{ "created_at", MCP_STRING, true, .about = "Time when the sandbox was created." }, \
	{ "expires_at", MCP_STRING, .about = "Time when the sandbox will be deleted." }
static const struct mcp_field sandbox_out[] = { SANDBOX_FIELDS };
static const struct mcp_field sandbox_list_in[] = {
	{ "limit", MCP_INTEGER, .min = 1, .max = 100, .fallback = 50, .about = "Maximum number of sandboxes to return, newest first." },
	{ "before", MCP_INTEGER, .min = 0, .max = INT64_C(1) << 52, .about = "The value of next_before in an earlier result, to get the sandboxes that follow." },
};
static const struct mcp_field sandbox_list_out[] = {
	{ "sandboxes", MCP_LIST, true, .about = "The sandboxes.", .items = sandbox_out, .n_items = ARRAY_SIZE(sandbox_out) },
	{ "own", MCP_STRING, .about = "Id of the sandbox of this session." },
	{ "next_before", MCP_INTEGER, .about = "Present if there may be more sandboxes. Pass this value as 'before' to get them." },
};
static const struct mcp_field sandbox_in[] = { SANDBOX_ARG };
static const struct mcp_field sandbox_delete_out[] = {
	SANDBOX_RESULT,
	{ "deleted", MCP_BOOLEAN, true, .about = "Always true." },
};
static const struct mcp_field port_url_in[] = {
	{ "port", MCP_INTEGER, true, .min = 1, .max = 65535, .about = "The TCP port on which a server in the sandbox listens." },
	SANDBOX_ARG,
};
static const struct mcp_field port_url_out[] = {
	SANDBOX_RESULT,
	{ "port", MCP_INTEGER, true, .about = "The port." },
	{ "path", MCP_STRING, true, .about = "Path on this service that leads to the server." },
	{ "url", MCP_STRING, .about = "URL of the server, if the client reaches the service over TCP." },
	{ "access", MCP_STRING, true, .about = "The credentials that a request to the URL needs." },
};

const struct mcp_tool mcp_tools[MCP_TOOL_COUNT] = {
	[MCP_TOOL_RUN_COMMAND] = {
		"run_command", "Run a command",
		"Run a shell command in a sandbox and return its output and exit code. Each command starts in a new shell; use session_run to keep the working directory and variables. A command that fails is reported as a tool error that includes its output.",
		"exec", MCP_DESTRUCTIVE, MCP_OBJECT(run_command_in), MCP_OBJECT(run_command_out) },
	[MCP_TOOL_CODE_RUN] = {
		"code_run", "Run code",
		"Run a program in a new sandbox without a network, and return its output. Nothing is kept afterwards; use run_command to work in a sandbox that stays.",
		"exec", MCP_READ_ONLY, MCP_OBJECT(code_run_in), MCP_OBJECT(code_run_out) },
	[MCP_TOOL_SESSION_RUN] = {
		"session_run", "Run a command in a shell",
		"Run commands in a shell that keeps its state between calls: working directory, variables, functions. A shell runs one command at a time.",
		"exec", MCP_DESTRUCTIVE, MCP_OBJECT(session_run_in), MCP_OBJECT(session_run_out) },
	[MCP_TOOL_LIST_FILES] = {
		"list_files", "List files",
		"List a directory in a sandbox.",
		"files", MCP_READ_ONLY | MCP_IDEMPOTENT, MCP_OBJECT(list_files_in), MCP_OBJECT(list_files_out) },
	[MCP_TOOL_SEARCH_FILES] = {
		"search_files", "Search files",
		"Search a directory in a sandbox recursively, by name, by content, or both.",
		"files", MCP_READ_ONLY | MCP_IDEMPOTENT, MCP_OBJECT(search_files_in), MCP_OBJECT(search_files_out) },
	[MCP_TOOL_SANDBOX_CREATE] = {
		"sandbox_create", "Create a sandbox",
		"Create a sandbox and return its id, which other tools accept in 'sandbox'. The sandbox exists until it is deleted with sandbox_delete or ttl_ms expires, even after this session ends.",
		"write", 0, MCP_OBJECT(sandbox_create_in), MCP_OBJECT(sandbox_out) },
	[MCP_TOOL_SANDBOX_LIST] = {
		"sandbox_list", "List sandboxes",
		"List the sandboxes that this client can use.",
		"read", MCP_READ_ONLY | MCP_IDEMPOTENT, MCP_OBJECT(sandbox_list_in), MCP_OBJECT(sandbox_list_out) },
	[MCP_TOOL_SANDBOX_DELETE] = {
		"sandbox_delete", "Delete a sandbox",
		"Delete a sandbox with its processes and files.",
		"write", MCP_DESTRUCTIVE | MCP_IDEMPOTENT, MCP_OBJECT(sandbox_in), MCP_OBJECT(sandbox_delete_out) },
	[MCP_TOOL_SANDBOX_PAUSE] = {
		"sandbox_pause", "Pause a sandbox",
		"Freeze all processes in a sandbox. The sandbox keeps its memory and files.",
		"write", MCP_IDEMPOTENT, MCP_OBJECT(sandbox_in), MCP_OBJECT(sandbox_out) },
	[MCP_TOOL_SANDBOX_RESUME] = {
		"sandbox_resume", "Resume a sandbox",
		"Resume a paused sandbox.",
		"write", MCP_IDEMPOTENT, MCP_OBJECT(sandbox_in), MCP_OBJECT(sandbox_out) },
	[MCP_TOOL_PORT_URL] = {
		"port_url", "Get the URL of a port",
		"Return the URL of a server that listens on a port in a sandbox.",
		"exec", MCP_READ_ONLY | MCP_IDEMPOTENT, MCP_OBJECT(port_url_in), MCP_OBJECT(port_url_out) },
	[MCP_TOOL_READ_FILE] = {
		"read_file", "Read a file",
		"Return lines of a text file in a sandbox.",
		"files", MCP_READ_ONLY | MCP_IDEMPOTENT, MCP_OBJECT(read_file_in), MCP_OBJECT(read_file_out) },
	[MCP_TOOL_WRITE_FILE] = {
		"write_file", "Write a file",
		"Create or replace a text file in a sandbox. Missing directories are created. The file is replaced in one step.",
		"files", MCP_DESTRUCTIVE | MCP_IDEMPOTENT, MCP_OBJECT(write_file_in), MCP_OBJECT(write_file_out) },
	[MCP_TOOL_EDIT_FILE] = {
		"edit_file", "Edit a file",
		"Replace text in a file in a sandbox. The text must occur exactly once, unless replace_all is set.",
		"files", MCP_DESTRUCTIVE, MCP_OBJECT(edit_file_in), MCP_OBJECT(edit_file_out) },
	[MCP_TOOL_UPLOAD] = {
		"upload", "Upload a file",
		"Create or replace a file in a sandbox with bytes in base64. Use write_file for text.",
		"files", MCP_DESTRUCTIVE | MCP_IDEMPOTENT, MCP_OBJECT(upload_in), MCP_OBJECT(write_file_out) },
	[MCP_TOOL_DOWNLOAD] = {
		"download", "Download a file",
		"Return bytes of a file in a sandbox, as an embedded resource in base64. A whole PNG, JPEG, GIF or WebP file is returned as an image. Use read_file for text.",
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
