/* SPDX-License-Identifier: Apache-2.0 */
/* test-ns.c - a child with a copy of the parent's memory, and one that shares it */
#include "os/ns.h"

#include <errno.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/tap.h"

static int status_of(const struct ns_child *child)
{
	siginfo_t info = { 0 };

	OK(child->pid > 0 && child->pidfd >= 0);
	EQ(waitid(P_PIDFD, (id_t)child->pidfd, &info, WEXITED), 0);
	(void)close(child->pidfd);
	EQ(info.si_pid, child->pid);
	return info.si_status;
}

TEST(a_forked_child_does_not_change_the_parents_memory)
{
	struct ns_child child = { .pidfd = -1 };
	volatile int seen = 0;

	EQ(ns_clone_as(geteuid(), 0, NS_CGROUP_SAME, &child), 0);
	if (child.pid == 0) {
		seen = 1;
		_exit(7);
	}
	EQ(status_of(&child), 7);
	EQ(seen, 0);
}

struct seen {
	struct ns_child *child;
	pid_t pid;
	int fd;
};

static void look(void *ctx)
{
	struct seen *s = ctx;

	s->pid = s->child->pid;
	(void)close(s->fd); /* closes its own copy of the descriptor */
	_exit(7);
}

/* The child ran to its end before the parent continued, and had the parent's data. */
TEST(a_child_can_share_the_parents_memory)
{
	struct seen seen = { .fd = dup(STDERR_FILENO) };
	struct ns_child child = { .pidfd = -1, .run = look, .ctx = &seen };

	seen.child = &child;
	EQ(ns_clone_as(geteuid(), 0, NS_CGROUP_SAME, &child), 0);
	OK(seen.pid > 0);
	EQ(seen.pid, child.pid);
	EQ(status_of(&child), 7);
	EQ(close(seen.fd), 0);
}

TEST(impossible_requests_are_errors)
{
	struct ns_child child = { .pidfd = -1, .run = look };

	EQ(ns_clone_as(geteuid(), CLONE_FS | CLONE_NEWNS, NS_CGROUP_SAME, &child),
	   -EINVAL);
	EQ(child.pidfd, -1);
}

TEST_MAIN()
