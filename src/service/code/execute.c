/* SPDX-License-Identifier: Apache-2.0 */
/*
 * execute.c - the steps of a run: the compiler and the program, as execs with their
 * output
 *
 * The output is read while it is written. Output beyond the maximum is dropped and
 * counted; no other output is lost, because the exec waits for this reader. The output of
 * a compiler is reported only if the compiler failed.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/strv.h"
#include "service/code/internal.h"

#define CODE_PIECES_A_TURN 16
#define CODE_BAD_OPTION    9 /* exit code of node for an unknown option */

static char **code_step_argv(const struct code_run *run)
{
	return run->step == CODE_COMPILES ? run->plan.compile
	       : run->step == CODE_RUNS   ? run->plan.run
					  : run->plan.run_alone;
}

static void code_step_begin(struct code_run *run);

static void code_step_let_go(struct code_run *run)
{
	exec_wait_cancel(&run->ended);
	exec_watch_cancel(&run->watcher);
	exec_hold_cancel(&run->holder);
	loop_task_cancel(&run->turn);
	run->exec = exec_unref(run->exec);
}

void code_execute_cancel(struct code_run *run)
{
	code_step_let_go(run);
}

/* ------------------------------------------------------------------ end of a step */

/* Store the result of the last step. */
static void code_step_fill(struct code_run *run, const struct warren_result *r)
{
	struct code_result *to = &run->result;

	to->exec = *r;
	to->compiler = run->step == CODE_COMPILES;
	to->duration_usec = (clock_now() - run->begun) / 1000;
	to->exit_code = r->signal ? 128 + r->signal : r->exit_code;
	if (r->timed_out)
		to->exit_code = CODE_EXIT_TIMEOUT;
}

/* Send output to the client at once, or store it in the result. */
static bool code_step_deliver(struct code_run *run, int stream, const char *data,
			      size_t n)
{
	struct buf *kept = &run->result.output[stream - 1];

	if (run->on.output && run->step != CODE_COMPILES) {
		run->blocked |= run->on.output(run->ctx, stream, data, n);
		return true;
	}
	if (!code_lease(run, n))
		return false;
	buf_add(kept, data, n);
	if (kept->failed) {
		struct warren_error err = WARREN_ERROR_INIT;

		(void)error_errno(&err, ENOMEM, "store the output");
		code_fail(run, &err);
		return false;
	}
	return true;
}

/* Send the compiler's output to a client that streams it. */
static void code_step_show_compiler(struct code_run *run)
{
	for (int i = 0; run->on.output && i < 2; i++) {
		struct buf *kept = &run->result.output[i];

		if (kept->len > 0)
			(void)run->on.output(run->ctx, i + 1, kept->data, kept->len);
		kept->len = 0;
	}
}

static bool code_step_timed_out(struct code_run *run)
{
	char text[96];
	int n = snprintf(text, sizeof(text), "Execution timed out after %ju ms\n",
			 (uintmax_t)run->plan.limits.timeout_ms);

	run->step = CODE_RUNS;
	return code_step_deliver(run, 2, text, (size_t)n);
}

/* Is the compiler missing, and is this node too old to run the program without it? */
static bool code_step_too_old(const struct code_run *run, const struct warren_result *r)
{
	return run->step == CODE_RUNS_ALONE && r->exit_code == CODE_BAD_OPTION &&
	       strstr(run->complaint, "bad option");
}

static void code_tool_missing(struct code_run *run, const char *tools)
{
	struct warren_error err = WARREN_ERROR_INIT;

	(void)code_plan_missing(&run->plan, tools, &err);
	code_fail(run, &err);
}

/* Some output could not be written: fail, because a result without it would mislead the
 * caller. */
static void code_step_unwritten(struct code_run *run)
{
	struct warren_error err = WARREN_ERROR_INIT;

	(void)error_set(&err, ENOSPC,
			"the disk with the service's state is full, so that output of "
			"the program is lost: free some space, and run it again");
	code_fail(run, &err);
}

static void code_step_over(struct code_run *run)
{
	struct warren_result r = exec_row(run->exec)->result;

	if (exec_output_waits(run->exec)) {
		code_step_unwritten(run);
		return;
	}
	r.timed_out |= run->timed_out;
	code_step_let_go(run);
	code_step_fill(run, &r);
	if (code_step_too_old(run, &r)) {
		code_tool_missing(run, run->plan.compile[0]);
		return;
	}
	if (run->step == CODE_COMPILES && r.exit_code == 0 && !r.timed_out) {
		for (int i = 0; i < 2; i++) {
			buf_done(&run->result.output[i]);
			run->result.output[i] =
				(struct buf)BUF_INIT((size_t)run->plan.max_output + 128);
			run->result.written[i] = 0;
			run->result.truncated[i] = false;
		}
		run->step = CODE_RUNS;
		run->tool = 0;
		code_step_begin(run);
		return;
	}
	if (run->step == CODE_COMPILES)
		code_step_show_compiler(run);
	/* If this returns false, a failure has already ended the run. */
	if (!r.timed_out || code_step_timed_out(run))
		code_collect(run);
}

/* ------------------------------------------------------------------- output */

static bool code_step_take(struct code_run *run, const struct warren_output *o,
			   const char *data)
{
	int i = o->stream - 1;
	uint64_t left;
	size_t n = o->size;

	if (i < 0 || i > 1)
		return true;
	if (i == 1 && run->result.written[i] == 0)
		(void)snprintf(run->complaint, sizeof(run->complaint), "%.*s",
			       (int)(n < sizeof(run->complaint) ? n : 0), data);
	left = run->result.written[i] < run->plan.max_output
		       ? run->plan.max_output - run->result.written[i]
		       : 0;
	run->result.written[i] += n;
	if (n > left) {
		run->result.truncated[i] = true;
		n = (size_t)left;
	}
	return n == 0 || code_step_deliver(run, o->stream, data, n);
}

/* Read some output, and continue later if there is more; this may free the exec. */
static void code_step_read(void *ctx)
{
	static char piece[65536];
	struct code_run *run = ctx;
	struct warren_error err = WARREN_ERROR_INIT;

	if ((run->warm || run->taken) && !code_warm_ended(run))
		return;
	for (int i = 0; i < CODE_PIECES_A_TURN && !run->blocked; i++) {
		struct warren_output o;
		int r = exec_output(run->exec, run->cursor, &run->hint, piece,
				    sizeof(piece), &o, &err);

		if (r == -EINPROGRESS)
			break;
		if (r < 0) {
			code_fail_used(run, &err);
			return;
		}
		run->cursor = o.cursor;
		if (o.size > 0) {
			if (!code_step_take(run, &o, piece))
				return;
			exec_hold_move(&run->holder, run->cursor);
			continue;
		}
		/*
		 * Processes that the exec left running may continue to write; the run
		 * does not wait for them.
		 */
		if (exec_row(run->exec)->ended) {
			code_step_over(run);
		} else if (exec_lost(run->exec)) {
			(void)error_set(&err, EREMOTEIO,
					"the sandbox ended before the program did");
			code_fail_used(run, &err);
		}
		return;
	}
	if (!run->blocked)
		loop_later(run->service->loop, &run->turn);
}

static void code_on_output(struct waiter *w, void *of UNUSED)
{
	struct code_run *run = w->ctx;

	if (!run->blocked)
		loop_later(run->service->loop, &run->turn);
}

static void code_on_ended(struct waiter *w, void *of UNUSED)
{
	struct code_run *run = w->ctx;

	if (!run->blocked)
		loop_defer(run->service->loop, &run->turn);
}

/* -------------------------------------------------------------------- start of a step */

static void code_feed(struct code_run *run)
{
	if (run->step != CODE_COMPILES && run->plan.input && !run->warm)
		exec_feed(run->exec, run->plan.input, run->plan.input_size, true,
			  service_ignore, NULL);
}

/* The program is missing: try another one, or skip the step. */
static void code_step_without(struct code_run *run, const struct warren_error *err)
{
	const char *tools = code_step_argv(run)[0];
	char tool[256];

	if (code_step_tool(tools, run->tool + 1, tool, sizeof(tool))) {
		run->tool++;
		code_step_begin(run);
	} else if (run->step == CODE_COMPILES && run->plan.run_alone) {
		run->step = CODE_RUNS_ALONE;
		run->tool = 0;
		code_step_begin(run);
	} else if (strncmp(tools, "./", 2) == 0) {
		code_fail(run, err);
	} else {
		code_tool_missing(run, tools);
	}
}

static void code_on_started(void *ctx, struct exec *exec, const struct warren_error *err)
{
	struct code_run *run = code_ticket_use(ctx);
	struct warren_error why = WARREN_ERROR_INIT;

	if (!run)
		return;
	if (!exec && !run->warm && (err->code == ENOENT || err->code == ENOTDIR)) {
		/* The file exists, because it is written before the program is looked up.
		 */
		run->brings = false;
		code_step_without(run, err);
		return;
	}
	/* The disk of the sandbox or that of the service is full. */
	if (!exec && run->brings && service_disk_ok(run->service)) {
		code_write_fail(run, err);
		return;
	}
	if (!exec) {
		code_fail_used(run, err);
		return;
	}
	run->brings = false;
	run->exec = exec_ref(exec);
	run->cursor = 0;
	run->hint = (struct journal_hint){ 0 };
	run->turn = (struct loop_task){ .fn = code_step_read, .ctx = run };
	run->ended = (struct waiter){ .fn = code_on_ended, .ctx = run };
	run->watcher = (struct waiter){ .fn = code_on_output, .ctx = run };
	run->holder = (struct exec_holder){ 0 };
	exec_hold(exec, &run->holder, 0);
	code_feed(run);
	if (run->on.started)
		run->on.started(run->ctx);
	if (exec_row(exec)->ended) {
		loop_defer(run->service->loop, &run->turn);
		return;
	}
	exec_wait(exec, &run->ended);
	if (exec_watch(exec, &run->watcher, &why) < 0)
		code_fail_used(run, &why);
	else if (run->warm)
		code_write(run);
}

/* Return the time that the earlier steps have left. */
static uint64_t code_step_time(const struct code_run *run)
{
	uint64_t spent = (clock_now() - run->begun) / 1000000;

	return spent < run->plan.limits.timeout_ms ? run->plan.limits.timeout_ms - spent
						   : 1;
}

static void code_step_begin(struct code_run *run)
{
	char **step = code_step_argv(run), tool[256];
	size_t n = strv_len(step), at = run->warm ? 4 : 0;
	AUTO_FREE const char **argv = calloc(at + n + 1, sizeof(*argv));
	struct exec_start start = { .argv = argv,
				    .env = (const char *const *)run->plan.env,
				    .cwd = CODE_DIR,
				    .hold = true };
	struct warren_error err = WARREN_ERROR_INIT;
	struct sandbox *sandbox;
	struct code_ticket *t;

	if (!argv) {
		(void)error_errno(&err, ENOMEM, "run the program");
		code_fail(run, &err);
		return;
	}
	if (run->warm) {
		argv[0] = "sh";
		argv[1] = "-c";
		/* Remove the variables that the shell adds. */
		argv[2] = "mkfifo \"$0\" && "
			  "exec env -u PWD -u OLDPWD -u SHLVL -u _ \"$@\"";
		argv[3] = run->plan.files[0].name;
	}
	(void)memcpy(argv + at, step, n * sizeof(*argv));
	(void)code_step_tool(step[0], run->tool, tool, sizeof(tool));
	argv[at] = tool;
	start.input = run->warm || (run->step != CODE_COMPILES && run->plan.input);
	start.timeout_ms = run->warm ? CODE_WARM_MS : code_step_time(run);
	if (run->brings) {
		start.file = run->plan.files[0].name;
		start.content = run->plan.files[0].data;
		start.content_size = run->plan.files[0].size;
	}
	sandbox = code_use_sandbox(run);
	t = sandbox ? code_ticket_new(run) : NULL;
	if (t)
		exec_start(sandbox, &start, code_on_started, t);
}

void code_execute(struct code_run *run)
{
	run->begun = clock_now();
	run->step = run->plan.compile ? CODE_COMPILES : CODE_RUNS;
	code_step_begin(run);
}
