/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gc.c - retries changes that could not be recorded or carried out in time
 *
 * When memory, descriptors or disk space run out, the client gets an error. But the
 * cleanup may fail too, and leave one of the following. The next start of the service
 * would repair it (restore.c), but the timer in this file does so earlier:
 *
 *	a row without a sandbox	it is destroyed, and the row deleted
 *	a journal without a row	it is removed
 *	`deleting`, and no job	another request is sent to the warden
 *	`creating`, and no job	the sandbox is recorded as failed
 *	running, not connected	the service requests another connection
 *	alive, but `failed`
 *	or has no row		it is destroyed (orphans.c)
 *	files without a row	they are removed (orphans.c)
 */
#include <errno.h>
#include <string.h>

#include "service/core/internal.h"

#define STRAYS_MAX 64 /* maximum number handled at a time */

struct strays {
	struct service *service;
	size_t n;
	char id[STRAYS_MAX][ID_LEN + 1];
};

static int take_stray(void *ctx, const struct sandbox_row *row)
{
	struct strays *all = ctx;

	if (all->n < STRAYS_MAX && !sandbox_find(all->service, NULL, row->id))
		(void)memcpy(all->id[all->n++], row->id, sizeof(row->id));
	return 0;
}

/* Load the sandboxes that are not in the table; the rest of the round handles them. */
static int adopt_strays(struct service *s)
{
	struct strays all = { .service = s };
	struct warren_error ignored = WARREN_ERROR_INIT;
	int r = db_each_sandbox(s->db, take_stray, &all, &ignored);

	for (size_t i = 0; r == 0 && i < all.n; i++) {
		struct sandbox_row row = { 0 };
		struct sandbox *sandbox;

		(void)memcpy(row.id, all.id[i], sizeof(row.id));
		sandbox = sandbox_new(s, &row);
		if (!sandbox)
			return -EAGAIN;
		if (sandbox->row.state != SANDBOX_DELETING &&
		    sandbox_move(sandbox, SANDBOX_DELETING, NULL, &ignored) < 0) {
			sandbox_free(sandbox);
			return -EAGAIN;
		}
	}
	return r < 0 || all.n == STRAYS_MAX ? -EAGAIN : 0;
}

/* Return 0 if there is nothing to do, 1 if the sandbox was handled, or -errno to try
 * again later. */
static int put_right(struct sandbox *sandbox)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (sandbox->moving || sandbox->jobs)
		return sandbox->discarded && !sandbox->moving ? -EAGAIN : 0;
	if (sandbox->discarded && sandbox->row.state != SANDBOX_DELETING &&
	    sandbox_move(sandbox, SANDBOX_DELETING, NULL, &ignored) < 0)
		return -EAGAIN;
	if (sandbox->row.state == SANDBOX_CREATING)
		return sandbox_move(sandbox, SANDBOX_FAILED,
				    sandbox->broke.code ? sandbox->broke.msg
							: "it could not be created",
				    &ignored);
	if (sandbox->conn < 0 && !loop_timer_is_set(sandbox->reconnect_timer) &&
	    sandbox_is_made(sandbox)) {
		sandbox_reconnect_in_turn(sandbox);
		return 1;
	}
	if (sandbox->row.state != SANDBOX_DELETING)
		return 0;
	sandbox->moving = true;
	sandbox_unmake(sandbox, service_ignore, NULL);
	return 1;
}

static void gc_on_timer(void *ctx)
{
	struct service *s = ctx;
	int r;

	s->untidy = false;
	r = adopt_strays(s);
	ROOMS_CALL(s, gc, s);

	/*
	 * A sandbox that is destroyed immediately is removed from the table, so get the
	 * next one first.
	 */
	for (size_t i = 0; i < SANDBOX_BUCKETS; i++) {
		struct sandbox *next;

		for (struct sandbox *sandbox = s->sandboxes[i]; sandbox; sandbox = next) {
			next = sandbox->hash_next;
			if (put_right(sandbox) < 0)
				r = -EAGAIN;
		}
	}
	orphans_look(s);
	if (r < 0)
		service_untidy(s);
}

int tidy_open(struct service *s)
{
	return loop_timer_new(s->loop, gc_on_timer, s, &s->tidy_timer);
}

void tidy_close(struct service *s)
{
	s->tidy_timer = loop_timer_free(s->tidy_timer);
}

void service_untidy(struct service *s)
{
	/* Repeated failures must not postpone the timer. */
	if (s->closing || s->untidy)
		return;
	s->untidy = true;
	loop_timer_set(s->tidy_timer, RETRY_MS);
}
