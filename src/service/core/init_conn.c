/* SPDX-License-Identifier: Apache-2.0 */
/*
 * init_conn.c - the connection to the init of a sandbox, without blocking
 *
 * Each request has a number, which its reply repeats; between replies, init reports the
 * ends of all execs (HELLO). An init fails if it sends a reply to no request, an invalid
 * message, or too many unrequested messages, or if it does not answer in time. Then the
 * connection is closed, and the sandbox is lost. Each request has a fixed time limit.
 * Only a shim, which runs outside the sandbox, may extend it, up to LONG_MS.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/list.h"
#include "proto/warden_proto.h"
#include "service/core/internal.h"
#include "service/core/undo.h"

/* --------------------------------------------------------- time limits of requests */

static void init_conn_enlist(struct sandbox *sandbox)
{
	struct service *s = sandbox->service;

	if (sandbox->asking)
		return;
	if (!s->asking)
		loop_timer_set(s->asking_timer, 1000);
	sandbox->asking = true;
	DLIST_PUSH_BY(s->asking, sandbox, asking_next, asking_prev);
}

static void init_conn_delist(struct sandbox *sandbox)
{
	if (!sandbox->asking)
		return;
	DLIST_REMOVE_BY(sandbox, asking_next, asking_prev);
	sandbox->asking = false;
}

/* Check only the first request of each sandbox, because it is the oldest. */
void init_conn_check_due(struct service *s)
{
	struct sandbox *next;

	for (struct sandbox *sandbox = s->asking; sandbox; sandbox = next) {
		struct warren_error why = WARREN_ERROR_INIT;

		next = sandbox->asking_next;
		if (!sandbox->asks || sandbox->asks->due > loop_now(s->loop) ||
		    sandbox->row.state == SANDBOX_PAUSED)
			continue;
		(void)error_set(&why, ETIMEDOUT, "the sandbox's init does not answer");
		sandbox_lost(sandbox, &why);
	}
	if (s->asking)
		loop_timer_set(s->asking_timer, 1000);
}

/* ------------------------------------------------------------------- messages */

static struct init_conn_ask *init_conn_take_ask(struct sandbox *sandbox, uint32_t seq)
{
	struct init_conn_ask **p, *a;

	LIST_FIND(sandbox->asks, p, (*p)->seq == seq);
	a = QUEUE_CUT(sandbox->asks_tail, p);
	if (!sandbox->asks)
		init_conn_delist(sandbox);
	return a;
}

/*
 * The init still works on the request: extend its time, and move it to the end of the
 * list.
 */
static int put_off(struct sandbox *sandbox, uint32_t seq)
{
	bool shim = strcmp(sandbox->row.backend, WIRE_NATIVE) != 0;
	struct init_conn_ask *a = shim ? init_conn_take_ask(sandbox, seq) : NULL;

	if (!a)
		return -EPROTO;
	a->due = loop_now(sandbox->service->loop) + ANSWER_MS;
	if (a->due > a->last)
		a->due = a->last;
	QUEUE_PUT(sandbox->asks_tail, a);
	init_conn_enlist(sandbox);
	return 0;
}

static bool init_conn_exited(struct sandbox *sandbox, const struct proto_exited *msg)
{
	const struct service_module *const *modules = sandbox->service->hooks;
	bool known = false;

	for (size_t i = 0; modules[i] && !known; i++)
		known = modules[i]->exited && modules[i]->exited(sandbox, msg);
	return known;
}

/*
 * Return 0, or -EPROTO for an invalid message. Any other error is the last message of the
 * init, which answers no request.
 */
static int init_conn_hear(struct sandbox *sandbox, struct init_reply *a,
			  struct warren_error *ret_last)
{
	struct init_conn_ask *ask;

	if (a->m.h.type == PROTO_EXITED) {
		sandbox->oom_kills += a->m.exited.oom_kills;
		return init_conn_exited(sandbox, &a->m.exited) ||
				       ++sandbox->unasked <= UNASKED_MAX
			       ? 0
			       : -EPROTO;
	}
	if (a->m.h.type != PROTO_REPLY && a->m.h.type != PROTO_WELCOME &&
	    a->m.h.type != PROTO_ENTRIES)
		return -EPROTO;
	if (a->m.h.type == PROTO_REPLY && a->m.h.seq == 0 && a->m.why[0] &&
	    reply_code(&a->m.reply) > 0 && reply_code(&a->m.reply) != EPROTO)
		return error_set(ret_last, reply_code(&a->m.reply), "%s", a->m.why);
	/* The init has its maximum number of connections: wait until others end. */
	if (a->m.h.type == PROTO_REPLY && a->m.h.seq == 0 &&
	    reply_code(&a->m.reply) == EBUSY)
		return error_set(ret_last, EPIPE,
				 "the sandbox's init has no free connection");
	/* This is not an answer yet, but shows that the request is in progress. */
	if (a->m.h.type == PROTO_REPLY && reply_code(&a->m.reply) == EINPROGRESS)
		return put_off(sandbox, a->m.h.seq);
	ask = init_conn_take_ask(sandbox, a->m.h.seq);
	if (!ask)
		return -EPROTO;
	ask->fn(ask->ctx, a, NULL);
	free(ask);
	return 0;
}

static void init_conn_on_line(void *ctx, unsigned events)
{
	/* The contents are valid until the next message, so callbacks copy what they
	 * keep. */
	_Alignas(8) static char room[PROTO_ANSWER_MAX];
	struct sandbox *sandbox = ctx;
	struct warren_error why = WARREN_ERROR_INIT;

	if (events & LOOP_WRITE)
		init_conn_flush(sandbox);
	for (int i = 0; i < READ_AT_ONCE && sandbox->conn >= 0; i++) {
		struct init_reply a;
		int r = init_request_receive_into(sandbox->conn, &a, room, MSG_DONTWAIT,
						  &why);

		if (r == 0)
			return;
		if (r > 0) {
			r = init_conn_hear(sandbox, &a, &why);
			init_reply_done(&a);
			if (r == -EPROTO)
				(void)error_set(
					&why, EPROTO,
					"the sandbox's init violated the protocol");
		}
		if (r == -EPROTO || (r < 0 && why.code != EPIPE)) {
			sandbox_lost(sandbox, &why);
			return;
		}
		if (r < 0) {
			sandbox_disconnected(sandbox, &why);
			return;
		}
	}
}

int init_conn_refuse(const struct sandbox *sandbox, struct warren_error *err)
{
	if (sandbox_is_made(sandbox))
		return error_set(err, EAGAIN,
				 "the sandbox's init cannot be reached at present; try "
				 "again");
	return error_set(err, ESTALE, "the sandbox is not running");
}

/* Explain to the client why a request could not be sent. */
static int init_conn_unsent(int r, struct warren_error *err)
{
	if (r == -EAGAIN)
		return error_set(err, EAGAIN,
				 "the sandbox has too many requests in progress; try "
				 "again later");
	if (r == -EPIPE || r == -ECONNRESET)
		return error_set(err, EAGAIN,
				 "the connection to the sandbox's init broke; try again");
	return error_errno(err, -r, "send a request to the sandbox's init");
}

int init_conn_ask(struct sandbox *sandbox, const struct init_request *q,
		  void (*fn)(void *ctx, struct init_reply *a,
			     const struct warren_error *err),
		  void *ctx, struct warren_error *err)
{
	struct init_conn_ask *a;
	int r;

	if (sandbox->conn < 0)
		return init_conn_refuse(sandbox, err);
	a = malloc(sizeof(*a));
	if (!a)
		return error_errno(err, ENOMEM, "send a request to the sandbox's init");
	if (++sandbox->seq == 0)
		sandbox->seq = 1; /* 0 is for messages that are not answers */
	*a = (struct init_conn_ask){ .seq = sandbox->seq,
				     .due = loop_now(sandbox->service->loop) + ANSWER_MS,
				     .last = loop_now(sandbox->service->loop) + LONG_MS,
				     .fn = fn,
				     .ctx = ctx };
	init_request_number(q, a->seq);
	r = init_conn_send(sandbox, q->msg.data, q->msg.len, q->fds, q->n_fds);
	if (r < 0) {
		free(a);
		return init_conn_unsent(r, err);
	}
	QUEUE_PUT(sandbox->asks_tail, a);
	init_conn_enlist(sandbox);
	return 0;
}

int init_conn_ask_struct(struct sandbox *sandbox, const void *msg, size_t size, int fd,
			 void (*fn)(void *ctx, struct init_reply *a,
				    const struct warren_error *err),
			 void *ctx, struct warren_error *err)
{
	CLEANUP(init_request_done) struct init_request q = REQUEST_INIT;
	int r = init_request_put(&q, msg, size, fd, err);

	return r < 0 ? r : init_conn_ask(sandbox, &q, fn, ctx, err);
}

int init_conn_tell(struct sandbox *sandbox, const void *msg, size_t size)
{
	return sandbox->conn >= 0 ? init_conn_send(sandbox, msg, size, NULL, 0) : -ESTALE;
}

/* ---------------------------------------------------- opening and closing connections */

static void init_conn_features(struct sandbox *sandbox, uint32_t flags)
{
	sandbox->gates = flags & PROTO_WELCOME_GATES;
	sandbox->workers = flags & PROTO_WELCOME_WORKERS;
	sandbox->exec_files = flags & PROTO_WELCOME_FILES;
}

void init_conn_is_new(struct sandbox *sandbox)
{
	undo_is_new(sandbox);
	if (strcmp(sandbox->row.backend, WIRE_NATIVE) == 0)
		init_conn_features(sandbox, PROTO_WELCOME_GATES | PROTO_WELCOME_WORKERS |
						    PROTO_WELCOME_FILES);
}

static void on_welcome(void *ctx, struct init_reply *a, const struct warren_error *err)
{
	struct sandbox *sandbox = ctx;
	struct warren_error why = WARREN_ERROR_INIT;

	if (err)
		return;
	if (a->m.h.type != PROTO_WELCOME || !(a->m.welcome.flags & PROTO_WELCOME_KEPT)) {
		(void)error_set(&why, EPROTO, "the sandbox's init violated the protocol");
		sandbox_lost(sandbox, &why);
		return;
	}
	sandbox->unwelcome = sandbox->tries = 0;
	init_conn_features(sandbox, a->m.welcome.flags);
	sandbox->welcomed = true;
	sandbox->oom_kills = a->m.welcome.oom_kills;
	if (a->m.welcome.last_exec > sandbox->last_number)
		sandbox->last_number = a->m.welcome.last_exec;
	file_queue_turn(sandbox);
}

int init_conn_open(struct sandbox *sandbox, int conn, const char *text, size_t size,
		   struct warren_error *err)
{
	struct proto_hello hello = { .h = { .version = PROTO_VERSION,
					    .type = PROTO_HELLO },
				     .flags = PROTO_HELLO_ALL };
	int r;

	description_done(&sandbox->is);
	r = description_parse(text, size, &sandbox->is, err);
	if (r == 0) {
		sandbox->saved = sandbox->is.saved;
		sandbox->left_paused = sandbox->is.left_paused;
		init_conn_features(sandbox, 0);
		sandbox->welcomed = false;
		sandbox->unasked = 0;
		sandbox->conn = conn;
		r = loop_watch(sandbox->service->loop, conn, LOOP_READ, init_conn_on_line,
			       sandbox, &sandbox->watch);
		if (r < 0)
			r = error_errno(err, -r, "watch the sandbox's connection");
	}
	if (r == 0)
		r = init_conn_ask_struct(sandbox, &hello, sizeof(hello), -1, on_welcome,
					 sandbox, err);
	if (r < 0) {
		init_conn_drop(sandbox);
		sandbox->watch = loop_watch_free(sandbox->watch);
		sandbox->conn = -1;
		(void)close(conn);
	}
	return r;
}

void init_conn_close(struct sandbox *sandbox, const struct warren_error *why)
{
	struct init_conn_ask *asks = sandbox->asks;

	init_conn_drop(sandbox);
	sandbox->watch = loop_watch_free(sandbox->watch);
	if (sandbox->conn >= 0)
		(void)close(TAKE_FD(sandbox->conn));
	sandbox->asks = NULL;
	sandbox->asks_tail = &sandbox->asks;
	init_conn_delist(sandbox);
	while (asks) {
		struct init_conn_ask *a = asks;

		asks = a->next;
		a->fn(a->ctx, NULL, why);
		free(a);
	}
	file_queue_close(sandbox, why);
	description_done(&sandbox->is);
}
