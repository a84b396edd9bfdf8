/* SPDX-License-Identifier: Apache-2.0 */
/*
 * execute.c - handler: run a command, like Python's subprocess.run()
 *
 * There is no stdin. If the request has an environment, it is the whole environment. A
 * program is looked up in the PATH of the request; if it has none, in the two directories
 * that Python uses by default.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/swerex/internal.h"
#include "api/swerex/pyrepr.h"
#include "base/strv.h"
#include "config/config.h"
#include "net/loop.h"

/* Maximum number of bytes kept of both streams together. */
#define OUTPUT_MAX (64U << 20)
#define AT_ONCE    (32U << 10) /* maximum size that is handled without another thread */

static const char *const default_dirs[] = { "/bin/", "/usr/bin/" };

struct executing {
	struct job *job;
	struct waiter waiter;
	const char **argv;
	char **env;
	char cwd[4096];
	const char *program; /* as requested */
	char path[4096];     /* the path in one of the default directories */
	size_t tried;        /* number of default directories that were tried */
	bool no_path;
	struct exec_start start;
};

static void executing_free(struct executing *x)
{
	(void)strv_free(x->env);
	free(x->argv);
	free(x);
}

/* --------------------------------------------------------------------- answers */

/*
 * Write a note where output is missing. It is not known from which stream the missing
 * bytes are, so both streams get the note.
 */
static void execute_put_hole(struct reply *r, bool merged, uint64_t n)
{
	for (int i = 0; i < (merged ? 1 : 2); i++)
		buf_printf(&r->raw[i],
			   "\n[%ju bytes of output were dropped here: the limit is %u]\n",
			   (uintmax_t)n, OUTPUT_MAX);
}

/* Read both streams; if they are merged, read one after the other into one. */
static void execute_read_output(int journal, bool merged, struct reply *r)
{
	char piece[65536];
	struct journal_hint hint = { 0 };
	struct warren_output got;
	uint64_t cursor = 0;

	while (journal_read(journal, cursor, &hint, piece, sizeof(piece), &got) == 0) {
		if (got.lost > 0)
			execute_put_hole(r, merged, got.lost);
		cursor = got.cursor;
		if (got.size == 0)
			break;
		buf_add(&r->raw[!merged && got.stream == 2], piece, got.size);
	}
}

static void execute_put_command(struct buf *out, const json_t *command)
{
	if (json_is_string(command)) {
		python_repr(out, json_string_value(command), json_string_length(command));
		return;
	}
	buf_puts(out, "[");
	for (size_t i = 0; i < json_array_size(command); i++) {
		const json_t *word = json_array_get(command, i);

		buf_puts(out, i ? ", " : "");
		python_repr(out, json_string_value(word), json_string_length(word));
	}
	buf_puts(out, "]");
}

static void execute_write_failed(struct reply *r, const json_t *body, int code)
{
	AUTO_BUF struct buf text = BUF_INIT(ANSWER_MAX);
	const char *prefix = field_text(body, "error_msg", "");

	if (*prefix)
		buf_printf(&text, "%s: ", prefix);
	buf_puts(&text, "Command ");
	execute_put_command(&text, json_object_get(body, "command"));
	buf_printf(&text, " failed with exit code %d. Stdout:\n", code);
	raise_open(r);
	raise_put(r, &text);
	reply_put(r, REPLY_REPR, 0, 0, r->raw[0].len);
	buf_puts(&r->json, "\\nStderr:\\n");
	reply_put(r, REPLY_REPR, 1, 0, r->raw[1].len);
	raise_class(r, SWEREX "NonZeroExitCodeError");
	raise_close(r);
}

static void put_streams(struct reply *r)
{
	buf_puts(&r->json, "\"stdout\":\"");
	reply_put(r, REPLY_TEXT, 0, 0, r->raw[0].len);
	buf_puts(&r->json, "\",\"stderr\":\"");
	reply_put(r, REPLY_TEXT, 1, 0, r->raw[1].len);
	buf_puts(&r->json, "\"");
}

/* Write an exception like subprocess.TimeoutExpired, with all output that was read from
 * both streams. */
static void execute_write_timeout(struct reply *r, const json_t *body)
{
	AUTO_BUF struct buf text = BUF_INIT(ANSWER_MAX);

	buf_puts(&text, "Timeout (");
	python_float(&text, json_number_value(json_object_get(body, "timeout")));
	buf_puts(&text, "s) exceeded while running command");
	for (size_t i = 0; i < ARRAY_SIZE(r->raw); i++)
		raise_put_so_far(&text, r->raw[i].data, r->raw[i].len);
	raise_open(r);
	raise_put(r, &text);
	raise_class(r, SWEREX "CommandTimeoutError");
	put_streams(r);
	raise_close(r);
}

static void execute_write_result(struct reply *r, int code)
{
	r->status = 200;
	buf_puts(&r->json, "{");
	put_streams(r);
	buf_printf(&r->json, ",\"exit_code\":%d}", code);
}

/* An answer that may be built on another thread. The thread only reads the job's body. */
struct answer {
	struct job *job;
	int journal, code;
	bool timed_out;
	struct reply *reply;
};

static void answer_make(void *ctx)
{
	struct answer *a = ctx;
	const json_t *body = a->job->body;

	execute_read_output(a->journal, field_bool(body, "merge_output_streams"),
			    a->reply);
	if (a->timed_out)
		execute_write_timeout(a->reply, body);
	else if (a->code != 0 && field_bool(body, "check"))
		execute_write_failed(a->reply, body, a->code);
	else
		execute_write_result(a->reply, a->code);
	(void)close(a->journal);
}

static void answer_give(void *ctx)
{
	struct answer *a = ctx;

	job_reply(a->job, a->reply);
	free(a);
}

static void answer_free(struct answer *a)
{
	if (!a)
		return;
	if (a->journal >= 0)
		(void)close(a->journal);
	reply_unref(a->reply);
	free(a);
}

/* Reading a lot of output takes a long time, so other clients are served in the
 * meantime. */
static void execute_answer(struct job *job, struct exec *exec,
			   const struct warren_result *res)
{
	struct answer *a = malloc(sizeof(*a));
	uint64_t from, to;
	int r = exec_extent(exec, &from, &to);
	size_t size = r == 1 ? OUTPUT_MAX : r < 0 ? 0 : (size_t)(to - from);

	if (a)
		*a = (struct answer){ .job = job,
				      .journal = exec_dup_journal(exec),
				      .code = res->signal ? -res->signal : res->exit_code,
				      .timed_out = res->timed_out,
				      .reply = reply_new(job->sx) };
	if (!a || a->journal < 0 || !a->reply) {
		job_raisef(job, "builtins.RuntimeError", "the output cannot be read: %s",
			   strerror(a && a->journal < 0 ? -a->journal : ENOMEM));
		answer_free(a);
	} else if (!reply_charge(a->reply, job->tenant, size)) {
		job_crowded(job, "the command has ended, but its output is lost");
		answer_free(a);
	} else if (size <= AT_ONCE) {
		answer_make(a);
		answer_give(a);
	} else if (loop_work(service_loop(job->sx->service), job->tenant, answer_make,
			     answer_give, a) < 0) {
		job_raisef(job, "builtins.MemoryError", "the output cannot be read: %s",
			   strerror(ENOMEM));
		answer_free(a);
	}
}

static void execute_on_ended(struct waiter *w, void *of)
{
	struct exec *exec = of;
	struct executing *x = w->ctx;
	struct job *job = x->job;

	executing_free(x);
	if (!exec_row(exec)->ended)
		job_raisef(job, "builtins.RuntimeError",
			   "the sandbox ended before the command did");
	else
		execute_answer(job, exec, &exec_row(exec)->result);
}

/* ----------------------------------------------------------------- start of a command */

static bool execute_try_next(struct executing *x);

static void execute_on_started(void *ctx, struct exec *exec,
			       const struct warren_error *err)
{
	struct executing *x = ctx;
	struct job *job = x->job;

	if (!exec && err->code == ENOENT && execute_try_next(x))
		return;
	if (!exec) {
		/*
		 * For the client, ENOENT means that the program is missing; if the
		 * directory is missing, the error is ENOTDIR.
		 */
		struct warren_error why = *err;
		bool cwd = err->code == ENOTDIR && x->start.cwd;

		if (cwd && strstr(err->msg, strerror(ENOENT)))
			why.code = ENOENT;
		job_fail(job, &why, cwd ? field_text(job->body, "cwd", "") : x->program);
		executing_free(x);
		return;
	}
	x->waiter = (struct waiter){ .fn = execute_on_ended, .ctx = x };
	if (exec_row(exec)->ended)
		execute_on_ended(&x->waiter, exec);
	else
		exec_wait(exec, &x->waiter);
}

/* Try the next default directory, if there is one. */
static bool execute_try_next(struct executing *x)
{
	struct sandbox *sandbox =
		sandbox_find(x->job->sx->service, NULL, x->job->sandbox);

	if (!x->no_path || x->tried >= ARRAY_SIZE(default_dirs) || !sandbox)
		return false;
	(void)snprintf(x->path, sizeof(x->path), "%s%.4000s", default_dirs[x->tried++],
		       x->program);
	x->argv[0] = x->path;
	exec_start(sandbox, &x->start, execute_on_started, x);
	return true;
}

/* Convert shell and merge_output_streams to arguments. */
static int make_argv(struct executing *x, const json_t *body)
{
	static const char *const merge[] = { "/bin/sh", "-c", "exec \"$@\" 2>&1", "sh" };
	static const char *const in_shell[] = { "/bin/sh", "-c" };
	const json_t *command = json_object_get(body, "command");
	bool shell = field_bool(body, "shell");
	bool merged = field_bool(body, "merge_output_streams");
	size_t n = json_is_string(command) ? 1 : json_array_size(command), at = 0;

	x->argv = calloc(ARRAY_SIZE(merge) + ARRAY_SIZE(in_shell) + n + 1,
			 sizeof(*x->argv));
	if (!x->argv)
		return -ENOMEM;
	for (size_t i = 0; merged && i < ARRAY_SIZE(merge); i++)
		x->argv[at++] = merge[i];
	/* In both cases, the $0 of the shell is the shell's own name, not the text. */
	for (size_t i = 0; shell && i < ARRAY_SIZE(in_shell); i++)
		x->argv[at++] = in_shell[i];
	for (size_t i = 0; i < n; i++) {
		const json_t *word =
			json_is_string(command) ? command : json_array_get(command, i);

		x->argv[at++] = json_string_value(word);
		if (strlen(json_string_value(word)) != json_string_length(word))
			return -EINVAL;
	}
	x->program = shell || merged ? "/bin/sh" : x->argv[0];
	return n == 0 ? -ERANGE : 0;
}

static int make_env(struct executing *x, const json_t *env)
{
	const char *name;
	json_t *value;
	size_t n = 0;

	if (!json_is_object(env))
		return 0;
	x->env = calloc(json_object_size(env) + 1, sizeof(*x->env));
	if (!x->env)
		return -ENOMEM;
	x->no_path = !json_object_get(env, "PATH") && !strchr(x->program, '/');
	json_object_foreach((json_t *)env, name, value)
	{
		if (!*name || strchr(name, '=') ||
		    strlen(json_string_value(value)) != json_string_length(value))
			return -EINVAL;
		if (asprintf(&x->env[n], "%s=%s", name, json_string_value(value)) < 0) {
			x->env[n] = NULL;
			return -ENOMEM;
		}
		n++;
	}
	x->start.env = (const char *const *)x->env;
	x->start.env_only = true;
	return 0;
}

void swerex_execute(struct job *job, struct sandbox *sandbox)
{
	struct executing *x = calloc(1, sizeof(*x));
	const char *cwd = field_text(job->body, "cwd", NULL);
	int64_t timeout = field_ms(job->body, "timeout");
	uint64_t most = job->sx->config->journal_max;
	int r = x ? make_argv(x, job->body) : -ENOMEM;

	if (r == 0)
		r = make_env(x, json_object_get(job->body, "env"));
	if (r == 0 && cwd && !swerex_path(sandbox, cwd, x->cwd))
		r = -EINVAL;
	if (r < 0) {
		job_raisef(job,
			   r == -ENOMEM ? "builtins.MemoryError" : "builtins.ValueError",
			   r == -ERANGE
				   ? "the command is empty"
				   : "embedded null byte, or a name that is not valid");
		if (x)
			executing_free(x);
		return;
	}
	x->job = job;
	x->start.argv = x->argv;
	x->start.cwd = cwd ? x->cwd : NULL;
	x->start.journal = most && most < OUTPUT_MAX ? most : OUTPUT_MAX;
	x->start.timeout_ms = timeout < 0 ? 0 : timeout == 0 ? 1 : (uint64_t)timeout;
	exec_start(sandbox, &x->start, execute_on_started, x);
}
