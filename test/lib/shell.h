/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shell.h - a real shell on pipes, used through src/shellproto as a backend uses it
 *
 *	struct shell sh;
 *	shell_open(&sh, SHELLPROTO_CONTROL, "dash");
 *	shell_run(&sh, "cd /tmp");
 *	EQ(sh.outcome, SHELLPROTO_DONE);
 *	shell_close(&sh);
 */
#ifndef TEST_SHELL_H
#define TEST_SHELL_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "lib/tap.h"
#include "shellproto/shellproto.h"

#define SHELL_PATIENCE  50 /* time limit of a whole test, in seconds */
#define SHELL_KEEP      (4U << 20)
#define SHELL_PROCESSES 4096

struct shell {
	struct shellproto *s;
	enum shellproto_transport transport;
	pid_t pid;
	int pidfd;
	int in, from[3]; /* from: stdout, stderr, results */
	struct buf text[2], unsent;
	size_t sent;
	uint64_t bytes[2];
	bool quiet; /* count output instead of keeping it */
	bool got;
	bool ended;
	uint64_t serial, since;
	enum shellproto_outcome outcome;
	int code;
	char cwd[PATH_MAX];
};

/* Use a socket, because some streams of execs cannot be opened by their name in /proc. */
static bool shell_by_socket;
/* Prepares a session before it starts; NULL: nothing. */
static void (*shell_prepare)(struct shellproto *s);
/* An inconsistent result ends the shell, as in the service; otherwise it is a failure. */
static bool shell_may_break;

static inline void shell_on_output(void *arg, enum shellproto_stream stream,
				   const void *data, size_t n)
{
	struct shell *sh = arg;

	sh->bytes[stream - 1] += n;
	if (!sh->quiet)
		buf_add(&sh->text[stream - 1], data, n);
}

static inline void shell_on_result(void *arg, const struct shellproto_result *r)
{
	struct shell *sh = arg;

	EQ(r->serial, sh->serial);
	OK(!sh->got);
	sh->got = true;
	sh->outcome = r->outcome;
	sh->code = r->exit_code;
	(void)snprintf(sh->cwd, sizeof(sh->cwd), "%s", r->cwd ? r->cwd : "");
}

static const struct shellproto_events shell_events = {
	.output = shell_on_output,
	.result = shell_on_result,
};

/* In the child, make @fds descriptors 0, 1, 2 and, for the control transport, 6 and 7;
 * close all others. */
static inline void shell_exec(enum shellproto_transport t, const char *program, int in,
			      int out, int err, int results)
{
	enum shellproto_shell kind =
		strcmp(program, "bash") == 0 ? SHELLPROTO_BASH : SHELLPROTO_SH;
	bool control = t == SHELLPROTO_CONTROL;
	const int fds[] = { control ? open("/dev/null", O_RDWR) : in, out, err, in,
			    results };
	static const int to[] = { 0, 1, 2, SHELLPROTO_COMMAND_FD, SHELLPROTO_RESULT_FD };
	int high[5];

	(void)setsid();
	for (int i = 1; i < NSIG; i++)
		(void)signal(i, SIG_DFL);
	for (int i = 0; i < (control ? 5 : 3); i++)
		high[i] = fcntl(fds[i], F_DUPFD, 100);
	for (int i = 0; i < (control ? 5 : 3); i++)
		(void)dup2(high[i], to[i]);
	(void)close_range(3, SHELLPROTO_COMMAND_FD - 1, 0);
	(void)close_range(control ? SHELLPROTO_RESULT_FD + 1 : 3, ~0U, 0);
	(void)execvp(program, (char *const *)shellproto_argv(t, kind));
	_exit(127);
}

static inline void shell_pump(struct shell *sh, int timeout_ms);

static inline void shell_wait(struct shell *sh)
{
	while (!sh->got)
		shell_pump(sh, -1);
}

/* In the child, use only a terminal. */
static inline void shell_exec_terminal(const char *path)
{
	int fd;

	(void)setsid();
	for (int i = 1; i < NSIG; i++)
		(void)signal(i, SIG_DFL);
	fd = open(path, O_RDWR); /* it becomes the terminal of the new session */
	for (int i = 0; i < 3; i++)
		(void)dup2(fd, i);
	(void)close_range(3, ~0U, 0);
	(void)execvp("bash", (char *const *)shellproto_argv(SHELLPROTO_TERMINAL,
							    SHELLPROTO_BASH));
	_exit(127);
}

static inline void shell_open_terminal(struct shell *sh)
{
	struct warren_error err;

	*sh = (struct shell){ .transport = SHELLPROTO_TERMINAL,
			      .from = { -1, -1, -1 },
			      .text = { BUF_INIT(SHELL_KEEP), BUF_INIT(SHELL_KEEP) },
			      .unsent = BUF_INIT(SHELLPROTO_OUT_MAX) };
	(void)alarm(SHELL_PATIENCE);
	sh->from[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	OK(sh->from[0] >= 0 && unlockpt(sh->from[0]) == 0);
	EQ(fcntl(sh->from[0], F_SETFL, O_RDWR | O_NONBLOCK), 0);
	sh->in = fcntl(sh->from[0], F_DUPFD_CLOEXEC, 0);
	sh->pid = fork();
	OK(sh->pid >= 0);
	if (sh->pid == 0)
		shell_exec_terminal(ptsname(sh->from[0]));
	sh->pidfd = (int)syscall(SYS_pidfd_open, sh->pid, 0);
	OK(sh->pidfd >= 0);
	EQ(shellproto_new(SHELLPROTO_TERMINAL, &shell_events, sh, &sh->s, &err), 0);
	if (shell_prepare)
		shell_prepare(sh->s);
	EQ(shellproto_start(sh->s, &sh->unsent, &err), 0);
	shell_wait(sh);
}

static inline void shell_open(struct shell *sh, enum shellproto_transport t,
			      const char *program)
{
	struct warren_error err;
	int in[2], from[3][2];

	*sh = (struct shell){ .transport = t,
			      .text = { BUF_INIT(SHELL_KEEP), BUF_INIT(SHELL_KEEP) },
			      .unsent = BUF_INIT(SHELLPROTO_OUT_MAX) };
	(void)signal(SIGPIPE, SIG_IGN);
	(void)alarm(SHELL_PATIENCE);
	if (shell_by_socket)
		EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in), 0);
	else
		EQ(pipe2(in, O_CLOEXEC), 0);
	for (int i = 0; i < 3; i++) {
		EQ(pipe2(from[i], O_CLOEXEC), 0);
		EQ(fcntl(from[i][0], F_SETFL, O_NONBLOCK), 0);
	}
	sh->pid = fork();
	OK(sh->pid >= 0);
	if (sh->pid == 0)
		shell_exec(t, program, in[0], from[0][1], from[1][1], from[2][1]);
	sh->pidfd = (int)syscall(SYS_pidfd_open, sh->pid, 0);
	OK(sh->pidfd >= 0);
	(void)close(in[0]);
	sh->in = in[1];
	EQ(fcntl(sh->in, F_SETFL, O_NONBLOCK), 0);
	for (int i = 0; i < 3; i++) {
		(void)close(from[i][1]);
		sh->from[i] = from[i][0];
	}
	if (t == SHELLPROTO_FRAMED) {
		(void)close(sh->from[2]);
		sh->from[2] = -1;
	}
	EQ(shellproto_new(t, &shell_events, sh, &sh->s, &err), 0);
	if (shell_prepare)
		shell_prepare(sh->s);
	EQ(shellproto_start(sh->s, &sh->unsent, &err), 0);
	shell_wait(sh);
}

/* Read everything that can be read now; stdout and stderr before results. */
static inline void shell_drain(struct shell *sh, int which)
{
	static char chunk[65536];
	struct warren_error err;
	ssize_t n;

	while (sh->from[which] >= 0) {
		n = read(sh->from[which], chunk, sizeof(chunk));
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			(void)close(sh->from[which]);
			sh->from[which] = -1;
			shellproto_on_eof(sh->s, (enum shellproto_stream)(which + 1));
			return;
		}
		if (shellproto_on_bytes(sh->s, (enum shellproto_stream)(which + 1), chunk,
					(size_t)n, &err) < 0) {
			if (!shell_may_break)
				TAP_FAIL("%s", err.msg);
			(void)kill(sh->pid, SIGKILL);
		}
		if (which == 2) /* this is a result: check the other streams again before
				   the next one */
			return;
	}
}

static inline void shell_send(struct shell *sh)
{
	ssize_t n = write(sh->in, sh->unsent.data + sh->sent, sh->unsent.len - sh->sent);

	if (n < 0 && errno == EPIPE)
		n = (ssize_t)(sh->unsent.len - sh->sent); /* it has ended */
	if (n > 0)
		sh->sent += (size_t)n;
	if (sh->sent == sh->unsent.len)
		sh->sent = sh->unsent.len = 0;
}

static inline void shell_pump(struct shell *sh, int timeout_ms)
{
	struct pollfd p[] = {
		{ .fd = sh->from[0], .events = POLLIN },
		{ .fd = sh->from[1], .events = POLLIN },
		{ .fd = sh->from[2], .events = POLLIN },
		{ .fd = sh->ended ? -1 : sh->pidfd, .events = POLLIN },
		{ .fd = sh->unsent.len ? sh->in : -1, .events = POLLOUT },
	};
	int status;

	OK(poll(p, ARRAY_SIZE(p), timeout_ms) >= 0);
	if (p[4].revents)
		shell_send(sh);
	shell_drain(sh, 0);
	shell_drain(sh, 1);
	if (p[2].revents)
		shell_drain(sh, 2);
	if (p[3].revents && !sh->ended) {
		EQ(waitpid(sh->pid, &status, 0), sh->pid);
		sh->ended = true;
		for (int i = 0; i < 3; i++)
			shell_drain(sh, i);
		shellproto_on_exit(sh->s, WIFEXITED(status) ? WEXITSTATUS(status)
							    : 128 + WTERMSIG(status));
	}
}

/* The clock that start times of processes use. */
static inline uint64_t shell_ticks(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 100 + (uint64_t)ts.tv_nsec / 10000000;
}

static inline void shell_feed(struct shell *sh, const char *text, size_t n)
{
	struct warren_error err;

	sh->got = false;
	sh->text[0].len = sh->text[1].len = 0;
	sh->bytes[0] = sh->bytes[1] = 0;
	buf_puts(&sh->text[0], "");
	buf_puts(&sh->text[1], "");
	sh->since = shell_ticks();
	if (shellproto_feed(sh->s, text, n, &sh->unsent, &sh->serial, &err) < 0)
		TAP_FAIL("feed: %s", err.msg);
}

static inline void shell_run(struct shell *sh, const char *text)
{
	shell_feed(sh, text, strlen(text));
	shell_wait(sh);
}

/* ----------------------------------------------------------- stopping a command */

static inline bool shell_process(int pid, struct shellproto_process *ret)
{
	char path[64], text[4096], *at;
	unsigned long long start, mask;
	ssize_t n;
	int fd;

	*ret = (struct shellproto_process){ .pid = pid };
	(void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = read(fd, text, sizeof(text) - 1);
	(void)close(fd);
	text[n > 0 ? n : 0] = '\0';
	at = strrchr(text, ')');
	if (!at ||
	    sscanf(at + 4,
		   "%d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
		   "%*d %*d %llu",
		   &ret->ppid, &start) != 2)
		return false;
	ret->start = start;
	(void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = read(fd, text, sizeof(text) - 1);
	(void)close(fd);
	text[n > 0 ? n : 0] = '\0';
	at = strstr(text, "SigIgn:");
	if (at && sscanf(at, "SigIgn: %llx", &mask) == 1)
		ret->ignores_int = mask & 1U << (SIGINT - 1);
	return true;
}

/* List the shell and its descendants, as a cgroup would list them. */
static inline size_t shell_processes(struct shell *sh, struct shellproto_process *procs)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	size_t n = 0, kept = 0;

	OK(d);
	while ((e = readdir(d)) && n < SHELL_PROCESSES)
		if (strspn(e->d_name, "0123456789") == strlen(e->d_name) &&
		    shell_process(atoi(e->d_name), &procs[n]))
			n++;
	(void)closedir(d);
	for (size_t i = 0; i < n; i++) {
		int pid = procs[i].pid;

		for (size_t up = 0; up < n && pid > 1 && pid != sh->pid; up++) {
			size_t j = 0;

			while (j < n && procs[j].pid != pid)
				j++;
			pid = j < n ? procs[j].ppid : 0;
		}
		if (pid == sh->pid) {
			struct shellproto_process p = procs[i];

			procs[i] = procs[kept]; /* every process keeps its parent */
			procs[kept++] = p;
		}
	}
	return kept;
}

static inline void shell_step(struct shell *sh, enum shellproto_step step)
{
	static struct shellproto_process procs[SHELL_PROCESSES];
	static int pids[SHELL_PROCESSES];
	size_t n = shell_processes(sh, procs);
	int sig;

	n = shellproto_victims(sh->s, step, sh->since, procs, n, pids, &sig);
	for (size_t i = 0; i < n; i++)
		(void)kill(pids[i], sig);
}

/* Do the same with a script inside. */
static inline void shell_step_script(struct shell *sh, enum shellproto_step step)
{
	AUTO_BUF struct buf script = BUF_INIT(65536);
	pid_t pid;

	shellproto_stop_script(sh->s, step, &script);
	pid = fork();
	OK(pid >= 0 && !script.failed);
	if (pid == 0) {
		(void)execlp("busybox", "sh", "-c", script.data, "sh", (char *)NULL);
		_exit(127);
	}
	EQ(waitpid(pid, NULL, 0), pid);
}

/* Wait up to @ms for the result. */
static inline bool shell_patience(struct shell *sh, unsigned ms)
{
	uint64_t end = clock_now() + (uint64_t)ms * 1000000;

	while (!sh->got && clock_now() < end)
		shell_pump(sh, 10);
	return sh->got;
}

/* Do all necessary steps, as after a timeout; return the last one. */
static inline enum shellproto_step shell_stop(struct shell *sh, bool by_script)
{
	void (*take)(struct shell *, enum shellproto_step) =
		by_script ? shell_step_script : shell_step;

	for (int i = 0; i < 6; i++) {
		take(sh, SHELLPROTO_STEP_INTERRUPT);
		if (shell_patience(sh, 50))
			return SHELLPROTO_STEP_INTERRUPT;
	}
	for (enum shellproto_step step = SHELLPROTO_STEP_KILL; step < SHELLPROTO_STEP_MAX;
	     step++) {
		take(sh, step);
		if (shell_patience(sh, 300))
			return step;
	}
	shell_wait(sh);
	return SHELLPROTO_STEP_MAX;
}

/*
 * Kill everything that the shell started, including jobs with their own groups, and
 * orphans: all have its session id.
 */
static inline void shell_kill_all(struct shell *sh)
{
	DIR *d = opendir("/proc");
	struct dirent *e;

	OK(d);
	while ((e = readdir(d))) {
		int pid = atoi(e->d_name);

		if (pid > 0 && getsid(pid) == sh->pid)
			(void)kill(pid, SIGKILL);
	}
	(void)closedir(d);
}

static inline void shell_close(struct shell *sh)
{
	(void)close(sh->in);
	shell_kill_all(sh);
	if (!sh->ended)
		EQ(waitpid(sh->pid, NULL, 0), sh->pid);
	for (int i = 0; i < 3; i++)
		if (sh->from[i] >= 0)
			(void)close(sh->from[i]);
	(void)close(sh->pidfd);
	sh->s = shellproto_free(sh->s);
	buf_done(&sh->text[0]);
	buf_done(&sh->text[1]);
	buf_done(&sh->unsent);
}

#endif /* TEST_SHELL_H */
