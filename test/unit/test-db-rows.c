/* SPDX-License-Identifier: Apache-2.0 */
/* test-db-rows.c - charges of tenants; execs, sessions, tokens; transactions */
#include <errno.h>
#include <sqlite3.h>

#include "lib/state.h"

/* ------------------------------------------------------------------ quotas */

TEST(a_quota_is_exact_and_the_error_names_it)
{
	struct sandbox_row rows[3];
	struct db *db;

	state_make();
	db = state_open();
	put_tenant(db, "alice", 3, 10, 3 * (UINT64_C(512) << 20));
	for (size_t i = 0; i < 3; i++)
		rows[i] = a_sandbox("alice");
	GOOD(insert(db, &rows[0]));
	rows[1].memory = UINT64_C(1) << 30;
	rows[2].memory = 1;
	/* All or none of a batch is created. */
	EQ(db_insert_sandboxes(db, &rows[1], 2, NULL, &err), -EDQUOT);
	EQ(db_denied(db, &err)->quota, db_quota_name(DB_QUOTA_MEMORY));
	EQ(db_denied(db, &err)->used, 512U << 20);
	OK(strstr(err.msg, "memory"));
	EQ(tenant(db, "alice").used[DB_QUOTA_SANDBOXES], 1);
	rows[1].memory = UINT64_C(1) << 30;
	GOOD(insert(db, &rows[1]));
	rows[2].memory = 0;
	GOOD(insert(db, &rows[2]));
	rows[0] = a_sandbox("alice");
	rows[0].memory = 0;
	EQ(db_insert_sandboxes(db, &rows[0], 1, NULL, &err), -EDQUOT);
	EQ(db_denied(db, &err)->quota, db_quota_name(DB_QUOTA_SANDBOXES));
	GOOD(db_delete_sandbox(db, rows[2].id, &err));
	GOOD(insert(db, &rows[0]));
	rows[0] = a_sandbox("nobody");
	EQ(insert(db, &rows[0]), -ENOENT);
	GOOD(db_check(db, &err));
	db_close(db);
}

TEST(what_no_row_describes_counts_until_it_is_released)
{
	struct sandbox_row row = a_sandbox("alice");
	const uint64_t uses[DB_QUOTA_MAX] = {
		[DB_QUOTA_SANDBOXES] = 1, [DB_QUOTA_MEMORY] = UINT64_C(1) << 30
	};
	const uint64_t all[DB_QUOTA_MAX] = { [DB_QUOTA_MEMORY] = UINT64_MAX };
	struct db_hold *hold = NULL, *other = NULL, *third = NULL;
	struct db *db;

	state_make();
	db = state_open();
	put_tenant(db, "alice", 3, 10, UINT64_C(1536) << 20);
	put_tenant(db, "bob", 3, 10, UINT64_C(1) << 30);
	GOOD(db_hold(db, "alice", uses, &hold, &err));
	EQ(db_hold(db, "alice", uses, &other, &err), -EDQUOT);
	EQ(db_denied(db, &err)->used, UINT64_C(1) << 30);
	EQ(db_hold(db, "bob", all, &other, &err), -EDQUOT);
	GOOD(db_hold(db, "bob", uses, &other, &err));
	GOOD(db_hold(db, "nobody", uses, &third, &err));
	GOOD(insert(db, &row)); /* 512 MB */
	row = a_sandbox("alice");
	EQ(insert(db, &row), -EDQUOT);
	EQ(db_denied(db, &err)->used, UINT64_C(1536) << 20);
	GOOD(db_check(db, &err));
	hold = db_release(db, hold);
	GOOD(insert(db, &row));
	EQ(tenant(db, "alice").used[DB_QUOTA_SANDBOXES], 2);
	EQ(tenant(db, "bob").used[DB_QUOTA_SANDBOXES], 0);
	GOOD(db_check(db, &err));
	db_close(db); /* frees the others */
}

TEST(a_stopped_sandbox_is_charged_like_a_running_one)
{
	struct sandbox_row row = a_sandbox("alice"), more = a_sandbox("alice");
	struct tenant_row t;
	struct db *db;

	state_make();
	db = state_open();
	put_tenant(db, "alice", 3, 10, 512U << 20);
	row.state = SANDBOX_RUNNING;
	GOOD(insert(db, &row));
	EQ(insert(db, &more), -EDQUOT);
	GOOD(db_move_sandbox(db, row.id, SANDBOX_RUNNING, SANDBOX_STOPPED, NULL, NOW,
			     &err));
	t = tenant(db, "alice");
	EQ(t.used[DB_QUOTA_MEMORY], row.memory);
	EQ(t.used[DB_QUOTA_CPU_MILLIS], row.cpu_millis);
	EQ(t.used[DB_QUOTA_DISK], row.disk);
	EQ(t.used[DB_QUOTA_SANDBOXES], 1);
	EQ(insert(db, &more), -EDQUOT);
	GOOD(db_move_sandbox(db, row.id, SANDBOX_STOPPED, SANDBOX_RUNNING, NULL, NOW,
			     &err));
	GOOD(db_check(db, &err));
	GOOD(db_delete_sandbox(db, row.id, &err));
	GOOD(insert(db, &more));
	GOOD(db_check(db, &err));
	db_close(db);
}

/* The database is of a version that did not charge the memory of stopped sandboxes. */
TEST(existing_stopped_sandboxes_are_charged)
{
	struct sandbox_row row = a_sandbox("alice"), failed = a_sandbox("alice");
	struct tenant_row t;
	sqlite3 *sql = NULL;
	struct db *db;

	state_make();
	db = state_open();
	put_tenant(db, "alice", 3, 10, 2048U << 20);
	row.state = SANDBOX_STOPPED;
	failed.state = SANDBOX_FAILED;
	GOOD(insert(db, &row));
	GOOD(insert(db, &failed));
	db = db_close(db);
	EQ(sqlite3_open(state_path, &sql), SQLITE_OK);
	EQ(sqlite3_exec(
		   sql,
		   "UPDATE tenants SET memory = 0, cpu_millis = 0;"
		   "DROP TABLE template_tags; DROP TABLE template_builds; DROP TABLE templates; DROP TABLE contexts;"
		   "ALTER TABLE execs DROP COLUMN ends_until; ALTER TABLE sessions DROP COLUMN undoable; DROP TABLE snapshot_uses; DROP TABLE snapshot_names; DROP TABLE snapshots;"
		   "DROP TABLE volume_uses; DROP TABLE volumes; DROP TABLE networks; DROP TABLE secrets;"
		   "UPDATE meta SET value = '7' WHERE key = 'steps'",
		   NULL, NULL, NULL),
	   SQLITE_OK);
	(void)sqlite3_close(sql);
	db = state_open();
	t = tenant(db, "alice");
	EQ(t.used[DB_QUOTA_MEMORY], row.memory);
	EQ(t.used[DB_QUOTA_CPU_MILLIS], row.cpu_millis);
	GOOD(db_check(db, &err));
	GOOD(db_delete_sandbox(db, row.id, &err));
	GOOD(db_check(db, &err));
	db_close(db);
}

TEST(changed_limits_are_charged_by_the_difference)
{
	struct sandbox_row row = a_sandbox("alice");
	AUTO_SANDBOX_ROW struct sandbox_row got = { 0 };
	struct db *db;

	state_make();
	db = state_open();
	put_tenant(db, "alice", 3, 10, 1U << 30);
	GOOD(insert(db, &row));
	row.memory = UINT64_C(2) << 30;
	row.spec = "{}";
	EQ(db_set_limits(db, row.id, &row, &err), -EDQUOT);
	EQ(tenant(db, "alice").used[DB_QUOTA_MEMORY], 512U << 20);
	row.memory = 1U << 30;
	row.cpu_millis = 250;
	GOOD(db_set_limits(db, row.id, &row, &err));
	GOOD(db_get_sandbox(db, NULL, row.id, &got, &err));
	EQ(got.memory, 1U << 30);
	STREQ(got.spec, "{}");
	EQ(tenant(db, "alice").used[DB_QUOTA_CPU_MILLIS], 250);
	row.memory = UINT64_MAX;
	EQ(db_set_limits(db, row.id, &row, &err), -ERANGE);
	row = a_sandbox("alice");
	row.disk = UINT64_MAX;
	EQ(insert(db, &row), -ERANGE);
	GOOD(db_check(db, &err));
	db_close(db);
}

TEST(a_lowered_quota_keeps_existing_sandboxes)
{
	struct sandbox_row row = a_sandbox("alice"), more = a_sandbox("alice");
	struct db *db;

	state_make();
	db = state_open();
	put_tenant(db, "alice", 3, 10, DB_UNLIMITED);
	GOOD(insert(db, &row));
	put_tenant(db, "alice", 0, 10, 0);
	EQ(insert(db, &more), -EDQUOT);
	EQ(db_delete_tenant(db, "alice", &err), -EBUSY);
	GOOD(db_delete_sandbox(db, row.id, &err));
	GOOD(db_delete_tenant(db, "alice", &err));
	EQ(db_delete_tenant(db, "alice", &err), -ENOENT);
	db_close(db);
}

/* ------------------------------------------------------- execs and sessions */

TEST(an_exec_is_charged_while_it_runs)
{
	const struct warren_result result = { .exit_code = -1,
					      .signal = 9,
					      .oom = true,
					      .wall_usec = 7,
					      .user_usec = 0,
					      .max_memory = UINT64_MAX - 1,
					      .read_bytes = WARREN_UNKNOWN };
	struct sandbox_row sandbox = a_sandbox("alice");
	AUTO_EXEC_ROW struct exec_row got = { 0 };
	struct exec_row one, two, three;
	struct db *db;

	state_make();
	db = state_open();
	put_tenant(db, "alice", 3, 2, DB_UNLIMITED);
	GOOD(insert(db, &sandbox));
	one = an_exec(sandbox.id, 1);
	two = an_exec(sandbox.id, 2);
	three = an_exec(sandbox.id, 3);
	GOOD(db_insert_exec(db, &one, &err));
	EQ(db_insert_exec(db, &one, &err), -EEXIST);
	GOOD(db_insert_exec(db, &two, &err));
	EQ(db_insert_exec(db, &three, &err), -EDQUOT);
	EQ(db_denied(db, &err)->quota, db_quota_name(DB_QUOTA_EXECS));
	GOOD(db_finish_exec(db, one.id, NOW + 5, &result, &err));
	EQ(db_finish_exec(db, one.id, NOW + 6, &result, &err), -EALREADY);
	GOOD(db_insert_exec(db, &three, &err));
	GOOD(db_get_exec(db, sandbox.id, one.id, &got, &err));
	OK(got.ended);
	EQ(got.ended_at, NOW + 5);
	EQ(got.result.exit_code, -1);
	EQ(got.result.signal, 9);
	OK(got.result.oom && !got.result.timed_out);
	EQ(got.result.user_usec, 0);
	EQ(got.result.max_memory, INT64_MAX);
	EQ(got.result.read_bytes, WARREN_UNKNOWN);
	STREQ(got.argv, one.argv);
	EQ(got.number, 1);
	exec_row_done(&got);
	GOOD(db_get_exec(db, NULL, two.id, &got, &err));
	OK(!got.ended);
	EQ(db_get_exec(db, "other", two.id, &got, &err), -ENOENT);
	GOOD(db_check(db, &err));
	GOOD(db_delete_exec(db, two.id, &err));
	GOOD(db_delete_sandbox(db, sandbox.id, &err));
	EQ(tenant(db, "alice").used[DB_QUOTA_EXECS], 0);
	EQ(db_insert_exec(db, &one, &err), -ENOENT);
	GOOD(db_check(db, &err));
	db_close(db);
}

static int add_number(void *ctx, const struct exec_row *row)
{
	*(uint32_t *)ctx = *(uint32_t *)ctx * 10 + row->number;
	return 0;
}

TEST(execs_of_a_sandbox_are_listed_by_number)
{
	const struct warren_result result = { 0 };
	struct sandbox_row sandbox = a_sandbox(DB_LOCAL), other = a_sandbox(DB_LOCAL);
	uint32_t numbers = 0, last = 99;
	struct db *db;

	state_make();
	db = state_open();
	GOOD(insert(db, &sandbox));
	GOOD(insert(db, &other));
	GOOD(db_last_exec(db, sandbox.id, &last, &err));
	EQ(last, 0);
	for (uint32_t i = 1; i <= 5; i++) {
		struct exec_row row = an_exec(i == 3 ? other.id : sandbox.id, i);

		GOOD(db_insert_exec(db, &row, &err));
		if (i == 2)
			GOOD(db_finish_exec(db, row.id, NOW, &result, &err));
	}
	GOOD(db_each_exec(db, sandbox.id, 0, 0, add_number, &numbers, &err));
	EQ(numbers, 1245);
	numbers = 0;
	GOOD(db_each_exec(db, sandbox.id, 1, 2, add_number, &numbers, &err));
	EQ(numbers, 24);
	numbers = 0;
	GOOD(db_each_running(db, add_number, &numbers, &err));
	OK(numbers == 1453 || numbers == 3145);
	GOOD(db_last_exec(db, sandbox.id, &last, &err));
	EQ(last, 5);
	db_close(db);
}

static int count_session(void *ctx, const struct session_row *row)
{
	STREQ(row->shell, "bash");
	++*(int *)ctx;
	return 0;
}

TEST(a_session_ends_with_its_exec)
{
	struct sandbox_row sandbox = a_sandbox(DB_LOCAL);
	struct session_row row = { .shell = "bash", .created_at = NOW };
	AUTO_SESSION_ROW struct session_row got = { 0 };
	struct exec_row ex, other;
	struct db *db;
	int n = 0;

	state_make();
	db = state_open();
	GOOD(insert(db, &sandbox));
	ex = an_exec(sandbox.id, 1);
	id_make(row.id);
	(void)strcpy(row.sandbox, sandbox.id);
	(void)strcpy(row.exec, ex.id);
	EQ(db_insert_session(db, &row, &err), -ENOENT);
	GOOD(db_insert_exec(db, &ex, &err));
	GOOD(db_insert_session(db, &row, &err));
	GOOD(db_advance_session(db, row.id, 1, NOW + 1, &err));
	GOOD(db_advance_session(db, row.id, 2, NOW + 2, &err));
	EQ(db_advance_session(db, row.id, 2, NOW + 3, &err), -ESTALE);
	EQ(db_advance_session(db, "none", 2, NOW + 3, &err), -ENOENT);
	GOOD(db_get_session(db, sandbox.id, row.id, &got, &err));
	EQ(got.serial, 2);
	EQ(got.last_used, NOW + 2);
	STREQ(got.exec, ex.id);
	GOOD(db_each_session(db, sandbox.id, count_session, &n, &err));
	GOOD(db_each_session(db, NULL, count_session, &n, &err));
	GOOD(db_each_session(db, "other", count_session, &n, &err));
	EQ(n, 2);
	/* Another shell: the session stays when the exec of the first one is deleted. */
	other = an_exec(sandbox.id, 2);
	GOOD(db_insert_exec(db, &other, &err));
	row.shell = "sh";
	(void)strcpy(row.exec, other.id);
	GOOD(db_renew_session(db, &row, &err));
	GOOD(db_delete_exec(db, ex.id, &err));
	session_row_done(&got);
	GOOD(db_get_session(db, sandbox.id, row.id, &got, &err));
	EQ(got.serial, 0);
	EQ(got.created_at, NOW);
	STREQ(got.shell, "sh");
	STREQ(got.exec, other.id);
	(void)strcpy(row.id, "none");
	EQ(db_renew_session(db, &row, &err), -ENOENT);
	GOOD(db_delete_exec(db, other.id, &err));
	EQ(db_delete_session(db, got.id, &err), -ENOENT);
	GOOD(db_check(db, &err));
	db_close(db);
}

TEST(a_deleted_sandbox_leaves_no_rows)
{
	static const struct db_label label = { "k", "v" };
	struct sandbox_row sandbox = a_sandbox(DB_LOCAL);
	struct session_row row = { .shell = "bash" };
	struct exec_row ex;
	struct tenant_row t;
	struct db *db;
	int n = 0;

	state_make();
	db = state_open();
	sandbox.labels = &label;
	sandbox.n_labels = 1;
	GOOD(insert(db, &sandbox));
	ex = an_exec(sandbox.id, 1);
	GOOD(db_insert_exec(db, &ex, &err));
	id_make(row.id);
	(void)strcpy(row.sandbox, sandbox.id);
	(void)strcpy(row.exec, ex.id);
	GOOD(db_insert_session(db, &row, &err));
	GOOD(db_delete_sandbox(db, sandbox.id, &err));
	GOOD(db_each_session(db, NULL, count_session, &n, &err));
	EQ(n, 0);
	EQ(db_delete_exec(db, ex.id, &err), -ENOENT);
	t = tenant(db, DB_LOCAL);
	for (size_t i = 0; i < DB_QUOTA_MAX; i++)
		EQ(t.used[i], 0);
	GOOD(db_check(db, &err));
	db_close(db);
}

/* ------------------------------------------------------------------ tokens */

static int count_token(void *ctx, const struct token_row *row)
{
	OK(row->name);
	++*(int *)ctx;
	return 0;
}

TEST(a_token_identifies_its_tenant)
{
	struct token_row row = { .tenant = "alice", .name = "ci", .scopes = "read exec" };
	AUTO_TOKEN_ROW struct token_row got = { 0 };
	char id[ID_LEN + 1], secret[DB_SECRET_LEN + 1], wrong[DB_SECRET_LEN + 1];
	struct db *db;
	uint64_t n = 9;

	state_make();
	db = state_open();
	GOOD(db_count_tokens(db, NOW, &n, &err));
	EQ(n, 0);
	EQ(db_make_token(db, &row, id, secret, &err), -ENOENT);
	put_tenant(db, "alice", 1, 1, 1);
	row.expires_at = NOW + 1000;
	GOOD(db_make_token(db, &row, id, secret, &err));
	EQ(strlen(secret), DB_SECRET_LEN);
	GOOD(db_find_token(db, secret, NOW, &got, &err));
	STREQ(got.id, id);
	STREQ(got.tenant, "alice");
	STREQ(got.scopes, "read exec");
	token_row_done(&got);
	GOOD(db_get_token(db, id, NOW, &got, &err));
	STREQ(got.scopes, "read exec");
	EQ(db_get_token(db, "bbbbbbbbbbbb", NOW, &row, &err), -ENOENT);
	EQ(db_get_token(db, id, NOW + 1000, &row, &err), -EKEYEXPIRED);
	for (size_t i = 0; i < DB_SECRET_LEN; i += 11) {
		struct token_row none;

		(void)strcpy(wrong, secret);
		wrong[i] = wrong[i] == '0' ? '1' : '0';
		EQ(db_find_token(db, wrong, NOW, &none, &err), -ENOENT);
	}
	EQ(db_find_token(db, "", NOW, &row, &err), -ENOENT);
	EQ(db_find_token(db, secret, NOW + 1000, &row, &err), -EKEYEXPIRED);
	GOOD(db_count_tokens(db, NOW, &n, &err));
	EQ(n, 1);
	GOOD(db_count_tokens(db, NOW + 1000, &n, &err));
	EQ(n, 0);
	EQ(db_revoke_token(db, "bob", id, NOW, &err), -ENOENT);
	GOOD(db_revoke_token(db, "alice", id, NOW, &err));
	GOOD(db_revoke_token(db, NULL, id, NOW + 1, &err));
	EQ(db_find_token(db, secret, NOW, &row, &err), -EKEYREVOKED);
	EQ(db_get_token(db, id, NOW, &row, &err), -EKEYREVOKED);
	db_close(db);
}

TEST(the_database_file_contains_no_secret)
{
	struct token_row row = { .tenant = DB_LOCAL, .name = "needle" };
	char id[ID_LEN + 1], secret[DB_SECRET_LEN + 1];
	char path[160];
	struct db *db;
	bool name = false;

	state_make();
	db = state_open();
	GOOD(db_make_token(db, &row, id, secret, &err));
	for (int i = 0; i < 2; i++) {
		static char data[1 << 20];
		FILE *f;
		size_t n;

		(void)snprintf(path, sizeof(path), "%s%s", state_path, i ? "-wal" : "");
		f = fopen(path, "re");
		OK(f);
		n = fread(data, 1, sizeof(data), f);
		(void)fclose(f);
		name = name || memmem(data, n, "needle", 6);
		OK(!memmem(data, n, secret, DB_SECRET_LEN));
		OK(!memmem(data, n, secret + 3, 16));
	}
	OK(name);
	db_close(db);
}

TEST(a_token_for_a_sandbox_is_deleted_with_it)
{
	struct sandbox_row sandbox = a_sandbox(DB_LOCAL);
	struct token_row row = { .tenant = DB_LOCAL, .name = "one", .scopes = "exec" };
	AUTO_TOKEN_ROW struct token_row got = { 0 };
	char id[ID_LEN + 1], secret[DB_SECRET_LEN + 1];
	struct db *db;
	uint64_t n;

	state_make();
	db = state_open();
	row.sandbox = "0123456789bc";
	EQ(db_make_token(db, &row, id, secret, &err), -ENOENT);
	GOOD(insert(db, &sandbox));
	row.sandbox = sandbox.id;
	GOOD(db_make_token(db, &row, id, secret, &err));
	GOOD(db_find_token(db, secret, NOW, &got, &err));
	STREQ(got.sandbox, sandbox.id);
	GOOD(db_delete_sandbox(db, sandbox.id, &err));
	EQ(db_find_token(db, secret, NOW, &got, &err), -ENOENT);
	GOOD(db_count_tokens(db, NOW, &n, &err));
	EQ(n, 0);
	db_close(db);
}

TEST(a_cached_token_matches_the_database)
{
	struct token_row row = { .tenant = "alice", .name = "ci", .scopes = "read" };
	AUTO_TOKEN_ROW struct token_row got = { 0 };
	char id[ID_LEN + 1], secret[DB_SECRET_LEN + 1];
	struct db_tx tx = { 0 };
	struct db *db;

	state_make();
	db = state_open();
	put_tenant(db, "alice", 1, 1, 1);
	GOOD(db_make_token(db, &row, id, secret, &err));
	GOOD(db_find_token(db, secret, NOW, &got, &err));
	/* A revocation that is rolled back has no effect. */
	GOOD(db_begin(db, DB_POWER_SAFE, &tx, &err));
	GOOD(db_revoke_token(db, NULL, id, NOW, &err));
	EQ(db_find_token(db, secret, NOW, &row, &err), -EKEYREVOKED);
	db_rollback(&tx);
	token_row_done(&got);
	GOOD(db_find_token(db, secret, NOW, &got, &err));
	STREQ(got.id, id);
	GOOD(db_delete_tenant(db, "alice", &err));
	EQ(db_find_token(db, secret, NOW, &row, &err), -ENOENT);
	db_close(db);
}

struct heard {
	unsigned n;
	uint64_t seq;
};

static void on_token(void *ctx, uint64_t seq)
{
	struct heard *h = ctx;

	h->n++;
	h->seq = seq;
}

TEST(changes_of_a_token_are_reported)
{
	struct token_row row = { .tenant = "alice", .name = "ci", .scopes = "read" };
	AUTO_TOKEN_ROW struct token_row got = { 0 };
	char id[ID_LEN + 1], other[ID_LEN + 1], secret[DB_SECRET_LEN + 1];
	struct heard heard = { 0 };
	struct db *db;

	state_make();
	db = state_open();
	put_tenant(db, "alice", 1, 1, 1);
	db_on_token(db, on_token, &heard);
	GOOD(db_make_token(db, &row, id, secret, &err));
	GOOD(db_find_token(db, secret, NOW, &got, &err));
	GOOD(db_touch_token(db, &got, NOW + 2 * DB_LAZY_MS, &err));
	EQ(heard.n, 0U); /* a change of its scopes has no effect either */
	GOOD(db_check_token(db, id, &err));
	GOOD(db_make_token(db, &row, other, secret, &err));
	GOOD(db_revoke_token(db, NULL, id, NOW, &err));
	EQ(heard.n, 1U);
	EQ(heard.seq, got.seq);
	EQ(db_check_token(db, id, &err), -EKEYREVOKED);
	GOOD(db_check_token(db, other, &err));
	/* The database itself deletes it with the tenant. */
	GOOD(db_delete_tenant(db, "alice", &err));
	EQ(heard.n, 3U);
	EQ(db_check_token(db, other, &err), -ENOENT);
	db_on_token(db, NULL, NULL);
	db_close(db);
}

TEST(tokens_beyond_the_cache_size_are_found)
{
	static char ids[600][ID_LEN + 1], secrets[600][DB_SECRET_LEN + 1];
	struct token_row row = { .tenant = DB_LOCAL, .name = "n" };
	struct db *db;

	state_make();
	db = state_open();
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		GOOD(db_make_token(db, &row, ids[i], secrets[i], &err));
	for (size_t i = 0; i < 3 * ARRAY_SIZE(ids); i++) {
		AUTO_TOKEN_ROW struct token_row got = { 0 };
		size_t at = i % ARRAY_SIZE(ids);

		GOOD(db_find_token(db, secrets[at], NOW, &got, &err));
		STREQ(got.id, ids[at]);
	}
	db_close(db);
}

TEST(the_last_use_of_a_token_is_recorded_later)
{
	struct token_row row = { .tenant = DB_LOCAL };
	AUTO_TOKEN_ROW struct token_row got = { 0 };
	char id[ID_LEN + 1], secret[DB_SECRET_LEN + 1];
	struct db *db;
	int n = 0;

	state_make();
	db = state_open();
	GOOD(db_make_token(db, &row, id, secret, &err));
	GOOD(db_make_token(db, &row, id, secret, &err));
	GOOD(db_find_token(db, secret, NOW, &got, &err));
	GOOD(db_touch_token(db, &got, NOW, &err));
	token_row_done(&got);
	GOOD(db_find_token(db, secret, NOW, &got, &err));
	EQ(got.last_used, NOW);
	GOOD(db_touch_token(db, &got, NOW + DB_LAZY_MS - 1, &err));
	token_row_done(&got);
	GOOD(db_find_token(db, secret, NOW, &got, &err));
	EQ(got.last_used, NOW);
	GOOD(db_each_token(db, DB_LOCAL, 0, 0, count_token, &n, &err));
	GOOD(db_each_token(db, NULL, 0, 1, count_token, &n, &err));
	GOOD(db_each_token(db, "nobody", 0, 0, count_token, &n, &err));
	EQ(n, 3);
	db_close(db);
}

/* ------------------------------------------------------------ transactions */

TEST(nested_transactions_commit_or_roll_back_together)
{
	struct sandbox_row row = a_sandbox(DB_LOCAL);
	AUTO_SANDBOX_ROW struct sandbox_row got = { 0 };
	struct db_tx outer = { 0 }, inner = { 0 };
	struct exec_row ex = an_exec(row.id, 1);
	struct db *db;

	state_make();
	db = state_open();
	GOOD(db_begin(db, DB_CRASH_SAFE, &outer, &err));
	GOOD(insert(db, &row));
	GOOD(db_insert_exec(db, &ex, &err));
	db_rollback(&outer);
	EQ(db_get_sandbox(db, NULL, row.id, &got, &err), -ENOENT);

	GOOD(db_begin(db, DB_CRASH_SAFE, &outer, &err));
	GOOD(insert(db, &row));
	GOOD(db_begin(db, DB_CRASH_SAFE, &inner, &err));
	db_rollback(&inner);
	EQ(db_insert_exec(db, &ex, &err), -ECANCELED);
	EQ(db_commit(&outer, &err), -ECANCELED);
	EQ(db_get_sandbox(db, NULL, row.id, &got, &err), -ENOENT);

	/* A failed part cannot be ignored. */
	GOOD(db_begin(db, DB_CRASH_SAFE, &outer, &err));
	GOOD(insert(db, &row));
	EQ(db_insert_exec(db, &(struct exec_row){ .sandbox = "none", .argv = "" }, &err),
	   -ENOENT);
	EQ(db_commit(&outer, &err), -ECANCELED);

	GOOD(db_begin(db, DB_CRASH_SAFE, &outer, &err));
	EQ(db_set_meta(db, "key", "value", &err), -EINVAL);
	db_rollback(&outer);
	GOOD(db_begin(db, DB_POWER_SAFE, &outer, &err));
	GOOD(db_set_meta(db, "key", "value", &err));
	GOOD(insert(db, &row));
	GOOD(db_commit(&outer, &err));
	GOOD(db_get_sandbox(db, NULL, row.id, &got, &err));
	GOOD(db_check(db, &err));
	db_close(db);
}

TEST_MAIN()
