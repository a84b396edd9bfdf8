/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sql.c - statements, transactions, and SQLite's errors as errnos
 *
 * If SQLite itself rolls back a transaction (for example because the disk is full), the
 * remaining changes must not be written individually. So every write is refused until the
 * outermost transaction has ended.
 */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "db/db_internal.h"

static const struct {
	int rc; /* a primary result code */
	int code;
} errnos[] = {
	{ SQLITE_FULL, ENOSPC },        { SQLITE_NOMEM, ENOMEM },
	{ SQLITE_READONLY, EROFS },     { SQLITE_BUSY, EBUSY },
	{ SQLITE_LOCKED, EBUSY },       { SQLITE_CORRUPT, EUCLEAN },
	{ SQLITE_NOTADB, EMEDIUMTYPE }, { SQLITE_CONSTRAINT, EEXIST },
	{ SQLITE_TOOBIG, E2BIG },       { SQLITE_RANGE, ERANGE },
	{ SQLITE_PERM, EACCES },        { SQLITE_AUTH, EACCES },
};

/*
 * The system errors that are reported. Others are not reliable: SQLite reads errno late,
 * and may find that of a later call (usually ENOENT). A user's disk quota must not look
 * like a tenant's quota, so EDQUOT becomes ENOSPC.
 */
static const struct {
	int sys;
	int code;
} reasons[] = {
	{ ENOSPC, ENOSPC }, { EDQUOT, ENOSPC }, { EFBIG, EFBIG },   { EMFILE, EMFILE },
	{ ENFILE, ENFILE }, { ENOMEM, ENOMEM }, { EACCES, EACCES }, { EROFS, EROFS },
};

int sql_errno(sqlite3 *sql, int rc)
{
	int primary = rc & 0xff;
	int sys = sql ? sqlite3_system_errno(sql) : 0;

	for (size_t i = 0; i < ARRAY_SIZE(errnos); i++)
		if (errnos[i].rc == primary)
			return errnos[i].code;
	if (rc == SQLITE_IOERR_NOMEM)
		return ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (reasons[i].sys == sys)
			return reasons[i].code;
	return EIO;
}

int sql_error(sqlite3 *sql, int rc, struct warren_error *err, const char *what)
{
	int code = sql_errno(sql, rc);

	/* Prefer the system's reason, because users can act on it. */
	if (code == ENOSPC || code == EROFS || code == ENOMEM || code == EACCES)
		return error_errno(err, code, "%s", what);
	return error_set(err, code, "%s: %s", what,
			 sql ? sqlite3_errmsg(sql) : sqlite3_errstr(rc));
}

/* ----------------------------------------------------------------- queries */

struct query query_start(struct db *db, enum db_stmt which)
{
	return (struct query){ .db = db, .stmt = db->stmt[which], .rc = SQLITE_OK };
}

void query_done(struct query *q)
{
	if (!q->stmt)
		return;
	(void)sqlite3_reset(q->stmt);
	/* Bound strings belong to the caller, and may be freed before the next use. */
	(void)sqlite3_clear_bindings(q->stmt);
	q->stmt = NULL;
}

static void sql_bound(struct query *q, int rc)
{
	if (q->rc == SQLITE_OK)
		q->rc = rc;
}

void query_text(struct query *q, const char *text)
{
	sql_bound(q, sqlite3_bind_text(q->stmt, ++q->at, text, -1, SQLITE_STATIC));
}

void query_blob(struct query *q, const void *data, size_t size)
{
	sql_bound(q, sqlite3_bind_blob64(q->stmt, ++q->at, data, size, SQLITE_STATIC));
}

void query_int(struct query *q, int64_t n)
{
	sql_bound(q, sqlite3_bind_int64(q->stmt, ++q->at, n));
}

void query_u64(struct query *q, uint64_t n)
{
	sql_bound(q, n > INT64_MAX ? SQLITE_RANGE : SQLITE_OK);
	query_int(q, (int64_t)(n & INT64_MAX));
}

void query_limit(struct query *q, size_t n)
{
	query_int(q, n ? (int64_t)(n & INT64_MAX) : -1); /* negative: no limit */
}

int query_step(struct query *q, struct warren_error *err)
{
	struct db *db = q->db;
	int rc = q->rc, r;

	if (db->doomed && !sqlite3_stmt_readonly(q->stmt))
		return error_set(
			err, ECANCELED,
			"write to the database: the transaction was rolled back");
	if (rc == SQLITE_OK)
		rc = sqlite3_step(q->stmt);
	if (rc == SQLITE_ROW)
		return 1;
	if (rc == SQLITE_DONE)
		return 0;
	r = q->rc == SQLITE_RANGE ? error_errno(err, ERANGE, "write to the database")
				  : sql_error(db->sql, rc, err, "use the database");
	if (db->depth > 0 && sqlite3_get_autocommit(db->sql))
		db->doomed = true;
	return r;
}

int query_run(struct query *q, struct warren_error *err)
{
	int r = query_step(q, err);

	return r < 0 ? r : sqlite3_changes(q->db->sql);
}

int query_number(struct query *q, uint64_t *ret, struct warren_error *err)
{
	int r = query_step(q, err);

	if (r < 0)
		return r;
	*ret = r > 0 ? column_u64(q, 0) : 0;
	return 0;
}

const char *column_text(const struct query *q, int i)
{
	return (const char *)sqlite3_column_text(q->stmt, i);
}

int64_t column_int(const struct query *q, int i)
{
	return sqlite3_column_int64(q->stmt, i);
}

uint64_t column_u64(const struct query *q, int i)
{
	int64_t n = column_int(q, i);

	return n < 0 ? 0 : (uint64_t)n;
}

void column_id(const struct query *q, int i, char ret[ID_LEN + 1])
{
	const char *text = column_text(q, i);

	(void)strncpy(ret, text ? text : "", ID_LEN);
	ret[ID_LEN] = '\0';
}

int strings_own(const char **const *at, size_t n, void **ret_block,
		struct warren_error *err)
{
	size_t size = 1;
	char *block, *p;

	for (size_t i = 0; i < n; i++)
		size += *at[i] ? strlen(*at[i]) + 1 : 0;
	block = p = malloc(size);
	if (!block)
		return error_errno(err, ENOMEM, "read the database");
	for (size_t i = 0; i < n; i++) {
		if (!*at[i])
			continue;
		size = strlen(*at[i]) + 1;
		*at[i] = memcpy(p, *at[i], size);
		p += size;
	}
	*ret_block = block;
	return 0;
}

/*
 * If an owner is given, the search begins with the first label: its rows are in the order
 * of pages, so that the cost depends only on the size of the page. Each further label is
 * looked up for each row. Parameters: last, states, owner, the labels' keys and values,
 * the size of the page.
 */
static void list_text(struct buf *text, const struct sandbox_filter *filter)
{
	size_t n_labels = filter->n_labels;
	bool owned = filter->owner, led = owned && n_labels > 0;

	buf_puts(text, "SELECT ");
	buf_puts(text, sandbox_columns);
	buf_puts(text, led ? " FROM labels l CROSS JOIN sandboxes s ON s.seq = l.seq "
			     "WHERE l.seq "
			   : " FROM sandboxes s WHERE s.seq ");
	buf_puts(text, filter->oldest_first ? ">" : "<");
	buf_puts(text, " ? AND (? >> s.state) & 1");
	if (led)
		buf_puts(text, " AND l.owner = ? AND l.key = ? AND l.value = ?");
	if (owned && !led)
		buf_puts(text, " AND s.owner = ?");
	for (size_t i = led ? 1 : 0; i < n_labels; i++)
		buf_puts(text, " AND EXISTS (SELECT 1 FROM labels WHERE owner = s.owner "
			       "AND key = ? AND value = ? AND seq = s.seq)");
	buf_puts(text, led ? " ORDER BY l.seq" : " ORDER BY s.seq");
	buf_puts(text, filter->oldest_first ? " LIMIT ?" : " DESC LIMIT ?");
}

int query_list(struct db *db, const struct sandbox_filter *filter, struct query *ret,
	       struct warren_error *err)
{
	AUTO_BUF struct buf text = BUF_INIT(1U << 16);
	sqlite3_stmt **slot;
	int rc;

	if (filter->n_labels > DB_LABELS_MAX)
		return error_set(err, E2BIG, "list sandboxes: more than %d labels",
				 DB_LABELS_MAX);
	slot = &db->list[filter->n_labels * 4 + filter->oldest_first * 2UL +
			 (filter->owner != NULL)];
	if (!*slot) {
		list_text(&text, filter);
		if (text.failed)
			return error_errno(err, ENOMEM, "list sandboxes");
		rc = sqlite3_prepare_v3(db->sql, text.data, -1, SQLITE_PREPARE_PERSISTENT,
					slot, NULL);
		if (rc != SQLITE_OK)
			return sql_error(db->sql, rc, err, "list sandboxes");
	}
	*ret = (struct query){ .db = db, .stmt = *slot, .rc = SQLITE_OK };
	return 0;
}

/* ------------------------------------------------------------ transactions */

static int sql_run(struct db *db, enum db_stmt which, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, which);

	return query_step(&q, err);
}

/* Choose whether a commit waits for the disk. This cannot be changed within a
 * transaction. */
static int set_safety(struct db *db, enum db_safety safety, struct warren_error *err)
{
	const char *text = safety == DB_POWER_SAFE ? "PRAGMA synchronous = FULL"
						   : "PRAGMA synchronous = NORMAL";
	int rc = SQLITE_OK;

	if (safety == db->safety)
		return 0;
	if (!db->sync_later)
		rc = sqlite3_exec(db->sql, text, NULL, NULL, NULL);
	if (rc != SQLITE_OK)
		return sql_error(db->sql, rc, err, "begin to write to the database");
	db->safety = safety;
	return 0;
}

/* Return to the mode in which single writes do not sync. If this fails, they sync until
 * the next attempt. */
static void sql_relax(struct db *db)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	(void)set_safety(db, DB_CRASH_SAFE, &ignored);
}

int db_begin(struct db *db, enum db_safety safety, struct db_tx *tx,
	     struct warren_error *err)
{
	int r;

	if (db->depth > 0 && safety > db->safety)
		return error_set(
			err, EINVAL,
			"a durable write is inside a transaction that is not durable");
	if (db->depth == 0) {
		r = set_safety(db, safety, err);
		if (r < 0)
			return r;
		r = sql_run(db, STMT_BEGIN, err);
		if (r < 0) {
			sql_relax(db);
			return r;
		}
	}
	db->depth++;
	tx->db = db;
	return 0;
}

static void sql_undo(struct db *db)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (!sqlite3_get_autocommit(db->sql))
		(void)sql_run(db, STMT_ROLLBACK, &ignored);
	db->doomed = false;
	tokens_forget(db);
}

int db_commit(struct db_tx *tx, struct warren_error *err)
{
	struct db *db = TAKE_PTR(tx->db);
	int r;

	if (--db->depth > 0)
		return 0;
	r = db->doomed ? error_set(err, ECANCELED,
				   "write to the database: a part was rolled back")
		       : sql_run(db, STMT_COMMIT, err);
	if (r < 0)
		sql_undo(db);
	sql_relax(db);
	return r;
}

void db_rollback(struct db_tx *tx)
{
	struct db *db = TAKE_PTR(tx->db);

	if (!db)
		return;
	db->doomed = true;
	if (--db->depth == 0) {
		sql_undo(db);
		sql_relax(db);
	}
}
