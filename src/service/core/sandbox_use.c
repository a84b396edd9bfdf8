/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox_use.c - uses of a sandbox: a use resumes or wakes it first, if necessary
 *
 * A use waits for the jobs before it, so a sandbox is never used while it is being
 * paused. While it hibernates, uses wait for the end, and then wake it. The same applies
 * to a hibernation that an earlier process began, and that the warden may complete: only
 * the next connection to the init, or its failure, shows how that ended. Such a use lets
 * jobs pass that open the connection, or that end the sandbox (sandbox_job.step_back).
 */
#include <errno.h>

#include "service/core/internal.h"
#include "service/core/sandbox_job.h"

/* What a use does in the present state of the sandbox. */
enum use_step {
	USE_REFUSED,     /* the state does not allow it */
	USE_NOW,         /* nothing: the sandbox runs */
	USE_UNREACHABLE, /* it fails: the sandbox runs, but is not connected */
	USE_LATER,       /* it waits: the sandbox is stopped in order to hibernate */
	USE_INTERRUPTED, /* likewise, but the process that stopped it was killed */
	USE_RESUMES,
	USE_WAKES,
};

static enum use_step use_next(const struct sandbox *sandbox)
{
	enum sandbox_state state = sandbox->row.state;

	if (state == SANDBOX_RUNNING && sandbox->left_paused)
		return USE_RESUMES;
	if (state == SANDBOX_RUNNING)
		return sandbox->conn >= 0 ? USE_NOW : USE_UNREACHABLE;
	if (state == SANDBOX_PAUSED)
		return sandbox->auto_paused && sandbox->wake_on_use ? USE_RESUMES
								    : USE_REFUSED;
	if (sandbox_state_sleeps(state))
		return sandbox->wake_on_use ? USE_WAKES : USE_REFUSED;
	if (sandbox_state_is_stopped(state) && sandbox->hibernating)
		return USE_LATER;
	return state == SANDBOX_HIBERNATING ? USE_INTERRUPTED : USE_REFUSED;
}

/* Queue the request again, after all jobs that wait. */
static void use_requeue(struct sandbox_job *job)
{
	struct sandbox_job again = *job;

	again.next = NULL;
	job->done = service_ignore;
	sandbox_job_add(job->sandbox, again);
	sandbox_job_end(job, 0, NULL);
}

/* Wait for the job that saves the files. Return false if there is no such job. */
static bool use_later(struct sandbox_job *job)
{
	const struct sandbox_job *next = job->next;

	while (next && next->kind == JOB_USE)
		next = next->next;
	if (next)
		use_requeue(job);
	return next;
}

/* Nothing has begun: the job begins again after the one that passes it. */
static bool use_step_back(struct sandbox_job *job UNUSED)
{
	return true;
}

bool sandbox_await_init(struct sandbox_job *job)
{
	const struct sandbox *sandbox = job->sandbox;
	const struct sandbox_job *next = job->next;

	if (use_next(sandbox) != USE_INTERRUPTED || sandbox->conn >= 0 ||
	    !loop_timer_is_set(sandbox->reconnect_timer))
		return false;
	while (next && !next->hurries)
		next = next->next;
	if (next)
		use_requeue(job);
	else
		job->step_back = use_step_back;
	return true;
}

static void begin_use(struct sandbox_job *job)
{
	struct sandbox *sandbox = job->sandbox;
	struct warren_error err = WARREN_ERROR_INIT;
	enum use_step step = use_next(sandbox);
	int r = 0;

	job->step_back = NULL;
	if ((step == USE_LATER && use_later(job)) || sandbox_await_init(job))
		return;
	if (step == USE_INTERRUPTED && sandbox->conn >= 0) {
		survive(sandbox->service,
			sandbox_move(sandbox, SANDBOX_RUNNING, NULL, &err));
		step = use_next(sandbox);
	}
	if (step == USE_RESUMES) {
		sandbox_pause_begin(job);
		return;
	}
	if (step == USE_WAKES) {
		sandbox_wake_begin(job);
		return;
	}
	if (step == USE_UNREACHABLE || (step == USE_INTERRUPTED && sandbox->conn < 0))
		r = init_conn_refuse(sandbox, &err);
	else if (sandbox->row.state != SANDBOX_RUNNING)
		r = sandbox_wrong_state(sandbox, &err);
	sandbox_job_end(job, r, &err);
}

void sandbox_use(struct sandbox *sandbox, service_done_fn done, void *ctx)
{
	struct warren_error err = WARREN_ERROR_INIT;
	bool pass = !sandbox->code_run || sandbox->code_pass;
	enum use_step step = use_next(sandbox);

	sandbox->code_pass = false;
	sandbox_touch(sandbox);
	if (!pass)
		done(ctx, sandbox_check_run(sandbox, &err), &err);
	else if (step == USE_REFUSED && sandbox->row.state != SANDBOX_PAUSED &&
		 !sandbox->hibernating)
		done(ctx, sandbox_wrong_state(sandbox, &err), &err);
	else if (step == USE_NOW && !sandbox->jobs)
		done(ctx, 0, NULL);
	else
		sandbox_job_add(sandbox,
				(struct sandbox_job){ .begin = begin_use,
						      .to = SANDBOX_RUNNING,
						      .why = "use",
						      .kind = JOB_USE,
						      .permit = sandbox->service->permit,
						      .done = done,
						      .ctx = ctx });
}
