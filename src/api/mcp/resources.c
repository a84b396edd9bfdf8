/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resources.c - resources: the files of a sandbox, the output of its execs, and the list
 * of sandboxes
 *
 *	warren://SANDBOX/path/to/file
 *	warren-log://SANDBOX/EXEC
 *	warren-list://sandboxes
 *
 * If a resource cannot be read, the request fails: the error is not part of a result, as
 * it is for tools (mcp_tool_error()).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/mcp/filing.h"
#include "base/percent.h"
#include "base/utf8.h"
#include "service/exec/exec.h"

#define FILES     "warren://"
#define LOGS      "warren-log://"
#define SANDBOXES "warren-list://sandboxes"
#define URI_MAX   8192

static const struct resource_row {
	const char *uri; /* a URI, or a template (RFC 6570) */
	bool is_template;
	const char *name, *title, *about, *type;
} resource_table[] = {
	{ SANDBOXES, false, "sandboxes", "Sandboxes", "The sandboxes that can be used.",
	  "application/json" },
	{ FILES "{sandbox}/{+path}", true, "file", "File", "A file of a sandbox.", NULL },
	{ LOGS "{sandbox}/{exec}", true, "log", "Output of an exec",
	  "The output of a command so far, at most its first and last 128 KiB.",
	  "text/plain" },
};

static void resource_list(struct mcp_call *c, bool templates)
{
	AUTO_BUF struct buf out = BUF_INIT(65536);
	struct json j = { .out = &out };

	if (!mcp_list_open(c, &j, templates ? "resourceTemplates" : "resources"))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(resource_table); i++) {
		const struct resource_row *r = &resource_table[i];

		if (r->is_template != templates)
			continue;
		json_open(&j, NULL, '{');
		json_str(&j, templates ? "uriTemplate" : "uri", r->uri);
		json_str(&j, "name", r->name);
		json_str(&j, "title", r->title);
		json_str(&j, "description", r->about);
		if (r->type)
			json_str(&j, "mimeType", r->type);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	json_close(&j, '}');
	mcp_call_result(c, &out);
}

void mcp_resources_list(struct mcp_call *c)
{
	resource_list(c, false);
}

void mcp_resources_templates(struct mcp_call *c)
{
	resource_list(c, true);
}

bool mcp_resource_is_template(const char *uri)
{
	for (size_t i = 0; i < ARRAY_SIZE(resource_table); i++)
		if (resource_table[i].is_template &&
		    strcmp(resource_table[i].uri, uri) == 0)
			return true;
	return false;
}

void mcp_resource_error(struct mcp_call *c, const char *text)
{
	struct rpc_error err;
	struct buf data = BUF_IN(err.data);
	struct json j = { .out = &data };
	const char *uri = rpc_text(c->params, "uri");

	(void)rpc_error_set(
		&err, c->era == RPC_MODERN ? RPC_INVALID_PARAMS : RPC_RESOURCE_NOT_FOUND,
		"%s", text);
	json_open(&j, NULL, '{');
	json_str(&j, "uri", uri ? uri : "");
	json_close(&j, '}');
	if (data.failed)
		err.data[0] = '\0';
	mcp_call_fail(c, &err);
}

/* --------------------------------------------------------------------- reading */

/* Write the result; may run on any thread. */
static void resource_write(enum rpc_era era, const char *uri, const char *type,
			   const struct buf *data, struct buf *out)
{
	const char *bytes = data->data ? data->data : "";
	struct json j = { .out = out };
	bool text = utf8_valid(bytes, data->len);

	mcp_result_open(&j, era, true);
	json_open(&j, "contents", '[');
	json_open(&j, NULL, '{');
	json_str(&j, "uri", uri);
	json_str(&j, "mimeType",
		 type   ? type
		 : text ? "text/plain"
			: "application/octet-stream");
	if (text || type)
		json_strn(&j, "text", bytes, data->len);
	else
		json_base64(&j, "blob", bytes, data->len);
	json_close(&j, '}');
	json_close(&j, ']');
	json_close(&j, '}');
	out->failed = out->failed || data->failed;
}

struct resource_job {
	struct mcp_call *call; /* a reference to the call, which owns the URI */
	enum rpc_era era;
	const char *uri;
	int fd;
	bool is_log;
	int error;
	struct buf out;
};

static int resource_read_log(int fd, struct buf *text)
{
	char piece[65536];
	struct journal_hint hint = { 0 };
	struct warren_output got;
	struct mcp_clip clip;
	uint64_t cursor = 0;

	mcp_clip_init(&clip, MCP_OUTPUT_MAX);
	while (journal_read(fd, cursor, &hint, piece, sizeof(piece), &got) == 0) {
		clip.lost += got.lost;
		cursor = got.cursor;
		if (got.size == 0)
			break;
		if (got.stream == 1 || got.stream == 2)
			mcp_clip_add(&clip, piece, got.size);
	}
	mcp_clip_text(&clip, text);
	mcp_clip_done(&clip);
	return 0;
}

static void resource_work(void *ctx)
{
	struct resource_job *job = ctx;
	AUTO_BUF struct buf data = BUF_INIT(MCP_DOWNLOAD_MAX + 65536);

	job->error = job->is_log ? resource_read_log(job->fd, &data)
				 : mcp_filing_read(job->fd, 0, MCP_DOWNLOAD_MAX, &data);
	(void)close(job->fd);
	if (!job->error)
		resource_write(job->era, job->uri, job->is_log ? "text/plain" : NULL,
			       &data, &job->out);
}

static void resource_done(void *ctx)
{
	struct resource_job *job = ctx;

	if (job->error)
		mcp_tool_error(job->call, "the resource cannot be read: %s",
			       strerror(-job->error));
	else
		mcp_call_result(job->call, &job->out);
	mcp_call_unref(job->call);
	buf_done(&job->out);
	free(job);
}

/* Takes @fd. */
static void resource_start(struct mcp_call *c, int fd, bool is_log)
{
	struct resource_job *job = calloc(1, sizeof(*job));

	if (job)
		*job = (struct resource_job){ .call = mcp_call_ref(c),
					      .era = c->era,
					      .uri = rpc_text(c->params, "uri"),
					      .fd = fd,
					      .is_log = is_log,
					      .out = BUF_INIT(MCP_RESULT_MAX) };
	if (job && loop_work(service_loop(c->mcp->service), c->caller.tenant,
			     resource_work, resource_done, job) == 0)
		return;
	(void)close(fd);
	mcp_tool_error(c, "out of memory; try again");
	if (job)
		mcp_call_unref(c);
	free(job);
}

static void resource_opened(struct mcp_filing *k)
{
	if (k->st.st_size > MCP_DOWNLOAD_MAX)
		mcp_tool_error(k->call, "the file has more than 4 MiB: use download");
	else
		resource_start(k->call, TAKE_FD(k->fd), false);
}

static void resource_file_placed(struct mcp_call *c, struct sandbox *sandbox)
{
	struct mcp_filing *k = mcp_filing_new(c);

	if (!k || !mcp_arg_path(c, sandbox, "path", k->path))
		return;
	k->opened = resource_opened;
	mcp_filing_open(k, sandbox);
}

static void resource_log_placed(struct mcp_call *c, struct sandbox *sandbox)
{
	const char *id = mcp_arg_text(c, "path") + 1;
	struct exec *exec = id_valid(id) ? exec_of_sandbox(sandbox, id) : NULL;
	int fd = exec ? exec_dup_journal(exec) : -1;

	if (!exec)
		mcp_tool_error(c, "the sandbox '%s' has no exec '%.64s'", c->sandbox, id);
	else if (fd < 0)
		mcp_tool_error(c, "the output cannot be read: %s", strerror(-fd));
	else
		resource_start(c, fd, true);
	(void)exec_unref(exec);
}

static void resource_read_sandboxes(struct mcp_call *c)
{
	AUTO_BUF struct buf text = BUF_INIT(1U << 20), out = BUF_INIT(4U << 20);
	struct json j = { .out = &text };
	struct warren_error err = WARREN_ERROR_INIT;

	if (mcp_sandboxes_write(c, &j, 100, 0, &err) < 0) {
		mcp_tool_fail(c, &err);
		return;
	}
	resource_write(c->era, SANDBOXES, "application/json", &text, &out);
	mcp_call_result(c, &out);
}

bool mcp_resource_split(const char *uri, json_t **ret, bool *ret_is_log)
{
	bool file = strncmp(uri, FILES, strlen(FILES)) == 0;
	char sandbox[64], path[API_PATH_MAX];
	size_t n;

	*ret_is_log = strncmp(uri, LOGS, strlen(LOGS)) == 0;
	if ((!file && !*ret_is_log) || strlen(uri) > URI_MAX)
		return false;
	uri += strlen(file ? FILES : LOGS);
	n = strcspn(uri, "/");
	if (n == 0 || uri[n] != '/' ||
	    percent_decode(uri, n, false, sandbox, sizeof(sandbox)) < 0 ||
	    percent_decode(uri + n, strlen(uri + n), false, path, sizeof(path)) < 0)
		return false;
	*ret = json_pack("{s:s,s:s}", "sandbox", sandbox, "path", path);
	return *ret != NULL;
}

void mcp_resources_read(struct mcp_call *c)
{
	const char *uri = rpc_text(c->params, "uri");
	bool log = false, found = uri && mcp_resource_split(uri, &c->made_args, &log);
	const char *scope = !found ? "read" : log ? "exec" : "files";

	c->args = c->made_args;
	if (!uri)
		mcp_call_error(c, RPC_INVALID_PARAMS, "params.uri: must be a string");
	else if (!access_may(&c->caller, scope))
		mcp_tool_error(c, "the token lacks the scope '%s'", scope);
	else if (strcmp(uri, SANDBOXES) == 0)
		resource_read_sandboxes(c);
	else if (!found)
		mcp_tool_error(
			c,
			"there is no such resource; resources/templates/list shows the form of URIs");
	else
		mcp_place(c, log ? resource_log_placed : resource_file_placed);
}
