/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward.c - make a server in a sandbox available at a port of this machine
 *
 * Each accepted connection gets its own process and tunnel (tunnel.h), so any protocol
 * works. If the connection in the sandbox fails or breaks, the local connection is reset
 * instead of closed, so that its client does not mistake partial data for all of it.
 */
#include "cli/client/forward.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/parse.h"
#include "cli/client/commands.h"
#include "cli/client/tunnel.h"
#include "cli/listen_on.h"

#define GONE_MS "3600000" /* time limit of one request; there may be several requests */

/* ----------------------------------------------------------- one connection */

static void forward_connection(const struct forward *f, int fd)
{
	static const struct linger reset = { .l_onoff = 1 };
	struct warren_error err = WARREN_ERROR_INIT;
	struct tunnel *t = NULL;
	int one = 1, r;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	r = tunnel_open(f->client, f->id, f->port, &t, &err);
	if (r < 0)
		message_say(f->command, "%s", err.msg);
	else
		r = tunnel_run(t, fd);
	if (r < 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	(void)tunnel_close(t);
}

/* ---------------------------------------------------------------- the listener */

int forward_listen(struct forward *f, const char *where, struct warren_error *err)
{
	int fd = cli_listen_on(where, err);

	if (fd < 0)
		return fd;
	f->listener = fd;
	return 0;
}

/* Child processes end with this process. */
int forward_run(const struct forward *f, struct warren_error *err)
{
	pid_t self = getpid();

	(void)signal(SIGCHLD, SIG_IGN); /* this process does not wait for its children */
	for (;;) {
		AUTO_CLOSE int fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0 && errno != EINTR && errno != ECONNABORTED && errno != EMFILE)
			return error_errno(err, errno, "wait for connections");
		if (fd < 0)
			continue;
		if (fork() == 0) {
			(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
			if (getppid() == self)
				forward_connection(f, fd);
			_exit(0);
		}
	}
}

/* ----------------------------------------------------------------- published ports */

/* Parse "[ADDRESS:]HOST:PORT"; the last part is the port of the sandbox. */
static int publish_listen(struct forward *f, const char *text, struct warren_error *err)
{
	const char *colon = strrchr(text, ':');
	AUTO_FREE char *here = strndup(text, (size_t)(colon - text));
	uint64_t port = 0;

	if (!here)
		return error_errno(err, ENOMEM, "--publish");
	if (parse_u64(colon + 1, LISTEN_PORT_LAST, &port, err) < 0 || port == 0)
		return error_set(
			err, EINVAL,
			"--publish: '%.100s' is not [ADDRESS:]HOST:PORT (example: "
			"-p 8080:80)",
			text);
	f->port = (unsigned)port;
	return forward_listen(f, here, err) < 0 ? error_wrap(err, "--publish") : 0;
}

static int publish_listen_all(struct client *c, const char *id,
			      const struct publish_list *list, struct forward *all,
			      struct warren_error *err)
{
	for (size_t i = 0; i < list->n; i++) {
		all[i] =
			(struct forward){ .client = c, .command = "run", .listener = -1 };
		(void)snprintf(all[i].id, sizeof(all[i].id), "%s", id);
		if (publish_listen(&all[i], list->v[i], err) < 0)
			return -err->code;
	}
	return 0;
}

static void publish_start(struct forward *all, size_t n)
{
	pid_t self = getpid();

	for (size_t i = 0; i < n; i++) {
		struct warren_error err = WARREN_ERROR_INIT;
		sigset_t none;

		if (fork() == 0) {
			(void)sigemptyset(&none);
			(void)sigprocmask(SIG_SETMASK, &none, NULL);
			(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
			if (getppid() == self)
				(void)!forward_run(&all[i], &err);
			_exit(1);
		}
		(void)close(all[i].listener);
	}
}

int publish_while_running(struct client *c, const char *id,
			  const struct publish_list *list, struct warren_error *err)
{
	struct forward all[PUBLISH_MAX];
	int r = publish_listen_all(c, id, list, all, err);

	if (r == 0)
		publish_start(all, list->n);
	return r;
}

/* Wait until the sandbox is gone; the service may restart in between. */
static void publish_watch(struct client *c, const char *id)
{
	char path[128];

	(void)snprintf(
		path, sizeof(path),
		"/v1/sandboxes/%s/wait?state=gone&state=failed&timeout_ms=" GONE_MS, id);
	for (;;) {
		struct warren_error err = WARREN_ERROR_INIT;
		AUTO_JSON json_t *answer = NULL;

		if (client_call(c, "GET", path, NULL, &answer, &err) < 0) {
			/* Also end if the token is not valid any more. */
			if (client_said(c, "sandbox_not_found") ||
			    client_said(c, "unauthorized") || client_said(c, "forbidden"))
				return;
			(void)sleep(1); /* the service is restarting, or busy */
		} else if (json_is_true(json_object_get(answer, "reached"))) {
			return;
		}
	}
}

/* Close all descriptors of the caller. */
static void publish_detach(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)setsid();
	(void)!chdir("/");
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		(void)dup2(null, fd);
}

int publish_in_background(struct client *c, const char *id,
			  const struct publish_list *list, struct warren_error *err)
{
	struct forward all[PUBLISH_MAX];
	int r = publish_listen_all(c, id, list, all, err);
	pid_t pid;

	if (r < 0)
		return r;
	pid = fork();
	if (pid < 0)
		return error_errno(err, errno, "--publish: start a process");
	if (pid == 0) {
		publish_detach();
		publish_start(all, list->n);
		publish_watch(c, id);
		_exit(0);
	}
	for (size_t i = 0; i < list->n; i++)
		(void)close(all[i].listener);
	return 0;
}
