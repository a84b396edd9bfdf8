/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample.c - series of samples, and their output: a table for people, and lines of JSON
 */
#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "bench.h"

#define NAME_WIDTH 36

int series_init(struct series *s, const char *name, size_t max, struct warren_error *err)
{
	*s = (struct series){ .name = name, .max = max };
	s->ns = calloc(max ? max : 1, sizeof(*s->ns));
	return s->ns ? 0 : error_errno(err, ENOMEM, "make room for %zu samples", max);
}

void series_done(struct series *s)
{
	free(s->ns);
	s->ns = NULL;
}

void series_add(struct series *s, uint64_t ns)
{
	if (s->n < s->max)
		s->ns[s->n++] = ns;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

uint64_t series_percentile(struct series *s, unsigned percent)
{
	if (s->n == 0)
		return 0;
	qsort(s->ns, s->n, sizeof(*s->ns), compare);
	return s->ns[(s->n - 1) * percent / 100];
}

uint64_t series_mean(const struct series *s)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < s->n; i++)
		sum += s->ns[i];
	return s->n ? sum / s->n : 0;
}

void report_heading(struct bench *b UNUSED, const char *text)
{
	(void)printf("  %s\n", text);
}

/*
 * Open an object with the members that all lines have; the caller adds more, and ends the
 * line.
 */
static void line_open(const struct bench *b, struct json *j, const char *name)
{
	char full[128];

	(void)snprintf(full, sizeof(full), "%s%s", b->prefix, name);
	json_open(j, NULL, '{');
	json_str(j, "bench", b->current);
	json_str(j, "name", full);
}

static void line_close(struct bench *b, struct json *j)
{
	json_close(j, '}');
	if (b->json && !j->out->failed)
		(void)fprintf(b->json, "%s\n", j->out->data);
}

void report_series(struct bench *b, struct series *s)
{
	AUTO_BUF struct buf line = BUF_INIT(4096);
	struct json j = { .out = &line };
	uint64_t p50 = series_percentile(s, 50), p99 = series_percentile(s, 99);
	uint64_t min = series_percentile(s, 0), mean = series_mean(s);

	(void)printf("  %s%-*s p50 %9.1f  p99 %9.1f  min %9.1f  mean %9.1f us  n %zu\n",
		     b->prefix, NAME_WIDTH - (int)strlen(b->prefix), s->name,
		     (double)p50 / 1e3, (double)p99 / 1e3, (double)min / 1e3,
		     (double)mean / 1e3, s->n);
	line_open(b, &j, s->name);
	json_str(&j, "unit", "us");
	json_milli(&j, "p50", p50);
	json_milli(&j, "p99", p99);
	json_milli(&j, "min", min);
	json_milli(&j, "mean", mean);
	json_u64(&j, "n", s->n);
	line_close(b, &j);
}

void report_value(struct bench *b, const char *name, double value, const char *unit)
{
	AUTO_BUF struct buf line = BUF_INIT(4096);
	struct json j = { .out = &line };

	(void)printf("  %s%-*s %13.3f %s\n", b->prefix,
		     NAME_WIDTH - (int)strlen(b->prefix), name, value, unit);
	line_open(b, &j, name);
	json_str(&j, "unit", unit);
	/* A negative leak was caused by another process. */
	json_milli(&j, "value", value > 0 ? (uint64_t)(value * 1000 + 0.5) : 0);
	line_close(b, &j);
}

void report_step(struct bench *b, struct series *took, struct series *ended, int lane)
{
	AUTO_BUF struct buf line = BUF_INIT(4096);
	struct json j = { .out = &line };
	uint64_t p50 = series_percentile(took, 50), mean = series_mean(took);
	uint64_t end = series_percentile(ended, 50);
	char in[WARREN_LANES][32] = { "" };

	(void)snprintf(in[lane], sizeof(in[lane]), "%8.1f %8.1f", (double)p50 / 1e3,
		       (double)mean / 1e3);
	(void)printf("  %-27s %17s |%17s |%17s |%9.1f\n", took->name, in[0], in[1], in[2],
		     (double)end / 1e3);
	line_open(b, &j, took->name);
	json_str(&j, "unit", "us");
	json_u64(&j, "lane", (uint64_t)lane);
	json_milli(&j, "p50", p50);
	json_milli(&j, "mean", mean);
	json_milli(&j, "end_p50", end);
	json_u64(&j, "n", took->n);
	line_close(b, &j);
}
