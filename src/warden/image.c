/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.c - images are the business of a program of its own, which we start
 *
 * What it prints is read by who asked, through a pipe: lines of JSON, the last of
 * which says how it went. Nobody waits for it here. It writes until the reader
 * is gone, and then it gives up.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>

#include "warden/internal.h"

#define ARGS_MAX (16 + 2 * WARDEN_REGISTRIES_MAX)

static const char *const verbs[WIRE_IMAGE_MAX][2] = {
	[WIRE_IMAGE_PULL] = { "pull", "--json" },
	[WIRE_IMAGE_LS] = { "ls", "--json" },
	[WIRE_IMAGE_INSPECT] = { "inspect", NULL },
	[WIRE_IMAGE_RM] = { "rm", NULL },
};

static void put_args(const struct warden_policy *policy, const struct wire_image *m,
		     const char *argv[ARGS_MAX])
{
	const char *const *registry = policy->insecure_registries;
	size_t n = 0;

	argv[n++] = "warren-image";
	argv[n++] = "--report";
	for (size_t i = 0; i < 2 && verbs[m->verb][i]; i++)
		argv[n++] = verbs[m->verb][i];
	if (m->verb == WIRE_IMAGE_PULL) {
		if (m->flags & WIRE_IMAGE_MISSING)
			argv[n++] = "--missing";
		if (m->platform[0]) {
			argv[n++] = "--platform";
			argv[n++] = m->platform;
		}
		for (size_t i = 0; i < WARDEN_REGISTRIES_MAX && registry && registry[i];
		     i++) {
			argv[n++] = "--insecure";
			argv[n++] = registry[i];
		}
	}
	if (m->verb == WIRE_IMAGE_RM && m->flags & WIRE_IMAGE_FORCE)
		argv[n++] = "--force";
	argv[n++] = "--"; /* whatever is named is a name */
	if (m->ref[0])
		argv[n++] = m->ref;
	argv[n] = NULL;
}

/* It has children of its own to wait for, and must hear when it is told to end. */
static int spawn(const char *program, const char *const *argv, int out)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, usual;
	pid_t pid;
	int r;

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
	r = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(&actions, out, 1);
	if (r == 0)
		r = posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY,
						     0);
	if (r == 0)
		r = posix_spawnattr_setsigmask(&attr, &none);
	if (r == 0)
		r = posix_spawnattr_setsigdefault(&attr, &usual);
	if (r == 0)
		r = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK |
							    POSIX_SPAWN_SETSIGDEF);
	if (r == 0)
		r = posix_spawn(&pid, program, &actions, &attr,
				(char *const *)(uintptr_t)argv, environ);
	(void)posix_spawnattr_destroy(&attr);
	(void)posix_spawn_file_actions_destroy(&actions);
	return -r;
}

int warden_image(const struct warden_policy *policy, const struct wire_image *m,
		 int *ret_fd, struct warren_error *err)
{
	const char *argv[ARGS_MAX];
	AUTO_CLOSE int in = -1, out = -1;
	int ends[2], r;

	put_args(policy, m, argv);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_errno(err, errno, "make a pipe");
	in = ends[0];
	out = ends[1];
	r = spawn(policy->image_program, argv, out);
	if (r < 0)
		return error_errno(err, -r, "start '%s'", policy->image_program);
	*ret_fd = TAKE_FD(in);
	return 0;
}
