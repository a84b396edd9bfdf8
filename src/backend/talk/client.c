/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.c - the conversation with init
 *
 * One request at a time, and ends of execs in between. Whatever does not fit
 * (a reply nobody asked for, an exec nobody knows, a wrong size) is an init
 * gone wrong: the request fails, and the sandbox is for destroying. So is one
 * that does not answer in time.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "backend/talk/talk.h"
#include "base/clock.h"
#include "base/fd.h"

#define ANSWER_MS 20000 /* requests take microseconds */

static void note_exit(struct talk_box *box, const struct proto_exited *msg)
{
	for (struct talk_exec *ex = box->execs; ex; ex = ex->next) {
		if (ex->id == msg->exec && !ex->done) {
			ex->result = *msg;
			ex->done = true;
			/* The whole sandbox's cgroup adds up by itself. */
			if (!ex->sole && !box->base.durable)
				box->oom_kills += msg->oom_kills;
			if (ex->ready >= 0)
				(void)eventfd_write(ex->ready, 1);
			return;
		}
	}
}

/* 1: something can be read; 0: not within @timeout_ms. */
static int await(const struct talk_box *box, int timeout_ms)
{
	struct pollfd p = { .fd = box->control, .events = POLLIN };
	int r;

	do
		r = poll(&p, 1, timeout_ms);
	while (r < 0 && errno == EINTR);
	return r > 0;
}

/* Asked before it was up: what it says first is of the making. */
static int hear_ready(struct talk_box *box, struct warren_error *err)
{
	int r = box->ready ? 0 : client_wait_ready(box, err);

	box->ready = r == 0;
	if (r == 0)
		return 0;
	(void)error_wrap(err, "create a sandbox");
	err->code = EREMOTEIO;
	return -EREMOTEIO;
}

/* What it says unasked: that there is no room for us, or why it is no more. */
static int refused(const struct answer *a, struct warren_error *err)
{
	int code = reply_code(&a->m.reply);

	if (a->m.why[0])
		return error_set(err, code ? code : EPROTO, "%s", a->m.why);
	return error_set(err, EBUSY, "the sandbox has %d connections already",
			 PROTO_CONNECTIONS_MAX);
}

/* It hung up on us before it heard us: did it say why? */
static int turned_away(const struct talk_box *box, struct warren_error *err)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct answer a;

	while (request_receive(box->control, &a, MSG_DONTWAIT, &ignored) > 0) {
		answer_done(&a);
		if (a.m.h.type == PROTO_REPLY && a.m.h.seq == 0)
			return refused(&a, err);
	}
	return -err->code;
}

/* No answer yet, but a sign of life. */
static bool still_at_it(const struct talk_box *box, const struct answer *a)
{
	return a->m.h.type == PROTO_REPLY && a->m.h.seq == box->seq &&
	       reply_code(&a->m.reply) == EINPROGRESS;
}

int client_request(struct talk_box *box, const struct request *q, struct answer *ret,
		   struct warren_error *err)
{
	int r = request_send(q, box->control, ++box->seq, err);

	if (r == 0 || r == -EPIPE)
		r = r == 0 ? hear_ready(box, err) : turned_away(box, err);
	while (r == 0) {
		r = await(box, ANSWER_MS);
		if (r == 0)
			return error_set(err, ETIMEDOUT,
					 "the sandbox's init does not answer");
		r = request_receive(box->control, ret, MSG_DONTWAIT, err);
		if (r <= 0)
			continue;
		r = 0;
		if (ret->m.h.type == PROTO_EXITED) {
			note_exit(box, &ret->m.exited);
			continue;
		}
		if (still_at_it(box, ret)) {
			answer_done(ret);
			continue;
		}
		if (ret->m.h.seq == box->seq &&
		    (ret->m.h.type == PROTO_REPLY || ret->m.h.type == PROTO_WELCOME))
			return 0;
		answer_done(ret);
		if (ret->m.h.type == PROTO_REPLY && ret->m.h.seq == 0)
			return refused(ret, err);
		/* Unless it is the answer to a request that was given up. */
		if (ret->m.h.type != PROTO_REPLY ||
		    (int32_t)(ret->m.h.seq - box->seq) > 0)
			r = error_set(err, EPROTO,
				      "the sandbox's init answers what nobody asked");
	}
	return r;
}

int client_ask(struct talk_box *box, const void *msg, size_t size, int fd,
	       struct answer *ret, struct warren_error *err)
{
	CLEANUP(request_done) struct request q = REQUEST_INIT;
	int r = request_put(&q, msg, size, fd, err);

	return r < 0 ? r : client_request(box, &q, ret, err);
}

int client_pump(struct talk_box *box, int64_t timeout_ms, struct warren_error *err)
{
	uint64_t deadline =
		clock_now() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000000;
	int count = 0;

	for (;;) {
		struct pollfd p = { .fd = box->control, .events = POLLIN };
		struct answer a;
		int64_t left = -1;
		int r = request_receive(box->control, &a,
					timeout_ms < 0 && count == 0 ? 0 : MSG_DONTWAIT,
					err);

		/* Its end is for the next call to tell, if it had something to say before. */
		if (r < 0)
			return count > 0 ? 1 : r;
		if (r > 0) {
			if (a.m.h.type == PROTO_EXITED)
				note_exit(box, &a.m.exited);
			answer_done(&a);
			count++;
			continue;
		}
		if (count > 0 || timeout_ms == 0)
			return count > 0;
		if (timeout_ms > 0) {
			uint64_t t = clock_now();

			if (t >= deadline)
				return 0;
			left = (int64_t)((deadline - t + 999999) / 1000000);
		}
		if (poll(&p, 1, (int)(left > 60000 ? 60000 : left)) < 0 && errno == EINTR)
			return 0;
	}
}

/* Before READY the child may say FAILED, in words; it is our own code until it execs init. */
int client_wait_ready(struct talk_box *box, struct warren_error *err)
{
	union {
		struct proto_header h;
		struct {
			struct proto_header h;
			struct warren_error err;
		} failed;
	} m;
	size_t n_fds = 0;
	ssize_t r = fd_recv(box->control, &m, sizeof(m), NULL, &n_fds, 0);

	/* As in request_receive(): said before the child's own words, which come next. */
	if (r == -ECONNRESET) {
		n_fds = 0;
		r = fd_recv(box->control, &m, sizeof(m), NULL, &n_fds, 0);
	}
	if (r < 0)
		return error_errno(err, (int)-r, "hear from the sandbox");
	if (r == sizeof(m.failed) && m.h.type == PROTO_FAILED && m.failed.err.code > 0) {
		*err = m.failed.err;
		err->msg[sizeof(err->msg) - 1] = '\0';
		return -err->code;
	}
	if (r == 0)
		return error_set(err, ECHILD, "the sandbox's first process died");
	if (proto_check(&m, (size_t)r) < 0 || m.h.type != PROTO_READY)
		return error_set(err, EPROTO,
				 "the sandbox's init does not keep to the protocol");
	return 0;
}
