/* SPDX-License-Identifier: Apache-2.0 */
/*
 * create.c - create a sandbox, use it once and destroy it, in one process; and the time
 * of each step
 *
 * The steps are measured in separate rounds, because measuring them needs a shared
 * mapping. The time of a step begins at the end of the previous step of the same process;
 * the child's first step also includes the clone(2) that started it. The same is measured
 * for sandboxes from prepared parts; preparing them is not counted.
 */
#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#include "backend/backend.h"
#include "bench.h"

#define CHILD_STARTS "start the child"

static const char *const true_argv[] = { "/bin/true", NULL };

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

/* The parts of a cycle, in order; a part ends where the next one begins. */
enum part {
	CREATE,
	EXEC,
	DESTROY,
	TOTAL,
	PARTS
};

/* Create a sandbox; if @b says so, from a part that is prepared before the clock
 * starts. */
static int create(struct bench *b, struct warren *w, struct warren_sandbox **ret,
		  uint64_t *ret_start, struct warren_error *err)
{
	struct warren_spec spec = { .durable = b->ahead };
	char id[WARREN_ID_SIZE];
	int r = b->ahead ? warren_prepare(w, id, err) : 0;

	*ret_start = clock_now();
	return r < 0 ? r : warren_create(w, &spec, ret, err);
}

static int cycle(struct bench *b, struct warren *w, uint64_t ends[PARTS + 1],
		 struct warren_error *err)
{
	struct warren_sandbox *sb = NULL;
	int r = create(b, w, &sb, &ends[0], err);

	if (r < 0)
		return r;
	ends[1] = clock_now();
	r = run_in(sb, true_argv, err);
	ends[2] = clock_now();
	if (r < 0) {
		struct warren_error second = WARREN_ERROR_INIT;

		(void)warren_destroy(sb, &second);
		return r;
	}
	r = warren_destroy(sb, err);
	ends[3] = clock_now();
	return r;
}

/* Do the same with bare kernel objects, and /bin/true on the host. */
static int floor_cycle(void *floor, uint64_t ends[PARTS + 1], struct warren_error *err)
{
	void *sandbox = NULL;
	int r, r2;

	ends[0] = clock_now();
	r = maker_floor.make(floor, &sandbox, err);
	if (r < 0)
		return r;
	ends[1] = clock_now();
	r = run_on_host(true_argv, -1, err);
	ends[2] = clock_now();
	r2 = maker_floor.unmake(sandbox, err);
	ends[3] = clock_now();
	return r < 0 ? r : r2;
}

static void keep(struct series s[PARTS], const uint64_t ends[PARTS + 1])
{
	for (size_t i = CREATE; i < TOTAL; i++)
		series_add(&s[i], ends[i + 1] - ends[i]);
	series_add(&s[TOTAL], ends[TOTAL] - ends[CREATE]);
}

/* By turns. */
static int measure_cycles(struct bench *b, struct warren *w, void *floor,
			  struct warren_error *err)
{
	static const char *const names[PARTS] = { "create", "exec /bin/true", "destroy",
						  "create+true+destroy" };
	struct series ours[PARTS] = { 0 }, floors[PARTS] = { 0 };
	uint64_t stop = clock_now() + b->seconds * 500000000ULL;
	int r = 0;

	for (size_t i = 0; r == 0 && i < PARTS; i++) {
		r = series_init(&ours[i], names[i], b->n, err);
		if (r == 0)
			r = series_init(&floors[i], names[i], b->n, err);
	}
	for (unsigned i = 0; r == 0 && i < b->n + b->warmup && clock_now() < stop; i++) {
		uint64_t ends[PARTS + 1] = { 0 }, floor_ends[PARTS + 1] = { 0 };

		r = cycle(b, w, ends, err);
		if (r == 0 && floor)
			r = floor_cycle(floor, floor_ends, err);
		if (r < 0 || i < b->warmup)
			continue;
		keep(ours, ends);
		if (floor)
			keep(floors, floor_ends);
	}
	for (size_t i = 0; i < PARTS; i++) {
		b->prefix = maker_floor.prefix;
		if (r == 0 && floor)
			report_series(b, &floors[i]);
		b->prefix = maker_warren.prefix;
		if (r == 0)
			report_series(b, &ours[i]);
		series_done(&floors[i]);
		series_done(&ours[i]);
	}
	return r;
}

/* The times of the steps that the first create of a run had. */
struct trace {
	size_t n;
	unsigned left_out; /* number of creates with other steps */
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

static bool trace_has(const struct trace *t, const struct warren_step *steps, size_t n)
{
	if (t->n != (n < BACKEND_STEPS_MAX ? n : BACKEND_STEPS_MAX))
		return false;
	for (size_t i = 0; i < t->n; i++)
		if (t->lane[i] != steps[i].lane ||
		    strcmp(t->took[i].name, steps[i].name) != 0)
			return false;
	return true;
}

/*
 * If a part is claimed before it is complete, the create has additional steps, and is not
 * counted.
 */
static void trace_add(struct trace *t, const struct warren_step *steps, size_t n)
{
	uint64_t last[WARREN_LANES] = { 0 };

	if (!trace_has(t, steps, n)) {
		t->left_out++;
		return;
	}
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
		trace_add(t, steps, n);
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
		if (t.left_out > 0)
			(void)printf("  %u of %u creates had other steps than the first, "
				     "and are left out\n",
				     t.left_out, t.left_out + (unsigned)t.took[0].n);
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
	void *floor = NULL;
	int r = engine_open(b, false, &w, err);

	if (r == 0 && !b->ahead)
		r = maker_floor.open(b, &floor, err);
	if (r == 0)
		r = measure_cycles(b, w, floor, err);
	if (floor)
		maker_floor.close(floor);
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
