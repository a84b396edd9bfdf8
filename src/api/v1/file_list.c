/* SPDX-License-Identifier: Apache-2.0 */
/* file_list.c - handler: list a directory, some levels deep */
#include <errno.h>

#include "api/v1/file.h"

#define LIST_BYTES_MAX (64U << 20)

struct listing {
	struct file_call fc;
	struct walk *walk;
	struct buf out;
	struct json json;
	unsigned depth;
	uint64_t limit, n;
	bool truncated;
};

static void listing_done(struct file_call *fc)
{
	struct listing *l = (struct listing *)fc;

	l->walk = walk_free(l->walk);
	buf_done(&l->out);
}

static enum walk_say file_list_on_entry(void *ctx, const struct walk_entry *e)
{
	struct listing *l = ctx;

	if (l->n >= l->limit) {
		l->truncated = true;
		return WALK_STOP;
	}
	l->n++;
	show_file(&l->json, e->path, e->found);
	return WALK_ON;
}

static void file_list_on_end(void *ctx, int r, const struct warren_error *err)
{
	struct listing *l = ctx;

	l->walk = NULL;
	if (r < 0) {
		file_fail(l->fc.call, err);
		return;
	}
	json_close(&l->json, ']');
	json_bool(&l->json, "truncated", l->truncated);
	json_close(&l->json, '}');
	call_json(l->fc.call, 200, &l->out);
}

static void file_list_begun(struct file_call *fc)
{
	struct listing *l = (struct listing *)fc;
	struct walk_options options = { .depth = l->depth,
					.sorted = (unsigned)l->limit + 1,
					.entry = file_list_on_entry,
					.end = file_list_on_end };

	json_open(&l->json, NULL, '{');
	json_open(&l->json, "entries", '[');
	walk_start(fc->files, fc->path, &options, l, &l->walk);
}

void v1_list_files(struct call *c)
{
	struct api_value *v = c->query.v;
	struct listing *l = calloc(1, sizeof(*l));

	if (l) {
		l->fc.begun = file_list_begun;
		l->fc.done = listing_done;
		l->out = (struct buf)BUF_INIT(LIST_BYTES_MAX);
		l->json = (struct json){ .out = &l->out };
		l->depth = (unsigned)v[V1_LIST_FILES_QUERY_DEPTH].number;
		l->limit = (uint64_t)v[V1_LIST_FILES_QUERY_LIMIT].number;
	}
	file_begin(c, l ? &l->fc : NULL, v[V1_LIST_FILES_QUERY_PATH].text,
		   v[V1_LIST_FILES_QUERY_USER].text);
}
