/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orphans.c - destroy the sandboxes that the warden lists, but the database does not
 * contain
 *
 * A creation or deletion that fails half way can leave such a sandbox: the warden created
 * it but could not report it, or could not undo its work. The service asks the warden for
 * the ids of all sandboxes of a backend, some at a time, and destroys
 *
 *	those without a row		no client can know them
 *	those that have `failed`
 *	or are `lost`			their row says that nothing of them is alive
 *
 * The same is done with the files on disk of sandboxes with `persist`, which exist
 * without the sandbox.
 *
 * A row is written before the warden is asked to create its sandbox, and deleted after
 * the warden has destroyed it. So a sandbox that is being created has a row when the
 * warden lists it, even if it belongs to a code run. The ids that the warden has prepared
 * in advance are not listed.
 *
 * The service checks this when it starts, after a creation or a cleanup failed (gc.c),
 * and from time to time, because a failure may go unnoticed. If a sandbox could not be
 * destroyed, the service tries again soon, and then at growing intervals.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "proto/warden_proto.h"
#include "service/core/internal.h"
#include "service/core/sandbox_job.h"

#define LOOK_MS 60000 /* time between two checks, if nothing has failed */

struct orphans_op {
	struct orphans_op *next;
	struct service *service;
	const char *backend;
	uint32_t type; /* WIRE_LIST or WIRE_LIST_KEPT */
	char after[ID_LEN + 1];
	size_t left; /* requests under way */
	int result;
	service_done_fn done;
	void *ctx;
};

static void orphans_again(struct service *s)
{
	unsigned shift = s->orphans_failed < 6 ? s->orphans_failed : 6;
	uint64_t ms = (uint64_t)RETRY_MS << shift;

	s->orphans_failed++;
	if (!s->closing)
		loop_timer_set(s->orphans_timer, ms < LOOK_MS ? ms : LOOK_MS);
}

void orphans_look_soon(struct service *s)
{
	/* Repeated failed creations must not postpone the check. */
	if (s->closing || s->orphans_soon)
		return;
	s->orphans_soon = true;
	loop_timer_set(s->orphans_timer, RETRY_MS);
}

static void orphans_end(struct orphans_op *op, int r)
{
	if (r < 0)
		op->result = r;
	if (--op->left > 0)
		return;
	(void)LIST_REMOVE(op->service->orphans, op);
	if (op->result < 0)
		orphans_again(op->service);
	else if (!op->service->orphans)
		op->service->orphans_failed = 0;
	op->done(op->ctx, op->result, NULL);
	free(op);
}

static void orphans_on_destroyed(void *ctx, const struct warren_error *failure,
				 const char *data UNUSED, size_t size UNUSED, int fd)
{
	if (fd >= 0)
		(void)close(fd);
	orphans_end(ctx, failure ? -failure->code : 0);
}

static bool orphans_has(struct service *s, const char *id)
{
	const struct sandbox *sandbox = sandbox_find(s, NULL, id);

	/* If an operation is in progress, it ends the sandbox, or reports that it could
	 * not. */
	return !sandbox || (sandbox_state_is_over(sandbox->row.state) &&
			    !sandbox->moving && !sandbox->jobs);
}

/* Files on disk are removed only if the database can say that no sandbox has them. */
static bool orphans_has_files(struct service *s, const char *id)
{
	AUTO_SANDBOX_ROW struct sandbox_row row = { 0 };
	struct warren_error ignored = WARREN_ERROR_INIT;

	return !sandbox_find(s, NULL, id) &&
	       db_get_sandbox(s->db, NULL, id, &row, &ignored) == -ENOENT;
}

/* An earlier process was killed when it had woken the sandbox. */
static bool orphans_woken(struct service *s, const char *id)
{
	const struct sandbox *sandbox = sandbox_find(s, NULL, id);

	return sandbox && sandbox_state_sleeps(sandbox->row.state) && !sandbox->moving &&
	       !sandbox->jobs;
}

static int orphans_ask_one(struct orphans_op *op, const char *id, uint32_t type)
{
	struct warden_proto_sandbox msg = { .h = { .type = type } };
	int r = warden_proto_put_backend(&msg.h, op->backend);

	(void)memcpy(msg.id, id, ID_LEN + 1);
	op->left++;
	if (r == 0)
		r = warden_conn_ask(op->service, &msg, sizeof(msg), orphans_on_destroyed,
				    op);
	if (r < 0)
		op->left--;
	return r;
}

/*
 * Save its files again. But a sandbox with a shim continues: it may have been woken with
 * its processes, which would end.
 */
static int orphans_sleep_again(struct orphans_op *op, const char *id)
{
	struct sandbox *sandbox = sandbox_find(op->service, NULL, id);

	if (strcmp(op->backend, WIRE_NATIVE) == 0)
		return orphans_ask_one(op, id, WIRE_HIBERNATE);
	sandbox_job_add(sandbox, (struct sandbox_job){ .begin = sandbox_wake_begin,
						       .why = "restart",
						       .done = service_ignore });
	return 0;
}

static int orphans_treat(struct orphans_op *op, const char *id)
{
	struct service *s = op->service;

	if (op->type == WIRE_LIST_KEPT)
		return orphans_has_files(s, id) ? orphans_ask_one(op, id, WIRE_DESTROY)
						: 0;
	if (orphans_has(s, id))
		return orphans_ask_one(op, id, WIRE_DESTROY);
	return orphans_woken(s, id) ? orphans_sleep_again(op, id) : 0;
}

static int orphans_ask(struct orphans_op *op);

static void orphans_on_list(void *ctx, const struct warren_error *failure,
			    const char *data, size_t size, int fd)
{
	struct orphans_op *op = ctx;
	size_t n = failure ? 0 : size / (ID_LEN + 1);
	int r = failure ? -failure->code : 0;

	if (fd >= 0)
		(void)close(fd);
	for (size_t i = 0; i < n; i++) {
		const char *id = data + i * (ID_LEN + 1);

		if (id[ID_LEN] != '\0' || !id_valid(id))
			continue;
		if (r == 0)
			r = orphans_treat(op, id);
		(void)memcpy(op->after, id, sizeof(op->after));
	}
	if (r == 0 && n == WIRE_LIST_MAX)
		r = orphans_ask(op);
	orphans_end(op, r);
}

static int orphans_ask(struct orphans_op *op)
{
	struct warden_proto_list msg = { .h = { .type = op->type } };
	int r = warden_proto_put_backend(&msg.h, op->backend);

	(void)memcpy(msg.after, op->after, sizeof(op->after));
	op->left++;
	if (r == 0)
		r = warden_conn_ask(op->service, &msg, sizeof(msg), orphans_on_list, op);
	if (r < 0)
		op->left--;
	return r;
}

static int orphans_begin(struct service *s, const char *backend, uint32_t type,
			 service_done_fn done, void *ctx)
{
	struct orphans_op *op;
	int r;

	for (op = s->orphans; op; op = op->next)
		if (op->type == type && strcmp(op->backend, backend) == 0)
			return -EALREADY;
	op = calloc(1, sizeof(*op));
	if (!op)
		return -ENOMEM;
	*op = (struct orphans_op){
		.service = s, .backend = backend, .type = type, .done = done, .ctx = ctx
	};
	r = orphans_ask(op);
	if (r == 0)
		LIST_PUSH(s->orphans, op);
	else
		free(op);
	return r;
}

int orphans_destroy(struct service *s, const char *backend, service_done_fn done,
		    void *ctx)
{
	int r = 0;

	if (strcmp(backend, WIRE_NATIVE) == 0)
		r = orphans_begin(s, backend, WIRE_LIST_KEPT, service_ignore, NULL);
	return r < 0 && r != -EALREADY ? r
				       : orphans_begin(s, backend, WIRE_LIST, done, ctx);
}

void orphans_look(struct service *s)
{
	s->orphans_soon = false;
	loop_timer_set(s->orphans_timer, LOOK_MS);
	for (size_t i = 0; s->backends[i]; i++) {
		int r = orphans_destroy(s, s->backends[i], service_ignore, NULL);

		if (r < 0 && r != -EALREADY)
			orphans_again(s);
	}
}

static void orphans_on_timer(void *ctx)
{
	orphans_look(ctx);
}

int orphans_open(struct service *s)
{
	int r = loop_timer_new(s->loop, orphans_on_timer, s, &s->orphans_timer);

	if (r == 0)
		loop_timer_set(s->orphans_timer, LOOK_MS);
	return r;
}

void orphans_close(struct service *s)
{
	s->orphans_timer = loop_timer_free(s->orphans_timer);
}
