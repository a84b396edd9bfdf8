/* SPDX-License-Identifier: Apache-2.0 */
/* test-db-contexts.c - rows of contexts: they change, and end with their sandbox */
#include <errno.h>
#include <string.h>

#include "db/context.h"
#include "lib/state.h"

struct seen {
	int n;
	struct context_row last;
	char language[16], cwd[16];
};

static int look(void *ctx, const struct context_row *row)
{
	struct seen *s = ctx;

	s->n++;
	s->last = *row;
	(void)strncpy(s->language, row->language, sizeof(s->language) - 1);
	(void)strncpy(s->cwd, row->cwd, sizeof(s->cwd) - 1);
	return 0;
}

static struct seen all(struct db *db)
{
	struct seen s = { 0 };

	GOOD(db_each_context(db, look, &s, &err));
	return s;
}

TEST(a_context_changes_and_is_deleted)
{
	struct sandbox_row sandbox = a_sandbox(DB_LOCAL);
	struct context_row row = { .id = "bbbbbbbbbbbb",
				   .language = "python",
				   .cwd = "/tmp" };
	struct seen s;
	struct db *db;

	state_make();
	db = state_open();
	GOOD(insert(db, &sandbox));
	(void)strcpy(row.sandbox, "cccccccccccc");
	EQ(db_put_context(db, &row, &err), -ENOENT);
	(void)strcpy(row.sandbox, sandbox.id);
	GOOD(db_put_context(db, &row, &err));
	s = all(db);
	EQ(s.n, 1);
	STREQ(s.last.id, row.id);
	STREQ(s.last.sandbox, sandbox.id);
	STREQ(s.last.exec, "");
	STREQ(s.language, "python");
	STREQ(s.cwd, "/tmp");
	EQ(s.last.state, CONTEXT_IDLE);
	OK(!s.last.is_default);
	(void)strcpy(row.exec, "dddddddddddd");
	row.state = CONTEXT_READY;
	row.is_default = true;
	GOOD(db_put_context(db, &row, &err));
	db = db_close(db);
	db = state_open();
	s = all(db);
	EQ(s.n, 1);
	STREQ(s.last.exec, "dddddddddddd");
	EQ(s.last.state, CONTEXT_READY);
	OK(s.last.is_default);
	GOOD(db_delete_context(db, "eeeeeeeeeeee", &err));
	EQ(all(db).n, 1);
	GOOD(db_delete_context(db, row.id, &err));
	EQ(all(db).n, 0);
	GOOD(db_check(db, &err));
	db_close(db);
}

TEST(a_context_ends_with_its_sandbox)
{
	struct sandbox_row sandbox = a_sandbox(DB_LOCAL);
	struct context_row row = { .id = "bbbbbbbbbbbb", .language = "bash", .cwd = "/" };
	struct db *db;

	state_make();
	db = state_open();
	GOOD(insert(db, &sandbox));
	(void)strcpy(row.sandbox, sandbox.id);
	GOOD(db_put_context(db, &row, &err));
	EQ(all(db).n, 1);
	GOOD(db_delete_sandbox(db, sandbox.id, &err));
	EQ(all(db).n, 0);
	db_close(db);
}

TEST_MAIN()
