/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_stdin.c - bytes into an exec's stdin or terminal, as fast as it reads
 *
 * One piece at a time goes into the pipe, in the order of the requests; the
 * next is taken when the last is in. Nothing here waits but the loop.
 */
#include <errno.h>
#include <string.h>

#include "service/core/internal.h"

struct feed {
	struct feed *next;
	struct run *run;
	bool end; /* close stdin after it */
	service_done_fn done;
	void *ctx;
	size_t size, sent;
	char data[];
};

static void feed_next(struct run *run);

static void feed_end(struct feed *f, int r, const struct warren_error *err)
{
	struct run *run = f->run;

	run->feed_watch = loop_watch_free(run->feed_watch);
	run->feeds = f->next;
	f->done(f->ctx, r, err);
	free(f);
	feed_next(run);
	(void)run_unref(run);
}

static void close_input(struct run *run)
{
	struct proto_close_input msg = { .h = { .type = PROTO_CLOSE_INPUT },
					 .exec = run->row.number };

	run->input_ended = !run->row.pty;
	if (run->input >= 0 && !run->row.pty)
		(void)close(TAKE_FD(run->input));
	run_ask(run, &msg, sizeof(msg), "close stdin", service_ignore, NULL);
}

static void on_room(void *ctx, unsigned events UNUSED)
{
	struct run *run = ctx;
	struct feed *f = run->feeds;
	struct warren_error err = WARREN_ERROR_INIT;

	while (f->sent < f->size) {
		ssize_t n = write(run->input, f->data + f->sent, f->size - f->sent);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			feed_end(f, error_set(&err, EPIPE, "the exec's stdin is closed"),
				 &err);
			return;
		}
		f->sent += (size_t)n;
	}
	run->feed_watch = loop_watch_free(run->feed_watch);
	if (f->end)
		close_input(run);
	feed_end(f, 0, NULL);
}

static void on_input(void *ctx, int fd, const struct warren_error *err)
{
	struct run *run = ctx;
	struct feed *f = run->feeds;
	struct warren_error why = WARREN_ERROR_INIT;
	int r;

	if (fd < 0) {
		feed_end(f, -EPIPE, err);
		return;
	}
	if (f->size == 0) { /* nothing but the end of it */
		close_input(run);
		feed_end(f, 0, NULL);
		return;
	}
	r = loop_watch(run->box->service->loop, fd, LOOP_WRITE, on_room, run,
		       &run->feed_watch);
	if (r < 0) {
		feed_end(f, error_errno(&why, -r, "write to stdin"), &why);
		return;
	}
	on_room(run, LOOP_WRITE);
}

static void feed_next(struct run *run)
{
	if (run->feeds)
		run_input(run, on_input, run);
}

void feed_stop(struct run *run)
{
	struct feed *feeds = run->feeds;
	struct warren_error err = WARREN_ERROR_INIT;

	/* What still waits for its descriptor is answered by who finds it. */
	if (!run->feed_watch)
		return;
	run->feed_watch = loop_watch_free(run->feed_watch);
	run->feeds = NULL;
	(void)error_set(&err, EPIPE, "the exec has ended");
	while (feeds) {
		struct feed *f = feeds;

		feeds = f->next;
		f->done(f->ctx, -EPIPE, &err);
		(void)run_unref(run);
		free(f);
	}
}

void run_feed(struct run *run, const void *data, size_t size, bool end,
	      service_done_fn done, void *ctx)
{
	struct feed *f = malloc(sizeof(*f) + size), **at = &run->feeds;
	struct warren_error err = WARREN_ERROR_INIT;
	bool idle = !run->feeds;

	if (!f) {
		done(ctx, error_errno(&err, ENOMEM, "write to stdin"), &err);
		return;
	}
	*f = (struct feed){
		.run = run_ref(run), .end = end, .done = done, .ctx = ctx, .size = size
	};
	if (size > 0)
		(void)memcpy(f->data, data, size);
	while (*at)
		at = &(*at)->next;
	*at = f;
	if (idle)
		feed_next(run);
}
