/* SPDX-License-Identifier: Apache-2.0 */
/*
 * content.c - files of a volume, without a sandbox
 *
 * The warden resolves paths and changes files (warden/volume_files.c); this process gets
 * only descriptors of regular files. New files and directories belong to the account
 * `user` of the templates, unless the request names another owner.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/e2b/internal.h"
#include "api/v1/file.h"
#include "api/v1/volume_file.h"
#include "base/date.h"
#include "base/parse.h"
#include "net/loop.h"

#define CONTENT_UID        1000
#define CONTENT_LIST_MAX   100000
#define CONTENT_LIST_BYTES (64U << 20)
#define CONTENT_PATH_MAX   65536 /* of the entries of a list */

/* A request to the warden in progress. */
struct content {
	struct call *call; /* a reference */
	int status;        /* of a successful response */
	int fd;            /* of a list, until it is shown */
	bool valid;        /* the list is in `out` */
	struct buf out;
	char path[4096];
};

/* -------------------------------------------------------------------------- show */

/* An entry of a reply, and what follows it. */
struct content_entry {
	struct proto_found found;
	struct warden_proto_volume_more more;
};

/* Like proto_next(). */
static int content_next(const char *data, size_t size, size_t *at,
			struct content_entry *ret)
{
	int r = proto_next(data, size, at, &ret->found);

	if (r <= 0)
		return r;
	if (size - *at < sizeof(ret->more))
		return -EPROTO;
	(void)memcpy(&ret->more, data + *at, sizeof(ret->more));
	*at += sizeof(ret->more);
	return 1;
}

static void content_show_time(struct json *j, const char *key, int64_t sec, uint32_t nsec)
{
	char text[DATE_SIZE];

	/* A process in a sandbox can set any time. */
	if (sec < 0 || sec > 253402300799)
		sec = sec < 0 ? 0 : 253402300799;
	date_iso(text, sec * 1000 + nsec % 1000000000 / 1000000);
	json_str(j, key, text);
}

static void content_show(struct json *j, const char *path, const struct content_entry *e)
{
	const struct proto_entry *is = &e->found.is;
	const char *slash = strrchr(path, '/');

	json_open(j, NULL, '{');
	json_str(j, "name", slash && slash[1] ? slash + 1 : path);
	json_str(j, "type",
		 S_ISREG(is->mode)   ? "file"
		 : S_ISDIR(is->mode) ? "directory"
		 : S_ISLNK(is->mode) ? "symlink"
				     : "unknown");
	json_str(j, "path", path);
	json_u64(j, "size", is->size > INT64_C(9007199254740991) ? 0 : is->size);
	json_u64(j, "mode", is->mode & 07777);
	json_u64(j, "uid", is->uid);
	json_u64(j, "gid", is->gid);
	content_show_time(j, "atime", e->more.atime_sec, e->more.atime_nsec);
	content_show_time(j, "mtime", is->mtime_sec, is->mtime_nsec);
	content_show_time(j, "ctime", e->more.ctime_sec, e->more.ctime_nsec);
	if (S_ISLNK(is->mode))
		json_str(j, "target", e->found.link);
	json_close(j, '}');
}

/* Answer with the only entry of a reply. */
static void content_answer(struct call *c, int status, const char *path, const char *data,
			   size_t size)
{
	AUTO_BUF struct buf out = BUF_INIT(131072);
	struct json j = { .out = &out };
	struct content_entry entry;
	size_t at = 0;

	if (content_next(data, size, &at, &entry) != 1) {
		call_refuse(c, API_ERR_INTERNAL, "the reply of the warden is not valid");
		return;
	}
	content_show(&j, path, &entry);
	call_json(c, status, &out);
}

/* ---------------------------------------------------------------------- requests */

/* Read the path of the query; it may omit the first slash. False: refused. */
static bool content_path(struct call *c, struct warden_proto_volume *m)
{
	char path[sizeof(m->path) + 1] = "/";

	if (!e2b_query(c, "path", path + 1, sizeof(path) - 1) || !path[1]) {
		e2b_refuse(c, 400, "the parameter 'path' is missing, or too long");
		return false;
	}
	return volume_file_begin(c, m, path[1] == '/' ? path + 1 : path);
}

/* Read a number of the query. 1: it is there; 0: it is not; -1: refused. */
static int content_number(struct call *c, const char *name, uint64_t max, uint32_t *ret)
{
	struct warren_error why = WARREN_ERROR_INIT;
	char text[E2B_NUMBER_MAX + 1];
	uint64_t n = 0;

	if (!e2b_query(c, name, text, sizeof(text)))
		return 0;
	if (parse_u64(text, max, &n, &why) < 0) {
		e2b_refuse(c, 400, "the parameter '%s' is not a number from 0 to %ju",
			   name, (uintmax_t)max);
		return -1;
	}
	*ret = (uint32_t)n;
	return 1;
}

/* Read what the query says about a new file; otherwise it gets @mode. False: refused. */
static bool content_attributes(struct call *c, struct warden_proto_volume *m,
			       uint32_t mode)
{
	const struct {
		const char *name;
		uint32_t flag, otherwise, *to;
		uint64_t max;
	} all[] = {
		{ "uid", WIRE_VOLUME_SET_UID, CONTENT_UID, &m->uid, UINT32_MAX - 1 },
		{ "gid", WIRE_VOLUME_SET_GID, CONTENT_UID, &m->gid, UINT32_MAX - 1 },
		{ "mode", WIRE_VOLUME_SET_MODE, mode, &m->mode, 07777 },
	};
	char force[E2B_WORD_MAX + 1];

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		int r = content_number(c, all[i].name, all[i].max, all[i].to);

		if (r < 0)
			return false;
		if (r == 0)
			*all[i].to = all[i].otherwise;
		else
			m->flags |= all[i].flag;
	}
	if (e2b_query(c, "force", force, sizeof(force))) {
		if (strcasecmp(force, "true") == 0) {
			m->flags |= WIRE_VOLUME_PARENTS;
		} else if (strcasecmp(force, "false") != 0) {
			e2b_refuse(c, 400, "the parameter 'force' is not a boolean");
			return false;
		}
	}
	return true;
}

static void content_end(struct content *k, const struct warren_error *err, int fd)
{
	struct call *c = k->call;

	if (fd >= 0)
		(void)close(fd);
	if (c->req && err && !c->answered)
		file_fail(c, err);
	call_unref(c);
	buf_done(&k->out);
	free(k);
}

static void content_ask(struct call *c, struct warden_proto_volume *m, int status,
			volume_reply_fn fn)
{
	struct content *k = calloc(1, sizeof(*k));

	if (!k) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	k->call = call_ref(c);
	k->status = status;
	k->out = (struct buf)BUF_INIT(CONTENT_LIST_BYTES);
	(void)memcpy(k->path, m->path, sizeof(k->path));
	m->flags |= WIRE_VOLUME_MORE;
	volume_ask(c->v1->service, c->caller.tenant, c->route.param[0], m, fn, k);
}

static void content_on_entry(void *ctx, const struct warren_error *err, const char *data,
			     size_t size, int fd)
{
	struct content *k = ctx;

	if (!err && k->call->req)
		content_answer(k->call, k->status, k->path, data, size);
	content_end(k, err, fd);
}

void e2b_content_stat(struct call *c)
{
	struct warden_proto_volume m = { .verb = WIRE_VOLUME_STAT };

	if (content_path(c, &m))
		content_ask(c, &m, 200, content_on_entry);
}

void e2b_content_change(struct call *c)
{
	struct warden_proto_volume m = {
		.verb = WIRE_VOLUME_CHANGE,
		.uid = (uint32_t)body_int(&c->body, "uid"),
		.gid = (uint32_t)body_int(&c->body, "gid"),
		.mode = (uint32_t)body_int(&c->body, "mode"),
		.flags = (body_has(&c->body, "uid") ? WIRE_VOLUME_SET_UID : 0) |
			 (body_has(&c->body, "gid") ? WIRE_VOLUME_SET_GID : 0) |
			 (body_has(&c->body, "mode") ? WIRE_VOLUME_SET_MODE : 0),
	};

	if (content_path(c, &m))
		content_ask(c, &m, 200, content_on_entry);
}

void e2b_content_make_dir(struct call *c)
{
	struct warden_proto_volume m = { .verb = WIRE_VOLUME_MKDIR };

	if (content_path(c, &m) && content_attributes(c, &m, 0755))
		content_ask(c, &m, 201, content_on_entry);
}

static void content_on_removed(void *ctx, const struct warren_error *err,
			       const char *data UNUSED, size_t size UNUSED, int fd)
{
	struct content *k = ctx;

	if (!err && k->call->req)
		call_empty(k->call, 204);
	content_end(k, err, fd);
}

void e2b_content_remove(struct call *c)
{
	struct warden_proto_volume m = { .verb = WIRE_VOLUME_REMOVE,
					 .flags = WIRE_VOLUME_RECURSIVE };

	if (content_path(c, &m))
		content_ask(c, &m, 204, content_on_removed);
}

/* -------------------------------------------------------------------------- list */

/* The path of the present entry, with the length of each directory in it. */
struct content_list {
	struct json json;
	char path[CONTENT_PATH_MAX];
	size_t length[WIRE_VOLUME_DEPTH_MAX + 2];
	size_t n;
};

/* False: the reply is not valid, or a path is too long. */
static bool content_list_one(struct content_list *l, const struct content_entry *e)
{
	uint32_t depth = e->more.depth;
	size_t n = strlen(e->found.name), at;

	if (depth > WIRE_VOLUME_DEPTH_MAX || l->length[depth] == SIZE_MAX)
		return false;
	at = l->length[depth];
	if (at + n + 2 > sizeof(l->path))
		return false;
	l->path[at] = '/';
	(void)memcpy(l->path + at + 1, e->found.name, n + 1);
	l->length[depth + 1] = at + 1 + n;
	content_show(&l->json, l->path, e);
	return ++l->n <= CONTENT_LIST_MAX;
}

/* Put all entries of a reply; false: they are not valid, or too many. */
static bool content_list_put(const char *dir, const char *data, size_t size,
			     struct buf *out)
{
	struct content_list *l = calloc(1, sizeof(*l));
	struct content_entry entry;
	size_t at = 0;
	bool valid = true;

	if (!l)
		return false;
	l->json.out = out;
	for (size_t i = 0; i < ARRAY_SIZE(l->length); i++)
		l->length[i] = SIZE_MAX; /* no such directory yet */
	l->length[0] = strlen(dir);
	while (l->length[0] > 0 && dir[l->length[0] - 1] == '/')
		l->length[0]--;
	(void)memcpy(l->path, dir, l->length[0]);
	json_open(&l->json, NULL, '[');
	while (valid && content_next(data, size, &at, &entry) == 1)
		valid = content_list_one(l, &entry);
	json_close(&l->json, ']');
	free(l);
	return valid && !out->failed;
}

/* On another thread, because a list may be long. */
static void content_list_work(void *ctx)
{
	struct content *k = ctx;
	struct stat st;
	size_t n = fstat(k->fd, &st) == 0 ? (size_t)st.st_size : 0;
	void *map = n > 0 ? mmap(NULL, n, PROT_READ, MAP_PRIVATE, k->fd, 0) : NULL;

	k->valid = map != MAP_FAILED && content_list_put(k->path, map, n, &k->out);
	if (map && map != MAP_FAILED)
		(void)munmap(map, n);
}

static void content_refuse_list(struct content *k)
{
	e2b_refuse(k->call, 400,
		   "'%s' has more than %d entries, or they are too long: list its "
		   "directories one by one",
		   k->path, CONTENT_LIST_MAX);
}

static void content_list_done(void *ctx)
{
	struct content *k = ctx;

	if (k->call->req && k->valid)
		call_json(k->call, 200, &k->out);
	else if (k->call->req)
		content_refuse_list(k);
	content_end(k, NULL, k->fd);
}

static void content_on_list(void *ctx, const struct warren_error *err,
			    const char *data UNUSED, size_t size UNUSED, int fd)
{
	struct content *k = ctx;
	struct call *c = k->call;

	k->fd = fd;
	if (!err && loop_work(service_loop(c->v1->service), c->caller.tenant,
			      content_list_work, content_list_done, k) == 0)
		return;
	if (!err && c->req)
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
	else if (c->req && err->code == E2BIG)
		content_refuse_list(k);
	content_end(k, err, fd);
}

void e2b_content_list(struct call *c)
{
	struct warden_proto_volume m = { .verb = WIRE_VOLUME_LIST,
					 .max = CONTENT_LIST_MAX + 1 };
	uint32_t depth = 1;

	if (content_number(c, "depth", WIRE_VOLUME_DEPTH_MAX, &depth) < 0 ||
	    !content_path(c, &m))
		return;
	if (depth == 0) {
		e2b_refuse(c, 400, "depth should be at least 1");
		return;
	}
	m.depth = depth - 1;
	content_ask(c, &m, 200, content_on_list);
}

/* ------------------------------------------------------------------ read and write */

void e2b_content_read(struct call *c)
{
	struct warden_proto_volume m = { 0 };

	if (content_path(c, &m))
		volume_file_read(c, m.path);
}

static void content_on_written(struct call *c, const char *path, const char *data,
			       size_t size)
{
	content_answer(c, 201, path, data, size);
}

void e2b_content_write(struct call *c)
{
	struct warden_proto_volume m = { .flags = WIRE_VOLUME_MORE };

	if (!access_body_is_plain(c->req))
		e2b_refuse(c, 400, "Content-Encoding is not supported");
	else if (content_path(c, &m) && content_attributes(c, &m, 0644))
		volume_write_begin(c, &m, content_on_written);
}
