/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay.c - forward bytes between the two ends of a flow
 *
 * Small amounts are copied through one buffer that all flows share. A direction in which
 * a read fills that buffer gets a pipe, and splice(2) moves its bytes without copying
 * them, until nothing is left to read. Reading stops while the other end does not accept
 * bytes, so each direction holds at most one buffer or one pipe.
 *
 * The body of an HTTP response is spliced in the same way, if its end is known without
 * reading it.
 *
 * When one direction ends, its receiver is informed, and the other direction continues.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "egress/egress_internal.h"

struct relay {
	struct egress_flow *flow;
	struct end *from, *to;
	struct pipe_pair **pipe;
	bool in; /* direction: from the server */
};

static struct relay relay_of(struct egress_flow *f, bool in)
{
	return (struct relay){ .flow = f,
			       .from = in ? &f->server : &f->client,
			       .to = in ? &f->client : &f->server,
			       .pipe = in ? &f->pipe_in : &f->pipe_out,
			       .in = in };
}

static void relay_drop_pipe(const struct relay *r)
{
	pipes_give(r->flow->sandbox->egress->pipes, *r->pipe);
	*r->pipe = NULL;
}

void relay_done(struct egress_flow *f)
{
	struct relay in = relay_of(f, true), out = relay_of(f, false);

	relay_drop_pipe(&in);
	relay_drop_pipe(&out);
}

static void relay_count(const struct relay *r, size_t n)
{
	egress_count(r->flow, r->in ? n : 0, r->in ? 0 : n);
}

/* Check whether both directions have ended, and everything was sent. */
static void relay_check_end(struct egress_flow *f)
{
	if (f->client.finished && f->server.finished)
		egress_flow_end(f);
}

/* The sender has closed its half. */
static void relay_pass_end(const struct relay *r)
{
	r->from->ended = true;
	relay_drop_pipe(r);
	end_finish(r->to);
	relay_check_end(r->flow);
}

/*
 * The receiver does not accept bytes any more. Still deliver the data that it sent,
 * because it may contain the reason.
 */
static void relay_break(const struct relay *r)
{
	relay_drop_pipe(r);
	r->from->ended = true;
	r->to->finishing = r->to->finished = true;
	free(r->to->queue);
	r->to->queue = NULL;
	r->to->queue_len = r->to->queue_off = 0;
	relay_check_end(r->flow);
}

static bool relay_received(const struct relay *r, ssize_t n)
{
	if (n > 0)
		return true;
	if (n == 0)
		relay_pass_end(r);
	else if (n != -EAGAIN)
		egress_flow_reset(r->flow);
	return false;
}

/* ------------------------------------------------------------------------- copying */

static void relay_copy(const struct relay *r)
{
	struct egress *e = r->flow->sandbox->egress;
	size_t size = egress_buffer_max(r->flow->sandbox);
	size_t want = egress_allowance(r->flow, size);
	ssize_t n;

	if (want == 0)
		return;
	n = end_read(r->from, e->scratch, want);
	if (!relay_received(r, n))
		return;
	relay_count(r, (size_t)n);
	if (r->flow->over)
		return;
	if (end_write(r->to, e->scratch, (size_t)n) < 0)
		relay_break(r);
	else if ((size_t)n == size && !end_has_queue(r->to) && !r->from->tls &&
		 !r->to->tls)
		*r->pipe = pipes_take(e->pipes);
}

/* ------------------------------------------------------------------------ splicing */

static ssize_t relay_splice(int from, int to, size_t n)
{
	ssize_t moved;

	do
		moved = splice(from, NULL, to, NULL, n,
			       SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	while (moved < 0 && errno == EINTR);
	return moved < 0 ? -errno : moved;
}

/* Fill the pipe. Return false if there is nothing to send. */
static bool relay_fill(const struct relay *r)
{
	struct pipe_pair *pipe = *r->pipe;
	size_t want = egress_allowance(r->flow, pipe->capacity);
	ssize_t n;

	if (want == 0)
		return false;
	n = relay_splice(r->from->fd, pipe->in, want);
	if (n == -EAGAIN)
		relay_drop_pipe(r);
	if (!relay_received(r, n))
		return false;
	pipe->held = (size_t)n;
	relay_count(r, (size_t)n);
	return !r->flow->over;
}

/* Empty the pipe. 0; -EAGAIN: the receiver's buffer is full; -EPIPE: the connection
 * broke. */
static int relay_empty(const struct relay *r)
{
	struct pipe_pair *pipe = *r->pipe;

	while (pipe->held) {
		ssize_t n = relay_splice(pipe->out, r->to->fd, pipe->held);

		if (n == -EAGAIN)
			return -EAGAIN;
		if (n <= 0)
			return -EPIPE;
		pipe->held -= (size_t)n;
	}
	return 0;
}

/* Like relay_empty(), and end the direction if the connection broke. */
static bool relay_drain(const struct relay *r)
{
	int e = relay_empty(r);

	if (e == -EPIPE)
		relay_break(r);
	return e == 0;
}

static void relay_pipe(const struct relay *r)
{
	size_t moved = 0;

	if ((*r->pipe)->held && !relay_drain(r))
		return;
	while (*r->pipe && moved < EGRESS_TURN_MAX && relay_fill(r)) {
		moved += (*r->pipe)->held;
		if (!relay_drain(r))
			return;
	}
}

/* ------------------------------------------------------------- bodies of responses */

bool relay_begin_body(struct egress_flow *f)
{
	f->pipe_in = pipes_take(f->sandbox->egress->pipes);
	return f->pipe_in;
}

ssize_t relay_body(struct egress_flow *f, uint64_t max)
{
	struct relay r = relay_of(f, true);
	size_t want = egress_allowance(f, f->pipe_in->capacity);
	ssize_t n;

	if (want > max)
		want = (size_t)max;
	n = want ? relay_splice(r.from->fd, f->pipe_in->in, want) : -EAGAIN;
	if (n <= 0) {
		relay_drop_pipe(&r);
		return n;
	}
	f->pipe_in->held = (size_t)n;
	relay_count(&r, (size_t)n);
	if (!f->over && relay_empty(&r) == -EPIPE)
		return -EPIPE;
	return n;
}

int relay_push_body(struct egress_flow *f)
{
	struct relay r = relay_of(f, true);

	return relay_empty(&r);
}

/* -------------------------------------------------------------------------- events */

static void relay_move(const struct relay *r)
{
	if (*r->pipe)
		relay_pipe(r);
	else if (!r->from->ended)
		relay_copy(r);
}

void relay_from_client(struct egress_flow *f)
{
	struct relay r = relay_of(f, false);

	relay_move(&r);
}

static void relay_from_server(struct egress_flow *f)
{
	struct relay r = relay_of(f, true);
	uint64_t before = f->bytes_in;

	relay_move(&r);
	if (f->over || f->bytes_in == before || f->server_spoke)
		return;
	f->server_spoke = true;
	egress_flow_record(f);
}

void relay_push_client(struct egress_flow *f)
{
	if (!f->over && f->pipe_in && f->pipe_in->held) {
		if (f->state == EGRESS_FLOW_HTTP)
			http_flow_push_body(f);
		else
			relay_from_server(f);
	}
	if (!f->over && f->state == EGRESS_FLOW_RAW)
		relay_check_end(f);
}

static void relay_flush_server(struct egress_flow *f)
{
	struct relay r = relay_of(f, false);

	if (end_flush(&f->server) == 0) {
		if (f->state == EGRESS_FLOW_RAW)
			relay_check_end(f);
		return;
	}
	if (f->state == EGRESS_FLOW_HTTP)
		http_flow_server_broken(f);
	else
		relay_break(&r);
}

void relay_on_server(struct egress_flow *f, unsigned events)
{
	if ((events & LOOP_WRITE) && end_has_queue(&f->server))
		relay_flush_server(f);
	if (!f->over && (events & LOOP_WRITE) && f->pipe_out && f->pipe_out->held)
		relay_from_client(f);
	if (f->over || !(events & LOOP_READ) || !egress_flow_wants_server(f))
		return;
	if (f->state == EGRESS_FLOW_HTTP)
		http_flow_from_server(f);
	else
		relay_from_server(f);
}

void relay_start(struct egress_flow *f)
{
	struct relay r = relay_of(f, false);
	int e = 0;

	egress_flow_set_timer(f, 0);
	if (f->first.len) {
		relay_count(&r, f->first.len);
		if (f->over)
			return;
		e = end_write(&f->server, f->first.data, f->first.len);
	}
	buf_done(&f->first);
	f->first = (struct buf)BUF_INIT(0);
	if (e < 0)
		relay_break(&r);
	else if (f->client.ended)
		relay_pass_end(&r);
}
