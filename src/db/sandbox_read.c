/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_read.c - rows of sandboxes: read one, a page, or all */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "db/db_internal.h"

/* The columns of a sandbox, in the order of statements.c. */
enum column {
	COL_SEQ,
	COL_ID,
	COL_STATE,
	COL_OWNER,
	COL_BACKEND,
	COL_IMAGE,
	COL_NETWORK,
	COL_NAME,
	COL_TEMPLATE,
	COL_SPEC,
	COL_ENFORCED,
	COL_ERROR,
	COL_MEMORY,
	COL_CPU_MILLIS,
	COL_DISK,
	COL_CREATED_AT,
	COL_CHANGED_AT,
	COL_EXPIRES_AT,
	COL_IDLE_TIMEOUT_MS,
	COL_LAST_USED,
	COL_LABELS,
	COL_TIER,
	COL_COMMAND,
	COL_ON_EXIT,
	COL_MAIN_EXEC,
};

/* Read labels in the format "key\0value\0key\0value\0"; another format means no
 * labels. */
static size_t unpack_labels(const struct query *q, struct db_label labels[DB_LABELS_MAX])
{
	const char *p = sqlite3_column_blob(q->stmt, COL_LABELS);
	const char *end = p + sqlite3_column_bytes(q->stmt, COL_LABELS);
	const char *text[2 * DB_LABELS_MAX];
	size_t n = 0;

	if (!p || end == p || end[-1] != '\0')
		return 0;
	for (; p < end && n < ARRAY_SIZE(text); p += strlen(p) + 1)
		text[n++] = p;
	for (size_t i = 0; i < n / 2; i++)
		labels[i] = (struct db_label){ text[2 * i], text[2 * i + 1] };
	return n / 2;
}

/* Read a row. Its strings belong to the statement, and its array of labels to the
 * caller. */
static int sandbox_read_row(const struct query *q, struct sandbox_row *row,
			    struct db_label labels[DB_LABELS_MAX],
			    struct warren_error *err)
{
	int64_t state = column_int(q, COL_STATE);
	int r = sandbox_state_check(state, err);

	if (r < 0)
		return r;
	*row = (struct sandbox_row){
		.seq = column_u64(q, COL_SEQ),
		.state = (enum sandbox_state)state,
		.owner = column_text(q, COL_OWNER),
		.backend = column_text(q, COL_BACKEND),
		.tier = column_text(q, COL_TIER),
		.image = column_text(q, COL_IMAGE),
		.network = column_text(q, COL_NETWORK),
		.name = column_text(q, COL_NAME),
		.template = column_text(q, COL_TEMPLATE),
		.spec = column_text(q, COL_SPEC),
		.enforced = column_text(q, COL_ENFORCED),
		.error = column_text(q, COL_ERROR),
		.memory = column_u64(q, COL_MEMORY),
		.cpu_millis = column_u64(q, COL_CPU_MILLIS),
		.disk = column_u64(q, COL_DISK),
		.created_at = column_int(q, COL_CREATED_AT),
		.changed_at = column_int(q, COL_CHANGED_AT),
		.expires_at = column_int(q, COL_EXPIRES_AT),
		.idle_timeout_ms = column_u64(q, COL_IDLE_TIMEOUT_MS),
		.last_used = column_int(q, COL_LAST_USED),
		.labels = labels,
		.command = column_text(q, COL_COMMAND),
	};
	if (column_u64(q, COL_ON_EXIT) < SANDBOX_ON_EXIT_MAX)
		row->on_exit = (enum sandbox_on_exit)column_u64(q, COL_ON_EXIT);
	column_id(q, COL_MAIN_EXEC, row->main_exec);
	column_id(q, COL_ID, row->id);
	row->n_labels = unpack_labels(q, labels);
	return 0;
}

/* Copy the strings and labels of the row. */
static int own_row(struct sandbox_row *row, struct warren_error *err)
{
	const char **at[11 + 2 * DB_LABELS_MAX] = {
		&row->owner,    &row->backend, &row->image,    &row->network,
		&row->name,     &row->spec,    &row->template, &row->error,
		&row->enforced, &row->tier,    &row->command,
	};
	size_t n = 11, size = (row->n_labels + 1) * sizeof(struct db_label);
	struct db_label *labels = malloc(size);
	int r;

	if (!labels)
		return error_errno(err, ENOMEM, "read the database");
	for (size_t i = 0; i < row->n_labels; i++) {
		labels[i] = row->labels[i];
		at[n++] = &labels[i].key;
		at[n++] = &labels[i].value;
	}
	row->labels = labels;
	r = strings_own(at, n, &row->block, err);
	if (r < 0)
		free(labels);
	return r;
}

void sandbox_row_done(struct sandbox_row *row)
{
	/* A row that owns no memory borrows its labels. */
	if (row->block)
		free((void *)row->labels);
	free(row->block);
	*row = (struct sandbox_row){ 0 };
}

int db_get_sandbox(struct db *db, const char *owner, const char *id,
		   struct sandbox_row *ret, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_GET_SANDBOX);
	struct db_label labels[DB_LABELS_MAX];
	struct sandbox_row row;
	int r;

	query_text(&q, id);
	query_text(&q, owner);
	r = query_step(&q, err);
	if (r == 0)
		return error_set(err, ENOENT, "no sandbox '%s'", id);
	if (r > 0)
		r = sandbox_read_row(&q, &row, labels, err);
	if (r == 0)
		r = own_row(&row, err);
	if (r < 0)
		return r;
	*ret = row;
	return 0;
}

/* Return the id of the only row; 0: there is none. -ENOTUNIQ: there are more. */
static int sandbox_read_only_id(struct query *q, char ret_id[ID_LEN + 1],
				struct warren_error *err)
{
	int r = query_step(q, err);

	if (r <= 0)
		return r;
	column_id(q, 0, ret_id);
	r = query_step(q, err);
	return r < 0 ? r : r == 0 ? 1 : -ENOTUNIQ;
}

static int sandbox_read_name(struct db *db, const char *owner, const char *word,
			     char ret_id[ID_LEN + 1], struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_FIND_NAME);

	query_text(&q, word);
	query_text(&q, owner);
	return sandbox_read_only_id(&q, ret_id, err);
}

static int sandbox_read_prefix(struct db *db, const char *owner, const char *word,
			       char ret_id[ID_LEN + 1], struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_FIND_PREFIX);
	char end[ID_LEN + 2];
	size_t n = strlen(word);

	if (n == 0 || n > ID_LEN)
		return 0;
	/* The upper bound of the search: a brace sorts after every character of an id. */
	(void)snprintf(end, sizeof(end), "%s{", word);
	query_text(&q, word);
	query_text(&q, end);
	query_text(&q, owner);
	return sandbox_read_only_id(&q, ret_id, err);
}

int db_find_sandbox(struct db *db, const char *owner, bool any, const char *word,
		    char ret_id[ID_LEN + 1], struct warren_error *err)
{
	int r = sandbox_read_name(db, owner, word, ret_id, err);

	if (r == 0)
		r = sandbox_read_prefix(db, owner, word, ret_id, err);
	if (r == 0 && any && strlen(word) == ID_LEN)
		r = sandbox_read_prefix(db, NULL, word, ret_id, err);
	if (r == -ENOTUNIQ)
		return error_set(err, ENOTUNIQ,
				 "'%s' is ambiguous: it begins more than one sandbox id; "
				 "use more of the id",
				 word);
	if (r == 0)
		return error_set(err, ENOENT, "there is no sandbox '%s'", word);
	return r < 0 ? r : 0;
}

static int sandbox_read_walk(struct query *q,
			     int (*fn)(void *ctx, const struct sandbox_row *row),
			     void *ctx, struct warren_error *err)
{
	struct db_label labels[DB_LABELS_MAX];
	struct sandbox_row row;
	int r;

	while ((r = query_step(q, err)) > 0) {
		r = sandbox_read_row(q, &row, labels, err);
		if (r == 0)
			r = fn(ctx, &row);
		if (r != 0)
			break;
	}
	return r;
}

int db_list_sandboxes(struct db *db, const struct sandbox_filter *filter,
		      int (*fn)(void *ctx, const struct sandbox_row *row), void *ctx,
		      struct warren_error *err)
{
	size_t max = filter->max && filter->max < DB_PAGE_MAX ? filter->max : DB_PAGE_MAX;
	AUTO_QUERY struct query q = { 0 };
	int r = query_list(db, filter, &q, err);

	if (r < 0)
		return r;
	query_u64(&q, filter->last || filter->oldest_first ? filter->last : INT64_MAX);
	query_int(&q, filter->states ? filter->states : UINT32_MAX);
	if (filter->owner)
		query_text(&q, filter->owner);
	for (size_t i = 0; i < filter->n_labels; i++) {
		query_text(&q, filter->labels[i].key);
		query_text(&q, filter->labels[i].value);
	}
	query_u64(&q, max);
	return sandbox_read_walk(&q, fn, ctx, err);
}

int db_each_sandbox(struct db *db, int (*fn)(void *ctx, const struct sandbox_row *row),
		    void *ctx, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_EACH_SANDBOX);

	return sandbox_read_walk(&q, fn, ctx, err);
}

int db_each_of_request(struct db *db, const char *owner, const char *key,
		       int (*fn)(void *ctx, const struct sandbox_row *row), void *ctx,
		       struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_EACH_OF_REQUEST);

	query_text(&q, owner);
	query_text(&q, key);
	return sandbox_read_walk(&q, fn, ctx, err);
}

int db_count_sandboxes(struct db *db, uint64_t ret[SANDBOX_STATE_MAX],
		       struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_COUNT_SANDBOXES);
	uint64_t count[SANDBOX_STATE_MAX] = { 0 };
	int r;

	while ((r = query_step(&q, err)) > 0)
		if (column_u64(&q, 0) < SANDBOX_STATE_MAX)
			count[column_u64(&q, 0)] = column_u64(&q, 1);
	if (r < 0)
		return r;
	(void)memcpy(ret, count, sizeof(count));
	return 0;
}
