/* SPDX-License-Identifier: Apache-2.0 */
/*
 * archive.c - copy files with the daemon itself, without a process inside
 *
 * The daemon accesses the container's root from outside, confined to that root, so it
 * does not see mounts that were made inside. If a path ends in a link, the daemon sends
 * the link, and this file follows it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "shim/docker/docker.h"
#include "shim/docker/tar_entry.h"

#define HOPS     16
#define PATH_LEN 4096U

/* ----------------------------------------------------------------------- reading */

struct reading {
	struct entry entry;
	uint64_t skip, left;
	int to;
	int failed; /* -errno */
};

static int archive_on_bytes(void *ctx, const char *data, size_t n)
{
	struct reading *r = ctx;

	while (n > 0 && r->failed == 0 && r->left > 0) {
		size_t used = 0, piece = 0, skip, size;

		r->failed = entry_take(&r->entry, data, n, &used, &piece);
		if (r->failed < 0)
			break;
		skip = piece < r->skip ? piece : (size_t)r->skip;
		size = piece - skip < r->left ? piece - skip : (size_t)r->left;
		r->skip -= skip;
		r->left -= size;
		r->failed = fd_write_all(r->to, data + used - piece + skip, size);
		data += used;
		n -= used;
	}
	return r->failed < 0 || r->left == 0 ? -1 : 0;
}

/* Follow the link at @path. */
static int archive_follow(char path[PATH_LEN], const char *link)
{
	char next[PATH_LEN];
	const char *slash = strrchr(path, '/');
	int n = link[0] == '/' ? snprintf(next, sizeof(next), "%s", link)
			       : snprintf(next, sizeof(next), "%.*s/%s",
					  (int)(slash ? slash - path : 0), path, link);

	if (n < 0 || (size_t)n >= sizeof(next))
		return -ENAMETOOLONG;
	(void)strcpy(path, next);
	return 0;
}

static int archive_get(struct docker *d, const struct shim_sandbox *p, const char *path,
		       struct reading *r, struct warren_error *err)
{
	static const char step[] = "read a file";
	char id[DOCKER_ID_LEN + 1];
	char *escaped = curl_easy_escape(d->easy, path, 0);
	int k = docker_id(d, p, step, id, err);

	if (k == 0 && !escaped)
		k = error_errno(err, ENOMEM, "%s: %s", d->name, step);
	if (k < 0) {
		curl_free(escaped);
		return k;
	}
	entry_init(&r->entry);
	d->pace = DOCKER_MOVING;
	d->sink = archive_on_bytes;
	d->ctx = r;
	k = docker_ask(d, step, "GET", NULL, err, "/containers/%s/archive?path=%s", id,
		       escaped);
	curl_free(escaped);
	entry_done(&r->entry);
	if (k == -EIO && strstr(err->msg, "too many links"))
		return error_errno(err, ELOOP, "%s: %s '%.200s'", d->name, step, path);
	if (k < 0)
		return k;
	if (r->failed == -EBADMSG)
		return docker_odd(d, step, err);
	if (r->failed < 0)
		return error_errno(err, -r->failed, "%s: %s '%.200s'", d->name, step,
				   path);
	return 0;
}

int docker_read_file(struct shim_sandbox *p, const char *path, uint64_t offset,
		     uint64_t size, int to, struct warren_error *err)
{
	AUTO_DOCKER struct docker d = { 0 };
	char at[PATH_LEN];
	int r = docker_open(&d, p->name, p->config, err);

	if (r < 0)
		return r;
	if (strlen(path) >= sizeof(at))
		return error_errno(err, ENAMETOOLONG, "%s: read a file", p->name);
	(void)strcpy(at, path);
	for (int hop = 0; hop < HOPS; hop++) {
		/* Read at least one byte, to find out the type of the file. */
		struct reading *reading = calloc(1, sizeof(*reading));
		char type;

		if (!reading)
			return error_errno(err, ENOMEM, "%s: read a file", p->name);
		reading->skip = offset;
		reading->left = size;
		reading->to = to;
		r = archive_get(&d, p, at, reading, err);
		type = reading->entry.type;
		if (r == 0 && type == '2')
			r = archive_follow(at, reading->entry.link);
		free(reading);
		if (r < 0)
			return r;
		if (type == '0')
			return 0;
		if (type != '2')
			return error_errno(err, type == '5' ? EISDIR : EINVAL,
					   "%s: read '%.200s'", p->name, at);
	}
	return error_errno(err, ELOOP, "%s: read '%.200s'", p->name, path);
}

/* ----------------------------------------------------------------------- writing */

struct writing {
	struct buf head;
	size_t head_at, tail;
	uint64_t left;
	int from;
};

static size_t archive_on_send(void *ctx, char *data, size_t n)
{
	struct writing *w = ctx;
	ssize_t got;

	if (w->head_at < w->head.len) {
		if (n > w->head.len - w->head_at)
			n = w->head.len - w->head_at;
		(void)memcpy(data, w->head.data + w->head_at, n);
		w->head_at += n;
		return n;
	}
	if (w->left == 0) {
		if (n > w->tail)
			n = w->tail;
		(void)memset(data, 0, n);
		w->tail -= n;
		return n;
	}
	do
		got = read(w->from, data, w->left < n ? (size_t)w->left : n);
	while (got < 0 && errno == EINTR);
	if (got <= 0) /* a partial file must not look complete */
		return CURL_READFUNC_ABORT;
	w->left -= (uint64_t)got;
	return (size_t)got;
}

static int archive_put(struct docker *d, const struct shim_sandbox *p, const char *folder,
		       struct writing *w, struct warren_error *err)
{
	static const char step[] = "write a file";
	char id[DOCKER_ID_LEN + 1];
	char *escaped = curl_easy_escape(d->easy, folder, 0);
	int r = docker_id(d, p, step, id, err);

	if (r == 0 && !escaped)
		r = error_errno(err, ENOMEM, "%s: %s", d->name, step);
	if (r < 0) {
		curl_free(escaped);
		return r;
	}
	d->pace = DOCKER_MOVING;
	d->source = archive_on_send;
	d->ctx = w;
	d->sent = w->head.len + w->left + w->tail;
	r = docker_ask(d, step, "PUT", NULL, err, "/containers/%s/archive?path=%s", id,
		       escaped);
	curl_free(escaped);
	return r < 0 ? r : 0;
}

int docker_write_file(struct shim_sandbox *p, const char *path, int from, uint64_t size,
		      uint32_t mode, uint32_t uid, uint32_t gid, struct warren_error *err)
{
	AUTO_DOCKER struct docker d = { 0 };
	const char *slash = strrchr(path, '/');
	struct writing w = { .head = BUF_INIT(ENTRY_HEAD_MAX),
			     .tail = entry_tail(size),
			     .left = size,
			     .from = from };
	AUTO_FREE char *folder =
		slash > path ? strndup(path, (size_t)(slash - path)) : strdup("/");
	int r = docker_open(&d, p->name, p->config, err);

	if (r == 0 && (!slash || !slash[1]))
		r = error_errno(err, EISDIR, "%s: write '%.200s'", p->name, path);
	if (r == 0 && (!folder || !entry_write(&w.head, slash + 1, size, mode, uid, gid)))
		r = error_errno(err, ENOMEM, "%s: write a file", p->name);
	if (r == 0)
		r = archive_put(&d, p, folder, &w, err);
	buf_done(&w.head);
	return r;
}
