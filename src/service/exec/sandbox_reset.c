/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox_reset.c - reset a sandbox to its image: end the processes, discard the files,
 * start it again
 *
 * The sandbox is stopped, hibernates without its files, and is woken at once. So if the
 * service is killed in between, the sandbox is either stopped and still has its files, or
 * it hibernates and its next use completes the reset.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "service/core/sandbox_job.h"
#include "service/exec/exec.h"

struct reset_op {
	struct service *service;
	char id[ID_LEN + 1];
	service_done_fn done;
	void *ctx;
};

static void reset_end(struct reset_op *op, int r, const struct warren_error *err)
{
	struct sandbox *sandbox = sandbox_find(op->service, NULL, op->id);

	if (sandbox)
		sandbox->hibernating = false;
	op->done(op->ctx, r, err);
	free(op);
}

/* Get the sandbox for the next step; NULL: a step failed, and the operation has ended. */
static struct sandbox *reset_sandbox(struct reset_op *op, int r,
				     const struct warren_error *err)
{
	struct sandbox *sandbox = r < 0 ? NULL : sandbox_find(op->service, NULL, op->id);
	struct warren_error gone = WARREN_ERROR_INIT;

	if (sandbox)
		return sandbox;
	if (r == 0)
		r = error_set(&gone, ESTALE, "the sandbox is gone");
	reset_end(op, r, gone.code ? &gone : err);
	return NULL;
}

static void reset_on_started(void *ctx, int r, const struct warren_error *err)
{
	reset_end(ctx, r, err);
}

static void reset_on_dropped(void *ctx, int r, const struct warren_error *err)
{
	struct sandbox *sandbox = reset_sandbox(ctx, r, err);

	if (sandbox)
		sandbox_start(sandbox, reset_on_started, ctx);
}

static void reset_on_stopped(void *ctx, int r, const struct warren_error *err)
{
	struct sandbox *sandbox = reset_sandbox(ctx, r, err);

	if (sandbox)
		sandbox_drop_files(sandbox, reset_on_dropped, ctx);
}

/* The sandbox is running or stopped. */
static void reset_on_ready(void *ctx, int r, const struct warren_error *err)
{
	struct sandbox *sandbox = reset_sandbox(ctx, r, err);

	if (sandbox)
		sandbox_stop(sandbox, 0, reset_on_stopped, ctx);
}

void sandbox_reset(struct sandbox *sandbox, service_done_fn done, void *ctx)
{
	struct reset_op *op = malloc(sizeof(*op));
	struct warren_error err = WARREN_ERROR_INIT;

	if (!op) {
		done(ctx, error_errno(&err, ENOMEM, "reset the sandbox"), &err);
		return;
	}
	*op = (struct reset_op){ .service = sandbox->service, .done = done, .ctx = ctx };
	(void)memcpy(op->id, sandbox->row.id, sizeof(op->id));
	if (sandbox->row.state == SANDBOX_HIBERNATED) {
		sandbox_start(sandbox, reset_on_ready, op);
	} else if (sandbox->row.state == SANDBOX_PAUSED) {
		sandbox_pause(sandbox, false, reset_on_ready, op);
	} else {
		sandbox->hibernating = true;
		reset_on_ready(op, 0, NULL);
	}
}
