/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait_tool.c - wait for a process of a platform
 *
 * The process may use the time limit of one step; if it moves bytes, the time starts
 * again with each byte. Its messages do not extend the time, and only the last part of
 * them is kept. So a tool that hangs, or one that prints without end, neither blocks the
 * caller nor fills its memory. The wait ends with the process, not with its streams,
 * because a process that it deliberately left running may have inherited them.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"
#include "shim/core/file_copy.h"

/* Return the sum of the positions of both files, which are shared with the process. */
static off_t wait_tool_position(int in, int out)
{
	off_t a = in >= 0 ? lseek(in, 0, SEEK_CUR) : 0;
	off_t b = out >= 0 ? lseek(out, 0, SEEK_CUR) : 0;

	return (a > 0 ? a : 0) + (b > 0 ? b : 0);
}

/* Return false if there is no more. */
static bool wait_tool_hear(int fd, struct buf *said)
{
	char piece[4096];
	ssize_t n = read(fd, piece, sizeof(piece));

	if (n <= 0)
		return n < 0 && (errno == EINTR || errno == EAGAIN);
	if (said->len + (size_t)n > said->max / 2)
		said->len = 0; /* only the last part is kept */
	buf_add(said, piece, (size_t)n);
	return true;
}

/* Read the output that was written before it ended: at most a pipe's capacity, even if
 * other processes still write. */
static void hear_rest(int fd, struct buf *said)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	for (int i = 0;
	     i < 16 && fd >= 0 && poll(&p, 1, 0) > 0 && wait_tool_hear(fd, said); i++)
		;
}

int shim_sandbox_await(pid_t pid, int secs, int said_fd, struct buf *said, int in,
		       int out)
{
	AUTO_CLOSE int fd = pidfd_open(pid, 0);
	uint64_t patience = (uint64_t)secs * 1000000000;
	uint64_t until = clock_now() + patience;
	uint64_t signed_at = clock_now();
	off_t at = wait_tool_position(in, out);
	int status = 0, r = fd < 0 ? -errno : 0;

	for (struct pollfd p[2] = { { .fd = fd, .events = POLLIN },
				    { .fd = said_fd, .events = POLLIN } };
	     r == 0 && !p[0].revents;) {
		uint64_t t = clock_now();
		off_t now_at = wait_tool_position(in, out);
		uint64_t left;

		if (now_at != at) {
			at = now_at;
			until = t + patience;
		}
		left = until > t ? (until - t) / 1000000 + 1 : 0;
		if (left == 0)
			r = -ETIMEDOUT;
		else
			(void)poll(p, 2,
				   spool_wait_ms(left < WORK_SIGN_MS ? (int)left
								     : WORK_SIGN_MS));
		spool_guard();
		if (t - signed_at >= WORK_SIGN_MS * 1000000ULL) {
			work_sign();
			signed_at = t;
		}
		if (r == 0 && p[1].revents && !wait_tool_hear(said_fd, said))
			p[1].fd = -1;
	}
	if (r < 0) {
		(void)kill(-pid, SIGKILL);
		(void)kill(pid, SIGKILL);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	hear_rest(said_fd, said);
	return r < 0 ? r : status;
}
