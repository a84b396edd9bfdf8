/* SPDX-License-Identifier: Apache-2.0 */
/*
 * db.h - the service's state in one SQLite file: tenants, tokens, sandboxes, execs,
 * sessions
 *
 * One process owns the file and has one `struct db`; a lock beside the file,
 * held for life, keeps a second one out. Calls are synchronous, from one
 * thread, and take microseconds; there is no SQL outside of this folder, and
 * no value ever becomes part of a statement's text.
 *
 * What a call that returned success has written survives the death of all processes at
 * any moment. That costs no fsync. What must survive a power cut as well pays for one:
 * tenants, tokens, db_set_meta(), and whatever the caller puts into a transaction that it
 * began as DB_POWER_SAFE. The fsync carries along everything written before.
 *
 * Every call is a transaction by itself. To combine some:
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
 * What is not committed when @tx goes out of scope is undone. Transactions
 * nest by joining: the outermost commit is the commit, and if an inner one was
 * undone, so is the whole (the commit then says -ECANCELED).
 *
 * Rows: strings of a row that is passed in are the caller's; those of a row
 * that a `get` filled belong to the row until its `done`; those that a
 * callback sees are gone when it returns. A callback must not call the store;
 * what it returns other than 0 ends the walk and is returned.
 *
 * Times are milliseconds since 1970, durations milliseconds, sizes bytes; 0
 * stands for "none". Numbers are below 2^63, or the call is refused (-ERANGE).
 *
 * Errors that every call may return: -ENOSPC, -EIO, -EROFS, -ENOMEM: nothing
 * of the call was written, and the next call may work again; -EUCLEAN: the
 * file is damaged.
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
#define DB_LOCAL      "local" /* the tenant that is always there: this machine's owner */
#define DB_UNLIMITED  ((uint64_t)INT64_MAX)
#define DB_LAZY_MS    60000 /* how far behind a token's last_used may be */

struct db;

/*
 * @path is made if missing (mode 0600), and brought to this program's schema.
 * -EBUSY: another process has it, and the error names it. -ENOTSUP: a newer
 * program has written it. -EMEDIUMTYPE: it is something else's.
 */
int db_open(const char *path, struct db **ret_db, struct warren_error *err) MUST_CHECK;
/* NULL is fine; returns NULL. */
struct db *db_close(struct db *db);

/*
 * SQLite's integrity and foreign key checks, and ours: that what each tenant is
 * charged with is the sum of what it has. Reads the whole file. -EUCLEAN names
 * the first thing that is wrong.
 */
int db_check(struct db *db, struct warren_error *err) MUST_CHECK;

/*
 * Keep room on the disk for results and deletions (reserve.c), so that they can be
 * written when it is full; 0 when all of it is kept. For now and then, as some of it may
 * have been used.
 */
int db_reserve(struct db *db);

/*
 * Commits append to a log, which is now and then copied into the file proper;
 * that takes fsyncs, so it is not done by the calls. When db_wants_checkpoint(),
 * call db_checkpoint() on another thread: it has its own connection, and
 * disturbs nobody. If nobody does, a call does it in the end, rather than let
 * the log grow without bound.
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
 * To wait for the disk takes as long as the disk is busy, and stops whoever waits. After
 * db_sync_later() nothing here does so: who has made something DB_POWER_SAFE calls
 * fdatasync(2) on db_sync_fd(), on another thread, before it tells of it. The descriptor
 * is the caller's.
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

/* What a tenant can be limited in. */
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

/* What the last -EDQUOT was about. */
struct db_denial {
	enum db_quota quota;
	uint64_t limit, used, asked;
};

const char *db_quota_name(enum db_quota quota); /* "sandboxes", "memory", ... */
/*
 * The tenant with these limits, made if missing. Limits below what it uses are no error.
 */
int db_put_tenant(struct db *db, const char *name, const uint64_t limit[DB_QUOTA_MAX],
		  struct warren_error *err) MUST_CHECK;
int db_get_tenant(struct db *db, const char *name, struct tenant_row *ret,
		  struct warren_error *err) MUST_CHECK;
/* -EBUSY: it has sandboxes. Its tokens go with it. */
int db_delete_tenant(struct db *db, const char *name,
		     struct warren_error *err) MUST_CHECK;
const struct db_denial *db_denied(const struct db *db);

/* ------------------------------------------------------------------ tokens */

struct token_row {
	uint64_t seq; /* grows with each: the cursor of pages */
	char id[ID_LEN + 1];
	const char *tenant, *name;
	const char *scopes; /* words, as the API defines them; not judged here */
	const char
		*sandbox; /* that it is for, and goes with; NULL: all of the tenant's */
	int64_t created_at, expires_at, last_used, revoked_at;
	void *block;
};

/*
 * Makes a token from @row's tenant, name, scopes, sandbox and expires_at. The secret is
 * told here and nowhere else: the file has its hash only. -ENOENT: no such tenant or
 * sandbox.
 */
int db_make_token(struct db *db, const struct token_row *row, char ret_id[ID_LEN + 1],
		  char ret_secret[DB_SECRET_LEN + 1],
		  struct warren_error *err) MUST_CHECK;
/*
 * Who holds @secret at @now: -ENOENT: nobody; -EKEYEXPIRED; -EKEYREVOKED. The
 * time it takes says nothing about secrets that exist.
 */
int db_find_token(struct db *db, const char *secret, int64_t now, struct token_row *ret,
		  struct warren_error *err) MUST_CHECK;
/* Notes the use of a token, no more often than every DB_LAZY_MS. */
int db_touch_token(struct db *db, const struct token_row *row, int64_t now,
		   struct warren_error *err) MUST_CHECK;
/* From the oldest after the seq @after on, at most @max (0: all); @tenant NULL: all. */
int db_each_token(struct db *db, const char *tenant, uint64_t after, size_t max,
		  int (*fn)(void *ctx, const struct token_row *row), void *ctx,
		  struct warren_error *err) MUST_CHECK;
/* @tenant NULL: whosever it is. A second time is no error. */
/*
 * @fn hears of each token (token_row.seq) that is changed or deleted, by whatever
 * statement, other than by db_touch_token(). It is called from within one: it must not
 * use @db. One at a time.
 */
void db_on_token(struct db *db, void (*fn)(void *ctx, uint64_t seq), void *ctx);
/*
 * Is the token @id as good as it was made? -EKEYREVOKED, or -ENOENT: it was deleted. Its
 * time is not looked at.
 */
int db_check_token(struct db *db, const char *id, struct warren_error *err) MUST_CHECK;
int db_revoke_token(struct db *db, const char *tenant, const char *id, int64_t now,
		    struct warren_error *err) MUST_CHECK;
/*
 * Delete those that were revoked or expired before @before, at most @max of either. How
 * many.
 */
int db_prune_tokens(struct db *db, int64_t before, size_t max,
		    struct warren_error *err) MUST_CHECK;
int db_count_tokens(struct db *db, int64_t now, uint64_t *ret,
		    struct warren_error *err) MUST_CHECK;
void token_row_done(struct token_row *row);

#define AUTO_TOKEN_ROW CLEANUP(token_row_done)

/* --------------------------------------------------------------- sandboxes */

/*
 * The life of a sandbox. sandbox_may_become() is the table of who may follow whom;
 * what a state is charged for is in brackets. A row is deleted, not marked.
 */
enum sandbox_state {
	SANDBOX_CREATING, /* acknowledged, being made [everything] */
	SANDBOX_RUNNING,  /* [everything] */
	SANDBOX_PAUSED,   /* frozen, in memory [everything] */
	SANDBOX_STOPPED,  /* its files are kept, nothing runs but its init [itself, disk]
			   */
	SANDBOX_FAILED,   /* could not be made or broke; `error` says why [itself] */
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
	const char *spec;     /* JSON: what was asked for, as it was accepted */
	const char *enforced; /* JSON: what is enforced; NULL while it is being made */
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

/* A request that may be repeated by a client that did not hear its answer. */
struct db_request {
	const char *key; /* NULL: it is not to be recognised */
	uint8_t hash[DB_HASH_SIZE];
};

const char *sandbox_state_name(enum sandbox_state state);
/* The state of that name, or -EINVAL. */
int sandbox_state_parse(const char *name);
bool sandbox_may_become(enum sandbox_state from, enum sandbox_state to);

/*
 * All @n or none, charged to their owner, which is one and the same. Of a row,
 * seq and changed_at are not looked at.
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
/* @owner NULL: whosever it is. What is another's is -ENOENT, as what is nobody's. */
int db_get_sandbox(struct db *db, const char *owner, const char *id,
		   struct sandbox_row *ret, struct warren_error *err) MUST_CHECK;
/*
 * The id of the sandbox that @word means: one of that name, or the one whose id begins
 * so. Of @owner's (NULL: anybody's; then those of @first are preferred). -ENOENT: none;
 * -ENOTUNIQ: several.
 */
int db_find_sandbox(struct db *db, const char *owner, const char *first, const char *word,
		    char ret_id[ID_LEN + 1], struct warren_error *err) MUST_CHECK;
/* The exec that its main command is from now on; NULL: none. */
int db_set_main(struct db *db, const char *id, const char *exec,
		struct warren_error *err) MUST_CHECK;
/* Another name, NULL: none. -ENOTUNIQ: its owner has another sandbox of that name. */
int db_set_name(struct db *db, const char *id, const char *name,
		struct warren_error *err) MUST_CHECK;
/* Deletes the row, with its execs and sessions, and stops charging for them. */
int db_delete_sandbox(struct db *db, const char *id, struct warren_error *err) MUST_CHECK;

/*
 * From one state to another, if it is in the first: else -ESTALE, and the error
 * names the one it is in. -EINVAL: the table does not have it. -EDQUOT: a
 * stopped one wants more than is left. @error: kept where @to is FAILED.
 */
int db_move_sandbox(struct db *db, const char *id, enum sandbox_state from,
		    enum sandbox_state to, const char *error, int64_t now,
		    struct warren_error *err) MUST_CHECK;
/*
 * The outcome of making it: RUNNING, with what is enforced. -ESTALE: it was not CREATING.
 */
int db_start_sandbox(struct db *db, const char *id, const char *enforced, int64_t now,
		     struct warren_error *err) MUST_CHECK;
int db_set_labels(struct db *db, const char *id, const struct db_label *labels, size_t n,
		  struct warren_error *err) MUST_CHECK;
int db_set_times(struct db *db, const char *id, int64_t expires_at,
		 uint64_t idle_timeout_ms, struct warren_error *err) MUST_CHECK;
/*
 * Other limits, charged by their difference (-EDQUOT), with the spec and report that have
 * them.
 */
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
 * A page, the newest first. Rows that come in the meantime are newer than every page
 * still to come: over all pages each row that stays is seen once.
 */
int db_list_sandboxes(struct db *db, const struct sandbox_filter *filter,
		      int (*fn)(void *ctx, const struct sandbox_row *row), void *ctx,
		      struct warren_error *err) MUST_CHECK;
/* All, from the oldest on: for the start of the daemon. */
int db_each_sandbox(struct db *db, int (*fn)(void *ctx, const struct sandbox_row *row),
		    void *ctx, struct warren_error *err) MUST_CHECK;
/*
 * Forget keys of requests that were made before the time @before, the oldest first, at
 * most @max. How many they were. A key lasts as long as a sandbox that it made.
 */
int db_prune_requests(struct db *db, int64_t before, size_t max,
		      struct warren_error *err) MUST_CHECK;
/* The next tenant after @owner ("": the first) that has keys: 1 and its name, or 0. */
int db_next_requester(struct db *db, char owner[DB_NAME_MAX + 1],
		      struct warren_error *err) MUST_CHECK;
/*
 * Forget its oldest keys, at most @max, where it has more than @keep. How many they were.
 */
int db_limit_requests(struct db *db, const char *owner, uint64_t keep, size_t max,
		      struct warren_error *err) MUST_CHECK;
/* What an earlier request with this key made, as far as it is still there. */
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
	uint32_t number;  /* what the sandbox's init calls it; unique in the sandbox */
	const char *argv; /* JSON; never NULL */
	const char *cwd, *user;
	bool pty;
	bool session; /* it is the shell of one */
	int64_t started_at;
	uint64_t timeout_ms;
	const char *journal; /* file name */
	bool lost;           /* its sandbox failed before it ended: how is not known */
	bool ended;          /* then these are filled: */
	int64_t ended_at;
	struct warren_result result;
	void *block;
};

/*
 * Charged to the sandbox's owner while it runs. -ENOENT, -EDQUOT, -EEXIST (id or number).
 */
int db_insert_exec(struct db *db, const struct exec_row *row,
		   struct warren_error *err) MUST_CHECK;
/* -EALREADY: it ended before, and that result stays. */
int db_finish_exec(struct db *db, const char *id, int64_t ended_at,
		   const struct warren_result *result,
		   struct warren_error *err) MUST_CHECK;
/* @sandbox NULL: whichever it is in. */
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
/* Those that have not ended, of all sandboxes: for the start of the daemon. */
int db_each_running(struct db *db, int (*fn)(void *ctx, const struct exec_row *row),
		    void *ctx, struct warren_error *err) MUST_CHECK;
/*
 * Its sandbox is gone: @fn hears of each that neither ended nor was lost before, and from
 * now on they are. What @fn returns other than 0 undoes it.
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
	char exec[ID_LEN + 1]; /* its shell; the session goes with it */
	const char *shell;
	const char *name; /* that its user knows it by; NULL: none but its id */
	int64_t created_at, last_used;
	uint64_t serial; /* of the last command that was sent to it */
	void *block;
};

int db_insert_session(struct db *db, const struct session_row *row,
		      struct warren_error *err) MUST_CHECK;
/*
 * A command is about to be sent: @serial must be greater than the last one, else -ESTALE.
 */
int db_advance_session(struct db *db, const char *id, uint64_t serial, int64_t now,
		       struct warren_error *err) MUST_CHECK;
/* @sandbox NULL: whichever it is in. */
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
	uint64_t id;   /* one more than that of the event before it */
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
 * All events after *@ret_before are kept, up to *@ret_last; where both are one, there is
 * none.
 */
int db_event_range(struct db *db, uint64_t *ret_before, uint64_t *ret_last,
		   struct warren_error *err) MUST_CHECK;
/*
 * Of the oldest @max, delete those up to the id @through or of before the time @clock,
 * and what is older than such; never the newest of all. How many they were.
 */
int db_prune_events(struct db *db, uint64_t through, int64_t clock, uint64_t max,
		    struct warren_error *err) MUST_CHECK;

/* -------------------------------------------------------------------- meta */

/* Single values: the boot that was last seen, a signing key. To be freed; -ENOENT. */
int db_get_meta(struct db *db, const char *key, char **ret,
		struct warren_error *err) MUST_CHECK;
int db_set_meta(struct db *db, const char *key, const char *value,
		struct warren_error *err) MUST_CHECK;

#endif /* DB_DB_H */
