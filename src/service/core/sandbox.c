/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandsandbox.c - sandboxes: states, those who wait for them, and their time
 *
 * The state of a sandbox is changed by box_move() alone, in the store first.
 * What changes it through the warden (pause, resume, delete: sandbox_ops.c) is one
 * job at a time, in the order of the requests.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "service/core/internal.h"

#define LOOK_MS 600000 /* timers sleep with the machine, and times to live do not */

/* --------------------------------------------------------------- the table */

static struct box **bucket(struct service *s, const char *id)
{
	uint32_t h = 2166136261U; /* FNV-1a */

	for (; *id; id++)
		h = (h ^ (unsigned char)*id) * 16777619U;
	return &s->boxes[(h ^ h >> 16) & (BOX_BUCKETS - 1)];
}

struct box *box_find(struct service *s, const char *owner, const char *id)
{
	for (struct box *b = *bucket(s, id); b; b = b->hash_next)
		if (strcmp(b->row.id, id) == 0)
			return !owner || strcmp(b->row.owner, owner) == 0 ? b : NULL;
	return NULL;
}

const struct sandbox_row *box_row(const struct box *box)
{
	return &box->row;
}

const char *box_workdir(const struct box *box)
{
	return box->is.base.workdir ? box->is.base.workdir : "/";
}

struct service *box_service(const struct box *box)
{
	return box->service;
}

static void tell_waiters(void *ctx);
static void on_timer(void *ctx);

void box_read_pause(struct box *box)
{
	/* Paused after it had been idle for so long: nobody asked for it. */
	box->auto_paused = box->row.state == SANDBOX_PAUSED && box->row.idle_timeout_ms &&
			   box->row.changed_at - box->row.last_used >=
				   (int64_t)box->row.idle_timeout_ms;
}

struct box *box_new(struct service *s, const struct sandbox_row *row)
{
	struct box *box = calloc(1, sizeof(*box));
	struct box **at = bucket(s, row->id);
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (!box)
		return NULL;
	if (db_get_sandbox(s->db, NULL, row->id, &box->row, &ignored) < 0) {
		free(box);
		return NULL;
	}
	box->service = s;
	box->conn = -1;
	box->asks_tail = &box->asks;
	box->out_tail = &box->out;
	box->waiters_task = (struct loop_task){ .fn = tell_waiters, .ctx = box };
	box->broken_task = (struct loop_task){ .fn = box_journal_broken, .ctx = box };
	box->created = clock_now();
	box->touched = box->row.last_used;
	spec_read_idle(box);
	box_read_pause(box);
	box->hash_next = *at;
	*at = box;
	s->n_boxes++;
	return box;
}

void box_free(struct box *box)
{
	struct service *s = box->service;
	struct box **p = bucket(s, box->row.id);
	struct warren_error gone = WARREN_ERROR_INIT;

	(void)error_set(&gone, ESTALE, "the sandbox is gone");
	box_make_cancel(box);
	line_close(box, &gone);
	reconnect_box_gone(box);
	lease_end(s, LEASE_DESCRIPTORS, &box->descriptors);
	lease_end(s, LEASE_OUTPUT, &box->output);
	run_box_gone(box);
	shell_box_gone(box);
	files_box_gone(box);
	file_queue_free(box);
	while (*p != box)
		p = &(*p)->hash_next;
	*p = box->hash_next;
	s->n_boxes--;
	loop_task_cancel(&box->waiters_task);
	loop_task_cancel(&box->broken_task);
	while (box->waiters) {
		struct box_waiter *w = box->waiters;

		box_wait_cancel(w);
		w->fn(w, NULL, w->states & 1U << BOX_GONE ? (int)BOX_GONE : -ESTALE);
	}
	box->timer = loop_timer_free(box->timer);
	sandbox_row_done(&box->row);
	free(box);
}

int box_refresh(struct box *box, struct warren_error *err)
{
	struct sandbox_row row;
	int r = db_get_sandbox(box->service->db, NULL, box->row.id, &row, err);

	if (r < 0)
		return r;
	if (row.last_used < box->row.last_used)
		row.last_used = box->row.last_used; /* written from time to time only */
	sandbox_row_done(&box->row);
	box->row = row;
	return 0;
}

/* ------------------------------------------------------------------- states */

/* The store has moved it; the copy must not stay behind, or nothing fits any more. */
void box_moved(struct box *box, enum sandbox_state to)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (box_refresh(box, &ignored) < 0)
		box->row.state = to;
}

int box_move(struct box *box, enum sandbox_state to, const char *error,
	     struct warren_error *err)
{
	static const int events[SANDBOX_STATE_MAX] = {
		[SANDBOX_PAUSED] = EVENT_SANDBOX_PAUSED,
		[SANDBOX_FAILED] = EVENT_SANDBOX_FAILED,
		[SANDBOX_RUNNING] = EVENT_SANDBOX_RESUMED,
	};
	AUTO_EVENT_TX struct event_tx tx = { 0 };
	struct sandbox_row after = box->row;
	int r = event_begin(box->service, &tx, err);

	after.state = to;
	if (r == 0)
		r = db_move_sandbox(box->service->db, box->row.id, box->row.state, to,
				    error, service_time(), err);
	if (r == 0 && to == SANDBOX_FAILED)
		r = event_emit_ends(box, "failed", err);
	if (r == 0 && events[to])
		event_emit_row(box->service, (enum event_type)events[to], &after, NULL,
			       box->reason, NULL);
	if (r == 0)
		r = event_commit(&tx, err);
	if (r < 0)
		return r;
	box_moved(box, to);
	if (to == SANDBOX_FAILED)
		box_arm(box);
	loop_defer(box->service->loop, &box->waiters_task);
	return 0;
}

static void tell_waiters(void *ctx)
{
	struct box *box = ctx;
	struct box_waiter *next;

	for (struct box_waiter *w = box->waiters; w; w = next) {
		next = w->next;
		if (!(w->states & 1U << box->row.state))
			continue;
		box_wait_cancel(w);
		w->fn(w, box, (int)box->row.state);
		/* What it did may have changed the list: from the front again. */
		next = box->waiters;
	}
}

static void on_wait_timer(void *ctx)
{
	struct box_waiter *w = ctx;
	struct box *box = w->box;

	box_wait_cancel(w);
	w->fn(w, box, -ETIMEDOUT);
}

void box_wait(struct box *box, struct box_waiter *w, uint64_t ms)
{
	w->box = box;
	w->next = box->waiters;
	box->waiters = w;
	w->timer = NULL;
	/* Without a timer it waits for ever, which is no worse than an error now. */
	if (loop_timer_new(box->service->loop, on_wait_timer, w, &w->timer) == 0)
		loop_timer_set(w->timer, ms);
	loop_defer(box->service->loop, &box->waiters_task);
}

void box_wait_cancel(struct box_waiter *w)
{
	struct box_waiter **p;

	if (!w->box)
		return;
	for (p = &w->box->waiters; *p != w; p = &(*p)->next)
		;
	*p = w->next;
	w->timer = loop_timer_free(w->timer);
	w->box = NULL;
}

void box_wait_abandon(struct box_waiter *w)
{
	if (w->box)
		w->box->abandoned = true;
	box_wait_cancel(w);
}

void box_lost(struct box *box, const struct warren_error *why)
{
	line_close(box, why);
	run_box_gone(box);
	if (box->row.state == SANDBOX_RUNNING || box->row.state == SANDBOX_PAUSED)
		box_end(box, why);
}

/* --------------------------------------------------------------------- time */

static uint64_t idle_at(const struct box *box)
{
	if (!box->row.idle_timeout_ms || box->n_running > 0 || box->n_engaged > 0 ||
	    box->row.state != SANDBOX_RUNNING)
		return 0;
	return (uint64_t)box->row.last_used + box->row.idle_timeout_ms;
}

bool box_is_idle(const struct box *box)
{
	uint64_t at = idle_at(box);

	return at && at <= (uint64_t)service_time();
}

/*
 * One that could not be made has nothing in it; its row is there for whoever asks what
 * became of it, and does not count against its owner for ever.
 */
static uint64_t forget_at(const struct box *box)
{
	if (box->row.state != SANDBOX_FAILED || box->row.enforced)
		return 0;
	return (uint64_t)box->row.changed_at + (box->abandoned ? 0 : FAILED_KEPT_MS);
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

/* Set the timer to what comes first. */
void box_arm(struct box *box)
{
	uint64_t now = (uint64_t)service_time();
	uint64_t due = sooner((uint64_t)box->row.expires_at,
			      sooner(idle_at(box), forget_at(box)));

	if (!due) {
		if (box->timer)
			loop_timer_stop(box->timer);
		return;
	}
	if (!box->timer &&
	    loop_timer_new(box->service->loop, on_timer, box, &box->timer) < 0)
		return;
	due = due > now ? due - now : 0;
	loop_timer_set(box->timer, due < LOOK_MS ? due : LOOK_MS);
}

void box_touch(struct box *box)
{
	int64_t now = service_time();
	struct warren_error ignored = WARREN_ERROR_INIT;

	/* The timer looks again when it is over: it need not be set each time. */
	box->row.last_used = now;
	/* To the second: what is written each time must not cost each time. */
	if (now - box->touched < 1000)
		return;
	box->touched = now;
	survive(box->service,
		db_touch_sandbox(box->service->db, box->row.id, now, &ignored));
}

void box_engage(struct box *box)
{
	box->n_engaged++;
}

void box_disengage(struct service *s, const char *id)
{
	struct box *box = box_find(s, NULL, id);

	if (!box || --box->n_engaged > 0)
		return;
	box->row.last_used = service_time();
	if (box->row.idle_timeout_ms)
		box_arm(box);
}

/* What cannot be paused now is tried again; the box is there, or it would not be told. */
static void on_idle_paused(void *ctx, int r, const struct warren_error *err UNUSED)
{
	struct box *box = ctx;

	if (r < 0 && box->row.state == SANDBOX_RUNNING && box->timer)
		loop_timer_set(box->timer, RETRY_MS);
}

/* What is due is done, be it later: the box is there unless it worked, or was gone before. */
static void on_expired(void *ctx, int r, const struct warren_error *err UNUSED)
{
	struct box *box = ctx;

	if (r < 0 && r != -ESTALE && box->timer)
		loop_timer_set(box->timer, RETRY_MS);
}

static void on_timer(void *ctx)
{
	struct box *box = ctx;
	uint64_t now = (uint64_t)service_time(), idle = idle_at(box);
	uint64_t forget = forget_at(box);

	if (box->row.expires_at && (uint64_t)box->row.expires_at <= now)
		box_delete_for(box, "ttl", on_expired, box);
	else if (forget && forget <= now)
		box_delete_for(box, "failed", on_expired, box);
	else if (!idle || idle > now)
		box_arm(box);
	else if (box->delete_when_idle)
		box_delete_for(box, "idle", on_expired, box);
	else
		box_pause_for(box, "idle", on_idle_paused, box);
}

int box_set_labels(struct box *box, const struct db_label *labels, size_t n,
		   struct warren_error *err)
{
	int r = db_set_labels(box->service->db, box->row.id, labels, n, err);

	if (r == 0)
		r = box_refresh(box, err);
	if (r == 0)
		event_emit(box->service, EVENT_SANDBOX_UPDATED, box, NULL, NULL);
	return r;
}

int box_set_times(struct box *box, int64_t expires_at, uint64_t idle_timeout_ms,
		  struct warren_error *err)
{
	int r = db_set_times(box->service->db, box->row.id, expires_at, idle_timeout_ms,
			     err);

	if (r == 0)
		r = box_refresh(box, err);
	if (r == 0) {
		box_arm(box);
		event_emit(box->service, EVENT_SANDBOX_UPDATED, box, NULL, NULL);
	}
	return r;
}

int box_failure(const struct box *box)
{
	return box->failure;
}
