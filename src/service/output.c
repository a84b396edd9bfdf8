/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.c - what an exec has written, for readers that come and go
 *
 * The journal is a file that init writes; a reader keeps a cursor and nothing
 * else. While somebody watches, the eventfd that init writes to is in the loop.
 */
#include <errno.h>
#include <sys/eventfd.h>

#include "backend/native/journal.h"
#include "service/internal.h"

int run_output(struct run *run, uint64_t cursor, void *buf, size_t size,
	       struct warren_output *ret, struct warren_error *err)
{
	int r = run_open_journal(run, err);

	if (r < 0)
		return r;
	r = journal_read(run->journal, cursor, &run->hint, buf, size, ret);
	if (r < 0)
		return error_errno(err, -r, "read the exec's output");
	/* Its writer is gone: what is there is all there will be. */
	if (ret->size == 0 && run->lost)
		ret->end = true;
	return 0;
}

void run_extent(struct run *run, uint64_t *ret_from, uint64_t *ret_to)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	*ret_from = *ret_to = 0;
	if (run_open_journal(run, &ignored) == 0)
		(void)journal_extent(run->journal, ret_from, ret_to);
}

static void on_notify(void *ctx, unsigned events UNUSED)
{
	struct run *run = ctx;
	struct run_watcher *next;
	eventfd_t n;

	(void)eventfd_read(run->notify, &n);
	(void)run_ref(run);
	for (struct run_watcher *w = run->watchers; w; w = next) {
		next = w->next;
		w->fn(w);
	}
	(void)run_unref(run);
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
	if (!run->watchers)
		run->watch = loop_watch_free(run->watch);
	(void)run_unref(run);
}
