/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool_code.c - the tool code_run: a program in a new sandbox, which is then deleted
 *
 * The tool needs neither a session nor an existing sandbox. If a run is cancelled, it
 * ends, and its sandbox is deleted.
 */
#include <stdlib.h>
#include <string.h>

#include "api/code.h"
#include "api/mcp/internal.h"
#include "base/base64.h"
#include "base/strv.h"
#include "base/utf8.h"

#define ARTIFACTS_MAX (2U << 20) /* maximum size of all files in a result */
#define CODE_PROGRESS 4096

struct mcp_code {
	struct mcp_call *call;
	struct code_request request;
	const char **args, **artifacts;
	char **env;
	struct code_file *files;
	char **decoded;
	size_t n_decoded;
	struct code_run *run;
	struct buf output[2];
	uint64_t seen;
};

static void code_tool_stop(struct mcp_call *c)
{
	struct mcp_code *k = c->state;

	k->run = code_cancel(k->run);
	free((void *)k->args);
	free((void *)k->artifacts);
	(void)strv_free(k->env);
	free(k->files);
	for (size_t i = 0; i < k->n_decoded; i++)
		free(k->decoded[i]);
	free((void *)k->decoded);
	buf_done(&k->output[0]);
	buf_done(&k->output[1]);
	free(k);
}

/* ------------------------------------------------------------------- arguments */

static const char **code_tool_words(const json_t *list)
{
	const char **words = calloc(json_array_size(list) + 1, sizeof(*words));

	for (size_t i = 0; words && i < json_array_size(list); i++)
		words[i] = json_string_value(json_array_get(list, i));
	return words;
}

/* Return NULL, or the name of the invalid argument. */
static const char *code_tool_files(struct mcp_code *k)
{
	json_t *texts = mcp_arg_json(k->call, "files"), *value;
	json_t *bytes = mcp_arg_json(k->call, "files_base64");
	const char *name;

	json_object_foreach(texts, name, value) k->files[k->request.n_files++] =
		(struct code_file){ name, json_string_value(value),
				    json_string_length(value) };
	json_object_foreach(bytes, name, value)
	{
		size_t n = json_string_length(value);
		char *data = malloc(n / 4 * 3 + 1);
		ssize_t size =
			data ? base64_decode(json_string_value(value), n, data) : -1;

		if (size < 0) {
			free(data);
			return "files_base64: the content of a file must be base64, with "
			       "its padding";
		}
		k->decoded[k->n_decoded++] = data;
		k->files[k->request.n_files++] =
			(struct code_file){ name, data, (size_t)size };
	}
	k->request.files = k->files;
	return NULL;
}

static const char *code_tool_read(struct mcp_code *k)
{
	struct mcp_call *c = k->call;
	size_t texts = json_object_size(mcp_arg_json(c, "files"));
	size_t bytes = json_object_size(mcp_arg_json(c, "files_base64"));
	const json_t *limits = mcp_arg_json(c, "limits");

	k->args = code_tool_words(mcp_arg_json(c, "args"));
	k->artifacts = code_tool_words(mcp_arg_json(c, "artifacts"));
	k->env = mcp_env_list(mcp_arg_json(c, "env"));
	k->files = calloc(texts + bytes + 1, sizeof(*k->files));
	k->decoded = calloc(bytes + 1, sizeof(*k->decoded));
	if (!k->args || !k->artifacts || !k->env || !k->files || !k->decoded)
		return "out of memory; try again";
	k->request = (struct code_request){
		.language = mcp_arg_text(c, "language"),
		.code = mcp_arg_text(c, "code"),
		.code_size = mcp_arg_size(c, "code"),
		.args = k->args,
		.artifacts = k->artifacts,
		.env = (const char *const *)k->env,
		.input = mcp_arg_text(c, "stdin"),
		.input_size = mcp_arg_size(c, "stdin"),
		.limits = { .timeout_ms = (uint64_t)mcp_arg_int(c, "timeout_ms"),
			    .memory = (uint64_t)json_integer_value(
				    json_object_get(limits, "memory")),
			    .disk = (uint64_t)json_integer_value(
				    json_object_get(limits, "disk")),
			    .pids = (uint64_t)json_integer_value(
				    json_object_get(limits, "pids")) },
		.max_output = (uint64_t)mcp_arg_int(c, "max_output"),
		.image = mcp_arg_text(c, "image"),
	};
	return code_tool_files(k);
}

/* Check that the limits are integers. */
static const char *code_tool_bad_limit(const json_t *limits)
{
	static const char *const names[] = { "memory", "disk", "pids" };
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)limits, name, value)
	{
		bool known = false;

		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			known = known || strcmp(names[i], name) == 0;
		if (!known || json_integer_value(value) <= 0)
			return name;
	}
	return NULL;
}

/* ---------------------------------------------------------------------- result */

static bool code_tool_output(void *ctx, int stream, const char *data, size_t n)
{
	struct mcp_code *k = ctx;
	size_t tail = n < CODE_PROGRESS ? n : CODE_PROGRESS;

	buf_add(&k->output[stream == 2], data, n);
	k->seen += n;
	mcp_call_progress(k->call, k->seen, data + n - tail, tail);
	return false;
}

/* Write the artifacts. Return false if some are missing. */
static bool code_tool_artifacts(struct json *j, const struct code_result *r)
{
	bool complete = r->artifacts_complete;
	size_t all = 0;

	json_open(j, "artifacts", '[');
	for (size_t i = 0; i < r->n_artifacts; i++) {
		const struct code_artifact *f = &r->artifacts[i];
		const char *data = f->data ? f->data : "";

		if (f->size > ARTIFACTS_MAX - all) {
			complete = false;
			continue;
		}
		all += f->size;
		json_open(j, NULL, '{');
		json_str(j, "path", f->path);
		json_u64(j, "size", f->size);
		if (utf8_valid(data, f->size))
			json_strn(j, "text", data, f->size);
		else
			json_base64(j, "base64", data, f->size);
		json_close(j, '}');
	}
	json_close(j, ']');
	return complete;
}

static void code_tool_put_output(struct json *j, const char *key, const struct buf *b)
{
	json_strn(j, key, b->data ? b->data : "", b->len);
}

/*
 * Complete the answer. The list of enforced limits is long and contains no surprises, so
 * the text names only the limits that are not enforced.
 */
static void code_tool_answer(struct mcp_code *k, const struct code_result *r,
			     struct buf *out)
{
	AUTO_BUF struct buf rest = BUF_INIT(MCP_RESULT_MAX);
	struct json j = { .out = out, .comma = true };
	struct json short_j = { .out = &rest, .comma = true };
	size_t shown = out->len;

	json_raw(&j, "enforced", r->enforced.data, r->enforced.len);
	json_close(&j, '}');
	if (r->not_enforced.len > 0)
		json_strn(&short_j, "not_enforced", r->not_enforced.data,
			  r->not_enforced.len);
	json_close(&short_j, '}');
	out->failed = out->failed || k->output[0].failed || k->output[1].failed ||
		      r->enforced.failed || r->not_enforced.failed;
	mcp_tool_result_short(k->call, out, shown, &rest, r->exit_code != 0);
}

static void code_tool_done(void *ctx, const struct code_result *r,
			   const struct warren_error *err)
{
	struct mcp_code *k = ctx;
	AUTO_BUF struct buf out = BUF_INIT(MCP_RESULT_MAX);
	struct json j = { .out = &out };
	struct api_error refusal = { 0 };

	if (!r) {
		api_code_failed(&refusal, err);
		mcp_tool_error(k->call, "%s", refusal.message);
		return;
	}
	json_open(&j, NULL, '{');
	json_str(&j, "language", r->language);
	json_str(&j, "phase", r->compiler ? "compile" : "run");
	code_tool_put_output(&j, "stdout", &k->output[0]);
	code_tool_put_output(&j, "stderr", &k->output[1]);
	json_int(&j, "exit_code", r->exit_code);
	if (r->exec.signal)
		json_int(&j, "signal", r->exec.signal);
	json_bool(&j, "timed_out", r->exec.timed_out);
	json_bool(&j, "oom", r->exec.oom);
	json_u64(&j, "duration_ms", r->duration_usec / 1000);
	json_bool(&j, "truncated", r->truncated[0] || r->truncated[1]);
	json_bool(&j, "artifacts_complete", code_tool_artifacts(&j, r));
	code_tool_answer(k, r, &out);
}

/* -------------------------------------------------------------------- start of a run */

static void code_tool_begin(struct mcp_call *c, struct mcp_code *k)
{
	const struct code_client where = { .service = c->mcp->service,
					   .config = c->mcp->config,
					   .policy = c->mcp->policy,
					   .caller = &c->caller };
	const struct code_callbacks on = { .output = code_tool_output,
					   .done = code_tool_done };
	struct api_error err = { 0 };

	if (api_code_begin(&where, &k->request, &on, k, &k->run, &err) < 0)
		mcp_tool_error(c, "%s", err.message);
	else if (c->exchange)
		mcp_exchange_keep_alive(c->exchange);
}

void mcp_tool_code_run(struct mcp_call *c)
{
	const char *limit = code_tool_bad_limit(mcp_arg_json(c, "limits"));
	size_t max = (size_t)mcp_arg_int(c, "max_output") + 4096;
	struct mcp_code *k = calloc(1, sizeof(*k));
	const char *why;

	if (!k) {
		mcp_tool_error(c, "out of memory; try again");
		return;
	}
	k->call = c;
	k->output[0] = k->output[1] = (struct buf)BUF_INIT(max);
	c->state = k;
	c->stop = code_tool_stop;
	why = code_tool_read(k);
	if (!access_may(&c->caller, "write"))
		mcp_tool_error(c, "code runs in a new sandbox, and the token lacks the "
				  "scope 'write'");
	else if (c->caller.sandbox[0])
		mcp_tool_error(c, "the token is valid only for the sandbox '%s'",
			       c->caller.sandbox);
	else if (limit)
		mcp_tool_error(
			c,
			"limits: '%.32s' must be memory, disk (bytes) or pids, and a "
			"positive integer",
			limit);
	else if (why)
		mcp_tool_error(c, "%s", why);
	else
		code_tool_begin(c, k);
}
