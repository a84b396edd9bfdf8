/* SPDX-License-Identifier: Apache-2.0 */
/* inspect.c - inspect the sandbox with a shell inside, and record the result */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/strv.h"
#include "initclient/initclient.h"
#include "initclient/state_file.h"
#include "shim/core/guest_client.h"
#include "shim/core/scripts.h"
#include "shim/core/shim.h"

#define TOLD_MAX (4U << 20)

struct inside inside = { .home = "/", .cwd = "/" };

/* Read everything until the end. Return false if the time is over. */
static bool read_until(int fd, uint64_t until, struct buf *out)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		uint64_t t = clock_now();
		char *room = buf_reserve(out, 65536);
		ssize_t n;

		if (!room || t >= until)
			return false;
		if (poll(&p, 1, (int)((until - t) / 1000000) + 1) <= 0)
			continue;
		n = read(fd, room, 65536);
		if (n <= 0)
			return true;
		out->len += (size_t)n;
	}
}

/*
 * Read what @shell prints; error messages of the shell and of its tool go to @said.
 * Return false if the shell did not end.
 */
static bool inspect_ask(const char *shell, const char *mark, struct buf *out,
			struct buf *said)
{
	const char *argv[] = {
		shell, "-c", script_learn,
		"sh",  mark, this_sandbox.driver->own_kernel ? "kernel" : "",
		NULL
	};
	uint64_t until = clock_now() + (uint64_t)shim_sandbox_patience() * 1000000000;
	bool done = true;
	int o[2] = { -1, -1 }, e[2] = { -1, -1 };
	pid_t pid = -1;

	if (pipe2(o, O_CLOEXEC) == 0 && pipe2(e, O_CLOEXEC) == 0)
		pid = child_start(argv, NULL, -1, o[1], e[1], -1);
	if (o[1] >= 0)
		(void)close(o[1]);
	if (e[1] >= 0)
		(void)close(e[1]);
	if (pid > 0) {
		done = read_until(o[0], until, out);
		(void)fcntl(e[0], F_SETFL, O_RDONLY | O_NONBLOCK);
		(void)read_until(e[0], clock_now() + 100000000, said);
		(void)kill(-pid, SIGKILL);
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
	}
	if (o[0] >= 0)
		(void)close(o[0]);
	if (e[0] >= 0)
		(void)close(e[0]);
	buf_add(out, "", 1);
	buf_add(said, "", 1);
	return done;
}

/* Is it a variable that a shell sets by itself? */
static bool is_shells(const char *var)
{
	static const char *const own[] = { "PWD=", "OLDPWD=", "SHLVL=", "_=",
					   "HOSTNAME=" };

	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (strncmp(var, own[i], strlen(own[i])) == 0)
			return true;
	return false;
}

static int inspect_take_line(char *line)
{
	if (strncmp(line, "Uid:", 4) == 0)
		inside.uid = (uint32_t)strtoul(line + 4, NULL, 10);
	else if (strncmp(line, "Gid:", 4) == 0)
		inside.gid = (uint32_t)strtoul(line + 4, NULL, 10);
	else if (strncmp(line, "Home:/", 6) == 0 && strlen(line) < sizeof(inside.home))
		(void)strcpy(inside.home, line + 5);
	else if (strncmp(line, "Cwd:/", 5) == 0 && strlen(line) < sizeof(inside.cwd))
		(void)strcpy(inside.cwd, line + 4);
	else if (strcmp(line, "Ls:fails") == 0)
		/*
		 * Until 2022, runsc refused a flag of statx(2) that coreutils have used
		 * since version 9.0.
		 */
		shim_sandbox_enforce(
			&this_sandbox, "stat", false,
			"'ls' and 'stat' of this image fail: this runsc lacks what coreutils 9.0 and later (Debian 12) need; configure a newer runsc");
	else if (strncmp(line, "Path:", 5) == 0 && line[5]) {
		(void)memmove(line, "PATH=", 5);
		return strv_add(&inside.env, line);
	}
	return 0;
}

/* Parse the lines, and then the environment, whose strings end with NUL. */
static int take_told(char *text, size_t size)
{
	char *next, *end = text + size;
	int r = 0;

	for (char *line = text; r == 0 && line < end; line = next) {
		next = strchr(line, '\n');
		if (!next)
			return 0;
		*next++ = '\0';
		if (strcmp(line, "Env:") != 0) {
			r = inspect_take_line(line);
			continue;
		}
		for (char *var = next; r == 0 && var < end && *var;
		     var += strlen(var) + 1)
			if (strchr(var, '=') > var && !is_shells(var) &&
			    strncmp(var, "PATH=", 5) != 0)
				r = strv_add(&inside.env, var);
		return r;
	}
	return r;
}

static int open_inside(void *ctx UNUSED, const char *path)
{
	return within_open(path);
}

/* Continue without a shell, if the platform itself reports the result of a command. */
static int learn_bare(struct buf *said, struct warren_error *err)
{
	struct initclient_user user;
	int r;

	if (!this_sandbox.driver->tells_start) {
		said->data[strcspn(said->data, "\r\n")] = '\0';
		return error_set(
			err, EREMOTEIO, "%s: exec: %.300s", this_sandbox.name,
			said->data[0]
				? said->data
				: "nothing inside answers: the sandbox has no /bin/sh, "
				  "or the tool does not run commands");
	}
	if (this_sandbox.cwd && strlen(this_sandbox.cwd) < sizeof(inside.cwd))
		(void)strcpy(inside.cwd, this_sandbox.cwd);
	if (this_sandbox.within < 0)
		return 0;
	r = user_resolve(this_sandbox.user, open_inside, NULL, &user, err);
	if (r < 0)
		return error_wrap(err, "%s", this_sandbox.name);
	inside.uid = user.uid;
	inside.gid = user.gid;
	(void)strcpy(inside.home, user.home);
	return 0;
}

int inspect_sandbox(struct warren_error *err)
{
	static const char *const shells[] = { "/bin/sh", "/usr/bin/sh", "/busybox/sh" };
	AUTO_BUF struct buf said = BUF_INIT(65536);
	char mark[MARK_LEN + 1];

	for (size_t i = 0; i < ARRAY_SIZE(shells); i++) {
		AUTO_BUF struct buf out = BUF_INIT(TOLD_MAX);
		char *at;

		mark_make(mark);
		said.len = 0;
		if (!inspect_ask(shells[i], mark, &out, &said))
			return error_set(err, ETIMEDOUT,
					 "%s: exec: nothing inside answered within %d "
					 "seconds",
					 this_sandbox.name, shim_sandbox_patience());
		at = out.failed ? NULL : strstr(out.data, mark);
		if (!at)
			continue;
		(void)strcpy(inside.shell, shells[i]);
		if (take_told(at + MARK_LEN + 1,
			      (size_t)(out.data + out.len - at) - MARK_LEN - 1) < 0)
			return error_errno(err, ENOMEM, "inspect the sandbox");
		return 0;
	}
	return learn_bare(&said, err);
}

/* --------------------------------------------------------------- recording the result */

static bool inspect_overridden(const char *var, const char *const *list)
{
	size_t n = strcspn(var, "=");

	for (; list && *list; list++)
		if (strncmp(*list, var, n) == 0 && (*list)[n] == '=')
			return true;
	return false;
}

int learn_note(const struct warren_spec *spec, struct warren_error *err)
{
	struct initclient_sandbox sandbox = { .pidfd = -1,
					      .control = -1,
					      .n_ids = UINT32_MAX - 1,
					      .framed = true,
					      .direct = this_sandbox.within >= 0,
					      .user = { .uid = inside.uid,
							.gid = inside.gid } };
	AUTO_BUF struct buf text = BUF_INIT(STATE_MAX);
	char path[sizeof(this_sandbox.dir) + 16];
	AUTO_CLOSE int fd = -1;
	int r = 0;

	(void)strcpy(sandbox.base.id, this_sandbox.id);
	(void)strcpy(sandbox.user.home, inside.home);
	sandbox.workdir = strdup(spec->workdir ? spec->workdir : inside.cwd);
	sandbox.hostname = strdup(spec->hostname ? spec->hostname : this_sandbox.id);
	for (char **v = inside.env; r == 0 && v && *v; v++)
		if (!inspect_overridden(*v, spec->env))
			r = strv_add(&sandbox.env, *v);
	for (const char *const *v = spec->env; r == 0 && v && *v; v++)
		r = strv_add(&sandbox.env, *v);
	_Static_assert(sizeof(sandbox.base.enforced) == sizeof(this_sandbox.enforced),
		       "they differ");
	(void)memcpy(sandbox.base.enforced, this_sandbox.enforced,
		     sizeof(this_sandbox.enforced));
	sandbox.base.n_enforced = this_sandbox.n_enforced;
	if (r < 0 || !sandbox.workdir || !sandbox.hostname)
		r = -ENOMEM;
	else
		state_encode(&sandbox, NULL, &text);
	initclient_done(&sandbox);
	(void)snprintf(path, sizeof(path), "%s/made", this_sandbox.dir);
	fd = r < 0 ? -1 : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (r == 0)
		r = fd < 0 ? -errno : text.failed ? -E2BIG : 0;
	if (r == 0)
		r = fd_write_all(fd, text.data, text.len);
	return r < 0 ? error_errno(err, -r, "write '%s'", path) : 0;
}
