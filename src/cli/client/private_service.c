/* SPDX-License-Identifier: Apache-2.0 */
/* private_service.c - start and end a service for this process alone */
#include "cli/client/private_service.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/libexec.h"

#define PRIVATE_FD  3
#define START_MS    20000 /* long enough for a very busy machine */
#define END_MS      20000 /* includes the deletion of its sandboxes */
#define MOUNTS_MAX  4200
#define ADDRESS_MAX 64

struct private_service {
	pid_t pid;
	int pidfd;
	int life; /* the service ends when this is closed */
	int dir;  /* the service's directory, which contains its socket */
	char address[ADDRESS_MAX];
};

/* ---------------------------------------------------------------------- child */

/*
 * Use a new session, so that a signal to the whole process group, from a terminal or a
 * client that gives up, does not prevent the cleanup.
 */
__attribute__((noreturn)) static void private_child(const char *program, char **argv,
						    int life)
{
	static const char *const unwanted[] = { "NOTIFY_SOCKET", "LISTEN_PID",
						"LISTEN_FDS", "LISTEN_FDNAMES" };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)setsid();
	for (size_t i = 0; i < ARRAY_SIZE(unwanted); i++)
		(void)unsetenv(unwanted[i]);
	/* Only this process writes to stdout. */
	if (null >= 0 && dup2(null, STDIN_FILENO) == STDIN_FILENO &&
	    dup2(null, STDOUT_FILENO) == STDOUT_FILENO &&
	    (life == PRIVATE_FD ? fcntl(life, F_SETFD, 0) == 0
				: dup2(life, PRIVATE_FD) == PRIVATE_FD) &&
	    close_range(PRIVATE_FD + 1, ~0U, 0) == 0)
		(void)execv(program, argv);
	_exit(127);
}

static int private_spawn(struct private_service *p, const struct private_options *options,
			 struct warren_error *err)
{
	char program[PATH_MAX], mounts[MOUNTS_MAX], fd[] = "3", option[] = "--mounts";
	char *argv[] = {
		(char[]){ "serve" }, (char[]){ "--private" }, fd, NULL, NULL, NULL
	};
	AUTO_CLOSE int theirs = -1;
	int ends[2], r = libexec_find("warren-serve", program, err);

	_Static_assert(PRIVATE_FD == 3, "argv has its number");
	if (r < 0)
		return r;
	if (options && options->mount) {
		(void)snprintf(mounts, sizeof(mounts), "%s:rw", options->mount);
		argv[3] = option;
		argv[4] = mounts;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return error_errno(err, errno, "create a connection");
	p->life = ends[0];
	theirs = ends[1];
	p->pid = fork();
	if (p->pid == 0)
		private_child(program, argv, theirs);
	if (p->pid < 0)
		return error_errno(err, errno, "start '%s'", program);
	p->pidfd = pidfd_open(p->pid, 0);
	return p->pidfd < 0 ? error_errno(err, errno, "watch the service") : 0;
}

/* ---------------------------------------------------------------------- start */

/* Wait for @fd. Return 0 if the time is over. */
static int private_await(int fd, uint64_t until)
{
	for (;;) {
		struct pollfd one = { .fd = fd, .events = POLLIN };
		uint64_t now = clock_now();
		int r = now >= until ? 0
				     : poll(&one, 1, (int)((until - now) / 1000000) + 1);

		if (r >= 0 || errno != EINTR)
			return r;
	}
}

static int private_hear(struct private_service *p, struct warren_error *err)
{
	char text[sizeof(err->msg) + 1];
	size_t n_fds = 1;
	ssize_t n;

	if (private_await(p->life, clock_now() + START_MS * 1000000ULL) <= 0)
		return error_set(err, ETIMEDOUT, "it is not ready after %d seconds",
				 START_MS / 1000);
	n = fd_recv(p->life, text, sizeof(text) - 1, &p->dir, &n_fds, 0);
	if (n_fds != 1)
		p->dir = -1;
	text[n > 0 ? n : 0] = '\0';
	if (text[0] == 'E')
		return error_set(err, ECHILD, "%s", text + 1);
	if (text[0] != 'R' || p->dir < 0)
		return error_set(err, ECHILD, "it ended before it was ready");
	(void)snprintf(p->address, sizeof(p->address), "unix:/proc/self/fd/%d/sock",
		       p->dir);
	return 0;
}

int private_service_start(const struct private_options *options,
			  struct private_service **ret, struct warren_error *err)
{
	AUTO_PRIVATE struct private_service *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return error_errno(err, ENOMEM, "start a private service");
	p->pid = p->pidfd = p->life = p->dir = -1;
	r = private_spawn(p, options, err);
	if (r == 0)
		r = private_hear(p, err);
	if (r < 0) {
		(void)error_wrap(err, "no service is running, and a private one cannot "
				      "start (start `warren serve`, or set "
				      "WARREN_HOST)");
		return r;
	}
	*ret = TAKE_PTR(p);
	return 0;
}

const char *private_service_address(const struct private_service *p)
{
	return p->address;
}

struct private_service *private_service_end(struct private_service *p)
{
	if (!p)
		return NULL;
	if (p->life >= 0)
		(void)close(p->life);
	if (p->pid > 0) {
		/* Do not wait forever for a service that hangs; it ends when it can. */
		if (p->pidfd < 0 ||
		    private_await(p->pidfd, clock_now() + END_MS * 1000000ULL) > 0)
			(void)waitpid(p->pid, NULL, 0);
	}
	if (p->pidfd >= 0)
		(void)close(p->pidfd);
	if (p->dir >= 0)
		(void)close(p->dir);
	free(p);
	return NULL;
}

/* ---------------------------------------------------------------- choice of a service */

/* Does a process listen at the usual address? Its owner is checked later. */
static bool client_is_served(const struct client *c)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	/* The path is too long, or no descriptor is left: the next request reports this.
	 */
	if (fd < 0 || strlen(c->socket) >= sizeof(addr.sun_path))
		return true;
	(void)strcpy(addr.sun_path, c->socket);
	return connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0 ||
	       (errno != ENOENT && errno != ECONNREFUSED && errno != ENOTDIR);
}

int client_finds_service(bool *ret, struct warren_error *err)
{
	AUTO_CLIENT struct client *c = NULL;
	int r = client_open(&c, err);

	if (r == 0)
		*ret = !c->own || client_is_served(c);
	return r;
}

int client_open_or_start(const struct private_options *options, struct client **ret,
			 struct private_service **ret_own, struct warren_error *err)
{
	AUTO_PRIVATE struct private_service *own = NULL;
	AUTO_CLIENT struct client *c = NULL;
	int r = client_open(&c, err);

	if (r == 0 && c->own && !client_is_served(c)) {
		c = client_close(c);
		r = private_service_start(options, &own, err);
		if (r == 0)
			r = client_open_at(private_service_address(own), &c, err);
	}
	if (r < 0)
		return r;
	*ret = TAKE_PTR(c);
	*ret_own = TAKE_PTR(own);
	return 0;
}
