/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alive.c - many idle sandboxes: what memory each takes, and what one more costs
 *
 * Memory is the machine's, before and after: what the kernel keeps for a
 * sandbox (namespaces, mounts, cgroups, stacks, page tables) shows nowhere
 * else. Two figures are taken, of which the larger counts: what MemAvailable
 * lost, and what all memory but the page cache gained.
 */
#include <errno.h>

#include "bench.h"

#define PROBES 60 /* sandboxes made and unmade to measure the cost of one more */
#define LEVELS 4

struct crowd {
	struct warren *w;
	struct warren_sandbox **v;
	unsigned n, max;
};

static int grow(struct crowd *c, unsigned to, uint64_t stop, struct warren_error *err)
{
	while (c->n < to && clock_now() < stop) {
		int r = warren_create(c->w, &(struct warren_spec){ 0 }, &c->v[c->n], err);

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
		int r = warren_destroy(c->v[--c->n], err);

		worst = r < 0 ? r : worst;
	}
	return worst;
}

/* What one more costs now, in nanoseconds at p50. */
static int probe(struct bench *b, struct crowd *c, uint64_t *ret_ns,
		 struct warren_error *err)
{
	AUTO_SERIES struct series create = { 0 }, destroy = { 0 };
	char names[2][64];
	int r;

	(void)snprintf(names[0], sizeof(names[0]), "create with %u alive", c->n);
	(void)snprintf(names[1], sizeof(names[1]), "destroy with %u alive", c->n);
	r = series_init(&create, names[0], PROBES, err);
	if (r == 0)
		r = series_init(&destroy, names[1], PROBES, err);
	for (int i = 0; r == 0 && i < PROBES; i++) {
		struct warren_sandbox *sb = NULL;
		uint64_t t0 = clock_now(), t1;

		r = warren_create(c->w, &(struct warren_spec){ 0 }, &sb, err);
		if (r < 0)
			break;
		t1 = clock_now();
		series_add(&create, t1 - t0);
		r = warren_destroy(sb, err);
		series_add(&destroy, clock_now() - t1);
	}
	if (r < 0)
		return r;
	report_series(b, &create);
	report_series(b, &destroy);
	*ret_ns = series_percentile(&create, 50);
	return 0;
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
	};
	double larger = (double)(rows[0].kb > rows[1].kb ? rows[0].kb : rows[1].kb);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		report_value(b, rows[i].name, (double)rows[i].kb / n, "KiB");
	report_value(b, "Pss of an init", (double)memory_of_children(50), "KiB");
	report_value(b, "memory each", larger / n / 1024, "MiB");
}

static int fill_and_measure(struct bench *b, struct crowd *c, struct warren_error *err)
{
	uint64_t stop = clock_now() + b->seconds * 1000000000ULL;
	uint64_t cost[LEVELS] = { 0 };
	struct memory before, after;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < LEVELS; i++) {
		/* none, a quarter, a half, all */
		r = grow(c, i == 0 ? 0 : c->max >> (LEVELS - 1 - i), stop, err);
		if (r == 0)
			r = probe(b, c, &cost[i], err);
		if (r == 0 && i == 0) {
			(void)sleep(1);
			memory_read(&before);
		}
	}
	if (r < 0)
		return r;
	(void)sleep(1); /* what the probes left is freed after them */
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

int bench_alive(struct bench *b, struct warren_error *err)
{
	struct crowd c = { .max = b->alive };
	struct warren_error second = WARREN_ERROR_INIT;
	struct counts before;
	uint64_t t, ignored;
	int r;

	counts_take(b, &before);
	c.v = calloc(c.max, sizeof(struct warren_sandbox *));
	if (!c.v)
		return error_set(err, ENOMEM, "make room for %u sandboxes", c.max);
	r = engine_open(b, false, &c.w, err);
	if (r == 0) {
		const char *name = b->current;

		b->current = "warm-up";
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
	c.w = warren_close(c.w);
	free(c.v);
	if (r == 0)
		report_value(b, "left behind", counts_report(b, &before), "of all kinds");
	return r;
}
