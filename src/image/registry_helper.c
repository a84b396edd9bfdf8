/* SPDX-License-Identifier: Apache-2.0 */
/* registry_helper.c - run a credential helper without a shell, with limits on its time
 * and output */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "image/registry_auth.h"

#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
#define REAP_MS    10
#define WATCH_MS   100

/*
 * Start a program in its own process group, with @in and @out as its streams and default
 * signals.
 */
static int registry_helper_start(const char *program, const char *verb, int in, int out,
				 pid_t *ret_pid)
{
	char *argv[] = { (char *)(uintptr_t)program, (char *)(uintptr_t)verb, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int code;

	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawnattr_init(&attr);
	(void)posix_spawnattr_setsigmask(&attr, &none);
	(void)posix_spawnattr_setsigdefault(&attr, &all);
	(void)posix_spawnattr_setpgroup(&attr, 0);
	(void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP |
						      POSIX_SPAWN_SETSIGMASK |
						      POSIX_SPAWN_SETSIGDEF);
	code = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
	if (code == 0)
		code = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	if (code == 0)
		code = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO,
							"/dev/null", O_WRONLY, 0);
	if (code == 0)
		code = posix_spawnp(ret_pid, program, &actions, &attr, argv, environ);
	(void)posix_spawn_file_actions_destroy(&actions);
	(void)posix_spawnattr_destroy(&attr);
	return -code;
}

static int ms_left(uint64_t deadline)
{
	uint64_t now = clock_now();

	return now < deadline ? (int)((deadline - now) / 1000000 + 1) : 0;
}

/* Read to the end of @fd, unless this takes too long, there is too much data, or it is
 * cancelled. */
static int registry_helper_read_output(int fd, const struct helper_watch *watch,
				       struct buf *out, uint64_t deadline)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int left = ms_left(deadline);
		char part[4096];
		ssize_t n;

		if (left == 0)
			return -ETIMEDOUT;
		if (watch->cancelled(watch->ctx))
			return -ECANCELED;
		if (poll(&p, 1, left < WATCH_MS ? left : WATCH_MS) <= 0)
			continue;
		n = read(fd, part, sizeof(part));
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		buf_add(out, part, (size_t)n);
		if (out->failed)
			return -EFBIG;
	}
}

/* Return the exit status; -1: the process was killed by a signal, or at the deadline. */
static int registry_helper_reap(pid_t pid, uint64_t deadline)
{
	int status = 0;
	pid_t r = 0;

	while (ms_left(deadline) > 0) {
		r = waitpid(pid, &status, WNOHANG);
		if (r != 0 && !(r < 0 && errno == EINTR))
			break;
		(void)poll(NULL, 0, REAP_MS);
	}
	if (r == 0) {
		(void)kill(-pid, SIGKILL);
		do
			r = waitpid(pid, &status, 0);
		while (r < 0 && errno == EINTR);
	}
	return r == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int helper_call(const char *name, const char *verb, const char *input,
		const struct helper_watch *watch, char **ret_output,
		struct warren_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(HELPER_OUTPUT_MAX);
	uint64_t deadline = clock_now() + HELPER_TIMEOUT_MS * 1000000ULL;
	int in[2] = { -1, -1 }, from[2] = { -1, -1 };
	char program[128];
	pid_t pid = 0;
	int code, status = -1;

	if (!*name || strlen(name) > 64 || strspn(name, NAME_CHARS) != strlen(name))
		return error_set(err, EINVAL,
				 "'%.64s' is not the name of a credential helper", name);
	(void)snprintf(program, sizeof(program), "docker-credential-%s", name);
	if (strlen(input) > HELPER_INPUT_MAX)
		return error_errno(err, EFBIG, "%s", program);
	if (pipe2(in, O_CLOEXEC) < 0)
		return error_errno(err, errno, "%s", program);
	/* The input fits into the pipe, whether the helper reads it or not. */
	code = fd_write_all(in[1], input, strlen(input));
	(void)close(in[1]);
	if (code == 0 && pipe2(from, O_CLOEXEC) < 0)
		code = -errno;
	if (code == 0)
		code = registry_helper_start(program, verb, in[0], from[1], &pid);
	(void)close(in[0]);
	close_p(&from[1]);
	if (code == 0) {
		code = registry_helper_read_output(from[0], watch, &out, deadline);
		status = registry_helper_reap(pid, code < 0 ? 0 : deadline);
	}
	close_p(&from[0]);
	if (code < 0)
		return error_errno(err, -code, "%s", program);
	buf_add(&out, "", 1);
	if (out.failed)
		return error_errno(err, EFBIG, "%s", program);
	*ret_output = TAKE_PTR(out.data);
	return status == 0 ? 0 : 1;
}
