/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alive.c - many idle sandboxes: the memory of each, and the cost of one more
 *
 * The memory of the whole machine is measured before and after, because the kernel's
 * memory for a sandbox (namespaces, mounts, cgroups, stacks, page tables) is not visible
 * elsewhere. Of two figures, the larger counts: the decrease of MemAvailable, and the
 * increase of all memory except the page cache. The kernel objects alone (the floor) are
 * measured after Warren, so memory that the kernel has not freed yet makes the floor look
 * smaller, not Warren.
 */
#include <errno.h>

#include "bench.h"

/* Number of sandboxes created and destroyed to measure the cost of one more. */
#define PROBES    60
#define LEVELS    4
#define SETTLE_US 500000 /* time for the kernel to finish its work after a destroy */
#define SETTLE_S  1

struct crowd {
	const struct maker *maker;
	void *state;
	void **v;
	unsigned n, max;
};

static int grow(struct crowd *c, unsigned to, uint64_t stop, struct warren_error *err)
{
	while (c->n < to && clock_now() < stop) {
		int r = c->maker->make(c->state, &c->v[c->n], err);

		if (r < 0)
			return error_wrap(err, "with %u alive", c->n);
		c->n++;
	}
	return 0;
}

static int shrink(struct crowd *c, struct warren_error *err)
{
	int worst = 0;

	while (c->n > 0) {
		int r = c->maker->unmake(c->v[--c->n], err);

		worst = r < 0 ? r : worst;
	}
	return worst;
}

/*
 * Measure the cost of more sandboxes: create some in a row and destroy them, and replace
 * some one by one. A replacement also includes the kernel's work after a destroy.
 */
static int probe_row(struct crowd *c, struct series *create, struct series *destroy,
		     struct warren_error *err)
{
	void *sandbox[PROBES];
	int n = 0, r = 0;

	while (r == 0 && n < PROBES) {
		uint64_t t = clock_now();

		r = c->maker->make(c->state, &sandbox[n], err);
		series_add(create, clock_now() - t);
		n += r == 0;
	}
	while (n > 0) {
		struct warren_error second = WARREN_ERROR_INIT;
		uint64_t t = clock_now();
		int r2 = c->maker->unmake(sandbox[--n], &second);

		series_add(destroy, clock_now() - t);
		if (r == 0 && r2 < 0) {
			*err = second;
			r = r2;
		}
	}
	return r;
}

static int probe_replace(struct crowd *c, struct series *replace,
			 struct warren_error *err)
{
	void *sandbox = NULL;
	int r = c->maker->make(c->state, &sandbox, err);

	for (int i = 0; r == 0 && i < PROBES; i++) {
		uint64_t t = clock_now();

		r = c->maker->unmake(TAKE_PTR(sandbox), err);
		if (r == 0)
			r = c->maker->make(c->state, &sandbox, err);
		series_add(replace, clock_now() - t);
	}
	return r < 0 ? r : c->maker->unmake(sandbox, err);
}

/* *@ret_ns is the median time of a create. */
static int probe(struct bench *b, struct crowd *c, uint64_t *ret_ns,
		 struct warren_error *err)
{
	static const char *const what[] = { "create", "destroy", "destroy, create" };
	struct series s[ARRAY_SIZE(what)] = { 0 };
	char names[ARRAY_SIZE(what)][64];
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(what); i++) {
		(void)snprintf(names[i], sizeof(names[i]), "%s with %u alive", what[i],
			       c->n);
		r = series_init(&s[i], names[i], PROBES, err);
	}
	if (r == 0)
		r = probe_row(c, &s[0], &s[1], err);
	(void)usleep(SETTLE_US);
	if (r == 0)
		r = probe_replace(c, &s[2], err);
	(void)usleep(SETTLE_US);
	for (size_t i = 0; i < ARRAY_SIZE(what); i++) {
		if (r == 0 && b->current)
			report_series(b, &s[i]);
		if (i == 0)
			*ret_ns = series_percentile(&s[i], 50);
		series_done(&s[i]);
	}
	return r;
}

/* Return the memory that is in use, without free slab memory that is left from
 * earlier. */
static int64_t has(const struct memory *m)
{
	return (int64_t)(m->objects + m->percpu + m->stacks + m->page_tables + m->anon +
			 m->shmem);
}

static void report_memory(struct bench *b, const struct memory *before,
			  const struct memory *after, unsigned n)
{
	const struct {
		const char *name;
		int64_t kb;
	} rows[] = {
		{ "memory each, by MemAvailable",
		  (int64_t)(before->available - after->available) },
		{ "memory each, all but the cache",
		  (int64_t)(after->in_use - before->in_use) },
		{ "  of which slab", (int64_t)(after->slab - before->slab) },
		{ "  of which percpu", (int64_t)(after->percpu - before->percpu) },
		{ "  of which kernel stacks", (int64_t)(after->stacks - before->stacks) },
		{ "  of which page tables",
		  (int64_t)(after->page_tables - before->page_tables) },
		{ "  of which anonymous", (int64_t)(after->anon - before->anon) },
		{ "  of which tmpfs", (int64_t)(after->shmem - before->shmem) },
		{ "objects of the slab in use",
		  (int64_t)(after->objects - before->objects) },
	};
	double larger = (double)(rows[0].kb > rows[1].kb ? rows[0].kb : rows[1].kb);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		report_value(b, rows[i].name, (double)rows[i].kb / n, "KiB");
	report_value(b, "Pss of an init", (double)memory_of_children(50), "KiB");
	if (after->objects)
		report_value(b, "objects in use, each",
			     (double)(has(after) - has(before)) / n / 1024, "MiB");
	report_value(b, "memory each", larger / n / 1024, "MiB");
}

static int fill_and_measure(struct bench *b, struct crowd *c, struct warren_error *err)
{
	uint64_t stop = clock_now() + b->seconds * 1000000000ULL;
	uint64_t cost[LEVELS] = { 0 };
	struct memory before, after;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < LEVELS; i++) {
		/* none, a quarter, half, all */
		r = grow(c, i == 0 ? 0 : c->max >> (LEVELS - 1 - i), stop, err);
		if (r == 0)
			r = probe(b, c, &cost[i], err);
		if (r == 0 && i == 0) {
			(void)sleep(SETTLE_S);
			memory_read(&before);
		}
	}
	if (r < 0)
		return r;
	(void)sleep(SETTLE_S); /* the kernel frees the memory of the probes later */
	memory_read(&after);
	report_value(b, "alive", c->n, "sandboxes");
	if (c->n < c->max)
		report_heading(b, "fewer than asked for: time was up");
	if (c->n == 0)
		return 0;
	report_memory(b, &before, &after, c->n);
	report_value(b, "create with all alive, to with none",
		     cost[0] ? (double)cost[LEVELS - 1] / (double)cost[0] : 0, "times");
	return 0;
}

static int measure(struct bench *b, const struct maker *maker, struct warren_error *err)
{
	struct crowd c = { .maker = maker, .max = b->alive };
	struct warren_error second = WARREN_ERROR_INIT;
	uint64_t t, ignored;
	int r;

	c.v = calloc(c.max, sizeof(*c.v));
	if (!c.v)
		return error_set(err, ENOMEM, "make room for %u sandboxes", c.max);
	r = maker->open(b, &c.state, err);
	if (r == 0) {
		const char *name = b->current;

		b->current = NULL; /* a warm-up that is not reported */
		r = probe(b, &c, &ignored, err);
		b->current = name;
	}
	if (r == 0)
		r = fill_and_measure(b, &c, err);
	t = clock_now();
	if (shrink(&c, &second) < 0 && r == 0) {
		*err = second;
		r = -second.code;
	}
	if (r == 0)
		report_value(b, "destroy all", (double)(clock_now() - t) / 1e6, "ms");
	if (c.state)
		maker->close(c.state);
	free(c.v);
	return r;
}

int bench_alive(struct bench *b, struct warren_error *err)
{
	struct counts before;
	int r = 0;

	counts_take(b, &before);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(makers); i++) {
		b->prefix = makers[i]->prefix;
		r = measure(b, makers[i], err);
	}
	b->prefix = "";
	if (r == 0)
		report_value(b, "left behind", counts_report(b, &before), "of all kinds");
	return r;
}
