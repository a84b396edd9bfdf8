/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local_procs.c - kill processes in the shim's pid namespace by their environment
 *
 * The directory of a process in /proc stays open while its environment is read, and the
 * process is killed by a pidfd, so that no other process with the same number is killed.
 */
#include "shim/core/local_procs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

/* The maximum that the kernel accepts without other limits. */
#define ENVIRONMENT_MAX (2U << 20)
#define LOOK_MS         1

/* Is @variable one of the NUL-terminated strings at @data? */
static bool local_procs_lists(const char *data, size_t n, const char *variable)
{
	size_t size = strlen(variable) + 1;
	const char *at = data, *end = data + n;

	while ((at = memmem(at, (size_t)(end - at), variable, size))) {
		if (at == data || at[-1] == '\0')
			return true;
		at++;
	}
	return false;
}

enum local_procs_seen {
	SEEN_NONE,
	SEEN_ENDED, /* one ended since it was listed; it may have forked */
	SEEN_MARKED,
};

static enum local_procs_seen local_procs_judge(int proc, const char *pid,
					       const char *variable, char *data)
{
	AUTO_CLOSE int dir = openat(proc, pid, O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSE int fd = dir < 0 ? -1 : openat(dir, "environ", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -errno : fd_read_all(fd, data, ENVIRONMENT_MAX);

	if (n == -ENOENT || n == -ESRCH)
		return SEEN_ENDED;
	return n > 0 && local_procs_lists(data, (size_t)n, variable) ? SEEN_MARKED
								     : SEEN_NONE;
}

/* Visit all processes once. A dead process has no environment. */
static enum local_procs_seen local_procs_pass(DIR *proc, const char *variable, char *data)
{
	enum local_procs_seen most = SEEN_NONE;
	const struct dirent *e;

	rewinddir(proc);
	while ((e = readdir(proc))) {
		AUTO_CLOSE int fd = -1;
		long pid = strtol(e->d_name, NULL, 10);
		enum local_procs_seen seen;

		if (pid <= 1 || pid == getpid())
			continue;
		/*
		 * Open the pidfd first: if the process has the mark after that, it is the
		 * right one.
		 */
		fd = pidfd_open((pid_t)pid, 0);
		seen = fd < 0 ? SEEN_ENDED
			      : local_procs_judge(dirfd(proc), e->d_name, variable, data);
		if (seen == SEEN_MARKED)
			(void)pidfd_send_signal(fd, SIGKILL, NULL, 0);
		if (seen > most)
			most = seen;
	}
	return most;
}

int local_procs_kill(const char *variable, unsigned ms)
{
	const struct timespec moment = { .tv_nsec = LOOK_MS * 1000000L };
	uint64_t until = clock_now() + (uint64_t)ms * 1000000;
	AUTO_FREE char *data = malloc(ENVIRONMENT_MAX);
	enum local_procs_seen seen = SEEN_MARKED;
	DIR *proc = opendir("/proc");

	/*
	 * A process that is forked during a pass may be missed, so two passes must find
	 * none.
	 */
	for (int quiet = 0; data && proc && quiet < 2 && clock_now() < until;) {
		seen = local_procs_pass(proc, variable, data);
		quiet = seen == SEEN_NONE ? quiet + 1 : 0;
		if (seen != SEEN_NONE)
			(void)nanosleep(&moment, NULL);
	}
	if (proc)
		(void)closedir(proc);
	if (!data || !proc)
		return -ENOMEM;
	return seen == SEEN_MARKED ? -ETIMEDOUT : 0;
}
