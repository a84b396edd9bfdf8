/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_run.c - warren run: run a command in a new sandbox
 *
 * The steps, in order: block signals; create the sandbox (pull its image first if it is
 * missing); connect it to the outside if it has a network policy (run_network.c); start
 * the command; move its streams until it ends (run_io.c); destroy the sandbox; drain the
 * streams; report the result. If a step fails, the sandbox is destroyed and the terminal
 * is restored.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/kind.h"
#include "base/json.h"
#include "cli/backends.h"
#include "cli/cli.h"
#include "cli/exec_helper.h"
#include "cli/run_io.h"
#include "cli/run_network.h"
#include "cli/run_options.h"
#include "cli/run_pull.h"
#include "cli/run_result.h"
#include "cli/run_signal.h"
#include "cli/run_tty.h"
#include "spec/spec.h"

struct run {
	struct run_options options;
	const char *const *args; /* as given */
	const char **argv;       /* the words of the command, which this struct owns */
	sigset_t signal_set;
	int signals;                  /* descriptor; -1 */
	struct cli_backends backends; /* the requested backend; none: native */
	struct warren *w;
	struct warren_sandbox *sb;
	struct warren_exec *ex;
	struct run_network network;
	struct run_io io;
	struct warren_result result;
	struct run_report report;
};

/* Report a failure that ends the run, in every requested form. */
static int run_fail(struct run *run, const struct warren_error *err, int status)
{
	tty_restore();
	if (err->msg[0]) /* otherwise a helper has printed it */
		message_say("run", "%s", err->msg);
	if (run->options.json)
		report_error(&run->report, err, status);
	return status;
}

/*
 * Open the engine. A backend or tier is looked up only if the user requests one, because
 * this takes time.
 */
static int run_open_engine(struct run *run, struct warren_error *err)
{
	const struct run_options *o = &run->options;
	struct warren_options options = { .trace = o->verbose };

	if (run->backends.n > 0) {
		options.backend = run->backends.v[0].kind;
		options.backend_config = run->backends.v[0].settings;
	}
	return warren_open(&options, &run->w, err);
}

static int choose_backend(struct run *run, struct warren_error *err)
{
	const struct run_options *o = &run->options;

	if (!o->backend && !o->tier)
		return 0;
	return cli_backends_choose(o->backend, o->tier, &run->backends, err);
}

/* Does the backend use its own images? */
static bool has_own_images(const struct run *run)
{
	const struct backend_kind *kind =
		run->backends.n > 0 ? backend_kind_find(run->backends.v[0].kind) : NULL;

	return kind && kind->images != BACKEND_IMAGES_OURS;
}

/* Volumes belong to the service. */
static int run_check_volumes(const struct run_options *o, struct warren_error *err)
{
	for (size_t i = 0; i < o->mounts.n; i++)
		if (o->mounts.v[i].volume)
			return error_set(
				err, EINVAL,
				"volume '%s' needs the service: add --daemon, or -d "
				"to run in the background; for a directory, write "
				"./%s",
				o->mounts.v[i].source, o->mounts.v[i].source);
	return 0;
}

static int run_make_sandbox(struct run *run, struct warren_error *err)
{
	const struct run_options *o = &run->options;
	struct warren_spec spec = {
		.image = o->image,
		.hostname = o->hostname,
		.user = o->user,
		.workdir = o->workdir,
		.mounts = o->mounts.v,
		.n_mounts = o->mounts.n,
		.network = network_options_mode(&o->network),
		.read_only = o->read_only,
		.one_shot = true,
	};
	int r = run_check_volumes(o, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < SPEC_LIMIT_MAX; i++)
		spec_limit_set(&spec, i, o->limits[i]);
	if (!run->w)
		r = run_open_engine(run, err);
	return r < 0 ? r : warren_create(run->w, &spec, &run->sb, err);
}

static int open_signals(struct run *run, struct warren_error *err)
{
	if (run->signals < 0)
		run->signals = signals_open(&run->signal_set, err);
	return run->signals;
}

/* Return 0, -errno, or the signal that ended a pull. */
static int pull_and_make(struct run *run, struct warren_error *err)
{
	const struct run_options *o = &run->options;
	bool theirs, first;
	int r = choose_backend(run, err);

	if (r < 0)
		return r;
	theirs = has_own_images(run);
	first = !theirs && run_pull_first(o);
	r = first ? -ENOENT : run_make_sandbox(run, err);
	if (!first && (theirs || !run_pull_after(o, r)))
		return r;
	r = open_signals(run, err);
	if (r >= 0)
		r = run_pull(o, run->signals, err);
	return r == 0 ? run_make_sandbox(run, err) : r;
}

static int start_command(struct run *run, struct warren_error *err)
{
	const struct run_options *o = &run->options;
	struct warren_exec_spec spec = {
		.argv = (const char *const *)run->argv,
		.env = (const char *const *)o->env.v,
		.pty = o->tty,
		.timeout_ms = o->timeout_ms,
		.accounts_sandbox = true,
	};

	if (o->tty) {
		tty_size(&spec.rows, &spec.cols);
	} else {
		spec.in = o->interactive ? WARREN_STDIO_PIPE : WARREN_STDIO_NULL;
		spec.out = spec.err = WARREN_STDIO_PIPE;
	}
	return warren_exec(run->sb, &spec, &run->ex, err);
}

/* Add advice if the program exists on this machine, but not in the sandbox. */
static void run_advise(const struct run *run, struct warren_error *err)
{
	const char *program = run->argv[0];
	size_t n = strlen(err->msg);

	if (err->code == ENOENT && run->options.mounts.n == 0 && strchr(program, '/') &&
	    access(program, X_OK) == 0)
		(void)snprintf(err->msg + n, sizeof(err->msg) - n,
			       "; it exists on this machine, but not in the sandbox "
			       "(example: -v \"$PWD:$PWD\" -w \"$PWD\")");
	else if (err->code == ENOENT && !run->options.image && program[0] != '/' &&
		 program[0] != '.')
		(void)snprintf(err->msg + n, sizeof(err->msg) - n,
			       "; if it is an image, write its tag (%.60s:latest) or use "
			       "--image",
			       program);
}

/*
 * Return the exit status if the command could not be started. ENOTDIR can also mean that
 * --workdir cannot be entered, which is not an error of the command.
 */
static int run_exec_status(const struct run_options *o, int code)
{
	return code == ENOTDIR && o->workdir ? STATUS_FAILED : result_exec_status(code);
}

/* Return a signal that arrived before there was a command; 0: none. */
static int early_signal(const struct run *run)
{
	int sig = signals_next(run->signals);

	while (sig > 0 && !signal_ends(sig))
		sig = signals_next(run->signals);
	return sig;
}

/* Destroy the sandbox. After this, only data in its pipes is left. */
static int run_destroy(struct run *run, struct warren_error *err)
{
	struct warren_sandbox *sb = TAKE_PTR(run->sb);

	run->ex = warren_exec_free(run->ex);
	return sb ? warren_destroy(sb, err) : 0;
}

/* Was all output delivered? A reader that closed the stream is not a failure. */
static bool run_delivered(const struct splice *p, const char *name)
{
	if (p->error == 0 || p->error == EPIPE)
		return true;
	message_say("run", "write to %s: %s", name, strerrordesc_np(p->error));
	return false;
}

static int run_finish(struct run *run)
{
	const struct run_options *o = &run->options;
	struct warren_error err = WARREN_ERROR_INIT;
	int status = result_status(&run->result);
	int sig, r;

	if (o->json) {
		size_t n = 0;
		const struct warren_enforcement *e =
			run_network_enforced(&run->network, run->sb, &n);

		report_result(&run->report, warren_id(run->sb), &run->result);
		report_enforced(&run->report, e, n);
	}
	r = run_destroy(run, &err);
	sig = run_io_drain(&run->io);
	tty_restore();
	run_network_close(&run->network);
	if (o->json) {
		run_network_write(&run->network, &run->report.json);
		report_output(&run->report, &run->io.out, &run->io.err);
	}
	result_say_end(o, &run->result);
	run_network_say(&run->network, "run", o->quiet || o->json);
	if (r < 0) {
		int failed = run_fail(run, &err, STATUS_FAILED);

		status = status ? status : failed;
	}
	if (!run_delivered(&run->io.out, "stdout") ||
	    !run_delivered(&run->io.err, "stderr"))
		status = status ? status : STATUS_FAILED;
	return sig ? STATUS_SIGNAL + sig : status;
}

/* Report what is enforced only after all of it is. */
static int run_connect_sandbox(struct run *run, struct warren_error *err)
{
	const struct warren_enforcement *e;
	size_t n = 0;
	int r = run_network_open(&run->network, run->sb, err);

	if (r < 0)
		return r;
	e = run_network_enforced(&run->network, run->sb, &n);
	result_say_sandbox(&run->options, run->sb, e, n);
	return 0;
}

static int run_sandbox(struct run *run)
{
	const struct run_options *o = &run->options;
	struct warren_error err = WARREN_ERROR_INIT;
	int sig;

	signals_block(o->tty, &run->signal_set);
	if (run_network_start(&run->network, &err) < 0)
		return run_fail(run, &err, STATUS_FAILED);
	sig = pull_and_make(run, &err);
	if (sig < 0 || open_signals(run, &err) < 0)
		return run_fail(run, &err, STATUS_FAILED);
	run->io.signals = run->signals;
	if (sig == 0)
		sig = early_signal(run);
	if (sig > 0) {
		(void)error_set(&err, EINTR,
				"interrupted before the command was started");
		return run_fail(run, &err, STATUS_SIGNAL + sig);
	}
	if (run_connect_sandbox(run, &err) < 0)
		return run_fail(run, &err, STATUS_FAILED);
	run->io.tty = o->tty;
	run->io.raw = o->tty && o->interactive;
	if (run->io.raw && tty_raw(STDIN_FILENO, &err) < 0)
		return run_fail(run, &err, STATUS_FAILED);
	if (warren_command(run->sb, o->entrypoint, run->args, &run->argv, &err) < 0)
		return run_fail(run, &err, STATUS_FAILED);
	if (start_command(run, &err) < 0) {
		run_advise(run, &err);
		return run_fail(run, &err, run_exec_status(o, err.code));
	}
	if (run_io_start(&run->io, run->ex, o, &err) < 0 ||
	    run_io_run(&run->io, run->ex, &run->result, &err) < 0)
		return run_fail(run, &err, STATUS_FAILED);
	return run_finish(run);
}

static int run_done(struct run *run, int status)
{
	struct warren_error err = WARREN_ERROR_INIT;

	if (run_destroy(run, &err) < 0)
		message_say("run", "%s", err.msg);
	run_io_done(&run->io);
	run_network_done(&run->network);
	run->w = warren_close(run->w);
	if (run->signals >= 0)
		(void)close(run->signals);
	free(run->argv);
	cli_backends_done(&run->backends);
	if (run->options.json)
		status = report_print(&run->report, status);
	report_done(&run->report);
	run_options_done(&run->options);
	return status;
}

/* Report limits that are higher than what the machine has, because they have no
 * effect. */
static void run_note_limits(const struct run_options *o)
{
	uint64_t pages = (uint64_t)sysconf(_SC_PHYS_PAGES);
	uint64_t memory = pages * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t millis = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN) * 1000;

	if (o->quiet || o->json)
		return;
	if (memory && o->limits[SPEC_MEMORY] > memory)
		message_say("run",
			    "--memory is more than the %ju MiB that this machine has",
			    (uintmax_t)(memory >> 20));
	if (millis && o->limits[SPEC_CPU] > millis)
		message_say("run", "--cpus is more than the %ju that this machine has",
			    (uintmax_t)(millis / 1000));
}

/* Is there a command without arguments: that of the image, or the given entrypoint? */
static bool has_own_command(const struct run_options *o)
{
	return run_options_stored(o) || (o->entrypoint && o->entrypoint[0]) || o->detach;
}

/* With --daemon, the client program gets the same words. */
static const struct command by_service = { .name = "run", .program = "warren-client" };

static int cmd_run(int argc, char **argv)
{
	struct run run = {
		.signals = -1,
		.network = RUN_NETWORK_INIT,
		.io = { .in = PUMP_IDLE, .out = PUMP_IDLE, .err = PUMP_IDLE },
	};
	struct warren_error err = WARREN_ERROR_INIT;
	int first = 0;
	int r = opts_parse(&run_opts, argc, argv, &run.options, &first, &err);

	if (r == OPTS_HELP) {
		run_options_done(&run.options);
		return help_command(&command_run);
	}
	if (r == OPTS_OK)
		r = run_options_take_image(&run.options, argv, argc, &first, &err);
	if (r == OPTS_OK && (first == argc || !argv[first][0]) &&
	    !has_own_command(&run.options))
		r = error_set(&err, EINVAL,
			      "no command to run (example: warren run -- uname -n)");
	if (r == OPTS_OK && run_options_service(&run.options)) {
		run_options_done(&run.options);
		return helper_run(&by_service, argv);
	}
	if (r == OPTS_OK)
		r = run_options_finish(&run.options, &err);
	if (r == OPTS_OK)
		r = run_network_init(&run.network, &run.options.network, &err);
	if (run.options.json)
		report_init(&run.report);
	if (r < 0)
		return run_done(&run, run_fail(&run, &err, STATUS_FAILED));
	run_note_limits(&run.options);
	run.args = (const char *const *)(argv + first);
	return run_done(&run, run_sandbox(&run));
}

const struct command command_run = {
	.name = "run",
	.summary = "Run a command in a new sandbox and remove the sandbox afterwards.",
	.about =
		"The first word is an image if it has a tag or a digest (python:3.12), and else a\n"
		"program. After '--' or --image it is a program; with --detach it is an image.\n\n"
		"Exit status: the command's own; 124 after a timeout, 125 when Warren failed,\n"
		"126 when the command cannot be executed, 127 when it does not exist, 128+N when\n"
		"signal N ended it.\n",
	.opts = &run_opts,
	.run = cmd_run,
};
