/* SPDX-License-Identifier: Apache-2.0 */
/*
 * db.h - the service's state in one SQLite file: tenants, tokens, secrets, sandboxes,
 * execs, sessions
 *
 * One process owns the file and has one `struct db`; a lock next to the file, held for
 * the life of the process, excludes other processes. Calls are synchronous, from one
 * thread, and take microseconds; no other folder has SQL, and statements bind all values
 * as parameters.
 *
 * What a successful call has written survives even if all processes are killed, without
 * an fsync. Data that must also survive a power cut needs an fsync: tenants, tokens,
 * secrets, db_set_meta(), and everything in a transaction that began as DB_POWER_SAFE.
 * The fsync also covers everything written before.
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
 * If @tx goes out of scope without a commit, the transaction is rolled back. A nested
 * transaction joins the outer one: the outermost commit writes everything. If an inner
 * transaction was rolled back, the outermost commit rolls back the whole and returns
 * -ECANCELED.
 *
 * Rows: strings of a row that is passed in belong to the caller. Strings of a row that a
 * `get` filled belong to the row until its `done`. Strings that a callback gets are valid
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

#include "base/denial.h"
#include "base/error.h"
#include "base/id.h"
#include "base/macro.h"

#define DB_LABELS_MAX 64      /* maximum number for a sandbox or a filter */
#define DB_NAME_MAX   63      /* maximum bytes of a tenant's name */
#define DB_PAGE_MAX   1000    /* maximum number of rows per page */
#define DB_SECRET_LEN 68      /* "wrn_" and 256 bits in hexadecimal, or shorter */
#define DB_HASH_SIZE  32      /* SHA-256 */
#define DB_LOCAL      "local" /* the tenant that always exists: this machine's owner */
#define DB_UNLIMITED  ((uint64_t)INT64_MAX)
#define DB_LAZY_MS    60000 /* maximum age of last_used of a token */

struct db;

/*
 * Creates @path if it is missing (mode 0600), and migrates it to this program's schema.
 * -EBUSY: another process uses the file; the error names the process. -ENOTSUP: a newer
 * version of this program has written the file. -EMEDIUMTYPE: the file belongs to another
 * program.
 */
int db_open(const char *path, struct db **ret_db, struct warren_error *err) MUST_CHECK;
/* Accepts NULL; returns NULL. */
struct db *db_close(struct db *db);

/*
 * Run SQLite's integrity and foreign key checks, and check that each tenant is charged
 * for exactly what it uses. Reads the whole file. -EUCLEAN names the first error.
 */
int db_check(struct db *db, struct warren_error *err) MUST_CHECK;

/*
 * Reserve disk space for results and deletions (reserve.c), so that they can be written
 * when the disk is full. 0: everything is reserved. Call this from time to time, because
 * writes use reserved space.
 */
int db_reserve(struct db *db);

/*
 * Commits append to a log, which must be copied into the file from time to time. This
 * needs fsyncs, so calls avoid it. When db_wants_checkpoint() returns true, call
 * db_checkpoint() on another thread: it has its own connection and blocks no call. If
 * db_checkpoint() is not called, another call copies the log when it has become too long.
 */
bool db_wants_checkpoint(const struct db *db);
int db_checkpoint(const char *path, struct warren_error *err) MUST_CHECK;

/* ------------------------------------------------------------ transactions */

enum db_safety {
	DB_CRASH_SAFE, /* survives kill -9 of all processes */
	DB_POWER_SAFE, /* also survives a power cut; costs an fsync */
};

struct db_tx {
	struct db *db; /* NULL: not begun, or already ended */
};

/*
 * Without db_sync_later(), a DB_POWER_SAFE transaction blocks the caller while the disk
 * writes. After db_sync_later(), no function waits for the disk. Instead, after a
 * DB_POWER_SAFE transaction the caller must call fdatasync(2) on db_sync_fd(), on another
 * thread, before it acknowledges the change. The descriptor belongs to the caller.
 */
void db_sync_later(struct db *db);
int db_sync_fd(struct db *db, struct warren_error *err) MUST_CHECK;

/* -EINVAL: a DB_POWER_SAFE transaction cannot be nested in a DB_CRASH_SAFE one. */
int db_begin(struct db *db, enum db_safety safety, struct db_tx *tx,
	     struct warren_error *err) MUST_CHECK;
int db_commit(struct db_tx *tx, struct warren_error *err) MUST_CHECK;
void db_rollback(struct db_tx *tx);

#define AUTO_DB_TX CLEANUP(db_rollback)

/* ----------------------------------------------------------------- tenants */

/* The quotas of a tenant. */
enum db_quota {
	DB_QUOTA_SANDBOXES,
	DB_QUOTA_EXECS, /* running execs */
	DB_QUOTA_MEMORY,
	DB_QUOTA_CPU_MILLIS,
	DB_QUOTA_DISK,
	DB_QUOTA_MAX,
};

struct tenant_row {
	char name[DB_NAME_MAX + 1];
	int64_t created_at;
	/* Maximum usage; DB_UNLIMITED: no limit. */
	uint64_t limit[DB_QUOTA_MAX];
	/* Current usage; callers never write it. */
	uint64_t used[DB_QUOTA_MAX];
};

const char *db_quota_name(enum db_quota quota); /* "sandboxes", "memory", ... */
/*
 * Create the tenant or change its limits. Limits below its current usage are not an
 * error.
 */
int db_put_tenant(struct db *db, const char *name, const uint64_t limit[DB_QUOTA_MAX],
		  struct warren_error *err) MUST_CHECK;
/* Change the limits of all tenants. */
int db_set_quotas(struct db *db, const uint64_t limit[DB_QUOTA_MAX],
		  struct warren_error *err) MUST_CHECK;
/*
 * Charge @tenant with resources that no row describes, such as those of a build, until
 * db_release() or the end of this process. -EDQUOT: a quota would be exceeded.
 */
struct db_hold;
int db_hold(struct db *db, const char *tenant, const uint64_t uses[DB_QUOTA_MAX],
	    struct db_hold **ret, struct warren_error *err) MUST_CHECK;
/* Accepts NULL, returns NULL. */
struct db_hold *db_release(struct db *db, struct db_hold *hold);
int db_get_tenant(struct db *db, const char *name, struct tenant_row *ret,
		  struct warren_error *err) MUST_CHECK;
/* Delete a tenant, its tokens and its secrets. -EBUSY: the tenant has sandboxes. */
int db_delete_tenant(struct db *db, const char *name,
		     struct warren_error *err) MUST_CHECK;
/* The quota that an error -EDQUOT is about; NULL: none of a tenant. */
const struct denial *db_denied(const struct db *db, const struct warren_error *err);

/* ------------------------------------------------------------------ tokens */

struct token_row {
	uint64_t seq; /* increases with each token; used as the cursor of pages */
	char id[ID_LEN + 1];
	const char *tenant, *name;
	const char *scopes; /* words that the API defines; not checked here */
	/*
	 * The only sandbox that the token may use; the token is deleted with it. NULL:
	 * all sandboxes of the tenant.
	 */
	const char *sandbox;
	bool e2b; /* for db_make_token(): the secret has the form of a key of E2B */
	int64_t created_at, expires_at, last_used, revoked_at;
	void *block;
};

/*
 * Creates a token from @row's tenant, name, scopes, sandbox and expires_at. Only this
 * call returns the secret; the file has only its hash. -ENOENT: no such tenant or
 * sandbox.
 */
int db_make_token(struct db *db, const struct token_row *row, char ret_id[ID_LEN + 1],
		  char ret_secret[DB_SECRET_LEN + 1],
		  struct warren_error *err) MUST_CHECK;
/*
 * Find the token with the secret @secret. -ENOENT: there is none; -EKEYEXPIRED: it is
 * expired at @now; -EKEYREVOKED: it is revoked. The time that the call takes reveals
 * nothing about existing secrets.
 */
int db_find_token(struct db *db, const char *secret, int64_t now, struct token_row *ret,
		  struct warren_error *err) MUST_CHECK;
/* The same, for the token @id. */
int db_get_token(struct db *db, const char *id, int64_t now, struct token_row *ret,
		 struct warren_error *err) MUST_CHECK;
/* Records the use of a token, at most once per DB_LAZY_MS. */
int db_touch_token(struct db *db, const struct token_row *row, int64_t now,
		   struct warren_error *err) MUST_CHECK;
/*
 * Tokens after the seq @after, the oldest first, at most @max (0: all); @tenant NULL: any
 * tenant.
 */
int db_each_token(struct db *db, const char *tenant, uint64_t after, size_t max,
		  int (*fn)(void *ctx, const struct token_row *row), void *ctx,
		  struct warren_error *err) MUST_CHECK;
/*
 * Call @fn with the seq of each token that any statement changes or deletes, except
 * db_touch_token(). It is called during the statement and must not use @db. A second call
 * replaces @fn.
 */
void db_on_token(struct db *db, void (*fn)(void *ctx, uint64_t seq), void *ctx);
/*
 * Check the token @id, but not its expiry. -EKEYREVOKED: it was revoked; -ENOENT: it was
 * deleted.
 */
int db_check_token(struct db *db, const char *id, struct warren_error *err) MUST_CHECK;
/* @tenant NULL: any tenant. Revoking twice is not an error. */
int db_revoke_token(struct db *db, const char *tenant, const char *id, int64_t now,
		    struct warren_error *err) MUST_CHECK;
/*
 * Delete tokens that were revoked or expired before @before, at most @max of each kind;
 * return how many were deleted.
 */
int db_prune_tokens(struct db *db, int64_t before, size_t max,
		    struct warren_error *err) MUST_CHECK;
int db_count_tokens(struct db *db, int64_t now, uint64_t *ret,
		    struct warren_error *err) MUST_CHECK;
void token_row_done(struct token_row *row);

#define AUTO_TOKEN_ROW CLEANUP(token_row_done)

/* ----------------------------------------------------------------- secrets */

#define DB_SECRETS_MAX 1000 /* maximum number per tenant */

/* A secret; its value is encrypted, and this folder does not look into it. */
struct secret_row {
	const char *tenant, *name;
	int64_t created_at, updated_at;
	const void *sealed; /* NULL in lists */
	size_t sealed_n;
	void *block;
};

/*
 * Create the secret, or replace its value: tenant, name, sealed, updated_at. 1: it is
 * new; 0: it was replaced; -ENOENT: no such tenant; -EUSERS: the tenant has
 * DB_SECRETS_MAX secrets.
 */
int db_put_secret(struct db *db, const struct secret_row *row,
		  struct warren_error *err) MUST_CHECK;
int db_get_secret(struct db *db, const char *tenant, const char *name,
		  struct secret_row *ret, struct warren_error *err) MUST_CHECK;
/* The secrets of a tenant after the name @after (""), by name; at most @max. */
int db_each_secret(struct db *db, const char *tenant, const char *after, size_t max,
		   int (*fn)(void *ctx, const struct secret_row *row), void *ctx,
		   struct warren_error *err) MUST_CHECK;
int db_delete_secret(struct db *db, const char *tenant, const char *name,
		     struct warren_error *err) MUST_CHECK;
/* @tenant NULL: of all tenants. */
int db_count_secrets(struct db *db, const char *tenant, uint64_t *ret,
		     struct warren_error *err) MUST_CHECK;
void secret_row_done(struct secret_row *row);

#define AUTO_SECRET_ROW CLEANUP(secret_row_done)

/* ----------------------------------------------------------------- volumes */

struct volume_row {
	char id[ID_LEN + 1];
	const char *tenant, *name;
	const char *labels; /* a JSON object */
	uint64_t size;      /* bytes */
	uint64_t users;     /* number of sandboxes that use it; not for inserts */
	int64_t created_at;
	void *block;
};

/*
 * A volume has a row before it has a file, and until its file is deleted. Until
 * db_finish_volume(), and after db_delete_volume(), only its name is in use; then
 * db_each_unfinished_volume() returns it, and db_forget_volume() removes the row.
 */
/*
 * Record a volume that is about to be created. -ENOENT: no such tenant; -ENOTUNIQ: the
 * tenant has a volume with that name.
 */
int db_insert_volume(struct db *db, const struct volume_row *row,
		     struct warren_error *err) MUST_CHECK;
/* The volume exists. */
int db_finish_volume(struct db *db, const char *id, struct warren_error *err) MUST_CHECK;
/* Begin to delete it. -EBUSY: sandboxes or tags of a template use it. */
int db_delete_volume(struct db *db, const char *id, struct warren_error *err) MUST_CHECK;
int db_forget_volume(struct db *db, const char *id, struct warren_error *err) MUST_CHECK;
/* The ids greater than @after of volumes of any tenant, at most @max. */
int db_each_unfinished_volume(struct db *db, const char *after, size_t max,
			      int (*fn)(void *ctx, const char *id), void *ctx,
			      struct warren_error *err) MUST_CHECK;
int db_get_volume(struct db *db, const char *tenant, const char *name,
		  struct volume_row *ret, struct warren_error *err) MUST_CHECK;
int db_get_volume_by_id(struct db *db, const char *tenant, const char *id,
			struct volume_row *ret, struct warren_error *err) MUST_CHECK;
/* The volumes of a tenant after the name @after (""), by name; at most @max (0: all). */
int db_each_volume(struct db *db, const char *tenant, const char *after, size_t max,
		   int (*fn)(void *ctx, const struct volume_row *row), void *ctx,
		   struct warren_error *err) MUST_CHECK;
/* The number of volumes of @tenant (NULL: of all) and the sum of their sizes. */
int db_sum_volumes(struct db *db, const char *tenant, uint64_t *ret_n,
		   uint64_t *ret_bytes, struct warren_error *err) MUST_CHECK;
/* The ids of sandboxes that use the volume @id, at most @max (0: all). */
int db_each_volume_user(struct db *db, const char *id, size_t max,
			int (*fn)(void *ctx, const char *sandbox), void *ctx,
			struct warren_error *err) MUST_CHECK;
void volume_row_done(struct volume_row *row);

#define AUTO_VOLUME_ROW CLEANUP(volume_row_done)

/* --------------------------------------------------------------- snapshots */

struct snapshot_row {
	char id[ID_LEN + 1];
	const char *tenant;
	const char *source; /* the id of the sandbox that it was made from */
	const char *image;  /* "sha256:..."; not for inserts */
	const char *names;  /* separated by commas; not for inserts */
	const char *labels; /* a JSON object */
	uint64_t size;      /* bytes, with the layers of its parent; not for inserts */
	uint64_t users;     /* number of sandboxes created from it; not for inserts */
	bool transient;     /* it is dead when no sandbox uses it and it has no name */
	int64_t created_at;
	void *block;
};

/*
 * Like a volume, a snapshot has a row before it has an image, and until its image is
 * deleted. db_finish_snapshot() makes it visible, with @name (NULL: none).
 */
int db_insert_snapshot(struct db *db, const struct snapshot_row *row,
		       struct warren_error *err) MUST_CHECK;
int db_finish_snapshot(struct db *db, const struct snapshot_row *row, const char *name,
		       struct warren_error *err) MUST_CHECK;
/*
 * Give the snapshot @id a name, in addition to those it has. If another snapshot has the
 * name, that one loses it; a snapshot without a name becomes transient.
 */
int db_name_snapshot(struct db *db, const char *tenant, const char *id, const char *name,
		     struct warren_error *err) MUST_CHECK;
/* Remove a name, or all (NULL); without any name, the snapshot becomes transient. */
int db_unname_snapshot(struct db *db, const char *tenant, const char *id,
		       const char *name, struct warren_error *err) MUST_CHECK;
/* Begin to delete it. -EBUSY: sandboxes or tags of a template use it. */
int db_delete_snapshot(struct db *db, const char *id,
		       struct warren_error *err) MUST_CHECK;
int db_forget_snapshot(struct db *db, const char *id,
		       struct warren_error *err) MUST_CHECK;
/* The ids of snapshots that were not finished, are to be deleted, or are unused and
 * transient; at most @max. */
int db_each_dead_snapshot(struct db *db, size_t max, int (*fn)(void *ctx, const char *id),
			  void *ctx, struct warren_error *err) MUST_CHECK;
/* Find a snapshot of @tenant by name or id; @tenant NULL: of any tenant, by its id. */
int db_get_snapshot(struct db *db, const char *tenant, const char *word,
		    struct snapshot_row *ret, struct warren_error *err) MUST_CHECK;
/* The snapshots of a tenant after the id @after (""), at most @max (0: all). */
int db_each_snapshot(struct db *db, const char *tenant, const char *after, size_t max,
		     int (*fn)(void *ctx, const struct snapshot_row *row), void *ctx,
		     struct warren_error *err) MUST_CHECK;
/* The number of snapshots of @tenant (NULL: of all) and the sum of their sizes. */
int db_sum_snapshots(struct db *db, const char *tenant, uint64_t *ret_n,
		     uint64_t *ret_bytes, struct warren_error *err) MUST_CHECK;
/* 1: @image is the whole id of a snapshot's image, of any tenant; 0: it is not. */
int db_is_snapshot_image(struct db *db, const char *image,
			 struct warren_error *err) MUST_CHECK;
/* 1: the sandbox was created from a snapshot; 0: it was not. */
int db_has_snapshot(struct db *db, const char *sandbox,
		    struct warren_error *err) MUST_CHECK;
void snapshot_row_done(struct snapshot_row *row);

#define AUTO_SNAPSHOT_ROW CLEANUP(snapshot_row_done)

/* --------------------------------------------------------------- sandboxes */

/*
 * The states of a sandbox. sandbox_may_become() is the table of allowed transitions.
 * Brackets show what a sandbox in the state is charged for.
 */
enum sandbox_state {
	SANDBOX_CREATING, /* acknowledged, being created [everything] */
	SANDBOX_RUNNING,  /* [everything] */
	SANDBOX_PAUSED,   /* frozen or checkpointed [everything] */
	SANDBOX_STOPPED,  /* files are kept, only its init runs [everything] */
	SANDBOX_FAILED,   /* could not be created, or failed; `error` says why [itself] */
	SANDBOX_DELETING, /* being destroyed; then the row is deleted [everything] */
	SANDBOX_HIBERNATED, /* only its files exist, on disk [itself, disk] */
	/* Its files were in memory, and ended with the machine; `error` [itself] */
	SANDBOX_LOST,
	/*
	 * `stopped`, like SANDBOX_STOPPED, but without an init: its files were on disk
	 * when all its processes ended, mostly with the machine [itself, disk]
	 */
	SANDBOX_ON_DISK,
	/*
	 * `stopped`, like SANDBOX_STOPPED, but only on the way to another state: it is
	 * about to hibernate or to be reset. If the service is killed, the next process
	 * starts it again [everything]
	 */
	SANDBOX_HIBERNATING,
	SANDBOX_STATE_MAX,
};

/* What happens to a sandbox when its main command ends. */
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
	uint64_t seq; /* increases with each insert; used as the cursor of pages */
	char id[ID_LEN + 1];
	enum sandbox_state state;
	const char *owner;          /* a tenant */
	const char *backend, *tier; /* never NULL; the next four may be NULL */
	const char *image, *network, *name, *template;
	const char *spec; /* JSON: the accepted request */
	/* For db_insert_sandboxes(): its network policy; db_get_policy() returns it. */
	const char *policy;
	/* For db_insert_sandboxes(): ids of its volumes, NULL-terminated; NULL: none. */
	const char *const *volumes;
	/* For db_insert_sandboxes(): id of the snapshot that is its image; NULL: none. */
	const char *snapshot;
	/* JSON: the enforced limits and isolation; NULL during creation. */
	const char *enforced;
	const char *error; /* reason for SANDBOX_FAILED and SANDBOX_LOST */
	const struct db_label *labels;
	size_t n_labels;
	uint64_t memory, cpu_millis, disk; /* charged to its owner */
	int64_t created_at, changed_at;    /* changed_at: last change of state */
	int64_t expires_at;
	uint64_t idle_timeout_ms;
	int64_t last_used;
	const char *command; /* JSON: its main command; NULL: none */
	enum sandbox_on_exit on_exit;
	/* The last exec of the main command; "": none yet. */
	char main_exec[ID_LEN + 1];
	void *block;
};

/* A request that a client may repeat if it did not get the response. */
struct db_request {
	const char *key; /* NULL: repetitions are not recognised */
	uint8_t hash[DB_HASH_SIZE];
};

const char *sandbox_state_name(enum sandbox_state state);
/* Get the states with this name, as bits (1U << SANDBOX_RUNNING); 0: there is none. */
uint32_t sandbox_state_bits(const char *name);
bool sandbox_may_become(enum sandbox_state from, enum sandbox_state to);

/* Do only its files exist, on disk? The next use wakes such a sandbox. */
static inline bool sandbox_state_sleeps(enum sandbox_state state)
{
	return state == SANDBOX_HIBERNATED || state == SANDBOX_ON_DISK;
}

/* Does only its init run? */
static inline bool sandbox_state_is_stopped(enum sandbox_state state)
{
	return state == SANDBOX_STOPPED || state == SANDBOX_HIBERNATING;
}

/* Is it over? Nothing of such a sandbox exists but its row, which says why. */
static inline bool sandbox_state_is_over(enum sandbox_state state)
{
	return state == SANDBOX_FAILED || state == SANDBOX_LOST;
}

/*
 * Insert all @n rows or none, and charge their common owner. Ignores seq and changed_at
 * of a row.
 *	0		the rows are inserted
 *	1		this owner used the key before, with the same hash: nothing was
 *			inserted; db_each_of_request() has the sandboxes of that request
 *	-EEXIST		this owner used the key for another request
 *	-ENOTUNIQ	the owner has a sandbox with that name
 *	-EDQUOT		over a limit; db_denied() says which
 *	-ENOENT		no such owner
 *	-EBUSY		a volume or the snapshot was deleted
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
 * Find the id of the sandbox that @word refers to: among the sandboxes of @owner, the one
 * with that name, or the only one whose id begins with @word. If there is none and @any
 * is set: the sandbox of any tenant with that whole id. Tenants choose names, and many
 * ids begin with the same letters, so neither finds another tenant's sandbox. -ENOENT:
 * none; -ENOTUNIQ: several.
 */
int db_find_sandbox(struct db *db, const char *owner, bool any, const char *word,
		    char ret_id[ID_LEN + 1], struct warren_error *err) MUST_CHECK;
/* Set the exec of the main command; NULL: none. */
int db_set_main(struct db *db, const char *id, const char *exec,
		struct warren_error *err) MUST_CHECK;
/*
 * Set or remove (NULL) the name. -ENOTUNIQ: its owner has another sandbox with that name.
 */
int db_set_name(struct db *db, const char *id, const char *name,
		struct warren_error *err) MUST_CHECK;
/* Delete the row with its execs and sessions; its owner is no longer charged for them. */
int db_delete_sandbox(struct db *db, const char *id, struct warren_error *err) MUST_CHECK;

/*
 * Change the state from @from to @to. -ESTALE: the sandbox is not in @from; the error
 * names its state. -EINVAL: the transition is not allowed. -EDQUOT: starting a stopped
 * sandbox exceeds a limit. @error is kept if @to is FAILED or LOST.
 */
int db_move_sandbox(struct db *db, const char *id, enum sandbox_state from,
		    enum sandbox_state to, const char *error, int64_t now,
		    struct warren_error *err) MUST_CHECK;
/*
 * The creation succeeded: change the state to RUNNING and store @enforced. -ESTALE: the
 * state was not CREATING.
 */
int db_start_sandbox(struct db *db, const char *id, const char *enforced, int64_t now,
		     struct warren_error *err) MUST_CHECK;
int db_set_labels(struct db *db, const char *id, const struct db_label *labels, size_t n,
		  struct warren_error *err) MUST_CHECK;
int db_set_times(struct db *db, const char *id, int64_t expires_at,
		 uint64_t idle_timeout_ms, struct warren_error *err) MUST_CHECK;
/* Change limits, spec and enforced, and charge the difference of the limits (-EDQUOT). */
int db_set_limits(struct db *db, const char *id, const struct sandbox_row *row,
		  struct warren_error *err) MUST_CHECK;
/* The network policy of a sandbox, as JSON; NULL: none. */
int db_set_policy(struct db *db, const char *id, const char *policy,
		  struct warren_error *err) MUST_CHECK;
/* The caller frees it. -ENOENT: the sandbox has none. */
int db_get_policy(struct db *db, const char *id, char **ret,
		  struct warren_error *err) MUST_CHECK;
/* What a sandbox with a policy used: connections, denials, bytes in, bytes out. */
#define DB_NETWORK_MAX 4
int db_set_network(struct db *db, const char *id, const uint64_t used[DB_NETWORK_MAX],
		   struct warren_error *err) MUST_CHECK;
/* -ENOENT: it never had a policy. */
int db_get_network(struct db *db, const char *id, uint64_t ret[DB_NETWORK_MAX],
		   struct warren_error *err) MUST_CHECK;
int db_touch_sandbox(struct db *db, const char *id, int64_t last_used,
		     struct warren_error *err) MUST_CHECK;

/* Which sandboxes to list. A zeroed filter lists all. */
struct sandbox_filter {
	const char *owner; /* NULL: any owner */
	uint32_t states;   /* a bit per state, 1U << SANDBOX_RUNNING; 0: any */
	const struct db_label *labels; /* the sandbox must have all of them */
	size_t n_labels;
	/* The seq of the last row of the previous page; 0: this is the first one. */
	uint64_t last;
	bool oldest_first;
	size_t max; /* at most DB_PAGE_MAX; 0: DB_PAGE_MAX */
};

/*
 * List one page, usually the newest sandbox first. Sandboxes that are created between two
 * pages are newer than all remaining pages, so a listing shows each sandbox that still
 * exists exactly once.
 */
int db_list_sandboxes(struct db *db, const struct sandbox_filter *filter,
		      int (*fn)(void *ctx, const struct sandbox_row *row), void *ctx,
		      struct warren_error *err) MUST_CHECK;
/* All sandboxes, the oldest first; used when the service starts. */
int db_each_sandbox(struct db *db, int (*fn)(void *ctx, const struct sandbox_row *row),
		    void *ctx, struct warren_error *err) MUST_CHECK;
/*
 * Delete keys of requests that are older than @before, the oldest first, at most @max;
 * return how many. A key is kept while a sandbox that it created exists.
 */
int db_prune_requests(struct db *db, int64_t before, size_t max,
		      struct warren_error *err) MUST_CHECK;
/*
 * The next tenant after @owner ("": the first) that has keys. 1: @owner is set; 0: none.
 */
int db_next_requester(struct db *db, char owner[DB_NAME_MAX + 1],
		      struct warren_error *err) MUST_CHECK;
/*
 * If @owner has more than @keep keys, delete its oldest ones, at most @max; return how
 * many.
 */
int db_limit_requests(struct db *db, const char *owner, uint64_t keep, size_t max,
		      struct warren_error *err) MUST_CHECK;
/* List the sandboxes of the earlier request with this key that still exist. */
int db_each_of_request(struct db *db, const char *owner, const char *key,
		       int (*fn)(void *ctx, const struct sandbox_row *row), void *ctx,
		       struct warren_error *err) MUST_CHECK;
/* Count the sandboxes in each state. */
int db_count_sandboxes(struct db *db, uint64_t ret[SANDBOX_STATE_MAX],
		       struct warren_error *err) MUST_CHECK;
void sandbox_row_done(struct sandbox_row *row);

#define AUTO_SANDBOX_ROW CLEANUP(sandbox_row_done)

/* ------------------------------------------------------------------- execs */

/* What ended an exec, if not itself. */
enum exec_ended_by {
	EXEC_BY_ITSELF,
	EXEC_BY_HIBERNATION,
	/* All processes of its sandbox, whose files were on disk, ended with the machine.
	 */
	EXEC_BY_REBOOT,
	EXEC_ENDED_BY_MAX,
};

struct exec_row {
	char id[ID_LEN + 1];
	char sandbox[ID_LEN + 1];
	uint32_t number;  /* number for the sandbox's init; unique in the sandbox */
	const char *argv; /* JSON; never NULL */
	const char *cwd, *user;
	bool pty;
	bool session; /* the exec is the shell of a session */
	int64_t started_at;
	uint64_t timeout_ms;
	const char *journal; /* file name */
	bool lost; /* the sandbox failed before the exec ended; the result is unknown */
	enum exec_ended_by ended_by;
	/*
	 * If it ends before this time, a hibernation has ended it, whatever happened to
	 * the service in between; 0: none is about to.
	 */
	int64_t ends_until;
	bool ended; /* the fields below are set */
	int64_t ended_at;
	struct warren_result result;
	void *block;
};

/*
 * Insert an exec, and charge the sandbox's owner while it runs. -ENOENT: there is no such
 * sandbox; -EDQUOT: over a limit; -EEXIST: the id or the number is in use.
 */
int db_insert_exec(struct db *db, const struct exec_row *row,
		   struct warren_error *err) MUST_CHECK;
/* Record the end of an exec. -EALREADY: it has already ended; its result is unchanged. */
int db_finish_exec(struct db *db, const char *id, int64_t ended_at,
		   const struct warren_result *result,
		   struct warren_error *err) MUST_CHECK;
/* Record what ended an exec, which has a result. */
int db_set_ended_by(struct db *db, const char *id, enum exec_ended_by by,
		    struct warren_error *err) MUST_CHECK;
/* Record that a hibernation is about to end an exec: see exec_row.ends_until. */
int db_set_ends_until(struct db *db, const char *id, int64_t at,
		      struct warren_error *err) MUST_CHECK;
/* @sandbox NULL: any sandbox. */
int db_get_exec(struct db *db, const char *sandbox, const char *id, struct exec_row *ret,
		struct warren_error *err) MUST_CHECK;
/*
 * List the execs of a sandbox with a number greater than @after, at most @max (0: all).
 */
int db_each_exec(struct db *db, const char *sandbox, uint32_t after, size_t max,
		 int (*fn)(void *ctx, const struct exec_row *row), void *ctx,
		 struct warren_error *err) MUST_CHECK;
/* List the execs of a sandbox that were the shells of closed sessions. */
int db_each_closed_shell(struct db *db, const char *sandbox,
			 int (*fn)(void *ctx, const struct exec_row *row), void *ctx,
			 struct warren_error *err) MUST_CHECK;
/* The running execs of all sandboxes; used when the service starts. */
int db_each_running(struct db *db, int (*fn)(void *ctx, const struct exec_row *row),
		    void *ctx, struct warren_error *err) MUST_CHECK;
/*
 * For a sandbox that has ended: mark all its running execs as lost, and call @fn for
 * each. If @fn returns a value other than 0, the marks are rolled back.
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
	char exec[ID_LEN + 1]; /* the session's shell; the session is deleted with it */
	const char *shell;
	const char *name; /* a name that the user chose; NULL: none */
	int64_t created_at, last_used;
	uint64_t serial; /* number of the last command that was sent */
	bool undoable;   /* each of its commands can be undone */
	void *block;
};

int db_insert_session(struct db *db, const struct session_row *row,
		      struct warren_error *err) MUST_CHECK;
/*
 * Record that a command is about to be sent. -ESTALE: @serial is not greater than the
 * last one.
 */
int db_advance_session(struct db *db, const char *id, uint64_t serial, int64_t now,
		       struct warren_error *err) MUST_CHECK;
/* Record another exec and shell of the session; its commands are counted from 0. */
int db_renew_session(struct db *db, const struct session_row *row,
		     struct warren_error *err) MUST_CHECK;
/* @sandbox NULL: any sandbox. */
int db_get_session(struct db *db, const char *sandbox, const char *id,
		   struct session_row *ret, struct warren_error *err) MUST_CHECK;
/* @sandbox NULL: any sandbox. The oldest first. */
int db_each_session(struct db *db, const char *sandbox,
		    int (*fn)(void *ctx, const struct session_row *row), void *ctx,
		    struct warren_error *err) MUST_CHECK;
/* Return whether @exec is the shell of a session: 1, 0 or -errno. */
int db_has_session(struct db *db, const char *exec, struct warren_error *err) MUST_CHECK;
int db_delete_session(struct db *db, const char *id, struct warren_error *err) MUST_CHECK;
void session_row_done(struct session_row *row);

#define AUTO_SESSION_ROW CLEANUP(session_row_done)

/* ------------------------------------------------------------------ events */

struct event_row {
	uint64_t id;   /* one more than the id of the previous event */
	int64_t at;    /* the time that clients see */
	int64_t clock; /* for db_prune_events() */
	const char *type;
	const char *owner, *sandbox, *object, *image, *reason; /* NULL: none */
	/* A number that the caller chooses. */
	int state;
	const struct warren_result *result; /* NULL: none */
};

int db_insert_event(struct db *db, const struct event_row *row,
		    struct warren_error *err) MUST_CHECK;
/* Events after the id @after, at most @max. */
int db_each_event(struct db *db, uint64_t after, size_t max,
		  int (*fn)(void *ctx, const struct event_row *row), void *ctx,
		  struct warren_error *err) MUST_CHECK;
/*
 * The kept events are those after *@ret_before, up to *@ret_last; if both are equal,
 * there are none.
 */
int db_event_range(struct db *db, uint64_t *ret_before, uint64_t *ret_last,
		   struct warren_error *err) MUST_CHECK;
/*
 * Look at the @max oldest events. Delete those up to the id @through or from before the
 * time @clock, and all events that are older than them, but never the newest event.
 * Return how many were deleted.
 */
int db_prune_events(struct db *db, uint64_t through, int64_t clock, uint64_t max,
		    struct warren_error *err) MUST_CHECK;

/* -------------------------------------------------------------------- meta */

/*
 * Read and write single values, such as the last boot id or a signing key. The caller
 * frees the value. -ENOENT: it is not set.
 */
int db_get_meta(struct db *db, const char *key, char **ret,
		struct warren_error *err) MUST_CHECK;
int db_set_meta(struct db *db, const char *key, const char *value,
		struct warren_error *err) MUST_CHECK;

#endif /* DB_DB_H */
