/* SPDX-License-Identifier: Apache-2.0 */
/*
 * diff.c - list the changed files of a sandbox
 *
 * The warden compares (backend/native/diff.c). That is no job of the sandbox, because it
 * changes nothing and may take long: other requests do not wait for it. It ends when no
 * client waits for it.
 */
#include "service/core/diff.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "proto/warden_proto.h"
#include "service/core/internal.h"

#define DIFF_TRIES 16
/* Maximum numbers at the same time; others that wait for the warden must not wait long.
 */
#define DIFFS_MAX    64
#define DIFFS_OF_ONE 16 /* for one tenant */

struct diff_op {
	struct diff_op *next;
	struct service *service;
	char id[ID_LEN + 1];
	char tenant[DB_NAME_MAX + 1];
	struct warden_proto_diff msg;
	bool asked;     /* the warden has the request */
	unsigned tries; /* how often the sandbox hibernated in the meantime */
	diff_fn done;   /* NULL: cancelled */
	void *ctx;
};

static void diff_end(struct diff_op *op, const struct diff_result *result,
		     const struct warren_error *err)
{
	if (op->done)
		op->done(op->ctx, result, err);
	else if (result)
		(void)close(result->fd);
	(void)LIST_REMOVE(op->service->diffs, op);
	free(op);
}

static bool diff_fits(const struct service *s, const char *tenant)
{
	unsigned all = 0, own = 0;

	for (const struct diff_op *op = s->diffs; op; op = op->next) {
		all++;
		own += strcmp(op->tenant, tenant) == 0;
	}
	return all < DIFFS_MAX && own < DIFFS_OF_ONE;
}

static void diff_on_awake(void *ctx, int r, const struct warren_error *failed);

/* Has the sandbox hibernated in the meantime? Then wake it, and compare again. */
static bool diff_begins_again(struct diff_op *op, const struct warren_error *failure)
{
	struct sandbox *sandbox = sandbox_find(op->service, NULL, op->id);

	if ((failure->code != ESRCH && failure->code != ENOENT) || !sandbox ||
	    !op->done || op->service->closing || op->tries++ >= DIFF_TRIES ||
	    (!sandbox_state_sleeps(sandbox->row.state) && !sandbox->hibernating))
		return false;
	op->asked = false;
	sandbox_use(sandbox, diff_on_awake, op);
	return true;
}

static void diff_on_reply(void *ctx, const struct warren_error *failure, const char *data,
			  size_t size, int fd)
{
	struct diff_op *op = ctx;
	struct sandbox *sandbox = sandbox_find(op->service, NULL, op->id);
	struct warren_error err = WARREN_ERROR_INIT;
	struct warden_proto_changes changes;
	struct diff_result result;

	if (sandbox)
		sandbox_end_brief(sandbox);
	if (!failure && (size != sizeof(changes) || fd < 0)) {
		(void)error_set(&err, EPROTO, "the reply of the warden is not valid");
		failure = &err;
	}
	if (failure) {
		if (fd >= 0)
			(void)close(fd);
		if (!diff_begins_again(ctx, failure))
			diff_end(ctx, NULL, failure);
		return;
	}
	(void)memcpy(&changes, data, sizeof(changes));
	result = (struct diff_result){ .n = changes.n,
				       .more = changes.more,
				       .too_deep = changes.too_deep,
				       .fd = fd };
	diff_end(ctx, &result, NULL);
}

static void diff_on_awake(void *ctx, int r, const struct warren_error *failed)
{
	struct diff_op *op = ctx;
	struct sandbox *sandbox = r < 0 ? NULL : sandbox_find(op->service, NULL, op->id);
	struct warren_error err =
		failed ? *failed : (struct warren_error)WARREN_ERROR_INIT;

	if (r == 0 && !sandbox)
		r = error_set(&err, ESTALE, "the sandbox is gone");
	if (r == 0 && !op->done)
		r = error_set(&err, ECANCELED, "the client is gone");
	if (r == 0) {
		r = warden_conn_ask_of(sandbox, &op->msg, sizeof(op->msg), diff_on_reply,
				       op);
		if (r < 0)
			(void)error_errno(&err, -r, "send a request to the warden");
	}
	if (r < 0) {
		diff_end(op, NULL, &err);
		return;
	}
	op->asked = true;
	sandbox_begin_brief(sandbox);
}

struct diff_op *sandbox_diff_new(const struct sandbox *sandbox,
				 const struct diff_request *request, diff_fn done,
				 void *ctx, struct warren_error *err)
{
	struct diff_op *op;

	if (strcmp(sandbox->row.backend, WIRE_NATIVE) != 0) {
		(void)error_set(err, EOPNOTSUPP,
				"backend '%s' cannot list changed files: only native can",
				sandbox->row.backend);
		return NULL;
	}
	if (!diff_fits(sandbox->service, sandbox->row.owner)) {
		(void)error_set(err, EAGAIN,
				"too many lists of changed files are being made; try "
				"again");
		return NULL;
	}
	op = calloc(1, sizeof(*op));
	if (!op) {
		(void)error_errno(err, ENOMEM, "find the changed files");
		return NULL;
	}
	*op = (struct diff_op){ .service = sandbox->service,
				.msg = { .h = { .type = WIRE_DIFF },
					 .skip = request->skip,
					 .max = request->max,
					 .seconds = (request->timeout_ms + 999) / 1000 },
				.done = done,
				.ctx = ctx };
	(void)memcpy(op->id, sandbox->row.id, sizeof(op->id));
	(void)snprintf(op->msg.image, sizeof(op->msg.image), "%s",
		       request->image ? request->image : "");
	(void)snprintf(op->tenant, sizeof(op->tenant), "%s", sandbox->row.owner);
	LIST_PUSH(sandbox->service->diffs, op);
	return op;
}

void sandbox_diff_start(struct diff_op *op, struct sandbox *sandbox)
{
	/* Only a sandbox that hibernates must be woken: processes are not needed. */
	if (sandbox_is_made(sandbox) && !sandbox->hibernating)
		diff_on_awake(op, 0, NULL);
	else
		sandbox_use(sandbox, diff_on_awake, op);
}

static void diff_on_cancelled(void *ctx UNUSED, const struct warren_error *err UNUSED,
			      const char *data UNUSED, size_t size UNUSED, int fd)
{
	if (fd >= 0)
		(void)close(fd);
}

void sandbox_diff_cancel(struct diff_op *op)
{
	struct warden_proto_cancel msg = { .h = op->msg.h };

	op->done = NULL;
	if (!op->asked)
		return;
	/* If this fails, it ends at the end of its time. */
	msg.h.type = WIRE_CANCEL;
	msg.request = op->msg.h.seq;
	(void)warden_conn_ask(op->service, &msg, sizeof(msg), diff_on_cancelled, NULL);
}

void sandbox_diffs_end(const struct sandbox *sandbox)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct diff_op *next;

	(void)error_set(&err, ESTALE, "the files of the sandbox are being removed");
	for (struct diff_op *op = sandbox->service->diffs; op; op = next) {
		diff_fn done = op->done;

		next = op->next;
		if (!done || !op->asked || strcmp(op->id, sandbox->row.id) != 0)
			continue;
		sandbox_diff_cancel(op);
		done(op->ctx, NULL, &err);
	}
}
