/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox_job.c - the queue of jobs of a sandbox, of which one is in progress
 *
 * A deletion is the last job: jobs that wait behind it fail, because the sandbox is gone.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/list.h"
#include "service/core/internal.h"
#include "service/core/sandbox_job.h"

/* A job that waited starts only while the token of its request is valid. */
static void job_try(struct sandbox_job *job)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int r = job->waited ? permit_check(job->sandbox->service, &job->permit, &err) : 0;

	if (r < 0)
		sandbox_job_end(job, r, &err);
	else
		job->begin(job);
}

void sandbox_next_job(struct sandbox *sandbox)
{
	/* Jobs that end at once run one after another, not recursively. */
	if (sandbox->working)
		return;
	sandbox->working = true;
	while (!sandbox->moving && sandbox->jobs) {
		sandbox->moving = true;
		sandbox->reason = sandbox->jobs->why;
		job_try(sandbox->jobs);
	}
	sandbox->working = false;
}

/* This also shortens waiting stops, of which there may be many. */
static void hurry_stops(struct sandbox *sandbox, uint64_t grace_ms)
{
	for (struct sandbox_job *job = sandbox->jobs; job; job = job->next)
		if (job->hurry) {
			if (grace_ms < job->grace_ms)
				job->grace_ms = grace_ms;
			job->hurry(job, grace_ms);
		}
}

/* Connections do not limit jobs, because a disconnected client leaves its job behind. */
static int job_admit(const struct sandbox *sandbox, enum sandbox_job_kind kind,
		     struct warren_error *err)
{
	static const unsigned most[JOB_KIND_MAX] = {
		[JOB_CHANGE] = 64,
		[JOB_USE] = 1024,
		[JOB_END] = 64,
	};
	unsigned n = 0;

	for (const struct sandbox_job *job = sandbox->jobs; job; job = job->next)
		n += job->kind == kind;
	if (kind == JOB_OURS || n < most[kind])
		return 0;
	return error_set(err, EAGAIN,
			 "%u requests already wait for the sandbox: try again later, or "
			 "delete the sandbox",
			 n);
}

/* The sandbox of a code run belongs to that run; a client can only delete it. */
int sandbox_check_run(const struct sandbox *sandbox, struct warren_error *err)
{
	return !sandbox->code_run ? 0
				  : error_set(err, EBUSY,
					      "the sandbox belongs to a code run; it "
					      "can only be deleted, which ends the run");
}

/*
 * Put a job before the others. A stop that waits for brief uses, and a use that waits for
 * the init, let it pass, because otherwise each would wait for the other.
 */
static void job_put_first(struct sandbox *sandbox, struct sandbox_job *job)
{
	struct sandbox_job *current = sandbox->moving ? sandbox->jobs : NULL;

	if (current && current->step_back && current->step_back(current)) {
		current->waited = true;
		sandbox->moving = false;
		sandbox->reason = NULL;
		current = NULL;
	}
	if (current) {
		job->next = current->next;
		current->next = job;
	} else {
		LIST_PUSH(sandbox->jobs, job);
	}
}

/* Is the job in progress one that waits for the init? The end of the sandbox need not. */
static bool job_awaits_init(const struct sandbox *sandbox)
{
	return sandbox->moving && sandbox->jobs && sandbox->conn < 0 &&
	       sandbox->jobs->step_back;
}

void sandbox_job_add(struct sandbox *sandbox, struct sandbox_job job)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int r = sandbox->jobs ? job_admit(sandbox, job.kind, &err) : 0;
	struct sandbox_job *copy;

	/* A stop whose grace period can be shortened counts too; so does a kill. */
	if (r == 0 && (job.kind == JOB_CHANGE || (job.kind == JOB_END && job.hurry)))
		r = sandbox_check_run(sandbox, &err);

	if (r < 0) {
		free(job.text);
		job.done(job.ctx, r, &err);
		return;
	}
	copy = malloc(sizeof(*copy));
	if (!copy) {
		free(job.text);
		job.done(job.ctx, error_errno(&err, ENOMEM, "change the sandbox"), &err);
		return;
	}
	*copy = job;
	copy->sandbox = sandbox;
	copy->waited = sandbox->jobs || sandbox->moving;
	if (job.hurries)
		hurry_stops(sandbox, job.grace_ms);
	if (job.follows || (job.hurries && job_awaits_init(sandbox)))
		job_put_first(sandbox, copy);
	else
		LIST_APPEND(sandbox->jobs, copy);
	sandbox_next_job(sandbox);
}

/*
 * The callback continues with the permit of the request, or fails if its token is no
 * longer valid.
 */
static void tell_asker(const struct sandbox_job *job, struct service *s, int r,
		       const struct warren_error *err)
{
	struct warren_error why = WARREN_ERROR_INIT;
	struct permit before = s->permit;
	int held =
		r < 0 || job->kind != JOB_USE ? 0 : permit_check(s, &job->permit, &why);

	s->permit = job->permit;
	job->done(job->ctx, held < 0 ? held : r, held < 0 ? &why : err);
	s->permit = before;
}

/* End the job that is in progress. @err may be a part of the job. */
void sandbox_job_end(struct sandbox_job *job, int r, const struct warren_error *err)
{
	struct sandbox *sandbox = job->sandbox;

	sandbox->jobs = job->next;
	sandbox->moving = false;
	sandbox->reason = NULL;
	tell_asker(job, sandbox->service, r, err);
	free(job->text);
	free(job);
	sandbox_next_job(sandbox);
}

int sandbox_wrong_state(const struct sandbox *sandbox, struct warren_error *err)
{
	enum sandbox_state state = sandbox->row.state;

	return error_set(err, ESTALE, "the sandbox is %s%s", sandbox_state_name(state),
			 state == SANDBOX_PAUSED ? ": resume it first"
			 : sandbox_state_is_stopped(state) || sandbox_state_sleeps(state)
				 ? ": start it first"
				 : "");
}
