/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.c - the blocking client of an init
 *
 * There is one request at a time; between request and reply, init may report ends of
 * execs. Any other message (a reply to no request, an unknown exec, a wrong size)
 * violates the protocol: the request fails, and the sandbox should be destroyed. The same
 * is true if init does not answer in time. The time limit applies to the whole request,
 * whatever other messages arrive, and the number of such messages is limited.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "initclient/initclient.h"

#define ANSWER_MS 20000                      /* requests normally take microseconds */
#define READY_MS  60000                      /* time for a child to become an init */
#define LONG_MS   (UINT64_C(30) * 60 * 1000) /* limit for a shim that reports progress */
/* Maximum number of messages between a request and its answer. */
#define UNASKED_MAX (2 * PROTO_EXECS_MAX)

static void note_exit(struct initclient_sandbox *sandbox, const struct proto_exited *msg)
{
	for (struct initclient_exec *ex = sandbox->execs; ex; ex = ex->next) {
		if (ex->id == msg->exec && !ex->done) {
			ex->result = *msg;
			ex->done = true;
			/* The cgroup of the whole sandbox counts the kills itself. */
			if (!ex->accounts_sandbox && !sandbox->base.durable)
				sandbox->oom_kills += msg->oom_kills;
			if (ex->ready >= 0)
				(void)eventfd_write(ex->ready, 1);
			return;
		}
	}
}

/* Return 1 if the socket is readable or writable, or 0 if it is not before @deadline. */
static int client_await(const struct initclient_sandbox *sandbox, short events,
			uint64_t deadline)
{
	struct pollfd p = { .fd = sandbox->control, .events = events };
	int r = 0;

	do {
		uint64_t t = clock_now();

		if (t >= deadline)
			return 0;
		r = poll(&p, 1, (int)((deadline - t + 999999) / 1000000));
	} while (r <= 0);
	return 1;
}

static uint64_t from_now(uint64_t ms)
{
	return clock_now() + ms * 1000000;
}

static int too_late(struct warren_error *err)
{
	return error_set(err, ETIMEDOUT, "the sandbox's init does not answer");
}

/* The init was not ready yet: its first message is about its creation. */
static int hear_ready(struct initclient_sandbox *sandbox, struct warren_error *err)
{
	int r = sandbox->ready ? 0 : client_wait_ready(sandbox, err);

	sandbox->ready = r == 0;
	if (r == 0)
		return 0;
	(void)error_wrap(err, "create a sandbox");
	err->code = EREMOTEIO;
	return -EREMOTEIO;
}

/*
 * Handle an unsolicited message: init has too many connections, or reports why it
 * ended.
 */
static int client_refused(const struct init_reply *a, struct warren_error *err)
{
	int code = reply_code(&a->m.reply);

	if (a->m.why[0])
		return error_set(err, code ? code : EPROTO, "%s", a->m.why);
	return error_set(err, EBUSY, "the sandbox already has %d connections",
			 PROTO_CONNECTIONS_MAX);
}

/*
 * init closed the connection before it read the request. Check whether it has sent the
 * reason.
 */
static int turned_away(const struct initclient_sandbox *sandbox, struct warren_error *err)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct init_reply a;

	while (init_request_receive(sandbox->control, &a, MSG_DONTWAIT, &ignored) > 0) {
		init_reply_done(&a);
		if (a.m.h.type == PROTO_REPLY && a.m.h.seq == 0)
			return client_refused(&a, err);
	}
	return -err->code;
}

/* Is the message not an answer yet, but a sign of progress? */
static bool still_at_it(const struct initclient_sandbox *sandbox,
			const struct init_reply *a)
{
	return sandbox->may_take_long && a->m.h.type == PROTO_REPLY &&
	       a->m.h.seq == sandbox->seq && reply_code(&a->m.reply) == EINPROGRESS;
}

/* If the other end does not read, the socket is full at some point, so wait for space. */
static int client_send_by(struct initclient_sandbox *sandbox,
			  const struct init_request *q, uint64_t deadline,
			  struct warren_error *err)
{
	int r = init_request_send(q, sandbox->control, ++sandbox->seq, err);

	while (r == -EAGAIN) {
		if (!client_await(sandbox, POLLOUT, deadline))
			return too_late(err);
		*err = (struct warren_error)WARREN_ERROR_INIT;
		r = init_request_send(q, sandbox->control, sandbox->seq, err);
	}
	return r;
}

/* Handle a message that is not the answer. Return 0 if it is permitted. */
static int judge_other(struct initclient_sandbox *sandbox, struct init_reply *a,
		       struct warren_error *err)
{
	init_reply_done(a);
	if (a->m.h.type == PROTO_EXITED) {
		note_exit(sandbox, &a->m.exited);
		return 0;
	}
	if (a->m.h.type == PROTO_REPLY && a->m.h.seq == 0)
		return client_refused(a, err);
	/* This is the answer to an abandoned request. */
	if (a->m.h.type == PROTO_REPLY && (int32_t)(a->m.h.seq - sandbox->seq) < 0)
		return 0;
	return error_set(err, EPROTO,
			 "the sandbox's init sent an answer without a request");
}

/*
 * The other end has closed the connection. If init had not started yet, its process has
 * reported the reason.
 */
static int sent_to_nobody(struct initclient_sandbox *sandbox, struct warren_error *err)
{
	struct warren_error told = WARREN_ERROR_INIT;

	if (hear_ready(sandbox, &told) == 0)
		return turned_away(sandbox, err);
	*err = told;
	return -told.code;
}

static int init_request_within(struct initclient_sandbox *sandbox,
			       const struct init_request *q, uint64_t ms,
			       struct init_reply *ret, struct warren_error *err)
{
	const uint64_t last = from_now(sandbox->may_take_long ? LONG_MS : ms);
	uint64_t deadline = from_now(ms);
	int r = client_send_by(sandbox, q, deadline, err);

	if (r == 0)
		r = hear_ready(sandbox, err);
	else if (r == -EPIPE || r == -ECONNRESET)
		r = sent_to_nobody(sandbox, err);
	for (int unasked = 0; r == 0; unasked++) {
		if (unasked > UNASKED_MAX)
			return error_set(
				err, EPROTO,
				"the sandbox's init sent too much unrequested data");
		if (!client_await(sandbox, POLLIN, deadline < last ? deadline : last))
			return too_late(err);
		r = init_request_receive(sandbox->control, ret, MSG_DONTWAIT, err);
		if (r <= 0)
			continue;
		r = 0;
		if (still_at_it(sandbox, ret)) {
			init_reply_done(ret);
			deadline = from_now(ms);
		} else if (ret->m.h.seq == sandbox->seq &&
			   (ret->m.h.type == PROTO_REPLY ||
			    ret->m.h.type == PROTO_WELCOME)) {
			return 0;
		} else {
			r = judge_other(sandbox, ret, err);
		}
	}
	return r;
}

int client_request(struct initclient_sandbox *sandbox, const struct init_request *q,
		   struct init_reply *ret, struct warren_error *err)
{
	return init_request_within(sandbox, q, ANSWER_MS, ret, err);
}

int client_ask_within(struct initclient_sandbox *sandbox, const void *msg, size_t size,
		      int fd, unsigned ms, struct init_reply *ret,
		      struct warren_error *err)
{
	CLEANUP(init_request_done) struct init_request q = REQUEST_INIT;
	int r = init_request_put(&q, msg, size, fd, err);

	return r < 0 ? r : init_request_within(sandbox, &q, ms, ret, err);
}

int client_ask(struct initclient_sandbox *sandbox, const void *msg, size_t size, int fd,
	       struct init_reply *ret, struct warren_error *err)
{
	return client_ask_within(sandbox, msg, size, fd, ANSWER_MS, ret, err);
}

int client_pump(struct initclient_sandbox *sandbox, int64_t timeout_ms,
		struct warren_error *err)
{
	uint64_t deadline =
		clock_now() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000000;
	int count = 0;

	for (;;) {
		struct pollfd p = { .fd = sandbox->control, .events = POLLIN };
		struct init_reply a;
		int64_t left = -1;
		int r = init_request_receive(
			sandbox->control, &a,
			timeout_ms < 0 && count == 0 ? 0 : MSG_DONTWAIT, err);

		/*
		 * If messages came before the end of the connection, the next call
		 * reports the end.
		 */
		if (r < 0)
			return count > 0 ? 1 : r;
		if (r > 0) {
			if (a.m.h.type == PROTO_EXITED)
				note_exit(sandbox, &a.m.exited);
			init_reply_done(&a);
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

/*
 * Before READY, the child may send FAILED with a message; until it executes init, it runs
 * Warren's own code.
 */
int client_wait_ready(struct initclient_sandbox *sandbox, struct warren_error *err)
{
	union {
		struct proto_header h;
		struct {
			struct proto_header h;
			struct warren_error err;
		} failed;
	} m;
	size_t n_fds = 0;
	ssize_t r;

	if (!client_await(sandbox, POLLIN,
			  from_now(sandbox->may_take_long ? LONG_MS : READY_MS)))
		return error_set(err, ETIMEDOUT, "the sandbox's first process hangs");
	r = fd_recv(sandbox->control, &m, sizeof(m), NULL, &n_fds, 0);

	/*
	 * As in request_receive(), this error is reported before the child's last
	 * message.
	 */
	if (r == -ECONNRESET) {
		n_fds = 0;
		r = fd_recv(sandbox->control, &m, sizeof(m), NULL, &n_fds, 0);
	}
	if (r < 0)
		return error_errno(err, (int)-r, "receive from the sandbox");
	if (r == sizeof(m.failed) && m.h.type == PROTO_FAILED && m.failed.err.code > 0) {
		*err = m.failed.err;
		err->msg[sizeof(err->msg) - 1] = '\0';
		return -err->code;
	}
	if (r == 0)
		return error_set(err, ECHILD, "the sandbox's first process died");
	if (proto_check(&m, (size_t)r) < 0 || m.h.type != PROTO_READY)
		return error_set(err, EPROTO, "the sandbox's init violated the protocol");
	return 0;
}
