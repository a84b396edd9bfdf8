/* SPDX-License-Identifier: Apache-2.0 */
/* remove_behind.c - remove a tree without waiting long: on some filesystems it takes
 * minutes */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macro.h"
#include "work/files_internal.h"
#include "work/reach.h"

/* Keeps nothing of the caller open: neither its terminal nor its locks. */
_Noreturn static void remove_behind_child(int dir, int done, const char *name)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)setsid();
	dir = fcntl(dir, F_DUPFD, 10);
	done = fcntl(done, F_DUPFD, 11);
	if (dir < 0 || done < 0 || null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 ||
	    dup2(null, 2) < 0 || dup2(dir, 3) < 0 || dup2(done, 4) < 0)
		_exit(1);
	/* Before the caller goes on: it may release a lock. */
	(void)close_range(5, ~0U, 0);
	if (fork() != 0)
		_exit(0);
	_exit(reach_remove(3, name) < 0);
}

void remove_behind(int dir, const char *name, int ms)
{
	int ends[2], status;
	struct pollfd p;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0) {
		(void)reach_remove(dir, name);
		return;
	}
	pid = fork();
	if (pid == 0)
		remove_behind_child(dir, ends[1], name);
	(void)close(ends[1]);
	if (pid < 0)
		(void)reach_remove(dir, name);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	p = (struct pollfd){ .fd = ends[0], .events = POLLIN };
	if (pid > 0)
		(void)poll(&p, 1, ms);
	(void)close(ends[0]);
}
