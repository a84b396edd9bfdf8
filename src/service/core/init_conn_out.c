/* SPDX-License-Identifier: Apache-2.0 */
/*
 * init_conn_out.c - requests to an init that its connection has no room for yet
 *
 * An init reads no request while it has answers that we have not read (agent/core/outbox.c), so hundreds
 * of requests at once find the connection full. They wait here, in their order, with duplicates
 * of their descriptors. How many may wait is limited: beyond that, who asks is told to try again.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "service/core/internal.h"

#define WAITING_MAX 1024U
#define BYTES_MAX   (8U << 20)
#define PAUSE_MS    10 /* before the next try, when memory is short */

struct line_out {
	struct line_out *next;
	size_t size, n_fds;
	int fds[PROTO_FDS_MAX];
	char data[];
};

static void line_out_free(struct line_out *o)
{
	for (size_t i = 0; i < o->n_fds; i++)
		(void)close(o->fds[i]);
	free(o);
}

static struct line_out *line_out_take(struct box *box)
{
	struct line_out *o = box->out;

	box->out = o->next;
	if (!box->out)
		box->out_tail = &box->out;
	box->out_n--;
	box->out_bytes -= o->size;
	return o;
}

void line_drop(struct box *box)
{
	while (box->out)
		line_out_free(line_out_take(box));
	box->out_timer = loop_timer_free(box->out_timer);
}

void line_flush(struct box *box)
{
	int r = 0;

	while (box->out && box->conn >= 0) {
		const struct line_out *o = box->out;

		r = fd_send_now(box->conn, o->data, o->size, o->fds, o->n_fds);
		if (fd_may_send_again(r))
			break;
		/* If the connection has ended, that is read from it next. */
		line_out_free(line_out_take(box));
	}
	if (box->watch)
		(void)loop_watch_set(
			box->watch,
			LOOP_READ | (box->out && r == -EAGAIN ? LOOP_WRITE : 0U));
	if (box->out && r != -EAGAIN)
		loop_timer_set(box->out_timer, PAUSE_MS);
}

static void on_out_timer(void *ctx)
{
	line_flush(ctx);
}

static int line_out_put(struct box *box, const void *data, size_t size, const int *fds,
			size_t n_fds)
{
	struct line_out *o;

	if (box->out_n >= WAITING_MAX || box->out_bytes + size > BYTES_MAX ||
	    n_fds > ARRAY_SIZE(o->fds))
		return -EAGAIN;
	if (!box->out_timer &&
	    loop_timer_new(box->service->loop, on_out_timer, box, &box->out_timer) < 0)
		return -ENOMEM;
	o = malloc(sizeof(*o) + size);
	if (!o)
		return -ENOMEM;
	o->next = NULL;
	o->size = size;
	(void)memcpy(o->data, data, size);
	for (o->n_fds = 0; o->n_fds < n_fds; o->n_fds++) {
		o->fds[o->n_fds] = fcntl(fds[o->n_fds], F_DUPFD_CLOEXEC, 3);
		if (o->fds[o->n_fds] < 0) {
			int r = -errno;

			line_out_free(o);
			return r;
		}
	}
	*box->out_tail = o;
	box->out_tail = &o->next;
	box->out_n++;
	box->out_bytes += size;
	return 0;
}

int line_send(struct box *box, const void *data, size_t size, const int *fds,
	      size_t n_fds)
{
	int r = box->out ? -EAGAIN : fd_send_now(box->conn, data, size, fds, n_fds);

	if (!fd_may_send_again(r))
		return r;
	r = line_out_put(box, data, size, fds, n_fds);
	/* The first of those that wait finds out for what. */
	if (r == 0 && box->out_n == 1)
		line_flush(box);
	return r;
}
