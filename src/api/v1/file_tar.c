/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_tar.c - handlers: download a tree as an archive, and unpack an archive
 *
 * Both keep only one piece of the archive in memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "api/v1/file.h"
#include "archive/tar.h"
#include "net/loop.h"
#include "service/files/untar.h"

/* -------------------------------------------------------------------- download */

#define PIECE (64U << 10) /* takes a fraction of a millisecond to compress */

struct taking {
	struct file_call fc;
	struct walk *walk;
	struct pack *pack;
	enum pack_kind kind;
	struct loop_task turn;
	size_t skip; /* length of the path prefix that names omit */
	struct proto_entry is;
	char *name; /* name of the current file */
	int fd;
	uint64_t size, sent;
	bool begun, blocked, ended, alone;
};

static void taking_done(struct file_call *fc)
{
	struct taking *t = (struct taking *)fc;

	t->walk = walk_free(t->walk);
	t->pack = pack_free(t->pack);
	loop_task_cancel(&t->turn);
	if (t->fd >= 0)
		loop_close(service_loop(fc->call->v1->service), t->fd);
	free(t->name);
}

static void file_tar_broken(struct taking *t, const struct warren_error *err)
{
	t->ended = true;
	if (t->begun)
		http_abort(t->fc.call->req);
	else
		file_fail(t->fc.call, err);
}

/* Compress data and send it to the client; -errno if this fails. */
static int file_tar_put(struct taking *t, const struct buf *tar, bool end)
{
	static const char *const types[] = { [PACK_NONE] = "application/x-tar",
					     [PACK_GZIP] = "application/gzip",
					     [PACK_ZSTD] = "application/zstd" };
	AUTO_BUF struct buf out = BUF_INIT(8U << 20);
	struct warren_error err = WARREN_ERROR_INIT;
	int r = tar->failed ? error_errno(&err, ENOMEM, "write the archive")
			    : pack_put(t->pack, tar->data, tar->len, end, &out, &err);

	if (r < 0) {
		file_tar_broken(t, &err);
		return r;
	}
	if (!t->begun)
		call_begin_bytes(t->fc.call, types[t->kind]);
	t->begun = true;
	if (out.len > 0)
		t->blocked |= http_write(t->fc.call->req, out.data, out.len) != 0;
	return 0;
}

static void file_tar_finish(struct taking *t)
{
	AUTO_BUF struct buf tar = BUF_INIT(4096);

	tar_end(&tar);
	if (!t->ended && file_tar_put(t, &tar, true) == 0) {
		t->ended = true;
		(void)http_end(t->fc.call->req);
	}
}

static void entry_over(struct taking *t)
{
	if (t->alone)
		file_tar_finish(t);
	else
		walk_go_on(t->walk, WALK_ON);
}

/* Send the data of a file as fast as the client reads it, one piece in each turn. */
static void file_tar_pump(struct taking *t)
{
	if (!t->blocked && !t->ended && t->fd >= 0) {
		AUTO_BUF struct buf tar = BUF_INIT(PIECE + TAR_BLOCK + 1);
		uint64_t left = t->size - t->sent;
		size_t want = left < PIECE ? (size_t)left : PIECE;
		char *room = buf_reserve(&tar, want + 1);
		ssize_t n = room ? pread(t->fd, room, want, (off_t)t->sent) : -1;

		/* The file is shorter than its header says: the archive cannot be
		 * completed. */
		if (n < 0 || (n == 0 && left > 0)) {
			file_tar_broken(t, NULL);
			return;
		}
		tar.len += (size_t)n;
		t->sent += (uint64_t)n;
		if (t->sent == t->size) {
			tar_pad(&tar, t->size);
			loop_close(files_loop(t->fc.files), TAKE_FD(t->fd));
		}
		if (file_tar_put(t, &tar, false) < 0)
			return;
	}
	if (t->blocked || t->ended)
		return;
	if (t->fd < 0)
		entry_over(t);
	else
		loop_later(files_loop(t->fc.files), &t->turn);
}

static void file_tar_on_turn(void *ctx)
{
	struct taking *t = ctx;

	if (!t->blocked && !t->ended)
		file_tar_pump(t);
}

static void file_tar_on_drained(struct http_request *req)
{
	struct taking *t = ((struct call *)req->user)->state;

	if (!t || !t->blocked || t->ended)
		return;
	t->blocked = false;
	loop_later(files_loop(t->fc.files), &t->turn);
}

static void on_file(void *ctx, struct files_answer *a, const struct warren_error *err)
{
	struct taking *t = ctx;
	AUTO_BUF struct buf tar = BUF_INIT(1U << 20);
	struct stat st;

	/* The file was removed after it was listed, or another kind of file has its name
	 * now. */
	if (err && (err->code == ENOENT || err->code == ELOOP) && !t->alone) {
		entry_over(t);
		return;
	}
	if (err) {
		file_tar_broken(t, err);
		return;
	}
	t->fd = TAKE_FD(a->fd);
	if (fstat(t->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		(void)close(TAKE_FD(t->fd));
		entry_over(t);
		return;
	}
	t->size = (uint64_t)st.st_size;
	t->sent = 0;
	t->is.mode = (t->is.mode & 07777) | S_IFREG;
	tar_put(&tar, t->name, &t->is, "", t->size);
	if (file_tar_put(t, &tar, false) == 0)
		file_tar_pump(t);
}

/* A header without data is sent at once; if the client is slow, the walk waits. */
static enum walk_say file_tar_on_entry(void *ctx, const struct walk_entry *e)
{
	struct taking *t = ctx;
	AUTO_BUF struct buf tar = BUF_INIT(1U << 20);

	t->is = e->found->is;
	if (S_ISREG(t->is.mode)) {
		free(t->name);
		t->name = strdup(e->path + t->skip);
		if (!t->name) {
			file_tar_broken(t, NULL);
			return WALK_STOP;
		}
		files_open(t->fc.files, e->dir, e->name, O_RDONLY | O_NOFOLLOW, 0,
			   on_file, t);
		return WALK_WAIT;
	}
	if (!S_ISDIR(t->is.mode) && !S_ISLNK(t->is.mode))
		return WALK_PAST;
	tar_put(&tar, e->path + t->skip, &t->is, e->found->link, 0);
	if (file_tar_put(t, &tar, false) < 0)
		return WALK_STOP;
	return t->blocked ? WALK_WAIT : WALK_ON;
}

static void file_tar_on_stat(void *ctx, struct files_answer *a,
			     const struct warren_error *err)
{
	struct taking *t = ctx;
	struct proto_found found;

	if (!file_entry(t->fc.call, a, err, &found))
		return;
	t->is = found.is;
	t->name = strdup(strrchr(t->fc.path, '/') + 1);
	if (!S_ISREG(t->is.mode) || !t->name)
		call_refuse(t->fc.call, API_ERR_SPECIAL_FILE,
			    "'%s' is neither a directory nor a file", t->fc.path);
	else
		files_open(t->fc.files, -1, t->fc.path, O_RDONLY, 0, on_file, t);
}

static void file_tar_on_walked(void *ctx, int r, const struct warren_error *err)
{
	struct taking *t = ctx;

	t->walk = NULL;
	if (t->ended)
		return;
	if (r == 0) {
		file_tar_finish(t);
	} else if (r == -ENOTDIR && !t->begun) {
		t->alone = true; /* a single file, with its own name */
		files_stat(t->fc.files, -1, t->fc.path, true, file_tar_on_stat, t);
	} else {
		file_tar_broken(t, err);
	}
}

static void taking_begun(struct file_call *fc)
{
	static const struct walk_options options = { .strict = true,
						     .entry = file_tar_on_entry,
						     .end = file_tar_on_walked };
	struct taking *t = (struct taking *)fc;
	struct warren_error err = WARREN_ERROR_INIT;

	t->turn = (struct loop_task){ .fn = file_tar_on_turn, .ctx = t };
	if (pack_new(t->kind, &t->pack, &err) < 0) {
		call_refuse(fc->call, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	fc->call->req->drained = file_tar_on_drained;
	t->skip = fc->path[1] ? strlen(fc->path) + 1 : 1;
	walk_start(fc->files, fc->path, &options, t, &t->walk);
}

void v1_download_tar(struct call *c)
{
	struct api_value *v = c->query.v;
	struct taking *t = calloc(1, sizeof(*t));

	if (t) {
		t->fc.begun = taking_begun;
		t->fc.done = taking_done;
		t->kind = (enum pack_kind)v[V1_DOWNLOAD_TAR_QUERY_COMPRESSION].number;
		t->fd = -1;
	}
	file_begin(c, t ? &t->fc : NULL, v[V1_DOWNLOAD_TAR_QUERY_PATH].text,
		   v[V1_DOWNLOAD_TAR_QUERY_USER].text);
}

/* ---------------------------------------------------------------------- upload */

struct giving {
	struct file_call fc;
	struct untar *untar;
	bool owners, parents;
};

static void giving_done(struct file_call *fc)
{
	struct giving *g = (struct giving *)fc;

	g->untar = untar_free(g->untar);
}

static void file_tar_on_more(void *ctx)
{
	struct giving *g = ctx;

	http_resume(g->fc.call->req);
}

static void file_tar_on_unpacked(void *ctx, uint64_t entries, uint64_t bytes,
				 const struct warren_error *err)
{
	struct giving *g = ctx;
	AUTO_BUF struct buf out = BUF_INIT(256);
	struct json j = { .out = &out };

	if (err && err->code == EBADMSG) {
		call_refuse(g->fc.call, API_ERR_INVALID_REQUEST, "%s", err->msg);
		return;
	}
	if (err) {
		file_fail(g->fc.call, err);
		return;
	}
	json_open(&j, NULL, '{');
	json_u64(&j, "entries", entries);
	json_u64(&j, "bytes", bytes);
	json_close(&j, '}');
	call_json(g->fc.call, 200, &out);
}

static void file_tar_on_piece(struct http_request *req, const char *data, size_t n)
{
	struct call *c = req->user;
	struct giving *g = c->state;

	if (!g || c->answered)
		return;
	if (n > 0)
		http_pause(req);
	untar_feed(g->untar, data, n);
}

static void on_dir(void *ctx, struct files_answer *a, const struct warren_error *err);

static void on_dir_made(void *ctx, struct files_answer *a UNUSED,
			const struct warren_error *err)
{
	struct giving *g = ctx;

	g->parents = false;
	if (err)
		file_fail(g->fc.call, err);
	else
		files_open(g->fc.files, -1, g->fc.path, O_PATH | O_DIRECTORY, 0, on_dir,
			   g);
}

static void on_dir(void *ctx, struct files_answer *a, const struct warren_error *err)
{
	struct giving *g = ctx;
	struct untar_options o = { .owners = g->owners,
				   .more = file_tar_on_more,
				   .end = file_tar_on_unpacked,
				   .ctx = g };

	if (err && err->code == ENOENT && g->parents) {
		files_make_dirs(g->fc.files, g->fc.path, 0755, on_dir_made, g);
		return;
	}
	if (err) {
		file_fail(g->fc.call, err);
		return;
	}
	o.dir = TAKE_FD(a->fd);
	g->untar = untar_new(g->fc.files, &o);
	if (!g->untar) {
		(void)close(o.dir);
		call_refuse(g->fc.call, API_ERR_OVERLOADED, "out of memory");
	} else if (g->fc.call->req->has_body) {
		http_stream(g->fc.call->req, file_tar_on_piece);
	} else {
		untar_feed(g->untar, "", 0);
	}
}

static void giving_begun(struct file_call *fc)
{
	files_open(fc->files, -1, fc->path, O_PATH | O_DIRECTORY, 0, on_dir, fc);
}

void v1_upload_tar(struct call *c)
{
	struct api_value *v = c->query.v;
	struct giving *g = calloc(1, sizeof(*g));
	bool owners = v[V1_UPLOAD_TAR_QUERY_OWNERS].number;

	if (g) {
		g->fc.begun = giving_begun;
		g->fc.done = giving_done;
		g->owners = owners;
		g->parents = v[V1_UPLOAD_TAR_QUERY_PARENTS].number;
	}
	file_begin(c, g ? &g->fc : NULL, v[V1_UPLOAD_TAR_QUERY_PATH].text,
		   owners ? "0:0" : v[V1_UPLOAD_TAR_QUERY_USER].text);
}
