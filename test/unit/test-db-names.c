/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-db-names.c - names of sandboxes are unique within a tenant, and sandboxes are
 * found by them
 */
#include <errno.h>
#include <sqlite3.h>

#include "lib/state.h"

static struct sandbox_row a_named(const char *owner, const char *name)
{
	struct sandbox_row row = a_sandbox(owner);

	row.name = name;
	return row;
}

static struct db *with_two_tenants(void)
{
	struct db *db;

	state_make();
	db = state_open();
	put_tenant(db, "alice", DB_UNLIMITED, 10, DB_UNLIMITED);
	put_tenant(db, "bob", DB_UNLIMITED, 10, DB_UNLIMITED);
	return db;
}

TEST(a_name_is_unique_within_a_tenant)
{
	struct sandbox_row rows[] = { a_named("alice", "one"), a_named("alice", "two"),
				      a_named("alice", "one"), a_named("bob", "one") };
	struct db *db = with_two_tenants();

	GOOD(insert(db, &rows[0]));
	EQ(insert(db, &rows[2]), -ENOTUNIQ);
	OK(strstr(err.msg, "'one'") && strstr(err.msg, rows[0].id));
	/* Either all of them are created, or none. */
	EQ(db_insert_sandboxes(db, &rows[1], 2, NULL, &err), -ENOTUNIQ);
	EQ(tenant(db, "alice").used[DB_QUOTA_SANDBOXES], 1);
	GOOD(insert(db, &rows[3]));
	GOOD(insert(db, &rows[1]));
	EQ(db_set_name(db, rows[1].id, "one", &err), -ENOTUNIQ);
	GOOD(db_set_name(db, rows[1].id, "two", &err));
	GOOD(db_set_name(db, rows[0].id, NULL, &err));
	GOOD(db_set_name(db, rows[1].id, "one", &err));
	GOOD(db_check(db, &err));
	db_close(db);
}

TEST(an_id_prefix_or_name_matches_at_most_one_sandbox)
{
	struct sandbox_row a = a_named("alice", "one"), b = a_named("bob", "one"),
			   c = a_sandbox("bob");
	struct db *db = with_two_tenants();
	char id[ID_LEN + 1];

	(void)strcpy(a.id, "bcdfghjklmnp");
	(void)strcpy(b.id, "bcdxghjklmnp");
	(void)strcpy(c.id, "zzzzzzzzzzzz");
	GOOD(insert(db, &a));
	GOOD(insert(db, &b));
	GOOD(insert(db, &c));
	GOOD(db_find_sandbox(db, "bob", false, "one", id, &err));
	STREQ(id, b.id);
	GOOD(db_find_sandbox(db, "bob", false, "bc", id, &err));
	STREQ(id, b.id);
	/*
	 * An administrator's own sandboxes are found by name, those of others only by
	 * their full id.
	 */
	GOOD(db_find_sandbox(db, "alice", true, "one", id, &err));
	STREQ(id, a.id);
	GOOD(db_find_sandbox(db, "alice", true, "b", id, &err));
	STREQ(id, a.id);
	EQ(db_find_sandbox(db, DB_LOCAL, true, "one", id, &err), -ENOENT);
	EQ(db_find_sandbox(db, DB_LOCAL, true, "bcdx", id, &err), -ENOENT);
	EQ(db_find_sandbox(db, DB_LOCAL, true, "zzzzzzzzzzz", id, &err), -ENOENT);
	GOOD(db_find_sandbox(db, DB_LOCAL, true, "zzzzzzzzzzzz", id, &err));
	STREQ(id, c.id);
	EQ(db_find_sandbox(db, "alice", false, "zzzzzzzzzzzz", id, &err), -ENOENT);
	EQ(db_find_sandbox(db, "alice", false, "z", id, &err), -ENOENT);
	EQ(db_find_sandbox(db, "alice", false, "", id, &err), -ENOENT);
	EQ(db_find_sandbox(db, "alice", false, "bcdfghjklmnpq", id, &err), -ENOENT);
	(void)strcpy(c.id, "zzyzzzzzzzzz");
	GOOD(insert(db, &c));
	EQ(db_find_sandbox(db, "bob", false, "zz", id, &err), -ENOTUNIQ);
	OK(strstr(err.msg, "more of the id"));
	db_close(db);
}

/* The database is of an earlier version, which allowed duplicate names. */
TEST(duplicate_names_become_unique_after_migration)
{
	AUTO_SANDBOX_ROW struct sandbox_row first = { 0 }, second = { 0 }, other = { 0 };
	struct sandbox_row a = a_named("alice", "same"), b = a_named("alice", "free"),
			   c = a_named("bob", "same");
	struct db *db = with_two_tenants();
	sqlite3 *sql = NULL;
	char renamed[64];

	GOOD(insert(db, &a));
	GOOD(insert(db, &b));
	GOOD(insert(db, &c));
	db = db_close(db);
	EQ(sqlite3_open(state_path, &sql), SQLITE_OK);
	EQ(sqlite3_exec(
		   sql,
		   "DROP TABLE template_tags; DROP TABLE template_builds; DROP TABLE templates; DROP TABLE contexts;"
		   "ALTER TABLE execs DROP COLUMN ends_until; ALTER TABLE sessions DROP COLUMN undoable; DROP TABLE snapshot_uses; DROP TABLE snapshot_names; DROP TABLE snapshots;"
		   "DROP TABLE volume_uses; DROP TABLE volumes; DROP TABLE networks; DROP TABLE secrets;"
		   "DROP INDEX sandboxes_by_name;"
		   "ALTER TABLE sandboxes DROP COLUMN command;"
		   "ALTER TABLE sandboxes DROP COLUMN on_exit;"
		   "ALTER TABLE sandboxes DROP COLUMN main_exec;"
		   "UPDATE sandboxes SET name = 'same' WHERE name = 'free';"
		   "UPDATE meta SET value = '5' WHERE key = 'steps'",
		   NULL, NULL, NULL),
	   SQLITE_OK);
	(void)sqlite3_close(sql);
	db = state_open();
	GOOD(db_get_sandbox(db, NULL, a.id, &first, &err));
	GOOD(db_get_sandbox(db, NULL, b.id, &second, &err));
	GOOD(db_get_sandbox(db, NULL, c.id, &other, &err));
	STREQ(first.name, "same");
	(void)snprintf(renamed, sizeof(renamed), "same-%s", b.id);
	STREQ(second.name, renamed);
	STREQ(other.name, "same");
	GOOD(db_check(db, &err));
	db_close(db);
}

TEST_MAIN()
