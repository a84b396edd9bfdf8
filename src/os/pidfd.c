/* SPDX-License-Identifier: Apache-2.0 */
/* pidfd.c - the end of a process that is known by a descriptor */
#include "os/pidfd.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"

#define AGAIN_MS 100

/* 1: it is gone; 0: not within @ms. An error of poll(2) says nothing about it. */
static bool has_ended(int pidfd, unsigned ms)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	int r = poll(&p, 1, (int)ms);

	if (r < 0)
		(void)nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	return r > 0;
}

int pidfd_end(int pidfd, unsigned ms)
{
	uint64_t deadline = clock_now() + ms * 1000000ULL;
	siginfo_t info = { 0 };
	int r;

	do {
		r = pidfd_send_signal(pidfd, SIGKILL, NULL, 0) < 0 ? -errno : 0;
		if (has_ended(pidfd, AGAIN_MS)) {
			while (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) < 0 &&
			       errno == EINTR)
				;
			return 0;
		}
	} while (clock_now() < deadline);
	return r == -EPERM ? r : -EBUSY;
}
