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

#include "backend/native/native.h"
#include "base/clock.h"
#include "base/fd.h"

#define ANSWER_MS 20000 /* requests take microseconds */

union message {
	struct proto_header h;
	struct proto_reply reply;
	struct proto_exited exited;
	struct {
		struct proto_header h;
		struct warren_error err;
	} failed;
};

static int gone(struct warren_error *err)
{
	return error_set(err, EPIPE, "the sandbox's init is gone");
}

static void note_exit(struct native_box *box, const struct proto_exited *msg)
{
	for (struct native_exec *ex = box->execs; ex; ex = ex->next) {
		if (ex->id == msg->exec && !ex->done) {
			ex->result = *msg;
			ex->done = true;
			/* v2 adds up by itself, and so does the whole sandbox's cgroup. */
			if (!ex->sole && box->engine->cgroups.mode == CGROUP_V1)
				box->oom_kills += msg->oom_kills;
			if (ex->ready >= 0)
				(void)eventfd_write(ex->ready, 1);
			return;
		}
	}
}

/* One message, checked. 1, 0 when there is none (with MSG_DONTWAIT), or -errno. */
static int receive(struct native_box *box, union message *m, int *ret_fd, int flags,
		   struct warren_error *err)
{
	size_t n_fds = 1;
	int fd = -1;
	ssize_t r = fd_recv(box->control, m, sizeof(*m), &fd, &n_fds, flags);

	/* It ended with something of ours unread: said once, before what it still had to say. */
	if (r == -ECONNRESET) {
		n_fds = 1;
		r = fd_recv(box->control, m, sizeof(*m), &fd, &n_fds, flags);
	}
	if (r == -EAGAIN)
		return 0;
	if (r == 0)
		return gone(err);
	if (r < 0)
		return error_errno(err, (int)-r, "hear from the sandbox's init");
	if (proto_check(m, (size_t)r) < 0) {
		if (n_fds > 0)
			(void)close(fd);
		return error_set(err, EPROTO,
				 "the sandbox's init does not keep to the protocol");
	}
	if (n_fds > 0 && (!ret_fd || m->h.type != PROTO_REPLY)) {
		(void)close(fd);
		n_fds = 0;
	}
	if (ret_fd)
		*ret_fd = n_fds > 0 ? fd : -1;
	return 1;
}

/* 1: something can be read; 0: not within @timeout_ms. */
static int await(const struct native_box *box, int timeout_ms)
{
	struct pollfd p = { .fd = box->control, .events = POLLIN };
	int r;

	do
		r = poll(&p, 1, timeout_ms);
	while (r < 0 && errno == EINTR);
	return r > 0;
}

int client_request(struct native_box *box, struct proto_header *msg, size_t size,
		   const int *fds, size_t n_fds, struct proto_reply *ret, int *ret_fd,
		   struct warren_error *err)
{
	int r;

	msg->version = PROTO_VERSION;
	msg->seq = ++box->seq;
	r = fd_send(box->control, msg, size, fds, n_fds);
	if (r == -EPIPE)
		return gone(err);
	if (r < 0)
		return error_errno(err, -r, "ask the sandbox's init");
	/* Asked before it was up: what it says first is of the making. */
	if (!box->ready) {
		r = client_wait_ready(box, err);
		if (r < 0) {
			(void)error_wrap(err, "create a sandbox");
			err->code = EREMOTEIO;
			return -EREMOTEIO;
		}
		box->ready = true;
	}
	for (;;) {
		union message m;
		int fd = -1;

		r = await(box, ANSWER_MS);
		if (r == 0)
			return error_set(err, ETIMEDOUT,
					 "the sandbox's init does not answer");
		r = receive(box, &m, &fd, MSG_DONTWAIT, err);
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		if (m.h.type == PROTO_EXITED) {
			note_exit(box, &m.exited);
			continue;
		}
		/* The answer to a request that was given up. */
		if (m.h.type == PROTO_REPLY && (int32_t)(m.h.seq - box->seq) < 0) {
			if (fd >= 0)
				(void)close(fd);
			continue;
		}
		if (m.h.type != PROTO_REPLY || m.h.seq != box->seq) {
			if (fd >= 0)
				(void)close(fd);
			return error_set(err, EPROTO,
					 "the sandbox's init answers what nobody asked");
		}
		*ret = m.reply;
		*ret_fd = fd;
		return 0;
	}
}

int client_pump(struct native_box *box, int64_t timeout_ms, struct warren_error *err)
{
	uint64_t deadline =
		clock_now() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000000;
	int count = 0;

	for (;;) {
		struct pollfd p = { .fd = box->control, .events = POLLIN };
		union message m;
		int64_t left = -1;
		int r = receive(box, &m, NULL,
				timeout_ms < 0 && count == 0 ? 0 : MSG_DONTWAIT, err);

		/* Its end is for the next call to tell, if it had something to say before. */
		if (r < 0)
			return count > 0 ? 1 : r;
		if (r > 0) {
			if (m.h.type == PROTO_EXITED)
				note_exit(box, &m.exited);
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
int client_wait_ready(struct native_box *box, struct warren_error *err)
{
	union message m;
	size_t n_fds = 0;
	ssize_t r = fd_recv(box->control, &m, sizeof(m), NULL, &n_fds, 0);

	/* As in receive(): said before the child's own words, which come next. */
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
