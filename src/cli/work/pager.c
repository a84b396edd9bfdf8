/* SPDX-License-Identifier: Apache-2.0 */
/* pager.c - run the user's pager and editor, which own the terminal until they end */
#include "cli/work/pager.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/work/editor.h"

/* Signals from the terminal, which are for the program that owns it. */
static const int pager_signals[] = { SIGINT, SIGQUIT };

static void pager_ignore(struct sigaction was[ARRAY_SIZE(pager_signals)])
{
	for (size_t i = 0; i < ARRAY_SIZE(pager_signals); i++)
		(void)sigaction(pager_signals[i],
				&(struct sigaction){ .sa_handler = SIG_IGN }, &was[i]);
}

static void pager_restore(const struct sigaction was[ARRAY_SIZE(pager_signals)])
{
	for (size_t i = 0; i < ARRAY_SIZE(pager_signals); i++)
		(void)sigaction(pager_signals[i], &was[i], NULL);
}

/* In the child: run @command, a line for the shell, with @path as "$1". */
static void pager_exec(const char *command, const char *path, int in)
{
	sigset_t none;

	for (size_t i = 0; i < ARRAY_SIZE(pager_signals); i++)
		(void)signal(pager_signals[i], SIG_DFL);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (in >= 0 && dup2(in, STDIN_FILENO) < 0)
		_exit(127);
	(void)setenv("LESS", "FRX", 0);
	(void)execl("/bin/sh", "sh", "-c", command, command, path, (char *)NULL);
	_exit(127);
}

static int pager_wait(pid_t pid, const char *command, struct warren_error *err)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return error_errno(err, errno, "wait for '%s'", command);
	if (!WIFEXITED(status) || WEXITSTATUS(status) == 127)
		return error_set(err, ENOENT, "'%s' could not be run", command);
	return WEXITSTATUS(status);
}

static int pager_write(int fd, const struct buf *out, struct warren_error *err)
{
	for (size_t at = 0; at < out->len;) {
		ssize_t n = write(fd, out->data + at, out->len - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EPIPE)
			return 0; /* the reader has seen enough */
		if (n < 0)
			return error_errno(err, errno, "write to stdout");
		at += (size_t)n;
	}
	return 0;
}

int pager_show(const struct buf *out, struct warren_error *err)
{
	struct sigaction was[ARRAY_SIZE(pager_signals)];
	const char *pager = getenv("WARREN_PAGER");
	int fds[2], r;
	pid_t pid;

	pager = pager ? pager : getenv("PAGER");
	pager = pager ? pager : "less";
	if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO) || !*pager ||
	    strcmp(pager, "cat") == 0)
		return pager_write(STDOUT_FILENO, out, err);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return error_errno(err, errno, "start '%s'", pager);
	pager_ignore(was);
	pid = fork();
	if (pid == 0)
		pager_exec(pager, NULL, fds[0]);
	(void)close(fds[0]);
	r = pid < 0 ? error_errno(err, errno, "start '%s'", pager)
		    : pager_write(fds[1], out, err);
	(void)close(fds[1]);
	if (pid >= 0 && r >= 0)
		r = pager_wait(pid, pager, err);
	pager_restore(was);
	if (r == -ENOENT) /* without a pager, the terminal's own scrolling must do */
		r = pager_write(STDOUT_FILENO, out, err);
	return r < 0 ? r : 0;
}

int pager_edit(const char *path, struct warren_error *err)
{
	struct sigaction was[ARRAY_SIZE(pager_signals)];
	AUTO_BUF struct buf editor = BUF_INIT(1 << 16), command = BUF_INIT(1 << 17);
	int r;
	pid_t pid;

	editor_command(&editor);
	buf_add(&command, editor.data, editor.len);
	buf_puts(&command, " \"$1\"");
	if (editor.failed || command.failed)
		return error_set(err, E2BIG, "the command of the editor is too long");
	pager_ignore(was);
	pid = fork();
	if (pid == 0)
		pager_exec(command.data, path, -1);
	r = pid < 0 ? error_errno(err, errno, "start the editor")
		    : pager_wait(pid, editor.data, err);
	pager_restore(was);
	if (r > 0)
		return error_set(err, ECANCELED, "the editor failed (exit status %d)", r);
	return r;
}
