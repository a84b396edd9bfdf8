/* SPDX-License-Identifier: Apache-2.0 */
/* template.c - rows of templates, their builds and their tags */
#include "db/template.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/db_internal.h"

/* Run a statement with a text and a number; returns the number of rows. */
static int template_query(struct db *db, enum db_stmt which, const char *text, int64_t n,
			  struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, which);

	query_text(&q, text);
	query_int(&q, n);
	return query_run(&q, err);
}

/* ------------------------------------------------------------------- templates */

static void template_read(const struct query *q, struct template_row *row)
{
	*row = (struct template_row){
		.tenant = column_text(q, 1),
		.name = column_text(q, 2),
		.created_at = column_int(q, 3),
		.updated_at = column_int(q, 4),
		.build = column_text(q, 5),
		.spec = column_text(q, 6),
		.state = (enum template_state)column_int(q, 7),
		.builds = column_u64(q, 8),
	};
	column_id(q, 0, row->id);
	if (!row->build)
		row->build = "";
	if (!row->spec)
		row->spec = "{}";
}

int db_get_template(struct db *db, const char *tenant, const char *word,
		    struct template_row *ret, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_GET_TEMPLATE);
	struct template_row row = { 0 };
	const char **const own[] = { &row.tenant, &row.name, &row.build, &row.spec };
	int r;

	query_text(&q, tenant);
	query_text(&q, word);
	r = query_step(&q, err);
	if (r == 0)
		return error_set(err, ENOENT, "there is no template '%.128s'", word);
	if (r < 0)
		return r;
	template_read(&q, &row);
	r = strings_own(own, ARRAY_SIZE(own), &row.block, err);
	if (r < 0)
		return r;
	*ret = row;
	return 0;
}

static int template_check_number(struct db *db, const char *tenant,
				 struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_COUNT_TEMPLATES);
	uint64_t n = 0;
	int r;

	query_text(&q, tenant);
	r = query_number(&q, &n, err);
	if (r == 0 && n >= TEMPLATES_MAX)
		return error_set(err, EUSERS,
				 "the tenant '%s' has %d templates, as many as are "
				 "allowed: delete some",
				 tenant, TEMPLATES_MAX);
	return r;
}

static int template_insert(struct db *db, const struct template_row *row,
			   struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_INSERT_TEMPLATE);
	int r;

	query_text(&q, row->id);
	query_text(&q, row->tenant);
	query_text(&q, row->name);
	query_int(&q, row->created_at);
	r = query_run(&q, err);
	return r < 0 ? r : 0;
}

int db_put_template(struct db *db, const struct template_row *row, char ret[ID_LEN + 1],
		    struct warren_error *err)
{
	AUTO_TEMPLATE_ROW struct template_row found = { 0 };
	AUTO_DB_TX struct db_tx tx = { 0 };
	struct tenant_row tenant;
	int r = db_begin(db, DB_POWER_SAFE, &tx, err);

	if (r == 0)
		r = db_get_tenant(db, row->tenant, &tenant, err);
	if (r < 0)
		return r;
	r = db_get_template(db, row->tenant, row->name, &found, err);
	if (r == -ENOENT) {
		*err = (struct warren_error)WARREN_ERROR_INIT;
		r = template_check_number(db, row->tenant, err);
		if (r == 0)
			r = template_insert(db, row, err);
	}
	if (r == 0)
		r = db_commit(&tx, err);
	if (r == 0)
		(void)memcpy(ret, found.id[0] ? found.id : row->id, ID_LEN + 1);
	return r;
}

int db_each_template(struct db *db, const char *tenant, const char *after, size_t max,
		     int (*fn)(void *ctx, const struct template_row *row), void *ctx,
		     struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_EACH_TEMPLATE);
	struct template_row row;

	query_text(&q, tenant);
	query_text(&q, after);
	query_limit(&q, max);
	return QUERY_EACH(&q, template_read, &row, fn, ctx, err);
}

int db_delete_template(struct db *db, const char *id, struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	AUTO_QUERY struct query q = { 0 };
	int r = db_begin(db, DB_POWER_SAFE, &tx, err);

	if (r == 0)
		r = template_query(db, STMT_ORPHAN_BUILDS, id, 1, err);
	if (r < 0)
		return r;
	q = query_start(db, STMT_DELETE_TEMPLATE);
	query_text(&q, id);
	r = query_run(&q, err);
	return r < 0 ? r : db_commit(&tx, err);
}

void template_row_done(struct template_row *row)
{
	free(row->block);
	*row = (struct template_row){ 0 };
}

/* ---------------------------------------------------------------------- builds */

static void template_build_read(const struct query *q, struct template_build_row *row)
{
	*row = (struct template_build_row){
		.state = (enum template_state)column_int(q, 2),
		.snapshot = column_text(q, 3),
		.spec = column_text(q, 4),
		.reason = column_text(q, 5),
		.step = column_text(q, 6),
		.logs = column_text(q, 7),
		.created_at = column_int(q, 8),
		.ended_at = column_int(q, 9),
	};
	(void)snprintf(row->id, sizeof(row->id), "%s", column_text(q, 0));
	column_id(q, 1, row->template);
}

static int template_build_get(struct db *db, enum db_stmt which, const char *template,
			      const char *word, struct template_build_row *ret,
			      struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, which);
	struct template_build_row row = { 0 };
	const char **const own[] = { &row.snapshot, &row.spec, &row.reason, &row.step,
				     &row.logs };
	int r;

	query_text(&q, template);
	query_text(&q, word);
	r = query_step(&q, err);
	if (r == 0)
		return error_set(err, ENOENT, "the template has no %s '%.128s'",
				 which == STMT_GET_BUILD ? "build" : "tag", word);
	if (r < 0)
		return r;
	template_build_read(&q, &row);
	r = strings_own(own, ARRAY_SIZE(own), &row.block, err);
	if (r < 0)
		return r;
	*ret = row;
	return 0;
}

int db_get_template_build(struct db *db, const char *template, const char *id,
			  struct template_build_row *ret, struct warren_error *err)
{
	return template_build_get(db, STMT_GET_BUILD, template, id, ret, err);
}

int db_insert_template_build(struct db *db, const struct template_build_row *row,
			     struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	AUTO_QUERY struct query q = { 0 };
	int r = db_begin(db, DB_CRASH_SAFE, &tx, err);

	if (r < 0)
		return r;
	q = query_start(db, STMT_INSERT_BUILD);
	query_text(&q, row->id);
	query_text(&q, row->template);
	query_int(&q, row->state);
	query_text(&q, row->spec);
	query_int(&q, row->created_at);
	r = query_run(&q, err);
	if (r >= 0)
		r = template_query(db, STMT_PRUNE_BUILDS, row->template,
				   TEMPLATE_BUILDS_MAX, err);
	return r < 0 ? r : db_commit(&tx, err);
}

static int template_build_set(struct db *db, const struct template_build_row *row,
			      struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_SET_BUILD);
	int r;

	query_text(&q, row->id);
	query_int(&q, row->state);
	query_text(&q, row->snapshot);
	query_text(&q, row->spec);
	query_text(&q, row->reason);
	query_text(&q, row->step);
	query_text(&q, row->logs);
	query_int(&q, row->ended_at);
	r = query_run(&q, err);
	if (r == 0)
		return error_set(err, ENOENT, "the build has ended, or was deleted");
	if (r > 0 && row->state >= TEMPLATE_READY)
		r = template_query(db, STMT_DROP_BUILD_LOGS, row->template,
				   TEMPLATE_LOGS_MAX, err);
	return r < 0 ? r : 0;
}

int db_set_template_build(struct db *db, const struct template_build_row *row,
			  struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	int r = db_begin(db, DB_CRASH_SAFE, &tx, err);

	if (r == 0)
		r = template_build_set(db, row, err);
	return r < 0 ? r : db_commit(&tx, err);
}

static int template_keep_files(struct db *db, const char *snapshot,
			       struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_KEEP_SNAPSHOT);
	int r;

	query_text(&q, snapshot);
	r = query_run(&q, err);
	return r < 0 ? r : 0;
}

int db_end_template_builds(struct db *db, const char *reason, int64_t now,
			   struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	int r = db_begin(db, DB_CRASH_SAFE, &tx, err);

	if (r == 0)
		r = template_query(db, STMT_END_BUILDS, reason, now, err);
	return r < 0 ? r : db_commit(&tx, err);
}

void template_build_row_done(struct template_build_row *row)
{
	free(row->block);
	*row = (struct template_build_row){ 0 };
}

/* ------------------------------------------------------------------------ tags */

static int template_count_tag(void *ctx, const char *tag UNUSED, const char *build UNUSED,
			      int64_t created_at UNUSED)
{
	++*(size_t *)ctx;
	return 0;
}

/* Within a transaction. Files of builds that lost their last tag are not kept. */
static int template_put_tags(struct db *db, const char *template, const char *build,
			     const char *const *tags, size_t n, int64_t now,
			     struct warren_error *err)
{
	size_t count = 0;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++) {
		AUTO_QUERY struct query q = query_start(db, STMT_PUT_TEMPLATE_TAG);

		query_text(&q, template);
		query_text(&q, tags[i]);
		query_text(&q, build);
		query_int(&q, now);
		r = query_run(&q, err);
	}
	if (r >= 0)
		r = db_each_template_tag(db, template, template_count_tag, &count, err);
	if (r >= 0 && count > TEMPLATE_TAGS_MAX)
		r = error_set(err, EUSERS, "the template has more than %d tags",
			      TEMPLATE_TAGS_MAX);
	if (r >= 0)
		r = template_query(db, STMT_ORPHAN_BUILDS, template, 0, err);
	if (r >= 0)
		r = template_query(db, STMT_TOUCH_TEMPLATE, template, now, err);
	return r < 0 ? r : 0;
}

int db_finish_template_build(struct db *db, const struct template_build_row *row,
			     const char *const *tags, size_t n, struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	int r = db_begin(db, DB_POWER_SAFE, &tx, err);

	if (r == 0)
		r = template_build_set(db, row, err);
	if (r == 0)
		r = template_keep_files(db, row->snapshot, err);
	if (r == 0)
		r = template_put_tags(db, row->template, row->id, tags, n, row->ended_at,
				      err);
	return r < 0 ? r : db_commit(&tx, err);
}

int db_tag_template(struct db *db, const char *template, const char *build,
		    const char *const *tags, size_t n, int64_t now,
		    struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	int r = db_begin(db, DB_POWER_SAFE, &tx, err);

	if (r == 0)
		r = template_put_tags(db, template, build, tags, n, now, err);
	return r < 0 ? r : db_commit(&tx, err);
}

int db_untag_template(struct db *db, const char *template, const char *const *tags,
		      size_t n, struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	int r = db_begin(db, DB_POWER_SAFE, &tx, err);

	for (size_t i = 0; r >= 0 && i < n; i++) {
		AUTO_QUERY struct query q = query_start(db, STMT_DELETE_TEMPLATE_TAG);

		query_text(&q, template);
		query_text(&q, tags[i]);
		r = query_run(&q, err);
		if (r == 0)
			r = error_set(err, ENOENT, "the template has no tag '%.128s'",
				      tags[i]);
	}
	if (r >= 0)
		r = template_query(db, STMT_ORPHAN_BUILDS, template, 0, err);
	return r < 0 ? r : db_commit(&tx, err);
}

int db_find_template_tag(struct db *db, const char *template, const char *tag,
			 struct template_build_row *ret, struct warren_error *err)
{
	return template_build_get(db, STMT_TAGGED_BUILD, template, tag, ret, err);
}

int db_find_snapshot_build(struct db *db, const char *template, const char *snapshot,
			   struct template_build_row *ret, struct warren_error *err)
{
	return template_build_get(db, STMT_SNAPSHOT_BUILD, template, snapshot, ret, err);
}

int db_each_template_tag(struct db *db, const char *template,
			 int (*fn)(void *ctx, const char *tag, const char *build,
				   int64_t created_at),
			 void *ctx, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_EACH_TEMPLATE_TAG);
	int r;

	query_text(&q, template);
	while ((r = query_step(&q, err)) > 0) {
		r = fn(ctx, column_text(&q, 0), column_text(&q, 1), column_int(&q, 2));
		if (r != 0)
			return r;
	}
	return r;
}

int db_count_snapshot_tags(struct db *db, const char *snapshot, uint64_t *ret,
			   struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_COUNT_SNAPSHOT_TAGS);

	query_text(&q, snapshot);
	return query_number(&q, ret, err);
}
