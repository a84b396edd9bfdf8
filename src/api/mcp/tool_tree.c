/* SPDX-License-Identifier: Apache-2.0 */
/* tool_tree.c - tools for directories: list_files and search_files */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/mcp/internal.h"
#include "api/path.h"
#include "base/date.h"
#include "service/files/files.h"
#include "service/files/search.h"

#define LISTING_MAX     (4U << 20) /* maximum size of all entries */
#define MATCH_TEXT_MAX  512U
#define SEARCH_MS       30000
#define SEARCH_FILE_MAX (64ULL << 20)

struct mcp_tree {
	struct mcp_call *call;
	struct files *files;
	char path[API_PATH_MAX];
	struct walk *walk;
	struct search *search;
	struct search_options options; /* owns its patterns until the search begins */
	int64_t limit, n;
	bool truncated;
	struct buf out;
	struct json json;
	void (*begun)(struct mcp_tree *t);
};

static const char *tree_type(uint32_t mode)
{
	return S_ISDIR(mode)   ? "directory"
	       : S_ISLNK(mode) ? "link"
	       : S_ISREG(mode) ? "file"
			       : "special";
}

static void tree_stop(struct mcp_call *c)
{
	struct mcp_tree *t = c->state;

	t->walk = walk_free(t->walk);
	t->search = search_free(t->search);
	t->options.name = pattern_free(t->options.name);
	t->options.content = pattern_free(t->options.content);
	t->files = files_end(t->files);
	buf_done(&t->out);
	free(t);
}

/* Return NULL if the call was answered. */
static struct mcp_tree *tree_new(struct mcp_call *c, struct sandbox *sandbox,
				 void (*begun)(struct mcp_tree *t))
{
	struct mcp_tree *t = calloc(1, sizeof(*t));

	if (!t) {
		mcp_tool_error(c, "out of memory; try again");
		return NULL;
	}
	t->call = c;
	t->begun = begun;
	t->out = (struct buf)BUF_INIT(LISTING_MAX);
	t->json = (struct json){ .out = &t->out };
	c->state = t;
	c->stop = tree_stop;
	return mcp_arg_path(c, sandbox, "path", t->path) ? t : NULL;
}

static void tree_on_begun(void *ctx, struct files *f, const struct warren_error *err)
{
	struct mcp_call *c = ctx;
	struct mcp_tree *t = c->state;

	if (c->done) {
		(void)files_end(f);
	} else if (!f) {
		mcp_tool_fail(c, err);
	} else {
		t->files = f;
		json_open(&t->json, NULL, '{');
		json_str(&t->json, "sandbox", c->sandbox);
		json_str(&t->json, "path", t->path);
		t->begun(t);
	}
	mcp_call_unref(c);
}

static void tree_begin(struct mcp_tree *t, struct sandbox *sandbox)
{
	files_begin(sandbox, NULL, tree_on_begun, mcp_call_ref(t->call));
}

/* -------------------------------------------------------------------- list_files */

static enum walk_say tree_on_entry(void *ctx, const struct walk_entry *e)
{
	struct mcp_tree *t = ctx;
	const struct proto_entry *is = &e->found->is;
	char at[DATE_SIZE];

	if (t->n >= t->limit || t->out.len > LISTING_MAX - 32768) {
		t->truncated = true;
		return WALK_STOP;
	}
	t->n++;
	json_open(&t->json, NULL, '{');
	json_str(&t->json, "path", e->path);
	json_str(&t->json, "type", tree_type(is->mode));
	if (S_ISREG(is->mode))
		json_u64(&t->json, "size", is->size > INT64_MAX ? 0 : is->size);
	(void)snprintf(at, sizeof(at), "%04o", is->mode & 07777);
	json_str(&t->json, "mode", at);
	date_iso(at, is->mtime_sec < 0                ? 0
		     : is->mtime_sec > 253402300799LL ? 253402300799000LL
						      : is->mtime_sec * 1000);
	json_str(&t->json, "modified_at", at);
	if (S_ISLNK(is->mode))
		json_str(&t->json, "target", e->found->link);
	json_close(&t->json, '}');
	return WALK_ON;
}

static void tree_on_listed(void *ctx, int r, const struct warren_error *err)
{
	struct mcp_tree *t = ctx;

	t->walk = NULL;
	if (r < 0) {
		mcp_tool_fail(t->call, err);
		return;
	}
	json_close(&t->json, ']');
	json_bool(&t->json, "truncated", t->truncated);
	json_close(&t->json, '}');
	mcp_tool_result(t->call, &t->out, false);
}

static void tree_tool_list(struct mcp_tree *t)
{
	struct walk_options options = { .depth = (unsigned)mcp_arg_int(t->call, "depth"),
					.sorted = (unsigned)t->limit + 1,
					.entry = tree_on_entry,
					.end = tree_on_listed };

	json_open(&t->json, "entries", '[');
	walk_start(t->files, t->path, &options, t, &t->walk);
}

static void tree_list_placed(struct mcp_call *c, struct sandbox *sandbox)
{
	struct mcp_tree *t = tree_new(c, sandbox, tree_tool_list);

	if (!t)
		return;
	t->limit = mcp_arg_int(c, "limit");
	tree_begin(t, sandbox);
}

void mcp_tool_list_files(struct mcp_call *c)
{
	mcp_place(c, tree_list_placed);
}

/* ------------------------------------------------------------------ search_files */

static void tree_on_match(void *ctx, const struct search_match *m)
{
	struct mcp_tree *t = ctx;

	if (t->out.len > LISTING_MAX - 32768) {
		t->truncated = true;
		return;
	}
	json_open(&t->json, NULL, '{');
	json_str(&t->json, "path", m->path);
	json_str(&t->json, "type", tree_type(m->mode));
	if (m->line > 0) {
		json_u64(&t->json, "line", m->line);
		json_u64(&t->json, "column", m->column);
		json_strn(&t->json, "text", m->text,
			  m->size < MATCH_TEXT_MAX ? m->size : MATCH_TEXT_MAX);
	}
	json_close(&t->json, '}');
}

static void tree_on_searched(void *ctx, bool truncated, bool timed_out,
			     const struct warren_error *err)
{
	struct mcp_tree *t = ctx;

	if (err) {
		mcp_tool_fail(t->call, err);
		return;
	}
	json_close(&t->json, ']');
	json_bool(&t->json, "truncated", truncated || t->truncated);
	json_bool(&t->json, "timed_out", timed_out);
	json_close(&t->json, '}');
	mcp_tool_result(t->call, &t->out, false);
}

static void tree_search(struct mcp_tree *t)
{
	struct search_options o = t->options;

	t->options.name = t->options.content = NULL;
	json_open(&t->json, "matches", '[');
	search_start(t->files, &o, &t->search);
}

static int tree_read_patterns(struct mcp_tree *t, struct warren_error *err)
{
	const char *name = mcp_arg_text(t->call, "name");
	const char *content = mcp_arg_text(t->call, "content");
	bool any_case = mcp_arg_bool(t->call, "ignore_case");
	struct search_options *o = &t->options;
	int r = 0;

	if (name)
		r = pattern_new_glob(name, any_case, &o->name, err);
	o->whole_path = name && strchr(name, '/');
	if (r == 0 && content)
		r = mcp_arg_bool(t->call, "regex")
			    ? pattern_new_regex(content, any_case, &o->content, err)
			    : pattern_new_text(content, any_case, &o->content, err);
	return r;
}

static void tree_search_placed(struct mcp_call *c, struct sandbox *sandbox)
{
	struct mcp_tree *t = tree_new(c, sandbox, tree_search);
	struct warren_error err = WARREN_ERROR_INIT;

	if (!t)
		return;
	t->options = (struct search_options){
		.path = t->path,
		.hidden = mcp_arg_bool(c, "hidden"),
		.max_matches = (uint64_t)mcp_arg_int(c, "max_matches"),
		.max_file_size = SEARCH_FILE_MAX,
		.timeout_ms = SEARCH_MS,
		.match = tree_on_match,
		.end = tree_on_searched,
		.ctx = t,
	};
	if (!mcp_arg_text(c, "name") && !mcp_arg_text(c, "content"))
		mcp_tool_error(c, "give name, content or both to search for");
	else if (tree_read_patterns(t, &err) < 0)
		mcp_tool_fail(c, &err);
	else
		tree_begin(t, sandbox);
}

void mcp_tool_search_files(struct mcp_call *c)
{
	mcp_place(c, tree_search_placed);
}
