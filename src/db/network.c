/* SPDX-License-Identifier: Apache-2.0 */
/* network.c - rows of network policies and network usage */
#include <errno.h>
#include <string.h>

#include "db/db_internal.h"

int db_set_policy(struct db *db, const char *id, const char *policy,
		  struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_SET_POLICY);
	int r;

	query_text(&q, id);
	query_text(&q, policy);
	r = query_run(&q, err);
	return r < 0 ? r : 0;
}

int db_get_policy(struct db *db, const char *id, char **ret, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_GET_POLICY);
	const char *text;
	int r;

	query_text(&q, id);
	r = query_step(&q, err);
	if (r < 0)
		return r;
	text = r > 0 ? column_text(&q, 0) : NULL;
	if (!text || !text[0])
		return error_set(err, ENOENT, "sandbox '%s' has no network policy", id);
	*ret = strdup(text);
	return *ret ? 0 : error_errno(err, ENOMEM, "read the database");
}

int db_set_network(struct db *db, const char *id, const uint64_t used[DB_NETWORK_MAX],
		   struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_SET_NETWORK);
	int r;

	for (size_t i = 0; i < DB_NETWORK_MAX; i++)
		query_u64(&q, used[i]);
	query_text(&q, id);
	r = query_run(&q, err);
	return r < 0 ? r : 0;
}

int db_get_network(struct db *db, const char *id, uint64_t ret[DB_NETWORK_MAX],
		   struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_GET_NETWORK);
	int r;

	query_text(&q, id);
	r = query_step(&q, err);
	if (r == 0)
		return error_set(err, ENOENT, "sandbox '%s' has no network policy", id);
	for (int i = 0; r > 0 && i < DB_NETWORK_MAX; i++)
		ret[i] = column_u64(&q, i);
	return r < 0 ? r : 0;
}
