/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox_hibernate.c - let a sandbox hibernate: check the space on the disk, resume it
 * if it is paused, stop it, save its files (core/hibernate.c)
 *
 * A hibernation that is requested while another is in progress joins that one. The
 * service checks that the disk has enough space before any process ends. If the files
 * still cannot be saved, the sandbox is started again, so that only its processes are
 * lost; the next process does the same if the service is killed (SANDBOX_HIBERNATING).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "service/core/sandbox_job.h"
#include "service/exec/internal.h"

/* Time between SIGTERM and SIGKILL if no request sets it. */
#define HIBERNATE_GRACE_MS 10000
#define HIBERNATE_TRIES    16

struct hibernate_waiter {
	struct hibernate_waiter *next;
	service_done_fn done;
	void *ctx;
};

struct hibernate_op {
	struct service *service;
	char id[ID_LEN + 1];
	enum sandbox_cause cause;
	uint64_t grace_ms;
	uint64_t reserved; /* bytes on the disk */
	bool runs;         /* the sandbox was not stopped before */
	bool counted;      /* in sandbox.hibernating */
	unsigned tries;    /* how often another request woke or started it */
	struct warren_error err;
	struct hibernate_waiter *waiters;
};

static struct sandbox *hibernate_sandbox(const struct hibernate_op *op)
{
	return sandbox_find(op->service, NULL, op->id);
}

static void hibernate_end(struct hibernate_op *op, int r, const struct warren_error *err)
{
	struct warren_error why = err ? *err : (struct warren_error)WARREN_ERROR_INIT;
	struct sandbox *sandbox = hibernate_sandbox(op);

	disk_release(op->service, op->reserved);
	if (sandbox) {
		sandbox->hibernating -= op->counted;
		sandbox_execs(sandbox)->hibernating = NULL;
	}
	while (op->waiters) {
		struct hibernate_waiter *w = op->waiters;

		op->waiters = w->next;
		w->done(w->ctx, r, &why);
		free(w);
	}
	free(op);
}

static void hibernate_gone(struct hibernate_op *op)
{
	struct warren_error err = WARREN_ERROR_INIT;

	hibernate_end(op, error_set(&err, ESTALE, "the sandbox is gone"), &err);
}

/* The error is that of the hibernation, whether the sandbox could be started or not. */
static void hibernate_on_started_again(void *ctx, int r UNUSED,
				       const struct warren_error *err UNUSED)
{
	struct hibernate_op *op = ctx;

	hibernate_end(op, -op->err.code, &op->err);
}

static void hibernate_begin_stop(struct hibernate_op *op, struct sandbox *sandbox);

static void hibernate_on_asleep(void *ctx, int r, const struct warren_error *err)
{
	struct hibernate_op *op = ctx;
	struct sandbox *sandbox = hibernate_sandbox(op);

	if (r == -ESTALE && sandbox && sandbox->row.state == SANDBOX_RUNNING &&
	    op->tries++ < HIBERNATE_TRIES) {
		hibernate_begin_stop(op, sandbox);
		return;
	}
	if (r < 0 && err && op->runs && sandbox && !op->service->closing &&
	    sandbox_state_is_stopped(sandbox->row.state)) {
		op->err = *err;
		sandbox_start(sandbox, hibernate_on_started_again, op);
		return;
	}
	hibernate_end(op, r, err);
}

static void hibernate_stop(struct hibernate_op *op, struct sandbox *sandbox);

static void hibernate_on_stopped(void *ctx, int r, const struct warren_error *err)
{
	struct hibernate_op *op = ctx;
	struct sandbox *sandbox = hibernate_sandbox(op);

	if (!sandbox)
		hibernate_gone(op);
	else if (r < 0 && !sandbox_state_sleeps(sandbox->row.state))
		hibernate_end(op, r, err);
	else if (sandbox_state_is_stopped(sandbox->row.state) ||
		 sandbox_state_sleeps(sandbox->row.state))
		sandbox_save(sandbox, sandbox_causes[op->cause], hibernate_on_asleep, op);
	else if (sandbox_is_due(sandbox, op->cause))
		hibernate_stop(op, sandbox);
	else
		hibernate_end(op, 0, NULL); /* it is in use again */
}

static void hibernate_stop(struct hibernate_op *op, struct sandbox *sandbox)
{
	sandbox->hibernating += !op->counted;
	op->counted = true;
	sandbox_stop_to_save(sandbox, op->cause, op->grace_ms, hibernate_on_stopped, op);
}

static void hibernate_on_resumed(void *ctx, int r, const struct warren_error *err)
{
	struct hibernate_op *op = ctx;
	struct sandbox *sandbox = hibernate_sandbox(op);

	if (!sandbox)
		hibernate_gone(op);
	else if (r < 0)
		hibernate_end(op, r, err);
	else
		hibernate_stop(op, sandbox);
}

static void hibernate_begin_stop(struct hibernate_op *op, struct sandbox *sandbox)
{
	op->runs = !sandbox_state_is_stopped(sandbox->row.state) &&
		   !sandbox_state_sleeps(sandbox->row.state);
	if (sandbox->row.state == SANDBOX_PAUSED)
		sandbox_pause(sandbox, false, hibernate_on_resumed, op);
	else
		hibernate_stop(op, sandbox);
}

/* If the sizes are not known, the engine finds out whether there is enough space. */
static void hibernate_on_stats(void *ctx, int r, const struct warren_stats *stats,
			       const struct warren_error *failure UNUSED)
{
	struct hibernate_op *op = ctx;
	struct sandbox *sandbox = hibernate_sandbox(op);
	struct warren_error err = WARREN_ERROR_INIT;
	/* The files of a sandbox that persists are on the disk already. */
	uint64_t bytes =
		r < 0 || !stats || (sandbox && sandbox->persist) ? 0 : stats->disk;

	r = disk_reserve(op->service, bytes, &err);
	if (r == 0)
		op->reserved = bytes;
	if (!sandbox)
		hibernate_gone(op);
	else if (r < 0)
		hibernate_end(op, r, &err);
	else
		hibernate_begin_stop(op, sandbox);
}

/* Take part in the hibernation that is in progress. */
static void hibernate_join(struct sandbox *sandbox, struct hibernate_op *op,
			   enum sandbox_cause cause, uint64_t grace_ms)
{
	if (cause != CAUSE_REQUEST)
		return;
	op->cause = cause;
	if (grace_ms < op->grace_ms)
		op->grace_ms = grace_ms;
	sandbox_stop_sooner(sandbox, grace_ms);
}

static void hibernate_by(struct sandbox *sandbox, enum sandbox_cause cause,
			 uint64_t grace_ms, service_done_fn done, void *ctx)
{
	struct hibernate_op *op = sandbox_execs(sandbox)->hibernating;
	struct hibernate_waiter *w = malloc(sizeof(*w));
	struct warren_error err = WARREN_ERROR_INIT;
	bool joins = op != NULL;

	if (w && !op)
		op = calloc(1, sizeof(*op));
	if (!w || !op) {
		free(w);
		done(ctx, error_errno(&err, ENOMEM, "hibernate the sandbox"), &err);
		return;
	}
	*w = (struct hibernate_waiter){ .done = done, .ctx = ctx };
	LIST_APPEND(op->waiters, w);
	if (joins) {
		hibernate_join(sandbox, op, cause, grace_ms);
		return;
	}
	op->service = sandbox->service;
	op->cause = cause;
	op->grace_ms = grace_ms;
	(void)memcpy(op->id, sandbox->row.id, sizeof(op->id));
	sandbox_execs(sandbox)->hibernating = op;
	if (sandbox_state_sleeps(sandbox->row.state))
		sandbox_save(sandbox, sandbox_causes[cause], hibernate_on_asleep, op);
	else
		sandbox_stats(sandbox, hibernate_on_stats, op);
}

void sandbox_hibernate_for(struct sandbox *sandbox, enum sandbox_cause cause,
			   service_done_fn done, void *ctx)
{
	hibernate_by(sandbox, cause, HIBERNATE_GRACE_MS, done, ctx);
}

void sandbox_hibernate(struct sandbox *sandbox, uint64_t grace_ms, service_done_fn done,
		       void *ctx)
{
	hibernate_by(sandbox, CAUSE_REQUEST, grace_ms, done, ctx);
}
