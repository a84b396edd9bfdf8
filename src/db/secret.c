/* SPDX-License-Identifier: Apache-2.0 */
/* secret.c - secrets by tenant and name; the values are already encrypted */
#include <errno.h>
#include <string.h>

#include "db/db_internal.h"

int db_count_secrets(struct db *db, const char *tenant, uint64_t *ret,
		     struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_COUNT_SECRETS);

	query_text(&q, tenant);
	return query_number(&q, ret, err);
}

/* Does the tenant have the secret? Return 1, 0 or -errno. */
static int secret_exists(struct db *db, const struct secret_row *row,
			 struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_GET_SECRET);

	query_text(&q, row->tenant);
	query_text(&q, row->name);
	return query_step(&q, err);
}

/* Check that the tenant may have one more secret, if this one is new. */
static int secret_check_room(struct db *db, const struct secret_row *row,
			     struct warren_error *err)
{
	struct tenant_row tenant;
	uint64_t n = 0;
	int r = db_get_tenant(db, row->tenant, &tenant, err);

	if (r == 0)
		r = db_count_secrets(db, row->tenant, &n, err);
	if (r == 0 && n >= DB_SECRETS_MAX)
		r = error_set(err, EUSERS,
			      "a tenant can have at most %d secrets: delete some",
			      DB_SECRETS_MAX);
	return r;
}

int db_put_secret(struct db *db, const struct secret_row *row, struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	AUTO_QUERY struct query q = { 0 };
	int r = db_begin(db, DB_POWER_SAFE, &tx, err), found;

	if (r < 0)
		return r;
	found = secret_exists(db, row, err);
	r = found < 0 ? found : 0;
	if (found == 0)
		r = secret_check_room(db, row, err);
	if (r < 0)
		return r;
	q = query_start(db, STMT_PUT_SECRET);
	query_text(&q, row->tenant);
	query_text(&q, row->name);
	query_blob(&q, row->sealed, row->sealed_n);
	query_int(&q, row->updated_at);
	r = query_run(&q, err);
	if (r >= 0)
		r = db_commit(&tx, err);
	return r < 0 ? r : !found;
}

static void secret_read_row(const struct query *q, struct secret_row *row)
{
	*row = (struct secret_row){
		.tenant = column_text(q, 0),
		.name = column_text(q, 1),
		.created_at = column_int(q, 2),
		.updated_at = column_int(q, 3),
		.sealed = sqlite3_column_blob(q->stmt, 4),
		.sealed_n = (size_t)sqlite3_column_bytes(q->stmt, 4),
	};
}

/* Copy the strings, which belong to the statement, into one block. */
static int secret_own(struct secret_row *row, struct warren_error *err)
{
	size_t tenant = strlen(row->tenant) + 1, name = strlen(row->name) + 1;
	char *block = malloc(tenant + name + row->sealed_n);

	if (!block)
		return error_errno(err, ENOMEM, "read a secret");
	(void)memcpy(block, row->tenant, tenant);
	(void)memcpy(block + tenant, row->name, name);
	if (row->sealed_n > 0)
		(void)memcpy(block + tenant + name, row->sealed, row->sealed_n);
	row->tenant = block;
	row->name = block + tenant;
	row->sealed = block + tenant + name;
	row->block = block;
	return 0;
}

int db_get_secret(struct db *db, const char *tenant, const char *name,
		  struct secret_row *ret, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_GET_SECRET);
	struct secret_row row;
	int r;

	query_text(&q, tenant);
	query_text(&q, name);
	r = query_step(&q, err);
	if (r < 0)
		return r;
	if (r == 0)
		return error_set(err, ENOENT, "no secret '%s'", name);
	secret_read_row(&q, &row);
	r = secret_own(&row, err);
	if (r < 0)
		return r;
	*ret = row;
	return 0;
}

int db_each_secret(struct db *db, const char *tenant, const char *after, size_t max,
		   int (*fn)(void *ctx, const struct secret_row *row), void *ctx,
		   struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_EACH_SECRET);
	struct secret_row row;

	query_text(&q, tenant);
	query_text(&q, after);
	query_limit(&q, max);
	return QUERY_EACH(&q, secret_read_row, &row, fn, ctx, err);
}

int db_delete_secret(struct db *db, const char *tenant, const char *name,
		     struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	AUTO_QUERY struct query q = { 0 };
	int r = db_begin(db, DB_POWER_SAFE, &tx, err);

	if (r < 0)
		return r;
	q = query_start(db, STMT_DELETE_SECRET);
	query_text(&q, tenant);
	query_text(&q, name);
	r = query_run(&q, err);
	if (r == 0)
		return error_set(err, ENOENT, "no secret '%s'", name);
	return r < 0 ? r : db_commit(&tx, err);
}

void secret_row_done(struct secret_row *row)
{
	free(row->block);
	*row = (struct secret_row){ 0 };
}
