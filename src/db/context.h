/* SPDX-License-Identifier: Apache-2.0 */
/* context.h - contexts of the code interpreter, in the database */
#ifndef DB_CONTEXT_H
#define DB_CONTEXT_H

#include "db/db.h"

/* What is true of the kernel of a context; only appended to. */
enum context_state {
	CONTEXT_IDLE,    /* it has none */
	CONTEXT_UNREADY, /* one may have been started, which the next process kills */
	CONTEXT_READY,   /* its exec runs, and has its whole source */
	CONTEXT_REMOVED, /* as CONTEXT_UNREADY, and the context is then deleted */
};

/* A context of the code interpreter: api/e2b/context.h. */
struct context_row {
	char id[ID_LEN + 1];
	char sandbox[ID_LEN + 1]; /* the context is deleted with it */
	char exec[ID_LEN + 1];    /* the kernel; "": none, or unknown */
	const char *language, *cwd;
	bool is_default;
	enum context_state state;
};

/* Create or change a context. -ENOENT: there is no such sandbox. */
int db_put_context(struct db *db, const struct context_row *row,
		   struct warren_error *err) MUST_CHECK;
int db_each_context(struct db *db, int (*fn)(void *ctx, const struct context_row *row),
		    void *ctx, struct warren_error *err) MUST_CHECK;
int db_delete_context(struct db *db, const char *id, struct warren_error *err) MUST_CHECK;

#endif /* DB_CONTEXT_H */
