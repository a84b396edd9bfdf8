/* SPDX-License-Identifier: Apache-2.0 */
/* exec.c - rows of execs: what was started, and its result */
#include <errno.h>

#include "db/db_internal.h"

/* Charge the owner of @sandbox for @n more running execs. */
static int exec_charge(struct db *db, const char *sandbox, int64_t n,
		       struct warren_error *err)
{
	int64_t delta[DB_QUOTA_MAX] = { [DB_QUOTA_EXECS] = n };
	struct charged in;
	int r = sandbox_charged(db, sandbox, &in, err);

	return r < 0 ? r : tenant_charge(db, in.owner, delta, err);
}

int db_insert_exec(struct db *db, const struct exec_row *row, struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	AUTO_QUERY struct query q = { 0 };
	int r = db_begin(db, DB_CRASH_SAFE, &tx, err);

	if (r == 0)
		r = exec_charge(db, row->sandbox, 1, err);
	if (r < 0)
		return r;
	q = query_start(db, STMT_INSERT_EXEC);
	query_text(&q, row->id);
	query_text(&q, row->sandbox);
	query_int(&q, row->number);
	query_text(&q, row->argv);
	query_text(&q, row->cwd);
	query_text(&q, row->user);
	query_int(&q, row->pty);
	query_int(&q, row->session);
	query_int(&q, row->started_at);
	query_u64(&q, row->timeout_ms);
	query_text(&q, row->journal);
	r = query_run(&q, err);
	if (r < 0)
		return error_wrap(err, "record the exec '%s'", row->id);
	return db_commit(&tx, err);
}

/* Values of the column `lost`. 1: the exec has no result, because its sandbox failed. */
#define EXEC_LOST 1
static const int exec_ends[] = {
	[EXEC_BY_ITSELF] = 0,
	[EXEC_BY_HIBERNATION] = 2,
	[EXEC_BY_REBOOT] = 3,
};
_Static_assert(ARRAY_SIZE(exec_ends) == EXEC_ENDED_BY_MAX, "an end has no number");

static enum exec_ended_by exec_column_ended_by(const struct query *q, int i)
{
	for (size_t k = 0; k < ARRAY_SIZE(exec_ends); k++)
		if (column_int(q, i) == exec_ends[k])
			return (enum exec_ended_by)k;
	return EXEC_BY_ITSELF;
}

enum column {
	COL_ID,
	COL_SANDBOX,
	COL_NUMBER,
	COL_ARGV,
	COL_CWD,
	COL_USER,
	COL_PTY,
	COL_SESSION,
	COL_STARTED_AT,
	COL_TIMEOUT_MS,
	COL_JOURNAL,
	COL_ENDED_AT,
	COL_RESULT,
	COL_LOST = COL_RESULT + 10,
	COL_ENDS_UNTIL,
};

static uint64_t column_account(const struct query *q, int i)
{
	return sqlite3_column_type(q->stmt, i) == SQLITE_NULL ? WARREN_UNKNOWN
							      : column_u64(q, i);
}

bool column_result(const struct query *q, int i, struct warren_result *ret)
{
	*ret = (struct warren_result){
		.exit_code = (int)column_int(q, i),
		.signal = (int)column_int(q, i + 1),
		.timed_out = column_int(q, i + 2),
		.oom = column_int(q, i + 3),
		.wall_usec = column_u64(q, i + 4),
		.user_usec = column_account(q, i + 5),
		.system_usec = column_account(q, i + 6),
		.max_memory = column_account(q, i + 7),
		.read_bytes = column_account(q, i + 8),
		.written_bytes = column_account(q, i + 9),
	};
	return sqlite3_column_type(q->stmt, i) != SQLITE_NULL;
}

static void exec_read_row(const struct query *q, struct exec_row *row)
{
	*row = (struct exec_row){
		.number = (uint32_t)column_int(q, COL_NUMBER),
		.argv = column_text(q, COL_ARGV),
		.cwd = column_text(q, COL_CWD),
		.user = column_text(q, COL_USER),
		.pty = column_int(q, COL_PTY),
		.session = column_int(q, COL_SESSION),
		.started_at = column_int(q, COL_STARTED_AT),
		.timeout_ms = column_u64(q, COL_TIMEOUT_MS),
		.journal = column_text(q, COL_JOURNAL),
		.ended = sqlite3_column_type(q->stmt, COL_ENDED_AT) != SQLITE_NULL,
		.ended_at = column_int(q, COL_ENDED_AT),
		.lost = column_int(q, COL_LOST) == EXEC_LOST,
		.ended_by = exec_column_ended_by(q, COL_LOST),
		.ends_until = column_int(q, COL_ENDS_UNTIL),
	};
	(void)column_result(q, COL_RESULT, &row->result);
	column_id(q, COL_ID, row->id);
	column_id(q, COL_SANDBOX, row->sandbox);
}

int db_get_exec(struct db *db, const char *sandbox, const char *id, struct exec_row *ret,
		struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_GET_EXEC);
	struct exec_row row;
	int r;

	query_text(&q, id);
	query_text(&q, sandbox);
	r = query_step(&q, err);
	if (r == 0)
		return error_set(err, ENOENT, "no exec '%s'", id);
	if (r < 0)
		return r;
	exec_read_row(&q, &row);
	r = strings_own(
		(const char **const[]){ &row.argv, &row.cwd, &row.user, &row.journal }, 4,
		&row.block, err);
	if (r < 0)
		return r;
	*ret = row;
	return 0;
}

/* A sandbox may report any number, so limit impossible values. */
static void query_count(struct query *q, uint64_t n)
{
	query_u64(q, n > INT64_MAX ? INT64_MAX : n);
}

static void query_account(struct query *q, uint64_t n)
{
	if (n == WARREN_UNKNOWN)
		query_blob(q, NULL, 0);
	else
		query_count(q, n);
}

void query_result(struct query *q, const struct warren_result *result)
{
	if (!result) {
		for (int i = 0; i < 10; i++)
			query_blob(q, NULL, 0);
		return;
	}
	query_int(q, result->exit_code);
	query_int(q, result->signal);
	query_int(q, result->timed_out);
	query_int(q, result->oom);
	query_count(q, result->wall_usec);
	query_account(q, result->user_usec);
	query_account(q, result->system_usec);
	query_account(q, result->max_memory);
	query_account(q, result->read_bytes);
	query_account(q, result->written_bytes);
}

int db_set_ended_by(struct db *db, const char *id, enum exec_ended_by by,
		    struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_MARK_EXEC);
	int r;

	query_int(&q, exec_ends[by]);
	query_text(&q, id);
	r = query_run(&q, err);
	return r < 0 ? r : 0;
}

int db_set_ends_until(struct db *db, const char *id, int64_t at, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_EXEC_ENDS_UNTIL);
	int r;

	query_int(&q, at);
	query_text(&q, id);
	r = query_run(&q, err);
	return r < 0 ? r : 0;
}

int db_finish_exec(struct db *db, const char *id, int64_t ended_at,
		   const struct warren_result *result, struct warren_error *err)
{
	AUTO_EXEC_ROW struct exec_row row = { 0 };
	AUTO_DB_TX struct db_tx tx = { 0 };
	AUTO_QUERY struct query q = { 0 };
	int r = db_begin(db, DB_CRASH_SAFE, &tx, err);

	if (r == 0)
		r = db_get_exec(db, NULL, id, &row, err);
	if (r == 0 && row.ended)
		r = error_set(err, EALREADY, "the exec '%s' has ended already", id);
	if (r == 0)
		r = exec_charge(db, row.sandbox, -1, err);
	if (r < 0)
		return r;
	q = query_start(db, STMT_FINISH_EXEC);
	query_int(&q, ended_at);
	query_result(&q, result);
	query_text(&q, id);
	r = query_run(&q, err);
	return r < 0 ? r : db_commit(&tx, err);
}

static int exec_walk(struct query *q, int (*fn)(void *ctx, const struct exec_row *row),
		     void *ctx, struct warren_error *err)
{
	struct exec_row row;

	return QUERY_EACH(q, exec_read_row, &row, fn, ctx, err);
}

int db_each_exec(struct db *db, const char *sandbox, uint32_t after, size_t max,
		 int (*fn)(void *ctx, const struct exec_row *row), void *ctx,
		 struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_EACH_EXEC);

	query_text(&q, sandbox);
	query_int(&q, after);
	query_limit(&q, max);
	return exec_walk(&q, fn, ctx, err);
}

int db_each_closed_shell(struct db *db, const char *sandbox,
			 int (*fn)(void *ctx, const struct exec_row *row), void *ctx,
			 struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_CLOSED_SHELLS);

	query_text(&q, sandbox);
	return exec_walk(&q, fn, ctx, err);
}

int db_each_running(struct db *db, int (*fn)(void *ctx, const struct exec_row *row),
		    void *ctx, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_EACH_RUNNING);

	return exec_walk(&q, fn, ctx, err);
}

int db_lose_execs(struct db *db, const char *sandbox,
		  int (*fn)(void *ctx, const struct exec_row *row), void *ctx,
		  struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	int r = db_begin(db, DB_CRASH_SAFE, &tx, err);

	if (r == 0) {
		AUTO_QUERY struct query q = query_start(db, STMT_UNTOLD_EXECS);

		query_text(&q, sandbox);
		r = exec_walk(&q, fn, ctx, err);
	}
	if (r == 0) {
		AUTO_QUERY struct query q = query_start(db, STMT_LOSE_EXECS);

		query_text(&q, sandbox);
		r = query_run(&q, err);
	}
	return r < 0 ? r : db_commit(&tx, err);
}

int db_last_exec(struct db *db, const char *sandbox, uint32_t *ret,
		 struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_LAST_EXEC);
	uint64_t last = 0;
	int r;

	query_text(&q, sandbox);
	r = query_number(&q, &last, err);
	if (r == 0)
		*ret = (uint32_t)last;
	return r;
}

int db_delete_exec(struct db *db, const char *id, struct warren_error *err)
{
	AUTO_EXEC_ROW struct exec_row row = { 0 };
	AUTO_DB_TX struct db_tx tx = { 0 };
	AUTO_QUERY struct query q = { 0 };
	int r = db_begin(db, DB_CRASH_SAFE, &tx, err);

	if (r == 0)
		r = db_get_exec(db, NULL, id, &row, err);
	if (r == 0 && !row.ended)
		r = exec_charge(db, row.sandbox, -1, err);
	if (r < 0)
		return r;
	q = query_start(db, STMT_DELETE_EXEC);
	query_text(&q, id);
	r = query_run(&q, err);
	return r < 0 ? r : db_commit(&tx, err);
}

void exec_row_done(struct exec_row *row)
{
	free(row->block);
	*row = (struct exec_row){ 0 };
}
