/* SPDX-License-Identifier: Apache-2.0 */
/*
 * splice.c - move data with splice(2) if it cannot block, otherwise through a buffer
 *
 * Each kind of destination is written to without blocking:
 *
 *	pipe		splice(2) with SPLICE_F_NONBLOCK; to copy, the pipe is opened
 *			again through /proc with O_NONBLOCK, which affects no other user
 *	regular file,	writing does not block
 *	/dev/null
 *	terminal	copied to the terminal, which is opened again with O_NONBLOCK
 *	socket		copied with MSG_DONTWAIT; on old kernels, splice(2) blocks
 *	anything else	copied in small pieces when poll(2) reports space
 */
#include "cli/splice.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define SPLICE_SIZE (1U << 20)
#define COPY_SIZE   (64U << 10)
/*
 * Number of steps in one round: large enough to save calls of poll(2), but small enough
 * to handle signals in time.
 */
#define ROUNDS 16

static const struct splice idle = PUMP_IDLE;

void splice_init_out(struct splice *p, int from, int to)
{
	*p = idle;
	p->state = PUMP_WAIT_IN;
	p->from = from;
	p->own_from = true;
	p->to = to;
}

void splice_init_in(struct splice *p, int from, int to)
{
	*p = idle;
	p->state = PUMP_WAIT_IN;
	p->from = from;
	p->to = to;
	p->own_to = true;
}

void splice_init_capture(struct splice *p, int from, size_t max)
{
	*p = idle;
	p->state = PUMP_WAIT_IN;
	p->way = PUMP_CAPTURE;
	p->from = from;
	p->own_from = true;
	p->data = (struct buf)BUF_INIT(max);
}

void splice_copy(struct splice *p)
{
	p->way = PUMP_COPY;
}

int splice_fd(const struct splice *p)
{
	switch (p->state) {
	case PUMP_WAIT_IN:
		return p->from;
	case PUMP_WAIT_OUT:
		return p->sink >= 0 ? p->sink : p->to;
	case PUMP_DONE:
		break;
	}
	return -1;
}

short splice_events(const struct splice *p)
{
	return p->state == PUMP_WAIT_OUT ? POLLOUT : POLLIN;
}

void splice_stop(struct splice *p)
{
	if (p->sink >= 0 && p->sink != p->to)
		(void)close(p->sink);
	if (p->own_from && p->from >= 0)
		(void)close(p->from);
	if (p->own_to && p->to >= 0)
		(void)close(p->to);
	p->from = p->to = p->sink = -1;
	p->state = PUMP_DONE;
}

void splice_done(struct splice *p)
{
	splice_stop(p);
	buf_done(&p->data);
}

static void sink_failed(struct splice *p, int code)
{
	p->error = code;
	splice_stop(p);
}

/* Open the file behind @fd again with other flags; -1 if that is not possible. */
static int open_anew(int fd)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static void start_copy(struct splice *p)
{
	struct stat st = { 0 };
	int flags;

	p->way = PUMP_COPY;
	p->sink = p->to;
	p->chunk = COPY_SIZE;
	p->data.max = COPY_SIZE + 1;
	if (p->own_to) {
		flags = fcntl(p->to, F_GETFL);
		if (flags >= 0)
			(void)fcntl(p->to, F_SETFL, flags | O_NONBLOCK);
		return;
	}
	(void)fstat(p->to, &st);
	p->socket = S_ISSOCK(st.st_mode);
	if (p->socket || S_ISREG(st.st_mode))
		return;
	p->sink = open_anew(p->to);
	if (p->sink < 0) {
		p->sink = p->to;
		p->chunk = PIPE_BUF; /* the size that fits when poll(2) reports space */
	}
}

static void splice_decide(struct splice *p)
{
	struct stat st = { 0 };

	/* If it is not a pipe of this process, splice(2) reports it. */
	if (p->own_to ||
	    (fstat(p->to, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode) ||
					st.st_rdev == makedev(1, 3))))
		p->way = PUMP_SPLICE;
	else
		start_copy(p);
}

static void step_splice(struct splice *p)
{
	/* Only a pipe that this process has opened is certain not to block. */
	unsigned rounds = p->own_from ? ROUNDS : 1;

	for (unsigned i = 0; i < rounds; i++) {
		ssize_t n = splice(p->from, NULL, p->to, NULL, SPLICE_SIZE,
				   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

		if (n > 0) {
			p->state = PUMP_WAIT_IN;
		} else if (n == 0) {
			splice_stop(p);
			return;
		} else if (errno == EAGAIN) {
			/* This end was not full or empty, so the other one was. */
			p->state = i == 0 && p->state == PUMP_WAIT_IN ? PUMP_WAIT_OUT
								      : PUMP_WAIT_IN;
			return;
		} else if (errno == EINVAL) {
			/* One end was opened for appending, or neither is a pipe. */
			start_copy(p);
			return;
		} else if (errno != EINTR) {
			sink_failed(p, errno);
			return;
		}
	}
}

/* Return false if there is nothing to write: the stream has ended, or has no data yet. */
static bool splice_copy_in(struct splice *p)
{
	char *room = buf_reserve(&p->data, COPY_SIZE);
	ssize_t n;

	if (!room) {
		sink_failed(p, ENOMEM);
		return false;
	}
	n = read(p->from, room, COPY_SIZE);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) { /* EIO is the end of a terminal whose other side was closed */
		splice_stop(p);
		return false;
	}
	p->data.len = (size_t)n;
	p->start = 0;
	return true;
}

static ssize_t splice_copy_out(const struct splice *p)
{
	const char *data = p->data.data + p->start;
	size_t n = p->data.len - p->start;

	if (n > p->chunk)
		n = p->chunk;
	return p->socket ? send(p->sink, data, n, MSG_DONTWAIT | MSG_NOSIGNAL)
			 : write(p->sink, data, n);
}

static void step_copy(struct splice *p)
{
	ssize_t n;

	if (p->sink < 0)
		start_copy(p);
	if (p->state == PUMP_WAIT_IN) {
		if (!splice_copy_in(p))
			return;
		p->state = PUMP_WAIT_OUT;
		if (p->chunk < COPY_SIZE) /* only poll(2) knows whether it would block */
			return;
	}
	n = splice_copy_out(p);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		sink_failed(p, errno);
		return;
	}
	p->start += (size_t)n;
	if (p->start == p->data.len) {
		p->data.len = 0;
		p->state = PUMP_WAIT_IN;
	}
}

void splice_keep(struct splice *p, const void *data, size_t n)
{
	size_t keep = p->data.max - p->data.len;

	if (keep > n)
		keep = n;
	buf_add(&p->data, data, keep);
	if (p->data.failed) { /* count the rest without keeping it */
		p->data.failed = false;
		p->data.max = p->data.len;
		keep = 0;
	}
	p->lost += n - keep;
}

static void step_capture(struct splice *p)
{
	char piece[COPY_SIZE];
	ssize_t n = read(p->from, piece, sizeof(piece));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		splice_stop(p);
		return;
	}
	splice_keep(p, piece, (size_t)n);
}

void splice_step(struct splice *p, short revents)
{
	if (p->state == PUMP_DONE)
		return;
	/* The stream ended without data, so the destination is not checked. */
	if (p->state == PUMP_WAIT_IN && (revents & (POLLIN | POLLHUP)) == POLLHUP) {
		splice_stop(p);
		return;
	}
	if (p->way == PUMP_UNDECIDED)
		splice_decide(p);
	switch (p->way) {
	case PUMP_SPLICE:
		step_splice(p);
		break;
	case PUMP_COPY:
		step_copy(p);
		break;
	case PUMP_CAPTURE:
		step_capture(p);
		break;
	case PUMP_UNDECIDED:
		break;
	}
}
