/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.c - rows of snapshots, their names, and the sandboxes created from them */
#include <errno.h>
#include <string.h>

#include "db/db_internal.h"

#define SNAPSHOT_WORD_MAX 128

/* Run a statement with up to three texts; returns the number of rows. */
static int snapshot_query(struct db *db, enum db_stmt which, const char *a, const char *b,
			  const char *c, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, which);

	query_text(&q, a);
	if (b)
		query_text(&q, b);
	if (c)
		query_text(&q, c);
	return query_run(&q, err);
}

int db_insert_snapshot(struct db *db, const struct snapshot_row *row,
		       struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	AUTO_QUERY struct query q = { 0 };
	struct tenant_row tenant;
	int r = db_begin(db, DB_CRASH_SAFE, &tx, err);

	if (r == 0)
		r = db_get_tenant(db, row->tenant, &tenant, err);
	if (r < 0)
		return r;
	q = query_start(db, STMT_INSERT_SNAPSHOT);
	query_text(&q, row->id);
	query_text(&q, row->tenant);
	query_text(&q, row->source);
	query_int(&q, row->transient);
	query_text(&q, row->labels);
	query_int(&q, row->created_at);
	r = query_run(&q, err);
	return r < 0 ? r : db_commit(&tx, err);
}

/* "name:latest" is "name". */
static const char *snapshot_plain(const char *word, char room[SNAPSHOT_WORD_MAX])
{
	static const char latest[] = ":latest";
	size_t n = strlen(word), end = sizeof(latest) - 1;

	if (n <= end || n >= SNAPSHOT_WORD_MAX || strcmp(word + n - end, latest) != 0)
		return word;
	(void)memcpy(room, word, n - end);
	room[n - end] = '\0';
	return room;
}

/* The snapshot that had the name before is deleted when no sandbox uses it. */
static int snapshot_name(struct db *db, const char *tenant, const char *id,
			 const char *word, struct warren_error *err)
{
	char room[SNAPSHOT_WORD_MAX];
	const char *name = snapshot_plain(word, room);
	int r = snapshot_query(db, STMT_ORPHAN_SNAPSHOT, tenant, name, id, err);

	if (r >= 0)
		r = snapshot_query(db, STMT_NAME_SNAPSHOT, tenant, name, id, err);
	if (r >= 0)
		r = snapshot_query(db, STMT_KEEP_SNAPSHOT, id, NULL, NULL, err);
	return r < 0 ? r : 0;
}

int db_finish_snapshot(struct db *db, const struct snapshot_row *row, const char *name,
		       struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	AUTO_QUERY struct query q = { 0 };
	int r = db_begin(db, DB_POWER_SAFE, &tx, err);

	if (r < 0)
		return r;
	q = query_start(db, STMT_FINISH_SNAPSHOT);
	query_text(&q, row->image);
	query_u64(&q, row->size);
	query_text(&q, row->id);
	r = query_run(&q, err);
	if (r == 0)
		return error_set(err, ENOENT, "there is no new snapshot '%s'", row->id);
	if (r > 0)
		r = name ? snapshot_name(db, row->tenant, row->id, name, err) : 0;
	return r < 0 ? r : db_commit(&tx, err);
}

int db_name_snapshot(struct db *db, const char *tenant, const char *id, const char *name,
		     struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	int r = db_begin(db, DB_POWER_SAFE, &tx, err);

	if (r == 0)
		r = snapshot_name(db, tenant, id, name, err);
	return r < 0 ? r : db_commit(&tx, err);
}

int db_unname_snapshot(struct db *db, const char *tenant, const char *id,
		       const char *name, struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	char room[SNAPSHOT_WORD_MAX];
	int r = db_begin(db, DB_POWER_SAFE, &tx, err);

	if (r == 0)
		r = name ? snapshot_query(db, STMT_UNNAME_SNAPSHOT, tenant,
					  snapshot_plain(name, room), NULL, err)
			 : snapshot_query(db, STMT_UNNAME_ALL, id, NULL, NULL, err);
	if (r >= 0)
		r = snapshot_query(db, STMT_DROP_SNAPSHOT, id, NULL, NULL, err);
	return r < 0 ? r : db_commit(&tx, err);
}

static int snapshot_change(struct db *db, enum db_stmt which, const char *id,
			   struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	int r = db_begin(db, DB_CRASH_SAFE, &tx, err), n;

	if (r < 0)
		return r;
	n = snapshot_query(db, which, id, NULL, NULL, err);
	if (n < 0)
		return n;
	r = db_commit(&tx, err);
	return r < 0 ? r : n;
}

int db_delete_snapshot(struct db *db, const char *id, struct warren_error *err)
{
	int r = snapshot_change(db, STMT_DELETE_SNAPSHOT, id, err);

	if (r == 0)
		return error_set(err, EBUSY, "sandboxes or a template use the snapshot");
	return r < 0 ? r : 0;
}

int db_forget_snapshot(struct db *db, const char *id, struct warren_error *err)
{
	int r = snapshot_change(db, STMT_FORGET_SNAPSHOT, id, err);

	return r < 0 ? r : 0;
}

int db_each_dead_snapshot(struct db *db, size_t max, int (*fn)(void *ctx, const char *id),
			  void *ctx, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_DEAD_SNAPSHOTS);
	int r;

	query_limit(&q, max);
	while ((r = query_step(&q, err)) > 0) {
		r = fn(ctx, column_text(&q, 0));
		if (r != 0)
			return r;
	}
	return r;
}

static void snapshot_read_row(const struct query *q, struct snapshot_row *row)
{
	*row = (struct snapshot_row){
		.tenant = column_text(q, 1),
		.source = column_text(q, 2),
		.image = column_text(q, 3),
		.size = column_u64(q, 4),
		.labels = column_text(q, 5),
		.created_at = column_int(q, 6),
		.names = column_text(q, 7),
		.users = column_u64(q, 8),
		.transient = column_int(q, 9) != 0,
	};
	if (!row->names)
		row->names = "";
	column_id(q, 0, row->id);
}

int db_get_snapshot(struct db *db, const char *tenant, const char *word,
		    struct snapshot_row *ret, struct warren_error *err)
{
	char room[SNAPSHOT_WORD_MAX];
	AUTO_QUERY struct query q = query_start(db, STMT_GET_SNAPSHOT);
	struct snapshot_row row = { 0 };
	const char **const own[] = { &row.tenant, &row.source, &row.image, &row.labels,
				     &row.names };
	int r;

	query_text(&q, tenant);
	query_text(&q, snapshot_plain(word, room));
	r = query_step(&q, err);
	if (r == 0)
		return error_set(err, ENOENT, "there is no snapshot '%.128s'", word);
	if (r < 0)
		return r;
	snapshot_read_row(&q, &row);
	r = strings_own(own, ARRAY_SIZE(own), &row.block, err);
	if (r < 0)
		return r;
	*ret = row;
	return 0;
}

int db_each_snapshot(struct db *db, const char *tenant, const char *after, size_t max,
		     int (*fn)(void *ctx, const struct snapshot_row *row), void *ctx,
		     struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_EACH_SNAPSHOT);
	struct snapshot_row row;

	query_text(&q, tenant);
	query_text(&q, after);
	query_limit(&q, max);
	return QUERY_EACH(&q, snapshot_read_row, &row, fn, ctx, err);
}

int db_sum_snapshots(struct db *db, const char *tenant, uint64_t *ret_n,
		     uint64_t *ret_bytes, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_SUM_SNAPSHOTS);
	int r;

	query_text(&q, tenant);
	r = query_step(&q, err);
	if (r <= 0)
		return r;
	*ret_n = column_u64(&q, 0);
	*ret_bytes = column_u64(&q, 1);
	return 0;
}

int snapshot_use(struct db *db, const char *id, const char *sandbox,
		 struct warren_error *err)
{
	int r = snapshot_query(db, STMT_USE_SNAPSHOT, id, sandbox, NULL, err);

	if (r == 0)
		return error_set(
			err, EBUSY,
			"the snapshot of the sandbox was deleted in the meantime");
	return r < 0 ? r : 0;
}

int db_is_snapshot_image(struct db *db, const char *image, struct warren_error *err)
{
	AUTO_QUERY struct query q = { 0 };
	const char *hex = strncmp(image, "sha256:", 7) == 0 ? image + 7 : image;
	char id[7 + 64 + 1] = "sha256:";

	if (strlen(hex) != 64)
		return 0; /* not a whole id */
	(void)memcpy(id + 7, hex, 65);
	q = query_start(db, STMT_SNAPSHOT_OF_IMAGE);
	query_text(&q, id);
	return query_step(&q, err);
}

int db_has_snapshot(struct db *db, const char *sandbox, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_SNAPSHOT_OF);

	query_text(&q, sandbox);
	return query_step(&q, err);
}

void snapshot_row_done(struct snapshot_row *row)
{
	free(row->block);
	*row = (struct snapshot_row){ 0 };
}
