/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hibernate.c - save the files of a stopped sandbox and end it; wake it when it is used
 *
 * The database changes last. If the service is killed before that, the next process
 * determines the actual state (restore.c): a stopped sandbox that has saved files but no
 * init hibernates, and a hibernating sandbox that has an init is awake. One that has
 * neither is lost.
 *
 * To wake a sandbox, the service creates it again with the same id. The API converts the
 * spec in its row to a spec for the engine, as it does for a new sandbox (respec).
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "proto/warden_proto.h"
#include "service/core/diff.h"
#include "service/core/internal.h"
#include "service/core/sandbox_job.h"

/* --------------------------------------------------------------------- sleeping */

static void hibernate_on_saved(void *ctx, const struct warren_error *failure,
			       const char *data UNUSED, size_t size UNUSED, int fd)
{
	struct sandbox_job *job = ctx;
	struct sandbox *sandbox = job->sandbox;
	struct warren_error err = WARREN_ERROR_INIT;
	int r = 0;

	if (fd >= 0)
		(void)close(fd);
	/* The next process determines whether the sandbox hibernates. */
	if (sandbox->service->closing) {
		sandbox_job_end(job, -ESHUTDOWN, &err);
		return;
	}
	if (failure) {
		/*
		 * The sandbox is unchanged, but this process has closed its connection to
		 * it.
		 */
		sandbox_reconnect_in_turn(sandbox);
		sandbox_job_end(job, -failure->code, failure);
		return;
	}
	r = sandbox_move(sandbox, SANDBOX_HIBERNATED, NULL, &err);
	if (r < 0)
		service_untidy(sandbox->service);
	sandbox_job_end(job, r, &err);
}

static void hibernate_begin(struct sandbox_job *job)
{
	struct warden_proto_sandbox msg = { .h = { .type = job->drop ? WIRE_RESET
								     : WIRE_HIBERNATE } };
	struct sandbox *sandbox = job->sandbox;
	struct warren_error err = WARREN_ERROR_INIT, why = WARREN_ERROR_INIT;
	int r = 0;

	if (sandbox_state_sleeps(sandbox->row.state) && !job->drop) {
		if (sandbox->row.state == SANDBOX_ON_DISK)
			r = sandbox_move(sandbox, SANDBOX_HIBERNATED, NULL, &err);
		sandbox_job_end(job, r, &err);
		return;
	}
	if (!sandbox_state_is_stopped(sandbox->row.state)) {
		sandbox_job_end(job, sandbox_wrong_state(sandbox, &err), &err);
		return;
	}
	if (job->drop)
		sandbox_diffs_end(sandbox);
	/* Its init is about to exit, which is not a failure. */
	(void)error_set(&why, ESTALE, "the sandbox hibernates");
	init_conn_close(sandbox, &why);
	ROOMS_CALL(sandbox->service, lost, sandbox);
	r = warden_conn_ask_of(sandbox, &msg, sizeof(msg), hibernate_on_saved, job);
	if (r < 0) {
		(void)error_errno(&err, -r, "send a request to the warden");
		hibernate_on_saved(job, &err, NULL, 0, -1);
	}
}

void sandbox_save(struct sandbox *sandbox, const char *why, service_done_fn done,
		  void *ctx)
{
	sandbox_job_add(sandbox, (struct sandbox_job){ .begin = hibernate_begin,
						       .why = why,
						       .kind = JOB_OURS,
						       .done = done,
						       .ctx = ctx });
}

void sandbox_drop_files(struct sandbox *sandbox, service_done_fn done, void *ctx)
{
	sandbox_job_add(sandbox, (struct sandbox_job){ .begin = hibernate_begin,
						       .why = "reset",
						       .kind = JOB_OURS,
						       .drop = true,
						       .done = done,
						       .ctx = ctx });
}

void sandbox_is_asleep(struct sandbox *sandbox)
{
	struct warren_error err = WARREN_ERROR_INIT;
	enum sandbox_state to = sandbox->persist ? SANDBOX_ON_DISK : SANDBOX_HIBERNATED;

	(void)error_set(&err, ESTALE, "the sandbox hibernates");
	init_conn_close(sandbox, &err);
	if (sandbox_move(sandbox, to, NULL, &err) < 0)
		service_untidy(sandbox->service);
	sandbox_load_asleep(sandbox);
	sandbox_arm(sandbox);
}

/* Its execs and sessions can be listed without waking it. */
void sandbox_load_asleep(struct sandbox *sandbox)
{
	if (!sandbox->loaded)
		ROOMS_CALL(sandbox->service, restore, sandbox);
	sandbox->loaded = true;
	/* An exec without a result ended with the sandbox. */
	ROOMS_CALL(sandbox->service, lost, sandbox);
}

/* ----------------------------------------------------------------------- waking */

struct wake_op {
	struct sandbox_job *job;
	struct buf msg, made;
	int conn;
	bool captured;
	struct warren_error failure; /* why it could not be created */
};

static void wake_op_free(struct wake_op *op)
{
	buf_done(&op->msg);
	buf_done(&op->made);
	if (op->conn >= 0)
		(void)close(op->conn);
	free(op);
}

static void wake_end(struct wake_op *op, int r, const struct warren_error *err)
{
	struct sandbox_job *job = op->job;
	struct warren_error copy = err ? *err : (struct warren_error)WARREN_ERROR_INIT;

	wake_op_free(op);
	sandbox_job_end(job, r, &copy);
}

static void wake_on_asleep(void *ctx UNUSED, const struct warren_error *failure UNUSED,
			   const char *data UNUSED, size_t size UNUSED, int fd)
{
	if (fd >= 0)
		(void)close(fd);
}

/* The sandbox is awake, but cannot be used: save its files again. */
static void wake_undo(const struct sandbox *sandbox)
{
	struct warden_proto_sandbox msg = { .h = { .type = WIRE_HIBERNATE } };

	(void)warden_conn_ask_of(sandbox, &msg, sizeof(msg), wake_on_asleep, NULL);
}

static void wake_on_prepared(void *ctx, int r, const struct warren_error *failed)
{
	struct wake_op *op = ctx;
	struct sandbox *sandbox = op->job->sandbox;
	struct service *s = sandbox->service;
	struct warren_error err =
		failed ? *failed : (struct warren_error)WARREN_ERROR_INIT;

	if (s->closing) {
		wake_end(op, -ESHUTDOWN, &err);
		return;
	}
	if (r == 0)
		r = init_conn_open(sandbox, TAKE_FD(op->conn), op->made.data,
				   op->made.len, &err);
	if (r == 0) {
		init_conn_is_new(sandbox);
		r = sandbox_move(sandbox, SANDBOX_RUNNING, NULL, &err);
	}
	if (r < 0) {
		init_conn_close(sandbox, &err);
		ROOMS_CALL(s, lost, sandbox);
		wake_undo(sandbox);
		wake_end(op, r, &err);
		return;
	}
	sandbox->woken = true;
	if (!sandbox->loaded)
		ROOMS_CALL(s, restore, sandbox);
	sandbox->loaded = true;
	ROOMS_CALL(s, created, sandbox);
	sandbox_touch(sandbox);
	sandbox_arm(sandbox);
	wake_end(op, 0, NULL);
}

static int wake_take(struct wake_op *op, const char *data, size_t size, int fd,
		     struct warren_error *err)
{
	int r = create_take_fds(op->job->sandbox, op->captured, fd, &op->conn, err);

	buf_add(&op->made, data, size);
	if (r == 0 && op->made.failed)
		r = error_errno(err, ENOMEM, "wake the sandbox");
	return r;
}

static void wake_on_found(void *ctx, int r, const struct warren_error *err)
{
	wake_end(ctx, r, err);
}

/*
 * Its saved files are removed when it has woken, and a power cut may preserve that, but
 * not its new state. So if the warden finds neither the sandbox nor its files, it is
 * lost.
 */
static void wake_on_looked(void *ctx, int r, const struct warren_error *err UNUSED)
{
	struct wake_op *op = ctx;
	struct sandbox *sandbox = op->job->sandbox;
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (r == 0) {
		wake_end(op, 0, NULL);
		return;
	}
	if ((r == -ENOENT || r == -ESRCH) && !sandbox->service->closing)
		survive(sandbox->service,
			sandbox_move(sandbox, SANDBOX_LOST, op->failure.msg, &ignored));
	wake_end(op, -op->failure.code, &op->failure);
}

static void wake_on_created(void *ctx, const struct warren_error *failure,
			    const char *data, size_t size, int fd)
{
	struct wake_op *op = ctx;
	struct sandbox *sandbox = op->job->sandbox;
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	if (sandbox->service->closing) {
		if (fd >= 0)
			(void)close(fd);
		wake_end(op, -ESHUTDOWN, &err);
		return;
	}
	if (failure && failure->code == EEXIST) {
		/* An earlier process had woken the sandbox before it was killed. */
		sandbox_reconnect(sandbox, wake_on_found, op);
		return;
	}
	if (failure && failure->code == EREMOTEIO) {
		op->failure = *failure;
		sandbox_reconnect(sandbox, wake_on_looked, op);
		return;
	}
	if (failure) {
		/* The sandbox still hibernates: only its saved files exist. */
		wake_end(op, -failure->code, failure);
		return;
	}
	r = wake_take(op, data, size, fd, &err);
	if (r < 0)
		wake_on_prepared(op, r, &err);
	else
		hooks_await(sandbox, offsetof(struct service_module, prepare),
			    wake_on_prepared, op);
}

/* Called by respec with the spec of the sandbox, or with an error. */
static void wake_with(void *ctx, const struct warren_spec *spec,
		      const struct warren_error *failed)
{
	struct sandbox_job *job = ctx;
	struct sandbox *sandbox = job->sandbox;
	struct warren_error err = WARREN_ERROR_INIT;
	struct wake_op *op = failed ? NULL : calloc(1, sizeof(*op));
	struct warren_spec again;
	int r;

	if (!op) {
		if (failed)
			err = *failed;
		else
			(void)error_errno(&err, ENOMEM, "wake the sandbox");
		sandbox_job_end(job, -err.code, &err);
		return;
	}
	*op = (struct wake_op){ .job = job,
				.conn = -1,
				.msg = BUF_INIT(WIRE_MESSAGE_MAX),
				.made = BUF_INIT(2UL * WIRE_MESSAGE_MAX),
				.captured = spec->network == WARREN_NETWORK_CAPTURED };
	again = *spec;
	again.restore = true;
	r = warden_proto_put_create(&op->msg, sandbox->row.backend, sandbox->row.id,
				    &again);
	if (r == 0) {
		warden_proto_put_tenant(
			(struct warden_proto_header *)(void *)op->msg.data,
			sandbox->row.owner);
		r = warden_conn_ask(sandbox->service, op->msg.data, op->msg.len,
				    wake_on_created, op);
	}
	if (r < 0)
		wake_end(op, error_errno(&err, -r, "wake the sandbox"), &err);
}

void sandbox_wake_begin(struct sandbox_job *job)
{
	struct service *s = job->sandbox->service;
	struct warren_error err = WARREN_ERROR_INIT;

	if (s->respec)
		s->respec(s->respec_ctx, job->sandbox, wake_with, job);
	else
		sandbox_job_end(job, sandbox_wrong_state(job->sandbox, &err), &err);
}

void service_on_respec(struct service *s, sandbox_respec_fn *fn, void *ctx)
{
	s->respec = fn;
	s->respec_ctx = ctx;
}
