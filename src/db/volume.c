/* SPDX-License-Identifier: Apache-2.0 */
/* volume.c - rows of volumes, and of the sandboxes that use them */
#include <errno.h>
#include <string.h>

#include "db/db_internal.h"

#define VOLUME_READY 1

/* 1: the tenant has a volume with that name, in any state; 0: none. */
static int volume_find(struct db *db, struct query *q, const char *tenant,
		       const char *name, struct warren_error *err)
{
	*q = query_start(db, STMT_GET_VOLUME);
	query_text(q, tenant);
	query_text(q, name);
	return query_step(q, err);
}

static int volume_check_name(struct db *db, const struct volume_row *row,
			     struct warren_error *err)
{
	AUTO_QUERY struct query q = { 0 };
	int r = volume_find(db, &q, row->tenant, row->name, err);

	if (r <= 0)
		return r;
	return error_set(err, ENOTUNIQ, "there is already a volume '%s'", row->name);
}

int db_insert_volume(struct db *db, const struct volume_row *row,
		     struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	AUTO_QUERY struct query q = { 0 };
	struct tenant_row tenant;
	int r = db_begin(db, DB_CRASH_SAFE, &tx, err);

	if (r == 0)
		r = db_get_tenant(db, row->tenant, &tenant, err);
	if (r == 0)
		r = volume_check_name(db, row, err);
	if (r < 0)
		return r;
	q = query_start(db, STMT_INSERT_VOLUME);
	query_text(&q, row->id);
	query_text(&q, row->tenant);
	query_text(&q, row->name);
	query_u64(&q, row->size);
	query_text(&q, row->labels);
	query_int(&q, row->created_at);
	r = query_run(&q, err);
	return r < 0 ? r : db_commit(&tx, err);
}

/* Change the row of the volume @id with @which; returns the number of rows. */
static int volume_change(struct db *db, enum db_stmt which, const char *id,
			 enum db_safety safety, struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	AUTO_QUERY struct query q = { 0 };
	int r = db_begin(db, safety, &tx, err), n;

	if (r < 0)
		return r;
	q = query_start(db, which);
	query_text(&q, id);
	n = query_run(&q, err);
	if (n < 0)
		return n;
	r = db_commit(&tx, err);
	return r < 0 ? r : n;
}

int db_finish_volume(struct db *db, const char *id, struct warren_error *err)
{
	int r = volume_change(db, STMT_FINISH_VOLUME, id, DB_POWER_SAFE, err);

	if (r == 0)
		return error_set(err, ENOENT, "there is no new volume '%s'", id);
	return r < 0 ? r : 0;
}

int db_delete_volume(struct db *db, const char *id, struct warren_error *err)
{
	int r = volume_change(db, STMT_DELETE_VOLUME, id, DB_POWER_SAFE, err);

	if (r == 0)
		return error_set(err, EBUSY, "sandboxes use the volume");
	return r < 0 ? r : 0;
}

int db_forget_volume(struct db *db, const char *id, struct warren_error *err)
{
	int r = volume_change(db, STMT_FORGET_VOLUME, id, DB_CRASH_SAFE, err);

	return r < 0 ? r : 0;
}

static int volume_each_id(struct query *q, int (*fn)(void *ctx, const char *id),
			  void *ctx, struct warren_error *err)
{
	int r;

	while ((r = query_step(q, err)) > 0) {
		r = fn(ctx, column_text(q, 0));
		if (r != 0)
			return r;
	}
	return r;
}

int db_each_unfinished_volume(struct db *db, const char *after, size_t max,
			      int (*fn)(void *ctx, const char *id), void *ctx,
			      struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_UNFINISHED_VOLUMES);

	query_text(&q, after);
	query_limit(&q, max);
	return volume_each_id(&q, fn, ctx, err);
}

static void volume_read_row(const struct query *q, struct volume_row *row)
{
	*row = (struct volume_row){
		.tenant = column_text(q, 1),
		.name = column_text(q, 2),
		.size = column_u64(q, 3),
		.labels = column_text(q, 4),
		.created_at = column_int(q, 5),
		.users = column_u64(q, 7),
	};
	column_id(q, 0, row->id);
}

/* Return the row that @q found; @found is the result of query_step(). */
static int volume_give(const struct query *q, int found, const char *name,
		       struct volume_row *ret, struct warren_error *err)
{
	struct volume_row row = { 0 };
	const char **const own[] = { &row.tenant, &row.name, &row.labels };
	int r = found;

	if (r < 0)
		return r;
	if (r == 0 || column_int(q, 6) != VOLUME_READY)
		return error_set(err, ENOENT, "there is no volume '%s'", name);
	volume_read_row(q, &row);
	r = strings_own(own, ARRAY_SIZE(own), &row.block, err);
	if (r < 0)
		return r;
	*ret = row;
	return 0;
}

int db_get_volume(struct db *db, const char *tenant, const char *name,
		  struct volume_row *ret, struct warren_error *err)
{
	AUTO_QUERY struct query q = { 0 };
	int r = volume_find(db, &q, tenant, name, err);

	return volume_give(&q, r, name, ret, err);
}

int db_get_volume_by_id(struct db *db, const char *tenant, const char *id,
			struct volume_row *ret, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_GET_VOLUME_BY_ID);

	query_text(&q, tenant);
	query_text(&q, id);
	return volume_give(&q, query_step(&q, err), id, ret, err);
}

int db_each_volume(struct db *db, const char *tenant, const char *after, size_t max,
		   int (*fn)(void *ctx, const struct volume_row *row), void *ctx,
		   struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_EACH_VOLUME);
	struct volume_row row;

	query_text(&q, tenant);
	query_text(&q, after);
	query_limit(&q, max);
	return QUERY_EACH(&q, volume_read_row, &row, fn, ctx, err);
}

int db_sum_volumes(struct db *db, const char *tenant, uint64_t *ret_n,
		   uint64_t *ret_bytes, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_SUM_VOLUMES);
	int r;

	query_text(&q, tenant);
	r = query_step(&q, err);
	if (r <= 0)
		return r;
	*ret_n = column_u64(&q, 0);
	*ret_bytes = column_u64(&q, 1);
	return 0;
}

int volume_use(struct db *db, const char *id, const char *sandbox,
	       struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_USE_VOLUME);
	int r;

	query_text(&q, id);
	query_text(&q, sandbox);
	r = query_run(&q, err);
	if (r == 0)
		return error_set(err, EBUSY,
				 "a volume of the sandbox was deleted in the meantime");
	return r < 0 ? r : 0;
}

int db_each_volume_user(struct db *db, const char *id, size_t max,
			int (*fn)(void *ctx, const char *sandbox), void *ctx,
			struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_EACH_VOLUME_USER);

	query_text(&q, id);
	query_limit(&q, max);
	return volume_each_id(&q, fn, ctx, err);
}

void volume_row_done(struct volume_row *row)
{
	free(row->block);
	*row = (struct volume_row){ 0 };
}
