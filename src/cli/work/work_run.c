/* SPDX-License-Identifier: Apache-2.0 */
/* work_run.c - create a sandbox for a project, run commands in it, and destroy it */
#include "cli/work/work_run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "cli/command.h"
#include "cli/run_io.h"
#include "cli/run_network.h"
#include "cli/run_pull.h"
#include "cli/run_result.h"
#include "cli/run_signal.h"
#include "cli/run_tty.h"
#include "cli/work/forward_ports.h"
#include "spec/spec.h"

/* What a command has to end after a signal, before the sandbox ends with it. */
#define WORK_GRACE_MS 5000

struct work_sandbox {
	struct work_sandbox_options o;
	sigset_t before; /* the caller's mask of signals */
	int signals;
	int signal; /* the last one that ended or was passed on to a command */
	struct warren *w;
	struct warren_sandbox *sb;
	struct run_network network;
	struct run_io io;
	struct forward_ports *ports;
	bool say_denied;
};

static int work_sandbox_make(struct work_sandbox *s, struct warren_error *err)
{
	const struct run_options *o = s->o.options;
	struct warren_spec spec = {
		.image = o->image,
		.hostname = o->hostname,
		.user = o->user,
		.workdir = o->workdir,
		.mounts = s->o.mounts,
		.n_mounts = s->o.n_mounts,
		.network = network_options_mode(&o->network),
		.read_only = o->read_only,
		.one_shot = s->o.single,
		.writes = s->o.writes,
		.layers = s->o.layers,
	};

	for (size_t i = 0; i < SPEC_LIMIT_MAX; i++)
		spec_limit_set(&spec, i, o->limits[i]);
	return warren_create(s->w, &spec, &s->sb, err);
}

static int work_sandbox_pull(struct work_sandbox *s, struct warren_error *err)
{
	const struct run_options *o = s->o.options;
	bool first = run_pull_first(o);
	int r = first ? -ENOENT : work_sandbox_make(s, err);

	if (!first && !run_pull_after(o, r))
		return r;
	r = run_pull(o, s->signals, err);
	if (r > 0) {
		s->signal = r;
		return error_set(err, EINTR, "interrupted while the image was pulled");
	}
	return r < 0 ? r : work_sandbox_make(s, err);
}

/* Has a signal arrived before there was a command? */
static int work_sandbox_early(struct work_sandbox *s, struct warren_error *err)
{
	int sig = signals_next(s->signals);

	while (sig > 0 && !signal_ends(sig))
		sig = signals_next(s->signals);
	if (sig <= 0)
		return 0;
	s->signal = sig;
	return error_set(err, EINTR, "interrupted before the command was started");
}

static int work_sandbox_start(struct work_sandbox *s, struct warren_error *err)
{
	const struct run_options *o = s->o.options;
	struct warren_options engine = { .trace = o->verbose };
	const struct warren_enforcement *e;
	sigset_t set;
	size_t n = 0;
	int r;

	(void)sigprocmask(SIG_SETMASK, NULL, &s->before);
	signals_block(o->tty, &set);
	s->signals = signals_open(&set, err);
	if (s->signals < 0)
		return s->signals;
	s->io.signals = s->signals;
	r = run_network_init(&s->network, &o->network, err);
	if (r == 0)
		r = run_network_start(&s->network, err);
	if (r == 0)
		r = warren_open(&engine, &s->w, err);
	if (r == 0)
		r = work_sandbox_pull(s, err);
	if (r == 0)
		r = work_sandbox_early(s, err);
	if (r == 0)
		r = run_network_open(&s->network, s->sb, err);
	if (r < 0)
		return r;
	e = run_network_enforced(&s->network, s->sb, &n);
	if (!o->quiet)
		result_say_enforced(s->o.command, e, n, o->verbose);
	if (s->o.n_ports > 0)
		r = forward_ports_open(s->o.command, o->quiet, s->o.ports, s->o.n_ports,
				       s->sb, &s->ports, err);
	if (s->ports)
		s->io.source = forward_ports_source(s->ports);
	return r;
}

int work_sandbox_open(const struct work_sandbox_options *options,
		      struct work_sandbox **ret, int *ret_signal,
		      struct warren_error *err)
{
	struct work_sandbox *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return error_errno(err, ENOMEM, "allocate a sandbox");
	s->o = *options;
	s->signals = -1;
	s->network = (struct run_network)RUN_NETWORK_INIT;
	s->io = (struct run_io){ .in = PUMP_IDLE, .out = PUMP_IDLE, .err = PUMP_IDLE };
	r = work_sandbox_start(s, err);
	if (r == -EINTR && ret_signal)
		*ret_signal = s->signal;
	if (r < 0)
		s = work_sandbox_close(s);
	else
		*ret = s;
	return r;
}

/* Move the output that has arrived; a process in the background may hold the pipes. */
static void work_sandbox_flush(struct work_sandbox *s)
{
	struct splice *const pumps[] = { &s->io.out, &s->io.err };

	for (size_t i = 0; i < ARRAY_SIZE(pumps); i++) {
		struct pollfd p = { .fd = splice_fd(pumps[i]),
				    .events = splice_events(pumps[i]) };

		while (p.fd >= 0 && poll(&p, 1, 0) > 0) {
			splice_step(pumps[i], p.revents);
			p.fd = splice_fd(pumps[i]);
			p.events = splice_events(pumps[i]);
		}
	}
	run_io_done(&s->io);
}

static int work_sandbox_streams(struct work_sandbox *s, const struct run_options *o,
				struct warren_exec *ex, int output,
				struct warren_error *err)
{
	if (output < 0)
		return run_io_start(&s->io, ex, o, err);
	splice_init_out(&s->io.out, warren_exec_take_fd(ex, STDOUT_FILENO), output);
	splice_init_out(&s->io.err, warren_exec_take_fd(ex, STDERR_FILENO), output);
	return 0;
}

static void work_exec_spec(const struct work_sandbox *s, const struct run_options *o,
			   const struct work_exec *from, struct warren_exec_spec *ret)
{
	*ret = (struct warren_exec_spec){
		.argv = from->argv,
		.env = (const char *const *)o->env.v,
		.cwd = from->cwd,
		.user = from->user,
		.pty = o->tty,
		.timeout_ms = o->timeout_ms,
		.accounts_sandbox = s->o.single,
	};
	if (o->tty) {
		tty_size(&ret->rows, &ret->cols);
		return;
	}
	ret->in = o->interactive ? WARREN_STDIO_PIPE : WARREN_STDIO_NULL;
	ret->out = ret->err = WARREN_STDIO_PIPE;
}

int work_sandbox_exec(struct work_sandbox *s, const struct work_exec *spec,
		      struct warren_result *ret, struct warren_error *err)
{
	struct run_options o = *s->o.options;
	struct warren_exec_spec exec;
	struct warren_exec *ex = NULL;
	int r;

	o.json = false;
	if (spec->output >= 0)
		o.tty = o.interactive = false;
	work_exec_spec(s, &o, spec, &exec);
	s->io.tty = o.tty;
	s->io.raw = o.tty && o.interactive;
	s->io.grace_ms = WORK_GRACE_MS;
	if (s->io.raw && tty_raw(STDIN_FILENO, err) < 0)
		return -err->code;
	r = warren_exec(s->sb, &exec, &ex, err);
	if (r == 0)
		r = work_sandbox_streams(s, &o, ex, spec->output, err);
	if (r == 0)
		r = run_io_run(&s->io, ex, ret, err);
	s->signal = s->io.ending ? s->io.ending : s->signal;
	ex = warren_exec_free(ex);
	if (r < 0 || !s->o.single)
		work_sandbox_flush(s);
	if (r < 0 || !s->o.single)
		tty_restore();
	return r;
}

int work_sandbox_signal(const struct work_sandbox *s, bool *ret_killed)
{
	*ret_killed = s->io.killed;
	return s->signal;
}

void work_sandbox_say_denied(struct work_sandbox *s)
{
	s->say_denied = true;
}

struct work_sandbox *work_sandbox_close(struct work_sandbox *s)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_sandbox *sb;

	if (!s)
		return NULL;
	s->io.source = NULL;
	s->ports = forward_ports_close(s->ports);
	sb = TAKE_PTR(s->sb);
	if (sb && warren_destroy(sb, &err) < 0)
		message_say(s->o.command, "%s", err.msg);
	if (s->signals >= 0)
		(void)run_io_drain(&s->io);
	tty_restore();
	run_network_close(&s->network);
	run_network_say(&s->network, s->o.command, s->o.options->quiet && !s->say_denied);
	run_io_done(&s->io);
	run_network_done(&s->network);
	s->w = warren_close(s->w);
	if (s->signals >= 0)
		(void)close(s->signals);
	(void)sigprocmask(SIG_SETMASK, &s->before, NULL);
	free(s);
	return NULL;
}
