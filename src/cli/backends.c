/* SPDX-License-Identifier: Apache-2.0 */
/* backends.c - run warren-serve as a child and read lines of "name kind tier settings" */
#include "cli/backends.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/libexec.h"
#include "cli/command.h"

#define TEXT_MAX (1U << 20)
#define SAID_BY  "warren serve: "

static int backends_spawn(const char *path, const char *const *argv, int out,
			  pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	int r = posix_spawn_file_actions_init(&actions);

	if (r != 0)
		return -r;
	r = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
					     O_RDONLY, 0);
	/* The output is either the result or an error message. */
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
	if (r == 0)
		r = posix_spawn(ret_pid, path, &actions, NULL,
				(char *const *)(uintptr_t)argv, environ);
	(void)posix_spawn_file_actions_destroy(&actions);
	return -r;
}

/* Read all output. Return the exit status, or -errno. */
static int backends_ask(const char *const *argv, struct buf *out,
			struct warren_error *err)
{
	AUTO_CLOSE int in = -1, end = -1;
	char path[PATH_MAX], piece[4096];
	int fds[2], status = 0, r = libexec_find("warren-serve", path, err);
	pid_t pid = -1;
	ssize_t n;

	if (r < 0)
		return r;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return error_errno(err, errno, "create a pipe");
	in = fds[0];
	end = fds[1];
	r = backends_spawn(path, argv, end, &pid);
	if (r < 0)
		return error_errno(err, -r, "start %s", path);
	(void)close(TAKE_FD(end));
	while ((n = read(in, piece, sizeof(piece))) > 0 || (n < 0 && errno == EINTR))
		if (n > 0)
			buf_add(out, piece, (size_t)n);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (out->failed || !out->data)
		return error_set(err, EIO, "%s gave no usable answer", path);
	return WIFEXITED(status) ? WEXITSTATUS(status) : STATUS_FAILED;
}

/* Return the next word of a line, or the rest of the line for the last one. */
static const char *backends_next_word(char **at, bool last)
{
	char *word = *at, *blank = last ? NULL : strchr(word, ' ');

	if (blank)
		*blank = '\0';
	*at = blank ? blank + 1 : word + strlen(word);
	return word;
}

static int cli_backends_ask(const char *const *argv, struct cli_backends *ret,
			    struct warren_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(TEXT_MAX);
	struct cli_backends p = { 0 };
	char *line, *rest = NULL;
	int status = backends_ask(argv, &out, err);

	if (status < 0)
		return status;
	if (status > 0) {
		const char *said = out.data ? out.data : "no reason was given";

		if (out.data)
			out.data[strcspn(out.data, "\n")] = '\0';
		if (strncmp(said, SAID_BY, strlen(SAID_BY)) == 0)
			said += strlen(SAID_BY);
		return error_set(err, ENODEV, "%s", said);
	}
	p.text = TAKE_PTR(out.data);
	for (line = strtok_r(p.text, "\n", &rest); line && p.n < CLI_BACKENDS_MAX;
	     line = strtok_r(NULL, "\n", &rest)) {
		struct cli_backend *v = &p.v[p.n++];

		v->name = backends_next_word(&line, false);
		v->kind = backends_next_word(&line, false);
		v->tier = backends_next_word(&line, false);
		v->settings = backends_next_word(&line, true);
	}
	*ret = p;
	return 0;
}

/* Return the option for the file that the user names; by default, the service's own file
 * is read. */
static const char *config_option(void)
{
	static char option[PATH_MAX + 16];
	const char *file = getenv("WARREN_CONFIG");
	int n = file && *file ? snprintf(option, sizeof(option), "--config=%s", file) : 0;

	return n > 0 && n < (int)sizeof(option) ? option : NULL;
}

int cli_backends_read(struct cli_backends *ret, struct warren_error *err)
{
	const char *const argv[] = { "serve", "--show-backends", config_option(), NULL };

	return cli_backends_ask(argv, ret, err);
}

int cli_backends_choose(const char *backend, const char *tier, struct cli_backends *ret,
			struct warren_error *err)
{
	AUTO_BUF struct buf which = BUF_INIT(256);
	const char *argv[] = { "serve", "--show-backend", NULL, config_option(), NULL };
	int r;

	buf_printf(&which, "%s:%s", backend ? backend : "", tier ? tier : "");
	if (which.failed)
		return error_set(err, ENAMETOOLONG,
				 "the name of the backend is too long");
	argv[2] = which.data;
	r = cli_backends_ask(argv, ret, err);
	if (r == 0 && ret->n != 1) {
		cli_backends_done(ret);
		return error_set(err, EIO, "warren-serve listed no backend");
	}
	return r;
}

void cli_backends_done(struct cli_backends *p)
{
	free(p->text);
	*p = (struct cli_backends){ 0 };
}
