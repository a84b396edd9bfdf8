/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.c - idempotency keys of requests, which are kept longer than the sandboxes that
 * they created
 *
 * A key is a separate row, so that a client that repeats its request after the sandbox is
 * gone does not get another one. The rows of sandboxes also contain the key: it is used
 * to find them, and the key is kept while one of them exists.
 */
#include <errno.h>
#include <string.h>

#include "db/db_internal.h"

/* Compare the hash that @which finds with the given one. Return 1 if they are equal, 0 if
 * there is none, or -EEXIST if they differ. */
static int request_compare(struct db *db, enum db_stmt which, const char *owner,
			   const struct db_request *request, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, which);
	int r;

	query_text(&q, owner);
	query_text(&q, request->key);
	r = query_step(&q, err);
	if (r <= 0)
		return r;
	if (sqlite3_column_bytes(q.stmt, 0) == DB_HASH_SIZE &&
	    memcmp(sqlite3_column_blob(q.stmt, 0), request->hash, DB_HASH_SIZE) == 0)
		return 1;
	return error_set(err, EEXIST,
			 "the idempotency key '%.100s' was used for another request",
			 request->key);
}

int request_recognise(struct db *db, const char *owner, const struct db_request *request,
		      struct warren_error *err)
{
	int r;

	if (!request || !request->key)
		return 0;
	r = request_compare(db, STMT_HASH_OF_REQUEST, owner, request, err);
	return r == 0 ? request_compare(db, STMT_HASH_OF_SANDBOX, owner, request, err)
		      : r;
}

int request_remember(struct db *db, const char *owner, const struct db_request *request,
		     int64_t now, struct warren_error *err)
{
	AUTO_QUERY struct query q = { 0 };
	int r;

	if (!request || !request->key)
		return 0;
	q = query_start(db, STMT_INSERT_REQUEST);
	query_text(&q, owner);
	query_text(&q, request->key);
	query_blob(&q, request->hash, DB_HASH_SIZE);
	query_int(&q, now);
	r = query_run(&q, err);
	return r < 0 ? error_wrap(err, "record the idempotency key") : 0;
}

int request_release(struct db *db, const char *owner, const char *sandbox,
		    struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_RELEASE_REQUEST);
	int r;

	query_text(&q, owner);
	query_text(&q, sandbox);
	r = query_run(&q, err);
	return r < 0 ? r : 0;
}

int db_prune_requests(struct db *db, int64_t before, size_t max, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_PRUNE_REQUESTS);

	query_int(&q, before);
	query_limit(&q, max);
	return query_run(&q, err);
}

int db_next_requester(struct db *db, char owner[DB_NAME_MAX + 1],
		      struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_NEXT_REQUESTER);
	const char *next;
	int r;

	query_text(&q, owner);
	r = query_step(&q, err);
	if (r < 0)
		return r;
	next = column_text(&q, 0);
	if (!next)
		return 0;
	(void)strncpy(owner, next, DB_NAME_MAX);
	owner[DB_NAME_MAX] = '\0';
	return 1;
}

int db_limit_requests(struct db *db, const char *owner, uint64_t keep, size_t max,
		      struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_LIMIT_REQUESTS);

	query_text(&q, owner);
	query_u64(&q, keep);
	query_limit(&q, max);
	return query_run(&q, err);
}
