/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event.c - numbered events, for clients that listen or reconnect
 *
 * An event is a row of the database, so that a cursor outlives the process. An event
 * about a change is written in the transaction of that change (event_begin()), so a
 * killed process leaves both or neither. The newest events are also in memory, where
 * listeners read them. Listeners get an event only once the database has it; otherwise
 * its id could later be reused for another event.
 *
 * Events that cannot be written because the disk is full wait in memory, and are written
 * later in the same order. If the memory for them is full, all older events are dropped,
 * and listeners see a gap.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/core/internal.h"

#define KEPT_MS    (INT64_C(3600) * 1000) /* time for which an event is kept */
#define KEPT_MAX   100000                 /* maximum number of events */
#define PRUNE_MS   30000
#define PRUNE_ROWS 256 /* number of rows deleted at a time */

static const char *const names[] = {
	[EVENT_SANDBOX_CREATED] = "sandbox.created",
	[EVENT_SANDBOX_STARTED] = "sandbox.running",
	[EVENT_SANDBOX_PAUSED] = "sandbox.paused",
	[EVENT_SANDBOX_RESUMED] = "sandbox.resumed",
	[EVENT_SANDBOX_HIBERNATED] = "sandbox.hibernated",
	[EVENT_SANDBOX_STOPPED] = "sandbox.stopped",
	[EVENT_SANDBOX_UPDATED] = "sandbox.updated",
	[EVENT_SANDBOX_FAILED] = "sandbox.failed",
	[EVENT_SANDBOX_DELETED] = "sandbox.deleted",
	[EVENT_EXEC_STARTED] = "exec.started",
	[EVENT_EXEC_FINISHED] = "exec.finished",
	[EVENT_OOM] = "sandbox.oom",
	[EVENT_SESSION_OPENED] = "session.opened",
	[EVENT_SESSION_CLOSED] = "session.closed",
	[EVENT_IMAGE_PULLED] = "image.pulled",
	[EVENT_IMAGE_REMOVED] = "image.removed",
	[EVENT_SECRET_SET] = "secret.set",
	[EVENT_SECRET_DELETED] = "secret.deleted",
	[EVENT_NETWORK_DENIED] = "network.denied",
	[EVENT_VOLUME_CREATED] = "volume.created",
	[EVENT_VOLUME_DELETED] = "volume.deleted",
	[EVENT_SNAPSHOT_CREATED] = "snapshot.created",
	[EVENT_SNAPSHOT_DELETED] = "snapshot.deleted",
	[EVENT_SANDBOX_LOST] = "sandbox.lost",
};

_Static_assert(ARRAY_SIZE(names) == EVENT_TYPE_MAX, "an event has no name");

const char *event_type_name(enum event_type type)
{
	return names[type];
}

static int type_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(names[i], name) == 0)
			return (int)i;
	return -1;
}

static void event_tell(struct service *s)
{
	waiters_tell(&s->listeners);
}

/* --------------------------------------------------------------------- writing events */

static const char *or_null(const char *text)
{
	return text && text[0] ? text : NULL;
}

static int event_insert(struct service *s, const struct event *e,
			struct warren_error *err)
{
	struct event_row row = {
		.id = e->id,
		.at = e->at,
		.clock = e->at,
		.type = names[e->type],
		.owner = or_null(e->owner),
		.sandbox = or_null(e->sandbox),
		.object = or_null(e->object),
		/* No event has both; the column is older than denials. */
		.image = e->denial ? e->denial : e->image,
		.reason = or_null(e->reason),
		.state = e->state,
		.result = e->has_result ? &e->result : NULL,
	};

	return db_insert_event(s->db, &row, err);
}

static struct event *event_slot(struct service *s, uint64_t id)
{
	return &s->events[id % EVENTS_KEPT];
}

/* Write all events that are not in the database yet, within a transaction. */
static int insert_waiting(struct service *s, struct warren_error *err)
{
	int r = 0;

	for (uint64_t id = s->stored_event + 1; r == 0 && id <= s->last_event; id++)
		r = event_insert(s, event_slot(s, id), err);
	/* Some events were dropped, so those before the gap are no longer needed. */
	if (r == 0 && s->dropped_event) {
		r = db_prune_events(s->db, s->dropped_event, INT64_MIN, UINT32_MAX, err);
		r = r < 0 ? r : 0;
	}
	return r;
}

int event_begin(struct service *s, struct event_tx *tx, struct warren_error *err)
{
	int r = db_begin(s->db, DB_CRASH_SAFE, &tx->tx, err);

	if (r < 0)
		return r;
	tx->service = s;
	tx->before = s->last_event;
	s->event_depth++;
	return 0;
}

int event_commit(struct event_tx *tx, struct warren_error *err)
{
	struct service *s = tx->service;
	int r;

	/* The outer transaction writes the events of an inner one. */
	if (s->event_depth > 1) {
		r = db_commit(&tx->tx, err);
		if (r < 0)
			return r;
		s->event_depth--;
		tx->service = NULL;
		return 0;
	}
	r = insert_waiting(s, err);
	if (r == 0)
		r = db_commit(&tx->tx, err);
	if (r < 0)
		return r;
	s->event_depth = 0;
	tx->service = NULL;
	s->dropped_event = 0;
	if (s->stored_event == s->last_event)
		return 0;
	s->stored_event = s->last_event;
	event_tell(s);
	return 0;
}

void event_rollback(struct event_tx *tx)
{
	if (!tx->service)
		return;
	tx->service->event_depth--;
	tx->service->last_event = tx->before;
	tx->service = NULL;
	db_rollback(&tx->tx);
}

/* Write the waiting events in a separate transaction. */
static int event_flush(struct service *s)
{
	AUTO_EVENT_TX struct event_tx tx = { 0 };
	struct warren_error ignored = WARREN_ERROR_INIT;
	int r = event_begin(s, &tx, &ignored);

	if (r == 0)
		r = event_commit(&tx, &ignored);
	survive(s, r);
	if (r < 0)
		loop_timer_set(s->event_timer, RETRY_MS);
	return r;
}

static void event_free_texts(struct event *e)
{
	free(e->image);
	free(e->denial);
}

/* Replace the oldest one. */
static struct event *event_add(struct service *s, enum event_type type)
{
	struct event *e = event_slot(s, s->last_event + 1);

	if (s->last_event - s->stored_event == EVENTS_KEPT)
		s->first_event = s->dropped_event = ++s->stored_event;
	event_free_texts(e);
	*e = (struct event){
		.id = ++s->last_event, .at = service_time(), .type = type, .state = -1
	};
	return e;
}

/* Within a transaction, the event is written at its end. */
static void event_added(struct service *s)
{
	if (s->event_depth == 0)
		(void)event_flush(s);
}

void event_emit_row(struct service *s, enum event_type type,
		    const struct sandbox_row *row, const char *object, const char *reason,
		    const struct warren_result *result)
{
	struct event *e = event_add(s, type);

	if (type != EVENT_SANDBOX_DELETED)
		e->state = (int)row->state;
	e->has_result = result;
	if (result)
		e->result = *result;
	(void)snprintf(e->reason, sizeof(e->reason), "%s", reason ? reason : "");
	(void)snprintf(e->owner, sizeof(e->owner), "%s", row->owner);
	(void)memcpy(e->sandbox, row->id, sizeof(e->sandbox));
	(void)snprintf(e->object, sizeof(e->object), "%s", object ? object : "");
	event_added(s);
}

void event_emit(struct service *s, enum event_type type, const struct sandbox *sandbox,
		const char *object, const struct warren_result *result)
{
	event_emit_row(s, type, &sandbox->row, object, object ? NULL : sandbox->reason,
		       result);
}

void event_emit_denied(struct service *s, const struct sandbox *sandbox,
		       const char *denial)
{
	struct event *e = event_add(s, EVENT_NETWORK_DENIED);

	e->denial = denial ? strdup(denial) : NULL;
	e->state = (int)sandbox->row.state;
	(void)snprintf(e->owner, sizeof(e->owner), "%s", sandbox->row.owner);
	(void)memcpy(e->sandbox, sandbox->row.id, sizeof(e->sandbox));
	event_added(s);
}

void event_emit_image(struct service *s, enum event_type type, const char *ref)
{
	event_add(s, type)->image = strdup(ref);
	event_added(s);
}

static void event_emit_named(struct service *s, enum event_type type, const char *tenant,
			     const char *name)
{
	struct event *e = event_add(s, type);

	(void)snprintf(e->owner, sizeof(e->owner), "%s", tenant);
	(void)snprintf(e->object, sizeof(e->object), "%s", name);
	event_added(s);
}

void event_emit_secret(struct service *s, enum event_type type, const char *tenant,
		       const char *name)
{
	event_emit_named(s, type, tenant, name);
}

void event_emit_volume(struct service *s, enum event_type type, const char *tenant,
		       const char *name)
{
	event_emit_named(s, type, tenant, name);
}

void event_emit_snapshot(struct service *s, enum event_type type, const char *tenant,
			 const char *name)
{
	event_emit_named(s, type, tenant, name);
}

/* ----------------------------------------------------- end of a sandbox */

struct ends {
	size_t n, max;
	char (*id)[ID_LEN + 1];
};

static int event_take_id(struct ends *all, const char *id)
{
	if (all->n == all->max) {
		size_t max = all->max ? 2 * all->max : 16;
		void *more = reallocarray(all->id, max, sizeof(*all->id));

		if (!more)
			return -ENOMEM;
		all->id = more;
		all->max = max;
	}
	(void)memcpy(all->id[all->n++], id, ID_LEN + 1);
	return 0;
}

static int event_take_exec(void *ctx, const struct exec_row *row)
{
	return event_take_id(ctx, row->id);
}

static int event_take_session(void *ctx, const struct session_row *row)
{
	return event_take_id(ctx, row->id);
}

static void ends_done(struct ends *all)
{
	free(all->id);
}

int event_emit_ends(struct sandbox *sandbox, const char *why, struct warren_error *err)
{
	CLEANUP(ends_done) struct ends sessions = { 0 };
	CLEANUP(ends_done) struct ends execs = { 0 };
	struct service *s = sandbox->service;
	int r = db_each_session(s->db, sandbox->row.id, event_take_session, &sessions,
				err);

	for (size_t i = 0; r >= 0 && i < sessions.n; i++) {
		r = db_delete_session(s->db, sessions.id[i], err);
		event_emit_row(s, EVENT_SESSION_CLOSED, &sandbox->row, sessions.id[i],
			       why, NULL);
	}
	if (r >= 0)
		r = db_lose_execs(s->db, sandbox->row.id, event_take_exec, &execs, err);
	for (size_t i = 0; r >= 0 && i < execs.n; i++)
		event_emit_row(s, EVENT_EXEC_FINISHED, &sandbox->row, execs.id[i], why,
			       NULL);
	return r < 0 ? r : 0;
}

/* ------------------------------------------------------------- deletion of old events */

/* Delete at most PRUNE_ROWS events; return their number. */
static int event_prune(struct service *s)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	uint64_t last,
		through = s->stored_event > KEPT_MAX ? s->stored_event - KEPT_MAX : 0;
	int r = db_prune_events(s->db, through, service_time() - KEPT_MS, PRUNE_ROWS,
				&ignored);

	if (r > 0 && db_event_range(s->db, &s->first_event, &last, &ignored) < 0)
		r = -EIO;
	survive(s, r);
	return r;
}

static void event_on_timer(void *ctx)
{
	struct service *s = ctx;

	if (s->last_event > s->stored_event && event_flush(s) < 0)
		return;
	loop_timer_set(s->event_timer, event_prune(s) >= PRUNE_ROWS ? 1 : PRUNE_MS);
}

int event_open(struct service *s, struct warren_error *err)
{
	int r = db_event_range(s->db, &s->first_event, &s->last_event, err);

	s->stored_event = s->last_event;
	if (r == 0) {
		r = loop_timer_new(s->loop, event_on_timer, s, &s->event_timer);
		if (r < 0)
			return error_errno(err, -r, "create a timer");
		loop_timer_set(s->event_timer, 0);
	}
	return r;
}

void event_close(struct service *s)
{
	s->event_timer = loop_timer_free(s->event_timer);
	for (size_t i = 0; i < EVENTS_KEPT; i++)
		event_free_texts(&s->events[i]);
	event_free_texts(&s->past_event);
}

/* --------------------------------------------------------------------- reading events */

uint64_t event_first(const struct service *s)
{
	return s->first_event;
}

static void copy_text(char *to, size_t size, const char *from)
{
	(void)snprintf(to, size, "%s", from ? from : "");
}

/* Return 1 to show that there was a row. */
static int take_row(void *ctx, const struct event_row *row)
{
	struct event *e = ctx;
	int type = type_of(row->type);

	if (type < 0)
		return 0;
	event_free_texts(e);
	*e = (struct event){ .id = row->id,
			     .at = row->at,
			     .type = (enum event_type)type,
			     .state = row->state < SANDBOX_STATE_MAX ? row->state : -1,
			     .has_result = row->result };
	*(e->type == EVENT_NETWORK_DENIED ? &e->denial : &e->image) =
		row->image ? strdup(row->image) : NULL;
	if (row->result)
		e->result = *row->result;
	copy_text(e->owner, sizeof(e->owner), row->owner);
	copy_text(e->sandbox, sizeof(e->sandbox), row->sandbox);
	copy_text(e->object, sizeof(e->object), row->object);
	copy_text(e->reason, sizeof(e->reason), row->reason);
	return 1;
}

const struct event *event_after(struct service *s, uint64_t id)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	int r;

	if (id < s->first_event)
		id = s->first_event;
	if (id >= s->stored_event)
		return NULL;
	if (event_slot(s, id + 1)->id == id + 1)
		return event_slot(s, id + 1);
	r = db_each_event(s->db, id, PRUNE_ROWS, take_row, &s->past_event, &ignored);
	survive(s, r);
	return r == 1 ? &s->past_event : NULL;
}

uint64_t event_last(const struct service *s)
{
	return s->stored_event;
}

void event_listen(struct service *s, struct waiter *w)
{
	waiter_add(&s->listeners, w, s);
}

void event_unlisten(struct waiter *w)
{
	(void)waiter_cancel(w);
}
