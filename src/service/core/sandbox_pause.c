/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_pause.c - pause and resume a sandbox */
#include <errno.h>

#include "proto/warden_proto.h"
#include "service/core/internal.h"
#include "service/core/sandbox_job.h"

static void on_undone(void *ctx UNUSED, const struct warren_error *failure UNUSED,
		      const char *data UNUSED, size_t size UNUSED, int fd)
{
	if (fd >= 0)
		(void)close(fd);
}

/* The new state cannot be recorded: return to the state in the database. */
static void undo_pause(const struct sandbox *sandbox, enum sandbox_state to)
{
	struct warden_proto_sandbox msg = {
		.h = { .type = to == SANDBOX_PAUSED ? WIRE_RESUME : WIRE_PAUSE }
	};

	(void)warden_conn_ask_of(sandbox, &msg, sizeof(msg), on_undone, NULL);
}

static void on_paused(void *ctx, const struct warren_error *failure,
		      const char *data UNUSED, size_t size UNUSED, int fd)
{
	struct sandbox_job *job = ctx;
	struct warren_error err = WARREN_ERROR_INIT;
	int r = 0;

	if (fd >= 0)
		(void)close(fd);
	if (!failure && job->sandbox->row.state != job->to)
		r = sandbox_move(job->sandbox, job->to, NULL, &err);
	if (r < 0)
		undo_pause(job->sandbox, job->to);
	if (!failure && r == 0) {
		job->sandbox->auto_paused =
			job->to == SANDBOX_PAUSED && job->cause != CAUSE_REQUEST;
		job->sandbox->saved = job->to == SANDBOX_PAUSED && job->save;
		job->sandbox->left_paused = false;
		sandbox_arm(job->sandbox);
		if (job->to == SANDBOX_RUNNING)
			ROOMS_CALL(job->sandbox->service, resumed, job->sandbox);
	}
	sandbox_job_end(job, failure ? -failure->code : r, failure ? failure : &err);
}

/*
 * If a copy of its files has left it paused, a request to pause it is carried out, so
 * that its next use does not resume it.
 */
static bool pause_is_done(const struct sandbox_job *job)
{
	const struct sandbox *sandbox = job->sandbox;

	return sandbox->row.state == job->to &&
	       !(sandbox->left_paused &&
		 (job->to == SANDBOX_RUNNING || job->cause == CAUSE_REQUEST));
}

void sandbox_pause_begin(struct sandbox_job *job)
{
	struct warden_proto_sandbox msg = { .h = { .type = job->to != SANDBOX_PAUSED
								   ? WIRE_RESUME
							   : job->save ? WIRE_CHECKPOINT
								       : WIRE_PAUSE } };
	struct sandbox *sandbox = job->sandbox;
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	if (job->save && sandbox->row.state == SANDBOX_PAUSED && !sandbox->saved) {
		sandbox_job_end(
			job,
			error_set(&err, ESTALE,
				  "the sandbox is paused and still in memory: resume it "
				  "before a checkpoint"),
			&err);
		return;
	}
	/* Repeating it is no error. Do not pause a sandbox that is no longer idle. */
	if (pause_is_done(job) || !sandbox_is_due(sandbox, job->cause)) {
		sandbox->auto_paused =
			sandbox->auto_paused && job->cause != CAUSE_REQUEST;
		sandbox_arm(sandbox);
		sandbox_job_end(job, 0, NULL);
		return;
	}
	if (sandbox->row.state != SANDBOX_RUNNING &&
	    sandbox->row.state != SANDBOX_PAUSED) {
		sandbox_job_end(job, sandbox_wrong_state(sandbox, &err), &err);
		return;
	}
	r = warden_conn_ask_of(sandbox, &msg, sizeof(msg), on_paused, job);
	if (r < 0)
		sandbox_job_end(
			job, error_errno(&err, -r, "send a request to the warden"), &err);
}

void sandbox_pause_for(struct sandbox *sandbox, enum sandbox_cause cause,
		       service_done_fn done, void *ctx)
{
	sandbox_job_add(sandbox, (struct sandbox_job){ .begin = sandbox_pause_begin,
						       .to = SANDBOX_PAUSED,
						       .why = sandbox_causes[cause],
						       .cause = cause,
						       .done = done,
						       .ctx = ctx });
}

static void pause_for_client(struct sandbox *sandbox, enum sandbox_state to, bool save,
			     service_done_fn done, void *ctx)
{
	sandbox_job_add(sandbox, (struct sandbox_job){ .begin = sandbox_pause_begin,
						       .to = to,
						       .save = save,
						       .why = "request",
						       .kind = JOB_CHANGE,
						       .permit = sandbox->service->permit,
						       .done = done,
						       .ctx = ctx });
}

void sandbox_pause(struct sandbox *sandbox, bool pause, service_done_fn done, void *ctx)
{
	pause_for_client(sandbox, pause ? SANDBOX_PAUSED : SANDBOX_RUNNING, false, done,
			 ctx);
}

void sandbox_checkpoint(struct sandbox *sandbox, service_done_fn done, void *ctx)
{
	pause_for_client(sandbox, SANDBOX_PAUSED, true, done, ctx);
}

bool sandbox_is_saved(const struct sandbox *sandbox)
{
	return sandbox->saved && sandbox->row.state == SANDBOX_PAUSED;
}
