/* SPDX-License-Identifier: Apache-2.0 */
/*
 * restore.c - find the sandboxes of an earlier process again
 *
 * The database says what should exist, and the warden says what exists:
 *
 *	creating	not acknowledged: destroyed, and deleted
 *	of a code run,
 *	any state	the run ended with the process: destroyed, and deleted
 *	running, paused,
 *	stopped		reconnected (reconnect.c); if it has no init, it is
 *			destroyed, and becomes `failed`, or `lost` if the machine was
 *			restarted; but with files on disk, it becomes `stopped`
 *			(SANDBOX_ON_DISK)
 *	stopped in order
 *	to hibernate	likewise, and then started (exec/exec_hooks.c)
 *	hibernated,
 *	on disk		left as it is
 *	deleting	destroyed completely
 *	no row at all	destroyed
 *
 * The service does not wait long for a slow sandbox: it becomes ready anyway, and
 * requests for that sandbox wait in the sandbox's queue of jobs.
 *
 * Once a sandbox is connected, the modules (hooks.h) restore their state for it.
 */
#include <errno.h>
#include <string.h>

#include "proto/warden_proto.h"
#include "service/core/internal.h"

#define READY_MS 1000 /* maximum time to wait for slow sandboxes */

struct restoring {
	struct service *service;
	service_done_fn done;
	void *ctx;
	size_t left; /* number of operations in progress */
	bool told;   /* done() was called */
	struct loop_task task;
	struct loop_timer *timer; /* calls done() after this time in any case */
};

/* One sandbox that is being restored. */
struct finding {
	struct restoring *all;
	char id[ID_LEN + 1];
};

static void one_done(struct restoring *all)
{
	if (--all->left == 0)
		loop_defer(all->service->loop, &all->task);
}

static void restore_tell(void *ctx)
{
	struct restoring *all = ctx;

	if (!all->told)
		all->done(all->ctx, 0, NULL);
	all->told = true;
}

static void restore_on_all(void *ctx)
{
	struct restoring *all = ctx;

	restore_tell(all);
	all->timer = loop_timer_free(all->timer);
	free(all);
}

/* ------------------------------------------------------------------ sandboxes */

/* The sandbox was paused or resumed, but the process that should have recorded it was
 * killed. */
static int restore_pause(struct sandbox *sandbox, struct warren_error *err)
{
	enum sandbox_state before = sandbox->row.state;
	enum sandbox_state is = sandbox->is.paused ? SANDBOX_PAUSED : SANDBOX_RUNNING;
	int r = 0;

	if (sandbox->row.state != is && !sandbox_state_is_stopped(sandbox->row.state))
		r = sandbox_move(sandbox, is, NULL, err);
	if (r == 0)
		sandbox_read_pause(sandbox);
	if (r == 0 && before == SANDBOX_PAUSED && is == SANDBOX_RUNNING)
		ROOMS_CALL(sandbox->service, resumed, sandbox);
	return r;
}

int sandbox_take_up(struct sandbox *sandbox, const char *data, size_t size, int fd,
		    service_done_fn done, void *ctx, struct warren_error *err)
{
	struct service *s = sandbox->service;
	bool first = !sandbox->loaded;
	int r = init_conn_open(sandbox, fd, data, size, err);

	if (r < 0)
		return r;
	if (first) {
		s->metrics.restored++;
		ROOMS_CALL(s, restore, sandbox);
		sandbox->loaded = true;
	}
	/* The sandbox does not end if the database cannot be written to. */
	survive(s, restore_pause(sandbox, err));
	sandbox_arm(sandbox);
	hooks_await(sandbox, offsetof(struct service_module, connected), done, ctx);
	return 0;
}

static void on_found(void *ctx, int r, const struct warren_error *err)
{
	struct finding *f = ctx;
	struct restoring *all = f->all;
	struct sandbox *sandbox = sandbox_find(all->service, NULL, f->id);

	free(f);
	if (sandbox) {
		sandbox->moving = false;
		sandbox_reconnected(sandbox, r, err);
		sandbox_next_job(sandbox);
	}
	one_done(all);
}

static void on_unmade(void *ctx, int r UNUSED, const struct warren_error *err UNUSED)
{
	one_done(ctx);
}

static void restore_sandbox(struct restoring *all, struct sandbox *sandbox)
{
	struct finding *f;
	struct warren_error ignored = WARREN_ERROR_INIT;

	if ((sandbox->row.state == SANDBOX_CREATING || sandbox->code_run) &&
	    sandbox->row.state != SANDBOX_DELETING &&
	    sandbox_move(sandbox, SANDBOX_DELETING, NULL, &ignored) < 0)
		return;
	if (sandbox->row.state == SANDBOX_DELETING) {
		/* Do not wait for a backend whose program may be slow. */
		bool wait = strcmp(sandbox->row.backend, WIRE_NATIVE) == 0;

		all->left += wait;
		sandbox->moving = true;
		sandbox_unmake(sandbox, wait ? on_unmade : service_ignore, all);
		return;
	}
	if (sandbox_state_sleeps(sandbox->row.state))
		sandbox_load_asleep(sandbox);
	if (!sandbox_is_made(sandbox)) {
		sandbox_arm(sandbox);
		return;
	}
	f = malloc(sizeof(*f));
	if (!f)
		return;
	f->all = all;
	(void)memcpy(f->id, sandbox->row.id, sizeof(f->id));
	all->left++;
	sandbox->moving = true; /* requests for the sandbox wait */
	sandbox_reconnect(sandbox, on_found, f);
}

struct ids {
	size_t n, max;
	char (*id)[ID_LEN + 1];
};

/* The database cannot be queried while it walks over rows, so collect the ids first. */
static int take_sandbox(void *ctx, const struct sandbox_row *row)
{
	struct ids *ids = ctx;

	if (ids->n < ids->max)
		(void)memcpy(ids->id[ids->n++], row->id, sizeof(ids->id[0]));
	return 0;
}

static int count_sandbox(void *ctx, const struct sandbox_row *row UNUSED)
{
	(*(size_t *)ctx)++;
	return 0;
}

static void restore_on_orphans(void *ctx, int r UNUSED,
			       const struct warren_error *err UNUSED)
{
	one_done(ctx);
}

/*
 * A live sandbox without a row was never acknowledged, or failed and could not be
 * recovered.
 */
static int restore_orphans(struct restoring *all, const char *backend)
{
	/* Do not wait for a backend whose program may be slow. */
	bool wait = strcmp(backend, WIRE_NATIVE) == 0;
	int r = orphans_destroy(all->service, backend,
				wait ? restore_on_orphans : service_ignore, all);

	all->left += wait && r == 0;
	return r;
}

static int load_sandboxes(struct restoring *all, struct warren_error *err)
{
	struct service *s = all->service;
	struct ids ids = { 0 };
	int r = db_each_sandbox(s->db, count_sandbox, &ids.max, err);

	if (r < 0)
		return r;
	ids.id = calloc(ids.max + 1, sizeof(*ids.id));
	if (!ids.id)
		return error_errno(err, ENOMEM, "restore the sandboxes");
	r = db_each_sandbox(s->db, take_sandbox, &ids, err);
	for (size_t i = 0; r == 0 && i < ids.n; i++) {
		struct sandbox_row row = { 0 };
		struct sandbox *sandbox;

		(void)memcpy(row.id, ids.id[i], sizeof(row.id));
		sandbox = sandbox_new(s, &row);
		if (!sandbox) {
			r = error_errno(err, ENOMEM, "restore the sandboxes");
			continue;
		}
		lease_force(s, LEASE_DESCRIPTORS, sandbox->row.owner, 1,
			    &sandbox->descriptors);
		restore_sandbox(all, sandbox);
	}
	free(ids.id);
	return r;
}

int service_restore(struct service *s, service_done_fn done, void *ctx,
		    struct warren_error *err)
{
	struct restoring *all = calloc(1, sizeof(*all));
	int r;

	if (!all)
		return error_errno(err, ENOMEM, "restore the sandboxes");
	*all = (struct restoring){ .service = s,
				   .done = done,
				   .ctx = ctx,
				   .left = 1,
				   .task = { .fn = restore_on_all, .ctx = all } };
	ROOMS_CALL(s, gc, s);
	r = loop_timer_new(s->loop, restore_tell, all, &all->timer);
	if (r < 0) {
		free(all);
		return error_errno(err, -r, "restore the sandboxes");
	}
	loop_timer_set(all->timer, READY_MS);
	r = load_sandboxes(all, err);
	for (size_t i = 0; r == 0 && s->backends[i]; i++)
		r = restore_orphans(all, s->backends[i]);
	if (r < 0 && err->code == 0)
		r = error_errno(err, -r, "send a request to the warden");
	if (r == 0)
		one_done(all);
	return r;
}
