/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tenant.c - tenants and their quotas; this is the only place that charges them
 *
 * A tenant's row has its limits and its usage. Both are read and written in the
 * transaction of the change that is charged, so the usage is exact, and is rolled back
 * with the change.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/list.h"
#include "db/db_internal.h"

static const char *const quota_names[] = {
	[DB_QUOTA_SANDBOXES] = "sandboxes", [DB_QUOTA_EXECS] = "execs",
	[DB_QUOTA_MEMORY] = "memory",       [DB_QUOTA_CPU_MILLIS] = "cpu_millis",
	[DB_QUOTA_DISK] = "disk",
};
_Static_assert(ARRAY_SIZE(quota_names) == DB_QUOTA_MAX, "a quota has no name");

const char *db_quota_name(enum db_quota quota)
{
	return quota_names[quota];
}

const struct denial *db_denied(const struct db *db, const struct warren_error *err)
{
	return denials_find(&db->denials, err);
}

static void tenant_read_row(const struct query *q, struct tenant_row *row)
{
	*row = (struct tenant_row){ .created_at = column_int(q, 1) };
	(void)strncpy(row->name, column_text(q, 0), DB_NAME_MAX);
	for (int i = 0; i < DB_QUOTA_MAX; i++) {
		row->limit[i] = column_u64(q, 2 + i);
		row->used[i] = column_u64(q, 2 + DB_QUOTA_MAX + i);
	}
}

int db_put_tenant(struct db *db, const char *name, const uint64_t limit[DB_QUOTA_MAX],
		  struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	AUTO_QUERY struct query q = { 0 };
	int r;

	if (!name[0] || strlen(name) > DB_NAME_MAX)
		return error_set(err, EINVAL, "a tenant's name has 1 to %d bytes",
				 DB_NAME_MAX);
	r = db_begin(db, DB_POWER_SAFE, &tx, err);
	if (r < 0)
		return r;
	q = query_start(db, STMT_PUT_TENANT);
	query_text(&q, name);
	query_int(&q, (int64_t)time(NULL) * 1000);
	for (size_t i = 0; i < DB_QUOTA_MAX; i++)
		query_u64(&q, limit[i]);
	r = query_run(&q, err);
	return r < 0 ? r : db_commit(&tx, err);
}

int db_set_quotas(struct db *db, const uint64_t limit[DB_QUOTA_MAX],
		  struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	AUTO_QUERY struct query q = { 0 };
	int r = db_begin(db, DB_POWER_SAFE, &tx, err);

	if (r < 0)
		return r;
	q = query_start(db, STMT_SET_QUOTAS);
	for (size_t i = 0; i < DB_QUOTA_MAX; i++)
		query_u64(&q, limit[i]);
	r = query_run(&q, err);
	return r < 0 ? r : db_commit(&tx, err);
}

int db_get_tenant(struct db *db, const char *name, struct tenant_row *ret,
		  struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_GET_TENANT);
	int r;

	query_text(&q, name);
	r = query_step(&q, err);
	if (r < 0)
		return r;
	if (r == 0)
		return error_set(err, ENOENT, "no tenant '%s'", name);
	tenant_read_row(&q, ret);
	return 0;
}

int db_delete_tenant(struct db *db, const char *name, struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	AUTO_QUERY struct query q = { 0 };
	struct tenant_row row = { 0 };
	int r = db_begin(db, DB_POWER_SAFE, &tx, err);

	if (r == 0)
		r = db_get_tenant(db, name, &row, err);
	if (r < 0)
		return r;
	if (row.used[DB_QUOTA_SANDBOXES] > 0)
		return error_set(err, EBUSY, "the tenant '%s' has %ju sandboxes", name,
				 (uintmax_t)row.used[DB_QUOTA_SANDBOXES]);
	q = query_start(db, STMT_DELETE_TENANT);
	query_text(&q, name);
	r = query_run(&q, err);
	return r < 0 ? r : db_commit(&tx, err);
}

/* ------------------------------------------------------------------------ charges */

struct db_hold {
	struct db_hold *next;
	char tenant[DB_NAME_MAX + 1];
	uint64_t uses[DB_QUOTA_MAX];
};

/* What the tenant uses without a row. */
static uint64_t tenant_held(const struct db *db, const char *tenant, enum db_quota quota)
{
	uint64_t sum = 0;

	for (const struct db_hold *h = db->holds; h; h = h->next)
		if (strcmp(h->tenant, tenant) == 0 &&
		    __builtin_add_overflow(sum, h->uses[quota], &sum))
			return UINT64_MAX;
	return sum;
}

/* Returning resources always succeeds, even if the limit was lowered. */
static int add_charge(struct db *db, const struct tenant_row *row, enum db_quota quota,
		      int64_t delta, int64_t *ret, struct warren_error *err)
{
	const uint64_t limit = row->limit[quota],
		       held = delta > 0 ? tenant_held(db, row->name, quota) : 0;
	int64_t used = (int64_t)row->used[quota], sum;

	if (!__builtin_add_overflow(used, delta, &sum) && sum >= 0 &&
	    (delta <= 0 || ((uint64_t)sum <= limit && held <= limit - (uint64_t)sum))) {
		*ret = sum;
		return 0;
	}
	if (delta <= 0)
		return error_set(err, EUCLEAN,
				 "the tenant '%s' is charged for less %s than it has",
				 row->name, quota_names[quota]);
	(void)error_set(
		err, EDQUOT,
		"the tenant '%s' may have %ju of %s, uses %ju, and requests %ju more",
		row->name, (uintmax_t)limit, quota_names[quota],
		(uintmax_t)(row->used[quota] + held), (uintmax_t)delta);
	denials_add(&db->denials, quota_names[quota], row->used[quota] + held, limit,
		    err);
	return -EDQUOT;
}

int db_hold(struct db *db, const char *tenant, const uint64_t uses[DB_QUOTA_MAX],
	    struct db_hold **ret, struct warren_error *err)
{
	struct tenant_row row;
	struct db_hold *h;
	int r = db_get_tenant(db, tenant, &row, err);

	for (size_t i = 0; r == 0 && i < DB_QUOTA_MAX; i++) {
		int64_t n = uses[i] > INT64_MAX ? INT64_MAX : (int64_t)uses[i], ignored;

		r = add_charge(db, &row, (enum db_quota)i, n, &ignored, err);
	}
	/* A tenant without a row has no quotas. */
	if (r < 0 && r != -ENOENT)
		return r;
	h = calloc(1, sizeof(*h));
	if (!h)
		return error_errno(err, ENOMEM, "charge the tenant '%s'", tenant);
	(void)snprintf(h->tenant, sizeof(h->tenant), "%s", tenant);
	(void)memcpy(h->uses, uses, sizeof(h->uses));
	LIST_PUSH(db->holds, h);
	*ret = h;
	return 0;
}

struct db_hold *db_release(struct db *db, struct db_hold *hold)
{
	if (hold)
		(void)LIST_REMOVE(db->holds, hold);
	free(hold);
	return NULL;
}

int tenant_charge(struct db *db, const char *tenant, const int64_t delta[DB_QUOTA_MAX],
		  struct warren_error *err)
{
	AUTO_QUERY struct query q = { 0 };
	int64_t used[DB_QUOTA_MAX];
	struct tenant_row row;
	int r = db_get_tenant(db, tenant, &row, err);

	for (size_t i = 0; r == 0 && i < DB_QUOTA_MAX; i++)
		r = add_charge(db, &row, (enum db_quota)i, delta[i], &used[i], err);
	if (r < 0)
		return r;
	q = query_start(db, STMT_CHARGE);
	for (size_t i = 0; i < DB_QUOTA_MAX; i++)
		query_int(&q, used[i]);
	query_text(&q, tenant);
	r = query_run(&q, err);
	return r < 0 ? r : 0;
}

int tenant_allows(struct db *db, const char *tenant, enum db_quota quota, int64_t n,
		  struct warren_error *err)
{
	struct tenant_row row;
	int64_t ignored;
	int r = db_get_tenant(db, tenant, &row, err);

	return r < 0 ? r : add_charge(db, &row, quota, n, &ignored, err);
}

/* --------------------------------------------------------------- check of the charges */

/* Compute the correct charge of @tenant from its rows. */
static int sum_up(struct db *db, const char *tenant, int64_t charge[DB_QUOTA_MAX],
		  struct warren_error *err)
{
	AUTO_QUERY struct query sandboxes = query_start(db, STMT_SUM_SANDBOXES);
	AUTO_QUERY struct query execs = query_start(db, STMT_SUM_EXECS);
	int r;

	query_text(&sandboxes, tenant);
	while ((r = query_step(&sandboxes, err)) > 0) {
		int64_t limits[] = { column_int(&sandboxes, 2), column_int(&sandboxes, 3),
				     column_int(&sandboxes, 4) };
		int64_t state = column_int(&sandboxes, 0);

		r = sandbox_state_check(state, err);
		if (r < 0)
			return r;
		sandbox_charge((enum sandbox_state)state, column_int(&sandboxes, 1),
			       limits, charge);
	}
	if (r < 0)
		return r;
	query_text(&execs, tenant);
	r = query_step(&execs, err);
	if (r > 0)
		charge[DB_QUOTA_EXECS] = column_int(&execs, 0);
	return r < 0 ? r : 0;
}

int tenants_check(struct db *db, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_EACH_TENANT);
	struct tenant_row row;
	int r;

	while ((r = query_step(&q, err)) > 0) {
		int64_t charge[DB_QUOTA_MAX] = { 0 };

		tenant_read_row(&q, &row);
		r = sum_up(db, row.name, charge, err);
		if (r < 0)
			return r;
		for (size_t i = 0; i < DB_QUOTA_MAX; i++)
			if ((uint64_t)charge[i] != row.used[i])
				return error_set(
					err, EUCLEAN,
					"the database is damaged: the tenant '%s' is charged "
					"with %ju of %s, but has %jd",
					row.name, (uintmax_t)row.used[i], quota_names[i],
					(intmax_t)charge[i]);
	}
	return r;
}
