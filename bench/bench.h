/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench.h - what the benchmarks share: settings, series of samples, reports, counts
 *
 *	bench.c		the options and the table of benchmarks
 *	sample.c	series, percentiles, the table and the JSON lines
 *	count.c		what of a machine can leak, and how much memory is used
 *	maker.c		what makes sandboxes: our engine
 *	floor.c		the same kernel objects, and nothing else
 *	create.c	create, true, destroy, and the steps of a create
 *	exec.c		execs in a live sandbox, pause and resume
 *	session.c	commands of a stateful shell, without a sandbox
 *	rate.c		creates per second by several processes, and what they leave
 *	alive.c		many sandboxes alive: memory, and the cost of one more
 *	stream.c	bytes per second out of an exec
 *
 * Every benchmark is bounded by a number of rounds and by time, reports what it
 * measured as it goes, and destroys what it made. Where something of the host's
 * or bare kernel objects are the floor, its rounds alternate with ours, so that a noisy
 * neighbour is everybody's.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdint.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"

struct bench {
	unsigned n;         /* rounds of a latency benchmark */
	unsigned warmup;    /* rounds before, not counted */
	unsigned seconds;   /* at most, for each benchmark */
	unsigned workers;   /* processes that create at once */
	unsigned alive;     /* sandboxes at once */
	unsigned mib;       /* to stream */
	const char *warren; /* the program; NULL: not measured */
	char run_dir[64];
	FILE *json; /* NULL: none */
	const char *current;
	const char *prefix; /* of the names of what is reported */
	bool ahead;         /* sandboxes are made of parts */
};

/* -------------------------------------------------------------- sample.c */

struct series {
	const char *name;
	uint64_t *ns;
	size_t n, max;
};

int series_init(struct series *s, const char *name, size_t max, struct warren_error *err);
void series_done(struct series *s);
void series_add(struct series *s, uint64_t ns);
/* The sample that @percent of them do not exceed; sorts. 0 when there are none. */
uint64_t series_percentile(struct series *s, unsigned percent);
uint64_t series_mean(const struct series *s);

#define AUTO_SERIES CLEANUP(series_done)

void report_heading(struct bench *b, const char *text);
/* A row of times, in microseconds. */
void report_series(struct bench *b, struct series *s);
/* One figure, with three decimals. */
void report_value(struct bench *b, const char *name, double value, const char *unit);
/* A step of a create, in microseconds. */
void report_step(struct bench *b, struct series *took, struct series *ended, int lane);

/* --------------------------------------------------------------- count.c */

enum count {
	COUNT_PROCESSES,  /* descendants of ours, zombies too */
	COUNT_MOUNTS,     /* in our mount namespace */
	COUNT_CGROUPS,    /* of all sandboxes */
	COUNT_NAMESPACES, /* that any process is in */
	COUNT_LOOPS,      /* loop devices in use */
	COUNT_FDS,        /* of ours */
	COUNT_FILES,      /* in the run directory */
	COUNT_MAX
};

struct counts {
	unsigned v[COUNT_MAX];
};

void counts_take(const struct bench *b, struct counts *ret);
/*
 * Report before and after, and the sum of what is more; waits for what is on its way out.
 */
unsigned counts_report(struct bench *b, const struct counts *before);

struct memory {
	uint64_t available; /* kB, as all of these */
	uint64_t in_use;    /* all but free memory and the page cache; tmpfs is in use */
	uint64_t slab, percpu, stacks, page_tables, anon, shmem;
	uint64_t objects; /* of the slab, what is in use; the rest is kept for others */
};

void memory_read(struct memory *ret);
/* The mean proportional set size of our children, in kB; of at most @max of them. */
uint64_t memory_of_children(unsigned max);

/* ------------------------------------------------------------ benchmarks */

/*
 * What is measured: our engine, or the kernel's floor. Its sandboxes are all destroyed
 * before it is closed.
 */
struct maker {
	const char *prefix; /* of the names of its figures */
	int (*open)(const struct bench *b, void **ret, struct warren_error *err);
	void (*close)(void *state);
	int (*make)(void *state, void **ret_sandbox, struct warren_error *err);
	int (*unmake)(void *sandbox, struct warren_error *err);
};

extern const struct maker maker_warren, maker_floor;
/* Ours first: who comes after finds memory in the kernel's caches, and looks smaller. */
extern const struct maker *const makers[2];

int engine_open(const struct bench *b, bool trace, struct warren **ret,
		struct warren_error *err);
/* Start @argv in @sb with nothing connected, wait for it, and expect 0. */
int run_in(struct warren_sandbox *sb, const char *const *argv, struct warren_error *err);
/* The same on the host. */
int run_on_host(const char *const *argv, int out, struct warren_error *err);

int bench_create(struct bench *b, struct warren_error *err);
int bench_ahead(struct bench *b, struct warren_error *err);
int bench_exec(struct bench *b, struct warren_error *err);
int bench_session(struct bench *b, struct warren_error *err);
int bench_pause(struct bench *b, struct warren_error *err);
int bench_rate(struct bench *b, struct warren_error *err);
int bench_alive(struct bench *b, struct warren_error *err);
int bench_stream(struct bench *b, struct warren_error *err);

#endif /* BENCH_BENCH_H */
