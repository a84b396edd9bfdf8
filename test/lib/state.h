/* SPDX-License-Identifier: Apache-2.0 */
/* state.h - a database in a separate directory, and rows for it */
#ifndef TEST_STATE_H
#define TEST_STATE_H

#include <dirent.h>
#include <limits.h>

#include "db/db.h"
#include "lib/tap.h"

#define NOW INT64_C(1700000000000)

static struct warren_error err;
static char state_dir[64];
static char state_path[128];

static void state_remove(void)
{
	DIR *d = opendir(state_dir);
	struct dirent *e;

	while (d && (e = readdir(d)))
		(void)unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		(void)closedir(d);
	(void)rmdir(state_dir);
}

/* Create a directory, which is removed at the end of the test's process; a child must
 * exit with _exit(2). */
static void state_make(void)
{
	(void)strcpy(state_dir, "/tmp/test-store-XXXXXX");
	OK(mkdtemp(state_dir));
	(void)snprintf(state_path, sizeof(state_path), "%s/state.db", state_dir);
	OK(atexit(state_remove) == 0);
}

static struct db *state_open(void)
{
	struct db *db = NULL;

	if (db_open(state_path, &db, &err) < 0)
		TAP_FAIL("%s", err.msg);
	return db;
}

/* GOOD(call) must succeed; otherwise the test prints the reason. */
#define GOOD(expr)                                                    \
	do {                                                          \
		int r_ = (expr);                                      \
		if (r_ < 0)                                           \
			TAP_FAIL("%s is %d: %s", #expr, r_, err.msg); \
	} while (0)

static inline struct sandbox_row a_sandbox(const char *owner)
{
	struct sandbox_row row = {
		.state = SANDBOX_CREATING,
		.owner = owner,
		.backend = "native",
		.tier = "gvisor",
		.image = "python:3.12",
		.network = "loopback",
		.spec = "{\"image\":\"python:3.12\",\"env\":{\"A\":\"b\"}}",
		.memory = 512U << 20,
		.cpu_millis = 1000,
		.disk = 1U << 30,
		.created_at = NOW,
		.expires_at = NOW + 3600000,
	};

	id_make(row.id);
	return row;
}

static inline struct exec_row an_exec(const char *sandbox, uint32_t number)
{
	struct exec_row row = { .number = number,
				.argv = "[\"true\"]",
				.cwd = "/",
				.user = "root",
				.started_at = NOW,
				.timeout_ms = 30000,
				.journal = "journal" };

	id_make(row.id);
	(void)snprintf(row.sandbox, sizeof(row.sandbox), "%s", sandbox);
	return row;
}

static inline int insert(struct db *db, const struct sandbox_row *row)
{
	return db_insert_sandboxes(db, row, 1, NULL, &err);
}

static inline struct tenant_row tenant(struct db *db, const char *name)
{
	struct tenant_row row = { 0 };

	GOOD(db_get_tenant(db, name, &row, &err));
	return row;
}

/*
 * Create tenant @name with these limits for sandboxes, execs and memory, and no other
 * limits.
 */
static inline void put_tenant(struct db *db, const char *name, uint64_t sandboxes,
			      uint64_t execs, uint64_t memory)
{
	uint64_t limit[] = { sandboxes, execs, memory, DB_UNLIMITED, DB_UNLIMITED };

	GOOD(db_put_tenant(db, name, limit, &err));
}

#endif /* TEST_STATE_H */
