/* SPDX-License-Identifier: Apache-2.0 */
/*
 * archive.c - archives with the files of COPY
 *
 * The client names an archive by a hash that it has computed from the files, in its own
 * way. So the hash is only a name, which no other tenant can use.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "archive/tar.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "service/template/internal.h"

#define ARCHIVE_SWEEP_MS 60000
#define NS_PER_MS        1000000ULL

struct template_upload {
	struct template_upload *next;
	struct template_archive *archive;
	uint64_t size; /* that was announced */
	char head[ARCHIVE_HEAD];
	size_t n_head;
	bool writing; /* a thread uses it */
	bool gone;    /* free it when the thread is done */
	char *data;   /* a copy, because the client may leave */
	size_t n;
	int result;
	service_done_fn done;
	void *ctx;
};

static uint64_t archive_now(void)
{
	return clock_now() / NS_PER_MS;
}

/* It does not need the service any more. */
static void archive_detach(struct template_archive *a)
{
	a->hold = db_release(a->service->db, a->hold);
	disk_release(a->service, a->reserved);
	a->reserved = 0;
	lease_end(a->service, LEASE_DESCRIPTORS, &a->descriptor);
	a->service = NULL;
}

static void archive_free(struct template_archive *a)
{
	struct service *s = a->service;

	if (s)
		archive_detach(a);
	if (a->fd >= 0 && s)
		loop_close(s->loop, a->fd);
	else if (a->fd >= 0)
		(void)close(a->fd);
	free(a);
}

static struct template_archive *archive_find(struct service *s, const char *tenant,
					     const char *hash)
{
	for (struct template_archive *a = template_module(s)->archives; a; a = a->next)
		if (strcmp(a->hash, hash) == 0 && strcmp(a->tenant, tenant) == 0)
			return a;
	return NULL;
}

/* Remove it from the list; it is freed when no build reads it. */
static void archive_drop(struct template_archive *a)
{
	(void)LIST_REMOVE(template_module(a->service)->archives, a);
	a->replaced = true;
	if (a->users == 0)
		archive_free(a);
}

static void archive_on_timer(void *ctx)
{
	struct service *s = ctx;
	struct template_module *m = template_module(s);
	struct template_archive *next;

	for (struct template_archive *a = m->archives; a; a = next) {
		next = a->next;
		if (a->users == 0 && archive_now() >= a->used + TEMPLATE_KEEP_MS)
			archive_drop(a);
	}
	if (m->archives)
		loop_timer_set(m->timer, ARCHIVE_SWEEP_MS);
}

bool template_has_archive(struct service *s, const char *tenant, const char *hash)
{
	struct template_archive *a = archive_find(s, tenant, hash);

	if (a)
		a->used = archive_now();
	return a;
}

struct template_archive *template_archive_get(struct service *s, const char *tenant,
					      const char *hash)
{
	struct template_archive *a = archive_find(s, tenant, hash);

	if (a)
		a->users++;
	return a;
}

void template_archive_put(struct template_archive *a)
{
	a->used = archive_now();
	if (--a->users == 0 && a->replaced)
		archive_free(a);
}

void template_archives_close(struct service *s)
{
	struct template_module *m = template_module(s);

	while (m->uploads) {
		struct template_upload *u = LIST_POP(m->uploads);

		archive_detach(u->archive);
		(void)template_upload_cancel(u);
	}
	while (m->archives) {
		struct template_archive *a = LIST_POP(m->archives);

		archive_detach(a);
		a->replaced = true;
		if (a->users == 0)
			archive_free(a);
	}
	m->timer = loop_timer_free(m->timer);
}

/* ---------------------------------------------------------------------- upload */

static size_t archive_count(struct service *s, const char *tenant)
{
	const struct template_module *m = template_module(s);
	size_t n = 0;

	for (const struct template_archive *a = m->archives; a; a = a->next)
		n += strcmp(a->tenant, tenant) == 0;
	for (const struct template_upload *u = m->uploads; u; u = u->next)
		n += strcmp(u->archive->tenant, tenant) == 0;
	return n;
}

/* Charge the tenant for the archive, and create its file. */
static int archive_open(struct template_archive *a, uint64_t size,
			struct warren_error *err)
{
	const uint64_t uses[DB_QUOTA_MAX] = { [DB_QUOTA_DISK] = size };
	struct service *s = a->service;
	int r = disk_admit(s, err);

	if (r == 0)
		r = lease_take(s, LEASE_DESCRIPTORS, a->tenant, 1, &a->descriptor, err);
	if (r == 0)
		r = db_hold(s->db, a->tenant, uses, &a->hold, err);
	if (r == 0)
		r = disk_reserve(s, size, err);
	if (r < 0)
		return r;
	a->reserved = size;
	a->fd = openat(s->journals, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	return a->fd < 0 ? error_errno(err, errno, "create a file for an archive") : 0;
}

int template_upload_begin(struct service *s, const char *tenant, const char *hash,
			  uint64_t size, struct template_upload **ret,
			  struct warren_error *err)
{
	struct template_module *m = template_module(s);
	struct template_upload *u;
	int r = 0;

	if (size > TEMPLATE_ARCHIVE_MAX)
		return error_set(err, EFBIG, "an archive has at most %llu bytes",
				 TEMPLATE_ARCHIVE_MAX);
	if (archive_count(s, tenant) >= TEMPLATE_ARCHIVES_MAX)
		return error_set(
			err, EAGAIN,
			"the tenant has %d archives; they are deleted %d minutes "
			"after their last use",
			TEMPLATE_ARCHIVES_MAX, TEMPLATE_KEEP_MS / 60000);
	u = calloc(1, sizeof(*u));
	if (u)
		u->archive = calloc(1, sizeof(*u->archive));
	if (!u || !u->archive) {
		free(u);
		return error_errno(err, ENOMEM, "receive an archive");
	}
	u->size = size;
	u->archive->service = s;
	u->archive->fd = -1;
	(void)snprintf(u->archive->tenant, sizeof(u->archive->tenant), "%s", tenant);
	(void)snprintf(u->archive->hash, sizeof(u->archive->hash), "%s", hash);
	LIST_APPEND(m->uploads, u);
	if (!m->timer && loop_timer_new(s->loop, archive_on_timer, s, &m->timer) < 0)
		r = error_errno(err, ENOMEM, "receive an archive");
	if (r == 0)
		r = archive_open(u->archive, size, err);
	if (r < 0) {
		(void)template_upload_cancel(u);
		return r;
	}
	*ret = u;
	return 0;
}

static void template_upload_free(struct template_upload *u)
{
	if (u->archive->service)
		(void)LIST_REMOVE(template_module(u->archive->service)->uploads, u);
	archive_free(u->archive);
	free(u);
}

struct template_upload *template_upload_cancel(struct template_upload *u)
{
	if (u && u->writing)
		u->gone = true;
	else if (u)
		template_upload_free(u);
	return NULL;
}

/* On another thread. */
static void template_upload_work(void *ctx)
{
	struct template_upload *u = ctx;

	u->result = fd_write_all(u->archive->fd, u->data, u->n);
}

static void archive_grow(struct template_archive *a, size_t n)
{
	a->size += n;
	a->reserved -= n;
	disk_release(a->service, n);
}

static void template_upload_on_written(void *ctx)
{
	struct template_upload *u = ctx;
	struct warren_error err = WARREN_ERROR_INIT;

	u->writing = false;
	free(TAKE_PTR(u->data));
	if (u->gone) {
		template_upload_free(u);
		return;
	}
	if (u->result < 0)
		(void)error_errno(&err, -u->result, "write an archive");
	else
		archive_grow(u->archive, u->n);
	u->done(u->ctx, u->result < 0 ? u->result : 0, &err);
}

void template_upload_write(struct template_upload *u, const char *data, size_t n,
			   service_done_fn done, void *ctx)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	u->n = n;
	u->done = done;
	u->ctx = ctx;
	if (n > u->size - u->archive->size) {
		r = error_set(&err, EBADMSG, "the archive is larger than announced");
		done(ctx, r, &err);
		return;
	}
	if (u->n_head < sizeof(u->head)) {
		size_t more = sizeof(u->head) - u->n_head;

		more = n < more ? n : more;
		(void)memcpy(u->head + u->n_head, data, more);
		u->n_head += more;
	}
	u->data = malloc(n);
	if (u->data)
		(void)memcpy(u->data, data, n);
	u->writing = true;
	r = u->data ? loop_work(u->archive->service->loop, u->archive->tenant,
				template_upload_work, template_upload_on_written, u)
		    : -ENOMEM;
	if (r < 0) {
		free(TAKE_PTR(u->data));
		u->writing = false;
		done(ctx, error_errno(&err, ENOMEM, "write an archive"), &err);
	}
}

int template_upload_end(struct template_upload *u, struct warren_error *err)
{
	struct template_archive *a = u->archive, *former;
	struct template_module *m = template_module(a->service);

	if (a->size != u->size) {
		template_upload_free(u);
		return error_set(err, EBADMSG, "the archive is smaller than announced");
	}
	former = archive_find(a->service, a->tenant, a->hash);
	if (former)
		archive_drop(former);
	a->used = archive_now();
	a->known = archive_is_known(u->head, u->n_head);
	LIST_APPEND(m->archives, a);
	(void)LIST_REMOVE(m->uploads, u);
	free(u);
	if (!loop_timer_is_set(m->timer))
		loop_timer_set(m->timer, ARCHIVE_SWEEP_MS);
	return 0;
}
