/* SPDX-License-Identifier: Apache-2.0 */
/*
 * init_conn.c - the conversation with the init of a sandbox, without waiting
 *
 * Requests carry a number that their reply repeats; ends of execs come in
 * between, for all of them (HELLO). A reply that nobody asked for, or a message
 * that is none, is an init gone wrong, and so is one that does not answer in
 * time, or says too much that nobody asked for: the line is closed, and the sandbox is lost.
 * A request has its time once. Only a shim, which is ours, may ask for more, and not for ever.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "service/core/internal.h"
#include "proto/warden_proto.h"

/* --------------------------------------------------------- who waits how long */

static void enlist(struct box *box)
{
	struct service *s = box->service;

	if (box->asking)
		return;
	if (!s->asking)
		loop_timer_set(s->asking_timer, 1000);
	box->asking = true;
	box->asking_next = s->asking;
	box->asking_prev = &s->asking;
	if (s->asking)
		s->asking->asking_prev = &box->asking_next;
	s->asking = box;
}

static void delist(struct box *box)
{
	if (!box->asking)
		return;
	*box->asking_prev = box->asking_next;
	if (box->asking_next)
		box->asking_next->asking_prev = box->asking_prev;
	box->asking = false;
}

/* The oldest request of a box is its first. */
void line_check_due(struct service *s)
{
	struct box *next;

	for (struct box *box = s->asking; box; box = next) {
		struct warren_error why = WARREN_ERROR_INIT;

		next = box->asking_next;
		if (!box->asks || box->asks->due > loop_now(s->loop) ||
		    box->row.state == SANDBOX_PAUSED)
			continue;
		(void)error_set(&why, ETIMEDOUT, "the sandbox's init does not answer");
		box_lost(box, &why);
	}
	if (s->asking)
		loop_timer_set(s->asking_timer, 1000);
}

/* ------------------------------------------------------------------- messages */

static struct line_ask *take_ask(struct box *box, uint32_t seq)
{
	for (struct line_ask **p = &box->asks; *p; p = &(*p)->next) {
		if ((*p)->seq == seq) {
			struct line_ask *a = *p;

			*p = a->next;
			if (!*p)
				box->asks_tail = p;
			if (!box->asks)
				delist(box);
			return a;
		}
	}
	return NULL;
}

/* What is still worked on has more time; it is the last of those that wait now. */
static int put_off(struct box *box, uint32_t seq)
{
	bool shim = strcmp(box->row.backend, WIRE_NATIVE) != 0;
	struct line_ask *a = shim ? take_ask(box, seq) : NULL;

	if (!a)
		return -EPROTO;
	a->due = loop_now(box->service->loop) + ANSWER_MS;
	if (a->due > a->last)
		a->due = a->last;
	a->next = NULL;
	*box->asks_tail = a;
	box->asks_tail = &a->next;
	enlist(box);
	return 0;
}

/*
 * 0, or -EPROTO when it is nothing that an init says here. Another error is its last word, which
 * answers nothing.
 */
static int hear(struct box *box, struct answer *a, struct warren_error *ret_last)
{
	struct line_ask *ask;

	if (a->m.h.type == PROTO_EXITED) {
		box->oom_kills += a->m.exited.oom_kills;
		return run_ended(box, &a->m.exited) || ++box->unasked <= UNASKED_MAX
			       ? 0
			       : -EPROTO;
	}
	if (a->m.h.type != PROTO_REPLY && a->m.h.type != PROTO_WELCOME &&
	    a->m.h.type != PROTO_ENTRIES)
		return -EPROTO;
	if (a->m.h.type == PROTO_REPLY && a->m.h.seq == 0 && a->m.why[0] &&
	    reply_code(&a->m.reply) > 0 && reply_code(&a->m.reply) != EPROTO)
		return error_set(ret_last, reply_code(&a->m.reply), "%s", a->m.why);
	/* It has as many connections as it can: those of others end. */
	if (a->m.h.type == PROTO_REPLY && a->m.h.seq == 0 &&
	    reply_code(&a->m.reply) == EBUSY)
		return error_set(ret_last, EPIPE,
				 "the sandbox's init has no room for us");
	/* No answer yet, but a sign of life. */
	if (a->m.h.type == PROTO_REPLY && reply_code(&a->m.reply) == EINPROGRESS)
		return put_off(box, a->m.h.seq);
	ask = take_ask(box, a->m.h.seq);
	if (!ask)
		return -EPROTO;
	ask->fn(ask->ctx, a, NULL);
	free(ask);
	return 0;
}

static void on_line(void *ctx, unsigned events)
{
	/* Good until the next message: those who hear of it copy what they keep. */
	_Alignas(8) static char room[PROTO_ANSWER_MAX];
	struct box *box = ctx;
	struct warren_error why = WARREN_ERROR_INIT;

	if (events & LOOP_WRITE)
		line_flush(box);
	for (int i = 0; i < READ_AT_ONCE && box->conn >= 0; i++) {
		struct answer a;
		int r = request_receive_into(box->conn, &a, room, MSG_DONTWAIT, &why);

		if (r == 0)
			return;
		if (r > 0) {
			r = hear(box, &a, &why);
			answer_done(&a);
			if (r == -EPROTO)
				(void)error_set(&why, EPROTO,
						"the sandbox's init does not keep to the "
						"protocol");
		}
		if (r == -EPROTO || (r < 0 && why.code != EPIPE)) {
			box_lost(box, &why);
			return;
		}
		if (r < 0) {
			box_disconnected(box, &why);
			return;
		}
	}
}

int line_refuse(const struct box *box, struct warren_error *err)
{
	if (box->row.state == SANDBOX_RUNNING || box->row.state == SANDBOX_PAUSED)
		return error_set(err, EAGAIN,
				 "the sandbox's init cannot be reached at present; try "
				 "again");
	return error_set(err, ESTALE, "the sandbox does not run");
}

/* Why a request could not be sent, in words for who asked. */
static int unsent(int r, struct warren_error *err)
{
	if (r == -EAGAIN)
		return error_set(err, EAGAIN,
				 "the sandbox has too many requests under way; try "
				 "again later");
	if (r == -EPIPE || r == -ECONNRESET)
		return error_set(err, EAGAIN,
				 "the connection to the sandbox's init broke; try again");
	return error_errno(err, -r, "ask the sandbox's init");
}

int line_ask(struct box *box, const struct request *q,
	     void (*fn)(void *ctx, struct answer *a, const struct warren_error *err),
	     void *ctx, struct warren_error *err)
{
	struct line_ask *a;
	int r;

	if (box->conn < 0)
		return line_refuse(box, err);
	a = malloc(sizeof(*a));
	if (!a)
		return error_errno(err, ENOMEM, "ask the sandbox's init");
	if (++box->seq == 0)
		box->seq = 1; /* 0 is for what answers nothing */
	*a = (struct line_ask){ .seq = box->seq,
				.due = loop_now(box->service->loop) + ANSWER_MS,
				.last = loop_now(box->service->loop) + LONG_MS,
				.fn = fn,
				.ctx = ctx };
	request_number(q, a->seq);
	r = line_send(box, q->msg.data, q->msg.len, q->fds, q->n_fds);
	if (r < 0) {
		free(a);
		return unsent(r, err);
	}
	*box->asks_tail = a;
	box->asks_tail = &a->next;
	enlist(box);
	return 0;
}

int line_ask_struct(struct box *box, const void *msg, size_t size, int fd,
		    void (*fn)(void *ctx, struct answer *a,
			       const struct warren_error *err),
		    void *ctx, struct warren_error *err)
{
	CLEANUP(request_done) struct request q = REQUEST_INIT;
	int r = request_put(&q, msg, size, fd, err);

	return r < 0 ? r : line_ask(box, &q, fn, ctx, err);
}

int line_tell(struct box *box, const void *msg, size_t size)
{
	return box->conn >= 0 ? line_send(box, msg, size, NULL, 0) : -ESTALE;
}

/* ------------------------------------------------------------ opening, closing */

static void on_welcome(void *ctx, struct answer *a, const struct warren_error *err)
{
	struct box *box = ctx;
	struct warren_error why = WARREN_ERROR_INIT;

	if (err)
		return;
	if (a->m.h.type != PROTO_WELCOME || !(a->m.welcome.flags & PROTO_WELCOME_KEPT)) {
		(void)error_set(&why, EPROTO,
				"the sandbox's init does not keep to the protocol");
		box_lost(box, &why);
		return;
	}
	box->unwelcome = box->tries = 0;
	box->gates = a->m.welcome.flags & PROTO_WELCOME_GATES;
	box->workers = a->m.welcome.flags & PROTO_WELCOME_WORKERS;
	box->welcomed = true;
	box->oom_kills = a->m.welcome.oom_kills;
	if (a->m.welcome.last_exec > box->last_number)
		box->last_number = a->m.welcome.last_exec;
	file_queue_turn(box);
}

int line_open(struct box *box, int conn, const char *text, size_t size,
	      struct warren_error *err)
{
	struct proto_hello hello = { .h = { .version = PROTO_VERSION,
					    .type = PROTO_HELLO },
				     .flags = PROTO_HELLO_ALL };
	int r;

	description_done(&box->is);
	r = description_parse(text, size, &box->is, err);
	if (r == 0) {
		box->saved = box->is.saved;
		box->gates = box->workers = box->welcomed = false;
		box->unasked = 0;
		box->conn = conn;
		r = loop_watch(box->service->loop, conn, LOOP_READ, on_line, box,
			       &box->watch);
		if (r < 0)
			r = error_errno(err, -r, "watch the sandbox's connection");
	}
	if (r == 0)
		r = line_ask_struct(box, &hello, sizeof(hello), -1, on_welcome, box, err);
	if (r < 0) {
		line_drop(box);
		box->watch = loop_watch_free(box->watch);
		box->conn = -1;
		(void)close(conn);
	}
	return r;
}

void line_close(struct box *box, const struct warren_error *why)
{
	struct line_ask *asks = box->asks;

	line_drop(box);
	box->watch = loop_watch_free(box->watch);
	if (box->conn >= 0)
		(void)close(TAKE_FD(box->conn));
	box->asks = NULL;
	box->asks_tail = &box->asks;
	delist(box);
	while (asks) {
		struct line_ask *a = asks;

		asks = a->next;
		a->fn(a->ctx, NULL, why);
		free(a);
	}
	file_queue_close(box, why);
	description_done(&box->is);
}
