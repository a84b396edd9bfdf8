/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event.c - rows of events, for clients that reconnect
 *
 * The caller assigns consecutive ids. Rows are deleted from the oldest on, and the newest
 * stays. So the remaining events have no gap between them, and the next process knows the
 * last id.
 */
#include <errno.h>
#include <stdlib.h>

#include "db/db_internal.h"

#define META_BASE "event_base" /* ids start after this value */

enum column {
	COL_ID,
	COL_AT,
	COL_CLOCK,
	COL_TYPE,
	COL_OWNER,
	COL_SANDBOX,
	COL_OBJECT,
	COL_IMAGE,
	COL_STATE,
	COL_REASON,
	COL_RESULT, /* this and the following columns */
};

int db_insert_event(struct db *db, const struct event_row *row, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_INSERT_EVENT);
	int r;

	query_u64(&q, row->id);
	query_int(&q, row->at);
	query_int(&q, row->clock);
	query_text(&q, row->type);
	query_text(&q, row->owner);
	query_text(&q, row->sandbox);
	query_text(&q, row->object);
	query_text(&q, row->image);
	query_int(&q, row->state);
	query_text(&q, row->reason);
	query_result(&q, row->result);
	r = query_run(&q, err);
	return r < 0 ? error_wrap(err, "record an event") : 0;
}

int db_each_event(struct db *db, uint64_t after, size_t max,
		  int (*fn)(void *ctx, const struct event_row *row), void *ctx,
		  struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_EACH_EVENT);
	int r;

	query_u64(&q, after);
	query_limit(&q, max);
	while ((r = query_step(&q, err)) > 0) {
		struct warren_result result;
		bool ended = column_result(&q, COL_RESULT, &result);
		struct event_row row = {
			.id = column_u64(&q, COL_ID),
			.at = column_int(&q, COL_AT),
			.clock = column_int(&q, COL_CLOCK),
			.type = column_text(&q, COL_TYPE),
			.owner = column_text(&q, COL_OWNER),
			.sandbox = column_text(&q, COL_SANDBOX),
			.object = column_text(&q, COL_OBJECT),
			.image = column_text(&q, COL_IMAGE),
			.state = (int)column_int(&q, COL_STATE),
			.reason = column_text(&q, COL_REASON),
			.result = ended ? &result : NULL,
		};

		r = fn(ctx, &row);
		if (r != 0)
			break;
	}
	return r;
}

int db_event_range(struct db *db, uint64_t *ret_before, uint64_t *ret_last,
		   struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_EVENT_RANGE);
	AUTO_FREE char *base = NULL;
	int r = query_step(&q, err);

	if (r < 0)
		return r;
	if (sqlite3_column_type(q.stmt, 0) != SQLITE_NULL) {
		*ret_before = column_u64(&q, 0) - 1;
		*ret_last = column_u64(&q, 1);
		return 0;
	}
	r = db_get_meta(db, META_BASE, &base, err);
	if (r < 0)
		return r;
	*ret_before = *ret_last = strtoull(base, NULL, 10);
	return 0;
}

int db_prune_events(struct db *db, uint64_t through, int64_t clock, uint64_t max,
		    struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_PRUNE_EVENTS);

	query_u64(&q, max);
	query_int(&q, clock);
	query_u64(&q, through);
	return query_run(&q, err);
}
