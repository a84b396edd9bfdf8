/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c - the cost of the session protocol: `true` in shells on the host, over pipes
 *
 * There is no sandbox and no daemon. The time is from the first byte written until the
 * result: the time of the shell and of two context switches. Shells and transports take
 * turns.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "bench.h"
#include "shellproto/shellproto.h"

struct way {
	const char *name;
	const char *program;
	enum shellproto_transport transport;
};

static const struct way ways[] = {
	{ "bash, control", "bash", SHELLPROTO_CONTROL },
	{ "bash, framed", "bash", SHELLPROTO_FRAMED },
	{ "dash, control", "dash", SHELLPROTO_CONTROL },
	{ "dash, framed", "dash", SHELLPROTO_FRAMED },
	{ "busybox, control", "busybox", SHELLPROTO_CONTROL },
	{ "busybox, framed", "busybox", SHELLPROTO_FRAMED },
};

struct peer {
	struct shellproto *s;
	pid_t pid;
	int in, from[3]; /* from: stdout, stderr, results; -1: none */
	bool got;
};

static void on_output(void *arg UNUSED, enum shellproto_stream stream UNUSED,
		      const void *data UNUSED, size_t n UNUSED)
{
}

static void on_result(void *arg, const struct shellproto_result *r UNUSED)
{
	struct peer *p = arg;

	p->got = true;
}

static const struct shellproto_events events = { on_output, on_result };

static void become(const struct way *way, int in, const int *out)
{
	bool control = way->transport == SHELLPROTO_CONTROL;
	enum shellproto_shell shell =
		strcmp(way->program, "bash") == 0 ? SHELLPROTO_BASH : SHELLPROTO_SH;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)dup2(control ? null : in, 0);
	(void)dup2(out[0], 1);
	(void)dup2(out[1], 2);
	if (control) {
		(void)dup2(in, SHELLPROTO_COMMAND_FD);
		(void)dup2(out[2], SHELLPROTO_RESULT_FD);
	}
	(void)execvp(way->program, (char *const *)shellproto_argv(way->transport, shell));
	_exit(127);
}

/* Create a pipe whose descriptors are far from the numbers that a shell gets. */
static int far_pipe(int ends[2])
{
	int near[2];

	if (pipe2(near, O_CLOEXEC) < 0)
		return -1;
	for (int i = 0; i < 2; i++) {
		ends[i] = fcntl(near[i], F_DUPFD_CLOEXEC, 32);
		(void)close(near[i]);
	}
	return ends[0] < 0 || ends[1] < 0 ? -1 : 0;
}

static int exchange(struct peer *p, struct buf *out, struct warren_error *err)
{
	static char data[65536];
	int r = fd_write_all(p->in, out->data, out->len);

	p->got = false;
	while (r == 0 && !p->got) {
		struct pollfd fds[3];

		for (int i = 0; i < 3; i++)
			fds[i] = (struct pollfd){ .fd = p->from[i], .events = POLLIN };
		if (poll(fds, 3, 10000) <= 0)
			return error_set(err, ETIMEDOUT, "the shell does not answer");
		for (int i = 0; r == 0 && i < 3; i++) {
			ssize_t n =
				fds[i].revents ? read(p->from[i], data, sizeof(data)) : 0;

			if (fds[i].revents && n <= 0)
				return error_set(err, EPIPE, "the shell is gone");
			if (n > 0)
				r = shellproto_on_bytes(p->s,
							(enum shellproto_stream)(i + 1),
							data, (size_t)n, err);
		}
	}
	return r;
}

static int peer_open(struct peer *p, const struct way *way, struct warren_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(65536);
	int in[2], from[3][2], r;

	if (far_pipe(in) < 0)
		return error_errno(err, errno, "create a pipe");
	for (int i = 0; i < 3; i++)
		if (far_pipe(from[i]) < 0)
			return error_errno(err, errno, "create a pipe");
	p->pid = fork();
	if (p->pid == 0)
		become(way, in[0], (const int[]){ from[0][1], from[1][1], from[2][1] });
	if (p->pid < 0)
		return error_errno(err, errno, "fork");
	(void)close(in[0]);
	p->in = in[1];
	for (int i = 0; i < 3; i++) {
		(void)close(from[i][1]);
		p->from[i] = from[i][0];
	}
	if (way->transport == SHELLPROTO_FRAMED) {
		(void)close(p->from[2]);
		p->from[2] = -1;
	}
	r = shellproto_new(way->transport, &events, p, &p->s, err);
	if (r == 0)
		r = shellproto_start(p->s, &out, err);
	if (r == 0)
		r = exchange(p, &out, err);
	return r < 0 ? error_wrap(err, "start %s", way->program) : 0;
}

static void peer_close(struct peer *p)
{
	if (p->pid <= 0)
		return;
	(void)kill(p->pid, SIGKILL);
	(void)waitpid(p->pid, NULL, 0);
	(void)close(p->in);
	for (int i = 0; i < 3; i++)
		if (p->from[i] >= 0)
			(void)close(p->from[i]);
	p->s = shellproto_free(p->s);
}

static int once(struct peer *p, struct buf *out, struct warren_error *err)
{
	uint64_t serial;
	int r;

	out->len = 0;
	r = shellproto_feed(p->s, "true", 4, out, &serial, err);
	return r < 0 ? r : exchange(p, out, err);
}

int bench_session(struct bench *b, struct warren_error *err)
{
	uint64_t stop = clock_now() + b->seconds * 1000000000ULL;
	AUTO_BUF struct buf out = BUF_INIT(65536);
	struct series s[ARRAY_SIZE(ways)] = { 0 };
	struct peer peers[ARRAY_SIZE(ways)] = { 0 };
	int r = 0;

	(void)signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(ways); i++) {
		r = series_init(&s[i], ways[i].name, b->n, err);
		if (r == 0)
			r = peer_open(&peers[i], &ways[i], err);
	}
	for (unsigned i = 0; r == 0 && i < b->n + b->warmup && clock_now() < stop; i++) {
		for (size_t k = 0; r == 0 && k < ARRAY_SIZE(ways); k++) {
			uint64_t t = clock_now();

			r = once(&peers[k], &out, err);
			if (i >= b->warmup)
				series_add(&s[k], clock_now() - t);
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		if (r == 0)
			report_series(b, &s[i]);
		series_done(&s[i]);
		peer_close(&peers[i]);
	}
	return r;
}
