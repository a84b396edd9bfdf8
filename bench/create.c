/* SPDX-License-Identifier: Apache-2.0 */
/*
 * create.c - a sandbox made, used once and destroyed, by one process; and where the time goes
 *
 * The steps are measured in rounds of their own: taking their times costs a
 * shared mapping. A step's time is counted from the end of the one before it on
 * its side; the child's first also holds the clone(2) that started it. The same for
 * sandboxes made of parts that were made ahead, which is not counted.
 */
#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#include "backend/backend.h"
#include "bench.h"

#define CHILD_STARTS "start the child"

int run_in(struct warren_sandbox *sb, const char *const *argv, struct warren_error *err)
{
	struct warren_result res = { 0 };
	struct warren_exec *ex = NULL;
	int r = warren_exec(sb, &(struct warren_exec_spec){ .argv = argv }, &ex, err);

	if (r == 0)
		r = warren_exec_wait(ex, -1, &res, err);
	ex = warren_exec_free(ex);
	if (r >= 0 && res.exit_code != 0)
		r = error_set(err, EIO, "'%s' ended with %d, signal %d", argv[0],
			      res.exit_code, res.signal);
	return r < 0 ? r : 0;
}

int run_on_host(const char *const *argv, int out, struct warren_error *err)
{
	posix_spawn_file_actions_t actions;
	char *const env[] = { NULL };
	int status = 0, r;
	pid_t pid;

	(void)posix_spawn_file_actions_init(&actions);
	if (out >= 0)
		(void)posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	r = posix_spawn(&pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv,
			env);
	(void)posix_spawn_file_actions_destroy(&actions);
	if (r != 0)
		return error_errno(err, r, "start '%s'", argv[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status == 0 ? 0
			   : error_set(err, EIO, "'%s' ended with %#x", argv[0],
				       (unsigned)status);
}

enum part {
	CREATE,
	EXEC,
	DESTROY,
	TOTAL,
	PARTS
};

/* A sandbox, of a part that is made before the clock starts if @b says so. */
static int create(struct bench *b, struct warren *w, struct warren_sandbox **ret,
		  uint64_t *ret_start, struct warren_error *err)
{
	struct warren_spec spec = { .durable = b->ahead };
	char id[WARREN_ID_SIZE];
	int r = b->ahead ? warren_prepare(w, id, err) : 0;

	*ret_start = clock_now();
	return r < 0 ? r : warren_create(w, &spec, ret, err);
}

static int cycle(struct bench *b, struct warren *w, uint64_t times[PARTS],
		 struct warren_error *err)
{
	static const char *const argv[] = { "/bin/true", NULL };
	struct warren_sandbox *sb = NULL;
	uint64_t t0, t1, t2, t3;
	int r = create(b, w, &sb, &t0, err);

	if (r < 0)
		return r;
	t1 = clock_now();
	r = run_in(sb, argv, err);
	t2 = clock_now();
	if (r < 0) {
		struct warren_error second = WARREN_ERROR_INIT;

		(void)warren_destroy(sb, &second);
		return r;
	}
	r = warren_destroy(sb, err);
	t3 = clock_now();
	times[CREATE] = t1 - t0;
	times[EXEC] = t2 - t1;
	times[DESTROY] = t3 - t2;
	times[TOTAL] = t3 - t0;
	return r;
}

static int measure_cycles(struct bench *b, struct warren *w, struct warren_error *err)
{
	static const char *const names[PARTS] = { "create", "exec /bin/true", "destroy",
						  "create+true+destroy" };
	struct series s[PARTS] = { 0 };
	uint64_t stop = clock_now() + b->seconds * 500000000ULL;
	int r = 0;

	for (size_t i = 0; r == 0 && i < PARTS; i++)
		r = series_init(&s[i], names[i], b->n, err);
	for (unsigned i = 0; r == 0 && i < b->n + b->warmup && clock_now() < stop; i++) {
		uint64_t times[PARTS] = { 0 };

		r = cycle(b, w, times, err);
		for (size_t k = 0; r == 0 && i >= b->warmup && k < PARTS; k++)
			series_add(&s[k], times[k]);
	}
	for (size_t i = 0; i < PARTS; i++) {
		if (r == 0)
			report_series(b, &s[i]);
		series_done(&s[i]);
	}
	return r;
}

struct trace {
	size_t n;
	int lane[BACKEND_STEPS_MAX];
	struct series took[BACKEND_STEPS_MAX];
	struct series ended[BACKEND_STEPS_MAX];
};

static int trace_init(struct trace *t, const struct warren_step *steps, size_t n,
		      size_t max, struct warren_error *err)
{
	int r = 0;

	t->n = n < BACKEND_STEPS_MAX ? n : BACKEND_STEPS_MAX;
	for (size_t i = 0; r == 0 && i < t->n; i++) {
		t->lane[i] = steps[i].lane;
		r = series_init(&t->took[i], steps[i].name, max, err);
		if (r == 0)
			r = series_init(&t->ended[i], steps[i].name, max, err);
	}
	return r;
}

static void trace_add(struct trace *t, const struct warren_step *steps)
{
	uint64_t last[WARREN_LANES] = { 0 };

	for (size_t i = 0; i < t->n; i++) {
		uint64_t *from = &last[steps[i].lane];

		if (strcmp(steps[i].name, CHILD_STARTS) == 0)
			last[1] = last[2] = last[0];
		series_add(&t->took[i], steps[i].ns > *from ? steps[i].ns - *from : 0);
		series_add(&t->ended[i], steps[i].ns);
		*from = steps[i].ns;
	}
}

static int trace_one(struct bench *b, struct warren *w, struct trace *t, bool keep,
		     struct warren_error *err)
{
	struct warren_sandbox *sb = NULL;
	const struct warren_step *steps;
	uint64_t start;
	size_t n = 0;
	int r = create(b, w, &sb, &start, err), r2;
	struct warren_error second = WARREN_ERROR_INIT;

	if (r < 0)
		return r;
	steps = warren_trace(sb, &n);
	if (keep && t->n == 0)
		r = trace_init(t, steps, n, b->n, err);
	if (keep && r == 0)
		trace_add(t, steps);
	r2 = warren_destroy(sb, &second);
	if (r == 0 && r2 < 0)
		*err = second;
	return r < 0 ? r : r2;
}

static int measure_steps(struct bench *b, struct warren_error *err)
{
	uint64_t stop = clock_now() + b->seconds * 500000000ULL;
	static struct trace t;
	struct warren *w = NULL;
	int r = engine_open(b, true, &w, err);

	t = (struct trace){ 0 };
	for (unsigned i = 0; r == 0 && i < b->n + b->warmup && clock_now() < stop; i++)
		r = trace_one(b, w, &t, i >= b->warmup, err);
	if (r == 0) {
		b->current = "steps";
		(void)printf("\n  %-27s %17s |%17s |%17s |%9s\n", "step",
			     "outside p50 mean", "inside p50 mean", "aside p50 mean",
			     "ends at");
		for (size_t i = 0; i < t.n; i++)
			report_step(b, &t.took[i], &t.ended[i], t.lane[i]);
	}
	for (size_t i = 0; i < t.n; i++) {
		series_done(&t.took[i]);
		series_done(&t.ended[i]);
	}
	w = warren_close(w);
	return r;
}

int bench_create(struct bench *b, struct warren_error *err)
{
	struct warren *w = NULL;
	int r = engine_open(b, false, &w, err);

	if (r == 0)
		r = measure_cycles(b, w, err);
	w = warren_close(w);
	return r < 0 ? r : measure_steps(b, err);
}

int bench_ahead(struct bench *b, struct warren_error *err)
{
	int r;

	b->ahead = true;
	r = bench_create(b, err);
	b->ahead = false;
	return r;
}
