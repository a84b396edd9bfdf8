/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_archive.c - handlers: save an image as an archive, load an archive, tag an image
 *
 * An archive passes through a pipe of warren-image(1), as fast as the slower side. The
 * result arrives in another pipe. A download begins with the first byte of the archive,
 * so that an image that does not exist is an ordinary error; after that, an error cuts
 * the connection.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "api/v1/image_archive.h"
#include "base/json.h"
#include "net/loop.h"

#define ARCHIVE_PIECE  65536
#define ARCHIVE_TURN   8          /* pieces before other work has its turn */
#define ARCHIVE_WAITS  (4U << 20) /* data that waits for warren-image(1) */
#define ARCHIVE_ANSWER (1U << 20)

void image_archive_close(struct image_archive *a)
{
	a->watch = loop_watch_free(a->watch);
	if (a->fd >= 0)
		(void)close(TAKE_FD(a->fd));
}

static void archive_gone(struct call *c)
{
	struct image_archive *a = c->state;

	c->state = NULL;
	if (!a)
		return;
	a->stream = image_stream_cancel(a->stream);
	image_archive_close(a);
	a->timer = loop_timer_free(a->timer);
	buf_done(&a->waits);
	free(a);
}

/* Answer with an error, or cut a response that has begun. */
static void archive_fail(struct image_archive *a, const struct warren_error *err)
{
	a->stream = image_stream_cancel(a->stream);
	image_archive_close(a);
	if (a->begun)
		http_abort(a->call->req);
	else
		v1_image_fail(a->call, err);
}

static void archive_stop(struct call *c, bool last)
{
	struct warren_error why = WARREN_ERROR_INIT;

	if (!last || !c->state)
		return;
	(void)error_set(&why, ESHUTDOWN, "the service is stopping: try again");
	archive_fail(c->state, &why);
}

static void archive_watch(struct image_archive *a, int fd, unsigned events,
			  void (*fn)(void *ctx, unsigned events))
{
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	a->fd = fd;
	r = loop_watch(service_loop(a->call->v1->service), fd, events, fn, a, &a->watch);
	if (r < 0) {
		(void)error_errno(&err, -r, "watch the archive");
		archive_fail(a, &err);
	}
}

struct image_archive *image_archive_new(struct call *c)
{
	struct image_archive *a = calloc(1, sizeof(*a));

	if (!a) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return NULL;
	}
	*a = (struct image_archive){ .call = c,
				     .fd = -1,
				     .waits = BUF_INIT(ARCHIVE_WAITS) };
	c->state = a;
	c->gone = archive_gone;
	c->stop = archive_stop;
	return a;
}

static void archive_begin(struct call *c, enum image_stream_kind kind, const char *ref,
			  const struct image_stream_ops *ops)
{
	const struct image_stream_request request = { .kind = kind,
						      .tenant = c->caller.tenant,
						      .ref = ref };
	struct image_archive *a = image_archive_new(c);
	struct warren_error err = WARREN_ERROR_INIT;

	if (a &&
	    image_stream_start(c->v1->service, &request, ops, a, &a->stream, &err) < 0)
		call_fail(c, &err);
}

/* ------------------------------------------------------------------------ save */

static void save_end_if_over(struct image_archive *a)
{
	if (a->over && a->done)
		(void)http_end(a->call->req);
}

/* Send a piece; false: wait. */
static bool save_put_piece(struct image_archive *a)
{
	static char room[ARCHIVE_PIECE];
	ssize_t n = read(a->fd, room, sizeof(room));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		a->over = true;
		image_archive_close(a);
		save_end_if_over(a);
		return false;
	}
	if (!a->begun)
		call_begin_bytes(a->call, "application/x-tar");
	a->begun = true;
	if (http_write(a->call->req, room, (size_t)n) == 0)
		return true;
	if (a->watch)
		(void)loop_watch_set(a->watch, 0);
	return false;
}

static void save_on_data(void *ctx, unsigned events UNUSED)
{
	struct image_archive *a = ctx;
	struct call *c = call_ref(a->call);

	/* A client that is gone ends the call, and with it @a. */
	for (int i = 0; i < ARCHIVE_TURN && c->state == a; i++)
		if (!save_put_piece(a))
			break;
	call_unref(c);
}

static void save_on_drained(struct http_request *req)
{
	const struct image_archive *a = ((struct call *)req->user)->state;

	if (a && a->watch)
		(void)loop_watch_set(a->watch, LOOP_READ);
}

static void save_on_opened(void *ctx, int fd)
{
	archive_watch(ctx, fd, LOOP_READ, save_on_data);
}

static void save_on_done(void *ctx, int r, const char *json UNUSED, size_t size UNUSED,
			 const struct warren_error *err)
{
	struct image_archive *a = ctx;

	a->stream = NULL;
	if (r < 0) {
		archive_fail(a, err);
		return;
	}
	a->done = true;
	save_end_if_over(a);
}

void v1_save_image(struct call *c)
{
	static const struct image_stream_ops ops = { .opened = save_on_opened,
						     .done = save_on_done };
	char room[V1_IMAGE_SIZE];
	const char *image =
		v1_image_named(c, c->query.v[V1_SAVE_IMAGE_QUERY_IMAGE].text, room);

	if (!image)
		return;
	c->req->drained = save_on_drained;
	archive_begin(c, IMAGE_STREAM_SAVE, image, &ops);
}

/* ------------------------------------------------------------------------ load */

/* Write what waits. If the program no longer reads, its result says why. */
static void load_flush(struct image_archive *a)
{
	while (a->fd >= 0 && a->waits_off < a->waits.len) {
		ssize_t n = write(a->fd, a->waits.data + a->waits_off,
				  a->waits.len - a->waits_off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			image_archive_close(a);
			break;
		}
		a->waits_off += (size_t)n;
	}
	if (a->fd >= 0 && a->waits_off < a->waits.len) {
		(void)loop_watch_set(a->watch, LOOP_WRITE);
		return;
	}
	a->waits.len = a->waits_off = 0;
	if (a->watch)
		(void)loop_watch_set(a->watch, 0);
	if (a->fed)
		image_archive_close(a);
	else
		http_resume(a->call->req);
}

static void load_on_writable(void *ctx, unsigned events UNUSED)
{
	load_flush(ctx);
}

static void load_on_piece(struct http_request *req, const char *data, size_t n)
{
	struct call *c = req->user;
	struct image_archive *a = c->state;
	struct warren_error err = WARREN_ERROR_INIT;

	if (!a || c->answered)
		return;
	a->fed = n == 0;
	buf_add(&a->waits, data, n);
	if (a->waits.failed) {
		(void)error_errno(&err, ENOMEM, "receive the archive");
		archive_fail(a, &err);
		return;
	}
	if (n > 0)
		http_pause(req);
	load_flush(a);
}

void image_archive_upload(void *ctx, int fd)
{
	struct image_archive *a = ctx;

	archive_watch(a, fd, 0, load_on_writable);
	if (a->fd >= 0 && a->call->req->has_body)
		http_stream(a->call->req, load_on_piece);
	else
		image_archive_close(a);
}

/* Each line of @lines describes an image, or another name of the one before it. */
static void load_answer(struct call *c, const char *lines, size_t size)
{
	AUTO_BUF struct buf out = BUF_INIT(ARCHIVE_ANSWER);
	struct json j = { .out = &out };

	json_open(&j, NULL, '{');
	json_open(&j, "images", '[');
	for (const char *end; (end = memchr(lines, '\n', size)); lines = end + 1) {
		size_t n = (size_t)(end - lines);
		json_t *line = json_loadb(lines, n, 0, NULL);
		const char *name = json_string_value(json_object_get(line, "reference"));

		json_open(&j, NULL, '{');
		json_str(&j, "id", json_string_value(json_object_get(line, "id")));
		json_str(&j, "name", name);
		json_close(&j, '}');
		json_decref(line);
		size -= n + 1;
	}
	json_close(&j, ']');
	json_close(&j, '}');
	call_json(c, 200, &out);
}

static void load_on_done(void *ctx, int r, const char *json, size_t size,
			 const struct warren_error *err)
{
	struct image_archive *a = ctx;

	a->stream = NULL;
	image_archive_close(a);
	if (r < 0 && (r == -EBADMSG || r == -EPROTO || r == -ENODEV || r == -ENOMEDIUM))
		call_refuse(a->call, API_ERR_INVALID_REQUEST, "%s", err->msg);
	else if (r < 0)
		v1_image_fail(a->call, err);
	else
		load_answer(a->call, json, size);
}

void v1_load_image(struct call *c)
{
	static const struct image_stream_ops ops = { .opened = image_archive_upload,
						     .done = load_on_done };

	archive_begin(c, IMAGE_STREAM_LOAD, NULL, &ops);
}

/* ------------------------------------------------------------------------- tag */

void v1_tag_image(struct call *c)
{
	char room[V1_IMAGE_SIZE];
	const char *image = v1_image_named(c, body_text(&c->body, "image"), room);

	if (image)
		image_tag(c->v1->service, image, body_text(&c->body, "name"),
			  v1_image_on_changed, call_ref(c));
}
