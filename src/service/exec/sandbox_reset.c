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
#include "service/exec/internal.h"

struct reset_op {
	struct service *service;
	char id[ID_LEN + 1];
	unsigned tries; /* how often another request came in between */
	bool runs;      /* the sandbox was not stopped before */
	struct warren_error err;
	service_done_fn done;
	void *ctx;
};

#define RESET_TRIES 64

static void reset_end(struct reset_op *op, int r, const struct warren_error *err)
{
	struct sandbox *sandbox = sandbox_find(op->service, NULL, op->id);

	if (sandbox)
		sandbox->hibernating--;
	op->done(op->ctx, r, err);
	free(op);
}

static void reset_begin(struct reset_op *op, struct sandbox *sandbox);

/* Has another request let the sandbox hibernate, or started it, between two steps? */
static bool reset_was_disturbed(struct reset_op *op, const struct sandbox *sandbox, int r)
{
	return r == -ESTALE && sandbox && !op->service->closing &&
	       (sandbox_state_sleeps(sandbox->row.state) || sandbox_is_made(sandbox)) &&
	       op->tries++ < RESET_TRIES;
}

/*
 * Get the sandbox for the next step; NULL: a step failed, and the operation has begun
 * again or ended.
 */
static struct sandbox *reset_sandbox(struct reset_op *op, int r,
				     const struct warren_error *err)
{
	struct sandbox *sandbox = sandbox_find(op->service, NULL, op->id);
	struct warren_error gone = WARREN_ERROR_INIT;

	if (r == 0 && sandbox)
		return sandbox;
	if (reset_was_disturbed(op, sandbox, r)) {
		reset_begin(op, sandbox);
		return NULL;
	}
	if (r == 0)
		r = error_set(&gone, ESTALE, "the sandbox is gone");
	reset_end(op, r, gone.code ? &gone : err);
	return NULL;
}

static void reset_on_started(void *ctx, int r, const struct warren_error *err)
{
	reset_end(ctx, r, err);
}

/* The error is that of the reset, whether the sandbox could be started or not. */
static void reset_on_started_again(void *ctx, int r UNUSED,
				   const struct warren_error *err UNUSED)
{
	struct reset_op *op = ctx;

	reset_end(op, -op->err.code, &op->err);
}

static void reset_on_dropped(void *ctx, int r, const struct warren_error *err)
{
	struct reset_op *op = ctx;
	struct sandbox *sandbox = sandbox_find(op->service, NULL, op->id);

	/* Its files were not discarded: let it continue with them. */
	if (r < 0 && r != -ESTALE && err && op->runs && sandbox &&
	    !op->service->closing && sandbox_state_is_stopped(sandbox->row.state)) {
		op->err = *err;
		sandbox_start(sandbox, reset_on_started_again, op);
		return;
	}
	sandbox = reset_sandbox(op, r, err);
	if (sandbox)
		sandbox_start(sandbox, reset_on_started, op);
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
		sandbox_stop_to_save(sandbox, CAUSE_REQUEST, 0, reset_on_stopped, ctx);
}

static void reset_begin(struct reset_op *op, struct sandbox *sandbox)
{
	if (sandbox_state_sleeps(sandbox->row.state))
		sandbox_start(sandbox, reset_on_ready, op);
	else if (sandbox->row.state == SANDBOX_PAUSED)
		sandbox_pause(sandbox, false, reset_on_ready, op);
	else
		reset_on_ready(op, 0, NULL);
}

void sandbox_reset(struct sandbox *sandbox, service_done_fn done, void *ctx)
{
	struct reset_op *op = malloc(sizeof(*op));
	struct warren_error err = WARREN_ERROR_INIT;

	if (!op) {
		done(ctx, error_errno(&err, ENOMEM, "reset the sandbox"), &err);
		return;
	}
	*op = (struct reset_op){ .service = sandbox->service,
				 .runs = !sandbox_state_is_stopped(sandbox->row.state),
				 .done = done,
				 .ctx = ctx };
	(void)memcpy(op->id, sandbox->row.id, sizeof(op->id));
	sandbox->hibernating++;
	reset_begin(op, sandbox);
}
