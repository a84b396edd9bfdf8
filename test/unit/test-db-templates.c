/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-db-templates.c - templates, their builds and tags; the files of a build are kept
 * as long as a tag names it
 */
#include "db/template.h"

#include <errno.h>

#include "lib/state.h"

static struct db *with_tenants(void)
{
	struct db *db;

	state_make();
	db = state_open();
	put_tenant(db, "alice", DB_UNLIMITED, 10, DB_UNLIMITED);
	put_tenant(db, "bob", DB_UNLIMITED, 10, DB_UNLIMITED);
	return db;
}

/* Create the template, unless it exists; returns its id. */
static const char *put(struct db *db, const char *tenant, const char *name)
{
	static char id[ID_LEN + 1];
	struct template_row row = { .tenant = tenant, .name = name, .created_at = 5 };

	id_make(row.id);
	GOOD(db_put_template(db, &row, id, &err));
	return id;
}

static struct template_build_row a_build(struct db *db, const char *template, int n)
{
	struct template_build_row row = { .state = TEMPLATE_WAITING,
					  .spec = "{}",
					  .snapshot = "",
					  .reason = "",
					  .step = "",
					  .logs = "" };

	(void)snprintf(row.id, sizeof(row.id), "00000000-0000-4000-8000-%012d", n);
	(void)strcpy(row.template, template);
	GOOD(db_insert_template_build(db, &row, &err));
	return row;
}

/* End the build with files of its own. */
static void finish(struct db *db, struct template_build_row *row, const char *tag)
{
	static char id[8][ID_LEN + 1];
	static int n;
	struct snapshot_row files = {
		.tenant = "alice", .source = "", .labels = "{}", .transient = true
	};

	id_make(files.id);
	GOOD(db_insert_snapshot(db, &files, &err));
	files.image = "sha256:0";
	GOOD(db_finish_snapshot(db, &files, NULL, &err));
	(void)strcpy(id[n], files.id);
	row->snapshot = id[n++];
	row->state = TEMPLATE_READY;
	GOOD(db_finish_template_build(db, row, &tag, 1, &err));
}

static int note_dead(void *ctx, const char *id)
{
	(void)strcpy(ctx, id);
	return 0;
}

static int count_row(void *ctx, const struct snapshot_row *row UNUSED)
{
	++*(int *)ctx;
	return 0;
}

TEST(a_template_belongs_to_its_tenant)
{
	struct db *db = with_tenants();
	AUTO_TEMPLATE_ROW struct template_row row = { 0 };
	char id[ID_LEN + 1];

	(void)strcpy(id, put(db, "alice", "one"));
	STREQ(put(db, "alice", "one"), id);
	OK(strcmp(put(db, "bob", "one"), id) != 0);
	GOOD(db_get_template(db, "alice", "one", &row, &err));
	STREQ(row.id, id);
	EQ(row.builds, 0);
	EQ(db_get_template(db, "bob", id, &row, &err), -ENOENT);
	EQ(db_get_template(db, "alice", "two", &row, &err), -ENOENT);
	GOOD(db_check(db, &err));
	db_close(db);
}

TEST(the_files_of_a_build_without_a_tag_are_dead)
{
	struct db *db = with_tenants();
	char id[ID_LEN + 1], dead[ID_LEN + 1] = "";
	struct template_build_row first, second;
	const char *tag = "v1";
	int listed = 0;

	(void)strcpy(id, put(db, "alice", "one"));
	first = a_build(db, id, 1);
	finish(db, &first, "default");
	GOOD(db_each_dead_snapshot(db, 9, note_dead, dead, &err));
	EQ(dead[0], '\0');
	GOOD(db_each_snapshot(db, "alice", "", 0, count_row, &listed, &err));
	EQ(listed, 0);
	second = a_build(db, id, 2);
	finish(db, &second, "default");
	GOOD(db_each_dead_snapshot(db, 9, note_dead, dead, &err));
	STREQ(dead, first.snapshot);
	GOOD(db_tag_template(db, id, second.id, &tag, 1, 7, &err));
	GOOD(db_untag_template(db, id, &tag, 1, &err));
	EQ(db_untag_template(db, id, &tag, 1, &err), -ENOENT);
	GOOD(db_delete_template(db, id, &err));
	GOOD(db_forget_snapshot(db, first.snapshot, &err));
	GOOD(db_delete_snapshot(db, first.snapshot, &err));
	GOOD(db_forget_snapshot(db, first.snapshot, &err));
	GOOD(db_each_dead_snapshot(db, 9, note_dead, dead, &err));
	STREQ(dead, second.snapshot);
	GOOD(db_check(db, &err));
	db_close(db);
}

TEST(builds_of_an_earlier_process_have_failed)
{
	struct db *db = with_tenants();
	AUTO_TEMPLATE_BUILD_ROW struct template_build_row got = { 0 };
	char id[ID_LEN + 1];
	struct template_build_row row, waits;

	(void)strcpy(id, put(db, "alice", "one"));
	row = a_build(db, id, 3);
	waits = a_build(db, id, 4);
	row.state = TEMPLATE_BUILDING;
	GOOD(db_set_template_build(db, &row, &err));
	GOOD(db_end_template_builds(db, "restarted", 9, &err));
	GOOD(db_get_template_build(db, id, row.id, &got, &err));
	EQ(got.state, TEMPLATE_ERROR);
	STREQ(got.reason, "restarted");
	EQ(db_set_template_build(db, &row, &err), -ENOENT);
	template_build_row_done(&got);
	GOOD(db_get_template_build(db, id, waits.id, &got, &err));
	EQ(got.state, TEMPLATE_WAITING);
	/* Only the last builds are kept, and those with a tag. */
	finish(db, &waits, "default");
	for (int i = 10; i < 10 + TEMPLATE_BUILDS_MAX; i++)
		(void)a_build(db, id, i);
	EQ(db_get_template_build(db, id, row.id, &got, &err), -ENOENT);
	template_build_row_done(&got);
	GOOD(db_get_template_build(db, id, waits.id, &got, &err));
	db_close(db);
}

TEST_MAIN()
