/* SPDX-License-Identifier: Apache-2.0 */
/* test-db.c - rows are restored unchanged, and only permitted changes happen */
#include <errno.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include "lib/state.h"

/* ------------------------------------------------------------- opening the database */

TEST(written_rows_exist_after_a_restart)
{
	AUTO_FREE char *value = NULL;
	struct db *db;

	state_make();
	db = state_open();
	EQ(db_get_meta(db, "boot", &value, &err), -ENOENT);
	GOOD(db_set_meta(db, "boot", "one", &err));
	GOOD(db_set_meta(db, "boot", "two", &err));
	db = db_close(db);
	db = state_open();
	GOOD(db_get_meta(db, "boot", &value, &err));
	STREQ(value, "two");
	GOOD(db_check(db, &err));
	db_close(db);
}

TEST(other_users_cannot_read_the_database)
{
	static const char *const names[] = { "state.db", "state.db-wal", "state.db-shm",
					     "state.db.lock" };
	struct db *db;

	(void)umask(0);
	state_make();
	db = state_open();
	GOOD(db_set_meta(db, "key", "value", &err));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[160];
		struct stat st;

		(void)snprintf(path, sizeof(path), "%s/%s", state_dir, names[i]);
		EQ(stat(path, &st), 0);
		EQ(st.st_mode & 07777, 0600);
	}
	db_close(db);
}

TEST(a_second_process_cannot_open_the_database)
{
	struct db *db, *second = NULL;
	char pid[32];
	int status = 0;

	state_make();
	db = state_open();
	EQ(db_open(state_path, &second, &err), -EBUSY);
	(void)snprintf(pid, sizeof(pid), "process %d uses it", getpid());
	OK(strstr(err.msg, pid));
	(void)fflush(stdout);
	if (fork() == 0)
		_exit(db_open(state_path, &second, &err) == -EBUSY ? 0 : 1);
	(void)wait(&status);
	EQ(status, 0);
	GOOD(db_set_meta(db, "still", "ours", &err));
	db_close(db);
	db = state_open();
	db_close(db);
}

static void run_sql(const char *text)
{
	sqlite3 *sql = NULL;

	EQ(sqlite3_open(state_path, &sql), SQLITE_OK);
	EQ(sqlite3_exec(sql, text, NULL, NULL, NULL), SQLITE_OK);
	(void)sqlite3_close(sql);
}

static int version_of_state(void)
{
	sqlite3 *sql = NULL;
	sqlite3_stmt *stmt = NULL;
	int version = -1;

	EQ(sqlite3_open(state_path, &sql), SQLITE_OK);
	EQ(sqlite3_prepare_v2(sql, "PRAGMA user_version", -1, &stmt, NULL), SQLITE_OK);
	if (sqlite3_step(stmt) == SQLITE_ROW)
		version = sqlite3_column_int(stmt, 0);
	(void)sqlite3_finalize(stmt);
	(void)sqlite3_close(sql);
	return version;
}

/* Remove the tables of the steps after the third. */
#define TO_VERSION_3                                                                                                                                                                                                                                                                                                                     \
	"DROP TABLE template_tags; DROP TABLE template_builds; DROP TABLE templates; DROP TABLE contexts;"                                                                                                                                                                                                                               \
	"ALTER TABLE execs DROP COLUMN ends_until; ALTER TABLE sessions DROP COLUMN undoable; DROP TABLE snapshot_uses; DROP TABLE snapshot_names; DROP TABLE snapshots; DROP TABLE volume_uses; DROP TABLE volumes; DROP TABLE networks; DROP TABLE secrets; DROP TABLE events; DELETE FROM meta WHERE key IN ('event_base', 'steps');" \
	"ALTER TABLE execs DROP COLUMN lost; DROP TABLE requests;"                                                                                                                                                                                                                                                                       \
	"DROP INDEX tokens_revoked; DROP INDEX tokens_expiring;"                                                                                                                                                                                                                                                                         \
	"DROP INDEX sandboxes_by_name; ALTER TABLE sandboxes DROP COLUMN command;"                                                                                                                                                                                                                                                       \
	"ALTER TABLE sandboxes DROP COLUMN on_exit;"                                                                                                                                                                                                                                                                                     \
	"ALTER TABLE sandboxes DROP COLUMN main_exec;"                                                                                                                                                                                                                                                                                   \
	"PRAGMA user_version = 3;"

TEST(a_newer_schema_is_refused_and_not_changed)
{
	char back[64];
	struct db *db;

	state_make();
	db = state_open();
	GOOD(db_set_meta(db, "key", "value", &err));
	db = db_close(db);
	(void)snprintf(back, sizeof(back), "PRAGMA user_version = %d",
		       version_of_state());
	run_sql("PRAGMA user_version = 1000");
	EQ(db_open(state_path, &db, &err), -ENOTSUP);
	OK(strstr(err.msg, "version 1000"));
	OK(strstr(err.msg, state_path));
	run_sql(back);
	db = state_open();
	GOOD(db_check(db, &err));
	db_close(db);
}

TEST(a_state_of_a_newer_version_is_not_called_damage)
{
	AUTO_SANDBOX_ROW struct sandbox_row got = { 0 };
	struct sandbox_row row = a_sandbox(DB_LOCAL);
	struct db *db;

	state_make();
	db = state_open();
	GOOD(insert(db, &row));
	db = db_close(db);
	run_sql("UPDATE sandboxes SET state = 99");
	db = state_open();
	EQ(db_get_sandbox(db, DB_LOCAL, row.id, &got, &err), -ENOTSUP);
	OK(strstr(err.msg, "newer version") && strstr(err.msg, "99"));
	EQ(db_check(db, &err), -ENOTSUP);
	db = db_close(db);
	run_sql("UPDATE sandboxes SET state = -1");
	db = state_open();
	EQ(db_get_sandbox(db, DB_LOCAL, row.id, &got, &err), -EUCLEAN);
	OK(strstr(err.msg, "damaged"));
	db_close(db);
}

/*
 * Additions of a newer version do not prevent an older one from working: an update can be
 * undone.
 */
TEST(a_database_with_unknown_columns_can_be_used)
{
	AUTO_SANDBOX_ROW struct sandbox_row got = { 0 };
	struct sandbox_row row = a_sandbox(DB_LOCAL);
	struct db *db;

	state_make();
	db = state_open();
	GOOD(insert(db, &row));
	db = db_close(db);
	run_sql("CREATE TABLE later (id INTEGER PRIMARY KEY) STRICT;"
		"ALTER TABLE sandboxes ADD COLUMN later INTEGER NOT NULL DEFAULT 7;"
		"UPDATE meta SET value = '1000' WHERE key = 'steps'");
	db = state_open();
	GOOD(db_get_sandbox(db, DB_LOCAL, row.id, &got, &err));
	STREQ(got.id, row.id);
	row = a_sandbox(DB_LOCAL);
	GOOD(insert(db, &row));
	GOOD(db_check(db, &err));
	db_close(db);
}

TEST(sandboxes_from_before_tiers_get_the_tier_namespace)
{
	AUTO_SANDBOX_ROW struct sandbox_row got = { 0 };
	struct sandbox_row row = a_sandbox(DB_LOCAL);
	struct db *db;

	state_make();
	db = state_open();
	GOOD(insert(db, &row));
	db = db_close(db);
	run_sql(TO_VERSION_3
		"DROP INDEX tokens_of_sandbox; ALTER TABLE tokens DROP COLUMN sandbox;"
		"ALTER TABLE sessions DROP COLUMN name;"
		"ALTER TABLE sandboxes DROP COLUMN tier; PRAGMA user_version = 1");
	db = state_open();
	GOOD(db_get_sandbox(db, DB_LOCAL, row.id, &got, &err));
	STREQ(got.tier, "namespace");
	GOOD(db_check(db, &err));
	db_close(db);
}

static int count_lost(void *ctx, const struct exec_row *row)
{
	*(int *)ctx += row->lost;
	return 0;
}

static int count_untold(void *ctx, const struct exec_row *row)
{
	(*(int *)ctx)++;
	OK(!row->ended && !row->lost);
	return 0;
}

TEST(a_database_from_before_events_is_migrated)
{
	struct sandbox_row ended = a_sandbox(DB_LOCAL), alive = a_sandbox(DB_LOCAL);
	struct exec_row one = an_exec(ended.id, 1), two = an_exec(alive.id, 1);
	uint64_t before = 0, last = 0;
	int lost = 0, untold = 0;
	struct db *db;

	state_make();
	db = state_open();
	GOOD(insert(db, &ended));
	GOOD(insert(db, &alive));
	GOOD(db_insert_exec(db, &one, &err));
	GOOD(db_insert_exec(db, &two, &err));
	GOOD(db_move_sandbox(db, ended.id, ended.state, SANDBOX_FAILED, "it broke", 1,
			     &err));
	db = db_close(db);
	run_sql(TO_VERSION_3);
	db = state_open();
	GOOD(db_event_range(db, &before, &last, &err));
	OK(before == last && before > 1600000000ULL * 1000000);
	GOOD(db_each_exec(db, ended.id, 0, 0, count_lost, &lost, &err));
	EQ(lost, 1);
	GOOD(db_lose_execs(db, ended.id, count_untold, &untold, &err));
	EQ(untold, 0);
	GOOD(db_lose_execs(db, alive.id, count_untold, &untold, &err));
	EQ(untold, 1);
	GOOD(db_check(db, &err));
	db_close(db);
}

TEST(a_file_that_is_not_a_database_is_refused)
{
	struct db *db = NULL;
	FILE *f;

	state_make();
	f = fopen(state_path, "we");
	OK(f &&
	   fputs("this is a letter to somebody, and long enough to be read\n", f) > 0);
	for (int i = 0; i < 100; i++)
		(void)fputs("this is a letter to somebody, and long enough to be read\n",
			    f);
	(void)fclose(f);
	EQ(db_open(state_path, &db, &err), -EMEDIUMTYPE);
	(void)unlink(state_path);
	run_sql("CREATE TABLE t (a)");
	EQ(db_open(state_path, &db, &err), -EMEDIUMTYPE);
	(void)unlink(state_path);
	EQ(symlink("/etc/passwd", state_path), 0);
	EQ(db_open(state_path, &db, &err), -ELOOP);
	EQ(db_open("/nonexistent/state.db", &db, &err), -ENOENT);
	(void)unlink(state_path);
	db = state_open();
	db_close(db);
}

TEST(the_integrity_check_finds_errors)
{
	struct sandbox_row row = a_sandbox(DB_LOCAL);
	struct db *db;

	state_make();
	db = state_open();
	GOOD(insert(db, &row));
	GOOD(db_check(db, &err));
	run_sql("UPDATE tenants SET memory = memory + 1");
	EQ(db_check(db, &err), -EUCLEAN);
	OK(strstr(err.msg, "memory"));
	run_sql("UPDATE tenants SET memory = memory - 1");
	GOOD(db_check(db, &err));
	run_sql("PRAGMA foreign_keys = OFF; UPDATE sandboxes SET owner = 'gone';"
		"UPDATE tenants SET sandboxes = 0, memory = 0, cpu_millis = 0, disk = 0");
	EQ(db_check(db, &err), -EUCLEAN);
	db_close(db);
}

/* --------------------------------------------------------------- sandboxes */

TEST(a_sandbox_is_restored_unchanged)
{
	static const struct db_label labels[] = {
		{ "team", "a" }, { "empty", "" }, { "quote", "'; DROP TABLE labels; --" }
	};
	AUTO_SANDBOX_ROW struct sandbox_row got = { 0 };
	struct sandbox_row row = a_sandbox(DB_LOCAL);
	struct db *db;

	state_make();
	db = state_open();
	row.labels = labels;
	row.n_labels = 3;
	row.name = "Robert'); DROP TABLE sandboxes;--";
	row.template = "t\xff\xfe";
	row.idle_timeout_ms = 5000;
	GOOD(insert(db, &row));
	GOOD(db_get_sandbox(db, DB_LOCAL, row.id, &got, &err));
	STREQ(got.id, row.id);
	STREQ(got.owner, DB_LOCAL);
	STREQ(got.backend, "native");
	STREQ(got.tier, "gvisor");
	STREQ(got.image, row.image);
	STREQ(got.network, row.network);
	STREQ(got.name, row.name);
	STREQ(got.template, row.template);
	STREQ(got.spec, row.spec);
	OK(!got.enforced);
	OK(!got.error);
	EQ(got.state, SANDBOX_CREATING);
	EQ(got.memory, row.memory);
	EQ(got.cpu_millis, row.cpu_millis);
	EQ(got.disk, row.disk);
	EQ(got.created_at, NOW);
	EQ(got.expires_at, row.expires_at);
	EQ(got.idle_timeout_ms, 5000);
	EQ(got.last_used, 0);
	EQ(got.n_labels, 3);
	for (size_t i = 0; i < 3; i++) {
		STREQ(got.labels[i].key, labels[i].key);
		STREQ(got.labels[i].value, labels[i].value);
	}
	db_close(db);
}

TEST(rows_of_another_tenant_are_not_found)
{
	AUTO_SANDBOX_ROW struct sandbox_row got = { 0 };
	struct sandbox_row row = a_sandbox("alice");
	struct warren_error none = WARREN_ERROR_INIT;
	char id[ID_LEN + 1];
	struct db *db;

	state_make();
	db = state_open();
	put_tenant(db, "alice", 10, 10, DB_UNLIMITED);
	put_tenant(db, "bob", 10, 10, DB_UNLIMITED);
	GOOD(insert(db, &row));
	EQ(db_get_sandbox(db, "bob", row.id, &got, &err), -ENOENT);
	(void)strcpy(id, "000000000000");
	EQ(db_get_sandbox(db, "bob", id, &got, &none), -ENOENT);
	EQ(strlen(none.msg), strlen(err.msg));
	GOOD(db_get_sandbox(db, "alice", row.id, &got, &err));
	sandbox_row_done(&got);
	GOOD(db_get_sandbox(db, NULL, row.id, &got, &err));
	db_close(db);
}

TEST(only_state_changes_in_the_table_are_allowed)
{
	struct db *db;

	state_make();
	db = state_open();
	for (int from = 0; from < SANDBOX_STATE_MAX; from++) {
		for (int to = 0; to < SANDBOX_STATE_MAX; to++) {
			bool may = sandbox_may_become((enum sandbox_state)from,
						      (enum sandbox_state)to);
			struct sandbox_row row = a_sandbox(DB_LOCAL);
			AUTO_SANDBOX_ROW struct sandbox_row got = { 0 };

			row.state = (enum sandbox_state)from;
			GOOD(insert(db, &row));
			EQ(db_move_sandbox(db, row.id, (enum sandbox_state)from,
					   (enum sandbox_state)to, "why", NOW + 1, &err),
			   may ? 0 : -EINVAL);
			GOOD(db_get_sandbox(db, NULL, row.id, &got, &err));
			EQ(got.state, may ? to : from);
			EQ(got.changed_at, may ? NOW + 1 : NOW);
			if (may && sandbox_state_is_over((enum sandbox_state)to))
				STREQ(got.error, "why");
			else
				OK(!got.error);
		}
	}
	GOOD(db_check(db, &err));
	db_close(db);
}

TEST(one_of_two_concurrent_changes_fails)
{
	AUTO_SANDBOX_ROW struct sandbox_row got = { 0 };
	struct sandbox_row row = a_sandbox(DB_LOCAL);
	struct db *db;

	state_make();
	db = state_open();
	GOOD(insert(db, &row));
	GOOD(db_start_sandbox(db, row.id, "[\"memory\"]", NOW, &err));
	EQ(db_start_sandbox(db, row.id, "[]", NOW, &err), -ESTALE);
	OK(strstr(err.msg, "running, not creating"));
	GOOD(db_move_sandbox(db, row.id, SANDBOX_RUNNING, SANDBOX_DELETING, NULL, NOW,
			     &err));
	EQ(db_move_sandbox(db, row.id, SANDBOX_RUNNING, SANDBOX_PAUSED, NULL, NOW, &err),
	   -ESTALE);
	EQ(db_move_sandbox(db, "none", SANDBOX_RUNNING, SANDBOX_PAUSED, NULL, NOW, &err),
	   -ENOENT);
	GOOD(db_get_sandbox(db, NULL, row.id, &got, &err));
	STREQ(got.enforced, "[\"memory\"]");
	EQ(got.state, SANDBOX_DELETING);
	GOOD(db_delete_sandbox(db, row.id, &err));
	EQ(db_delete_sandbox(db, row.id, &err), -ENOENT);
	db_close(db);
}

TEST(every_state_has_a_name)
{
	uint32_t stopped =
		1U << SANDBOX_STOPPED | 1U << SANDBOX_ON_DISK | 1U << SANDBOX_HIBERNATING;

	for (uint32_t i = 0; i < SANDBOX_STATE_MAX; i++)
		EQ(sandbox_state_bits(sandbox_state_name((enum sandbox_state)i)),
		   stopped & 1U << i ? stopped : 1U << i);
	EQ(sandbox_state_bits("gone fishing"), 0);
}

TEST(a_repeated_request_is_recognised)
{
	struct db_request request = { .key = "k1", .hash = { 1, 2, 3 } };
	struct sandbox_row rows[3] = { a_sandbox("alice"), a_sandbox("alice"),
				       a_sandbox("alice") };
	struct sandbox_row again = a_sandbox("alice"), other = a_sandbox("bob");
	uint64_t count[SANDBOX_STATE_MAX];
	struct db *db;

	state_make();
	db = state_open();
	put_tenant(db, "alice", 10, 10, DB_UNLIMITED);
	put_tenant(db, "bob", 10, 10, DB_UNLIMITED);
	EQ(db_insert_sandboxes(db, rows, 3, &request, &err), 0);
	EQ(db_insert_sandboxes(db, &again, 1, &request, &err), 1);
	request.hash[31] = 1;
	EQ(db_insert_sandboxes(db, &again, 1, &request, &err), -EEXIST);
	/* Keys of another tenant are independent. */
	EQ(db_insert_sandboxes(db, &other, 1, &request, &err), 0);
	GOOD(db_count_sandboxes(db, count, &err));
	EQ(count[SANDBOX_CREATING], 4);
	EQ(tenant(db, "alice").used[DB_QUOTA_SANDBOXES], 3);
	GOOD(db_check(db, &err));
	db_close(db);
}

static int note_id(void *ctx, const struct sandbox_row *row)
{
	char **at = ctx;

	*at = stpcpy(*at, row->id);
	return 0;
}

TEST(objects_of_a_repeated_request_are_found)
{
	struct db_request request = { .key = "k1" };
	struct sandbox_row rows[2] = { a_sandbox(DB_LOCAL), a_sandbox(DB_LOCAL) };
	char got[64] = "", want[64], *at = got;
	struct db *db;

	state_make();
	db = state_open();
	EQ(db_insert_sandboxes(db, rows, 2, &request, &err), 0);
	GOOD(db_each_of_request(db, DB_LOCAL, "k1", note_id, &at, &err));
	(void)snprintf(want, sizeof(want), "%s%s", rows[0].id, rows[1].id);
	STREQ(got, want);
	GOOD(db_each_of_request(db, DB_LOCAL, "k2", note_id, &at, &err));
	STREQ(got, want);
	db_close(db);
}

/* ----------------------------------------------------------------- lists */

struct page {
	size_t n;
	uint64_t last;
	char seen[2000]; /* indexed by the number in the name */
};

static int turn(void *ctx, const struct sandbox_row *row)
{
	struct page *p = ctx;

	OK(p->last == 0 || row->seq < p->last);
	p->last = row->seq;
	p->n++;
	p->seen[atoi(row->name)]++;
	return 0;
}

/*
 * Create @n sandboxes, named by number; every third has the label mod=0, and every second
 * one is running.
 */
static void fill(struct db *db, const char *owner, int from, int n)
{
	static const struct db_label labels[] = { { "all", "yes" }, { "mod", "0" } };
	AUTO_DB_TX struct db_tx tx = { 0 };

	GOOD(db_begin(db, DB_CRASH_SAFE, &tx, &err));
	for (int i = from; i < from + n; i++) {
		struct sandbox_row row = a_sandbox(owner);
		char name[16];

		(void)snprintf(name, sizeof(name), "%d", i);
		row.name = name;
		row.labels = labels;
		row.n_labels = i % 3 == 0 ? 2 : 1;
		row.state = i % 2 ? SANDBOX_RUNNING : SANDBOX_CREATING;
		GOOD(insert(db, &row));
	}
	GOOD(db_commit(&tx, &err));
}

TEST(pages_are_stable_while_others_insert)
{
	struct sandbox_filter filter = { .owner = "alice", .max = 7 };
	struct page p = { 0 };
	struct db *db;
	size_t before;
	int made = 100;

	state_make();
	db = state_open();
	put_tenant(db, "alice", DB_UNLIMITED, 10, DB_UNLIMITED);
	fill(db, "alice", 0, 100);
	fill(db, DB_LOCAL, 1000, 50);
	do {
		before = p.n;
		GOOD(db_list_sandboxes(db, &filter, turn, &p, &err));
		OK(p.n - before <= 7);
		filter.last = p.last;
		fill(db, "alice", made, 3);
		made += 3;
	} while (p.n > before);
	EQ(p.n, 100);
	for (int i = 0; i < 100; i++)
		EQ(p.seen[i], 1);
	db_close(db);
}

TEST(a_cursor_never_refers_to_a_newer_row)
{
	struct sandbox_row first = a_sandbox(DB_LOCAL), second = a_sandbox(DB_LOCAL);
	AUTO_SANDBOX_ROW struct sandbox_row a = { 0 }, b = { 0 };
	struct db *db;

	state_make();
	db = state_open();
	GOOD(insert(db, &first));
	GOOD(db_get_sandbox(db, NULL, first.id, &a, &err));
	GOOD(db_delete_sandbox(db, first.id, &err));
	db = db_close(db);
	db = state_open();
	GOOD(insert(db, &second));
	GOOD(db_get_sandbox(db, NULL, second.id, &b, &err));
	OK(b.seq > a.seq);
	db_close(db);
}

TEST(filters_combine)
{
	static const struct db_label all = { "all", "yes" }, mod = { "mod", "0" },
				     none = { "mod", "1" };
	const struct db_label both[] = { all, mod }, neither[] = { all, none };
	const uint32_t running = 1U << SANDBOX_RUNNING;
	struct {
		struct sandbox_filter filter;
		size_t n;
	} cases[] = {
		{ { .owner = NULL }, 90 },
		{ { .owner = "alice" }, 60 },
		{ { .owner = "nobody" }, 0 },
		{ { .states = running }, 45 },
		{ { .states = running | 1U << SANDBOX_CREATING }, 90 },
		{ { .states = 1U << SANDBOX_PAUSED }, 0 },
		{ { .owner = "alice", .labels = &mod, .n_labels = 1 }, 20 },
		{ { .owner = "alice", .labels = &none, .n_labels = 1 }, 0 },
		{ { .labels = &mod, .n_labels = 1 }, 30 },
		{ { .owner = "alice", .labels = both, .n_labels = 2 }, 20 },
		{ { .owner = "alice", .labels = neither, .n_labels = 2 }, 0 },
		{ { .labels = both, .n_labels = 2, .states = running }, 15 },
		{ { .owner = "alice",
		    .labels = both,
		    .n_labels = 2,
		    .states = running,
		    .max = 4 },
		  4 },
	};
	struct db *db;

	state_make();
	db = state_open();
	put_tenant(db, "alice", DB_UNLIMITED, 10, DB_UNLIMITED);
	fill(db, "alice", 0, 60);
	fill(db, DB_LOCAL, 60, 30);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct page p = { 0 };

		GOOD(db_list_sandboxes(db, &cases[i].filter, turn, &p, &err));
		EQ(p.n, cases[i].n);
	}
	db_close(db);
}

TEST(changed_labels_replace_the_old_ones)
{
	static const struct db_label old = { "k", "old" }, new = { "k", "new" };
	struct sandbox_filter filter = { .owner = DB_LOCAL,
					 .labels = &old,
					 .n_labels = 1 };
	struct sandbox_row row = a_sandbox(DB_LOCAL);
	struct page p = { 0 };
	struct db *db;

	state_make();
	db = state_open();
	row.name = "1";
	row.labels = &old;
	row.n_labels = 1;
	GOOD(insert(db, &row));
	GOOD(db_list_sandboxes(db, &filter, turn, &p, &err));
	EQ(p.n, 1);
	GOOD(db_set_labels(db, row.id, &new, 1, &err));
	p = (struct page){ 0 };
	GOOD(db_list_sandboxes(db, &filter, turn, &p, &err));
	EQ(p.n, 0);
	filter.labels = &new;
	GOOD(db_list_sandboxes(db, &filter, turn, &p, &err));
	EQ(p.n, 1);
	EQ(db_set_labels(db, "none", &new, 1, &err), -ENOENT);
	db_close(db);
}

TEST_MAIN()
