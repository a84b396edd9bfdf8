/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool_exec.c - the tool run_command: one command to its end
 *
 * Output goes to the exec's journal. While the command runs, new output is reported as
 * progress. For the result, all output is read again, on another thread if it is long. A
 * cancelled command is killed with all its processes.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/mcp/internal.h"
#include "api/path.h"
#include "base/strv.h"
#include "service/exec/exec.h"

#define PROGRESS_MS    100
#define PROGRESS_BYTES 4096

struct mcp_command {
	struct mcp_call *call;
	struct exec *exec; /* NULL: not started */
	struct waiter end, output;
	struct loop_timer *timer; /* fires when the next progress is due */
	bool armed;               /* the timer is set */
	uint64_t cursor, seen;
	struct journal_hint hint;
};

static void exec_tool_stop(struct mcp_call *c)
{
	struct mcp_command *k = c->state;

	exec_wait_cancel(&k->end);
	exec_watch_cancel(&k->output);
	k->timer = loop_timer_free(k->timer);
	if (k->exec && c->cancelled && !exec_row(k->exec)->ended)
		exec_signal(k->exec, SIGKILL, WARREN_WHOM_TREE, mcp_ignore, NULL);
	(void)exec_unref(k->exec);
	free(k);
}

/* -------------------------------------------------------------------- progress */

static void exec_tool_on_progress(void *ctx);

/* Do not set a timer again: continuous output would postpone it forever.
 */
static void exec_tool_arm(struct mcp_command *k, uint64_t ms)
{
	if (k->armed ||
	    (!k->timer && loop_timer_new(service_loop(k->call->mcp->service),
					 exec_tool_on_progress, k, &k->timer) < 0))
		return;
	k->armed = true;
	loop_timer_set(k->timer, ms);
}

/* Report new output; a large output is reported in parts. */
static void exec_tool_on_progress(void *ctx)
{
	struct mcp_command *k = ctx;
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_output got;
	char text[PROGRESS_BYTES];
	int r;

	k->armed = false;
	if (k->call->exchange && k->call->exchange->blocked) {
		exec_tool_arm(k, PROGRESS_MS);
		return;
	}
	r = exec_output(k->exec, k->cursor, &k->hint, text, sizeof(text), &got, &err);
	if (r == -EINPROGRESS)
		exec_tool_arm(k, PROGRESS_MS);
	if (r < 0 || got.size == 0)
		return;
	k->cursor = got.cursor;
	k->seen += got.size + got.lost;
	exec_tool_arm(k, PROGRESS_MS);
	mcp_call_progress(k->call, k->seen, text, got.size);
}

static void exec_tool_on_output(struct waiter *w, void *of UNUSED)
{
	struct mcp_command *k = w->ctx;

	exec_tool_arm(k, k->timer ? PROGRESS_MS : 0);
}

/* ---------------------------------------------------------------------- result */

struct mcp_outcome {
	struct mcp_call *call; /* a reference */
	enum rpc_era era;
	char sandbox[ID_LEN + 1], exec[ID_LEN + 1];
	struct warren_result result;
	bool lost;
	int journal;
	size_t max;
	struct buf out;
};

static void exec_tool_read(struct mcp_outcome *o, struct mcp_clip clip[2])
{
	char piece[65536];
	struct journal_hint hint = { 0 };
	struct warren_output got;
	uint64_t cursor = 0;

	while (o->journal >= 0 &&
	       journal_read(o->journal, cursor, &hint, piece, sizeof(piece), &got) == 0) {
		clip[0].lost += got.lost;
		cursor = got.cursor;
		if (got.size == 0)
			break;
		mcp_clip_add(&clip[got.stream == 2], piece, got.size);
	}
}

static void exec_tool_work(void *ctx)
{
	struct mcp_outcome *o = ctx;
	const struct warren_result *r = &o->result;
	AUTO_BUF struct buf text = BUF_INIT(MCP_RESULT_MAX);
	struct json j = { .out = &text };
	struct mcp_clip clip[2];
	bool failed = o->lost || r->signal || r->exit_code != 0 || r->timed_out;

	mcp_clip_init(&clip[0], o->max);
	mcp_clip_init(&clip[1], o->max);
	exec_tool_read(o, clip);
	json_open(&j, NULL, '{');
	json_str(&j, "sandbox", o->sandbox);
	json_str(&j, "exec", o->exec);
	mcp_clip_write(&j, "stdout", &clip[0]);
	mcp_clip_write(&j, "stderr", &clip[1]);
	json_int(&j, "exit_code", r->signal ? 128 + r->signal : r->exit_code);
	if (r->signal)
		json_int(&j, "signal", r->signal);
	json_bool(&j, "timed_out", r->timed_out);
	json_bool(&j, "oom", r->oom);
	json_u64(&j, "duration_ms", r->wall_usec / 1000);
	json_bool(&j, "truncated",
		  mcp_clip_is_cut(&clip[0]) || mcp_clip_is_cut(&clip[1]));
	if (o->lost)
		json_str(&j, "error", "the sandbox ended before the command did");
	json_close(&j, '}');
	mcp_tool_wrap(o->era, &text, failed, &o->out);
	mcp_clip_done(&clip[0]);
	mcp_clip_done(&clip[1]);
	if (o->journal >= 0)
		(void)close(o->journal);
}

static void exec_tool_done(void *ctx)
{
	struct mcp_outcome *o = ctx;

	mcp_call_result(o->call, &o->out);
	mcp_call_unref(o->call);
	buf_done(&o->out);
	free(o);
}

static void exec_tool_on_end(struct waiter *w, void *of UNUSED)
{
	struct mcp_command *k = w->ctx;
	struct mcp_call *c = k->call;
	struct mcp_outcome *o = calloc(1, sizeof(*o));
	uint64_t from, to;
	int r = exec_extent(k->exec, &from, &to);

	k->timer = loop_timer_free(k->timer);
	exec_watch_cancel(&k->output);
	if (!o) {
		mcp_tool_error(c, "out of memory; the command has ended");
		return;
	}
	*o = (struct mcp_outcome){ .call = mcp_call_ref(c),
				   .era = c->era,
				   .result = exec_row(k->exec)->result,
				   .lost = exec_lost(k->exec),
				   .journal = exec_dup_journal(k->exec),
				   .max = (size_t)mcp_arg_int(c, "max_output"),
				   .out = BUF_INIT(MCP_RESULT_MAX) };
	(void)strcpy(o->sandbox, c->sandbox);
	(void)strcpy(o->exec, exec_row(k->exec)->id);
	if ((r == 0 && to - from <= MCP_AT_ONCE / 2) ||
	    loop_work(service_loop(c->mcp->service), c->caller.tenant, exec_tool_work,
		      exec_tool_done, o) < 0) {
		exec_tool_work(o);
		exec_tool_done(o);
	}
}

/* -------------------------------------------------------------------- starting */

static void exec_tool_on_started(void *ctx, struct exec *exec,
				 const struct warren_error *err)
{
	struct mcp_call *c = ctx;
	struct mcp_command *k = c->state;
	struct warren_error ignored = WARREN_ERROR_INIT;
	const char *input = mcp_arg_text(c, "stdin");

	if (c->done) {
		if (exec && c->cancelled)
			exec_signal(exec, SIGKILL, WARREN_WHOM_TREE, mcp_ignore, NULL);
	} else if (!exec) {
		mcp_tool_fail(c, err);
	} else {
		k->exec = exec_ref(exec);
		mcp_call_log(c, MCP_DEBUG, "started the exec '%s'", exec_row(exec)->id);
		if (input)
			exec_feed(exec, input, mcp_arg_size(c, "stdin"), true, mcp_ignore,
				  NULL);
		if (c->exchange)
			mcp_exchange_keep_alive(c->exchange);
		if (mcp_call_wants_progress(c))
			(void)exec_watch(exec, &k->output, &ignored);
		if (exec_row(exec)->ended || exec_lost(exec))
			exec_tool_on_end(&k->end, exec);
		else
			exec_wait(exec, &k->end);
	}
	mcp_call_unref(c);
}

char **mcp_env_list(const json_t *env)
{
	char **list = calloc(json_object_size(env) + 1, sizeof(*list));
	const char *name;
	json_t *value;
	size_t n = 0;

	if (!list)
		return NULL;
	json_object_foreach((json_t *)(uintptr_t)env, name, value)
	{
		if (asprintf(&list[n], "%s=%s", name, json_string_value(value)) < 0) {
			list[n] = NULL;
			return strv_free(list);
		}
		n++;
	}
	return list;
}

static const char *exec_tool_bad_name(const json_t *env)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)env, name,
			    value) if (!*name || strchr(name, '=')) return name;
	return NULL;
}

static void exec_tool_start(struct mcp_call *c, struct sandbox *sandbox)
{
	const char *argv[] = { "/bin/sh", "-c", mcp_arg_text(c, "command"), NULL };
	const json_t *env = mcp_arg_json(c, "env");
	struct mcp_command *k = calloc(1, sizeof(*k));
	char **list = mcp_env_list(env);
	char cwd[API_PATH_MAX];
	struct exec_start start = { .argv = argv,
				    .env = (const char *const *)list,
				    .user = mcp_arg_text(c, "user"),
				    .input = mcp_arg_text(c, "stdin") != NULL,
				    .timeout_ms =
					    (uint64_t)mcp_arg_int(c, "timeout_ms") };

	if (exec_tool_bad_name(env)) {
		mcp_tool_error(c, "env: '%.64s' is not a variable name",
			       exec_tool_bad_name(env));
	} else if (!k || !list) {
		mcp_tool_error(c, "out of memory; try again");
	} else if (mcp_arg_path(c, sandbox, "cwd", cwd)) {
		start.cwd = mcp_arg_text(c, "cwd") ? cwd : NULL;
		k->call = c;
		k->end = (struct waiter){ .fn = exec_tool_on_end, .ctx = k };
		k->output = (struct waiter){ .fn = exec_tool_on_output, .ctx = k };
		c->state = TAKE_PTR(k);
		c->stop = exec_tool_stop;
		exec_start(sandbox, &start, exec_tool_on_started, mcp_call_ref(c));
	}
	free(k);
	(void)strv_free(list);
}

void mcp_tool_run_command(struct mcp_call *c)
{
	mcp_place(c, exec_tool_start);
}
