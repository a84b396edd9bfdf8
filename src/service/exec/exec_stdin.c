/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_stdin.c - write to an exec's stdin or terminal, as fast as it reads
 *
 * The requests are written to the pipe in order, one piece at a time; the next piece is
 * written when the previous one is in the pipe. Only the loop waits for the pipe; no
 * thread blocks.
 */
#include <errno.h>
#include <string.h>

#include "base/list.h"
#include "service/exec/internal.h"

struct exec_stdin {
	struct exec_stdin *next;
	struct exec *exec;
	bool end; /* close stdin afterwards */
	service_done_fn done;
	void *ctx;
	size_t size, sent;
	char data[];
};

#define FEED_MAX  (8UL << 20) /* bytes that wait, after the first piece */
#define FEED_COST 16384       /* of a piece of any size */

static void feed_next(struct exec *exec);

/* Nothing waits: the tenant may use the memory otherwise. */
static void feed_release(struct exec *exec)
{
	exec->feeding = 0;
	lease_end(exec->service, LEASE_MEMORY, &exec->feed_memory);
}

static void feed_end(struct exec_stdin *f, int r, const struct warren_error *err)
{
	struct exec *exec = f->exec;

	exec->feed_watch = loop_watch_free(exec->feed_watch);
	exec->feeds = f->next;
	exec->feeding -= f->size + FEED_COST;
	if (!exec->feeds)
		feed_release(exec);
	f->done(f->ctx, r, err);
	free(f);
	feed_next(exec);
	(void)exec_unref(exec);
}

static void exec_stdin_close_input(struct exec *exec)
{
	struct proto_close_input msg = { .h = { .type = PROTO_CLOSE_INPUT },
					 .exec = exec->row.number };

	exec->input_ended = !exec->row.pty;
	if (exec->input >= 0 && !exec->row.pty)
		(void)close(TAKE_FD(exec->input));
	exec_ask(exec, &msg, sizeof(msg), "close stdin", service_ignore, NULL);
}

static void exec_stdin_on_room(void *ctx, unsigned events UNUSED)
{
	struct exec *exec = ctx;
	struct exec_stdin *f = exec->feeds;
	struct warren_error err = WARREN_ERROR_INIT;

	while (f->sent < f->size) {
		ssize_t n = write(exec->input, f->data + f->sent, f->size - f->sent);

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
	exec->feed_watch = loop_watch_free(exec->feed_watch);
	if (f->end)
		exec_stdin_close_input(exec);
	feed_end(f, 0, NULL);
}

static void exec_stdin_on_input(void *ctx, int fd, const struct warren_error *err)
{
	struct exec *exec = ctx;
	struct exec_stdin *f = exec->feeds;
	struct warren_error why = WARREN_ERROR_INIT;
	int r;

	if (fd < 0) {
		feed_end(f, -EPIPE, err);
		return;
	}
	if (f->size == 0) { /* no data: only close stdin */
		exec_stdin_close_input(exec);
		feed_end(f, 0, NULL);
		return;
	}
	r = loop_watch(exec->sandbox->service->loop, fd, LOOP_WRITE, exec_stdin_on_room,
		       exec, &exec->feed_watch);
	if (r < 0) {
		feed_end(f, error_errno(&why, -r, "write to stdin"), &why);
		return;
	}
	exec_stdin_on_room(exec, LOOP_WRITE);
}

static void feed_next(struct exec *exec)
{
	if (exec->feeds)
		exec_input(exec, exec_stdin_on_input, exec);
}

void feed_stop(struct exec *exec)
{
	struct exec_stdin *feeds = exec->feeds;
	struct warren_error err = WARREN_ERROR_INIT;

	/* Writes that still wait for the descriptor are answered elsewhere. */
	if (!exec->feed_watch)
		return;
	exec->feed_watch = loop_watch_free(exec->feed_watch);
	exec->feeds = NULL;
	feed_release(exec);
	(void)error_set(&err, EPIPE, "the exec has ended");
	while (feeds) {
		struct exec_stdin *f = feeds;

		feeds = f->next;
		f->done(f->ctx, -EPIPE, &err);
		(void)exec_unref(exec);
		free(f);
	}
}

void exec_feed(struct exec *exec, const void *data, size_t size, bool end,
	       service_done_fn done, void *ctx)
{
	struct warren_error err = WARREN_ERROR_INIT;
	bool idle = !exec->feeds;
	struct exec_stdin *f;

	/* Data waits here even if its client has left. */
	if (!idle && exec->feeding + size > FEED_MAX) {
		done(ctx,
		     error_set(&err, ENOBUFS,
			       "the command does not read its stdin: %zu bytes wait",
			       exec->feeding),
		     &err);
		return;
	}
	f = malloc(sizeof(*f) + size);
	if (!f) {
		if (idle)
			feed_release(exec);
		done(ctx, error_errno(&err, ENOMEM, "write to stdin"), &err);
		return;
	}
	*f = (struct exec_stdin){
		.exec = exec_ref(exec), .end = end, .done = done, .ctx = ctx, .size = size
	};
	if (size > 0)
		(void)memcpy(f->data, data, size);
	LIST_APPEND(exec->feeds, f);
	exec->feeding += size + FEED_COST;
	if (idle)
		feed_next(exec);
}

void exec_feed_shared(struct exec *exec, const void *data, size_t size,
		      service_done_fn done, void *ctx)
{
	struct warren_error err = WARREN_ERROR_INIT;

	/* Without its sandbox, the exec has ended: exec_feed() says so. */
	if (exec->sandbox && lease_memory(exec->service, exec->sandbox->row.owner,
					  exec->feeding + size + FEED_COST,
					  &exec->feed_memory, &err) < 0) {
		done(ctx,
		     error_set(&err, ENOBUFS,
			       "commands of the tenant do not read their stdin, and its "
			       "memory for data that waits is used up"),
		     &err);
		return;
	}
	exec_feed(exec, data, size, false, done, ctx);
}
