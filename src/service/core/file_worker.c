/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_worker.c - file requests of a sandbox, and the workers that carry them out
 *
 * The init of a native sandbox starts workers for files (agent/init/file_worker.c): the
 * first one for the first request, and another one when requests wait because a lock
 * inside blocks all workers, up to WORKERS_MAX. Requests of one order (a struct files)
 * are carried out one after another; while one is under way, the next goes to the same
 * worker. If a worker does not answer in time, its requests fail and the worker is
 * abandoned; the sandbox continues. A worker that violates the protocol is treated like
 * an init that violates it.
 *
 * A shim, or an init without workers, gets the requests itself. If the answers of a shim
 * or init do not fit into the connection, it closes the connection, and the sandbox is
 * lost. Requests that do not fit are refused. So the service sends only as many requests
 * as fit in both directions, and the others wait here.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "service/core/internal.h"

#define TURN_NS     2000000ULL /* maximum time for messages of a worker in one turn */
#define FLIGHT_MAX  4          /* answers of 16 kB fit into buffers of about 200 kB */
#define WORKERS_MAX 4
#define WORKER_MS   30000 /* time for a worker to answer */
#define HELD_MS     2     /* time that a request waits before another worker is started */
#define IDLE_MS     10000 /* idle time after which a worker ends */
#define LOOK_MS     1000

struct file_ask {
	struct file_ask *next;
	const void *order;
	uint32_t seq;
	uint64_t since; /* time when the request was queued, in ms of the loop's clock */
	struct init_request q;
	file_answer_fn fn;
	void *ctx;
};

struct file_worker {
	struct file_worker *next;
	struct file_queue *queue; /* NULL: it has ended */
	int conn;
	struct loop_watch *watch;
	struct fair_quota_lease lease;
	uint32_t seq;
	struct file_ask *asks, **tail; /* requests without an answer, oldest first */
	unsigned flight;
	uint64_t since; /* time of the oldest request, or of the last answer */
	bool hearing;   /* on_worker() is running */
};

struct file_queue {
	struct sandbox *sandbox;
	struct file_ask *asks, **tail; /* requests that wait for their turn */
	struct file_worker *workers;
	unsigned n_workers;
	unsigned flight; /* requests in progress at an init or shim without workers */
	bool starting;   /* another worker is being started */
	uint64_t short_since; /* time since which a worker has been missing; 0: none is
				 missing */
	struct loop_timer *timer;
	uint64_t look_at; /* time of the next check; 0: none */
};

static void queue_turn(struct file_queue *q);

static uint64_t queue_now(const struct file_queue *q)
{
	return loop_now(q->sandbox->service->loop);
}

static void queue_look(struct file_queue *q, uint64_t ms)
{
	uint64_t at = queue_now(q) + ms;

	if (q->look_at && q->look_at <= at)
		return;
	q->look_at = at;
	loop_timer_set(q->timer, ms);
}

static void ask_end(struct file_ask *a, struct init_reply *answer,
		    const struct warren_error *err)
{
	a->fn(a->ctx, answer, err);
	init_request_done(&a->q);
	free(a);
}

/* Fail all waiting requests with @why. */
static void queue_fail(struct file_queue *q, const struct warren_error *why)
{
	struct file_ask *asks = q->asks;

	q->asks = NULL;
	q->tail = &q->asks;
	while (asks) {
		struct file_ask *a = asks;

		asks = a->next;
		ask_end(a, NULL, why);
	}
}

/* ------------------------------------------------------------- connections to workers */

/* Close the connection, which ends the worker. Its unanswered requests fail with @why. */
static void worker_close(struct file_worker *w, const struct warren_error *why)
{
	struct file_queue *q = w->queue;
	struct file_ask *asks = w->asks;

	q->n_workers -= LIST_REMOVE(q->workers, w);
	w->queue = NULL;
	w->asks = NULL;
	w->watch = loop_watch_free(w->watch);
	(void)close(TAKE_FD(w->conn));
	lease_end(q->sandbox->service, LEASE_DESCRIPTORS, &w->lease);
	if (!w->hearing)
		free(w);
	while (asks) {
		struct file_ask *a = asks;

		asks = a->next;
		ask_end(a, NULL, why);
	}
}

/* The last message, which init sent, says that the worker has died. */
static void worker_died(struct file_worker *w, int code)
{
	struct file_queue *q = w->queue;
	struct warren_error why = WARREN_ERROR_INIT;

	if (code == ENOMEM)
		(void)error_set(
			&why, ENOBUFS,
			"the sandbox does not have enough memory (limit: memory)");
	else if (code == EOWNERDEAD)
		(void)error_set(&why, EAGAIN,
				"the process that works on the sandbox's files was "
				"killed, by a stop of the sandbox or from inside: try "
				"again");
	else
		(void)error_errno(&why, code, "work on the sandbox's files");
	worker_close(w, &why);
	queue_turn(q);
}

/* Return 1 if the worker has ended, or -EPROTO for an invalid message. */
static int worker_hear(struct file_worker *w, struct init_reply *a)
{
	struct file_queue *q = w->queue;
	struct file_ask *ask = w->asks;

	if (a->m.h.type != PROTO_REPLY && a->m.h.type != PROTO_ENTRIES)
		return -EPROTO;
	if (a->m.h.type == PROTO_REPLY && a->m.h.seq == 0 &&
	    reply_code(&a->m.reply) > 0) {
		worker_died(w, reply_code(&a->m.reply));
		return 1;
	}
	if (!ask || a->m.h.seq != ask->seq)
		return -EPROTO;
	(void)QUEUE_TAKE(w->asks, w->tail);
	w->flight--;
	w->since = queue_now(q);
	ask_end(ask, a, NULL);
	if (!w->queue)
		return 1;
	queue_turn(q);
	return !w->queue;
}

static void on_worker(void *ctx, unsigned events UNUSED)
{
	/* The contents are valid until the next message, so callbacks copy what they
	 * keep. */
	_Alignas(8) static char room[PROTO_ANSWER_MAX];
	struct file_worker *w = ctx;
	struct warren_error why = WARREN_ERROR_INIT;
	uint64_t until = clock_now() + TURN_NS;
	int r = 0;

	w->hearing = true;
	for (int i = 0; i < READ_AT_ONCE && r == 0 && (i == 0 || clock_now() < until);
	     i++) {
		struct init_reply a;

		r = init_request_receive_into(w->conn, &a, room, MSG_DONTWAIT, &why);
		if (r == 0)
			break;
		if (r == -EPIPE || r == -ECONNRESET) {
			worker_died(w, EOWNERDEAD);
		} else if (r > 0) {
			r = worker_hear(w, &a);
			init_reply_done(&a);
		}
	}
	w->hearing = false;
	if (!w->queue) {
		free(w);
	} else if (r < 0) {
		(void)error_set(&why, EPROTO,
				"the sandbox's file worker violated the protocol");
		sandbox_lost(w->queue->sandbox, &why);
	}
}

static int worker_new(struct file_queue *q, int conn, struct warren_error *err)
{
	struct file_worker *w = calloc(1, sizeof(*w));
	int r;

	if (!w) {
		(void)close(conn);
		return error_errno(err, ENOMEM, "work on the sandbox's files");
	}
	*w = (struct file_worker){ .queue = q, .conn = conn, .tail = &w->asks };
	w->since = queue_now(q);
	r = lease_take(q->sandbox->service, LEASE_DESCRIPTORS, q->sandbox->row.owner, 1,
		       &w->lease, err);
	if (r == 0) {
		r = loop_watch(q->sandbox->service->loop, conn, LOOP_READ, on_worker, w,
			       &w->watch);
		if (r < 0)
			r = error_errno(err, -r, "watch the sandbox's file worker");
	}
	if (r < 0) {
		lease_end(q->sandbox->service, LEASE_DESCRIPTORS, &w->lease);
		(void)close(conn);
		free(w);
		return r;
	}
	w->next = q->workers;
	q->workers = w;
	q->n_workers++;
	return 0;
}

static void file_worker_on_started(void *ctx, struct init_reply *a,
				   const struct warren_error *failure)
{
	struct file_queue *q = ctx;
	struct warren_error err = WARREN_ERROR_INIT;
	int code = failure ? failure->code : reply_code(&a->m.reply);
	int conn = code == 0 ? init_reply_take_only(a) : -1, r = 0;

	q->starting = false;
	if (failure)
		err = *failure;
	else if (conn < 0)
		r = error_errno(&err, code ? code : EPROTO,
				"start a process for the sandbox's files");
	else
		r = worker_new(q, conn, &err);
	/* Other workers can still carry out the waiting requests. */
	if ((failure || r < 0) && q->n_workers == 0)
		queue_fail(q, &err);
	else
		queue_turn(q);
}

static void files_file_worker_start(struct file_queue *q)
{
	struct proto_worker msg = { .h = { .type = PROTO_WORKER } };
	struct warren_error err = WARREN_ERROR_INIT;

	q->starting = true;
	if (init_conn_ask_struct(q->sandbox, &msg, sizeof(msg), -1,
				 file_worker_on_started, q, &err) < 0) {
		q->starting = false;
		if (q->n_workers == 0)
			queue_fail(q, &err);
	}
}

/* ---------------------------------------------------------------- order of requests */

/*
 * Choose a worker: the one that has the earlier requests of the same order, or an idle
 * one. *@ret_any is set if any worker may carry out the request.
 */
static struct file_worker *worker_for(struct file_queue *q, const struct file_ask *a,
				      bool others_wait, bool *ret_any)
{
	struct file_worker *idle = NULL;

	*ret_any = false;
	for (struct file_worker *w = q->workers; w; w = w->next) {
		if (w->flight == 0)
			idle = w;
		else if (a->order && w->asks->order == a->order)
			return w->flight < FLIGHT_MAX && !others_wait ? w : NULL;
	}
	*ret_any = true;
	return idle;
}

static void worker_send(struct file_worker *w, struct file_ask *a)
{
	struct warren_error err = WARREN_ERROR_INIT;

	if (++w->seq == 0)
		w->seq = 1; /* 0 is for messages that are not answers */
	a->seq = w->seq;
	if (w->flight == 0)
		w->since = queue_now(w->queue);
	/*
	 * A request that could not be sent gets no answer. The connection is shut down,
	 * and its end reports the failure.
	 */
	if (init_request_send(&a->q, w->conn, a->seq, &err) < 0)
		(void)shutdown(w->conn, SHUT_RDWR);
	QUEUE_PUT(w->tail, a);
	w->flight++;
}

static void turn_workers(struct file_queue *q)
{
	struct file_ask **p = &q->asks;
	bool waits = false, any;

	q->short_since = 0;
	while (*p) {
		struct file_ask *a = *p;
		struct file_worker *w = worker_for(q, a, waits, &any);

		if (!w) {
			waits = true;
			if (any && !q->short_since)
				q->short_since = a->since;
			p = &a->next;
			continue;
		}
		(void)QUEUE_CUT(q->tail, p);
		worker_send(w, a);
	}
	if (!q->asks)
		return;
	if (q->n_workers == 0 && !q->starting)
		files_file_worker_start(q);
	else if (q->short_since && q->n_workers < WORKERS_MAX)
		queue_look(q, HELD_MS);
}

static void on_line_answer(void *ctx, struct init_reply *answer,
			   const struct warren_error *err)
{
	struct file_ask *a = ctx;
	struct file_queue *q = (struct file_queue *)(uintptr_t)a->order;

	q->flight--;
	ask_end(a, answer, err);
	queue_turn(q);
}

/* Send waiting requests while there is room. */
static void turn_line(struct file_queue *q)
{
	while (q->asks && q->flight < FLIGHT_MAX) {
		struct file_ask *a = QUEUE_TAKE(q->asks, q->tail);
		struct warren_error err = WARREN_ERROR_INIT;

		q->flight++;
		a->order = q; /* all requests belong to one order */
		if (init_conn_ask(q->sandbox, &a->q, on_line_answer, a, &err) < 0) {
			q->flight--;
			ask_end(a, NULL, &err);
		}
	}
}

static void queue_turn(struct file_queue *q)
{
	struct warren_error err = WARREN_ERROR_INIT;

	if (q->sandbox->conn < 0) {
		(void)init_conn_refuse(q->sandbox, &err);
		queue_fail(q, &err);
	} else if (q->sandbox->workers) {
		turn_workers(q);
		queue_look(q, LOOK_MS);
	} else if (q->sandbox->welcomed) {
		turn_line(q);
	}
}

void file_queue_turn(struct sandbox *sandbox)
{
	if (sandbox->file_queue)
		queue_turn(sandbox->file_queue);
}

/* ---------------------------------------------------------------------- time limits */

/*
 * Fail the requests of a worker that was blocked for too long; it ends when it is no
 * longer blocked.
 */
static void workers_check_due(struct file_queue *q)
{
	struct warren_error why = WARREN_ERROR_INIT;
	struct file_worker *next;
	uint64_t now = queue_now(q);

	(void)error_set(&why, ETIMEDOUT,
			"something in the sandbox has blocked this request for %d s",
			WORKER_MS / 1000);
	for (struct file_worker *w = q->workers; w; w = next) {
		next = w->next;
		if (now < w->since + (w->flight ? WORKER_MS : IDLE_MS))
			continue;
		if (w->flight == 0 || q->sandbox->row.state != SANDBOX_PAUSED) {
			worker_close(w, &why);
			next = q->workers; /* callbacks may have changed the list */
		}
	}
}

static void file_worker_on_look(void *ctx)
{
	struct file_queue *q = ctx;
	struct warren_error why = WARREN_ERROR_INIT;
	uint64_t now = queue_now(q);

	q->look_at = 0;
	workers_check_due(q);
	/* All workers are blocked, and no request has made progress for this time. */
	if (q->asks && now >= q->asks->since + WORKER_MS &&
	    q->sandbox->row.state != SANDBOX_PAUSED) {
		(void)error_set(&why, ETIMEDOUT,
				"other requests for files of the sandbox are blocked, "
				"and this one waited %d s for them",
				WORKER_MS / 1000);
		queue_fail(q, &why);
	}
	if (q->short_since && !q->starting && q->n_workers < WORKERS_MAX &&
	    now >= q->short_since + HELD_MS)
		files_file_worker_start(q);
	queue_turn(q);
	if (!q->workers && !q->asks) {
		loop_timer_stop(q->timer);
		q->look_at = 0;
	}
}

/* ---------------------------------------------------------------------- new requests */

static struct file_queue *queue_of(struct sandbox *sandbox)
{
	struct file_queue *q = sandbox->file_queue;

	if (q)
		return q;
	q = calloc(1, sizeof(*q));
	if (!q || loop_timer_new(sandbox->service->loop, file_worker_on_look, q,
				 &q->timer) < 0) {
		free(q);
		return NULL;
	}
	q->sandbox = sandbox;
	q->tail = &q->asks;
	sandbox->file_queue = q;
	return q;
}

void file_queue_ask(struct sandbox *sandbox, const void *order,
		    struct init_request *request, file_answer_fn fn, void *ctx)
{
	struct file_queue *q = queue_of(sandbox);
	struct file_ask *a = q ? malloc(sizeof(*a)) : NULL;
	struct warren_error err = WARREN_ERROR_INIT;

	if (!a) {
		(void)error_errno(&err, ENOMEM, "work on the sandbox's files");
		init_request_done(request);
		fn(ctx, NULL, &err);
		return;
	}
	*a = (struct file_ask){
		.order = order, .since = queue_now(q), .q = *request, .fn = fn, .ctx = ctx
	};
	*request = (struct init_request)REQUEST_INIT;
	QUEUE_PUT(q->tail, a);
	queue_turn(q);
}

void file_queue_close(struct sandbox *sandbox, const struct warren_error *why)
{
	struct file_queue *q = sandbox->file_queue;

	if (!q)
		return;
	while (q->workers)
		worker_close(q->workers, why);
	queue_fail(q, why);
}

void file_queue_free(struct sandbox *sandbox)
{
	struct file_queue *q = sandbox->file_queue;

	if (!q)
		return;
	sandbox->file_queue = NULL;
	q->timer = loop_timer_free(q->timer);
	free(q);
}
