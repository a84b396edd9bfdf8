/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox.c - rows of sandboxes: write them, their states, and the charges to their owner
 *
 * Each change of a state or a limit charges the owner in the same transaction, according
 * to the table of states. Labels are stored twice: in the row for reading, and in a
 * separate table for searching.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "db/db_internal.h"

#define CAN(state) (1U << SANDBOX_##state)
/* What a sandbox becomes when all its processes have ended. */
#define CAN_END     (CAN(FAILED) | CAN(LOST) | CAN(ON_DISK))
#define LABELS_SIZE (64U << 10)

static const struct {
	const char *name;
	uint32_t next;   /* the possible next states */
	bool live, disk; /* charged for memory and processors (live), and for disk */
} states[] = {
	[SANDBOX_CREATING] = { "creating",
			       CAN(RUNNING) | CAN(STOPPED) | CAN(FAILED) | CAN(DELETING),
			       .live = true, .disk = true },
	[SANDBOX_RUNNING] = { "running",
			      /* HIBERNATED: it was started again too early. */
			      CAN(PAUSED) | CAN(STOPPED) | CAN(HIBERNATING) |
				      CAN(HIBERNATED) | CAN_END | CAN(DELETING),
			      .live = true, .disk = true },
	[SANDBOX_PAUSED] = { "paused",
			     CAN(RUNNING) | CAN(STOPPED) | CAN(HIBERNATED) | CAN_END |
				     CAN(DELETING),
			     .live = true, .disk = true },
	[SANDBOX_STOPPED] = { "stopped",
			      CAN(CREATING) | CAN(RUNNING) | CAN(HIBERNATED) | CAN_END |
				      CAN(DELETING),
			      /* A stopped sandbox: its files may be in memory, and
			       * starting it must not fail. */
			      .live = true, .disk = true },
	[SANDBOX_FAILED] = { "failed", CAN(DELETING) },
	[SANDBOX_DELETING] = { "deleting", 0, .live = true, .disk = true },
	[SANDBOX_HIBERNATED] = { "hibernated",
				 CAN(RUNNING) | CAN(FAILED) | CAN(LOST) | CAN(DELETING),
				 .disk = true },
	[SANDBOX_LOST] = { "lost", CAN(DELETING) },
	[SANDBOX_ON_DISK] = { "stopped",
			      CAN(RUNNING) | CAN(HIBERNATED) | CAN(FAILED) | CAN(LOST) |
				      CAN(DELETING),
			      .disk = true },
	[SANDBOX_HIBERNATING] = { "stopped",
				  CAN(RUNNING) | CAN(STOPPED) | CAN(HIBERNATED) |
					  CAN_END | CAN(DELETING),
				  .live = true, .disk = true },
};
_Static_assert(ARRAY_SIZE(states) == SANDBOX_STATE_MAX, "a state has no row");

const char *sandbox_state_name(enum sandbox_state state)
{
	return states[state].name;
}

uint32_t sandbox_state_bits(const char *name)
{
	uint32_t bits = 0;

	for (size_t i = 0; i < ARRAY_SIZE(states); i++)
		if (strcmp(states[i].name, name) == 0)
			bits |= 1U << i;
	return bits;
}

bool sandbox_may_become(enum sandbox_state from, enum sandbox_state to)
{
	return states[from].next & (1U << to);
}

int sandbox_state_check(int64_t state, struct warren_error *err)
{
	if (state >= SANDBOX_STATE_MAX)
		return error_set(err, ENOTSUP,
				 "a newer version of Warren has written the database: a "
				 "sandbox has the state %jd, which this version does not "
				 "know; start the newer version",
				 (intmax_t)state);
	if (state < 0)
		return error_set(err, EUCLEAN,
				 "the database is damaged: the state of a sandbox is not "
				 "valid");
	return 0;
}

/* ---------------------------------------------------------------- charging */

void sandbox_charge(enum sandbox_state state, int64_t n, const int64_t limits[3],
		    int64_t charge[DB_QUOTA_MAX])
{
	charge[DB_QUOTA_SANDBOXES] += n;
	if (states[state].live) {
		charge[DB_QUOTA_MEMORY] += limits[0];
		charge[DB_QUOTA_CPU_MILLIS] += limits[1];
	}
	if (states[state].disk)
		charge[DB_QUOTA_DISK] += limits[2];
}

int sandbox_charged(struct db *db, const char *id, struct charged *ret,
		    struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_CHARGED_SANDBOX);
	int64_t state;
	int r;

	query_text(&q, id);
	r = query_step(&q, err);
	if (r < 0)
		return r;
	if (r == 0)
		return error_set(err, ENOENT, "no sandbox '%s'", id);
	state = column_int(&q, 2);
	r = sandbox_state_check(state, err);
	if (r < 0)
		return r;
	*ret = (struct charged){ .seq = column_u64(&q, 0),
				 .state = (enum sandbox_state)state };
	(void)strncpy(ret->owner, column_text(&q, 1), DB_NAME_MAX);
	for (int i = 0; i < 3; i++)
		ret->limits[i] = column_int(&q, 3 + i);
	return 0;
}

/* Change the charge; nothing is written if it is the same. */
static int sandbox_recharge(struct db *db, const char *owner,
			    const int64_t before[DB_QUOTA_MAX],
			    const int64_t after[DB_QUOTA_MAX], struct warren_error *err)
{
	int64_t delta[DB_QUOTA_MAX];
	bool same = true;

	for (size_t i = 0; i < DB_QUOTA_MAX; i++) {
		delta[i] = after[i] - before[i];
		same = same && delta[i] == 0;
	}
	return same ? 0 : tenant_charge(db, owner, delta, err);
}

/* ------------------------------------------------------------------ labels */

static int pack_labels(const struct db_label *labels, size_t n, struct buf *out,
		       struct warren_error *err)
{
	if (n > DB_LABELS_MAX)
		return error_set(err, E2BIG, "a sandbox has at most %d labels",
				 DB_LABELS_MAX);
	for (size_t i = 0; i < n; i++) {
		buf_add(out, labels[i].key, strlen(labels[i].key) + 1);
		buf_add(out, labels[i].value, strlen(labels[i].value) + 1);
	}
	if (out->failed && !out->full)
		return error_errno(err, ENOMEM, "write the labels");
	if (out->failed)
		return error_set(err, E2BIG, "the labels take more than %u bytes",
				 LABELS_SIZE);
	return 0;
}

/* Add rows to the table for searching, or remove them, according to @which. */
static int write_labels(struct db *db, enum db_stmt which, const struct sandbox_row *row,
			struct warren_error *err)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < row->n_labels; i++) {
		AUTO_QUERY struct query q = query_start(db, which);

		query_text(&q, row->owner);
		query_text(&q, row->labels[i].key);
		query_text(&q, row->labels[i].value);
		query_u64(&q, row->seq);
		r = query_run(&q, err);
	}
	return r < 0 ? error_wrap(err, "write the labels of '%s'", row->id) : 0;
}

/* --------------------------------------------------------------- insertion */

/*
 * Return the next sequence number: the time in microseconds since 1970, or one more than
 * the last number. It is greater than all existing and deleted ones, so that a cursor
 * never refers to a newer row.
 */
static uint64_t next_seq(struct db *db)
{
	struct timespec ts;
	uint64_t now;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	now = (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
	db->seq = now > db->seq ? now : db->seq + 1;
	return db->seq;
}

/* The index would also refuse a duplicate name, but without an explanation. */
static int sandbox_check_name(struct db *db, const char *owner, const char *name,
			      const char *id, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_FIND_NAME);
	char other[ID_LEN + 1];
	int r;

	if (!name)
		return 0;
	query_text(&q, name);
	query_text(&q, owner);
	r = query_step(&q, err);
	if (r <= 0)
		return r;
	column_id(&q, 0, other);
	if (strcmp(other, id) == 0)
		return 0;
	return error_set(err, ENOTUNIQ,
			 "the name '%s' is in use by sandbox '%s': remove or rename "
			 "that one, or choose another name",
			 name, other);
}

static int insert_row(struct db *db, const struct sandbox_row *from,
		      const struct db_request *request, struct warren_error *err)
{
	struct sandbox_row copy = *from;
	const struct sandbox_row *row = &copy;
	AUTO_BUF struct buf labels = BUF_INIT(LABELS_SIZE);
	AUTO_QUERY struct query q = query_start(db, STMT_INSERT_SANDBOX);
	bool keyed = request && request->key;
	int r = pack_labels(row->labels, row->n_labels, &labels, err);

	if (r == 0)
		r = sandbox_check_name(db, row->owner, row->name, row->id, err);
	if (r < 0)
		return r;
	copy.seq = next_seq(db);
	query_u64(&q, row->seq);
	query_text(&q, row->id);
	query_int(&q, row->state);
	query_text(&q, row->owner);
	query_text(&q, row->backend);
	query_text(&q, row->image);
	query_text(&q, row->network);
	query_text(&q, row->name);
	query_text(&q, row->template);
	query_text(&q, row->spec);
	query_text(&q, row->enforced);
	query_text(&q, row->error);
	query_u64(&q, row->memory);
	query_u64(&q, row->cpu_millis);
	query_u64(&q, row->disk);
	query_int(&q, row->created_at);
	query_int(&q, row->created_at);
	query_int(&q, row->expires_at);
	query_u64(&q, row->idle_timeout_ms);
	query_int(&q, row->last_used);
	query_blob(&q, labels.data, labels.len);
	query_text(&q, row->tier);
	query_text(&q, keyed ? request->key : NULL);
	query_blob(&q, keyed ? request->hash : NULL, keyed ? DB_HASH_SIZE : 0);
	query_text(&q, row->command);
	query_int(&q, row->on_exit);
	r = query_run(&q, err);
	if (r < 0)
		return error_wrap(err, "record the sandbox '%s'", row->id);
	return write_labels(db, STMT_INSERT_LABEL, row, err);
}

static int charge_rows(struct db *db, const struct sandbox_row *rows, size_t n,
		       struct warren_error *err)
{
	int64_t charge[DB_QUOTA_MAX] = { 0 }, execs = 0;
	int r;

	for (size_t i = 0; i < n; i++) {
		/* This is far below a value at which a sum could overflow, and above the
		 * size of any machine. */
		const uint64_t max = DB_UNLIMITED / 4096;
		int64_t limits[] = { (int64_t)rows[i].memory, (int64_t)rows[i].cpu_millis,
				     (int64_t)rows[i].disk };

		if (rows[i].memory > max || rows[i].cpu_millis > max ||
		    rows[i].disk > max || n > 4096)
			return error_errno(err, ERANGE, "charge for %zu sandboxes", n);
		if (strcmp(rows[i].owner, rows[0].owner) != 0)
			return error_set(err, EINVAL, "sandboxes of several owners");
		sandbox_charge(rows[i].state, 1, limits, charge);
		execs += rows[i].command ? 1 : 0;
	}
	r = tenant_charge(db, rows[0].owner, charge, err);
	/*
	 * The main command is charged when it is started, so check now that there is
	 * quota for it: without it, the sandbox would be useless.
	 */
	if (r == 0 && execs > 0)
		r = tenant_allows(db, rows[0].owner, DB_QUOTA_EXECS, execs, err);
	return r;
}

int db_insert_sandboxes(struct db *db, const struct sandbox_row *rows, size_t n,
			const struct db_request *request, struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	int r;

	if (n == 0)
		return error_set(err, EINVAL, "record zero sandboxes");
	r = db_begin(db, DB_CRASH_SAFE, &tx, err);
	if (r < 0)
		return r;
	r = request_recognise(db, rows[0].owner, request, err);
	if (r < 0)
		return r;
	if (r > 0) {
		r = db_commit(&tx, err);
		return r < 0 ? r : 1;
	}
	r = charge_rows(db, rows, n, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		r = insert_row(db, &rows[i], request, err);
		if (r == 0 && rows[i].policy)
			r = db_set_policy(db, rows[i].id, rows[i].policy, err);
		for (const char *const *v = rows[i].volumes; r == 0 && v && *v; v++)
			r = volume_use(db, *v, rows[i].id, err);
		if (r == 0 && rows[i].snapshot)
			r = snapshot_use(db, rows[i].snapshot, rows[i].id, err);
	}
	if (r == 0)
		r = request_remember(db, rows[0].owner, request, rows[0].created_at, err);
	return r < 0 ? r : db_commit(&tx, err);
}

/* ---------------------------------------------------------------- changes */

static int db_sandbox_move(struct db *db, const char *id, enum sandbox_state from,
			   const struct sandbox_row *to, struct warren_error *err)
{
	int64_t before[DB_QUOTA_MAX] = { 0 }, after[DB_QUOTA_MAX] = { 0 };
	AUTO_DB_TX struct db_tx tx = { 0 };
	AUTO_QUERY struct query q = { 0 };
	struct charged now = { 0 };
	int r;

	if (!sandbox_may_become(from, to->state))
		return error_set(err, EINVAL, "a sandbox cannot change from %s to %s",
				 states[from].name, states[to->state].name);
	r = db_begin(db, DB_CRASH_SAFE, &tx, err);
	if (r == 0)
		r = sandbox_charged(db, id, &now, err);
	if (r < 0)
		return r;
	if (now.state != from)
		return error_set(err, ESTALE, "the sandbox '%s' is %s, not %s", id,
				 states[now.state].name, states[from].name);
	sandbox_charge(from, 1, now.limits, before);
	sandbox_charge(to->state, 1, now.limits, after);
	r = sandbox_recharge(db, now.owner, before, after, err);
	if (r < 0)
		return r;
	q = query_start(db, STMT_MOVE_SANDBOX);
	query_int(&q, to->state);
	query_int(&q, to->changed_at);
	query_text(&q, sandbox_state_is_over(to->state) ? to->error : NULL);
	query_text(&q, to->enforced);
	query_text(&q, id);
	r = query_run(&q, err);
	return r < 0 ? r : db_commit(&tx, err);
}

int db_move_sandbox(struct db *db, const char *id, enum sandbox_state from,
		    enum sandbox_state to, const char *error, int64_t now,
		    struct warren_error *err)
{
	struct sandbox_row row = { .state = to, .error = error, .changed_at = now };

	return db_sandbox_move(db, id, from, &row, err);
}

int db_start_sandbox(struct db *db, const char *id, const char *enforced, int64_t now,
		     struct warren_error *err)
{
	struct sandbox_row row = { .state = SANDBOX_RUNNING,
				   .enforced = enforced,
				   .changed_at = now };

	return db_sandbox_move(db, id, SANDBOX_CREATING, &row, err);
}

int db_set_labels(struct db *db, const char *id, const struct db_label *labels, size_t n,
		  struct warren_error *err)
{
	AUTO_BUF struct buf packed = BUF_INIT(LABELS_SIZE);
	AUTO_SANDBOX_ROW struct sandbox_row old = { 0 };
	AUTO_DB_TX struct db_tx tx = { 0 };
	AUTO_QUERY struct query q = { 0 };
	struct sandbox_row new;
	int r = pack_labels(labels, n, &packed, err);

	if (r == 0)
		r = db_begin(db, DB_CRASH_SAFE, &tx, err);
	if (r == 0)
		r = db_get_sandbox(db, NULL, id, &old, err);
	if (r == 0)
		r = write_labels(db, STMT_DELETE_LABEL, &old, err);
	if (r < 0)
		return r;
	new = old;
	new.labels = labels;
	new.n_labels = n;
	r = write_labels(db, STMT_INSERT_LABEL, &new, err);
	if (r < 0)
		return r;
	q = query_start(db, STMT_SET_LABELS);
	query_blob(&q, packed.data, packed.len);
	query_text(&q, id);
	r = query_run(&q, err);
	return r < 0 ? r : db_commit(&tx, err);
}

int db_set_limits(struct db *db, const char *id, const struct sandbox_row *row,
		  struct warren_error *err)
{
	int64_t before[DB_QUOTA_MAX] = { 0 }, after[DB_QUOTA_MAX] = { 0 };
	const int64_t limits[] = { (int64_t)row->memory, (int64_t)row->cpu_millis,
				   (int64_t)row->disk };
	AUTO_DB_TX struct db_tx tx = { 0 };
	AUTO_QUERY struct query q = { 0 };
	struct charged now = { 0 };
	int r;

	if (row->memory > INT64_MAX || row->cpu_millis > INT64_MAX ||
	    row->disk > INT64_MAX)
		return error_errno(err, ERANGE, "change the limits of '%s'", id);
	r = db_begin(db, DB_CRASH_SAFE, &tx, err);
	if (r == 0)
		r = sandbox_charged(db, id, &now, err);
	if (r < 0)
		return r;
	sandbox_charge(now.state, 1, now.limits, before);
	sandbox_charge(now.state, 1, limits, after);
	r = sandbox_recharge(db, now.owner, before, after, err);
	if (r < 0)
		return r;
	q = query_start(db, STMT_SET_LIMITS);
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		query_int(&q, limits[i]);
	query_text(&q, row->spec);
	query_text(&q, row->enforced);
	query_text(&q, row->network);
	query_text(&q, id);
	r = query_run(&q, err);
	return r < 0 ? r : db_commit(&tx, err);
}

/* Run a statement that changes the row @id, which is the last parameter. */
static int sandbox_change_one(struct query *q, const char *id, struct warren_error *err)
{
	int r;

	query_text(q, id);
	r = query_run(q, err);
	if (r == 0)
		return error_set(err, ENOENT, "no sandbox '%s'", id);
	return r < 0 ? r : 0;
}

int db_set_name(struct db *db, const char *id, const char *name, struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	AUTO_QUERY struct query q = { 0 };
	struct charged now;
	int r = db_begin(db, DB_CRASH_SAFE, &tx, err);

	if (r == 0)
		r = sandbox_charged(db, id, &now, err);
	if (r == 0)
		r = sandbox_check_name(db, now.owner, name, id, err);
	if (r < 0)
		return r;
	q = query_start(db, STMT_SET_NAME);
	query_text(&q, name);
	r = sandbox_change_one(&q, id, err);
	return r < 0 ? r : db_commit(&tx, err);
}

int db_set_main(struct db *db, const char *id, const char *exec, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_SET_MAIN);

	query_text(&q, exec);
	return sandbox_change_one(&q, id, err);
}

int db_set_times(struct db *db, const char *id, int64_t expires_at,
		 uint64_t idle_timeout_ms, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_SET_TIMES);

	query_int(&q, expires_at);
	query_u64(&q, idle_timeout_ms);
	return sandbox_change_one(&q, id, err);
}

int db_touch_sandbox(struct db *db, const char *id, int64_t last_used,
		     struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_TOUCH_SANDBOX);

	query_int(&q, last_used);
	return sandbox_change_one(&q, id, err);
}

/* Count the running execs, which are also charged to the owner. */
static int count_running(struct db *db, const char *id, int64_t *ret,
			 struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_COUNT_RUNNING);
	uint64_t n = 0;
	int r;

	query_text(&q, id);
	r = query_number(&q, &n, err);
	*ret = (int64_t)n;
	return r;
}

int db_delete_sandbox(struct db *db, const char *id, struct warren_error *err)
{
	int64_t before[DB_QUOTA_MAX] = { 0 }, after[DB_QUOTA_MAX] = { 0 };
	AUTO_SANDBOX_ROW struct sandbox_row row = { 0 };
	AUTO_DB_TX struct db_tx tx = { 0 };
	AUTO_QUERY struct query q = { 0 };
	int r = db_begin(db, DB_CRASH_SAFE, &tx, err);

	if (r == 0)
		r = db_get_sandbox(db, NULL, id, &row, err);
	if (r == 0)
		r = count_running(db, id, &before[DB_QUOTA_EXECS], err);
	if (r < 0)
		return r;
	sandbox_charge(row.state, 1,
		       (int64_t[]){ (int64_t)row.memory, (int64_t)row.cpu_millis,
				    (int64_t)row.disk },
		       before);
	r = sandbox_recharge(db, row.owner, before, after, err);
	if (r == 0)
		r = write_labels(db, STMT_DELETE_LABEL, &row, err);
	/* The key of a sandbox that was never created may be used again. */
	if (r == 0 && !row.enforced)
		r = request_release(db, row.owner, id, err);
	if (r < 0)
		return r;
	q = query_start(db, STMT_DELETE_SANDBOX);
	r = sandbox_change_one(&q, id, err);
	return r < 0 ? r : db_commit(&tx, err);
}
