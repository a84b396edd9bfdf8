/* SPDX-License-Identifier: Apache-2.0 */
/*
 * db.h - the service's state in one SQLite file: tenants, tokens, sandboxes, execs,
 * sessions
 *
 * One process owns the file and has one `struct db`; a lock next to the file, held for
 * the life of the process, keeps a second one out. Calls are synchronous, from one
 * thread, and take microseconds; there is no SQL outside of this folder, and no value
 * ever becomes part of a statement's text.
 *
 * Data of a successful call survives the death of all processes at any time. This costs
 * no fsync. Data that must also survive a power cut costs one: tenants, tokens,
 * db_set_meta(), and everything in a transaction that began as DB_POWER_SAFE. The fsync
 * also covers everything written before.
 *
 * Every call is a separate transaction. To combine some:
 *
 *	AUTO_DB_TX struct db_tx tx = { 0 };
 *
 *	r = db_begin(db, DB_CRASH_SAFE, &tx, err);
 *	if (r == 0)
 *		r = db_insert_sandboxes(db, ...);
 *	if (r == 0)
 *		r = db_insert_exec(db, ...);
 *	return r < 0 ? r : db_commit(&tx, err);
 *
 * Without a commit before @tx goes out of scope, the transaction is rolled back.
 * Transactions nest by joining: the outermost commit is the commit, and if an inner one
 * was rolled back, so is the whole (the commit then returns -ECANCELED).
 *
 * Rows: strings of a row that is passed in belong to the caller; those of a row that a
 * `get` filled belong to the row until its `done`; those that a callback gets are valid
 * until it returns. A callback must not use the database; a return value other than 0
 * ends the iteration and is returned.
 *
 * Times are milliseconds since 1970, durations milliseconds, sizes bytes; 0 means "none".
 * Numbers are below 2^63, or the call fails (-ERANGE).
 *
 * Errors that every call may return: -ENOSPC, -EIO, -EROFS, -ENOMEM: the call wrote
 * nothing, and the next call may succeed; -EUCLEAN: the file is damaged.
 */
#ifndef DB_DB_H
#define DB_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "base/macro.h"

#define DB_LABELS_MAX 64      /* of a sandbox, and of a filter */
#define DB_NAME_MAX   63      /* bytes of a tenant's name */
#define DB_PAGE_MAX   1000    /* rows of a page */
#define DB_SECRET_LEN 68      /* "wrn_" and 256 bits in hexadecimal */
#define DB_HASH_SIZE  32      /* SHA-256 */
#define DB_LOCAL      "local" /* the tenant that always exists: this machine's owner */
#define DB_UNLIMITED  ((uint64_t)INT64_MAX)
#define DB_LAZY_MS    60000 /* how far behind a token's last_used may be */

struct db;

/*
 * Creates @path if it is missing (mode 0600), and migrates it to this program's schema.
 * -EBUSY: another process uses it, and the error names it. -ENOTSUP: a newer program has
 * written it. -EMEDIUMTYPE: it belongs to another program.
 */
int db_open(const char *path, struct db **ret_db, struct warren_error *err) MUST_CHECK;
/* NULL is fine; returns NULL. */
struct db *db_close(struct db *db);

/*
 * SQLite's integrity and foreign key checks, and a check that each tenant is charged with
 * the sum of what it has. Reads the whole file. -EUCLEAN names the first error.
 */
int db_check(struct db *db, struct warren_error *err) MUST_CHECK;

/*
 * Reserve disk space for results and deletions (reserve.c), so that they can be written
 * when the disk is full; 0 if all of it is reserved. Call it from time to time, because
 * some of it may have been used.
 */
int db_reserve(struct db *db);

/*
 * Commits append to a log, which is sometimes copied into the file itself; this needs
 * fsyncs, so the calls do not do it. When db_wants_checkpoint(), call db_checkpoint() on
 * another thread: it has its own connection and blocks no call. If it is not called, a
 * call does it in the end, so that the log does not grow without bound.
 */
bool db_wants_checkpoint(const struct db *db);
int db_checkpoint(const char *path, struct warren_error *err) MUST_CHECK;

/* ------------------------------------------------------------ transactions */

enum db_safety {
	DB_CRASH_SAFE, /* against kill -9 of everything */
	DB_POWER_SAFE, /* against a power cut too: costs an fsync */
};

struct db_tx {
	struct db *db; /* NULL: not begun, or over */
};

/*
 * Waiting for a busy disk blocks the caller. After db_sync_later() no function here
 * waits: after a DB_POWER_SAFE transaction, the caller must call fdatasync(2) on
 * db_sync_fd(), on another thread, before it acknowledges the change. The descriptor
 * belongs to the caller.
 */
void db_sync_later(struct db *db);
int db_sync_fd(struct db *db, struct warren_error *err) MUST_CHECK;

/* Within a DB_CRASH_SAFE transaction, nothing that is DB_POWER_SAFE: -EINVAL. */
int db_begin(struct db *db, enum db_safety safety, struct db_tx *tx,
	     struct warren_error *err) MUST_CHECK;
int db_commit(struct db_tx *tx, struct warren_error *err) MUST_CHECK;
void db_rollback(struct db_tx *tx);

#define AUTO_DB_TX CLEANUP(db_rollback)

/* ----------------------------------------------------------------- tenants */

/* The quotas of a tenant. */
enum db_quota {
	DB_QUOTA_SANDBOXES,
	DB_QUOTA_EXECS, /* that run */
	DB_QUOTA_MEMORY,
	DB_QUOTA_CPU_MILLIS,
	DB_QUOTA_DISK,
	DB_QUOTA_MAX,
};

struct tenant_row {
	char name[DB_NAME_MAX + 1];
	int64_t created_at;
	uint64_t limit[DB_QUOTA_MAX]; /* DB_UNLIMITED: none */
	uint64_t used[DB_QUOTA_MAX];  /* by what it has; never written by a caller */
};

/* The quota of the last -EDQUOT. */
struct db_denial {
	enum db_quota quota;
	uint64_t limit, used, asked;
};

const char *db_quota_name(enum db_quota quota); /* "sandboxes", "memory", ... */
/*
 * Create the tenant or change its limits. Limits below its current usage are not an
 * error.
 */
int db_put_tenant(struct db *db, const char *name, const uint64_t limit[DB_QUOTA_MAX],
		  struct warren_error *err) MUST_CHECK;
int db_get_tenant(struct db *db, const char *name, struct tenant_row *ret,
		  struct warren_error *err) MUST_CHECK;
/* -EBUSY: it has sandboxes. Its tokens are deleted with it. */
int db_delete_tenant(struct db *db, const char *name,
		     struct warren_error *err) MUST_CHECK;
const struct db_denial *db_denied(const struct db *db);

/* ------------------------------------------------------------------ tokens */

struct token_row {
	uint64_t seq; /* grows with each: the cursor of pages */
	char id[ID_LEN + 1];
	const char *tenant, *name;
	const char *scopes;  /* words, as the API defines them; not checked here */
	const char *sandbox; /* the only sandbox of the token, which is deleted with it;
				NULL: all of the tenant's */
	int64_t created_at, expires_at, last_used, revoked_at;
	void *block;
};

/*
 * Creates a token from @row's tenant, name, scopes, sandbox and expires_at. Only this
 * call returns the secret: the file has only its hash. -ENOENT: no such tenant or
 * sandbox.
 */
int db_make_token(struct db *db, const struct token_row *row, char ret_id[ID_LEN + 1],
		  char ret_secret[DB_SECRET_LEN + 1],
		  struct warren_error *err) MUST_CHECK;
/*
 * The token of @secret at @now: -ENOENT: there is none; -EKEYEXPIRED; -EKEYREVOKED. Its
 * run time reveals nothing about existing secrets.
 */
int db_find_token(struct db *db, const char *secret, int64_t now, struct token_row *ret,
		  struct warren_error *err) MUST_CHECK;
/* Records the use of a token, at most once per DB_LAZY_MS. */
int db_touch_token(struct db *db, const struct token_row *row, int64_t now,
		   struct warren_error *err) MUST_CHECK;
/* From the oldest after the seq @after on, at most @max (0: all); @tenant NULL: all. */
int db_each_token(struct db *db, const char *tenant, uint64_t after, size_t max,
		  int (*fn)(void *ctx, const struct token_row *row), void *ctx,
		  struct warren_error *err) MUST_CHECK;
/* @tenant NULL: any tenant. Revoking twice is not an error. */
/*
 * Calls @fn for each token (token_row.seq) that any statement changes or deletes, except
 * db_touch_token(). It is called during the statement and must not use @db. There can be
 * only one @fn.
 */
void db_on_token(struct db *db, void (*fn)(void *ctx, uint64_t seq), void *ctx);
/*
 * Whether the token @id is still valid: -EKEYREVOKED, or -ENOENT: it was deleted. Does
 * not check its expiry.
 */
int db_check_token(struct db *db, const char *id, struct warren_error *err) MUST_CHECK;
int db_revoke_token(struct db *db, const char *tenant, const char *id, int64_t now,
		    struct warren_error *err) MUST_CHECK;
/*
 * Delete tokens that were revoked or expired before @before, at most @max of each; return
 * how many.
 */
int db_prune_tokens(struct db *db, int64_t before, size_t max,
		    struct warren_error *err) MUST_CHECK;
int db_count_tokens(struct db *db, int64_t now, uint64_t *ret,
		    struct warren_error *err) MUST_CHECK;
void token_row_done(struct token_row *row);

#define AUTO_TOKEN_ROW CLEANUP(token_row_done)

/* --------------------------------------------------------------- sandboxes */

/*
 * The states of a sandbox. sandbox_may_become() is the table of allowed transitions; what
 * a state is charged for is in brackets. A row is deleted, not marked.
 */
enum sandbox_state {
	SANDBOX_CREATING, /* acknowledged, being made [everything] */
	SANDBOX_RUNNING,  /* [everything] */
	SANDBOX_PAUSED,   /* frozen, in memory [everything] */
	SANDBOX_STOPPED,  /* its files are kept, nothing runs but its init [itself, disk]
			   */
	SANDBOX_FAILED,   /* could not be created, or failed; `error` says why [itself] */
	SANDBOX_DELETING, /* being destroyed, which ends with its row [everything] */
	SANDBOX_STATE_MAX,
};

/* What the end of its main command means for a sandbox. */
enum sandbox_on_exit {
	SANDBOX_EXIT_STOPS,
	SANDBOX_EXIT_DELETES,
	SANDBOX_EXIT_KEEPS, /* nothing */
	SANDBOX_ON_EXIT_MAX,
};

struct db_label {
	const char *key, *value;
};

struct sandbox_row {
	uint64_t seq; /* grows with each insert: the cursor of pages */
	char id[ID_LEN + 1];
	enum sandbox_state state;
	const char *owner;          /* a tenant */
	const char *backend, *tier; /* never NULL; the others here may be */
	const char *image, *network, *name, *template;
	const char *spec;     /* JSON: the request, as it was accepted */
	const char *enforced; /* JSON: what is enforced; NULL while it is being created */
	const char *error;    /* of SANDBOX_FAILED */
	const struct db_label *labels;
	size_t n_labels;
	uint64_t memory, cpu_millis, disk; /* what its owner is charged */
	int64_t created_at, changed_at;    /* changed_at: of its state */
	int64_t expires_at;
	uint64_t idle_timeout_ms;
	int64_t last_used;
	const char *command; /* JSON: its main command, of an exec; NULL: it has none */
	enum sandbox_on_exit on_exit;
	char main_exec[ID_LEN + 1]; /* that the command is, or last was; "": none yet */
	void *block;
};

/* A request that a client may repeat if it did not get the answer. */
struct db_request {
	const char *key; /* NULL: repetitions are not recognised */
	uint8_t hash[DB_HASH_SIZE];
};

const char *sandbox_state_name(enum sandbox_state state);
/* The state of that name, or -EINVAL. */
int sandbox_state_parse(const char *name);
bool sandbox_may_become(enum sandbox_state from, enum sandbox_state to);

/*
 * Insert all @n or none, charged to their owner, which must be the same. Ignores seq and
 * changed_at of a row.
 *	0		they are there
 *	1		this owner's key was used before, with the same hash: nothing was
 *			inserted; db_each_of_request() has what was then
 *	-EEXIST		it was used for another request
 *	-ENOTUNIQ	the owner has a sandbox of that name
 *	-EDQUOT		over a limit; db_denied() says which
 *	-ENOENT		no such owner
 */
int db_insert_sandboxes(struct db *db, const struct sandbox_row *rows, size_t n,
			const struct db_request *request,
			struct warren_error *err) MUST_CHECK;
/*
 * @owner NULL: any owner. A row of another owner is -ENOENT, like one that does not
 * exist.
 */
int db_get_sandbox(struct db *db, const char *owner, const char *id,
		   struct sandbox_row *ret, struct warren_error *err) MUST_CHECK;
/*
 * The id of the sandbox that @word means: the one of that name, or the only one whose id
 * begins so, of @owner's. @owner NULL: a name of @first's, the only id of any tenant that
 * begins so, or the only name of another tenant, in this order: no tenant can choose a
 * name that catches a reference to another's sandbox. -ENOENT: none; -ENOTUNIQ: several.
 */
int db_find_sandbox(struct db *db, const char *owner, const char *first, const char *word,
		    char ret_id[ID_LEN + 1], struct warren_error *err) MUST_CHECK;
/* The exec that its main command is from now on; NULL: none. */
int db_set_main(struct db *db, const char *id, const char *exec,
		struct warren_error *err) MUST_CHECK;
/* Another name, NULL: none. -ENOTUNIQ: its owner has another sandbox of that name. */
int db_set_name(struct db *db, const char *id, const char *name,
		struct warren_error *err) MUST_CHECK;
/* Deletes the row with its execs and sessions, and stops charging for them. */
int db_delete_sandbox(struct db *db, const char *id, struct warren_error *err) MUST_CHECK;

/*
 * Change the state from one to another, if it is in the first: otherwise -ESTALE, and the
 * error names the current state. -EINVAL: the table does not allow it. -EDQUOT: a stopped
 * one wants more than is left. @error: kept where @to is FAILED.
 */
int db_move_sandbox(struct db *db, const char *id, enum sandbox_state from,
		    enum sandbox_state to, const char *error, int64_t now,
		    struct warren_error *err) MUST_CHECK;
/*
 * The creation succeeded: RUNNING, with what is enforced. -ESTALE: it was not CREATING.
 */
int db_start_sandbox(struct db *db, const char *id, const char *enforced, int64_t now,
		     struct warren_error *err) MUST_CHECK;
int db_set_labels(struct db *db, const char *id, const struct db_label *labels, size_t n,
		  struct warren_error *err) MUST_CHECK;
int db_set_times(struct db *db, const char *id, int64_t expires_at,
		 uint64_t idle_timeout_ms, struct warren_error *err) MUST_CHECK;
/* Change limits and charge their difference (-EDQUOT), with the new spec and report. */
int db_set_limits(struct db *db, const char *id, const struct sandbox_row *row,
		  struct warren_error *err) MUST_CHECK;
int db_touch_sandbox(struct db *db, const char *id, int64_t last_used,
		     struct warren_error *err) MUST_CHECK;

/* Which sandboxes to list. Zero lists all. */
struct sandbox_filter {
	const char *owner; /* NULL: anybody's */
	uint32_t states;   /* a bit per state, 1U << SANDBOX_RUNNING; 0: any */
	const struct db_label *labels; /* all of them */
	size_t n_labels;
	uint64_t before; /* the seq of the last row of the page before; 0: from the newest
			  */
	size_t max;      /* at most DB_PAGE_MAX; 0: that */
};

/*
 * A page, the newest first. New rows are newer than all remaining pages: over all pages,
 * each row that stays appears once.
 */
int db_list_sandboxes(struct db *db, const struct sandbox_filter *filter,
		      int (*fn)(void *ctx, const struct sandbox_row *row), void *ctx,
		      struct warren_error *err) MUST_CHECK;
/* All, from the oldest: for the start of the service. */
int db_each_sandbox(struct db *db, int (*fn)(void *ctx, const struct sandbox_row *row),
		    void *ctx, struct warren_error *err) MUST_CHECK;
/*
 * Delete keys of requests from before the time @before, the oldest first, at most @max;
 * return how many. A key lasts as long as a sandbox that it created.
 */
int db_prune_requests(struct db *db, int64_t before, size_t max,
		      struct warren_error *err) MUST_CHECK;
/* The next tenant after @owner ("": the first) that has keys: 1 and its name, or 0. */
int db_next_requester(struct db *db, char owner[DB_NAME_MAX + 1],
		      struct warren_error *err) MUST_CHECK;
/* Delete its oldest keys, at most @max, if it has more than @keep; return how many. */
int db_limit_requests(struct db *db, const char *owner, uint64_t keep, size_t max,
		      struct warren_error *err) MUST_CHECK;
/* The sandboxes of an earlier request with this key that still exist. */
int db_each_of_request(struct db *db, const char *owner, const char *key,
		       int (*fn)(void *ctx, const struct sandbox_row *row), void *ctx,
		       struct warren_error *err) MUST_CHECK;
/* How many there are of each state. */
int db_count_sandboxes(struct db *db, uint64_t ret[SANDBOX_STATE_MAX],
		       struct warren_error *err) MUST_CHECK;
void sandbox_row_done(struct sandbox_row *row);

#define AUTO_SANDBOX_ROW CLEANUP(sandbox_row_done)

/* ------------------------------------------------------------------- execs */

struct exec_row {
	char id[ID_LEN + 1];
	char sandbox[ID_LEN + 1];
	uint32_t number;  /* its number for the sandbox's init; unique in the sandbox */
	const char *argv; /* JSON; never NULL */
	const char *cwd, *user;
	bool pty;
	bool session; /* it is the shell of one */
	int64_t started_at;
	uint64_t timeout_ms;
	const char *journal; /* file name */
	bool lost;  /* its sandbox failed before it ended: its result is not known */
	bool ended; /* then these are filled: */
	int64_t ended_at;
	struct warren_result result;
	void *block;
};

/*
 * Charged to the sandbox's owner while it runs. -ENOENT, -EDQUOT, -EEXIST (id or number).
 */
int db_insert_exec(struct db *db, const struct exec_row *row,
		   struct warren_error *err) MUST_CHECK;
/* -EALREADY: it has already ended, and that result stays. */
int db_finish_exec(struct db *db, const char *id, int64_t ended_at,
		   const struct warren_result *result,
		   struct warren_error *err) MUST_CHECK;
/* @sandbox NULL: any sandbox. */
int db_get_exec(struct db *db, const char *sandbox, const char *id, struct exec_row *ret,
		struct warren_error *err) MUST_CHECK;
/* Those of a sandbox with a number greater than @after, at most @max (0: all). */
int db_each_exec(struct db *db, const char *sandbox, uint32_t after, size_t max,
		 int (*fn)(void *ctx, const struct exec_row *row), void *ctx,
		 struct warren_error *err) MUST_CHECK;
/* Those of a sandbox that were the shells of sessions which are closed. */
int db_each_closed_shell(struct db *db, const char *sandbox,
			 int (*fn)(void *ctx, const struct exec_row *row), void *ctx,
			 struct warren_error *err) MUST_CHECK;
/* The running execs of all sandboxes: for the start of the service. */
int db_each_running(struct db *db, int (*fn)(void *ctx, const struct exec_row *row),
		    void *ctx, struct warren_error *err) MUST_CHECK;
/*
 * Its sandbox is gone: marks all its running execs as lost, and calls @fn for each. If
 * @fn returns a value other than 0, this is rolled back.
 */
int db_lose_execs(struct db *db, const char *sandbox,
		  int (*fn)(void *ctx, const struct exec_row *row), void *ctx,
		  struct warren_error *err) MUST_CHECK;
int db_delete_exec(struct db *db, const char *id, struct warren_error *err) MUST_CHECK;
/* The greatest number in use; 0: none. */
int db_last_exec(struct db *db, const char *sandbox, uint32_t *ret,
		 struct warren_error *err) MUST_CHECK;
void exec_row_done(struct exec_row *row);

#define AUTO_EXEC_ROW CLEANUP(exec_row_done)

/* ---------------------------------------------------------------- sessions */

struct session_row {
	char id[ID_LEN + 1];
	char sandbox[ID_LEN + 1];
	char exec[ID_LEN + 1]; /* its shell; the session is deleted with it */
	const char *shell;
	const char *name; /* its name for the user; NULL: only its id */
	int64_t created_at, last_used;
	uint64_t serial; /* of the last command that was sent to it */
	void *block;
};

int db_insert_session(struct db *db, const struct session_row *row,
		      struct warren_error *err) MUST_CHECK;
/*
 * A command is about to be sent: @serial must be greater than the last one, otherwise
 * -ESTALE.
 */
int db_advance_session(struct db *db, const char *id, uint64_t serial, int64_t now,
		       struct warren_error *err) MUST_CHECK;
/* @sandbox NULL: any sandbox. */
int db_get_session(struct db *db, const char *sandbox, const char *id,
		   struct session_row *ret, struct warren_error *err) MUST_CHECK;
/* @sandbox NULL: of all. From the oldest on. */
int db_each_session(struct db *db, const char *sandbox,
		    int (*fn)(void *ctx, const struct session_row *row), void *ctx,
		    struct warren_error *err) MUST_CHECK;
/* Is the exec @exec the shell of a session? 1, 0 or -errno. */
int db_has_session(struct db *db, const char *exec, struct warren_error *err) MUST_CHECK;
int db_delete_session(struct db *db, const char *id, struct warren_error *err) MUST_CHECK;
void session_row_done(struct session_row *row);

#define AUTO_SESSION_ROW CLEANUP(session_row_done)

/* ------------------------------------------------------------------ events */

struct event_row {
	uint64_t id;   /* one more than the id of the previous event */
	int64_t at;    /* for who reads it */
	int64_t clock; /* for db_prune_events() */
	const char *type;
	const char *owner, *sandbox, *object, *image, *reason; /* NULL: none */
	int state;                                             /* as the caller has it */
	const struct warren_result *result;                    /* NULL: none */
};

int db_insert_event(struct db *db, const struct event_row *row,
		    struct warren_error *err) MUST_CHECK;
/* Those after the id @after, at most @max. */
int db_each_event(struct db *db, uint64_t after, size_t max,
		  int (*fn)(void *ctx, const struct event_row *row), void *ctx,
		  struct warren_error *err) MUST_CHECK;
/*
 * All events after *@ret_before are kept, up to *@ret_last; if both are equal, there is
 * none.
 */
int db_event_range(struct db *db, uint64_t *ret_before, uint64_t *ret_last,
		   struct warren_error *err) MUST_CHECK;
/*
 * Among the oldest @max, delete the events up to the id @through or from before the time
 * @clock, and all older ones; never the newest; return how many.
 */
int db_prune_events(struct db *db, uint64_t through, int64_t clock, uint64_t max,
		    struct warren_error *err) MUST_CHECK;

/* -------------------------------------------------------------------- meta */

/*
 * Single values, such as the last boot id or a signing key. The caller frees them;
 * -ENOENT.
 */
int db_get_meta(struct db *db, const char *key, char **ret,
		struct warren_error *err) MUST_CHECK;
int db_set_meta(struct db *db, const char *key, const char *value,
		struct warren_error *err) MUST_CHECK;

#endif /* DB_DB_H */
