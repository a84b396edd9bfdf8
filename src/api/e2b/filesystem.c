/* SPDX-License-Identifier: Apache-2.0 */
/* filesystem.c - names and attributes of files: show, list, create, move, remove */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "api/e2b/fs_call.h"

#define LIST_MAX      100000 /* entries of one directory */
#define LIST_PART     (64U << 10)
#define LIST_PART_MAX (1U << 20) /* with a last entry, however long it is */

/* Begin an operation for the field @field of the request. */
static void fs_start(struct call *c, struct fs_call *f, const char *field,
		     void (*next)(struct fs_call *f))
{
	const char *path = body_text(&c->body, field);
	char user[64];

	if (f)
		f->next = next;
	fs_begin(c, f, e2b_user(c, user), path ? path : "");
}

/* --------------------------------------------------------------------- show, create */

void e2b_fs_stat(struct call *c)
{
	fs_start(c, calloc(1, sizeof(struct fs_call)), "path", fs_answer_entry);
}

static void fs_on_existing(void *ctx, struct files_answer *a,
			   const struct warren_error *err)
{
	struct fs_call *f = ctx;
	struct proto_found found;

	if (err)
		fs_fail(f, err);
	else if (!file_entry(f->fc.call, a, NULL, &found))
		return;
	else if (S_ISDIR(found.is.mode))
		e2b_refuse_rpc(f->fc.call, "already_exists",
			       "directory already exists: %s", f->fc.path);
	else
		e2b_refuse_rpc(f->fc.call, "invalid_argument",
			       "path already exists but it is not a directory: %s",
			       f->fc.path);
}

static void fs_on_made(void *ctx, struct files_answer *a, const struct warren_error *err)
{
	struct fs_call *f = ctx;

	if (err && err->code != EEXIST && err->code != ENOTDIR)
		fs_fail(f, err);
	else if (err || a->value == 0)
		files_stat(f->fc.files, -1, f->fc.path, true, fs_on_existing, f);
	else
		fs_answer_entry(f);
}

static void fs_make_dir(struct fs_call *f)
{
	if (f->fc.path[1])
		files_make_dirs(f->fc.files, f->fc.path, 0755, fs_on_made, f);
	else
		e2b_refuse_rpc(f->fc.call, "already_exists",
			       "directory already exists: /");
}

void e2b_fs_make_dir(struct call *c)
{
	fs_start(c, calloc(1, sizeof(struct fs_call)), "path", fs_make_dir);
}

/* -------------------------------------------------------------------------- move */

struct fs_move {
	struct fs_call fs;
	char to[4096];
};

static void fs_on_moved(void *ctx, struct files_answer *a UNUSED,
			const struct warren_error *err)
{
	struct fs_move *m = ctx;

	if (err) {
		fs_fail(&m->fs, err);
		return;
	}
	(void)strcpy(m->fs.fc.path, m->to);
	fs_answer_entry(&m->fs);
}

static void fs_rename(struct fs_move *m)
{
	struct files_change change = { .verb = PROTO_RENAME, .dir = -1, .to = -1 };

	files_change_one(m->fs.fc.files, change, m->fs.fc.path, m->to, fs_on_moved, m);
}

static void fs_on_parents(void *ctx, struct files_answer *a UNUSED,
			  const struct warren_error *err)
{
	struct fs_move *m = ctx;

	if (err)
		fs_fail(&m->fs, err);
	else
		fs_rename(m);
}

static void fs_on_source(void *ctx, struct files_answer *a UNUSED,
			 const struct warren_error *err)
{
	struct fs_move *m = ctx;
	char parent[4096];
	char *slash;

	if (err) {
		fs_fail(&m->fs, err);
		return;
	}
	(void)strcpy(parent, m->to);
	slash = strrchr(parent, '/');
	if (!slash || slash == parent) {
		fs_rename(m);
		return;
	}
	*slash = '\0';
	files_make_dirs(m->fs.fc.files, parent, 0755, fs_on_parents, m);
}

static void fs_move(struct fs_call *f)
{
	struct fs_move *m = (struct fs_move *)f;
	const char *to = body_text(&f->fc.call->body, "destination");

	if (fs_path(f, to ? to : "", m->to))
		files_stat(f->fc.files, -1, f->fc.path, false, fs_on_source, m);
}

void e2b_fs_move(struct call *c)
{
	struct fs_move *m = calloc(1, sizeof(*m));

	fs_start(c, m ? &m->fs : NULL, "source", fs_move);
}

/* ------------------------------------------------------------------------- remove */

struct fs_remove {
	struct fs_call fs;
	struct tree_job *tree;
};

static void fs_remove_done(struct fs_call *f)
{
	struct fs_remove *r = (struct fs_remove *)f;

	r->tree = tree_free(r->tree);
}

static void fs_removed(struct fs_call *f, const struct warren_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(16);

	if (err && err->code != ENOENT) {
		fs_fail(f, err);
		return;
	}
	buf_puts(&out, "{}");
	call_json(f->fc.call, 200, &out);
}

static void fs_on_tree(void *ctx, int r, const struct warren_error *err)
{
	struct fs_remove *m = ctx;

	m->tree = NULL;
	fs_removed(&m->fs, r < 0 ? err : NULL);
}

static void fs_on_unlinked(void *ctx, struct files_answer *a UNUSED,
			   const struct warren_error *err)
{
	struct fs_remove *m = ctx;
	struct files_change change = { .verb = PROTO_UNLINK, .dir = -1, .to = -1 };

	if (err && (err->code == EISDIR || err->code == EPERM))
		tree_change(m->fs.fc.files, m->fs.fc.path, &change, fs_on_tree, m,
			    &m->tree);
	else
		fs_removed(&m->fs, err);
}

static void fs_remove(struct fs_call *f)
{
	struct files_change change = { .verb = PROTO_UNLINK, .dir = -1, .to = -1 };

	files_change_one(f->fc.files, change, f->fc.path, NULL, fs_on_unlinked, f);
}

void e2b_fs_remove(struct call *c)
{
	struct fs_remove *r = calloc(1, sizeof(*r));

	if (r)
		r->fs.done = fs_remove_done;
	fs_start(c, r ? &r->fs : NULL, "path", fs_remove);
}

/* --------------------------------------------------------------------------- list */

/* The list is sent in parts while the directories are read, so it is never in memory. */
struct fs_list {
	struct fs_call fs;
	struct walk *walk;
	struct file_resolve_op *finding;
	struct fs_entry entry; /* of the walk */
	struct buf out;
	struct json json;
	bool begun;    /* the response has begun */
	bool resolves; /* file_resolve() was called, and may end at once */
	bool resolved; /* it has */
};

static void fs_list_done(struct fs_call *f)
{
	struct fs_list *l = (struct fs_list *)f;

	l->walk = walk_free(l->walk);
	l->finding = file_resolve_free(l->finding);
	free(l->entry.metadata);
	buf_done(&l->out);
}

/* The list cannot be completed. */
static void fs_list_fail(struct fs_list *l, const struct warren_error *err)
{
	struct call *c = l->fs.fc.call;

	if (l->begun)
		http_abort(c->req);
	else if (err->code == E2BIG)
		e2b_refuse_rpc(c, "resource_exhausted", "list '%s': %s", l->fs.asked,
			       err->msg);
	else
		fs_fail(&l->fs, err);
}

/* Send what was written; false: the client must read it first. */
static bool fs_list_flush(struct fs_list *l)
{
	struct call *c = l->fs.fc.call;
	bool goes_on;

	if (!l->begun)
		call_begin_json(c, 200);
	l->begun = true;
	goes_on = http_write(c->req, l->out.data, l->out.len) != 1;
	l->out.len = 0;
	return goes_on;
}

/* The entry is complete. */
static enum walk_say fs_list_put(struct fs_list *l)
{
	struct warren_error err = WARREN_ERROR_INIT;

	fs_entry_to_json(&l->fs.accounts, &l->entry, &l->json, NULL);
	free(l->entry.metadata);
	l->entry = (struct fs_entry){ 0 };
	if (l->out.failed) {
		(void)error_errno(&err, ENOMEM, "list '%s'", l->fs.asked);
		fs_list_fail(l, &err);
		return WALK_WAIT; /* until the call is closed */
	}
	return l->out.len < LIST_PART || fs_list_flush(l) ? WALK_ON : WALK_WAIT;
}

static void fs_list_next(struct fs_list *l)
{
	enum walk_say say = fs_list_put(l);

	if (say != WALK_WAIT)
		walk_go_on(l->walk, say);
}

static void fs_list_on_resolved(void *ctx, const struct file_resolved *r,
				const struct warren_error *err)
{
	struct fs_list *l = ctx;

	l->finding = NULL;
	if (!err)
		fs_resolved(&l->entry, r);
	/* The walk must not go on before it waits. */
	l->resolved = l->resolves;
	if (!l->resolves)
		fs_list_next(l);
}

/* A file that is gone by now, or has changed, has no metadata. */
static void fs_list_on_attributes(void *ctx, struct files_answer *a,
				  const struct warren_error *err)
{
	struct fs_list *l = ctx;

	l->entry.metadata = err ? NULL : fs_metadata(a);
	fs_list_next(l);
}

/* Find out where a link leads, or what metadata a file has. */
static enum walk_say fs_list_on_entry(void *ctx, const struct walk_entry *e)
{
	struct fs_list *l = ctx;

	l->entry = (struct fs_entry){ .is = e->found->is, .path = e->path };
	l->resolved = false;
	if (S_ISLNK(l->entry.is.mode)) {
		l->resolves = true;
		file_resolve(l->fs.fc.files, e->path, fs_list_on_resolved, l,
			     &l->finding);
		l->resolves = false;
		return l->resolved ? fs_list_put(l) : WALK_WAIT;
	}
	if (l->entry.is.flags & PROTO_ENTRY_ATTRIBUTES)
		files_stat_attributes(l->fs.fc.files, e->path, fs_list_on_attributes, l);
	else
		return fs_list_put(l);
	return WALK_WAIT;
}

static void fs_list_on_drained(struct http_request *req)
{
	struct fs_list *l = ((struct call *)req->user)->state;

	if (l && l->walk)
		walk_go_on(l->walk, WALK_ON);
}

static void fs_list_on_end(void *ctx, int r, const struct warren_error *err)
{
	struct fs_list *l = ctx;

	l->walk = NULL;
	if (r < 0) {
		fs_list_fail(l, err);
		return;
	}
	json_close(&l->json, ']');
	json_close(&l->json, '}');
	if (l->begun) {
		(void)fs_list_flush(l);
		(void)http_end(l->fs.fc.call->req);
	} else {
		call_json(l->fs.fc.call, 200, &l->out);
	}
}

static void fs_list(struct fs_call *f)
{
	struct fs_list *l = (struct fs_list *)f;
	int64_t depth = body_int(&f->fc.call->body, "depth");
	struct walk_options options = { .depth = depth > 0 ? (unsigned)depth : 1,
					.sorted = LIST_MAX,
					.whole = true,
					.marks = true,
					.entry = fs_list_on_entry,
					.end = fs_list_on_end };

	f->fc.call->req->drained = fs_list_on_drained;
	json_open(&l->json, NULL, '{');
	json_open(&l->json, "entries", '[');
	walk_start(f->fc.files, f->fc.path, &options, l, &l->walk);
}

void e2b_fs_list_dir(struct call *c)
{
	struct fs_list *l = calloc(1, sizeof(*l));

	if (l) {
		l->fs.done = fs_list_done;
		l->out = (struct buf)BUF_INIT(LIST_PART_MAX);
		l->json = (struct json){ .out = &l->out };
	}
	fs_start(c, l ? &l->fs : NULL, "path", fs_list);
}
