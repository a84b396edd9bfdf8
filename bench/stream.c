/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.c - bytes per second out of an exec
 *
 * dd(1) writes zeros to its standard output; the benchmark reads them in pieces of 1 MiB
 * and discards them. The floor is the same dd on the host with a pipe of the same size.
 * The journal drops output if the reader is too slow: the reported rate is that of the
 * writer, and the part that arrived is reported too.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#include "bench.h"

#define PIECE   (1U << 20)
#define ROUNDS  3
#define JOURNAL (64U << 20)

static char piece[PIECE];

struct writer {
	const char *name;
	const char *const *argv;
};

/* Read to the end of @fd; return the number of bytes. */
static uint64_t read_away(int fd)
{
	uint64_t sum = 0;
	ssize_t n;

	while ((n = read(fd, piece, sizeof(piece))) > 0 || (n < 0 && errno == EINTR))
		sum += n > 0 ? (uint64_t)n : 0;
	return sum;
}

static int from_exec(struct warren_sandbox *sb, const char *const *argv,
		     uint64_t *ret_bytes, struct warren_error *err)
{
	const struct warren_exec_spec spec = { .argv = argv, .out = WARREN_STDIO_PIPE };
	struct warren_exec *ex = NULL;
	struct warren_result res;
	int r = warren_exec(sb, &spec, &ex, err);

	if (r < 0)
		return r;
	*ret_bytes = read_away(warren_exec_fd(ex, 1));
	r = warren_exec_wait(ex, -1, &res, err);
	ex = warren_exec_free(ex);
	return r < 0 ? r : 0;
}

static int from_journal(struct warren_sandbox *sb, const char *const *argv,
			uint64_t *ret_bytes, uint64_t *ret_lost, struct warren_error *err)
{
	const struct warren_exec_spec spec = { .argv = argv,
					       .out = WARREN_STDIO_JOURNAL,
					       .journal_limit = JOURNAL };
	struct warren_output out = { 0 };
	struct warren_exec *ex = NULL;
	int r = warren_exec(sb, &spec, &ex, err);

	if (r < 0)
		return r;
	while (r == 0 && !out.end) {
		r = warren_exec_output(ex, out.cursor, piece, sizeof(piece), &out, err);
		*ret_bytes += out.size;
		*ret_lost += out.lost;
		if (r == 0 && out.size == 0 && !out.end) {
			struct pollfd p = { .fd = warren_exec_output_fd(ex),
					    .events = POLLIN };
			uint64_t ticks;

			(void)poll(&p, 1, 1000);
			(void)!read(p.fd, &ticks, sizeof(ticks));
		}
	}
	ex = warren_exec_free(ex);
	return r < 0 ? r : 0;
}

/* Start @argv with @in (-1: inherited) and @out as its streams, which are closed here. */
static int start(const char *const *argv, int in, int out, pid_t *ret_pid,
		 struct warren_error *err)
{
	posix_spawn_file_actions_t actions;
	int r;

	(void)posix_spawn_file_actions_init(&actions);
	if (in >= 0)
		(void)posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
	(void)posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	r = posix_spawn(ret_pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv,
			(char *const[]){ NULL });
	(void)posix_spawn_file_actions_destroy(&actions);
	if (in >= 0)
		(void)close(in);
	(void)close(out);
	return r == 0 ? 0 : error_errno(err, r, "start '%s'", argv[0]);
}

static int from_host(const char *const *argv, uint64_t *ret_bytes,
		     struct warren_error *err)
{
	AUTO_CLOSE int in = -1;
	int ends[2], status = 0, r;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_errno(err, errno, "create a pipe");
	in = ends[0];
	(void)fcntl(in, F_SETPIPE_SZ, PIECE);
	r = start(argv, -1, ends[1], &pid, err);
	if (r < 0)
		return r;
	*ret_bytes = read_away(in);
	(void)waitpid(pid, &status, 0);
	return status == 0 ? 0
			   : error_set(err, EIO, "'%s' ended with %#x", argv[0],
				       (unsigned)status);
}

static double gigabytes(uint64_t bytes, uint64_t ns)
{
	return ns ? (double)bytes / (double)ns : 0;
}

/* Take the best of several rounds, which alternate between the host and Warren. */
static int by_pipe(struct bench *b, struct warren_sandbox *sb, const struct writer *w,
		   struct warren_error *err)
{
	double best[2] = { 0, 0 };
	char label[96];

	for (int i = 0; i < 2 * ROUNDS; i++) {
		uint64_t bytes = 0, t = clock_now();
		int r = i % 2 ? from_exec(sb, w->argv, &bytes, err)
			      : from_host(w->argv, &bytes, err);
		double rate;

		if (r < 0)
			return r;
		if (bytes != (uint64_t)b->mib << 20)
			return error_set(err, EIO, "%s: %ju bytes of %u MiB arrived",
					 w->name, (uintmax_t)bytes, b->mib);
		rate = gigabytes(bytes, clock_now() - t);
		if (rate > best[i % 2])
			best[i % 2] = rate;
	}
	(void)snprintf(label, sizeof(label), "pipe of an exec, %s", w->name);
	report_value(b, label, best[1], "GB/s");
	(void)snprintf(label, sizeof(label), "floor: the host's own, %s", w->name);
	report_value(b, label, best[0], "GB/s");
	return 0;
}

static int by_journal(struct bench *b, struct warren_sandbox *sb, const struct writer *w,
		      struct warren_error *err)
{
	double best = 0, share = 0;

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t bytes = 0, lost = 0, t = clock_now();
		int r = from_journal(sb, w->argv, &bytes, &lost, err);
		double rate = gigabytes(bytes + lost, clock_now() - t);

		if (r < 0)
			return r;
		if (bytes + lost != (uint64_t)b->mib << 20)
			return error_set(err, EIO,
					 "journal: %ju bytes read, %ju lost, of %u MiB",
					 (uintmax_t)bytes, (uintmax_t)lost, b->mib);
		if (rate > best) {
			best = rate;
			share = (double)bytes / (double)(bytes + lost);
		}
	}
	report_value(b, "journal of an exec", best, "GB/s");
	report_value(b, "journal of an exec: read in time", share * 100, "percent");
	return 0;
}

/* Run @argv with /dev/null as its output, or with a pipe that cat(1) reads; wait for
 * both. */
static int run_program(const char *const *argv, bool cat, struct warren_error *err)
{
	static const char *const cat_argv[] = { "/bin/cat", NULL };
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC), ends[2], status = 0, r = 0;
	pid_t pid = -1, reader = -1;

	if (null < 0)
		return error_errno(err, errno, "open /dev/null");
	if (cat) {
		if (pipe2(ends, O_CLOEXEC) < 0)
			return error_errno(err, errno, "create a pipe");
		r = start(cat_argv, ends[0], null, &reader, err);
	}
	if (r == 0)
		r = start(argv, -1, cat ? ends[1] : null, &pid, err);
	if (pid > 0)
		(void)waitpid(pid, &status, 0);
	if (reader > 0)
		(void)waitpid(reader, NULL, 0);
	if (r == 0 && status != 0)
		r = error_set(err, EIO, "'%s run' ended with %#x", argv[0],
			      (unsigned)status);
	return r;
}

static int by_program(struct bench *b, const struct writer *w, bool cat,
		      struct warren_error *err)
{
	const char *argv[16] = { b->warren, "run", "--quiet", "--" };
	double best = 0;
	size_t n = 4;

	for (size_t i = 0; w->argv[i] && n < ARRAY_SIZE(argv) - 1; i++)
		argv[n++] = w->argv[i];
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t t = clock_now();
		int r = run_program(argv, cat, err);
		double rate = gigabytes((uint64_t)b->mib << 20, clock_now() - t);

		if (r < 0)
			return r;
		if (rate > best)
			best = rate;
	}
	report_value(b, cat ? "warren run | cat" : "warren run > /dev/null", best,
		     "GB/s");
	return 0;
}

int bench_stream(struct bench *b, struct warren_error *err)
{
	char blocks[4][32];
	const char *small[] = { "/bin/dd", "if=/dev/zero", "bs=64k",
				blocks[0], "status=none",  NULL };
	const char *large[] = { "/bin/dd", "if=/dev/zero", "bs=1M",
				blocks[1], "status=none",  NULL };
	const char *head[] = { "/usr/bin/head", "-c", blocks[2], "/dev/zero", NULL };
	const struct writer writers[] = { { "dd bs=1M", large },
					  { "dd bs=64k", small },
					  { "head -c", head } };
	struct warren_error second = WARREN_ERROR_INIT;
	struct warren_sandbox *sb = NULL;
	struct warren *w = NULL;
	int r = engine_open(b, false, &w, err);

	(void)snprintf(blocks[0], sizeof(blocks[0]), "count=%u", b->mib * 16);
	(void)snprintf(blocks[1], sizeof(blocks[1]), "count=%u", b->mib);
	(void)snprintf(blocks[2], sizeof(blocks[2]), "%uM", b->mib);
	if (r == 0)
		r = warren_create(w, &(struct warren_spec){ 0 }, &sb, err);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(writers); i++)
		r = by_pipe(b, sb, &writers[i], err);
	if (r == 0)
		r = by_journal(b, sb, &writers[1], err);
	if (sb && warren_destroy(sb, &second) < 0 && r == 0) {
		*err = second;
		r = -second.code;
	}
	w = warren_close(w);
	if (r == 0 && b->warren)
		r = by_program(b, &writers[1], false, err);
	if (r == 0 && b->warren)
		r = by_program(b, &writers[1], true, err);
	return r;
}
