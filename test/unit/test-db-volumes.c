/* SPDX-License-Identifier: Apache-2.0 */
/* test-db-volumes.c - rows of volumes: names, states, users and sums */
#include <errno.h>
#include <string.h>

#include "lib/state.h"

#define ID(c)                                         \
	{                                             \
		c, c, c, c, c, c, c, c, c, c, c, c, 0 \
	}

static struct volume_row volume(char letter, const char *name)
{
	return (struct volume_row){ .id = ID(letter),
				    .tenant = DB_LOCAL,
				    .name = name,
				    .labels = "{}",
				    .size = 100,
				    .created_at = 5 };
}

static int count_one(void *ctx, const char *id UNUSED)
{
	(*(int *)ctx)++;
	return 0;
}

static int count_row(void *ctx, const struct volume_row *row UNUSED)
{
	(*(int *)ctx)++;
	return 0;
}

static int unfinished(struct db *db)
{
	int n = 0;

	EQ(db_each_unfinished_volume(db, "", 0, count_one, &n, &err), 0);
	return n;
}

TEST(a_volume_exists_from_its_completion_until_its_deletion)
{
	struct volume_row row = volume('b', "data"), found = { 0 };
	struct db *db;
	uint64_t n = 0, bytes = 0;
	int listed = 0;

	state_make();
	db = state_open();
	GOOD(db_insert_volume(db, &row, &err));
	EQ(db_get_volume(db, DB_LOCAL, "data", &found, &err), -ENOENT);
	EQ(db_get_volume_by_id(db, DB_LOCAL, row.id, &found, &err), -ENOENT);
	EQ(unfinished(db), 1);
	row = volume('c', "data");
	EQ(db_insert_volume(db, &row, &err), -ENOTUNIQ); /* the name is in use */
	row = volume('b', "data");
	GOOD(db_finish_volume(db, row.id, &err));
	EQ(db_finish_volume(db, row.id, &err), -ENOENT);
	GOOD(db_get_volume_by_id(db, DB_LOCAL, row.id, &found, &err));
	STREQ(found.name, "data");
	volume_row_done(&found);
	EQ(db_get_volume_by_id(db, "other", row.id, &found, &err), -ENOENT);
	GOOD(db_get_volume(db, DB_LOCAL, "data", &found, &err));
	EQ(found.size, 100);
	STREQ(found.id, row.id);
	volume_row_done(&found);
	EQ(db_get_volume(db, "other", "data", &found, &err), -ENOENT);
	GOOD(db_sum_volumes(db, DB_LOCAL, &n, &bytes, &err));
	EQ(n, 1);
	EQ(bytes, 100);
	GOOD(db_forget_volume(db, row.id, &err)); /* it is not being deleted */
	EQ(db_each_volume(db, DB_LOCAL, "", 0, count_row, &listed, &err), 0);
	EQ(listed, 1);
	GOOD(db_delete_volume(db, row.id, &err));
	EQ(db_get_volume(db, DB_LOCAL, "data", &found, &err), -ENOENT);
	EQ(unfinished(db), 1);
	GOOD(db_forget_volume(db, row.id, &err));
	EQ(unfinished(db), 0);
	db = db_close(db);
}

TEST(a_volume_with_a_user_cannot_be_deleted)
{
	struct volume_row row = volume('b', "data"), found = { 0 };
	struct sandbox_row sandbox = a_sandbox(DB_LOCAL);
	const char *const volumes[] = { row.id, row.id, NULL }; /* mounted twice */
	struct db *db;
	int users = 0;

	state_make();
	db = state_open();
	sandbox.volumes = volumes;
	EQ(db_insert_sandboxes(db, &sandbox, 1, NULL, &err), -EBUSY);
	GOOD(db_insert_volume(db, &row, &err));
	EQ(db_insert_sandboxes(db, &sandbox, 1, NULL, &err), -EBUSY); /* unfinished */
	GOOD(db_finish_volume(db, row.id, &err));
	GOOD(db_insert_sandboxes(db, &sandbox, 1, NULL, &err));
	GOOD(db_get_volume(db, DB_LOCAL, "data", &found, &err));
	EQ(found.users, 1);
	volume_row_done(&found);
	EQ(db_each_volume_user(db, row.id, 0, count_one, &users, &err), 0);
	EQ(users, 1);
	EQ(db_delete_volume(db, row.id, &err), -EBUSY);
	GOOD(db_check(db, &err));
	GOOD(db_delete_sandbox(db, sandbox.id, &err));
	GOOD(db_delete_volume(db, row.id, &err));
	GOOD(db_check(db, &err));
	db = db_close(db);
}

TEST_MAIN()
