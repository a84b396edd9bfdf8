/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_exec_output.c - what an exec has written, for readers that come and go
 *
 * The journal is a file that init writes; a reader keeps a cursor and nothing
 * else. While somebody watches, the eventfd that init writes to is in the loop.
 *
 * Who holds does so through our one connection to init, so init is told the
 * least of all their cursors. It can only be told a higher one by an ACK and a
 * lower one by attaching anew; the highest of all ends it.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>

#include "proto/journal_read.h"
#include "service/core/internal.h"

#define HOLD_RETRY_MS 100
#define HOLD_FIRST_MS 10000 /* for a reader to come */
/*
 * Init need not hear of every byte that was read, only of so many that a reader with nothing left
 * to read is not what the ring is full of. A byte of output takes at most 16 of the ring, so
 * this part of it takes an eighth, which leaves room for the next record.
 */
#define HOLD_SLACK 128

int run_output(struct run *run, uint64_t cursor, struct journal_hint *hint, void *buf,
	       size_t size, struct warren_output *ret, struct warren_error *err)
{
	int r = run_open_journal(run, err);

	if (r < 0)
		return r;
	r = journal_read_some(run->journal, cursor, hint, buf, size, ret);
	/* Of one that init has answered for: before, there is nothing in the file. */
	if (r == -EPROTO && run->attached)
		run_journal_broken(run);
	if (r < 0 && r != -EINPROGRESS)
		return error_errno(err, -r, "read the exec's output");
	/* Its writer is gone: what is there is all there will be. */
	if (r == 0 && ret->size == 0 && run->lost)
		ret->end = true;
	return r;
}

int run_dup_journal(struct run *run)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	int r = run_open_journal(run, &ignored);
	int fd = r < 0 ? -1 : fcntl(run->journal, F_DUPFD_CLOEXEC, 3);

	return r < 0 ? r : fd < 0 ? -errno : fd;
}

int run_extent(struct run *run, uint64_t *ret_from, uint64_t *ret_to)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	uint64_t from = 0, to = 0;
	int r = run_open_journal(run, &ignored);

	if (r == 0)
		r = journal_extent(run->journal, &run->end, &from, &to);
	if (r == -EPROTO && run->attached)
		run_journal_broken(run);
	if (r == -EINPROGRESS)
		r = 1;
	*ret_from = r < 0 ? 0 : from;
	*ret_to = r < 0 ? 0 : to;
	return r;
}

void run_tell_watchers(struct run *run)
{
	struct run_watcher *next;

	(void)run_ref(run);
	for (struct run_watcher *w = run->watchers; w; w = next) {
		next = w->next;
		w->fn(w);
	}
	(void)run_unref(run);
}

/* Whether init has said that nothing more will be written. */
static bool is_complete(struct run *run)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct journal_hint hint = run->end;
	struct warren_output o = { 0 };
	uint64_t from, to;
	char byte;
	int r;

	(void)run_extent(run, &from, &to);
	r = run_output(run, to, &hint, &byte, sizeof(byte), &o, &ignored);
	return (r < 0 && r != -EINPROGRESS && r != -EMSGSIZE) || o.end;
}

static void on_notify(void *ctx, unsigned events UNUSED)
{
	struct run *run = run_ref(ctx);
	eventfd_t n;

	(void)eventfd_read(run->notify, &n);
	if (!run_check_journal(run)) {
		(void)run_unref(run);
		return;
	}
	run_tell_watchers(run);
	if (run->lingers && is_complete(run)) {
		run->lingers = false;
		if (!run->watchers)
			run->watch = loop_watch_free(run->watch);
		(void)run_unref(run); /* the list's own */
	}
	(void)run_unref(run);
}

bool run_linger(struct run *run)
{
	if (run->notify < 0 || is_complete(run))
		return false;
	if (!run->watch && loop_watch(run->box->service->loop, run->notify, LOOP_READ,
				      on_notify, run, &run->watch) < 0)
		return false;
	run->lingers = true;
	return true;
}

int run_watch(struct run *run, struct run_watcher *w, struct warren_error *err)
{
	if (!run->watch && run->notify >= 0) {
		int r = loop_watch(run->box->service->loop, run->notify, LOOP_READ,
				   on_notify, run, &run->watch);

		if (r < 0)
			return error_errno(err, -r, "watch the exec's output");
	}
	w->run = run_ref(run);
	w->next = run->watchers;
	run->watchers = w;
	return 0;
}

void run_watch_cancel(struct run_watcher *w)
{
	struct run *run = w->run;
	struct run_watcher **p;

	if (!run)
		return;
	for (p = &run->watchers; *p != w; p = &(*p)->next)
		;
	*p = w->next;
	w->run = NULL;
	if (!run->watchers && !run->lingers)
		run->watch = loop_watch_free(run->watch);
	(void)run_unref(run);
}

/* -------------------------------------------------------------------- holding */

static void on_held(void *ctx UNUSED, struct answer *a UNUSED,
		    const struct warren_error *failure UNUSED)
{
	/* An exec that is over has nothing to be held. */
}

static void on_hold_timer(void *ctx);

/* How many bytes init may be behind what was read. */
static uint64_t hold_slack(const struct run *run)
{
	return (run->capacity ? run->capacity : JOURNAL_CAPACITY_MIN) / HOLD_SLACK;
}

static void tell_hold(struct run *run)
{
	struct proto_ack ack = { .h = { .version = PROTO_VERSION, .type = PROTO_ACK },
				 .exec = run->row.number,
				 .cursor = UINT64_MAX };
	struct proto_attach attach = { .h = { .type = PROTO_ATTACH },
				       .exec = run->row.number,
				       .flags = PROTO_ATTACH_HOLD };
	struct warren_error err = WARREN_ERROR_INIT;
	int r = 0;

	for (struct run_holder *h = run->holders; h; h = h->next)
		if (h->cursor < ack.cursor)
			ack.cursor = h->cursor;
	if (!run->box || run->box->conn < 0 || ack.cursor == run->held_at)
		return;
	attach.cursor = ack.cursor;
	if (ack.cursor > run->held_at)
		r = line_tell(run->box, &ack, sizeof(ack));
	else
		r = line_ask_struct(run->box, &attach, sizeof(attach), -1, on_held, NULL,
				    &err);
	if (r == 0)
		run->held_at = ack.cursor;
	else if (run->hold_timer || loop_timer_new(run->box->service->loop, on_hold_timer,
						   run, &run->hold_timer) == 0)
		loop_timer_set(run->hold_timer, HOLD_RETRY_MS);
}

static void on_hold_timer(void *ctx)
{
	tell_hold(ctx);
}

void run_hold_again(struct run *run)
{
	run->held_at = UINT64_MAX;
	tell_hold(run);
}

void run_hold(struct run *run, struct run_holder *h, uint64_t cursor)
{
	*h = (struct run_holder){ .cursor = cursor,
				  .run = run_ref(run),
				  .next = run->holders };
	run->holders = h;
	tell_hold(run);
	if (h != &run->first)
		run_hold_first_end(run);
}

static void on_first_timer(void *ctx)
{
	run_hold_first_end(ctx);
}

bool run_hold_first(struct run *run)
{
	if (loop_timer_new(run->box->service->loop, on_first_timer, run,
			   &run->first_timer) < 0)
		return false;
	run->held_at = 0; /* init is told by the request that starts it */
	run_hold(run, &run->first, 0);
	loop_timer_set(run->first_timer, HOLD_FIRST_MS);
	return true;
}

void run_hold_first_end(struct run *run)
{
	run->first_timer = loop_timer_free(run->first_timer);
	run_hold_cancel(&run->first);
}

void run_hold_move(struct run_holder *h, uint64_t cursor)
{
	if (!h->run || cursor <= h->cursor)
		return;
	h->cursor = cursor;
	if (cursor < h->run->held_at || cursor - h->run->held_at >= hold_slack(h->run))
		tell_hold(h->run);
}

void run_hold_cancel(struct run_holder *h)
{
	struct run *run = h->run;
	struct run_holder **p;

	if (!run)
		return;
	for (p = &run->holders; *p != h; p = &(*p)->next)
		;
	*p = h->next;
	h->run = NULL;
	tell_hold(run);
	(void)run_unref(run);
}
