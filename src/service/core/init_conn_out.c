/* SPDX-License-Identifier: Apache-2.0 */
/*
 * init_conn_out.c - requests to an init that do not fit into its connection yet
 *
 * An init reads no request while it has answers that the service has not read
 * (agent/core/outbox.c), so hundreds of requests at once fill the connection. They wait
 * here in order, with duplicates of their descriptors. If too many requests wait, the
 * client gets an error, and should try again.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "service/core/internal.h"

#define WAITING_MAX 1024U
#define BYTES_MAX   (8U << 20)
#define PAUSE_MS    10 /* time before the next try, when memory is short */

struct init_conn_out {
	struct init_conn_out *next;
	size_t size, n_fds;
	int fds[PROTO_FDS_MAX];
	char data[];
};

static void init_conn_out_free(struct init_conn_out *o)
{
	for (size_t i = 0; i < o->n_fds; i++)
		(void)close(o->fds[i]);
	free(o);
}

static struct init_conn_out *init_conn_out_take(struct sandbox *sandbox)
{
	struct init_conn_out *o = sandbox->out;

	sandbox->out = o->next;
	if (!sandbox->out)
		sandbox->out_tail = &sandbox->out;
	sandbox->out_n--;
	sandbox->out_bytes -= o->size;
	return o;
}

void init_conn_drop(struct sandbox *sandbox)
{
	while (sandbox->out)
		init_conn_out_free(init_conn_out_take(sandbox));
	sandbox->out_timer = loop_timer_free(sandbox->out_timer);
}

void init_conn_flush(struct sandbox *sandbox)
{
	int r = 0;

	while (sandbox->out && sandbox->conn >= 0) {
		const struct init_conn_out *o = sandbox->out;

		r = fd_send_now(sandbox->conn, o->data, o->size, o->fds, o->n_fds);
		if (fd_may_send_again(r))
			break;
		/* If the connection has ended, the next read reports it. */
		init_conn_out_free(init_conn_out_take(sandbox));
	}
	if (sandbox->watch)
		(void)loop_watch_set(
			sandbox->watch,
			LOOP_READ | (sandbox->out && r == -EAGAIN ? LOOP_WRITE : 0U));
	if (sandbox->out && r != -EAGAIN)
		loop_timer_set(sandbox->out_timer, PAUSE_MS);
}

static void on_out_timer(void *ctx)
{
	init_conn_flush(ctx);
}

static int init_conn_out_put(struct sandbox *sandbox, const void *data, size_t size,
			     const int *fds, size_t n_fds)
{
	struct init_conn_out *o;

	if (sandbox->out_n >= WAITING_MAX || sandbox->out_bytes + size > BYTES_MAX ||
	    n_fds > ARRAY_SIZE(o->fds))
		return -EAGAIN;
	if (!sandbox->out_timer && loop_timer_new(sandbox->service->loop, on_out_timer,
						  sandbox, &sandbox->out_timer) < 0)
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

			init_conn_out_free(o);
			return r;
		}
	}
	*sandbox->out_tail = o;
	sandbox->out_tail = &o->next;
	sandbox->out_n++;
	sandbox->out_bytes += size;
	return 0;
}

int init_conn_send(struct sandbox *sandbox, const void *data, size_t size, const int *fds,
		   size_t n_fds)
{
	int r = sandbox->out ? -EAGAIN
			     : fd_send_now(sandbox->conn, data, size, fds, n_fds);

	if (!fd_may_send_again(r))
		return r;
	r = init_conn_out_put(sandbox, data, size, fds, n_fds);
	/*
	 * For the first request in the queue, this starts to wait until it can be sent.
	 */
	if (r == 0 && sandbox->out_n == 1)
		init_conn_flush(sandbox);
	return r;
}
