/* SPDX-License-Identifier: Apache-2.0 */
/*
 * undo.c - keep the files of a sandbox before a command, and restore them
 *
 * The warden keeps the copy of the files (backend/native/undo.c), and one copy at most.
 * It is valid until the next command or change of a file through the API, unless that
 * command replaces it. So the copy is removed before such a command starts: a copy that
 * exists is valid, also for the next process of the service.
 *
 * The requests are jobs of the sandbox, so that it is not paused or deleted before their
 * end. They follow from a use that has begun, so they precede jobs that wait: a
 * hibernation would remove the copy, or end the shell that is to run the command. A
 * change of a file is the only one that does not wait until the copy is removed.
 *
 * A command that could not be started is not the last one, so the copy before stays until
 * the start of the command is known. A command cannot be undone while it runs, because it
 * would continue to write.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "proto/warden_proto.h"
#include "service/core/internal.h"
#include "service/core/sandbox_job.h"
#include "service/core/undo.h"

static bool undo_is_native(const struct sandbox *sandbox)
{
	return strcmp(sandbox->row.backend, WIRE_NATIVE) == 0;
}

int undo_check_backend(const struct sandbox *sandbox, struct warren_error *err)
{
	return undo_is_native(sandbox)
		       ? 0
		       : error_set(err, EOPNOTSUPP,
				   "backend '%s' cannot undo commands: only native can",
				   sandbox->row.backend);
}

/* ------------------------------------------------------- before a command or change */

static void undo_ignore(void *ctx UNUSED, const struct warren_error *err UNUSED,
			const char *data UNUSED, size_t size UNUSED, int fd)
{
	if (fd >= 0)
		(void)close(fd);
}

/* The warden carries out requests for one sandbox in order. */
static void undo_tell(const struct sandbox *sandbox, uint32_t type)
{
	struct warden_proto_sandbox msg = { .h = { .type = type } };

	(void)warden_conn_ask_of(sandbox, &msg, sizeof(msg), undo_ignore, NULL);
}

static void undo_has_none(struct sandbox *sandbox)
{
	sandbox->undo = UNDO_NONE;
	sandbox->undo_has_former = false;
	sandbox->undo_hold = db_release(sandbox->service->db, sandbox->undo_hold);
}

/*
 * Charge the tenant for the last copy. The one before is there only until the command has
 * started, and is not charged.
 */
static int undo_charge(struct sandbox *sandbox, uint64_t bytes, struct warren_error *err)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct db *db = sandbox->service->db;
	uint64_t uses[DB_QUOTA_MAX] = { [DB_QUOTA_DISK] = bytes };
	bool before = sandbox->undo_hold;
	int r;

	sandbox->undo_hold = db_release(db, sandbox->undo_hold);
	r = db_hold(db, sandbox->row.owner, uses, &sandbox->undo_hold, err);
	if (r == 0) {
		sandbox->undo_bytes = bytes;
		return 0;
	}
	sandbox->service->metrics.denied += r == -EDQUOT;
	uses[DB_QUOTA_DISK] = sandbox->undo_bytes;
	if (before)
		survive(sandbox->service, db_hold(db, sandbox->row.owner, uses,
						  &sandbox->undo_hold, &ignored));
	return r;
}

void undo_is_new(struct sandbox *sandbox)
{
	undo_has_none(sandbox);
	sandbox->undo_command.runs = sandbox->undo_former.runs = 0;
}

void undo_spoil(struct sandbox *sandbox)
{
	if (sandbox->undo == UNDO_KEEPING) {
		sandbox->undo_spoiled = true;
	} else if (sandbox->undo != UNDO_NONE && undo_is_native(sandbox)) {
		undo_has_none(sandbox);
		undo_tell(sandbox, WIRE_UNDO_FORGET);
	}
}

/* It is known whether the command of the last copy has started. */
static void undo_command_settle(struct sandbox *sandbox)
{
	bool started = sandbox->undo_command.start == UNDO_STARTED;
	bool former = sandbox->undo_has_former;

	sandbox->undo_has_former = false;
	if (started && former) {
		undo_tell(sandbox, WIRE_UNDO_STARTED);
	} else if (!started && former && sandbox->undo != UNDO_NONE &&
		   sandbox->undo_former.start != UNDO_NOT_STARTED) {
		sandbox->undo_command = sandbox->undo_former;
		sandbox->undo = UNDO_UNKNOWN; /* perhaps there was none */
		undo_tell(sandbox, WIRE_UNDO_BACK);
	} else if (!started) {
		undo_spoil(sandbox);
	}
}

void undo_started(struct sandbox *sandbox, uint32_t number)
{
	if (number == 0 || number != sandbox->undo_command.number)
		return;
	sandbox->undo_command.start = UNDO_STARTED;
	if (sandbox->undo != UNDO_KEEPING)
		undo_command_settle(sandbox);
}

void undo_not_started(struct sandbox *sandbox, uint32_t number)
{
	struct undo_command *command;
	bool last;

	if (!sandbox || number == 0)
		return;
	last = number == sandbox->undo_command.number;
	command = last ? &sandbox->undo_command : &sandbox->undo_former;
	if (number != command->number)
		return;
	command->start = UNDO_NOT_STARTED;
	command->runs = 0;
	if (last && sandbox->undo != UNDO_KEEPING)
		undo_command_settle(sandbox);
}

void undo_ended(struct sandbox *sandbox, uint32_t number)
{
	struct undo_command *both[] = { &sandbox->undo_command, &sandbox->undo_former };

	for (size_t i = 0; number && i < ARRAY_SIZE(both); i++)
		if (both[i]->number == number && both[i]->runs > 0)
			both[i]->runs--;
}

uint32_t undo_restored(struct sandbox *sandbox)
{
	if (sandbox->undo_command.number == 0)
		sandbox->undo_command.number = 1;
	sandbox->undo_command.start = UNDO_STARTED;
	sandbox->undo_command.runs++;
	return sandbox->undo_command.number;
}

void undo_note_request(struct sandbox *sandbox, const void *msg)
{
	const struct proto_header *h = msg;
	const struct proto_open *open = msg;

	if (h->type == PROTO_CHANGE || h->type == PROTO_WRITE ||
	    (h->type == PROTO_OPEN && (open->flags & O_ACCMODE) != O_RDONLY))
		undo_spoil(sandbox);
}

static void undo_on_forgotten(void *ctx, const struct warren_error *failure,
			      const char *data UNUSED, size_t size UNUSED, int fd)
{
	struct sandbox_job *job = ctx;

	if (fd >= 0)
		(void)close(fd);
	if (!failure)
		undo_has_none(job->sandbox);
	sandbox_job_end(job, failure ? -failure->code : 0, failure);
}

struct undo_settle_op {
	struct sandbox *sandbox;
	int number; /* of the command for which a copy was made; 0: none was */
	undo_check_fn check;
	service_done_fn done;
	void *ctx;
};

static void undo_on_kept(void *ctx, const struct warren_error *failure, const char *data,
			 size_t size, int fd)
{
	struct sandbox_job *job = ctx;
	struct undo_settle_op *op = job->ctx;
	struct sandbox *sandbox = job->sandbox;
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_saved saved = { 0 };
	int r;

	if (fd >= 0)
		(void)close(fd);
	if (!failure && size == sizeof(saved))
		(void)memcpy(&saved, data, sizeof(saved));
	/* After a failure, an earlier copy may still be there. */
	sandbox->undo = failure ? UNDO_UNKNOWN : UNDO_KEPT;
	if (!failure) {
		op->number = (int)(sandbox->undo_command.number % INT32_MAX) + 1;
		sandbox->undo_former = sandbox->undo_command;
		sandbox->undo_command =
			(struct undo_command){ .number = (uint32_t)op->number,
					       .runs = 1 };
	} else {
		sandbox->undo_has_former = sandbox->undo_had_former;
		if (sandbox->undo_command.start != UNDO_STARTING)
			undo_command_settle(sandbox);
	}
	if (sandbox->undo_spoiled) {
		sandbox->undo_spoiled = false;
		undo_spoil(sandbox);
	}
	r = failure ? -failure->code : undo_charge(sandbox, saved.bytes, &err);
	sandbox_job_end(job, r < 0 ? r : op->number, failure ? failure : &err);
}

static void undo_ask(struct sandbox_job *job, uint32_t type,
		     void (*fn)(void *ctx, const struct warren_error *err,
				const char *data, size_t size, int fd))
{
	struct warden_proto_sandbox msg = { .h = { .type = type } };
	struct warren_error err = WARREN_ERROR_INIT;
	struct sandbox *sandbox = job->sandbox;
	int r = sandbox->row.state == SANDBOX_RUNNING ||
				sandbox->row.state == SANDBOX_PAUSED
			? 0
			: sandbox_wrong_state(sandbox, &err);

	if (r == 0) {
		r = warden_conn_ask_of(sandbox, &msg, sizeof(msg), fn, job);
		if (r < 0)
			(void)error_errno(&err, -r, "send a request to the warden");
	}
	if (r == 0 && type == WIRE_UNDO_KEEP) {
		sandbox->undo_had_former = sandbox->undo_has_former;
		sandbox->undo_has_former = sandbox->undo != UNDO_NONE;
		sandbox->undo = UNDO_KEEPING;
	}
	if (r < 0)
		sandbox_job_end(job, r, &err);
}

static void undo_begin_keep(struct sandbox_job *job)
{
	const struct undo_settle_op *op = job->ctx;
	struct warren_error err = WARREN_ERROR_INIT;
	int r = op->check ? op->check(op->ctx, &err) : 0;

	if (r == 0)
		r = disk_admit(job->sandbox->service, &err);
	if (r < 0)
		sandbox_job_end(job, r, &err);
	else
		undo_ask(job, WIRE_UNDO_KEEP, undo_on_kept);
}

static void undo_begin_forget(struct sandbox_job *job)
{
	if (job->sandbox->undo == UNDO_NONE)
		sandbox_job_end(job, 0, NULL);
	else
		undo_ask(job, WIRE_UNDO_FORGET, undo_on_forgotten);
}

static void undo_on_settled(void *ctx, int r, const struct warren_error *err)
{
	struct undo_settle_op op = *(struct undo_settle_op *)ctx;

	free(ctx);
	/* The token of the request may have expired during the copy. */
	if (r < 0)
		undo_not_started(op.sandbox, (uint32_t)op.number);
	op.done(op.ctx, r, err);
	sandbox_end_brief(op.sandbox);
}

void undo_settle(struct sandbox *sandbox, bool undoable, undo_check_fn check,
		 service_done_fn done, void *ctx)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct undo_settle_op *op;

	if (undoable && undo_check_backend(sandbox, &err) < 0) {
		done(ctx, -err.code, &err);
		return;
	}
	if (!undoable && (sandbox->undo == UNDO_NONE || !undo_is_native(sandbox))) {
		done(ctx, 0, NULL);
		return;
	}
	op = malloc(sizeof(*op));
	if (!op) {
		done(ctx, error_errno(&err, ENOMEM, "use the sandbox"), &err);
		return;
	}
	*op = (struct undo_settle_op){
		.sandbox = sandbox, .check = check, .done = done, .ctx = ctx
	};
	sandbox_begin_brief(sandbox);
	sandbox_job_add(sandbox,
			(struct sandbox_job){ .begin = undoable ? undo_begin_keep
								: undo_begin_forget,
					      .why = "use",
					      .kind = JOB_USE,
					      .follows = true,
					      .permit = sandbox->service->permit,
					      .done = undo_on_settled,
					      .ctx = op });
}

struct undo_use_op {
	struct service *service;
	char id[ID_LEN + 1];
	bool undoable;
	service_done_fn done;
	void *ctx;
};

static void undo_on_usable(void *ctx, int r, const struct warren_error *failed)
{
	struct undo_use_op op = *(struct undo_use_op *)ctx;
	struct sandbox *sandbox = r < 0 ? NULL : sandbox_find(op.service, NULL, op.id);
	struct warren_error err = WARREN_ERROR_INIT;

	free(ctx);
	if (r < 0)
		op.done(op.ctx, r, failed);
	else if (!sandbox)
		op.done(op.ctx, error_set(&err, ESTALE, "the sandbox is gone"), &err);
	else
		undo_settle(sandbox, op.undoable, NULL, op.done, op.ctx);
}

void undo_use(struct sandbox *sandbox, bool undoable, service_done_fn done, void *ctx)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct undo_use_op *op;

	if (!undoable && (sandbox->undo == UNDO_NONE || !undo_is_native(sandbox))) {
		sandbox_use(sandbox, done, ctx);
		return;
	}
	op = malloc(sizeof(*op));
	if (!op) {
		done(ctx, error_errno(&err, ENOMEM, "use the sandbox"), &err);
		return;
	}
	*op = (struct undo_use_op){ .service = sandbox->service,
				    .undoable = undoable,
				    .done = done,
				    .ctx = ctx };
	(void)memcpy(op->id, sandbox->row.id, sizeof(op->id));
	sandbox_use(sandbox, undo_on_usable, op);
}

/* ------------------------------------------------------------------------- undo */

struct undo_op {
	struct warren_undone undone;
	undo_fn done;
	void *ctx;
};

static void undo_on_undone(void *ctx, const struct warren_error *failure,
			   const char *data, size_t size, int fd)
{
	struct sandbox_job *job = ctx;
	struct undo_op *op = job->ctx;
	struct warren_error err =
		failure ? *failure : (struct warren_error)WARREN_ERROR_INIT;

	if (fd >= 0)
		(void)close(fd);
	if (!failure && size == sizeof(op->undone))
		(void)memcpy(&op->undone, data, sizeof(op->undone));
	else if (!failure)
		(void)error_set(&err, EPROTO, "the reply of the warden is not valid");
	if (!failure || failure->code == ENOENT)
		undo_has_none(job->sandbox);
	if (err.code == ENOENT)
		(void)error_set(&err, ESTALE, "%s", UNDO_NOTHING);
	sandbox_job_end(job, -err.code, &err);
}

static void undo_begin(struct sandbox_job *job)
{
	struct warren_error err = WARREN_ERROR_INIT;

	if (job->sandbox->undo == UNDO_NONE)
		sandbox_job_end(job, error_set(&err, ESTALE, "%s", UNDO_NOTHING), &err);
	else if (job->sandbox->undo_command.runs > 0)
		sandbox_job_end(job, error_set(&err, ESTALE, "%s", UNDO_RUNS), &err);
	else
		undo_ask(job, WIRE_UNDO, undo_on_undone);
}

static void undo_done(void *ctx, int r, const struct warren_error *err)
{
	struct undo_op *op = ctx;

	op->done(op->ctx, r < 0 ? NULL : &op->undone, err);
	free(op);
}

void sandbox_undo(struct sandbox *sandbox, undo_fn done, void *ctx)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct undo_op *op = NULL;
	int r = undo_check_backend(sandbox, &err);

	if (r == 0)
		op = calloc(1, sizeof(*op));
	if (r == 0 && !op)
		r = error_errno(&err, ENOMEM, "undo");
	if (r < 0) {
		done(ctx, NULL, &err);
		return;
	}
	*op = (struct undo_op){ .done = done, .ctx = ctx };
	sandbox_job_add(sandbox, (struct sandbox_job){ .begin = undo_begin,
						       .why = "request",
						       .kind = JOB_CHANGE,
						       .permit = sandbox->service->permit,
						       .done = undo_done,
						       .ctx = op });
}
