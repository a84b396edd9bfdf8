/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox.c - sandboxes: their states, waiters and lifetime
 *
 * Only sandbox_move() changes the state of a sandbox, in the database first. Changes
 * through the warden (pause, resume, delete: sandbox_ops.c) are jobs, which run one at a
 * time in the order of the requests.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "service/core/internal.h"
#include "service/core/undo.h"

/* Check at least this often, because timers stop while the machine sleeps. */
#define LOOK_MS 600000
/* Time until an automatic hibernation that failed is tried again. */
#define HIBERNATE_RETRY_MS 60000

/* --------------------------------------------------------------- table of sandboxes */

static struct sandbox **sandbox_bucket(struct service *s, const char *id)
{
	uint32_t h = 2166136261U; /* FNV-1a */

	for (; *id; id++)
		h = (h ^ (unsigned char)*id) * 16777619U;
	return &s->sandboxes[(h ^ h >> 16) & (SANDBOX_BUCKETS - 1)];
}

struct sandbox *sandbox_find(struct service *s, const char *owner, const char *id)
{
	for (struct sandbox *b = *sandbox_bucket(s, id); b; b = b->hash_next)
		if (strcmp(b->row.id, id) == 0)
			return !owner || strcmp(b->row.owner, owner) == 0 ? b : NULL;
	return NULL;
}

int sandbox_resolve(struct service *s, const char *owner, bool any, const char *word,
		    char ret_id[ID_LEN + 1], struct warren_error *err)
{
	if (!sandbox_find(s, any ? NULL : owner, word))
		return db_find_sandbox(s->db, owner, any, word, ret_id, err);
	(void)memcpy(ret_id, word, ID_LEN + 1);
	return 0;
}

bool sandbox_persists(const struct sandbox *sandbox)
{
	return sandbox->persist;
}

uint64_t sandbox_lifetime(const struct sandbox *sandbox)
{
	return sandbox->lifetime_ms;
}

const struct sandbox_row *sandbox_row(const struct sandbox *sandbox)
{
	return &sandbox->row;
}

void service_each(struct service *s, void (*fn)(void *ctx, struct sandbox *sandbox),
		  void *ctx)
{
	for (size_t i = 0; i < SANDBOX_BUCKETS; i++)
		for (struct sandbox *sandbox = s->sandboxes[i]; sandbox;
		     sandbox = sandbox->hash_next)
			fn(ctx, sandbox);
}

const char *sandbox_workdir(const struct sandbox *sandbox)
{
	return sandbox->is.base.workdir ? sandbox->is.base.workdir : "/";
}

struct service *sandbox_service(const struct sandbox *sandbox)
{
	return sandbox->service;
}

bool sandbox_is_loaded(const struct sandbox *sandbox)
{
	return sandbox->loaded;
}

bool sandbox_stays(const struct sandbox *sandbox)
{
	return sandbox->row.state == SANDBOX_RUNNING && !sandbox->hibernating;
}

static void tell_waiters(void *ctx);
static void sandbox_on_timer(void *ctx);

void sandbox_read_pause(struct sandbox *sandbox)
{
	/* A paused sandbox that was idle for this time, or whose time to live had passed,
	 * was paused automatically, not by a request. So was one that a copy of its files
	 * has left paused. */
	bool idle = sandbox->row.idle_timeout_ms &&
		    sandbox->row.changed_at - sandbox->row.last_used >=
			    (int64_t)sandbox->row.idle_timeout_ms;
	bool expired = sandbox->on_ttl == ACTION_PAUSE && sandbox->row.expires_at &&
		       sandbox->row.changed_at >= sandbox->row.expires_at;

	sandbox->auto_paused = sandbox->row.state == SANDBOX_PAUSED &&
			       (idle || expired || sandbox->left_paused);
}

static int sandbox_modules_new(struct sandbox *sandbox, const struct service *s)
{
	for (size_t i = 0; s->hooks[i]; i++) {
		void **at = &sandbox->modules[s->hooks[i]->number];

		*at = calloc(1, s->hooks[i]->sandbox_size);
		if (!*at)
			return -ENOMEM;
	}
	return 0;
}

static void sandbox_modules_free(struct sandbox *sandbox)
{
	for (size_t i = 0; i < MODULE_MAX; i++)
		free(sandbox->modules[i]);
}

struct sandbox *sandbox_new(struct service *s, const struct sandbox_row *row)
{
	struct sandbox *sandbox = calloc(1, sizeof(*sandbox));
	struct sandbox **at = sandbox_bucket(s, row->id);
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (!sandbox)
		return NULL;
	if (sandbox_modules_new(sandbox, s) < 0 ||
	    db_get_sandbox(s->db, NULL, row->id, &sandbox->row, &ignored) < 0) {
		sandbox_modules_free(sandbox);
		free(sandbox);
		return NULL;
	}
	sandbox->service = s;
	sandbox->conn = -1;
	sandbox->captured[0] = sandbox->captured[1] = -1;
	sandbox->asks_tail = &sandbox->asks;
	sandbox->out_tail = &sandbox->out;
	sandbox->waiters_task = (struct loop_task){ .fn = tell_waiters, .ctx = sandbox };
	sandbox->created = clock_now();
	sandbox->touched = sandbox->row.last_used;
	spec_read_idle(sandbox);
	sandbox_read_pause(sandbox);
	sandbox->hash_next = *at;
	*at = sandbox;
	s->n_sandboxes++;
	return sandbox;
}

void sandbox_close_captured(struct sandbox *sandbox)
{
	for (size_t i = 0; i < ARRAY_SIZE(sandbox->captured); i++)
		if (sandbox->captured[i] >= 0)
			(void)close(TAKE_FD(sandbox->captured[i]));
}

void sandbox_free(struct sandbox *sandbox)
{
	struct service *s = sandbox->service;
	struct warren_error gone = WARREN_ERROR_INIT;

	(void)error_set(&gone, ESTALE, "the sandbox is gone");
	sandbox_make_cancel(sandbox);
	sandbox_close_captured(sandbox);
	init_conn_close(sandbox, &gone);
	reconnect_sandbox_gone(sandbox);
	lease_end(s, LEASE_DESCRIPTORS, &sandbox->descriptors);
	undo_is_new(sandbox);
	ROOMS_CALL(s, gone, sandbox);
	file_queue_free(sandbox);
	(void)LIST_REMOVE_BY(*sandbox_bucket(s, sandbox->row.id), sandbox, hash_next);
	s->n_sandboxes--;
	loop_task_cancel(&sandbox->waiters_task);
	while (sandbox->waiters) {
		struct sandbox_waiter *w = sandbox->waiters;

		sandbox_wait_cancel(w);
		w->fn(w, NULL,
		      w->states & 1U << SANDBOX_GONE ? (int)SANDBOX_GONE : -ESTALE);
	}
	sandbox->timer = loop_timer_free(sandbox->timer);
	sandbox_row_done(&sandbox->row);
	sandbox_modules_free(sandbox);
	free(sandbox);
}

int sandbox_refresh(struct sandbox *sandbox, struct warren_error *err)
{
	struct sandbox_row row;
	int r = db_get_sandbox(sandbox->service->db, NULL, sandbox->row.id, &row, err);

	if (r < 0)
		return r;
	if (row.last_used < sandbox->row.last_used)
		row.last_used = sandbox->row.last_used; /* written to the database only
							   from time to time */
	sandbox_row_done(&sandbox->row);
	sandbox->row = row;
	return 0;
}

/* ------------------------------------------------------------------- states */

/* The state in the database has changed, so the copy in memory must change too. */
void sandbox_moved(struct sandbox *sandbox, enum sandbox_state to)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (sandbox_refresh(sandbox, &ignored) < 0)
		sandbox->row.state = to;
}

/*
 * If the time to live has paused or hibernated a sandbox, it starts again when the
 * sandbox runs again.
 */
static void sandbox_renew(struct sandbox *sandbox)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	int64_t now = service_time();

	if (sandbox->on_ttl == ACTION_DELETE || !sandbox->lifetime_ms ||
	    !sandbox->row.expires_at || sandbox->row.expires_at > now)
		return;
	sandbox->row.expires_at = now + (int64_t)sandbox->lifetime_ms;
	survive(sandbox->service, db_set_times(sandbox->service->db, sandbox->row.id,
					       sandbox->row.expires_at,
					       sandbox->row.idle_timeout_ms, &ignored));
}

int sandbox_move(struct sandbox *sandbox, enum sandbox_state to, const char *error,
		 struct warren_error *err)
{
	static const int events[SANDBOX_STATE_MAX] = {
		[SANDBOX_PAUSED] = EVENT_SANDBOX_PAUSED,
		[SANDBOX_STOPPED] = EVENT_SANDBOX_STOPPED,
		[SANDBOX_HIBERNATED] = EVENT_SANDBOX_HIBERNATED,
		[SANDBOX_FAILED] = EVENT_SANDBOX_FAILED,
		[SANDBOX_LOST] = EVENT_SANDBOX_LOST,
		[SANDBOX_ON_DISK] = EVENT_SANDBOX_STOPPED,
		[SANDBOX_HIBERNATING] = EVENT_SANDBOX_STOPPED,
		[SANDBOX_RUNNING] = EVENT_SANDBOX_RESUMED,
	};
	AUTO_EVENT_TX struct event_tx tx = { 0 };
	struct sandbox_row after = sandbox->row;
	char shown[sizeof(err->msg)];
	int r = event_begin(sandbox->service, &tx, err), event = events[to];

	if ((sandbox_state_is_stopped(sandbox->row.state) ||
	     sandbox_state_sleeps(sandbox->row.state)) &&
	    to == SANDBOX_RUNNING)
		event = EVENT_SANDBOX_STARTED;
	after.state = to;
	if (error) { /* clients read it; the log has the whole one */
		(void)snprintf(shown, sizeof(shown), "%s", error);
		service_hide_dirs(sandbox->service, shown);
		error = shown;
	}
	if (r == 0)
		r = db_move_sandbox(sandbox->service->db, sandbox->row.id,
				    sandbox->row.state, to, error, service_time(), err);
	if (r == 0 && sandbox_state_is_over(to))
		r = event_emit_ends(sandbox, sandbox_state_name(to), err);
	if (r == 0 && event)
		event_emit_row(sandbox->service, (enum event_type)event, &after, NULL,
			       sandbox->reason, NULL);
	if (r == 0)
		r = event_commit(&tx, err);
	if (r < 0)
		return r;
	sandbox_moved(sandbox, to);
	if (sandbox_state_is_over(to) || sandbox_state_sleeps(to))
		undo_is_new(sandbox); /* the copy has ended with its processes */
	if (to == SANDBOX_RUNNING)
		sandbox_renew(sandbox);
	if (sandbox_state_is_over(to) || sandbox_state_is_stopped(to))
		sandbox_arm(sandbox);
	loop_defer(sandbox->service->loop, &sandbox->waiters_task);
	return 0;
}

static void tell_waiters(void *ctx)
{
	struct sandbox *sandbox = ctx;
	struct sandbox_waiter *next;

	/* The waiters are called when the sandbox's command runs, or when the sandbox has
	 * failed. */
	if (sandbox->starting && sandbox->row.state == SANDBOX_RUNNING)
		return;
	for (struct sandbox_waiter *w = sandbox->waiters; w; w = next) {
		next = w->next;
		if (!(w->states & 1U << sandbox->row.state))
			continue;
		sandbox_wait_cancel(w);
		w->fn(w, sandbox, (int)sandbox->row.state);
		/*
		 * The callback may have changed the list, so start from the front again.
		 */
		next = sandbox->waiters;
	}
}

static void on_wait_timer(void *ctx)
{
	struct sandbox_waiter *w = ctx;
	struct sandbox *sandbox = w->sandbox;

	sandbox_wait_cancel(w);
	w->fn(w, sandbox, -ETIMEDOUT);
}

void sandbox_wait(struct sandbox *sandbox, struct sandbox_waiter *w, uint64_t ms)
{
	w->sandbox = sandbox;
	LIST_PUSH(sandbox->waiters, w);
	w->timer = NULL;
	/*
	 * Without a timer, the request waits without a limit, which is no worse than
	 * failing now.
	 */
	if (loop_timer_new(sandbox->service->loop, on_wait_timer, w, &w->timer) == 0)
		loop_timer_set(w->timer, ms);
	loop_defer(sandbox->service->loop, &sandbox->waiters_task);
}

void sandbox_wait_cancel(struct sandbox_waiter *w)
{
	if (!w->sandbox)
		return;
	(void)LIST_REMOVE(w->sandbox->waiters, w);
	w->timer = loop_timer_free(w->timer);
	w->sandbox = NULL;
}

void sandbox_wait_abandon(struct sandbox_waiter *w)
{
	if (w->sandbox)
		w->sandbox->abandoned = true;
	sandbox_wait_cancel(w);
}

void sandbox_lost_to(struct sandbox *sandbox, enum sandbox_state to,
		     const struct warren_error *why)
{
	init_conn_close(sandbox, why);
	/* Execs of a sandbox whose files are kept get results when it has ended. */
	if (to == SANDBOX_ON_DISK)
		ROOMS_CALL(sandbox->service, disconnected, sandbox);
	else
		ROOMS_CALL(sandbox->service, lost, sandbox);
	if (sandbox_is_made(sandbox))
		sandbox_end_as(sandbox, to, why);
}

void sandbox_lost(struct sandbox *sandbox, const struct warren_error *why)
{
	sandbox_lost_to(sandbox, sandbox->persist ? SANDBOX_ON_DISK : SANDBOX_FAILED,
			why);
}

/* --------------------------------------------------------------------- timers */

const char *const sandbox_causes[CAUSE_MAX] = {
	[CAUSE_REQUEST] = "request",
	[CAUSE_IDLE] = "idle",
	[CAUSE_TTL] = "ttl",
};

/*
 * Can the action be carried out in the present state? A stopped sandbox is idle too, but
 * cannot be paused. A sandbox that is already paused or hibernates can only be deleted.
 */
static bool action_applies(const struct sandbox *sandbox, enum sandbox_action action)
{
	if (action == ACTION_PAUSE)
		return sandbox->row.state == SANDBOX_RUNNING;
	return action == ACTION_DELETE || sandbox_is_made(sandbox);
}

/* Does the idle time count? It does not while the sandbox is paused or hibernates. */
static bool idle_counts(const struct sandbox *sandbox)
{
	return (sandbox->row.state == SANDBOX_RUNNING ||
		sandbox_state_is_stopped(sandbox->row.state)) &&
	       action_applies(sandbox, sandbox->on_idle);
}

static uint64_t idle_at(const struct sandbox *sandbox)
{
	if (!sandbox->row.idle_timeout_ms || sandbox->n_running > 0 ||
	    sandbox->n_engaged > 0 || !idle_counts(sandbox))
		return 0;
	return (uint64_t)sandbox->row.last_used + sandbox->row.idle_timeout_ms;
}

static uint64_t expiry_at(const struct sandbox *sandbox)
{
	return action_applies(sandbox, sandbox->on_ttl)
		       ? (uint64_t)sandbox->row.expires_at
		       : 0;
}

bool sandbox_is_due(const struct sandbox *sandbox, enum sandbox_cause cause)
{
	uint64_t at = cause == CAUSE_TTL ? expiry_at(sandbox) : idle_at(sandbox);

	return cause == CAUSE_REQUEST || (at && at <= (uint64_t)service_time());
}

/*
 * Return the time at which the row of a failed sandbox is deleted. Nothing of the sandbox
 * exists, but the row remains for some time for clients that ask about it. It does not
 * count against the quota of its owner.
 */
static uint64_t forget_at(const struct sandbox *sandbox)
{
	if (sandbox->row.state != SANDBOX_FAILED || sandbox->row.enforced)
		return 0;
	return (uint64_t)sandbox->row.changed_at +
	       (sandbox->abandoned ? 0 : FAILED_KEPT_MS);
}

static uint64_t sandbox_sooner(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

/* Set the timer to the earliest of these times. */
void sandbox_arm(struct sandbox *sandbox)
{
	uint64_t now = (uint64_t)service_time();
	uint64_t due = sandbox_sooner(
		expiry_at(sandbox), sandbox_sooner(idle_at(sandbox), forget_at(sandbox)));

	if (!due) {
		if (sandbox->timer)
			loop_timer_stop(sandbox->timer);
		return;
	}
	if (!sandbox->timer && loop_timer_new(sandbox->service->loop, sandbox_on_timer,
					      sandbox, &sandbox->timer) < 0)
		return;
	due = due > now ? due - now : 0;
	loop_timer_set(sandbox->timer, due < LOOK_MS ? due : LOOK_MS);
}

void sandbox_touch(struct sandbox *sandbox)
{
	int64_t now = service_time();
	struct warren_error ignored = WARREN_ERROR_INIT;

	/* The timer checks this when it fires, so it need not be set each time. */
	sandbox->row.last_used = now;
	/* Write the time at most once a second, because each write is expensive. */
	if (now - sandbox->touched < 1000)
		return;
	sandbox->touched = now;
	survive(sandbox->service,
		db_touch_sandbox(sandbox->service->db, sandbox->row.id, now, &ignored));
}

void sandbox_engage(struct sandbox *sandbox)
{
	sandbox->n_engaged++;
}

void sandbox_disengage(struct service *s, const char *id)
{
	struct sandbox *sandbox = sandbox_find(s, NULL, id);

	if (!sandbox || --sandbox->n_engaged > 0)
		return;
	sandbox->row.last_used = service_time();
	if (sandbox->row.idle_timeout_ms)
		sandbox_arm(sandbox);
}

/*
 * If the sandbox cannot be paused now, try again later. It still exists, because
 * otherwise this function is not called.
 */
static void on_idle_paused(void *ctx, int r, const struct warren_error *err UNUSED)
{
	struct sandbox *sandbox = ctx;

	if (r < 0 && sandbox->row.state == SANDBOX_RUNNING && sandbox->timer)
		loop_timer_set(sandbox->timer, RETRY_MS);
}

/*
 * An overdue operation is tried again. The sandbox still exists unless the operation
 * succeeded, or the sandbox was already gone.
 */
static void on_expired(void *ctx, int r, const struct warren_error *err UNUSED)
{
	struct sandbox *sandbox = ctx;

	if (r < 0 && r != -ESTALE && sandbox->timer)
		loop_timer_set(sandbox->timer, RETRY_MS);
}

struct rest_op {
	struct service *service;
	char id[ID_LEN + 1];
};

/*
 * If it cannot hibernate now, try again later: the disk may be full, or the sandbox may
 * be in use again.
 */
static void on_hibernated(void *ctx, int r, const struct warren_error *err UNUSED)
{
	struct rest_op op = *(struct rest_op *)ctx;
	struct sandbox *sandbox = sandbox_find(op.service, NULL, op.id);

	free(ctx);
	if (!sandbox || op.service->closing)
		return;
	if (r < 0 && sandbox->timer)
		loop_timer_set(sandbox->timer, HIBERNATE_RETRY_MS);
	else
		sandbox_arm(sandbox);
}

static void sandbox_rest(struct sandbox *sandbox, enum sandbox_cause cause)
{
	struct rest_op *op = malloc(sizeof(*op));

	if (!op) {
		loop_timer_set(sandbox->timer, RETRY_MS);
		return;
	}
	op->service = sandbox->service;
	(void)memcpy(op->id, sandbox->row.id, sizeof(op->id));
	ROOMS_CALL(sandbox->service, hibernate, sandbox, cause, on_hibernated, op);
}

static void sandbox_act(struct sandbox *sandbox, enum sandbox_action action,
			enum sandbox_cause cause)
{
	if (action == ACTION_DELETE)
		sandbox_delete_for(sandbox, sandbox_causes[cause], on_expired, sandbox);
	else if (action == ACTION_HIBERNATE)
		sandbox_rest(sandbox, cause);
	else
		sandbox_pause_for(sandbox, cause, on_idle_paused, sandbox);
}

static void sandbox_on_timer(void *ctx)
{
	struct sandbox *sandbox = ctx;
	uint64_t now = (uint64_t)service_time(), idle = idle_at(sandbox);
	uint64_t forget = forget_at(sandbox), expiry = expiry_at(sandbox);

	if (expiry && expiry <= now)
		sandbox_act(sandbox, sandbox->on_ttl, CAUSE_TTL);
	else if (forget && forget <= now)
		sandbox_delete_for(sandbox, "failed", on_expired, sandbox);
	else if (!idle || idle > now)
		sandbox_arm(sandbox);
	else
		sandbox_act(sandbox, sandbox->on_idle, CAUSE_IDLE);
}

/* ------------------------------------------------------------ changes in the database */

/* Runs within a transaction of the caller. */
static int sandbox_change_write(const struct sandbox *sandbox,
				const struct sandbox_change *c, struct warren_error *err)
{
	struct db *db = sandbox->service->db;
	const char *id = sandbox->row.id;
	int r = c->name ? db_set_name(db, id, c->name, err) : 0;

	if (r == 0 && c->sets_labels)
		r = db_set_labels(db, id, c->labels, c->n_labels, err);
	if (r == 0 && c->sets_times)
		r = db_set_times(db, id, c->expires_at, c->idle_timeout_ms, err);
	if (r == 0 && (c->sets_times || c->on_idle || c->on_ttl || c->wake_on_use >= 0))
		r = spec_write_idle(sandbox, c, err);
	return r;
}

int sandbox_change_check(const struct sandbox *sandbox,
			 const struct sandbox_change *change, struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	int r = db_begin(sandbox->service->db, DB_CRASH_SAFE, &tx, err);

	/* On failure, the transaction is rolled back. */
	return r < 0 ? r : sandbox_change_write(sandbox, change, err);
}

int sandbox_change(struct sandbox *sandbox, const struct sandbox_change *change,
		   struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	int r = db_begin(sandbox->service->db, DB_CRASH_SAFE, &tx, err);

	if (r == 0)
		r = sandbox_change_write(sandbox, change, err);
	if (r == 0)
		r = db_commit(&tx, err);
	if (r == 0)
		r = sandbox_refresh(sandbox, err);
	if (r < 0)
		return r;
	spec_read_idle(sandbox);
	sandbox_arm(sandbox);
	event_emit(sandbox->service, EVENT_SANDBOX_UPDATED, sandbox, NULL, NULL);
	return 0;
}

int sandbox_failure(const struct sandbox *sandbox)
{
	return sandbox->failure;
}

bool sandbox_command_failed(const struct sandbox *sandbox)
{
	return sandbox->command_failed;
}
