/* SPDX-License-Identifier: Apache-2.0 */
/* files_child.c - start the child, map its ids, give it directories, read its report */
#include "backend/native/files_child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"
#include "os/mount.h"
#include "os/ns.h"

/* ------------------------------------------------------------- the child's side */

/* The numbers of the child's descriptors; all others are closed. */
enum {
	FILES_CHILD_CONTROL = 3,
	FILES_CHILD_FIRST,
	FILES_CHILD_END = FILES_CHILD_FIRST + FILES_CHILD_FDS_MAX,
};

static int files_child_become_root(struct warren_error *err)
{
	/* -EPERM: the one-id map of an ordinary user forbids it. */
	if (syscall(SYS_setgroups, 0, NULL) < 0 && errno != EPERM)
		return error_errno(err, errno, "setgroups");
	if (syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
		return error_errno(err, errno, "become root of the user namespace");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return error_errno(err, errno, "prctl");
	return 0;
}

/* First move all of them to numbers above those that they get. */
static int files_child_place(int control, const struct files_child_task *task)
{
	int high[1 + FILES_CHILD_FDS_MAX];

	for (size_t i = 0; i <= task->n_fds; i++) {
		high[i] = fcntl(i ? task->fds[i - 1] : control, F_DUPFD_CLOEXEC,
				FILES_CHILD_END);
		if (high[i] < 0)
			return -errno;
	}
	for (size_t i = 0; i <= task->n_fds; i++)
		if (dup2(high[i], FILES_CHILD_CONTROL + (int)i) < 0)
			return -errno;
	return close_range(FILES_CHILD_CONTROL + 1 + (unsigned)task->n_fds, ~0U, 0) < 0
		       ? -errno
		       : 0;
}

/*
 * The first message says that the ids are mapped, and contains the directories. The
 * second one says to begin.
 */
static int files_child_await(int *dirs, size_t n_dirs, struct warren_error *err)
{
	size_t n_fds = n_dirs;
	char byte;
	ssize_t n = fd_recv(FILES_CHILD_CONTROL, &byte, 1, dirs, &n_fds, 0);

	if (n == 1 && n_fds != n_dirs)
		n = -EPROTO;
	return n == 1 ? 0 : error_errno(err, n < 0 ? (int)-n : EPIPE, "wait to begin");
}

_Noreturn static void files_child_main(int control, const struct files_child_task *task)
{
	static const int fds[FILES_CHILD_FDS_MAX] = { FILES_CHILD_FIRST,
						      FILES_CHILD_FIRST + 1,
						      FILES_CHILD_FIRST + 2,
						      FILES_CHILD_FIRST + 3 };
	struct files_child_report report = { .err = WARREN_ERROR_INIT };
	int dirs[FILES_CHILD_DIRS_MAX], r;

	if (files_child_place(control, task) < 0)
		_exit(1);
	r = files_child_await(dirs, task->n_dirs, &report.err);
	if (r == 0)
		r = files_child_become_root(&report.err);
	if (r == 0)
		r = files_child_await(NULL, 0, &report.err);
	if (r == 0)
		r = task->run(task, fds, dirs, &report);
	if (r == 0)
		report.err = (struct warren_error)WARREN_ERROR_INIT;
	(void)fd_send(FILES_CHILD_CONTROL, &report, sizeof(report), NULL, 0);
	_exit(0);
}

/* ---------------------------------------------------------------- our own side */

void files_child_done(struct files_child *c)
{
	siginfo_t info;

	if (c->pidfd >= 0) {
		(void)pidfd_send_signal(c->pidfd, SIGKILL, NULL, 0);
		/* -ECHILD: SIGCHLD is ignored, as in the warden. */
		while (waitid(P_PIDFD, (id_t)c->pidfd, &info, WEXITED) < 0 &&
		       errno == EINTR)
			;
		(void)close(c->pidfd);
	}
	if (c->control >= 0)
		(void)close(c->control);
	*c = FILES_CHILD_NONE;
}

/* Get mounts of the directories, with the ids of the sandbox. */
static int files_child_map(pid_t pid, const struct files_child_task *task,
			   int mapped[FILES_CHILD_DIRS_MAX], struct warren_error *err)
{
	const uint64_t attr = MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
	AUTO_CLOSE int userns = task->n_dirs ? ns_open(pid, "user") : -1;
	int r = 0;

	if (task->n_dirs && userns < 0)
		return error_errno(err, -userns, "open the user namespace");
	for (size_t i = 0; r == 0 && i < task->n_dirs; i++)
		r = mount_copy(task->dirs[i], "", false, attr, userns, &mapped[i], err);
	return r;
}

/* Map the child's ids, and give it the directories. */
static int files_child_admit(const struct native_sandbox *sandbox, pid_t pid, int control,
			     const struct files_child_task *task,
			     struct warren_error *err)
{
	const struct native *n = sandbox->engine;
	int mapped[FILES_CHILD_DIRS_MAX] = { -1, -1, -1, -1, -1, -1, -1, -1 };
	struct ns_maps maps;
	int r;

	idmap_sandbox(n, sandbox, &maps);
	r = ns_write_maps(pid, &maps, n->privileged, err);
	if (r == 0 && n->privileged)
		r = files_child_map(pid, task, mapped, err);
	if (r == 0) {
		r = fd_send(control, "", 1, n->privileged ? mapped : task->dirs,
			    task->n_dirs);
		if (r < 0)
			(void)error_errno(err, -r, "send the directories");
	}
	for (size_t i = 0; i < ARRAY_SIZE(mapped); i++)
		if (mapped[i] >= 0)
			(void)close(mapped[i]);
	return r < 0 ? r : 0;
}

int files_child_start(const struct native_sandbox *sandbox,
		      const struct files_child_task *task, struct files_child *ret,
		      struct warren_error *err)
{
	int pair[2], pidfd = -1;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_errno(err, errno, "create a connection");
	pid = ns_clone(CLONE_NEWUSER | CLONE_CLEAR_SIGHAND, NS_CGROUP_SAME, &pidfd);
	if (pid == 0) {
		(void)close(pair[0]);
		files_child_main(pair[1], task);
	}
	(void)close(pair[1]);
	*ret = (struct files_child){ .pidfd = pid < 0 ? -1 : pidfd, .control = pair[0] };
	if (pid < 0)
		return error_errno(err, -pid, "start a process for the files");
	return files_child_admit(sandbox, pid, pair[0], task, err);
}

/* Wait for the report, or until a limit is reached. */
static int files_child_wait(const struct files_child *c,
			    const struct files_child_limits *limits,
			    struct warren_error *err)
{
	const uint64_t end = clock_now() + limits->seconds * UINT64_C(1000000000);
	struct pollfd p[] = { { .fd = c->control, .events = POLLIN },
			      { .fd = limits->cancel > 0 ? limits->cancel : -1,
				.events = POLLIN } };
	int n;

	do {
		uint64_t now = clock_now();
		int ms = now >= end ? 0 : (int)((end - now) / 1000000 + 1);

		n = poll(p, ARRAY_SIZE(p), limits->seconds ? ms : -1);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return error_errno(err, errno, "wait for the process for the files");
	if (p[0].revents)
		return 0;
	if (p[1].revents)
		return error_set(err, ECANCELED, "no client waits for it any more");
	return error_set(err, ETIMEDOUT, "it took more than %u seconds", limits->seconds);
}

int files_child_run(const struct files_child *c, const struct files_child_limits *limits,
		    struct files_child_report *ret, struct warren_error *err)
{
	size_t n_fds = 0;
	ssize_t n;
	int r = fd_send(c->control, "", 1, NULL, 0);

	if (r < 0)
		return error_errno(err, -r, "begin");
	r = limits ? files_child_wait(c, limits, err) : 0;
	if (r < 0)
		return r;
	n = fd_recv(c->control, ret, sizeof(*ret), NULL, &n_fds, 0);
	if (n != (ssize_t)sizeof(*ret))
		return error_set(err, EIO, "the process for the files has ended");
	ret->err.msg[sizeof(ret->err.msg) - 1] = '\0';
	if (ret->err.code) {
		*err = ret->err;
		return -err->code;
	}
	return 0;
}
