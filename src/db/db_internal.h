/* SPDX-License-Identifier: Apache-2.0 */
/*
 * db_internal.h - the connection, and how to run a statement
 *
 *	AUTO_QUERY struct query q = query_start(db, STMT_GET_TENANT);
 *
 *	query_text(&q, name);
 *	r = query_step(&q, err);
 *
 * Statements are prepared once, when the file is opened; statements.c has their texts.
 * Values are bound one after the other. If binding fails, the next step returns the
 * error.
 */
#ifndef DB_DB_INTERNAL_H
#define DB_DB_INTERNAL_H

#include <openssl/types.h>
#include <sqlite3.h>

#include "db/db.h"

enum db_stmt {
	STMT_BEGIN,
	STMT_COMMIT,
	STMT_ROLLBACK,
	STMT_GET_META,
	STMT_SET_META,
	STMT_PUT_TENANT,
	STMT_SET_QUOTAS,
	STMT_GET_TENANT,
	STMT_EACH_TENANT,
	STMT_DELETE_TENANT,
	STMT_CHARGE,
	STMT_SUM_SANDBOXES,
	STMT_SUM_EXECS,
	STMT_INSERT_TOKEN,
	STMT_FIND_TOKEN,
	STMT_GET_TOKEN,
	STMT_TOUCH_TOKEN,
	STMT_EACH_TOKEN,
	STMT_REVOKE_TOKEN,
	STMT_COUNT_TOKENS,
	STMT_CHECK_TOKEN,
	STMT_PUT_SECRET,
	STMT_GET_SECRET,
	STMT_EACH_SECRET,
	STMT_DELETE_SECRET,
	STMT_COUNT_SECRETS,
	STMT_INSERT_VOLUME,
	STMT_GET_VOLUME,
	STMT_GET_VOLUME_BY_ID,
	STMT_EACH_VOLUME,
	STMT_FINISH_VOLUME,
	STMT_DELETE_VOLUME,
	STMT_FORGET_VOLUME,
	STMT_UNFINISHED_VOLUMES,
	STMT_SUM_VOLUMES,
	STMT_USE_VOLUME,
	STMT_EACH_VOLUME_USER,
	STMT_INSERT_SNAPSHOT,
	STMT_FINISH_SNAPSHOT,
	STMT_ORPHAN_SNAPSHOT,
	STMT_NAME_SNAPSHOT,
	STMT_KEEP_SNAPSHOT,
	STMT_UNNAME_SNAPSHOT,
	STMT_UNNAME_ALL,
	STMT_DROP_SNAPSHOT,
	STMT_DELETE_SNAPSHOT,
	STMT_COUNT_SNAPSHOT_TAGS,
	STMT_FORGET_SNAPSHOT,
	STMT_DEAD_SNAPSHOTS,
	STMT_GET_SNAPSHOT,
	STMT_EACH_SNAPSHOT,
	STMT_SUM_SNAPSHOTS,
	STMT_USE_SNAPSHOT,
	STMT_SNAPSHOT_OF,
	STMT_SNAPSHOT_OF_IMAGE,
	STMT_INSERT_TEMPLATE,
	STMT_COUNT_TEMPLATES,
	STMT_GET_TEMPLATE,
	STMT_EACH_TEMPLATE,
	STMT_DELETE_TEMPLATE,
	STMT_INSERT_BUILD,
	STMT_PRUNE_BUILDS,
	STMT_DROP_BUILD_LOGS,
	STMT_GET_BUILD,
	STMT_TAGGED_BUILD,
	STMT_SNAPSHOT_BUILD,
	STMT_SET_BUILD,
	STMT_END_BUILDS,
	STMT_TOUCH_TEMPLATE,
	STMT_PUT_TEMPLATE_TAG,
	STMT_DELETE_TEMPLATE_TAG,
	STMT_EACH_TEMPLATE_TAG,
	STMT_ORPHAN_BUILDS,
	STMT_PRUNE_REVOKED,
	STMT_PRUNE_EXPIRED,
	STMT_INSERT_SANDBOX,
	STMT_GET_SANDBOX,
	STMT_FIND_NAME,
	STMT_FIND_PREFIX,
	STMT_SET_MAIN,
	STMT_SET_NAME,
	STMT_CHARGED_SANDBOX,
	STMT_EACH_SANDBOX,
	STMT_HASH_OF_REQUEST,
	STMT_HASH_OF_SANDBOX,
	STMT_INSERT_REQUEST,
	STMT_RELEASE_REQUEST,
	STMT_PRUNE_REQUESTS,
	STMT_NEXT_REQUESTER,
	STMT_LIMIT_REQUESTS,
	STMT_EACH_OF_REQUEST,
	STMT_MOVE_SANDBOX,
	STMT_SET_LABELS,
	STMT_SET_TIMES,
	STMT_SET_LIMITS,
	STMT_TOUCH_SANDBOX,
	STMT_GET_NETWORK,
	STMT_SET_NETWORK,
	STMT_GET_POLICY,
	STMT_SET_POLICY,
	STMT_DELETE_SANDBOX,
	STMT_COUNT_SANDBOXES,
	STMT_INSERT_LABEL,
	STMT_DELETE_LABEL,
	STMT_LOST_LABELS,
	STMT_LAST_SANDBOX,
	STMT_INSERT_EXEC,
	STMT_FINISH_EXEC,
	STMT_MARK_EXEC,
	STMT_EXEC_ENDS_UNTIL,
	STMT_GET_EXEC,
	STMT_EACH_EXEC,
	STMT_EACH_RUNNING,
	STMT_CLOSED_SHELLS,
	STMT_UNTOLD_EXECS,
	STMT_LOSE_EXECS,
	STMT_COUNT_RUNNING,
	STMT_LAST_EXEC,
	STMT_DELETE_EXEC,
	STMT_INSERT_SESSION,
	STMT_ADVANCE_SESSION,
	STMT_RENEW_SESSION,
	STMT_GET_SESSION,
	STMT_EACH_SESSION,
	STMT_SESSIONS_OF,
	STMT_SESSION_OF_EXEC,
	STMT_INSERT_EVENT,
	STMT_EACH_EVENT,
	STMT_EVENT_RANGE,
	STMT_PRUNE_EVENTS,
	STMT_DELETE_SESSION,
	STMT_PUT_CONTEXT,
	STMT_EACH_CONTEXT,
	STMT_DELETE_CONTEXT,
	STMT_MAX,
};

/*
 * Listing sandboxes needs one statement for each number of labels, with and without an
 * owner.
 */
#define LIST_SHAPES (4UL * (DB_LABELS_MAX + 1))

struct db {
	sqlite3 *sql;
	int lock; /* the lock file; held until the process ends */
	/*
	 * The log, the file and the shared memory, opened to reserve space for them; -1:
	 * not open.
	 */
	int reserve[3];
	int log; /* SQLite's log, for db_sync_fd(); -1: not opened yet */
	/* Callers sync DB_POWER_SAFE transactions themselves (db_sync_later()). */
	bool sync_later;
	char *path;
	sqlite3_stmt *stmt[STMT_MAX];
	/* Statements that are prepared on first use. */
	sqlite3_stmt *list[LIST_SHAPES];
	uint64_t seq;          /* the greatest seq so far */
	unsigned depth;        /* nesting of transactions */
	enum db_safety safety; /* safety of the outermost transaction */
	/*
	 * An inner transaction was rolled back, so the outermost one will be rolled back
	 * too.
	 */
	bool doomed;
	int wal_pages; /* pages in the log after the last commit */
	struct denials denials;
	struct db_hold *holds;
	/* Fetched once, because a lookup by name costs more than the hash. */
	EVP_MD *sha256;
	EVP_MD_CTX *digest;
	struct db_shown *shown; /* cache of TOKENS_SHOWN tokens, indexed by hash */
	bool touching;          /* the statement only updates a token's last_used */
	void (*token_changed)(void *ctx, uint64_t seq); /* NULL: no listener */
	void *token_ctx;
};

extern const char *const statement_texts[STMT_MAX];
/* The columns of a sandbox, in the order in which sandbox.c reads them. */
extern const char sandbox_columns[];

/*
 * token.c: a cache of recently used tokens, so that most lookups need no query. Only this
 * process writes the file, and SQLite's update hook reports every changed row, so the
 * cache is never out of date.
 */
int tokens_open(struct db *db, struct warren_error *err);
void tokens_close(struct db *db);
/* Empty the cache. */
void tokens_forget(struct db *db);

/* migrate.c: bring the file to the newest schema, in one transaction for each step. */
int db_migrate(sqlite3 *sql, struct warren_error *err);

/* Get the errno for an error of SQLite. */
int sql_errno(sqlite3 *sql, int rc);
/* Fill @err from an error of SQLite; returns -errno. */
int sql_error(sqlite3 *sql, int rc, struct warren_error *err, const char *what);

struct query {
	struct db *db;
	sqlite3_stmt *stmt;
	int at; /* index of the last bound parameter */
	int rc; /* the first failure to bind */
};

struct query query_start(struct db *db, enum db_stmt which);
void query_done(struct query *q);
#define AUTO_QUERY CLEANUP(query_done)

/*
 * Bind the next parameter. Strings and blobs must live until query_done(); a NULL pointer
 * binds SQL's NULL.
 */
void query_text(struct query *q, const char *text);
void query_blob(struct query *q, const void *data, size_t size);
void query_int(struct query *q, int64_t n);
void query_u64(struct query *q, uint64_t n);

/*
 * exec.c: bind or read the result of an exec, which takes up ten parameters or columns.
 * NULL or false: the exec still runs.
 */
void query_result(struct query *q, const struct warren_result *result);
bool column_result(const struct query *q, int i, struct warren_result *ret);

/* Bind a LIMIT of @n rows; 0: all. */
void query_limit(struct query *q, size_t n);

/* Get the next row. 1: there is a row; 0: no more rows; or -errno. */
int query_step(struct query *q, struct warren_error *err);
/* Run a statement to its end; returns the number of changed rows, or -errno. */
int query_run(struct query *q, struct warren_error *err);
/* Get the first column of the first row as a number; 0 if there is no row. */
int query_number(struct query *q, uint64_t *ret, struct warren_error *err);
/*
 * For each row: @read fills @row, and @fn is called with it. Stops when @fn returns a
 * value other than 0.
 */
#define QUERY_EACH(q, read, row, fn, ctx, err)             \
	__extension__({                                    \
		int each_;                                 \
		while ((each_ = query_step(q, err)) > 0) { \
			read(q, row);                      \
			each_ = fn(ctx, row);              \
			if (each_ != 0)                    \
				break;                     \
		}                                          \
		each_;                                     \
	})

/*
 * Column @i of the current row, which the statement owns; SQL's NULL becomes NULL or 0.
 */
const char *column_text(const struct query *q, int i);
int64_t column_int(const struct query *q, int i);
uint64_t column_u64(const struct query *q, int i);
void column_id(const struct query *q, int i, char ret[ID_LEN + 1]);

/* Compare the charges of all tenants with their sandboxes and execs. */
int tenants_check(struct db *db, struct warren_error *err);

/*
 * Copy the @n strings that @at points to into one block, and replace each pointer by its
 * copy. The caller frees the block. A NULL string stays NULL.
 */
int strings_own(const char **const *at, size_t n, void **ret_block,
		struct warren_error *err);

/*
 * Get the statement that lists sandboxes with an owner or not, with this order and number
 * of labels. It is prepared on first use, from constant texts.
 */
int query_list(struct db *db, const struct sandbox_filter *filter, struct query *ret,
	       struct warren_error *err);

/*
 * request.c: look for an earlier request with the same key. 1: the same request was made
 * before; 0: it is new, or has no key; -EEXIST: another request used its key.
 */
int request_recognise(struct db *db, const char *owner, const struct db_request *request,
		      struct warren_error *err);
int request_remember(struct db *db, const char *owner, const struct db_request *request,
		     int64_t now, struct warren_error *err);
/*
 * Forget the key of the request that created @sandbox, unless it also created another
 * sandbox.
 */
int request_release(struct db *db, const char *owner, const char *sandbox,
		    struct warren_error *err);

/* sandbox.c: the columns that are needed to charge for a sandbox or its execs. */
struct charged {
	uint64_t seq;
	enum sandbox_state state;
	char owner[DB_NAME_MAX + 1];
	int64_t limits[3]; /* memory, cpu_millis, disk */
};
int sandbox_charged(struct db *db, const char *id, struct charged *ret,
		    struct warren_error *err);
/*
 * Add the cost of @n sandboxes in @state to @charge; @limits are the sums of their
 * limits.
 */
/* -ENOTSUP: a newer version has written it; -EUCLEAN: it is no state of any version. */
int sandbox_state_check(int64_t state, struct warren_error *err);
void sandbox_charge(enum sandbox_state state, int64_t n, const int64_t limits[3],
		    int64_t charge[DB_QUOTA_MAX]);

/* volume.c: record that @sandbox uses the volume @id. -EBUSY: it was deleted. */
int volume_use(struct db *db, const char *id, const char *sandbox,
	       struct warren_error *err);

/* snapshot.c: record that @sandbox was created from the snapshot @id. -EBUSY: deleted. */
int snapshot_use(struct db *db, const char *id, const char *sandbox,
		 struct warren_error *err);

/*
 * tenant.c: within a transaction, change the charges of @tenant. -EDQUOT: a charge grows
 * beyond its limit.
 */
int tenant_charge(struct db *db, const char *tenant, const int64_t delta[DB_QUOTA_MAX],
		  struct warren_error *err);
/*
 * Check that @tenant could be charged for @n more of @quota, without charging it: 0 or
 * -EDQUOT.
 */
int tenant_allows(struct db *db, const char *tenant, enum db_quota quota, int64_t n,
		  struct warren_error *err);

/*
 * reserve.c: call this before the database is opened. On a full disk, it frees reserved
 * space.
 */
void db_make_room(struct db *db);

#endif /* DB_DB_INTERNAL_H */
