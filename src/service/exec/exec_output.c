/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_output.c - the output of an exec, for readers that come and go
 *
 * The journal is a file that init writes; the only state of a reader is a cursor. While
 * there are watchers, the loop watches the eventfd that init writes to.
 *
 * All holders share one connection to init, so the service tells init the lowest of their
 * cursors. An ACK can only raise that cursor; to lower it, the service attaches again.
 * The highest possible cursor ends the hold.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>

#include "base/list.h"
#include "proto/journal_read.h"
#include "service/exec/internal.h"

#define HOLD_RETRY_MS 100
#define HOLD_FIRST_MS 10000 /* time for the first reader to arrive */
/*
 * The part of the ring that may be read before the service tells init. The service need
 * not report every byte, but the ring must not be full when all its output has been read.
 * A byte of output takes at most 16 bytes of the ring, so this part takes at most an
 * eighth of the ring, which leaves space for the next record.
 */
#define HOLD_SLACK 128

int exec_output(struct exec *exec, uint64_t cursor, struct journal_hint *hint, void *buf,
		size_t size, struct warren_output *ret, struct warren_error *err)
{
	int r = exec_open_journal(exec, err);

	if (r < 0)
		return r;
	r = journal_read_some(exec->journal, cursor, hint, buf, size, ret);
	/* An error counts only after init has answered; before that, the file is empty.
	 */
	if (r == -EPROTO && exec->attached)
		exec_journal_broken(exec);
	if (r < 0 && r != -EINPROGRESS)
		return error_errno(err, -r, "read the exec's output");
	/* The writer is gone, so there will be no more output. */
	if (r == 0 && ret->size == 0 && exec->lost)
		ret->end = true;
	return r;
}

int exec_dup_journal(struct exec *exec)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	int r = exec_open_journal(exec, &ignored);
	int fd = r < 0 ? -1 : fcntl(exec->journal, F_DUPFD_CLOEXEC, 3);

	return r < 0 ? r : fd < 0 ? -errno : fd;
}

int exec_extent(struct exec *exec, uint64_t *ret_from, uint64_t *ret_to)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	uint64_t from = 0, to = 0;
	int r = exec_open_journal(exec, &ignored);

	if (r == 0)
		r = journal_extent(exec->journal, &exec->end, &from, &to);
	if (r == -EPROTO && exec->attached)
		exec_journal_broken(exec);
	if (r == -EINPROGRESS)
		r = 1;
	*ret_from = r < 0 ? 0 : from;
	*ret_to = r < 0 ? 0 : to;
	return r;
}

void exec_tell_watchers(struct exec *exec)
{
	(void)exec_ref(exec);
	waiters_tell(&exec->watchers);
	(void)exec_unref(exec);
}

/* Has init reported that nothing more will be written? */
static bool is_complete(struct exec *exec)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct journal_hint hint = exec->end;
	struct warren_output o = { 0 };
	uint64_t from, to;
	char byte;
	int r;

	(void)exec_extent(exec, &from, &to);
	r = exec_output(exec, to, &hint, &byte, sizeof(byte), &o, &ignored);
	return (r < 0 && r != -EINPROGRESS && r != -EMSGSIZE) || o.end;
}

static void exec_output_on_notify(void *ctx, unsigned events UNUSED)
{
	struct exec *exec = exec_ref(ctx);
	eventfd_t n;

	(void)eventfd_read(exec->notify, &n);
	if (!exec_check_journal(exec)) {
		(void)exec_unref(exec);
		return;
	}
	exec_tell_watchers(exec);
	if (exec->lingers && is_complete(exec)) {
		exec->lingers = false;
		if (!exec->watchers.first)
			exec->watch = loop_watch_free(exec->watch);
		(void)exec_unref(exec); /* reference of the list */
	}
	(void)exec_unref(exec);
}

bool exec_linger(struct exec *exec)
{
	if (exec->notify < 0 || is_complete(exec))
		return false;
	if (!exec->watch &&
	    loop_watch(exec->sandbox->service->loop, exec->notify, LOOP_READ,
		       exec_output_on_notify, exec, &exec->watch) < 0)
		return false;
	exec->lingers = true;
	return true;
}

int exec_watch(struct exec *exec, struct waiter *w, struct warren_error *err)
{
	if (!exec->watch && exec->notify >= 0) {
		int r = loop_watch(exec->sandbox->service->loop, exec->notify, LOOP_READ,
				   exec_output_on_notify, exec, &exec->watch);

		if (r < 0)
			return error_errno(err, -r, "watch the exec's output");
	}
	waiter_add(&exec->watchers, w, exec_ref(exec));
	return 0;
}

void exec_watch_cancel(struct waiter *w)
{
	struct exec *exec = waiter_cancel(w);

	if (!exec)
		return;
	if (!exec->watchers.first && !exec->lingers)
		exec->watch = loop_watch_free(exec->watch);
	(void)exec_unref(exec);
}

/* -------------------------------------------------------------------- holding output */

static void on_held(void *ctx UNUSED, struct init_reply *a UNUSED,
		    const struct warren_error *failure UNUSED)
{
	/* An exec that has ended has no output to hold. */
}

static void exec_output_on_hold_timer(void *ctx);

/* Return the number of bytes by which init's cursor may be behind what was read. */
static uint64_t hold_slack(const struct exec *exec)
{
	return (exec->capacity ? exec->capacity : JOURNAL_CAPACITY_MIN) / HOLD_SLACK;
}

static void tell_hold(struct exec *exec)
{
	struct proto_ack ack = { .h = { .version = PROTO_VERSION, .type = PROTO_ACK },
				 .exec = exec->row.number,
				 .cursor = UINT64_MAX };
	struct proto_attach attach = { .h = { .type = PROTO_ATTACH },
				       .exec = exec->row.number,
				       .flags = PROTO_ATTACH_HOLD };
	struct warren_error err = WARREN_ERROR_INIT;
	int r = 0;

	for (struct exec_holder *h = exec->holders; h; h = h->next)
		if (h->cursor < ack.cursor)
			ack.cursor = h->cursor;
	if (!exec->sandbox || exec->sandbox->conn < 0 || ack.cursor == exec->held_at)
		return;
	attach.cursor = ack.cursor;
	if (ack.cursor > exec->held_at)
		r = init_conn_tell(exec->sandbox, &ack, sizeof(ack));
	else
		r = init_conn_ask_struct(exec->sandbox, &attach, sizeof(attach), -1,
					 on_held, NULL, &err);
	if (r == 0)
		exec->held_at = ack.cursor;
	else if (exec->hold_timer ||
		 loop_timer_new(exec->sandbox->service->loop, exec_output_on_hold_timer,
				exec, &exec->hold_timer) == 0)
		loop_timer_set(exec->hold_timer, HOLD_RETRY_MS);
}

static void exec_output_on_hold_timer(void *ctx)
{
	tell_hold(ctx);
}

void exec_hold_again(struct exec *exec)
{
	exec->held_at = UINT64_MAX;
	tell_hold(exec);
}

void exec_hold(struct exec *exec, struct exec_holder *h, uint64_t cursor)
{
	*h = (struct exec_holder){ .cursor = cursor, .exec = exec_ref(exec) };
	LIST_PUSH(exec->holders, h);
	tell_hold(exec);
	if (h != &exec->first)
		exec_hold_first_end(exec);
}

static void on_first_timer(void *ctx)
{
	exec_hold_first_end(ctx);
}

bool exec_hold_first(struct exec *exec)
{
	if (loop_timer_new(exec->sandbox->service->loop, on_first_timer, exec,
			   &exec->first_timer) < 0)
		return false;
	exec->held_at = 0; /* the start request contains this */
	exec_hold(exec, &exec->first, 0);
	loop_timer_set(exec->first_timer, HOLD_FIRST_MS);
	return true;
}

void exec_hold_first_end(struct exec *exec)
{
	exec->first_timer = loop_timer_free(exec->first_timer);
	exec_hold_cancel(&exec->first);
}

void exec_hold_move(struct exec_holder *h, uint64_t cursor)
{
	if (!h->exec || cursor <= h->cursor)
		return;
	h->cursor = cursor;
	if (cursor < h->exec->held_at || cursor - h->exec->held_at >= hold_slack(h->exec))
		tell_hold(h->exec);
}

void exec_hold_cancel(struct exec_holder *h)
{
	struct exec *exec = h->exec;

	if (!exec)
		return;
	(void)LIST_REMOVE(exec->holders, h);
	h->exec = NULL;
	tell_hold(exec);
	(void)exec_unref(exec);
}
