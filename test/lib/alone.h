/* SPDX-License-Identifier: Apache-2.0 */
/* alone.h - separate processes, mounts and a /proc for one test */
#ifndef TEST_ALONE_H
#define TEST_ALONE_H

#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "lib/tap.h"

/*
 * Return twice: 0 in a child that is pid 1 of the new namespace, and the child's number
 * in this process; or -errno if this is not allowed.
 */
static inline pid_t alone_fork(void)
{
	pid_t pid;

	(void)fflush(stdout);
	if (unshare(CLONE_NEWPID) < 0)
		return -errno;
	pid = fork();
	OK(pid >= 0);
	if (pid > 0)
		return pid;
	EQ(getpid(), 1);
	EQ(unshare(CLONE_NEWNS), 0);
	EQ(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	EQ(mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), 0);
	return 0;
}

/* The result of the child becomes the result of this process. */
__attribute__((noreturn)) static inline void alone_end(int status)
{
	if (WIFSIGNALED(status))
		TAP_FAIL("killed by signal %d", WTERMSIG(status));
	exit(WEXITSTATUS(status));
}

#endif
