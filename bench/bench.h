/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench.h - shared by the benchmarks: settings, series of samples, reports, counts
 *
 *	bench.c		the options and the table of benchmarks
 *	sample.c	series, percentiles, the table and the JSON lines
 *	count.c		count what can leak, and the memory in use
 *	maker.c		create sandboxes with Warren's engine
 *	floor.c		create only the same kernel objects
 *	create.c	create, true, destroy, and the steps of a create
 *	exec.c		execs in a live sandbox, pause and resume
 *	session.c	commands of a stateful shell, without a sandbox
 *	rate.c		creates per second by several processes, and leftovers
 *	alive.c		many sandboxes alive: memory, and the cost of one more
 *	stream.c	bytes per second out of an exec
 *
 * Every benchmark has a limit of rounds and of time, reports its results while it runs,
 * and destroys what it creates. If there is a floor (a program on the host, or bare
 * kernel objects), its rounds alternate with Warren's, so that other load on the machine
 * affects both.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdint.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"

struct bench {
	unsigned n;         /* rounds of a latency benchmark */
	unsigned warmup;    /* rounds before these, which are not counted */
	unsigned seconds;   /* maximum time of each benchmark */
	unsigned workers;   /* number of processes that create at the same time */
	unsigned alive;     /* number of sandboxes alive at the same time */
	unsigned mib;       /* to stream */
	const char *warren; /* the program to measure; NULL: none */
	char run_dir[64];
	FILE *json; /* NULL: none */
	const char *current;
	const char *prefix; /* prefix of all reported names */
	bool ahead;         /* sandboxes are created from prepared parts */
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
/* Return the sample that @percent of the samples do not exceed; sorts them. 0: there are
 * none. */
uint64_t series_percentile(struct series *s, unsigned percent);
uint64_t series_mean(const struct series *s);

#define AUTO_SERIES CLEANUP(series_done)

void report_heading(struct bench *b, const char *text);
/* Report a row of times, in microseconds. */
void report_series(struct bench *b, struct series *s);
/* Report one figure, with three decimals. */
void report_value(struct bench *b, const char *name, double value, const char *unit);
/* Report a step of a create, in microseconds. */
void report_step(struct bench *b, struct series *took, struct series *ended, int lane);

/* --------------------------------------------------------------- count.c */

enum count {
	COUNT_PROCESSES,  /* descendants of this process, including zombies */
	COUNT_MOUNTS,     /* mounts in this mount namespace */
	COUNT_CGROUPS,    /* cgroups of all sandboxes */
	COUNT_NAMESPACES, /* namespaces that contain a process */
	COUNT_LOOPS,      /* loop devices in use */
	COUNT_FDS,        /* of ours */
	COUNT_FILES,      /* files in the run directory */
	COUNT_MAX
};

struct counts {
	unsigned v[COUNT_MAX];
};

void counts_take(const struct bench *b, struct counts *ret);
/*
 * Report the counts before and after, and the sum of the increases; wait for objects that
 * are being removed.
 */
unsigned counts_report(struct bench *b, const struct counts *before);

struct memory {
	uint64_t available; /* in kB, like all of these */
	uint64_t in_use;    /* all memory except free memory and the page cache; includes
			       tmpfs */
	uint64_t slab, percpu, stacks, page_tables, anon, shmem;
	uint64_t objects; /* slab memory in use, without what is kept for later use */
};

void memory_read(struct memory *ret);
/* Return the mean proportional set size of the children, in kB, for at most @max of
 * them. */
uint64_t memory_of_children(unsigned max);

/* ------------------------------------------------------------ benchmarks */

/*
 * Something that creates sandboxes: Warren's engine, or the floor. All its sandboxes are
 * destroyed before it is closed.
 */
struct maker {
	const char *prefix; /* prefix of the names of its figures */
	int (*open)(const struct bench *b, void **ret, struct warren_error *err);
	void (*close)(void *state);
	int (*make)(void *state, void **ret_sandbox, struct warren_error *err);
	int (*unmake)(void *sandbox, struct warren_error *err);
};

extern const struct maker maker_warren, maker_floor;
/* Warren comes first: the second one finds memory in the kernel's caches, and looks
 * smaller. */
extern const struct maker *const makers[2];

int engine_open(const struct bench *b, bool trace, struct warren **ret,
		struct warren_error *err);
/* Run @argv in @sb without streams, wait for it, and expect the exit code 0. */
int run_in(struct warren_sandbox *sb, const char *const *argv, struct warren_error *err);
/* Do the same on the host. */
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
