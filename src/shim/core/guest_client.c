/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest_client.c - send requests to the guest agent inside, one at a time, and receive
 * its answers
 *
 * The number of a request is the time by which the guest agent must begin with it,
 * BEGIN_MS from now (agent/guest/guest_server.c). If the guest agent does not answer
 * within that time, it is frozen or has ended, and the shim asks the platform which of
 * the two is true. A late answer is dropped. The guest agent is inside the sandbox, so
 * the shim trusts it as little as an init.
 */
#include "shim/core/guest_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"

#define BEGIN_MS  5000
#define ANSWER_MS 60000
#define WAKE_MS   1000 /* between two checks whether a copy has ended */

static _Alignas(8) char message[PROTO_MESSAGE_MAX], answer[PROTO_MESSAGE_MAX];

static uint64_t now_ms(void)
{
	return clock_now() / 1000000;
}

static int guest_client_gone(struct warren_error *err)
{
	return error_set(err, EPIPE, "%s: files: the sandbox's first process is gone",
			 this_sandbox.name);
}

/*
 * Wait until @by at most; return 0 if the time is over. While waiting, inform the client
 * that the request is in progress.
 */
static int guest_client_await(short events, uint64_t by)
{
	struct pollfd p = { .fd = this_sandbox.within, .events = events };

	for (;;) {
		uint64_t t = now_ms();
		int r, ms = by - t > WORK_SIGN_MS ? WORK_SIGN_MS : (int)(by - t);

		if (t >= by)
			return 0;
		r = poll(&p, 1, ms);
		if (r > 0)
			return 1;
		work_sign();
	}
}

static int guest_client_send_by(size_t size, const int *fds, size_t n_fds, uint64_t by)
{
	int r;

	do
		r = fd_send(this_sandbox.within, message, size, fds, n_fds);
	while (r == -EAGAIN && guest_client_await(POLLOUT, by) > 0);
	return r == -EAGAIN ? 0 : r < 0 ? r : 1;
}

/* Receive the answer to @seq and return its size; 0: none arrived in time. */
static ssize_t receive_by(uint32_t seq, uint64_t by, int *ret_fd)
{
	const struct proto_header *h = (const void *)answer;

	while (guest_client_await(POLLIN, by) > 0) {
		size_t n_fds = 1;
		int fd = -1;
		ssize_t n = fd_recv(this_sandbox.within, answer, sizeof(answer), &fd,
				    &n_fds, MSG_DONTWAIT);

		if (n == -EAGAIN || n == -EINTR)
			continue;
		if (n == 0 || n == -ECONNRESET)
			return -EPIPE;
		if (n < 0)
			return n;
		if (proto_check(answer, (size_t)n) == 0 && h->seq == seq &&
		    (h->type == PROTO_REPLY || h->type == PROTO_ENTRIES)) {
			*ret_fd = fd;
			return n;
		}
		if (fd >= 0)
			(void)close(fd);
	}
	return 0;
}

/*
 * No answer arrived: find out the reason. 0: it should answer; 1: it will answer after
 * its files were copied.
 */
static int guest_client_explain(struct warren_error *err)
{
	struct warren_error why = WARREN_ERROR_INIT;
	int r = -EBUSY;

	/* A copy may end after the first check, so check twice. */
	for (int i = 0; i < 2 && r == -EBUSY; i++) {
		if (shim_sandbox_is_copied(&this_sandbox))
			return 1;
		r = this_sandbox.driver->silent
			    ? this_sandbox.driver->silent(&this_sandbox, &why)
			    : 0;
	}
	if (r >= 0)
		return 0;
	*err = why;
	return error_wrap(err, "files");
}

/*
 * No answer arrived in time: wait for it, unless the sandbox is paused or has ended; then
 * @err says so. After a copy, the client gets more time. -ECANCELED: the request could
 * not be sent.
 */
static ssize_t guest_client_wait(uint32_t seq, bool sent, uint64_t *until, int *ret_fd,
				 struct warren_error *err)
{
	uint64_t by = now_ms() + ANSWER_MS - BEGIN_MS;
	bool copied = false;
	ssize_t n = 0;
	int r = 0;

	while (n == 0 && (r = guest_client_explain(err)) > 0) {
		copied = true;
		if (sent)
			n = receive_by(seq, now_ms() + WAKE_MS, ret_fd);
		else
			(void)guest_client_await(POLLOUT, now_ms() + WAKE_MS);
	}
	if (copied)
		by = *until = now_ms() + ANSWER_MS;
	if (n != 0 || r < 0)
		return n != 0 ? n : r;
	if (!sent)
		return copied ? -ECANCELED : 0;
	return receive_by(seq, by, ret_fd);
}

/*
 * Return the size of the answer, and *@ret_fd; -ECANCELED: it was too late, and nothing
 * was done.
 */
static ssize_t ask_once(size_t size, const int *fds, size_t n_fds, uint64_t *until,
			int *ret_fd, struct warren_error *err)
{
	struct proto_header *h = (void *)message;
	const struct proto_reply *said = (const void *)answer;
	uint64_t t = now_ms();
	ssize_t n;
	int r;

	h->seq = (uint32_t)(t + BEGIN_MS);
	n = r = guest_client_send_by(size, fds, n_fds, t + BEGIN_MS);
	if (r > 0)
		n = receive_by(h->seq, t + BEGIN_MS, ret_fd);
	if (n == 0) {
		n = guest_client_wait(h->seq, r > 0, until, ret_fd, err);
		if (err->code || n == -ECANCELED)
			return n;
	}
	if (n == 0)
		return error_set(err, ETIMEDOUT, "%s: files: the sandbox does not answer",
				 this_sandbox.name);
	if (n == -EPIPE)
		return guest_client_gone(err);
	if (n < 0)
		return error_errno(err, (int)-n, "%s: files", this_sandbox.name);
	if (said->h.type != PROTO_REPLY ||
	    (said->status != -ECANCELED && said->status != -EINPROGRESS))
		return n;
	if (*ret_fd >= 0)
		(void)close(TAKE_FD(*ret_fd));
	/* Accept the answer "too late" only if that is true. */
	if (said->status == -ECANCELED && now_ms() >= t + BEGIN_MS)
		return -ECANCELED;
	return error_errno(err, EPROTO, "%s: files", this_sandbox.name);
}

static ssize_t guest_client_ask(const void *msg, size_t size, const int *fds,
				size_t n_fds, int *ret_fd, struct warren_error *err)
{
	uint64_t until = now_ms() + ANSWER_MS;
	ssize_t n;

	(void)memcpy(message, msg, size);
	do
		n = ask_once(size, fds, n_fds, &until, ret_fd, err);
	while (n == -ECANCELED && now_ms() < until);
	return n == -ECANCELED ? error_set(err, ETIMEDOUT,
					   "%s: files: the sandbox is too slow to answer",
					   this_sandbox.name)
			       : n;
}

void within_work(const struct work *w, const void *msg, size_t size, const int *fds,
		 size_t n_fds)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct proto_header *h = (void *)answer;
	int fd = -1;
	ssize_t n = guest_client_ask(msg, size, fds, n_fds, &fd, &err);

	if (n < 0) {
		work_reply(w, n, 0, -1, err.msg);
		return;
	}
	h->seq = w->seq;
	work_send(w, answer, (size_t)n, fd);
	if (fd >= 0)
		(void)close(fd);
}

int within_open(const char *path)
{
	struct proto_open msg = { .h = { .version = PROTO_VERSION, .type = PROTO_OPEN },
				  .flags = O_RDONLY };
	const struct proto_reply *said = (const void *)answer;
	struct warren_error ignored = WARREN_ERROR_INIT;
	int fd = -1;
	ssize_t n;

	(void)snprintf(msg.path, sizeof(msg.path), "%s", path);
	n = guest_client_ask(&msg, sizeof(msg), NULL, 0, &fd, &ignored);
	if (n >= 0 && fd < 0)
		n = said->h.type == PROTO_REPLY && said->status < 0 ? said->status
								    : -EPROTO;
	return n < 0 ? (int)n : fd;
}
