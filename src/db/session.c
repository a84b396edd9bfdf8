/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c - rows of sessions; a session is deleted with its exec, and an exec with its
 * sandbox
 */
#include <errno.h>

#include "db/db_internal.h"

int db_insert_session(struct db *db, const struct session_row *row,
		      struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_INSERT_SESSION);
	int r;

	query_text(&q, row->id);
	query_text(&q, row->sandbox);
	query_text(&q, row->exec);
	query_text(&q, row->shell);
	query_int(&q, row->created_at);
	query_int(&q, row->last_used);
	query_u64(&q, row->serial);
	query_text(&q, row->name);
	query_int(&q, row->undoable);
	r = query_run(&q, err);
	if (r < 0 && sqlite3_extended_errcode(db->sql) == SQLITE_CONSTRAINT_FOREIGNKEY)
		return error_set(err, ENOENT, "there is no exec '%s' in a sandbox '%s'",
				 row->exec, row->sandbox);
	return r < 0 ? error_wrap(err, "record the session '%s'", row->id) : 0;
}

static void session_read_row(const struct query *q, struct session_row *row)
{
	*row = (struct session_row){
		.shell = column_text(q, 3),
		.created_at = column_int(q, 4),
		.last_used = column_int(q, 5),
		.serial = column_u64(q, 6),
		.name = column_text(q, 7),
		.undoable = column_int(q, 8) != 0,
	};
	column_id(q, 0, row->id);
	column_id(q, 1, row->sandbox);
	column_id(q, 2, row->exec);
}

int db_get_session(struct db *db, const char *sandbox, const char *id,
		   struct session_row *ret, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_GET_SESSION);
	struct session_row row;
	int r;

	query_text(&q, id);
	query_text(&q, sandbox);
	r = query_step(&q, err);
	if (r == 0)
		return error_set(err, ENOENT, "no session '%s'", id);
	if (r < 0)
		return r;
	session_read_row(&q, &row);
	r = strings_own((const char **const[]){ &row.shell, &row.name }, 2, &row.block,
			err);
	if (r < 0)
		return r;
	*ret = row;
	return 0;
}

int db_advance_session(struct db *db, const char *id, uint64_t serial, int64_t now,
		       struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_ADVANCE_SESSION);
	AUTO_SESSION_ROW struct session_row row = { 0 };
	int r;

	query_u64(&q, serial);
	query_int(&q, now);
	query_text(&q, id);
	r = query_run(&q, err);
	if (r != 0)
		return r < 0 ? r : 0;
	r = db_get_session(db, NULL, id, &row, err);
	if (r < 0)
		return r;
	return error_set(err, ESTALE,
			 "the session '%s' is already at command %ju, not before %ju", id,
			 (uintmax_t)row.serial, (uintmax_t)serial);
}

int db_renew_session(struct db *db, const struct session_row *row,
		     struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_RENEW_SESSION);
	int r;

	query_text(&q, row->id);
	query_text(&q, row->exec);
	query_text(&q, row->shell);
	query_int(&q, row->last_used);
	r = query_run(&q, err);
	if (r == 0)
		return error_set(err, ENOENT, "no session '%s'", row->id);
	return r < 0 ? error_wrap(err, "record the session '%s'", row->id) : 0;
}

int db_each_session(struct db *db, const char *sandbox,
		    int (*fn)(void *ctx, const struct session_row *row), void *ctx,
		    struct warren_error *err)
{
	AUTO_QUERY struct query q =
		query_start(db, sandbox ? STMT_SESSIONS_OF : STMT_EACH_SESSION);
	struct session_row row;

	if (sandbox)
		query_text(&q, sandbox);
	return QUERY_EACH(&q, session_read_row, &row, fn, ctx, err);
}

int db_has_session(struct db *db, const char *exec, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_SESSION_OF_EXEC);

	query_text(&q, exec);
	return query_step(&q, err);
}

int db_delete_session(struct db *db, const char *id, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_DELETE_SESSION);
	int r;

	query_text(&q, id);
	r = query_run(&q, err);
	if (r == 0)
		return error_set(err, ENOENT, "no session '%s'", id);
	return r < 0 ? r : 0;
}

void session_row_done(struct session_row *row)
{
	free(row->block);
	*row = (struct session_row){ 0 };
}
