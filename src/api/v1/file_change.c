/* SPDX-License-Identifier: Apache-2.0 */
/* file_change.c - handlers: show, create, move, change and remove files */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "api/v1/file.h"
#include "base/parse.h"

struct changing {
	struct file_call fc;
	struct tree_job *tree;
	struct files_change change;
	bool recursive, parents;
	char to[4096];
	char owner[80];
};

static void changing_done(struct file_call *fc)
{
	struct changing *g = (struct changing *)fc;

	g->tree = tree_free(g->tree);
}

static struct changing *changing_new(void (*begun)(struct file_call *fc))
{
	struct changing *g = calloc(1, sizeof(*g));

	if (g) {
		g->fc.begun = begun;
		g->fc.done = changing_done;
		g->change.dir = g->change.to = -1;
	}
	return g;
}

/* ------------------------------------------------------------------------ stat */

static void file_change_on_stat(void *ctx, struct files_answer *a,
				const struct warren_error *err)
{
	struct changing *g = ctx;
	AUTO_BUF struct buf out = BUF_INIT(65536);
	struct json j = { .out = &out };
	struct proto_found found;

	if (!file_entry(g->fc.call, a, err, &found))
		return;
	show_file(&j, g->fc.path, &found);
	call_json(g->fc.call, 200, &out);
}

static void begin_stat(struct file_call *fc)
{
	struct changing *g = (struct changing *)fc;

	files_stat(fc->files, -1, fc->path, g->parents, file_change_on_stat, g);
}

void v1_stat_file(struct call *c)
{
	struct api_value *v = c->query.v;
	struct changing *g = changing_new(begin_stat);

	if (g)
		g->parents = v[V1_STAT_FILE_QUERY_FOLLOW].number;
	file_begin(c, g ? &g->fc : NULL, v[V1_STAT_FILE_QUERY_PATH].text,
		   v[V1_STAT_FILE_QUERY_USER].text);
}

/* ----------------------------------------------------------------------- mkdir */

/* An existing file must be a directory or a link to one. */
static void on_existing(void *ctx, struct files_answer *a, const struct warren_error *err)
{
	struct changing *g = ctx;
	struct proto_found found;

	if (!file_entry(g->fc.call, a, err, &found))
		return;
	if (!S_ISDIR(found.is.mode))
		call_refuse(g->fc.call, API_ERR_FILE_EXISTS,
			    "'%s' exists and is not a directory", g->fc.path);
	else
		file_change_on_stat(g, a, NULL);
}

static void on_mkdir(void *ctx, struct files_answer *a, const struct warren_error *err)
{
	struct changing *g = ctx;

	if (err)
		file_fail(g->fc.call, err);
	else if (a->value > 0)
		file_answer_info(&g->fc, 201);
	else
		files_stat(g->fc.files, -1, g->fc.path, true, on_existing, g);
}

static void begin_mkdir(struct file_call *fc)
{
	struct changing *g = (struct changing *)fc;

	if (g->parents && fc->path[1])
		files_make_dirs(fc->files, fc->path, g->change.mode, on_mkdir, g);
	else if (g->parents)
		files_stat(fc->files, -1, fc->path, true, on_existing, g);
	else if (!fc->path[1])
		call_refuse(fc->call, API_ERR_FILE_EXISTS, "'/' already exists");
	else
		files_change_one(fc->files, g->change, fc->path, NULL, on_mkdir, g);
}

void v1_make_directory(struct call *c)
{
	struct changing *g = changing_new(begin_mkdir);

	if (g) {
		g->change.verb = PROTO_MKDIR;
		g->change.mode = file_mode(body_text(&c->body, "mode"));
		g->parents = body_bool(&c->body, "parents");
	}
	file_begin(c, g ? &g->fc : NULL, body_text(&c->body, "path"),
		   body_text(&c->body, "user"));
}

/* ------------------------------------------------------------------------ move */

static void file_change_on_moved(void *ctx, struct files_answer *a UNUSED,
				 const struct warren_error *err)
{
	struct changing *g = ctx;

	if (err && err->code == EXDEV) {
		call_refuse(g->fc.call, API_ERR_CONFLICT,
			    "'%s' and '%s' are on different filesystems", g->fc.path,
			    g->to);
	} else if (err) {
		file_fail(g->fc.call, err);
	} else {
		(void)strcpy(g->fc.path, g->to);
		file_answer_info(&g->fc, 200);
	}
}

static void begin_move(struct file_call *fc)
{
	struct changing *g = (struct changing *)fc;

	files_change_one(fc->files, g->change, fc->path, g->to, file_change_on_moved, g);
}

void v1_move_file(struct call *c)
{
	struct changing *g = changing_new(begin_move);

	if (g) {
		g->change.verb = PROTO_RENAME;
		if (!body_bool(&c->body, "overwrite"))
			g->change.flags = PROTO_CHANGE_KEEP;
		(void)strncpy(g->to, body_text(&c->body, "to"), sizeof(g->to) - 1);
		files_tidy(g->to);
	}
	file_begin(c, g ? &g->fc : NULL, body_text(&c->body, "from"),
		   body_text(&c->body, "user"));
}

/* ---------------------------------------------------- removal and attributes of trees */

static void file_change_on_changed(void *ctx, struct files_answer *a UNUSED,
				   const struct warren_error *err)
{
	struct changing *g = ctx;

	if (err)
		file_fail(g->fc.call, err);
	else if (g->change.verb == PROTO_UNLINK || g->change.verb == PROTO_RMDIR)
		call_empty(g->fc.call, 204);
	else
		file_answer_info(&g->fc, 200);
}

static void on_tree(void *ctx, int r, const struct warren_error *err)
{
	struct changing *g = ctx;

	g->tree = NULL;
	file_change_on_changed(g, NULL, r < 0 ? err : NULL);
}

static void begin_tree(struct changing *g)
{
	tree_change(g->fc.files, g->fc.path, &g->change, on_tree, g, &g->tree);
}

/* The path is a directory, so remove the tree. */
static void on_unlinked(void *ctx, struct files_answer *a, const struct warren_error *err)
{
	struct changing *g = ctx;

	if (!err || (err->code != EISDIR && err->code != EPERM)) {
		file_change_on_changed(g, a, err);
	} else if (g->recursive) {
		begin_tree(g);
	} else {
		g->change.verb = PROTO_RMDIR;
		files_change_one(g->fc.files, g->change, g->fc.path, NULL,
				 file_change_on_changed, g);
	}
}

static void begin_remove(struct file_call *fc)
{
	struct changing *g = (struct changing *)fc;

	files_change_one(fc->files, g->change, fc->path, NULL, on_unlinked, g);
}

void v1_remove_file(struct call *c)
{
	struct api_value *v = c->query.v;
	struct changing *g = changing_new(begin_remove);

	if (g) {
		g->change.verb = PROTO_UNLINK;
		g->recursive = v[V1_REMOVE_FILE_QUERY_RECURSIVE].number;
	}
	file_begin(c, g ? &g->fc : NULL, v[V1_REMOVE_FILE_QUERY_PATH].text,
		   v[V1_REMOVE_FILE_QUERY_USER].text);
}

static void begin_change(struct file_call *fc)
{
	struct changing *g = (struct changing *)fc;

	if (g->recursive)
		begin_tree(g);
	else
		files_change_one(fc->files, g->change, fc->path, NULL,
				 file_change_on_changed, g);
}

void v1_change_mode(struct call *c)
{
	struct changing *g = changing_new(begin_change);

	if (g) {
		g->change.verb = PROTO_CHMOD;
		g->change.mode = file_mode(body_text(&c->body, "mode"));
		g->recursive = body_bool(&c->body, "recursive");
		if (!g->recursive)
			g->change.flags = PROTO_CHANGE_FOLLOW;
	}
	file_begin(c, g ? &g->fc : NULL, body_text(&c->body, "path"),
		   body_text(&c->body, "user"));
}

static void file_change_on_owner(void *ctx, uint32_t uid, uint32_t gid,
				 const struct warren_error *err)
{
	struct call *c = ctx;
	struct changing *g = c->state;

	if (c->req && g && err) {
		call_fail(c, err);
	} else if (c->req && g) {
		g->change.owner = uid;
		g->change.group = gid;
		begin_change(&g->fc);
	}
	call_unref(c);
}

static void begin_chown(struct file_call *fc)
{
	struct changing *g = (struct changing *)fc;

	files_find_owner(fc->files, g->owner, file_change_on_owner, call_ref(fc->call));
}

void v1_change_owner(struct call *c)
{
	struct changing *g = changing_new(begin_chown);

	if (g) {
		g->change.verb = PROTO_CHOWN;
		g->recursive = body_bool(&c->body, "recursive");
		(void)strncpy(g->owner, body_text(&c->body, "owner"),
			      sizeof(g->owner) - 1);
	}
	file_begin(c, g ? &g->fc : NULL, body_text(&c->body, "path"), "0:0");
}
