/* SPDX-License-Identifier: Apache-2.0 */
/* context.c - rows of contexts, which are deleted with their sandbox */
#include "db/context.h"

#include <errno.h>

#include "db/db_internal.h"

int db_put_context(struct db *db, const struct context_row *row, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_PUT_CONTEXT);
	int r;

	query_text(&q, row->id);
	query_text(&q, row->sandbox);
	query_text(&q, row->language);
	query_text(&q, row->cwd);
	query_int(&q, row->is_default);
	query_text(&q, row->exec);
	query_int(&q, row->state);
	r = query_run(&q, err);
	if (r < 0 && sqlite3_extended_errcode(db->sql) == SQLITE_CONSTRAINT_FOREIGNKEY)
		return error_set(err, ENOENT, "there is no sandbox '%s'", row->sandbox);
	return r < 0 ? error_wrap(err, "record the context '%s'", row->id) : 0;
}

static void context_read_row(const struct query *q, struct context_row *row)
{
	*row = (struct context_row){
		.language = column_text(q, 3),
		.cwd = column_text(q, 4),
		.is_default = column_int(q, 5) != 0,
		.state = (enum context_state)column_int(q, 6),
	};
	column_id(q, 0, row->id);
	column_id(q, 1, row->sandbox);
	column_id(q, 2, row->exec);
}

int db_each_context(struct db *db, int (*fn)(void *ctx, const struct context_row *row),
		    void *ctx, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_EACH_CONTEXT);
	struct context_row row;

	return QUERY_EACH(&q, context_read_row, &row, fn, ctx, err);
}

int db_delete_context(struct db *db, const char *id, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_DELETE_CONTEXT);
	int r;

	query_text(&q, id);
	r = query_run(&q, err);
	return r < 0 ? r : 0;
}
