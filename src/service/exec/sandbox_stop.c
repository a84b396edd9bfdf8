/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox_stop.c - stop a sandbox (its processes end, its files stay), and start it again
 *
 * init or the shim keeps running, and preserves the namespaces and the written files. It
 * sends each signal to all processes except itself in one step, so that none is missed.
 * The sandbox is stopped when each of its execs has ended. The grace period applies to
 * running execs and to all other processes that catch SIGTERM; the shells of sessions
 * ignore SIGTERM, so the service does not wait for them. If the service is killed during
 * a stop, the sandbox is still running, with fewer processes, and no client has been told
 * that it is stopped. If the connection to init breaks during the grace period, the stop
 * is queued again, behind the job that opens another connection and finds out whether
 * init is alive.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "proto/warden_proto.h"
#include "service/core/sandbox_job.h"
#include "service/exec/internal.h"

/* Time until processes that were started in the meantime are killed too. */
#define AGAIN_MS  200
#define TRIES_MAX 100
/* Time in which processes end that were killed: the ones that do not are a fault. */
#define KILLED_MS ((uint64_t)AGAIN_MS * TRIES_MAX)
/*
 * Time by which a process may end after its grace period, if the service was killed in
 * between: a shim starts another process inside to send a signal. A command that ends by
 * itself in this time runs again; without this time, on_exit could delete the sandbox
 * because of its hibernation.
 */
#define LATE_MS   5000
#define TRIES_FAR 10 /* number of tries if no process could be started inside */
#define LOOK_MS   20 /* first interval between checks for other processes; it grows */
#define LOOK_MAX  1000
#define BRIEF_MS  2000 /* least time for brief uses to end before a hibernation */

struct stop_op {
	struct sandbox_job *job;
	struct loop_timer *timer;
	uint64_t look_ms;
	/* The end of the grace period, or of the wait for brief uses: ms of the loop. */
	uint64_t kill_at;
	bool waits;    /* it has not begun: brief uses are to end first */
	bool killing;  /* SIGKILL was sent */
	bool answered; /* init has confirmed the SIGKILL */
	bool broken;   /* the connection to init broke during the grace period */
	unsigned tries;
};

void sandbox_stop_gone(struct sandbox *sandbox)
{
	struct stop_op *op = TAKE_PTR(sandbox_execs(sandbox)->stopping);

	if (!op)
		return;
	sandbox->on_brief_ended = NULL;
	op->timer = loop_timer_free(op->timer);
	free(op);
}

static void stop_end(struct sandbox *sandbox, int r, const struct warren_error *err)
{
	struct sandbox_job *job = sandbox_execs(sandbox)->stopping->job;

	sandbox_stop_gone(sandbox);
	main_command_stopped(sandbox);
	sandbox_job_end(job, r, err);
}

static bool stop_is_done(const struct sandbox *sandbox)
{
	for (const struct exec *exec = sandbox_execs(sandbox)->list; exec;
	     exec = exec->next)
		if (!exec->row.ended && !exec->lost)
			return false;
	return true;
}

static void stop_on_killed(void *ctx, struct init_reply *a,
			   const struct warren_error *failure)
{
	struct sandbox *sandbox = ctx;
	struct warren_error err = WARREN_ERROR_INIT;
	int code = failure ? failure->code : reply_code(&a->m.reply);
	struct stop_op *op = sandbox_execs(sandbox)->stopping;

	if (!op || sandbox->service->closing)
		return;
	if (!failure && code == EREMOTEIO && op->tries < TRIES_FAR) {
		op->killing = false;
		op->kill_at = 0;
		loop_timer_set(op->timer, AGAIN_MS);
		return;
	}
	if (failure) {
		err = *failure;
	} else if (code == ESRCH || code == EOPNOTSUPP) {
		(void)error_set(
			&err, EOPNOTSUPP,
			"the sandbox was created by an older version of Warren and cannot be stopped: pause it, or delete it");
	} else if (code != 0) {
		(void)reply_refuse(a, &err, "end the processes of the sandbox");
	} else {
		op->answered = true;
		sandbox_stop_look(sandbox);
		return;
	}
	stop_end(sandbox, -err.code, &err);
}

/* The result of SIGTERM does not matter. */
static void stop_on_asked(void *ctx UNUSED, struct init_reply *a UNUSED,
			  const struct warren_error *failure UNUSED)
{
}

static void stop_signal(struct sandbox *sandbox, int sig)
{
	struct proto_signal msg = { .h = { .type = PROTO_SIGNAL },
				    .sig = sig,
				    .whom = PROTO_WHOM_ALL };
	bool kills = sig == SIGKILL;
	struct warren_error err = WARREN_ERROR_INIT;
	int r = init_conn_ask_struct(sandbox, &msg, sizeof(msg), -1,
				     kills ? stop_on_killed : stop_on_asked, sandbox,
				     &err);

	if (r < 0 && kills)
		stop_end(sandbox, r, &err);
}

static void stop_kill(struct sandbox *sandbox)
{
	struct stop_op *op = sandbox_execs(sandbox)->stopping;
	struct warren_error err = WARREN_ERROR_INIT;

	if (op->tries++ == TRIES_MAX) {
		stop_end(sandbox,
			 error_set(&err, ETIMEDOUT,
				   "the processes of the sandbox do not end"),
			 &err);
		return;
	}
	if (op->job->to == SANDBOX_HIBERNATING && op->tries == 1)
		main_command_ends_within(sandbox, KILLED_MS);
	op->killing = true;
	op->answered = false;
	stop_signal(sandbox, SIGKILL);
}

/* Processes that an ended exec left, or commands of a session, may handle SIGTERM. */
static void stop_on_left(void *ctx, struct init_reply *a,
			 const struct warren_error *failure)
{
	struct sandbox *sandbox = ctx;
	struct stop_op *op = sandbox_execs(sandbox)->stopping;
	uint64_t now = loop_now(sandbox->service->loop);

	if (!op || op->killing || op->broken || sandbox->service->closing)
		return;
	if (failure || reply_code(&a->m.reply) != 0 || now >= op->kill_at) {
		stop_kill(sandbox);
		return;
	}
	loop_timer_set(op->timer,
		       op->kill_at - now < op->look_ms ? op->kill_at - now : op->look_ms);
	if (op->look_ms < LOOK_MAX)
		op->look_ms *= 2;
}

/* No exec is left that needs the grace period: check for other processes. */
static void stop_look_for_others(struct sandbox *sandbox)
{
	struct proto_signal msg = { .h = { .type = PROTO_SIGNAL },
				    .whom = PROTO_WHOM_ALL };
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (init_conn_ask_struct(sandbox, &msg, sizeof(msg), -1, stop_on_left, sandbox,
				 &ignored) < 0)
		stop_kill(sandbox);
}

/* Begin with the stop itself. */
static void stop_go(struct sandbox *sandbox)
{
	struct stop_op *op = sandbox_execs(sandbox)->stopping;
	uint64_t grace_ms = op->job->grace_ms;

	op->waits = false;
	sandbox->on_brief_ended = NULL;
	if (sandbox_state_is_stopped(sandbox->row.state)) {
		stop_end(sandbox, 0, NULL);
		return;
	}
	main_command_ends_within(
		sandbox, op->job->to == SANDBOX_HIBERNATING ? grace_ms + LATE_MS : 0);
	if (grace_ms == 0) {
		stop_kill(sandbox);
		return;
	}
	op->kill_at = loop_now(sandbox->service->loop) + grace_ms;
	loop_timer_set(op->timer, sandbox->n_running > 0 ? grace_ms : 0);
	stop_signal(sandbox, SIGTERM);
}

/* The stop goes on outside of the callback that ends the use. */
static void stop_on_brief_ended(struct sandbox *sandbox)
{
	loop_timer_set(sandbox_execs(sandbox)->stopping->timer, 0);
}

/* Queue the stop again with the rest of its grace period, for the same client. */
static void stop_again(struct sandbox *sandbox)
{
	struct stop_op *op = sandbox_execs(sandbox)->stopping;
	uint64_t now = loop_now(sandbox->service->loop);
	struct sandbox_job *job = op->job, again = *job;

	again.next = NULL;
	if (!op->waits)
		again.grace_ms = now < op->kill_at ? op->kill_at - now : 0;
	job->done = service_ignore;
	job->hurry = NULL;
	sandbox_stop_gone(sandbox);
	sandbox_job_add(sandbox, again);
	sandbox_job_end(job, 0, NULL);
}

static enum sandbox_state stop_state(const struct sandbox_job *job)
{
	return job->to == SANDBOX_HIBERNATING ? SANDBOX_HIBERNATING : SANDBOX_STOPPED;
}

static void stop_on_timer(void *ctx)
{
	struct sandbox *sandbox = ctx;
	struct stop_op *op = sandbox_execs(sandbox)->stopping;
	struct warren_error err = WARREN_ERROR_INIT;

	if (op->broken)
		stop_again(sandbox);
	else if (op->waits)
		stop_go(sandbox);
	else if (op->killing && op->answered && stop_is_done(sandbox))
		stop_end(sandbox, sandbox_move(sandbox, stop_state(op->job), NULL, &err),
			 &err);
	else if (!op->killing && loop_now(sandbox->service->loop) < op->kill_at)
		stop_look_for_others(sandbox);
	else if (!op->killing || op->answered)
		stop_kill(sandbox);
}

/* Do not end the stop from within the callback that reports the end. */
void sandbox_stop_look(struct sandbox *sandbox)
{
	struct stop_op *op = sandbox_execs(sandbox)->stopping;

	if (!op || op->broken || op->waits)
		return;
	if (op->killing ? op->answered && stop_is_done(sandbox) : sandbox->n_running == 0)
		loop_timer_set(op->timer, 0);
	else if (op->killing && op->answered)
		loop_timer_set(op->timer, AGAIN_MS);
}

bool sandbox_stop_has_begun(const struct sandbox *sandbox)
{
	const struct stop_op *op = sandbox_execs(sandbox)->stopping;

	return op && !op->waits;
}

enum exec_ended_by sandbox_stop_ended_by(const struct exec *exec)
{
	return (exec->sandbox->hibernating && sandbox_stop_has_begun(exec->sandbox)) ||
			       exec->row.ended_at < exec->row.ends_until
		       ? EXEC_BY_HIBERNATION
		       : exec->row.ended_by;
}

/* Do not end the stop from within the code that reports the lost connection either. */
void sandbox_stop_disconnected(struct sandbox *sandbox)
{
	struct stop_op *op = sandbox_execs(sandbox)->stopping;

	if (!op || op->killing)
		return;
	op->broken = true;
	loop_timer_set(op->timer, 0);
}

static void stop_hurry(struct sandbox_job *job, uint64_t grace_ms)
{
	struct stop_op *op = sandbox_execs(job->sandbox)->stopping;
	uint64_t kill_at = loop_now(job->sandbox->service->loop) + grace_ms;

	if (!op || op->job != job || op->killing || op->broken)
		return;
	if (op->waits && grace_ms < BRIEF_MS)
		kill_at += BRIEF_MS - grace_ms;
	if (op->waits && grace_ms < job->grace_ms)
		job->grace_ms = grace_ms;
	if (kill_at >= op->kill_at)
		return;
	op->kill_at = kill_at;
	loop_timer_set(op->timer, kill_at - loop_now(job->sandbox->service->loop));
}

/* A brief use that the stop waits for has added a job. */
static bool stop_step_back(struct sandbox_job *job)
{
	const struct stop_op *op = sandbox_execs(job->sandbox)->stopping;

	if (!op || op->job != job || !op->waits || op->broken)
		return false;
	sandbox_stop_gone(job->sandbox);
	return true;
}

/* Before its files are saved, uses of a stopped sandbox end too: comparisons. */
static bool stop_waits_for_uses(const struct sandbox_job *job)
{
	return job->to == SANDBOX_HIBERNATING && job->sandbox->hibernating &&
	       job->sandbox->n_brief > 0 &&
	       sandbox_state_is_stopped(job->sandbox->row.state);
}

static void begin_stop(struct sandbox_job *job)
{
	struct sandbox *sandbox = job->sandbox;
	struct warren_error err = WARREN_ERROR_INIT;
	struct stop_op *op;
	int r = 0;

	if ((sandbox_state_is_stopped(sandbox->row.state) && !stop_waits_for_uses(job)) ||
	    sandbox->row.state == SANDBOX_ON_DISK ||
	    !sandbox_is_due(sandbox, job->cause)) {
		/* From now on it is stopped because a client requested it. */
		if (sandbox->row.state == SANDBOX_HIBERNATING &&
		    job->to == SANDBOX_STOPPED)
			r = sandbox_move(sandbox, SANDBOX_STOPPED, NULL, &err);
		sandbox_job_end(job, r, &err);
		return;
	}
	if ((sandbox->row.state != SANDBOX_RUNNING || sandbox->conn < 0) &&
	    !stop_waits_for_uses(job)) {
		bool runs = sandbox->row.state == SANDBOX_RUNNING;

		sandbox_job_end(job,
				runs ? init_conn_refuse(sandbox, &err)
				     : sandbox_wrong_state(sandbox, &err),
				&err);
		return;
	}
	op = calloc(1, sizeof(*op));
	if (!op || loop_timer_new(sandbox->service->loop, stop_on_timer, sandbox,
				  &op->timer) < 0) {
		free(op);
		sandbox_job_end(job, error_errno(&err, ENOMEM, "stop the sandbox"), &err);
		return;
	}
	op->job = job;
	sandbox_execs(sandbox)->stopping = op;
	op->look_ms = LOOK_MS;
	if (sandbox->hibernating && sandbox->n_brief > 0) {
		uint64_t ms = job->grace_ms > BRIEF_MS ? job->grace_ms : BRIEF_MS;

		/* Uses that come later wait for this job, and wake the sandbox. */
		op->waits = true;
		job->step_back = stop_step_back;
		op->kill_at = loop_now(sandbox->service->loop) + ms;
		sandbox->on_brief_ended = stop_on_brief_ended;
		loop_timer_set(op->timer, ms);
		return;
	}
	stop_go(sandbox);
}

static void sandbox_stop_by(struct sandbox *sandbox, enum sandbox_job_kind kind,
			    const char *why, const struct permit *permit,
			    uint64_t grace_ms, service_done_fn done, void *ctx)
{
	sandbox_job_add(sandbox, (struct sandbox_job){ .begin = begin_stop,
						       .kind = kind,
						       .to = SANDBOX_STOPPED,
						       .why = why,
						       .hurries = true,
						       .grace_ms = grace_ms,
						       .hurry = stop_hurry,
						       .permit = *permit,
						       .done = done,
						       .ctx = ctx });
}

void sandbox_stop_for(struct sandbox *sandbox, const char *why, uint64_t grace_ms,
		      service_done_fn done, void *ctx)
{
	sandbox_stop_by(sandbox, JOB_OURS, why, &(struct permit){ 0 }, grace_ms, done,
			ctx);
}

void sandbox_stop_to_save(struct sandbox *sandbox, enum sandbox_cause cause,
			  uint64_t grace_ms, service_done_fn done, void *ctx)
{
	bool asked = cause == CAUSE_REQUEST;
	struct sandbox_job job = { .begin = begin_stop,
				   .kind = JOB_OURS,
				   .to = SANDBOX_HIBERNATING,
				   .why = sandbox_causes[cause],
				   .cause = cause,
				   .hurries = asked,
				   .grace_ms = grace_ms,
				   .hurry = stop_hurry,
				   .done = done,
				   .ctx = ctx };

	if (asked) {
		job.kind = grace_ms == 0 ? JOB_END : JOB_CHANGE;
		job.permit = sandbox->service->permit;
	}
	sandbox_job_add(sandbox, job);
}

void sandbox_stop_sooner(struct sandbox *sandbox, uint64_t grace_ms)
{
	const struct stop_op *op = sandbox_execs(sandbox)->stopping;

	if (op)
		stop_hurry(op->job, grace_ms);
}

void sandbox_stop(struct sandbox *sandbox, uint64_t grace_ms, service_done_fn done,
		  void *ctx)
{
	sandbox_stop_by(sandbox, grace_ms == 0 ? JOB_END : JOB_CHANGE, "request",
			&sandbox->service->permit, grace_ms, done, ctx);
}

/* ------------------------------------------------------------------- start */

struct start_op {
	struct service *service;
	char id[ID_LEN + 1];
	bool moved; /* the sandbox was stopped before this start */
	service_done_fn done;
	void *ctx;
};

/* Do nothing if another start was faster and has started its own command. */
static void begin_undo_start(struct sandbox_job *job)
{
	if (main_command_runs(job->sandbox))
		sandbox_job_end(job, 0, NULL);
	else
		begin_stop(job);
}

/* If the command cannot be started, the sandbox returns to its earlier state. */
static void start_on_command(void *ctx, int r, const struct warren_error *err)
{
	struct start_op op = *(struct start_op *)ctx;
	struct sandbox *sandbox = sandbox_find(op.service, NULL, op.id);

	free(ctx);
	if (r < 0 && op.moved && sandbox && !op.service->closing)
		sandbox_job_add(sandbox, (struct sandbox_job){ .begin = begin_undo_start,
							       .why = "command",
							       .done = service_ignore });
	op.done(op.ctx, r, err);
}

#define START_MOVED   1 /* the sandbox was stopped, and runs now */
#define START_COMMAND 2 /* the sandbox runs, but its main command does not */

static void start_on_moved(void *ctx, int r, const struct warren_error *err)
{
	struct start_op *op = ctx;
	struct sandbox *sandbox = sandbox_find(op->service, NULL, op->id);

	op->moved = r == START_MOVED;
	if (r > 0 && sandbox && sandbox->row.command) {
		main_command_start(sandbox, start_on_command, op);
		return;
	}
	op->done(op->ctx, r < 0 ? r : 0, err);
	free(op);
}

static void start_stopped(struct sandbox_job *job)
{
	struct sandbox *sandbox = job->sandbox;
	struct warren_error err = WARREN_ERROR_INIT;
	int r = sandbox_move(sandbox, SANDBOX_RUNNING, NULL, &err);

	if (r == 0) {
		sandbox_touch(sandbox);
		sandbox_arm(sandbox);
	}
	sandbox_job_end(job, r < 0 ? r : START_MOVED, r < 0 ? &err : NULL);
}

static void start_on_resumed(void *ctx, const struct warren_error *failure,
			     const char *data UNUSED, size_t size UNUSED, int fd)
{
	struct sandbox_job *job = ctx;

	if (fd >= 0)
		(void)close(fd);
	if (failure) {
		sandbox_job_end(job, -failure->code, failure);
		return;
	}
	job->sandbox->left_paused = false;
	start_stopped(job);
}

/* A copy of its files, made while it was stopped, could not resume it. */
static void start_resume(struct sandbox_job *job)
{
	struct warden_proto_sandbox msg = { .h = { .type = WIRE_RESUME } };
	struct warren_error err = WARREN_ERROR_INIT;
	int r = warden_conn_ask_of(job->sandbox, &msg, sizeof(msg), start_on_resumed,
				   job);

	if (r < 0)
		sandbox_job_end(
			job, error_errno(&err, -r, "send a request to the warden"), &err);
}

static void begin_start(struct sandbox_job *job)
{
	struct sandbox *sandbox = job->sandbox;
	struct warren_error err = WARREN_ERROR_INIT;
	int r = 0;

	job->step_back = NULL;
	if (sandbox_await_init(job))
		return;
	if (sandbox_state_is_stopped(sandbox->row.state)) {
		if (sandbox->left_paused)
			start_resume(job);
		else
			start_stopped(job);
		return;
	}
	if (sandbox_state_sleeps(sandbox->row.state)) {
		sandbox_wake_begin(job);
		return;
	} else if (sandbox->row.state != SANDBOX_RUNNING) {
		r = sandbox_wrong_state(sandbox, &err);
	} else if (main_command_is_over(sandbox)) {
		r = START_COMMAND;
	}
	sandbox_job_end(job, r, r < 0 ? &err : NULL);
}

void sandbox_start(struct sandbox *sandbox, service_done_fn done, void *ctx)
{
	struct start_op *op = malloc(sizeof(*op));
	struct warren_error err = WARREN_ERROR_INIT;

	if (!op) {
		done(ctx, error_errno(&err, ENOMEM, "start the sandbox"), &err);
		return;
	}
	*op = (struct start_op){ .service = sandbox->service, .done = done, .ctx = ctx };
	(void)memcpy(op->id, sandbox->row.id, sizeof(op->id));
	sandbox_job_add(sandbox, (struct sandbox_job){ .begin = begin_start,
						       .kind = JOB_CHANGE,
						       .why = "request",
						       .permit = sandbox->service->permit,
						       .done = start_on_moved,
						       .ctx = op });
}
