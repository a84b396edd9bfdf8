/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox_group.c - create several sandboxes, all or none
 *
 * A sandbox of a group that is prepared waits, in the state `creating`, for the others.
 * One transaction lets all of them run; if one could not be created, one transaction
 * records that all are to be deleted. So whenever the service is killed, the next process
 * finds all of them `running`, or deletes those that it finds (restore.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "service/core/internal.h"

struct sandbox_group {
	struct service *service;
	size_t left; /* sandboxes that are being created, plus one for the caller */
	struct create_op *ready;
	struct warren_error err; /* why the first of those that failed did */
	sandbox_all_fn done;
	void *ctx;
	size_t n;
	struct sandbox **all; /* filled when the group ends */
	char id[][ID_LEN + 1];
};

/* Look up the sandboxes; those that a client has deleted are NULL. */
static void group_find(struct sandbox_group *g)
{
	for (size_t i = 0; i < g->n; i++)
		g->all[i] = sandbox_find(g->service, NULL, g->id[i]);
}

static int group_commit(struct sandbox_group *g, struct warren_error *err)
{
	AUTO_EVENT_TX struct event_tx tx = { 0 };
	int r = event_begin(g->service, &tx, err);

	for (struct create_op *m = g->ready; r == 0 && m; m = create_op_next(m))
		r = create_op_take_over(m, err);
	return r < 0 ? r : event_commit(&tx, err);
}

/* Record in one transaction that the sandboxes are to be deleted. */
static int discard_record(struct service *s, struct sandbox **all, size_t n,
			  struct warren_error *err)
{
	AUTO_EVENT_TX struct event_tx tx = { 0 };
	int r = event_begin(s, &tx, err);

	for (size_t i = 0; r == 0 && i < n; i++)
		if (all[i] && all[i]->row.state != SANDBOX_DELETING)
			r = sandbox_move(all[i], SANDBOX_DELETING, NULL, err);
	return r < 0 ? r : event_commit(&tx, err);
}

/* None of them has a job in progress. */
static void discard_idle(struct service *s, struct sandbox **all, size_t n)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int r = discard_record(s, all, n, &err);

	for (size_t i = 0; i < n; i++) {
		if (!all[i])
			continue;
		all[i]->moving = r == 0;
		if (r == 0) {
			sandbox_unmake(all[i], service_ignore, NULL);
		} else {
			/* gc.c tries again. */
			all[i]->discarded = true;
			survive(s, sandbox_refresh(all[i], &err));
			service_untidy(s);
			sandbox_next_job(all[i]);
		}
	}
}

void sandbox_discard(struct service *s, struct sandbox **all, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (all[i] && (all[i]->moving || all[i]->jobs)) {
			sandbox_delete_for(all[i], "request", service_ignore, NULL);
			all[i] = NULL;
		}
	discard_idle(s, all, n);
}

static void group_delete(struct sandbox_group *g)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	while (g->ready) {
		struct create_op *m = g->ready;

		g->ready = create_op_next(m);
		create_op_free(m);
	}
	group_find(g);
	for (size_t i = 0; i < g->n; i++) {
		struct sandbox *sandbox = g->all[i];

		if (!sandbox)
			continue;
		/* The transaction that let it run may have been rolled back. */
		survive(g->service, sandbox_refresh(sandbox, &ignored));
		init_conn_close(sandbox, &g->err);
		/* A client may delete it already. */
		if (sandbox->row.state == SANDBOX_DELETING)
			g->all[i] = NULL;
	}
	discard_idle(g->service, g->all, g->n);
	orphans_look_soon(g->service);
}

static void group_finish(struct sandbox_group *g)
{
	while (g->ready) {
		struct create_op *m = g->ready;

		g->ready = create_op_next(m);
		create_op_finish(m);
	}
	group_find(g);
}

static void group_end(struct sandbox_group *g)
{
	/* The sandboxes are still `creating`: the next process deletes them. */
	if (g->service->closing)
		(void)error_set(&g->err, ESHUTDOWN, "the service is ending");
	else if (!g->err.code)
		(void)group_commit(g, &g->err);
	if (g->service->closing)
		while (g->ready) {
			struct create_op *m = g->ready;

			g->ready = create_op_next(m);
			create_op_free(m);
		}
	else if (g->err.code)
		group_delete(g);
	else
		group_finish(g);
	g->done(g->ctx, g->err.code ? NULL : g->all, &g->err);
	free((void *)g->all);
	free(g);
}

static void group_step(struct sandbox_group *g)
{
	if (--g->left == 0)
		group_end(g);
}

void sandbox_group_ready(struct sandbox_group *g, struct create_op *m)
{
	create_op_link(m, g->ready);
	g->ready = m;
	group_step(g);
}

void sandbox_group_leave(struct sandbox_group *g, const struct warren_error *why)
{
	if (!g->err.code && why)
		g->err = *why;
	else if (!g->err.code)
		(void)error_set(&g->err, ESTALE, "it was deleted in the meantime");
	group_step(g);
}

struct sandbox_group *sandbox_group_new(struct service *s, size_t n, sandbox_all_fn done,
					void *ctx)
{
	struct sandbox_group *g = calloc(1, sizeof(*g) + n * sizeof(g->id[0]));

	if (g)
		g->all = calloc(n + 1, sizeof(struct sandbox *));
	if (!g || !g->all) {
		free(g);
		return NULL;
	}
	g->service = s;
	g->n = n;
	g->left = n + 1;
	g->done = done;
	g->ctx = ctx;
	return g;
}

void sandbox_group_begun(struct sandbox_group *g, const struct sandbox_row *rows)
{
	for (size_t i = 0; i < g->n; i++)
		(void)memcpy(g->id[i], rows[i].id, sizeof(g->id[i]));
	group_step(g);
}

void sandbox_group_free(struct sandbox_group *g)
{
	if (g)
		free((void *)g->all);
	free(g);
}
