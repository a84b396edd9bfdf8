/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.c - operations on a running sandbox: execs, pause and resume
 *
 * Rounds of the different ways to run a command alternate. One of them runs the command
 * on the host, with a vfork(2), an execve(2) and a wait, which is the minimum for any
 * exec.
 */
#include <signal.h>

#include "bench.h"

struct way {
	const char *name;
	const char *const *argv;
	bool host;
	enum warren_stdio out;
};

static const char *const true_argv[] = { "/bin/true", NULL };
static const char *const true_by_path[] = { "true", NULL };

static const struct way ways[] = {
	{ "floor: the host's own", true_argv, true, WARREN_STDIO_NULL },
	{ "exec /bin/true", true_argv, false, WARREN_STDIO_NULL },
	{ "exec true, by PATH", true_by_path, false, WARREN_STDIO_NULL },
	{ "exec /bin/true, output by pipes", true_argv, false, WARREN_STDIO_PIPE },
	{ "exec /bin/true, output by journal", true_argv, false, WARREN_STDIO_JOURNAL },
};

static int once(struct warren_sandbox *sb, const struct way *way,
		struct warren_error *err)
{
	const struct warren_exec_spec spec = { .argv = way->argv,
					       .out = way->out,
					       .err = way->out };
	struct warren_exec *ex = NULL;
	struct warren_result res;
	int r;

	if (way->host)
		return run_on_host(way->argv, -1, err);
	r = warren_exec(sb, &spec, &ex, err);
	if (r == 0)
		r = warren_exec_wait(ex, -1, &res, err);
	ex = warren_exec_free(ex);
	return r < 0 ? r : 0;
}

static int measure_ways(struct bench *b, struct warren_sandbox *sb,
			struct warren_error *err)
{
	uint64_t stop = clock_now() + b->seconds * 1000000000ULL;
	struct series s[ARRAY_SIZE(ways)] = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(ways); i++)
		r = series_init(&s[i], ways[i].name, b->n, err);
	for (unsigned i = 0; r == 0 && i < b->n + b->warmup && clock_now() < stop; i++) {
		for (size_t k = 0; r == 0 && k < ARRAY_SIZE(ways); k++) {
			uint64_t t = clock_now();

			r = once(sb, &ways[k], err);
			if (i >= b->warmup)
				series_add(&s[k], clock_now() - t);
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		if (r == 0)
			report_series(b, &s[i]);
		series_done(&s[i]);
	}
	return r;
}

/* Call @use with a running sandbox. */
static int with_sandbox(struct bench *b,
			int (*use)(struct bench *b, struct warren_sandbox *sb,
				   struct warren_error *err),
			struct warren_error *err)
{
	struct warren_sandbox *sb = NULL;
	struct warren *w = NULL;
	int r = engine_open(b, false, &w, err);

	if (r == 0)
		r = warren_create(w, &(struct warren_spec){ 0 }, &sb, err);
	if (r == 0)
		r = use(b, sb, err);
	if (sb) {
		struct warren_error second = WARREN_ERROR_INIT;
		int r2 = warren_destroy(sb, &second);

		if (r == 0 && r2 < 0)
			*err = second;
		r = r < 0 ? r : r2;
	}
	w = warren_close(w);
	return r;
}

int bench_exec(struct bench *b, struct warren_error *err)
{
	return with_sandbox(b, measure_ways, err);
}

static int measure_pause(struct bench *b, struct warren_sandbox *sb,
			 struct warren_error *err)
{
	uint64_t stop = clock_now() + b->seconds * 1000000000ULL;
	AUTO_SERIES struct series pause = { 0 }, resume = { 0 }, both = { 0 };
	int r = series_init(&pause, "pause", b->n, err);

	if (r == 0)
		r = series_init(&resume, "resume", b->n, err);
	if (r == 0)
		r = series_init(&both, "pause+resume", b->n, err);
	for (unsigned i = 0; r == 0 && i < b->n + b->warmup && clock_now() < stop; i++) {
		uint64_t t0 = clock_now(), t1, t2;

		r = warren_pause(sb, err);
		t1 = clock_now();
		if (r == 0)
			r = warren_resume(sb, err);
		t2 = clock_now();
		if (r < 0 || i < b->warmup)
			continue;
		series_add(&pause, t1 - t0);
		series_add(&resume, t2 - t1);
		series_add(&both, t2 - t0);
	}
	if (r < 0)
		return r;
	report_series(b, &pause);
	report_series(b, &resume);
	report_series(b, &both);
	return 0;
}

/* Start a process in the sandbox, which can be paused. */
static int pause_sleeper(struct bench *b, struct warren_sandbox *sb,
			 struct warren_error *err)
{
	static const char *const argv[] = { "/bin/sleep", "600", NULL };
	struct warren_error second = WARREN_ERROR_INIT;
	struct warren_exec *ex = NULL;
	struct warren_result res;
	int r = warren_exec(sb, &(struct warren_exec_spec){ .argv = argv }, &ex, err);

	if (r < 0)
		return r;
	r = measure_pause(b, sb, err);
	if (warren_exec_signal(ex, SIGKILL, &second) == 0)
		(void)warren_exec_wait(ex, 5000, &res, &second);
	ex = warren_exec_free(ex);
	return r;
}

int bench_pause(struct bench *b, struct warren_error *err)
{
	return with_sandbox(b, pause_sleeper, err);
}
