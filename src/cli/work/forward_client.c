/* SPDX-License-Identifier: Apache-2.0 */
/* forward_client.c - commands that are about works and about sandboxes of the service */
#include "cli/work/forward_client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/libexec.h"
#include "cli/command.h"

int forward_client(char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	char path[PATH_MAX];

	if (libexec_find("warren-client", path, &err) == 0) {
		(void)execv(path, argv);
		(void)error_errno(&err, errno, "start %s", path);
	}
	message_say(argv[0], "%s", err.msg);
	return STATUS_FAILED;
}

void forward_client_complete(const char *command, struct buf *out)
{
	const char *argv[] = { COMPLETE_WORD, command, "", NULL };
	struct warren_error err = WARREN_ERROR_INIT;
	char path[PATH_MAX], chunk[4096];
	int fds[2];
	ssize_t n;
	pid_t pid;

	if (libexec_find("warren-client", path, &err) < 0 || pipe2(fds, O_CLOEXEC) < 0)
		return;
	pid = fork();
	if (pid == 0) {
		if (dup2(fds[1], STDOUT_FILENO) >= 0)
			(void)execv(path, (char *const *)argv);
		_exit(STATUS_CANNOT_EXEC);
	}
	(void)close(fds[1]);
	while (pid > 0 && (n = read(fds[0], chunk, sizeof(chunk))) != 0)
		if (n > 0)
			buf_add(out, chunk, (size_t)n);
		else if (errno != EINTR)
			break;
	(void)close(fds[0]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}
