/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume_file.c - handlers: the files of a volume, without a sandbox
 *
 * The warden resolves paths (warden/volume_files.c). A file has no name until it is
 * complete, so it disappears when the request ends early.
 */
#include "api/v1/volume_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api/v1/file.h"
#include "base/fd.h"
#include "service/files/file_writer.h"

#define VOLUME_LIST_BYTES (64U << 20)

bool volume_file_begin(struct call *c, struct warden_proto_volume *m, const char *path)
{
	if (strlen(path) >= sizeof(m->path)) {
		call_refuse(c, API_ERR_INVALID_REQUEST, "the path is too long");
		return false;
	}
	(void)strcpy(m->path, path);
	files_tidy(m->path);
	return true;
}

static void volume_file_ask(struct call *c, struct warden_proto_volume *m,
			    volume_reply_fn fn)
{
	volume_ask(c->v1->service, c->caller.tenant, c->route.param[0], m, fn,
		   call_ref(c));
}

/* Answer with the only entry of a reply. */
static void volume_file_show(struct call *c, const char *path, const char *data,
			     size_t size)
{
	AUTO_BUF struct buf out = BUF_INIT(65536);
	struct json j = { .out = &out };
	struct proto_found found;
	size_t at = 0;

	if (proto_next(data, size, &at, &found) != 1) {
		call_refuse(c, API_ERR_INTERNAL, "the reply of the warden is not valid");
		return;
	}
	show_file(&j, path, &found);
	call_json(c, 200, &out);
}

static void volume_file_done(struct call *c, const struct warren_error *err, int fd)
{
	if (fd >= 0)
		(void)close(fd);
	if (c->req && err && !c->answered)
		file_fail(c, err);
	call_unref(c);
}

/* ------------------------------------------------------------------------ read */

static void volume_file_on_read(void *ctx, const struct warren_error *err,
				const char *data UNUSED, size_t size UNUSED, int fd)
{
	struct call *c = ctx;
	struct stat st;

	if (!err && c->req && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		file_send(c, TAKE_FD(fd), &st);
	else if (!err && c->req)
		call_refuse(c, API_ERR_SPECIAL_FILE, "this is not a regular file");
	volume_file_done(c, err, fd);
}

void volume_file_read(struct call *c, const char *path)
{
	struct warden_proto_volume m = { .verb = WIRE_VOLUME_READ };

	if (volume_file_begin(c, &m, path))
		volume_file_ask(c, &m, volume_file_on_read);
}

void v1_read_volume_file(struct call *c)
{
	volume_file_read(c, c->query.v[V1_READ_VOLUME_FILE_QUERY_PATH].text);
}

static void volume_file_on_stat(void *ctx, const struct warren_error *err,
				const char *data, size_t size, int fd)
{
	struct call *c = ctx;

	if (!err && c->req)
		volume_file_show(c, c->query.v[V1_STAT_VOLUME_FILE_QUERY_PATH].text, data,
				 size);
	volume_file_done(c, err, fd);
}

void v1_stat_volume_file(struct call *c)
{
	struct warden_proto_volume m = {
		.verb = WIRE_VOLUME_STAT,
		.flags = c->query.v[V1_STAT_VOLUME_FILE_QUERY_FOLLOW].number
				 ? WIRE_VOLUME_FOLLOW
				 : 0,
	};

	if (volume_file_begin(c, &m, c->query.v[V1_STAT_VOLUME_FILE_QUERY_PATH].text))
		volume_file_ask(c, &m, volume_file_on_stat);
}

/* ------------------------------------------------------------------------ list */

static void volume_file_put_list(struct call *c, const char *data, size_t size)
{
	AUTO_BUF struct buf out = BUF_INIT(VOLUME_LIST_BYTES);
	const char *dir = c->query.v[V1_LIST_VOLUME_FILES_QUERY_PATH].text;
	int64_t max = c->query.v[V1_LIST_VOLUME_FILES_QUERY_LIMIT].number, n = 0;
	struct json j = { .out = &out };
	struct proto_found found;
	size_t at = 0, len = strlen(dir);
	char path[2 * 4096];

	while (len > 0 && dir[len - 1] == '/')
		len--;
	json_open(&j, NULL, '{');
	json_open(&j, "entries", '[');
	while (proto_next(data, size, &at, &found) == 1 && n++ < max) {
		(void)snprintf(path, sizeof(path), "%.*s/%s", (int)len, dir, found.name);
		show_file(&j, path, &found);
	}
	json_close(&j, ']');
	json_bool(&j, "truncated", n > max);
	json_close(&j, '}');
	call_json(c, 200, &out);
}

static void volume_file_on_list(void *ctx, const struct warren_error *err,
				const char *data UNUSED, size_t size UNUSED, int fd)
{
	struct call *c = ctx;
	struct stat st;
	void *map;

	if (!err && c->req && fstat(fd, &st) == 0) {
		size_t n = (size_t)st.st_size;

		map = n > 0 ? mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
		if (map == MAP_FAILED)
			call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		else
			volume_file_put_list(c, map, n);
		if (map && map != MAP_FAILED)
			(void)munmap(map, n);
	}
	volume_file_done(c, err, fd);
}

void v1_list_volume_files(struct call *c)
{
	struct warden_proto_volume m = {
		.verb = WIRE_VOLUME_LIST,
		.max = (uint32_t)c->query.v[V1_LIST_VOLUME_FILES_QUERY_LIMIT].number + 1,
	};

	if (volume_file_begin(c, &m, c->query.v[V1_LIST_VOLUME_FILES_QUERY_PATH].text))
		volume_file_ask(c, &m, volume_file_on_list);
}

/* -------------------------------------------------------------- mkdir and remove */

static void volume_file_on_mkdir(void *ctx, const struct warren_error *err,
				 const char *data, size_t size, int fd)
{
	struct call *c = ctx;

	if (!err && c->req)
		volume_file_show(c, body_text(&c->body, "path"), data, size);
	volume_file_done(c, err, fd);
}

void v1_make_volume_directory(struct call *c)
{
	const char *mode = body_text(&c->body, "mode");
	struct warden_proto_volume m = {
		.verb = WIRE_VOLUME_MKDIR,
		.flags = body_bool(&c->body, "parents") ? WIRE_VOLUME_PARENTS : 0,
		.mode = mode ? file_mode(mode) & 0777 : 0755,
	};

	if (volume_file_begin(c, &m, body_text(&c->body, "path")))
		volume_file_ask(c, &m, volume_file_on_mkdir);
}

static void volume_file_on_removed(void *ctx, const struct warren_error *err,
				   const char *data UNUSED, size_t size UNUSED, int fd)
{
	struct call *c = ctx;

	if (!err && c->req)
		call_empty(c, 204);
	volume_file_done(c, err, fd);
}

void v1_remove_volume_file(struct call *c)
{
	struct warden_proto_volume m = {
		.verb = WIRE_VOLUME_REMOVE,
		.flags = c->query.v[V1_REMOVE_VOLUME_FILE_QUERY_RECURSIVE].number
				 ? WIRE_VOLUME_RECURSIVE
				 : 0,
	};

	if (volume_file_begin(c, &m, c->query.v[V1_REMOVE_VOLUME_FILE_QUERY_PATH].text))
		volume_file_ask(c, &m, volume_file_on_removed);
}

/* ----------------------------------------------------------------------- write */

/* It lives until the request has ended and the warden has answered. */
struct volume_write {
	struct call *call; /* a reference */
	volume_show_fn show;
	struct warden_proto_volume m;
	int fd;                     /* the new file; -1: none */
	struct file_writer *writer; /* NULL: no write is in progress */
	bool asking;                /* the warden has not answered yet */
	bool ended;                 /* the whole body has arrived */
	bool gone;                  /* the request has ended */
};

static void volume_write_free(struct volume_write *w)
{
	struct call *c = w->call;

	if (!w->gone || w->asking)
		return;
	w->writer = file_writer_cancel(w->writer);
	if (w->fd >= 0)
		(void)close(w->fd);
	free(w);
	call_unref(c);
}

static void volume_write_gone(struct call *c)
{
	struct volume_write *w = c->state;

	c->state = NULL;
	if (!w)
		return;
	w->gone = true;
	volume_write_free(w);
}

static void volume_write_ask(struct volume_write *w, uint32_t verb, volume_reply_fn fn)
{
	struct call *c = w->call;

	w->m.verb = verb;
	w->asking = true;
	volume_ask(c->v1->service, c->caller.tenant, c->route.param[0], &w->m, fn, w);
}

static void volume_write_on_placed(void *ctx, const struct warren_error *err,
				   const char *data, size_t size, int fd UNUSED)
{
	struct volume_write *w = ctx;

	w->asking = false;
	if (w->gone)
		volume_write_free(w);
	else if (err)
		file_fail(w->call, err);
	else
		w->show(w->call, w->m.path, data, size);
}

static void volume_write_complete(struct volume_write *w)
{
	volume_write_ask(w, WIRE_VOLUME_PLACE, volume_write_on_placed);
}

static void volume_write_on_written(void *ctx, struct files_answer *a UNUSED,
				    const struct warren_error *err)
{
	struct volume_write *w = ctx;

	w->writer = NULL;
	if (err)
		file_fail(w->call, err);
	else if (w->ended)
		volume_write_complete(w);
	else
		http_resume(w->call->req);
}

static void volume_write_on_piece(struct http_request *req, const char *data, size_t n)
{
	struct call *c = req->user;
	struct volume_write *w = c->state;
	struct warren_error err = WARREN_ERROR_INIT;

	if (!w || c->answered || w->fd < 0)
		return;
	if (n == 0) {
		w->ended = true;
		if (!w->writer)
			volume_write_complete(w);
		return;
	}
	if (file_writer_thread_start(c->v1->service, c->caller.tenant, w->fd, data, n,
				     volume_write_on_written, w, &w->writer, &err) < 0)
		file_fail(c, &err);
	else
		http_pause(req);
}

static void volume_write_on_open(void *ctx, const struct warren_error *err,
				 const char *data, size_t size, int fd)
{
	struct volume_write *w = ctx;

	w->asking = false;
	w->fd = fd;
	if (!err && size == sizeof(w->m.new))
		(void)memcpy(&w->m.new, data, size);
	if (w->gone)
		volume_write_free(w);
	else if (err)
		file_fail(w->call, err);
	else if (w->call->req->has_body)
		http_stream(w->call->req, volume_write_on_piece);
	else
		volume_write_complete(w);
}

static void volume_write_put_name(struct warden_proto_volume *m)
{
	char id[ID_LEN + 1];

	id_make(id);
	(void)snprintf(m->name, sizeof(m->name), ".warren-%s~", id);
}

static void volume_link_on_made(void *ctx, const struct warren_error *err,
				const char *data, size_t size, int fd)
{
	struct call *c = ctx;

	if (!err && c->req)
		volume_file_show(c, c->query.v[V1_WRITE_VOLUME_FILE_QUERY_PATH].text,
				 data, size);
	volume_file_done(c, err, fd);
}

static void volume_link(struct call *c, const char *link)
{
	const struct api_value *v = c->query.v;
	struct warden_proto_volume m = {
		.verb = WIRE_VOLUME_SYMLINK,
		.flags = v[V1_WRITE_VOLUME_FILE_QUERY_PARENTS].number
				 ? WIRE_VOLUME_PARENTS
				 : 0,
	};

	if (c->req->has_body || strlen(link) >= sizeof(m.link)) {
		call_refuse(c, API_ERR_INVALID_REQUEST,
			    "a link has no body, and its target has at most 4095 bytes");
		return;
	}
	(void)strcpy(m.link, link);
	volume_write_put_name(&m);
	if (volume_file_begin(c, &m, v[V1_WRITE_VOLUME_FILE_QUERY_PATH].text))
		volume_file_ask(c, &m, volume_link_on_made);
}

void volume_write_begin(struct call *c, const struct warden_proto_volume *m,
			volume_show_fn show)
{
	struct volume_write *w = calloc(1, sizeof(*w));

	if (!w) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	*w = (struct volume_write){
		.call = call_ref(c), .show = show, .m = *m, .fd = -1
	};
	volume_write_put_name(&w->m);
	c->state = w;
	c->gone = volume_write_gone;
	volume_write_ask(w, WIRE_VOLUME_WRITE, volume_write_on_open);
}

void v1_write_volume_file(struct call *c)
{
	struct api_value *v = c->query.v;
	const char *mode = v[V1_WRITE_VOLUME_FILE_QUERY_MODE].text;
	const char *link = v[V1_WRITE_VOLUME_FILE_QUERY_LINK].text;
	struct warden_proto_volume m = {
		.mode = mode ? file_mode(mode) & 0777 : 0644,
		.flags = v[V1_WRITE_VOLUME_FILE_QUERY_PARENTS].number
				 ? WIRE_VOLUME_PARENTS
				 : 0,
	};

	if (link)
		volume_link(c, link);
	else if (volume_file_begin(c, &m, v[V1_WRITE_VOLUME_FILE_QUERY_PATH].text))
		volume_write_begin(c, &m, volume_file_show);
}
