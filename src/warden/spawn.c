/* SPDX-License-Identifier: Apache-2.0 */
/* spawn.c - start a program that the warden does not wait for */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>

#include "warden/internal.h"

static int spawn_put_fds(posix_spawn_file_actions_t *actions, const struct warden_fd *fds,
			 size_t n)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = fds[i].fd < 0 ? posix_spawn_file_actions_addopen(
					    actions, fds[i].as, "/dev/null", O_RDWR, 0)
				  : posix_spawn_file_actions_adddup2(actions, fds[i].fd,
								     fds[i].as);
	return r;
}

int warden_spawn(const char *program, const char *const *argv, const char *const *env,
		 const struct warden_fd *fds, size_t n, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, usual;
	pid_t pid;
	int r;

	/*
	 * The program waits for its children, so it needs the default action of SIGCHLD.
	 * No signal is blocked, so that it can be ended.
	 */
	(void)sigemptyset(&none);
	(void)sigemptyset(&usual);
	(void)sigaddset(&usual, SIGCHLD);
	(void)sigaddset(&usual, SIGPIPE);
	if (posix_spawn_file_actions_init(&actions) != 0)
		return -ENOMEM;
	if (posix_spawnattr_init(&attr) != 0) {
		(void)posix_spawn_file_actions_destroy(&actions);
		return -ENOMEM;
	}
	r = spawn_put_fds(&actions, fds, n);
	if (r == 0)
		r = posix_spawnattr_setsigmask(&attr, &none);
	if (r == 0)
		r = posix_spawnattr_setsigdefault(&attr, &usual);
	if (r == 0)
		r = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK |
							    POSIX_SPAWN_SETSIGDEF);
	if (r == 0)
		r = posix_spawn(&pid, program, &actions, &attr,
				(char *const *)(uintptr_t)argv,
				env ? (char *const *)(uintptr_t)env : environ);
	if (r == 0 && ret_pid)
		*ret_pid = pid;
	(void)posix_spawnattr_destroy(&attr);
	(void)posix_spawn_file_actions_destroy(&actions);
	return -r;
}

int warden_pipe(int *ret_in, int *ret_out, struct warren_error *err)
{
	int ends[2], high;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_errno(err, errno, "create a pipe");
	*ret_in = ends[0];
	*ret_out = ends[1];
	high = fcntl(ends[1], F_DUPFD_CLOEXEC, WARDEN_FD_MAX + 1);
	if (high < 0)
		return error_errno(err, errno, "create a pipe");
	(void)close(ends[1]);
	*ret_out = high;
	return 0;
}
