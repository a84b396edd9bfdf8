/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context.c - write the context of a build to a pipe of warren-image(1)
 *
 * The archives are files of a tar archive. A thread reads a piece of an archive, and the
 * loop writes it to the pipe; so neither a slow disk nor a slow reader holds up others.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "archive/tar.h"
#include "base/fd.h"
#include "service/template/internal.h"

#define CONTEXT_PIECE 262144
#define CONTEXT_TEXT  (20U << 20) /* the request and the Dockerfile */

struct template_context {
	struct service *service; /* NULL: stopped; the thread frees it */
	int fd;                  /* -1: closed */
	struct loop_watch *watch;
	struct buf out; /* to be written; @off bytes were written */
	size_t off;
	/* Taken; those before @at are done. */
	struct template_archive *archives[TEMPLATE_STEPS_MAX];
	size_t n, at;
	uint64_t read; /* bytes of the current archive */
	bool reading;  /* a thread fills `piece` */
	bool ended;    /* everything is in `out` */
	char *piece;
	ssize_t got;
};

static void template_context_step(struct template_context *c);

static void template_context_free(struct template_context *c)
{
	c->watch = loop_watch_free(c->watch);
	if (c->fd >= 0)
		(void)close(c->fd);
	for (; c->at < c->n; c->at++)
		template_archive_put(c->archives[c->at]);
	free(c->piece);
	buf_done(&c->out);
	free(c);
}

/* The reader is gone, or everything was written. */
static void template_context_close(struct template_context *c)
{
	c->watch = loop_watch_free(c->watch);
	if (c->fd >= 0)
		(void)close(TAKE_FD(c->fd));
	c->out.len = c->off = 0;
}

struct template_context *template_context_stop(struct template_context *c)
{
	if (!c)
		return NULL;
	template_context_close(c);
	if (c->reading)
		c->service = NULL;
	else
		template_context_free(c);
	return NULL;
}

/* --------------------------------------------------------------------- archives */

static void template_context_put_head(struct buf *out, const char *name, uint64_t size)
{
	AUTO_BUF struct buf pax = BUF_INIT(8192);
	const struct tar_header head = {
		.name = name, .link = "", .type = '0', .mode = 0644, .size = size
	};

	tar_put_header(out, &head, &pax);
}

/* On another thread. */
static void template_context_read(void *ctx)
{
	struct template_context *c = ctx;
	const struct template_archive *a = c->archives[c->at];
	uint64_t left = a->size - c->read;

	c->got = pread(a->fd, c->piece, left < CONTEXT_PIECE ? left : CONTEXT_PIECE,
		       (off_t)c->read);
}

static void template_context_on_read(void *ctx)
{
	struct template_context *c = ctx;

	c->reading = false;
	if (!c->service) {
		template_context_free(c);
		return;
	}
	/* The archive is incomplete then, which warren-image(1) reports. */
	if (c->got <= 0) {
		template_context_close(c);
		return;
	}
	buf_add(&c->out, c->piece, (size_t)c->got);
	c->read += (uint64_t)c->got;
	template_context_step(c);
}

/* Put the next bytes into `out`, at once or later. */
static void template_context_next(struct template_context *c)
{
	struct template_archive *a = c->at < c->n ? c->archives[c->at] : NULL;
	char name[TEMPLATE_HASH_LEN + 32];

	if (a && c->read == 0) {
		(void)snprintf(name, sizeof(name), TEMPLATE_ARCHIVE_NAME, a->hash);
		template_context_put_head(&c->out, name, a->size);
	}
	if (a && c->read < a->size) {
		c->reading = true;
		if (loop_work(c->service->loop, a->tenant, template_context_read,
			      template_context_on_read, c) < 0) {
			c->reading = false;
			template_context_close(c);
		}
		return;
	}
	if (a) {
		tar_pad(&c->out, a->size);
		c->read = 0;
		c->at++;
		template_archive_put(a);
	} else {
		tar_end(&c->out);
		c->ended = true;
	}
}

/* ------------------------------------------------------------------------- pipe */

/* False: the pipe is full, or closed. */
static bool template_context_flush(struct template_context *c)
{
	while (c->fd >= 0 && c->off < c->out.len) {
		ssize_t n = write(c->fd, c->out.data + c->off, c->out.len - c->off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			(void)loop_watch_set(c->watch, LOOP_WRITE);
			return false;
		}
		if (n < 0) {
			template_context_close(c);
			return false;
		}
		c->off += (size_t)n;
	}
	c->out.len = c->off = 0;
	return c->fd >= 0;
}

static void template_context_step(struct template_context *c)
{
	while (template_context_flush(c) && !c->reading) {
		if (c->ended || c->out.failed) {
			template_context_close(c);
			return;
		}
		template_context_next(c);
	}
	if (c->watch && c->reading)
		(void)loop_watch_set(c->watch, 0);
}

static void template_context_on_writable(void *ctx, unsigned events UNUSED)
{
	template_context_step(ctx);
}

struct template_context *template_context_start(struct service *s, int fd,
						struct buf *head, const char *dockerfile,
						struct template_archive **archives,
						size_t n)
{
	struct template_context *c = calloc(1, sizeof(*c));
	size_t size = strlen(dockerfile);

	if (!c) {
		(void)close(fd);
		for (size_t i = 0; i < n; i++)
			template_archive_put(archives[i]);
		return NULL;
	}
	*c = (struct template_context){ .service = s,
					.fd = fd,
					.out = BUF_INIT(CONTEXT_TEXT),
					.n = n,
					.piece = malloc(CONTEXT_PIECE) };
	for (size_t i = 0; i < n; i++)
		c->archives[i] = archives[i];
	buf_add(&c->out, head->data, head->len);
	template_context_put_head(&c->out, "Dockerfile", size);
	buf_add(&c->out, dockerfile, size);
	tar_pad(&c->out, size);
	if (!c->piece || c->out.failed ||
	    loop_watch(s->loop, fd, LOOP_WRITE, template_context_on_writable, c,
		       &c->watch) < 0) {
		template_context_free(c);
		return NULL;
	}
	return c;
}
