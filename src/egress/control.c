/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.c - receive requests, send replies and events
 *
 * Replies wait in a queue while the socket is full, and requests are not read while the
 * queue is long. Events are dropped while the socket is full: denials remain in the log,
 * and usage is reported at its next change.
 */
#include "egress/control.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/list.h"

#define CONTROL_QUEUE_MAX 64
#define CONTROL_TURN      16   /* maximum number of requests in one callback */
#define CONTROL_USAGE_MS  1000 /* minimum time between two reports */
#define CONTROL_DENIED    1000 /* maximum number of denials between two reports */

struct control_message {
	struct control_message *next;
	int fd;
	size_t n;
	char data[];
};

struct control {
	struct net_loop *loop;
	struct egress *egress;
	struct loop_watch *watch;
	struct loop_timer *timer;
	int fd;
	struct control_message *first, **tail;
	size_t n_queued, n_denied;
	union {
		struct egress_request request;
		struct egress_add add;
		char room[4096];
	} in;
};

/* ----------------------------------------------------------------- replies and events */

static void control_watch(struct control *c)
{
	(void)loop_watch_set(c->watch,
			     (c->n_queued < CONTROL_QUEUE_MAX ? LOOP_READ : 0U) |
				     (c->first ? LOOP_WRITE : 0U));
}

static void control_message_free(struct control_message *m)
{
	if (m->fd >= 0)
		(void)close(m->fd);
	free(m);
}

static void control_flush(struct control *c)
{
	while (c->first) {
		struct control_message *m = c->first;
		int r = fd_send_now(c->fd, m->data, m->n, &m->fd, m->fd >= 0);

		if (r < 0 && fd_may_send_again(r))
			break;
		(void)QUEUE_TAKE(c->first, c->tail);
		c->n_queued--;
		control_message_free(m);
	}
}

/* Send a reply, or keep it. Takes over @fd. */
static void control_queue(struct control *c, const void *data, size_t n, int fd)
{
	struct control_message *m = malloc(sizeof(*m) + n);

	if (!m) {
		/* Otherwise, the other side would wait for a reply forever. */
		if (fd >= 0)
			(void)close(fd);
		loop_stop(c->loop);
		return;
	}
	m->fd = fd;
	m->n = n;
	(void)memcpy(m->data, data, n);
	QUEUE_PUT(c->tail, m);
	c->n_queued++;
	control_flush(c);
}

static void control_reply(struct control *c, const struct warren_error *err,
			  const struct buf *data)
{
	AUTO_BUF struct buf out = BUF_INIT(EGRESS_MESSAGE_MAX);
	struct egress_reply reply = { .h = { .version = EGRESS_VERSION,
					     .type = EGRESS_REPLY,
					     .cookie = c->in.request.h.cookie },
				      .err = *err };
	struct warren_error why = WARREN_ERROR_INIT;
	int fd = -1;

	if (data && data->len > EGRESS_INLINE_MAX) {
		fd = egress_proto_memfd(data->data, data->len, &why);
		if (fd < 0) {
			reply.err = why;
			data = NULL;
		}
	}
	if (data)
		reply.size = (uint32_t)data->len;
	buf_add(&out, &reply, sizeof(reply));
	if (data && fd < 0)
		buf_add(&out, data->data, data->len);
	if (out.failed)
		loop_stop(c->loop);
	else
		control_queue(c, out.data, out.len, fd);
}

static void control_on_denied(void *ctx, const char *id, const char *json)
{
	struct control *c = ctx;
	AUTO_BUF struct buf out = BUF_INIT(EGRESS_MESSAGE_MAX);
	struct egress_denied msg = { .h = { .version = EGRESS_VERSION,
					    .type = EGRESS_DENIED },
				     .size = (uint32_t)strlen(json) + 1 };

	if (c->first || c->n_denied >= CONTROL_DENIED)
		return;
	c->n_denied++;
	(void)strncpy(msg.id, id, sizeof(msg.id) - 1);
	buf_add(&out, &msg, sizeof(msg));
	buf_add(&out, json, msg.size);
	if (!out.failed)
		(void)fd_send_now(c->fd, out.data, out.len, NULL, 0);
}

/*
 * Once it is sent, the message arrives even if this process dies. Messages in the queue
 * have older values, so they must be sent first.
 */
static bool control_on_lease(void *ctx, const struct egress_usage_row *row)
{
	struct control *c = ctx;
	struct egress_usage_report report = {
		.h = { .version = EGRESS_VERSION, .type = EGRESS_USAGE }, .n = 1
	};
	char msg[sizeof(report) + sizeof(*row)];

	memcpy(msg, &report, sizeof(report));
	memcpy(msg + sizeof(report), row, sizeof(*row));
	return !c->first && fd_send_now(c->fd, msg, sizeof(msg), NULL, 0) >= 0;
}

static void control_on_timer(void *ctx)
{
	struct control *c = ctx;
	struct egress_usage_row rows[EGRESS_USAGE_MAX];
	size_t n = c->first ? 0 : egress_take_usage(c->egress, rows, EGRESS_USAGE_MAX);
	struct egress_usage_report report = {
		.h = { .version = EGRESS_VERSION, .type = EGRESS_USAGE }, .n = (uint32_t)n
	};

	c->n_denied = 0;
	if (n > 0) {
		AUTO_BUF struct buf out = BUF_INIT(EGRESS_MESSAGE_MAX);

		buf_add(&out, &report, sizeof(report));
		buf_add(&out, rows, n * sizeof(rows[0]));
		if (!out.failed)
			control_queue(c, out.data, out.len, -1);
		control_watch(c);
	}
	loop_timer_set(c->timer, CONTROL_USAGE_MS);
}

/* ------------------------------------------------------------------------ requests */

static void control_wipe(char **policy)
{
	if (*policy)
		explicit_bzero(*policy, strlen(*policy));
	free(*policy);
}

static int control_set_policy(struct control *c, int *fds, struct warren_error *err)
{
	const struct egress_request *q = &c->in.request;
	CLEANUP(control_wipe) char *policy = NULL; /* the policy may contain secrets */
	size_t n = 0;
	int r = egress_proto_read_memfd(fds[EGRESS_ADD_POLICY], EGRESS_POLICY_MAX,
					&policy, &n, err);

	if (r == 0 && q->h.type == EGRESS_CHANGE)
		r = egress_change(c->egress, q->id, policy, n, err);
	else if (r == 0)
		r = egress_add(c->egress, q->id, policy, n, TAKE_FD(fds[EGRESS_ADD_TCP]),
			       TAKE_FD(fds[EGRESS_ADD_UDP]), &c->in.add.usage, err);
	return r;
}

static int control_put_usage(struct control *c, struct buf *out, struct warren_error *err)
{
	struct egress_usage usage;
	int r = egress_get_usage(c->egress, c->in.request.id, &usage, err);

	if (r == 0)
		buf_add(out, &usage, sizeof(usage));
	return r;
}

static void control_handle(struct control *c, int *fds)
{
	AUTO_BUF struct buf out = BUF_INIT(EGRESS_ANSWER_MAX);
	struct warren_error err = WARREN_ERROR_INIT;
	const struct egress_request *q = &c->in.request;
	int r = 0;

	switch (q->h.type) {
	case EGRESS_ADD:
	case EGRESS_CHANGE:
		r = control_set_policy(c, fds, &err);
		break;
	case EGRESS_REMOVE:
		r = control_put_usage(c, &out, &err);
		if (r == 0)
			r = egress_remove(c->egress, q->id, &err);
		break;
	case EGRESS_COUNT:
		r = control_put_usage(c, &out, &err);
		break;
	case EGRESS_QUERY:
		r = egress_write_json(c->egress, q->id, &out, &err);
		break;
	default:
		break;
	}
	control_reply(c, &err, r == 0 && out.len ? &out : NULL);
}

/* Return false if no more requests should be read now. */
static bool control_take_request(struct control *c)
{
	int fds[EGRESS_FDS_MAX];
	size_t n_fds = ARRAY_SIZE(fds);
	struct warren_error err = WARREN_ERROR_INIT;
	bool lost = false;
	ssize_t n = fd_recv_some(c->fd, &c->in, sizeof(c->in), fds, &n_fds, MSG_DONTWAIT,
				 &lost);

	if (n == -EAGAIN || n == -EINTR)
		return false;
	if (n >= (ssize_t)sizeof(struct egress_request) && lost) {
		(void)error_set(&err, EMFILE,
				"warren-egress has too many open files; try again later");
		control_reply(c, &err, NULL);
		return true;
	}
	/* The connection has ended, or the peer has another version: the two cannot work
	 * together. */
	if (n <= 0 || egress_proto_check_request(&c->in, (size_t)n, n_fds) < 0) {
		for (size_t i = 0; n > 0 && i < n_fds; i++)
			(void)close(fds[i]);
		loop_stop(c->loop);
		return false;
	}
	control_handle(c, fds);
	for (size_t i = 0; i < n_fds; i++)
		if (fds[i] >= 0)
			(void)close(fds[i]);
	return c->n_queued < CONTROL_QUEUE_MAX;
}

static void control_on_event(void *ctx, unsigned events)
{
	struct control *c = ctx;

	control_flush(c);
	for (int i = 0;
	     (events & LOOP_READ) && i < CONTROL_TURN && control_take_request(c); i++)
		;
	control_watch(c);
}

/* ------------------------------------------------------------------------ lifetime */

struct control *control_free(struct control *c)
{
	if (!c)
		return NULL;
	c->egress = egress_free(c->egress);
	c->watch = loop_watch_free(c->watch);
	c->timer = loop_timer_free(c->timer);
	while (c->first)
		control_message_free(QUEUE_TAKE(c->first, c->tail));
	(void)close(c->fd);
	free(c);
	return NULL;
}

int control_new(struct net_loop *loop, int fd, const struct egress_options *given,
		struct control **ret, struct warren_error *err)
{
	struct control *c = calloc(1, sizeof(*c));
	struct egress_options options = *given;
	int r;

	options.denied = control_on_denied;
	options.lease = control_on_lease;
	options.ctx = c;
	if (!c) {
		(void)close(fd);
		return error_errno(err, ENOMEM, "serve requests");
	}
	c->loop = loop;
	c->fd = fd;
	QUEUE_INIT(c->first, c->tail);
	r = egress_new(loop, &options, &c->egress, err);
	if (r == 0) {
		r = loop_watch(loop, fd, LOOP_READ, control_on_event, c, &c->watch);
		if (r == 0)
			r = loop_timer_new(loop, control_on_timer, c, &c->timer);
		if (r < 0)
			r = error_errno(err, -r, "serve requests");
	}
	if (r < 0) {
		(void)control_free(c);
		return r;
	}
	loop_timer_set(c->timer, CONTROL_USAGE_MS);
	*ret = c;
	return 0;
}
