/* SPDX-License-Identifier: Apache-2.0 */
/* pidfd.c - end a process that is known by a descriptor */
#include "os/pidfd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/fd.h"

#define AGAIN_MS     100
#define FLAG_EXITING 4U /* PF_EXITING, a flag in /proc/PID/stat */

/* Does the process end within @ms? If poll(2) fails, return false. */
static bool pidfd_has_ended(int pidfd, unsigned ms)
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
		if (pidfd_has_ended(pidfd, AGAIN_MS)) {
			while (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) < 0 &&
			       errno == EINTR)
				;
			return 0;
		}
	} while (clock_now() < deadline);
	return r == -EPERM ? r : -EBUSY;
}

bool proc_is_ending(int dir)
{
	char text[512], *at;
	unsigned flags = 0;
	char state = 'X';
	ssize_t n;
	AUTO_CLOSE int fd = dir < 0 ? -1 : openat(dir, "stat", O_RDONLY | O_CLOEXEC);

	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	at = strrchr(text, ')');
	if (!at || sscanf(at + 1, " %c %*d %*d %*d %*d %*d %u", &state, &flags) != 2)
		return true; /* the process is gone */
	return state == 'Z' || state == 'X' || flags & FLAG_EXITING;
}
