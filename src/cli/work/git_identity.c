/* SPDX-License-Identifier: Apache-2.0 */
/* git_identity.c - ask git for the user's identity, and write it for the sandbox */
#include "cli/work/git_identity.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "os/seccomp.h"
#include "os/sig.h"
#include "work/git_run.h"

#define IDENTITY_MAX     4096
#define IDENTITY_SECONDS 3

/* Only in the child. It fails if the user has configured no name or no address. */
_Noreturn static void identity_exec(const char *project, int out)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct warren_error ignored;

	sig_reset();
	/* A configuration may include a pipe, which has no end. */
	(void)alarm(IDENTITY_SECONDS);
	if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(null, 2) < 0 ||
	    chdir(project) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    seccomp_load_no_child(&ignored) < 0)
		_exit(127);
	(void)execl(git_program(), "git", "-c", "user.useConfigOnly=true", "var",
		    "GIT_AUTHOR_IDENT", (char *)NULL);
	_exit(127);
}

void git_identity_ask(struct git_identity *i, const char *project)
{
	int ends[2];

	if (i->pid > 0 || pipe2(ends, O_CLOEXEC) < 0)
		return;
	i->pid = fork();
	if (i->pid == 0)
		identity_exec(project, ends[1]);
	(void)close(ends[1]);
	if (i->pid > 0)
		i->out = ends[0];
	else
		(void)close(ends[0]);
}

/* Returns whether git has answered: it had no error. */
static bool identity_end(struct git_identity *i)
{
	int status = -1;

	(void)close(i->out);
	while (waitpid(i->pid, &status, 0) < 0 && errno == EINTR)
		;
	*i = (struct git_identity){ 0 };
	return status == 0;
}

void git_identity_done(struct git_identity *i)
{
	if (i->pid <= 0)
		return;
	(void)kill(i->pid, SIGKILL);
	(void)identity_end(i);
}

/* Get "<name> <<address>> <time>"; false: there is none. */
static bool identity_read(struct git_identity *i, char text[IDENTITY_MAX])
{
	size_t n = 0;
	ssize_t part = 0;

	if (i->pid <= 0)
		return false;
	while (n < IDENTITY_MAX - 1 && part >= 0 &&
	       (part = read(i->out, text + n, IDENTITY_MAX - 1 - n)) != 0)
		if (part > 0)
			n += (size_t)part;
		else if (errno == EINTR)
			part = 0;
	text[n] = '\0';
	return identity_end(i) && part == 0;
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

int git_identity_write(struct git_identity *i, const char *project, const char *dir,
		       char **ret_path, struct warren_error *err)
{
	AUTO_FREE char *path = NULL;
	AUTO_BUF struct buf out = BUF_INIT((size_t)4 * IDENTITY_MAX);
	AUTO_CLOSE int fd = -1;
	char ident[IDENTITY_MAX];
	int r;

	git_identity_ask(i, project);
	identity_config(identity_read(i, ident) ? ident : NULL, &out);
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
