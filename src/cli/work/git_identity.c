/* SPDX-License-Identifier: Apache-2.0 */
/* git_identity.c - ask git for the user's identity, and write it for the sandbox */
#include "cli/work/git_identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "os/sig.h"
#include "work/git_run.h"

#define IDENTITY_MAX 4096

/* Only in the child. It fails if the user has configured no name or no address. */
_Noreturn static void identity_exec(const char *project, int out)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	sig_reset();
	if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(null, 2) < 0 ||
	    chdir(project) < 0)
		_exit(127);
	(void)execl(git_program(), "git", "-c", "user.useConfigOnly=true", "var",
		    "GIT_AUTHOR_IDENT", (char *)NULL);
	_exit(127);
}

/* Get "<name> <<address>> <time>"; false: there is none. */
static bool identity_ask(const char *project, char text[IDENTITY_MAX])
{
	size_t n = 0;
	ssize_t part = 0;
	int ends[2], status = -1;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return false;
	pid = fork();
	if (pid == 0)
		identity_exec(project, ends[1]);
	(void)close(ends[1]);
	while (n < IDENTITY_MAX - 1 && part >= 0 &&
	       (part = read(ends[0], text + n, IDENTITY_MAX - 1 - n)) != 0)
		if (part > 0)
			n += (size_t)part;
		else if (errno == EINTR)
			part = 0;
	(void)close(ends[0]);
	text[n] = '\0';
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && part == 0 && status == 0;
}

static void identity_put(struct buf *out, const char *key, const char *value)
{
	buf_printf(out, "\t%s = \"", key);
	for (; *value; value++)
		buf_printf(out, "%s%c", strchr("\\\"", *value) ? "\\" : "", *value);
	buf_puts(out, "\"\n");
}

static void identity_config(char *ident, struct buf *out)
{
	char *start = ident ? strchr(ident, '<') : NULL;
	char *end = start ? strchr(start, '>') : NULL;
	const char *name = "warren", *email = "warren@localhost";

	if (end && start > ident + 1) {
		start[-1] = '\0';
		*end = '\0';
		name = ident;
		email = start + 1;
	}
	buf_puts(out, "[user]\n");
	identity_put(out, "name", name);
	identity_put(out, "email", email);
	/* What the image has, which git would read otherwise. */
	buf_puts(out, "[include]\n\tpath = /etc/gitconfig\n");
}

int git_identity_write(const char *project, const char *dir, char **ret_path,
		       struct warren_error *err)
{
	AUTO_FREE char *path = NULL;
	AUTO_BUF struct buf out = BUF_INIT(4 * IDENTITY_MAX);
	AUTO_CLOSE int fd = -1;
	char ident[IDENTITY_MAX];
	int r;

	identity_config(identity_ask(project, ident) ? ident : NULL, &out);
	if (asprintf(&path, "%s/warren-git-XXXXXX", dir) < 0 || out.failed)
		return error_errno(err, ENOMEM, "write git's configuration");
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "create a file in '%s'", dir);
	r = fd_write_all(fd, out.data, out.len);
	/* Every user of the sandbox reads it. */
	if (r == 0 && fchmod(fd, 0644) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlink(path);
		return error_errno(err, -r, "write '%s'", path);
	}
	*ret_path = TAKE_PTR(path);
	return 0;
}
