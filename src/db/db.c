/* SPDX-License-Identifier: Apache-2.0 */
/*
 * db.c - open the database, lock it, check it, and handle its log
 *
 * In WAL mode, a commit is one write to the log, and the page cache survives the death of
 * the process, which is all that DB_CRASH_SAFE requires. A power cut may lose writes out
 * of order; then the checksums of the log show the first damaged record, and everything
 * after it is ignored.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "db/db_internal.h"

/*
 * Sizes of the log in pages of 4 KiB: a checkpoint is started at the first, and writers
 * wait for it at the second.
 */
#define WAL_PAGES_WANTED 1000
#define WAL_PAGES_MAX    16384

/*
 * trusted_schema: a file that another user prepared cannot call functions of this
 * process. journal_size_limit: after a burst of writes, the log releases its space.
 */
static const char pragmas[] = "PRAGMA journal_mode = WAL;"
			      "PRAGMA synchronous = NORMAL;"
			      "PRAGMA foreign_keys = ON;"
			      "PRAGMA trusted_schema = OFF;"
			      "PRAGMA temp_store = MEMORY;"
			      "PRAGMA cache_size = -8192;"
			      "PRAGMA journal_size_limit = 16777216;";

#define BUSY_MS 2000 /* time to wait if another process is using the file */

/* The lock is on a separate file, because SQLite's locks on the database come and go. */
static int lock_beside(const char *path, struct warren_error *err)
{
	AUTO_FREE char *name = NULL;
	AUTO_CLOSE int fd = -1;
	char pid[16] = "";

	if (asprintf(&name, "%s.lock", path) < 0)
		return error_errno(err, ENOMEM, "lock it");
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return error_errno(err, errno, "open '%s'", name);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return error_errno(err, errno, "lock '%s'", name);
		(void)!pread(fd, pid, sizeof(pid) - 1, 0);
		pid[strspn(pid, "0123456789")] = '\0';
		return error_set(err, EBUSY, "process %s uses it",
				 pid[0] ? pid : "of another");
	}
	/* The message above and users read this; the lock does not depend on it. */
	(void)snprintf(pid, sizeof(pid), "%d\n", getpid());
	if (ftruncate(fd, 0) == 0)
		(void)!pwrite(fd, pid, strlen(pid), 0);
	return TAKE_FD(fd);
}

/* Create the file, because SQLite would make it readable for all users; the log gets the
 * mode of the file. */
static int db_make_file(const char *path, struct warren_error *err)
{
	AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, errno, "open it");
	if (!S_ISREG(st.st_mode))
		return error_set(err, EINVAL, "it is not a regular file");
	return 0;
}

static int connect_file(const char *path, sqlite3 **ret, struct warren_error *err)
{
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
	sqlite3 *sql = NULL;
	int rc = sqlite3_open_v2(path, &sql, flags, NULL);
	int r;

	if (rc == SQLITE_OK)
		rc = sqlite3_busy_timeout(sql, BUSY_MS);
	if (rc == SQLITE_OK)
		rc = sqlite3_db_config(sql, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(sql, pragmas, NULL, NULL, NULL);
	if (rc == SQLITE_OK) {
		*ret = sql;
		return 0;
	}
	r = sql_error(sql, rc, err, "read it");
	(void)sqlite3_close(sql);
	return r;
}

/* Called after each commit. A failed checkpoint is tried again after the next commit. */
static int on_commit(void *ctx, sqlite3 *sql, const char *name, int pages)
{
	struct db *db = ctx;

	db->wal_pages = pages;
	if (pages >= WAL_PAGES_MAX)
		(void)sqlite3_wal_checkpoint_v2(sql, name, SQLITE_CHECKPOINT_PASSIVE,
						NULL, NULL);
	return SQLITE_OK;
}

static int prepare_all(struct db *db, struct warren_error *err)
{
	for (size_t i = 0; i < STMT_MAX; i++) {
		int rc =
			sqlite3_prepare_v3(db->sql, statement_texts[i], -1,
					   SQLITE_PREPARE_PERSISTENT, &db->stmt[i], NULL);

		if (rc != SQLITE_OK)
			return sql_error(db->sql, rc, err, "prepare a statement");
	}
	return 0;
}

static int count_by(struct db *db, enum db_stmt which, uint64_t *ret,
		    struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, which);

	return query_number(&q, ret, err);
}

static int db_open_locked(struct db *db, const char *path, struct warren_error *err)
{
	int r = db_make_file(path, err);

	if (r == 0)
		r = connect_file(path, &db->sql, err);
	if (r == 0)
		r = db_migrate(db->sql, err);
	if (r == 0)
		r = prepare_all(db, err);
	if (r == 0)
		r = count_by(db, STMT_LAST_SANDBOX, &db->seq, err);
	if (r == 0)
		r = tokens_open(db, err);
	if (r == 0)
		(void)sqlite3_wal_hook(db->sql, on_commit, db);
	return r;
}

int db_open(const char *path, struct db **ret_db, struct warren_error *err)
{
	struct db *db = calloc(1, sizeof(*db));
	int r;

	if (!db)
		return error_errno(err, ENOMEM, "open the database '%s'", path);
	db->log = db->reserve[0] = db->reserve[1] = db->reserve[2] = -1;
	db->path = strdup(path);
	db->lock = lock_beside(path, err);
	if (db->lock >= 0)
		db_make_room(db);
	r = db->lock < 0 ? db->lock : db_open_locked(db, path, err);
	if (r < 0) {
		db = db_close(db);
		return error_wrap(err, "open the database '%s'", path);
	}
	/* Without the reserve, a full disk causes more failures; db_reserve() is called
	 * again later. */
	(void)db_reserve(db);
	*ret_db = db;
	return 0;
}

struct db *db_close(struct db *db)
{
	if (!db)
		return NULL;
	for (size_t i = 0; i < STMT_MAX; i++)
		(void)sqlite3_finalize(db->stmt[i]);
	for (size_t i = 0; i < LIST_SHAPES; i++)
		(void)sqlite3_finalize(db->list[i]);
	(void)sqlite3_close(db->sql);
	tokens_close(db);
	close_p(&db->lock);
	close_p(&db->log);
	close_p(&db->reserve[0]);
	close_p(&db->reserve[1]);
	close_p(&db->reserve[2]);
	while (db->holds)
		(void)db_release(db, db->holds);
	free(db->path);
	free(db);
	return NULL;
}

void db_sync_later(struct db *db)
{
	db->sync_later = true;
}

/*
 * Return a descriptor to sync. A committed change is in the log, or has already been
 * moved to the file by a checkpoint, which syncs both. SQLite does not lock the log, so
 * closing this descriptor drops no lock.
 */
int db_sync_fd(struct db *db, struct warren_error *err)
{
	AUTO_FREE char *name = NULL;
	int fd;

	if (db->log < 0) {
		if (!db->path || asprintf(&name, "%s-wal", db->path) < 0)
			return error_errno(err, ENOMEM, "sync the database");
		db->log = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		if (db->log < 0)
			return error_errno(err, errno, "open '%s'", name);
	}
	fd = fcntl(db->log, F_DUPFD_CLOEXEC, 3);
	return fd < 0 ? error_errno(err, errno, "sync the database") : fd;
}

bool db_wants_checkpoint(const struct db *db)
{
	return db->wal_pages >= WAL_PAGES_WANTED;
}

int db_checkpoint(const char *path, struct warren_error *err)
{
	sqlite3 *sql = NULL;
	int r = connect_file(path, &sql, err);
	int rc;

	if (r < 0)
		return error_wrap(err, "checkpoint the database '%s'", path);
	rc = sqlite3_wal_checkpoint_v2(sql, "main", SQLITE_CHECKPOINT_PASSIVE, NULL,
				       NULL);
	/* If the database is busy, a reader still needs some pages; the next checkpoint
	 * handles them. */
	if (rc != SQLITE_OK && rc != SQLITE_BUSY)
		r = sql_error(sql, rc, err, "checkpoint the database");
	(void)sqlite3_close(sql);
	return r;
}

/* The first row of the result of @text is examined: no row, or "ok", is good. */
static int check_by(sqlite3 *sql, const char *text, struct warren_error *err)
{
	sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(sql, text, -1, &stmt, NULL);
	int r = 0;

	if (rc == SQLITE_OK)
		rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW) {
		const char *verdict = (const char *)sqlite3_column_text(stmt, 0);

		if (!verdict || strcmp(verdict, "ok") != 0)
			r = error_set(err, EUCLEAN, "the database is damaged: %.200s",
				      verdict ? verdict : "no result");
	} else if (rc != SQLITE_DONE) {
		r = sql_error(sql, rc, err, "check the database");
	}
	(void)sqlite3_finalize(stmt);
	return r;
}

int db_check(struct db *db, struct warren_error *err)
{
	uint64_t lost = 0;
	int r = check_by(db->sql, "PRAGMA integrity_check(1)", err);

	if (r == 0)
		r = check_by(db->sql, "PRAGMA foreign_key_check", err);
	if (r == 0)
		r = count_by(db, STMT_LOST_LABELS, &lost, err);
	if (r == 0 && lost > 0)
		r = error_set(err, EUCLEAN,
			      "the database is damaged: %ju labels are lost",
			      (uintmax_t)lost);
	return r == 0 ? tenants_check(db, err) : r;
}

/* -------------------------------------------------------------------- table `meta` */

int db_get_meta(struct db *db, const char *key, char **ret, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_GET_META);
	char *value;
	int r;

	query_text(&q, key);
	r = query_step(&q, err);
	if (r < 0)
		return r;
	if (r == 0)
		return error_set(err, ENOENT, "the database has no '%s'", key);
	value = strdup(column_text(&q, 0));
	if (!value)
		return error_errno(err, ENOMEM, "read the database");
	*ret = value;
	return 0;
}

int db_set_meta(struct db *db, const char *key, const char *value,
		struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	AUTO_QUERY struct query q = { 0 };
	int r = db_begin(db, DB_POWER_SAFE, &tx, err);

	if (r < 0)
		return r;
	q = query_start(db, STMT_SET_META);
	query_text(&q, key);
	query_text(&q, value);
	r = query_run(&q, err);
	return r < 0 ? r : db_commit(&tx, err);
}
