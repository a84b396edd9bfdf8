/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_pull.c - run warren-image as a child: show its progress, forward signals, get its
 * result
 */
#include "cli/run_pull.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/libexec.h"
#include "cli/command.h"
#include "cli/exec_helper.h"
#include "cli/run_signal.h"

#define SAID_BY "warren image pull: "

struct pull {
	pid_t pid;
	int pidfd;  /* -1 */
	int words;  /* its stderr, if it is captured; -1: it is not */
	int signal; /* the signal that was received; 0: none */
	int status; /* the status from waitpid(2) */
	size_t len;
	char said[sizeof((struct warren_error){ 0 }.msg)];
};

bool run_pull_first(const struct run_options *o)
{
	return run_options_stored(o) &&
	       (o->pull == PULL_ALWAYS || (o->pull == PULL_MISSING && o->platform));
}

bool run_pull_after(const struct run_options *o, int code)
{
	return run_options_stored(o) && o->pull == PULL_MISSING && !o->platform &&
	       code == -ENOENT;
}

/* Should the pull be silent? Progress is for people; a program that requested JSON gets
 * at most one error. */
static bool in_silence(const struct run_options *o)
{
	return o->quiet || o->json;
}

static int run_pull_spawn(struct pull *p, const char *path, const char *const *argv,
			  int words)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none;
	int r;

	(void)sigemptyset(&none);
	if (posix_spawn_file_actions_init(&actions) != 0)
		return -ENOMEM;
	if (posix_spawnattr_init(&attr) != 0) {
		(void)posix_spawn_file_actions_destroy(&actions);
		return -ENOMEM;
	}
	r = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
					     O_RDONLY, 0);
	/* Redirect stdout, because it belongs to the command. */
	if (r == 0)
		r = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null",
						     O_WRONLY, 0);
	if (r == 0 && words >= 0)
		r = posix_spawn_file_actions_adddup2(&actions, words, STDERR_FILENO);
	if (r == 0)
		r = posix_spawnattr_setsigmask(&attr, &none);
	if (r == 0)
		r = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	if (r == 0)
		r = posix_spawn(&p->pid, path, &actions, &attr,
				(char *const *)(uintptr_t)argv, environ);
	(void)posix_spawnattr_destroy(&attr);
	(void)posix_spawn_file_actions_destroy(&actions);
	return -r;
}

static int run_pull_start(struct pull *p, const struct run_options *o,
			  struct warren_error *err)
{
	const char *argv[11] = { "warren-image", "pull" };
	AUTO_CLOSE int end = -1;
	char path[PATH_MAX];
	size_t n = 2;
	int fds[2], r = libexec_find("warren-image", path, err);

	if (r < 0)
		return r;
	if (o->pull == PULL_MISSING)
		argv[n++] = "--missing";
	if (in_silence(o))
		argv[n++] = "--quiet";
	if (o->image_of_project)
		argv[n++] = "--for-project";
	if (o->platform) {
		argv[n++] = "--platform";
		argv[n++] = o->platform;
	}
	argv[n++] = "--";
	argv[n++] = o->image;
	if (in_silence(o)) {
		if (pipe2(fds, O_CLOEXEC) < 0)
			return error_errno(err, errno, "create a pipe");
		p->words = fds[0];
		end = fds[1];
	}
	r = run_pull_spawn(p, path, argv, end);
	if (r < 0)
		return error_errno(err, -r, "start %s", path);
	p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	return 0;
}

/* Read all messages of the child, so that it never has to wait, but keep only the
 * beginning. */
static void listen_to(struct pull *p)
{
	char dropped[256];
	bool full = p->len + 1 >= sizeof(p->said);
	ssize_t n = full ? read(p->words, dropped, sizeof(dropped))
			 : read(p->words, p->said + p->len, sizeof(p->said) - 1 - p->len);

	if (n > 0 && !full)
		p->len += (size_t)n;
	if (n == 0 || (n < 0 && errno != EINTR))
		(void)close(TAKE_FD(p->words));
}

static void run_pull_attend(struct pull *p, int signals)
{
	while (p->pidfd >= 0) {
		struct pollfd fds[] = { { .fd = p->pidfd, .events = POLLIN },
					{ .fd = signals, .events = POLLIN },
					{ .fd = p->words, .events = POLLIN } };

		if (poll(fds, ARRAY_SIZE(fds), -1) < 0)
			continue; /* only a signal that is not blocked */
		if (fds[1].revents) {
			int sig = signals_next(signals);

			if (sig > 0 && signal_ends(sig)) {
				p->signal = sig;
				(void)kill(p->pid, SIGTERM);
			}
		}
		if (fds[2].revents)
			listen_to(p);
		if (fds[0].revents && !fds[2].revents)
			break;
	}
	while (waitpid(p->pid, &p->status, 0) < 0 && errno == EINTR)
		;
}

static int run_pull_failed(const struct run_options *o, struct pull *p,
			   struct warren_error *err)
{
	const char *said = p->said;

	p->said[strcspn(p->said, "\n")] = '\0';
	if (strncmp(said, SAID_BY, strlen(SAID_BY)) == 0)
		said += strlen(SAID_BY);
	if (*said)
		return error_set(err, EIO, "%s", said);
	if (WIFSIGNALED(p->status))
		return error_set(err, EIO,
				 "pull '%s': warren-image was ended by signal %d",
				 o->image, WTERMSIG(p->status));
	if (in_silence(o))
		return error_set(err, EIO,
				 "pull '%s': warren-image failed with status %d",
				 o->image, WEXITSTATUS(p->status));
	/* The child has printed the reason. */
	*err = (struct warren_error){ .code = EIO };
	return -EIO;
}

int run_pull(const struct run_options *o, int signals, struct warren_error *err)
{
	struct pull p = { .pidfd = -1, .words = -1 };
	int r = run_pull_start(&p, o, err);

	if (r == 0)
		run_pull_attend(&p, signals);
	if (p.pidfd >= 0)
		(void)close(p.pidfd);
	if (p.words >= 0)
		(void)close(p.words);
	if (r < 0)
		return r;
	if (p.signal)
		return p.signal;
	return WIFEXITED(p.status) && WEXITSTATUS(p.status) == 0
		       ? 0
		       : run_pull_failed(o, &p, err);
}
