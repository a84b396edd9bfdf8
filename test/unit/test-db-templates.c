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

/* Return the number of the tenant's builds, from @n on, that have a log. */
static int count_logs(struct db *db, const char *template, int n, int end)
{
	int found = 0;

	for (; n < end; n++) {
		AUTO_TEMPLATE_BUILD_ROW struct template_build_row got = { 0 };
		char id[TEMPLATE_UUID_LEN + 1];

		(void)snprintf(id, sizeof(id), "00000000-0000-4000-8000-%012d", n);
		if (db_get_template_build(db, template, id, &got, &err) == 0)
			found += got.logs[0] != '\0';
	}
	return found;
}

TEST(only_the_last_builds_of_a_tenant_keep_their_logs)
{
	struct db *db = with_tenants();
	char ids[5][ID_LEN + 1], name[8];
	struct template_build_row row;
	int found = 0;

	for (int i = 0; i < 5; i++) {
		(void)snprintf(name, sizeof(name), "t%d", i);
		(void)strcpy(ids[i], put(db, i == 0 ? "bob" : "alice", name));
	}
	for (int n = 100; n < 200; n++) {
		row = a_build(db, ids[n % 5], n);
		row.state = n % 2 ? TEMPLATE_ERROR : TEMPLATE_READY;
		row.logs = "{}\n";
		GOOD(db_set_template_build(db, &row, &err));
	}
	/* Each template has 20 builds, which are kept: bob has 20, alice 80. */
	EQ(count_logs(db, ids[0], 100, 200), 20);
	for (int i = 1; i < 5; i++)
		found += count_logs(db, ids[i], 100, 200);
	EQ(found, TEMPLATE_LOGS_MAX);
	EQ(count_logs(db, ids[1], 100, 120), 0);
	EQ(count_logs(db, ids[1], 180, 200), 4);
	GOOD(db_check(db, &err));
	db_close(db);
}

struct dead {
	const char *id;
	bool found;
};

static int look_for_dead(void *ctx, const char *id)
{
	struct dead *d = ctx;

	d->found |= strcmp(id, d->id) == 0;
	return 0;
}

/* Is the snapshot to be deleted? */
static bool is_dead(struct db *db, const char *id)
{
	struct dead d = { .id = id };

	GOOD(db_each_dead_snapshot(db, 9, look_for_dead, &d, &err));
	return d.found;
}

TEST(a_tag_and_a_name_each_keep_the_files_of_a_build)
{
	struct db *db = with_tenants();
	char id[ID_LEN + 1];
	struct template_build_row row, other;
	const char *tag = "default";
	uint64_t tags = 0;

	(void)strcpy(id, put(db, "alice", "one"));
	row = a_build(db, id, 300);
	finish(db, &row, tag);
	/* The tag keeps them when the name is removed, or the snapshot is deleted. */
	GOOD(db_name_snapshot(db, "alice", row.snapshot, "prod", &err));
	GOOD(db_unname_snapshot(db, "alice", row.snapshot, "prod", &err));
	OK(!is_dead(db, row.snapshot));
	GOOD(db_unname_snapshot(db, "alice", row.snapshot, NULL, &err));
	OK(!is_dead(db, row.snapshot));
	EQ(db_delete_snapshot(db, row.snapshot, &err), -EBUSY);
	GOOD(db_count_snapshot_tags(db, row.snapshot, &tags, &err));
	EQ(tags, 1);
	/* So it does when another snapshot gets the name. */
	GOOD(db_name_snapshot(db, "alice", row.snapshot, "prod", &err));
	other = a_build(db, id, 301);
	finish(db, &other, "other");
	GOOD(db_name_snapshot(db, "alice", other.snapshot, "prod", &err));
	OK(!is_dead(db, row.snapshot));
	/* The name keeps them when the tag is removed, or the template is deleted. */
	GOOD(db_name_snapshot(db, "alice", row.snapshot, "prod", &err));
	GOOD(db_untag_template(db, id, &tag, 1, &err));
	OK(!is_dead(db, row.snapshot));
	GOOD(db_delete_template(db, id, &err));
	OK(!is_dead(db, row.snapshot));
	GOOD(db_unname_snapshot(db, "alice", row.snapshot, "prod", &err));
	OK(is_dead(db, row.snapshot)); /* positive control */
	db_close(db);
}

TEST_MAIN()
