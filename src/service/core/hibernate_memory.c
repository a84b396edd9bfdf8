/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hibernate_memory.c - hibernate a sandbox with its processes
 *
 *	RUNNING -> PAUSED, with a checkpoint -> HIBERNATED
 *
 * Both steps are one job, so that a request in the meantime waits, and then wakes the
 * sandbox. If the service is killed in between, the next process finds a sandbox that is
 * paused with a checkpoint. If the second step fails, the processes continue.
 */
#include <errno.h>
#include <unistd.h>

#include "proto/warden_proto.h"
#include "service/core/internal.h"
#include "service/core/sandbox_job.h"

typedef void memory_reply_fn(void *ctx, const struct warren_error *failure,
			     const char *data, size_t size, int fd);

/* Send a request to the warden; @then gets the reply, or why it could not be sent. */
static void memory_ask(struct sandbox_job *job, uint32_t type, memory_reply_fn *then)
{
	struct warden_proto_sandbox msg = { .h = { .type = type } };
	struct warren_error err = WARREN_ERROR_INIT;
	int r = warden_conn_ask_of(job->sandbox, &msg, sizeof(msg), then, job);

	if (r < 0) {
		(void)error_errno(&err, -r, "send a request to the warden");
		then(job, &err, NULL, 0, -1);
	}
}

/* The sandbox could not be saved and should continue; job->lost says why. */
static void memory_on_resumed(void *ctx, const struct warren_error *failure,
			      const char *data UNUSED, size_t size UNUSED, int fd)
{
	struct sandbox_job *job = ctx;
	struct sandbox *sandbox = job->sandbox;
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (fd >= 0)
		(void)close(fd);
	if (!failure && !sandbox->service->closing) {
		sandbox->saved = false;
		survive(sandbox->service,
			sandbox_move(sandbox, SANDBOX_RUNNING, NULL, &ignored));
	}
	/* This process is no longer connected to it. */
	if (!sandbox->service->closing && sandbox->conn < 0)
		sandbox_reconnect_in_turn(sandbox);
	sandbox_job_end(job, -job->lost.code, &job->lost);
}

static void memory_undo(struct sandbox_job *job, const struct warren_error *why)
{
	job->lost = *why;
	memory_ask(job, WIRE_RESUME, memory_on_resumed);
}

static void memory_on_saved(void *ctx, const struct warren_error *failure,
			    const char *data UNUSED, size_t size UNUSED, int fd)
{
	struct sandbox_job *job = ctx;
	struct sandbox *sandbox = job->sandbox;
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	if (fd >= 0)
		(void)close(fd);
	/* The next process finds out whether the sandbox hibernates. */
	if (sandbox->service->closing) {
		sandbox_job_end(job, -ESHUTDOWN, &err);
		return;
	}
	if (failure) {
		memory_undo(job, failure);
		return;
	}
	sandbox->saved = false;
	r = sandbox_move(sandbox, SANDBOX_HIBERNATED, NULL, &err);
	if (r < 0)
		service_untidy(sandbox->service);
	sandbox_job_end(job, r, &err);
}

static void memory_save(struct sandbox_job *job)
{
	struct warren_error why = WARREN_ERROR_INIT;

	/* Its shim is about to exit, which is not a failure. */
	(void)error_set(&why, ESTALE, "the sandbox hibernates");
	init_conn_close(job->sandbox, &why);
	ROOMS_CALL(job->sandbox->service, lost, job->sandbox);
	memory_ask(job, WIRE_HIBERNATE, memory_on_saved);
}

static void memory_on_checkpoint(void *ctx, const struct warren_error *failure,
				 const char *data UNUSED, size_t size UNUSED, int fd)
{
	struct sandbox_job *job = ctx;
	struct warren_error err = WARREN_ERROR_INIT;

	if (fd >= 0)
		(void)close(fd);
	if (failure || job->sandbox->service->closing) {
		sandbox_job_end(job, failure ? -failure->code : -ESHUTDOWN,
				failure ? failure : &err);
		return;
	}
	if (sandbox_move(job->sandbox, SANDBOX_PAUSED, NULL, &err) < 0) {
		memory_undo(job, &err);
		return;
	}
	job->sandbox->saved = true;
	memory_save(job);
}

static void memory_begin(struct sandbox_job *job)
{
	struct sandbox *sandbox = job->sandbox;
	struct warren_error err = WARREN_ERROR_INIT;

	if (sandbox_state_sleeps(sandbox->row.state))
		sandbox_job_end(job, 0, NULL);
	else if (sandbox_is_saved(sandbox))
		memory_save(job);
	else if (sandbox->row.state == SANDBOX_RUNNING)
		memory_ask(job, WIRE_CHECKPOINT, memory_on_checkpoint);
	else
		sandbox_job_end(job, sandbox_wrong_state(sandbox, &err), &err);
}

void sandbox_hibernate_memory(struct sandbox *sandbox, service_done_fn done, void *ctx)
{
	sandbox_job_add(sandbox, (struct sandbox_job){ .begin = memory_begin,
						       .why = "request",
						       .kind = JOB_CHANGE,
						       .permit = sandbox->service->permit,
						       .done = done,
						       .ctx = ctx });
}
