/* SPDX-License-Identifier: Apache-2.0 */
/* editor.c - which editor the user wants */
#include "cli/work/editor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "os/seccomp.h"
#include "os/sig.h"
#include "work/git_run.h"

#define EDITOR_SECONDS 3

/* Only in the child. git fails if there is no such key. */
_Noreturn static void editor_exec_git(int out)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct warren_error ignored;

	sig_reset();
	/* A configuration may include a named pipe, for which git waits forever. */
	(void)alarm(EDITOR_SECONDS);
	/* With this GIT_DIR, git does not read the configuration of a repository. */
	if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(null, 2) < 0 ||
	    chdir("/") < 0 || setenv("GIT_DIR", "/dev/null", 1) < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    seccomp_load_no_child(&ignored) < 0)
		_exit(127);
	(void)execl(git_program(), "git", "config", "--get", "core.editor", (char *)NULL);
	_exit(127);
}

/* Append core.editor to @out. False: it is not set. */
static bool editor_of_git(struct buf *out)
{
	const size_t begun = out->len;
	int ends[2], status = -1;
	ssize_t n = 0;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return false;
	pid = fork();
	if (pid == 0)
		editor_exec_git(ends[1]);
	(void)close(ends[1]);
	do {
		char part[512];

		n = read(ends[0], part, sizeof(part));
		if (n > 0)
			buf_add(out, part, (size_t)n);
	} while (n > 0 || (n < 0 && errno == EINTR));
	(void)close(ends[0]);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (out->len > begun && out->data[out->len - 1] == '\n')
		out->len--;
	if (out->len > begun && (status != 0 || out->failed ||
				 memchr(out->data + begun, '\0', out->len - begun)))
		out->len = begun;
	return out->len > begun;
}

static bool editor_of_variable(const char *name, struct buf *out)
{
	const char *value = getenv(name);

	if (!value || !*value)
		return false;
	buf_puts(out, value);
	return true;
}

void editor_command(struct buf *out)
{
	const char *term = getenv("TERM");
	const bool dumb = !term || strcmp(term, "dumb") == 0;

	if (editor_of_variable("GIT_EDITOR", out) || editor_of_git(out) ||
	    (!dumb && editor_of_variable("VISUAL", out)) ||
	    editor_of_variable("EDITOR", out))
		return;
	buf_puts(out, "vi");
}
