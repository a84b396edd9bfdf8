/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_writer.c - write to files: with workers of the sandbox, or on other backends with
 * a thread for each file whose writes may block
 */
#include "service/files/file_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "service/files/internal.h"

#define FILE_WRITER_NO_ROOM                              \
	"write: too much data at once: it exceeds what " \
	"the sandbox's disk may hold, or the free space of the service's disk"

struct file_writer {
	struct service *service;
	struct fair_quota_lease lease;
	struct loop_watch *watch; /* of `event` */
	pthread_t thread;
	files_fn fn; /* NULL: no callback */
	void *ctx;
	int fd, event, result;
	size_t n;
	char data[];
};

static void file_writer_free(struct file_writer *w)
{
	w->watch = loop_watch_free(w->watch);
	if (w->fd >= 0)
		(void)close(w->fd);
	if (w->event >= 0)
		(void)close(w->event);
	lease_end(w->service, LEASE_WRITERS, &w->lease);
	free(w);
}

/*
 * Is this a temporary copy of a file that has no space left? The shim then removes the
 * mode of the copy (shim/core/file_copy.c).
 */
static bool file_writer_revoked(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 0 &&
	       (st.st_mode & 07777) == 0;
}

static int file_writer_write(int fd, const void *data, size_t n)
{
	return file_writer_revoked(fd) ? -EDQUOT : fd_write_all(fd, data, n);
}

static int file_writer_fail(int r, struct warren_error *err)
{
	return r == -EDQUOT ? error_set(err, ENOSPC, FILE_WRITER_NO_ROOM)
			    : error_errno(err, -r, "write");
}

/* Reporting the end must be the thread's last access to @ctx. */
static void *file_writer_thread(void *ctx)
{
	struct file_writer *w = ctx;

	w->result = file_writer_write(w->fd, w->data, w->n);
	(void)eventfd_write(w->event, 1);
	return NULL;
}

static void file_writer_done(void *ctx, unsigned events UNUSED)
{
	struct file_writer *w = ctx;
	struct warren_error err = WARREN_ERROR_INIT;
	files_fn fn = w->fn;
	void *whose = w->ctx;
	int r;

	(void)pthread_join(w->thread, NULL);
	r = w->result < 0 ? file_writer_fail(w->result, &err) : 0;
	file_writer_free(w);
	if (fn)
		fn(whose, NULL, r < 0 ? &err : NULL);
}

static int file_writer_begin(struct file_writer *w, const char *tenant, int fd,
			     struct warren_error *err)
{
	int r = lease_take(w->service, LEASE_WRITERS, tenant, 1, &w->lease, err);

	if (r < 0)
		return r;
	w->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	w->event = w->fd < 0 ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->event < 0)
		return error_errno(err, errno, "write");
	r = loop_watch(w->service->loop, w->event, LOOP_READ, file_writer_done, w,
		       &w->watch);
	if (r == 0)
		r = -pthread_create(&w->thread, NULL, file_writer_thread, w);
	return r < 0 ? error_errno(err, -r, "write") : 0;
}

uint32_t file_writer_stream(void)
{
	static uint32_t last;

	return ++last ? last : ++last;
}

unsigned file_writer_ahead(const struct files *f)
{
	return files_have_workers(f) ? 2 : 1;
}

/* NOLINTNEXTLINE(readability-function-size): a file, its data, an answer: nine words */
int file_writer_thread_start(struct service *s, const char *tenant, int fd,
			     const void *data, size_t n, files_fn fn, void *ctx,
			     struct file_writer **ret, struct warren_error *err)
{
	struct file_writer *w = malloc(sizeof(*w) + n);
	int r;

	if (!w)
		return error_errno(err, ENOMEM, "write");
	*w = (struct file_writer){
		.service = s, .fn = fn, .ctx = ctx, .fd = -1, .event = -1, .n = n
	};
	(void)memcpy(w->data, data, n);
	r = file_writer_begin(w, tenant, fd, err);
	if (r < 0)
		file_writer_free(w);
	else
		*ret = w;
	return r;
}

/* NOLINTNEXTLINE(readability-function-size): a file, its data, an answer: ten words */
int file_writer_start(struct files *f, int fd, uint32_t stream, bool nameless,
		      const void *data, size_t n, files_fn fn, void *ctx,
		      struct file_writer **ret, struct warren_error *err)
{
	const char *tenant = files_tenant(f);
	int r;

	*ret = NULL;
	if (!tenant)
		return error_set(err, ESTALE, "the sandbox is gone");
	if (files_have_workers(f))
		return files_write(f, fd, stream, data, n, fn, ctx, err);
	if (nameless) {
		r = file_writer_write(fd, data, n);
		return r < 0 ? file_writer_fail(r, err) : 1;
	}
	return file_writer_thread_start(files_service(f), tenant, fd, data, n, fn, ctx,
					ret, err);
}

struct file_writer *file_writer_cancel(struct file_writer *w)
{
	if (w)
		w->fn = NULL;
	return NULL;
}
