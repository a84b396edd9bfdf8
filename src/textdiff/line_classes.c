/* SPDX-License-Identifier: Apache-2.0 */
/* line_classes.c - number lines, so that equal lines have equal numbers */
#include <errno.h>
#include <string.h>
#include <sys/auxv.h>

#include "textdiff/diff_internal.h"

/* A line that stands for all that are equal to it; they are chained by hash. */
struct line_class {
	uint64_t hash;
	struct text text;
	uint32_t next; /* index + 1 of the next class in the chain; 0: none */
};

struct class_table {
	uint64_t seed;
	uint32_t *heads;
	uint32_t mask;
	struct line_class *v;
	uint32_t n;
};

static uint64_t class_mix(uint64_t a, uint64_t b)
{
	__uint128_t product = (__uint128_t)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/*
 * The seed is random, so that a file cannot be written whose lines all have the same
 * hash. The numbers of the classes do not depend on it.
 */
static uint64_t class_hash(uint64_t seed, struct text t)
{
	uint64_t h = seed ^ t.len, word;
	const char *p = t.data;
	size_t n = t.len;

	for (; n >= sizeof(word); p += sizeof(word), n -= sizeof(word)) {
		(void)memcpy(&word, p, sizeof(word));
		h = class_mix(h ^ word, seed | 0x9e3779b97f4a7c15U);
	}
	word = 0;
	if (n)
		(void)memcpy(&word, p, n);
	return class_mix(h ^ word, seed | 0xd6e8feb86659fd93U);
}

static uint32_t class_find(struct class_table *t, struct text line)
{
	uint64_t hash = class_hash(t->seed, line);
	uint32_t *head = &t->heads[hash & t->mask];

	for (uint32_t i = *head; i; i = t->v[i - 1].next)
		if (t->v[i - 1].hash == hash && text_equal(t->v[i - 1].text, line))
			return i - 1;
	t->v[t->n] = (struct line_class){ .hash = hash, .text = line, .next = *head };
	*head = ++t->n;
	return t->n - 1;
}

static void class_number(struct class_table *t, const struct text_lines *l,
			 struct line_range range, uint32_t *ret)
{
	for (uint32_t i = 0; i < range.n; i++)
		ret[i] = class_find(t, text_line(l, range.first + i));
}

int line_classes_make(const struct text_lines *old, struct line_range old_range,
		      const struct text_lines *new, struct line_range new_range,
		      struct line_classes *ret, struct warren_error *err)
{
	size_t total = (size_t)old_range.n + new_range.n, heads = 16;
	struct line_classes c = { 0 };
	struct class_table t = { 0 };
	const void *random = (const void *)getauxval(AT_RANDOM); // NOLINT

	if (random)
		(void)memcpy(&t.seed, random, sizeof(t.seed));
	while (heads < total)
		heads *= 2;
	t.mask = (uint32_t)(heads - 1);
	t.heads = calloc(heads, sizeof(*t.heads));
	t.v = calloc(total + 1, sizeof(*t.v));
	c.old = malloc((old_range.n + 1UL) * sizeof(*c.old));
	c.new = malloc((new_range.n + 1UL) * sizeof(*c.new));
	if (t.heads && t.v && c.old && c.new) {
		class_number(&t, old, old_range, c.old);
		class_number(&t, new, new_range, c.new);
		c.n = t.n;
	}
	free(t.heads);
	free(t.v);
	if (!t.heads || !t.v || !c.old || !c.new) {
		line_classes_done(&c);
		return error_errno(err, ENOMEM, "compare %zu lines", total);
	}
	*ret = c;
	return 0;
}

void line_classes_done(struct line_classes *c)
{
	free(c->old);
	free(c->new);
	*c = (struct line_classes){ 0 };
}
