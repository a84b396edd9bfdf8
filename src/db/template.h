/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template.h - rows of templates that clients have built
 *
 * A template has a name and any number of builds. A tag of the template names a build.
 * The files of a build are a snapshot, which is deleted when no tag names the build and
 * no sandbox uses it.
 */
#ifndef DB_TEMPLATE_H
#define DB_TEMPLATE_H

#include "db/db.h"

#define TEMPLATES_MAX       1000 /* maximum number per tenant */
#define TEMPLATE_BUILDS_MAX 20   /* without a tag, per template */
#define TEMPLATE_TAGS_MAX   100  /* maximum number per template */
#define TEMPLATE_LOGS_MAX   64   /* builds of a tenant whose logs are kept */
#define TEMPLATE_UUID_LEN   36

/* The state of a build; the numbers are in the database. */
enum template_state {
	TEMPLATE_WAITING, /* it was requested, and has not begun */
	TEMPLATE_BUILDING,
	TEMPLATE_READY,
	TEMPLATE_ERROR,
	TEMPLATE_STATE_MAX,
};

struct template_row {
	char id[ID_LEN + 1];
	const char *tenant, *name;
	int64_t created_at, updated_at;
	/* The newest build; "": none. */
	const char *build, *spec;
	enum template_state state;
	uint64_t builds; /* number of builds that are kept */
	void *block;
};

struct template_build_row {
	char id[TEMPLATE_UUID_LEN + 1];
	char template[ID_LEN + 1];
	enum template_state state;
	const char *snapshot;      /* "": none */
	const char *spec;          /* a JSON object */
	const char *reason, *step; /* why and where it failed */
	const char *logs;          /* a JSON object on each line; "": dropped */
	int64_t created_at, ended_at;
	void *block;
};

/*
 * Find the template @row->name of @row->tenant, or create it with @row->id; the id is
 * written to @ret. -EUSERS: the tenant has TEMPLATES_MAX templates.
 */
int db_put_template(struct db *db, const struct template_row *row, char ret[ID_LEN + 1],
		    struct warren_error *err) MUST_CHECK;
/* Find a template by id or name. -ENOENT: the tenant has no such template. */
int db_get_template(struct db *db, const char *tenant, const char *word,
		    struct template_row *ret, struct warren_error *err) MUST_CHECK;
/* The templates of a tenant after the id @after (""), at most @max (0: all). */
int db_each_template(struct db *db, const char *tenant, const char *after, size_t max,
		     int (*fn)(void *ctx, const struct template_row *row), void *ctx,
		     struct warren_error *err) MUST_CHECK;
/* Delete it with its builds; their files are deleted when no sandbox uses them. */
int db_delete_template(struct db *db, const char *id,
		       struct warren_error *err) MUST_CHECK;
void template_row_done(struct template_row *row);

/* Insert id, template, state, spec and created_at. */
int db_insert_template_build(struct db *db, const struct template_build_row *row,
			     struct warren_error *err) MUST_CHECK;
/* -ENOENT: the template has no such build. */
int db_get_template_build(struct db *db, const char *template, const char *id,
			  struct template_build_row *ret,
			  struct warren_error *err) MUST_CHECK;
/* Change everything but id, template and created_at of a build that has not ended. */
int db_set_template_build(struct db *db, const struct template_build_row *row,
			  struct warren_error *err) MUST_CHECK;
/* The same for a build that is ready: keep its files, and give it the tags. */
int db_finish_template_build(struct db *db, const struct template_build_row *row,
			     const char *const *tags, size_t n,
			     struct warren_error *err) MUST_CHECK;
/* Builds of an earlier process have failed, for @reason. */
int db_end_template_builds(struct db *db, const char *reason, int64_t now,
			   struct warren_error *err) MUST_CHECK;
void template_build_row_done(struct template_build_row *row);

/* Find the build with the tag. */
int db_find_template_tag(struct db *db, const char *template, const char *tag,
			 struct template_build_row *ret,
			 struct warren_error *err) MUST_CHECK;
/* Find the build whose files are this snapshot. */
int db_find_snapshot_build(struct db *db, const char *template, const char *snapshot,
			   struct template_build_row *ret,
			   struct warren_error *err) MUST_CHECK;
/* Give the build the tags. -EUSERS: the template has too many. */
int db_tag_template(struct db *db, const char *template, const char *build,
		    const char *const *tags, size_t n, int64_t now,
		    struct warren_error *err) MUST_CHECK;
/* Remove the tags. -ENOENT: there is no such tag. */
int db_untag_template(struct db *db, const char *template, const char *const *tags,
		      size_t n, struct warren_error *err) MUST_CHECK;
int db_each_template_tag(struct db *db, const char *template,
			 int (*fn)(void *ctx, const char *tag, const char *build,
				   int64_t created_at),
			 void *ctx, struct warren_error *err) MUST_CHECK;

/* Number of tags that keep the snapshot. */
int db_count_snapshot_tags(struct db *db, const char *snapshot, uint64_t *ret,
			   struct warren_error *err) MUST_CHECK;

#define AUTO_TEMPLATE_ROW       CLEANUP(template_row_done)
#define AUTO_TEMPLATE_BUILD_ROW CLEANUP(template_build_row_done)

#endif /* DB_TEMPLATE_H */
