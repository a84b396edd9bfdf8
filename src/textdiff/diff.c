/* SPDX-License-Identifier: Apache-2.0 */
/*
 * diff.c - compare two texts by lines
 *
 * Lines that are equal at both ends are set aside. The others are numbered
 * (line_classes.c). Lines whose number is only in one of the texts are certainly changed,
 * and need not be searched for; the rest is compared by myers.c.
 */
#include "textdiff/diff.h"

#include <errno.h>
#include <string.h>

#include "textdiff/diff_internal.h"

/* What a line costs, compared with a step of myers.c: to find it; to number it. */
#define DIFF_LINE_WORK  4U
#define DIFF_CLASS_WORK 32U

/* What is known about the lines of one text. */
struct diff_side {
	struct line_range range; /* the lines that are not equal at the ends */
	const uint32_t *classes; /* of the lines in the range */
	uint8_t *changed;        /* of all lines, and one more, which stays 0 */
	uint32_t *common;        /* classes of the lines that both texts have */
	uint8_t *common_changed;
	uint32_t n;
};

static bool diff_line_equal(const struct text_diff *d, size_t i, size_t j)
{
	return text_equal(text_line(&d->old, i), text_line(&d->new, j));
}

static void diff_trim(const struct text_diff *d, struct diff_side *a, struct diff_side *b)
{
	size_t n = d->old.n < d->new.n ? d->old.n : d->new.n, head = 0, tail = 0;

	while (head < n && diff_line_equal(d, head, head))
		head++;
	while (tail < n - head &&
	       diff_line_equal(d, d->old.n - 1 - tail, d->new.n - 1 - tail))
		tail++;
	a->range =
		(struct line_range){ (uint32_t)head, (uint32_t)(d->old.n - head - tail) };
	b->range =
		(struct line_range){ (uint32_t)head, (uint32_t)(d->new.n - head - tail) };
}

/* Collect the lines whose class @in_other contains; the others are changed. */
static void diff_side_reduce(struct diff_side *s, const uint8_t *in_other)
{
	for (uint32_t i = 0; i < s->range.n; i++)
		if (in_other[s->classes[i]])
			s->common[s->n++] = s->classes[i];
		else
			s->changed[s->range.first + i] = 1;
}

/* Copy the result for the common lines to their places. */
static void diff_side_expand(struct diff_side *s, const uint8_t *in_other)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < s->range.n; i++)
		if (in_other[s->classes[i]])
			s->changed[s->range.first + i] = s->common_changed[at++];
}

static int diff_compare(struct diff_side *a, struct diff_side *b, uint32_t n_classes,
			uint64_t *work, struct warren_error *err)
{
	AUTO_FREE uint8_t *in_a = calloc(n_classes + 1UL, 1);
	AUTO_FREE uint8_t *in_b = calloc(n_classes + 1UL, 1);
	int r;

	if (!in_a || !in_b)
		return error_errno(err, ENOMEM, "compare %u lines", a->range.n);
	for (uint32_t i = 0; i < a->range.n; i++)
		in_a[a->classes[i]] = 1;
	for (uint32_t i = 0; i < b->range.n; i++)
		in_b[b->classes[i]] = 1;
	diff_side_reduce(a, in_b);
	diff_side_reduce(b, in_a);
	r = myers_compare(a->common, a->n, b->common, b->n, a->common_changed,
			  b->common_changed, work, err);
	if (r < 0)
		return r;
	diff_side_expand(a, in_b);
	diff_side_expand(b, in_a);
	return 0;
}

static bool diff_side_alloc(struct diff_side *s, size_t lines)
{
	s->changed = calloc(lines + 1, 1);
	s->common = malloc((s->range.n + 1UL) * sizeof(*s->common));
	s->common_changed = calloc(s->range.n + 1UL, 1);
	return s->changed && s->common && s->common_changed;
}

static void diff_side_done(struct diff_side *s)
{
	free(s->changed);
	free(s->common);
	free(s->common_changed);
}

/* Walk along both texts and call each run of changed lines an edit. */
static size_t diff_collect(const struct text_diff *d, const struct diff_side *a,
			   const struct diff_side *b, struct text_edit *v)
{
	uint32_t i = 0, j = 0;
	size_t n = 0;

	while (i < d->old.n || j < d->new.n) {
		struct text_edit e = { .old_at = i, .new_at = j };

		for (; a->changed[i]; i++)
			e.old_n++;
		for (; b->changed[j]; j++)
			e.new_n++;
		if (e.old_n || e.new_n) {
			if (v)
				v[n] = e;
			n++;
		} else {
			i++;
			j++;
		}
	}
	return n;
}

static int diff_edits(struct text_diff *d, struct diff_side *a, struct diff_side *b,
		      struct warren_error *err)
{
	struct line_classes c = { 0 };
	int r;

	if (!diff_side_alloc(a, d->old.n) || !diff_side_alloc(b, d->new.n))
		return error_errno(err, ENOMEM, "compare %zu lines", d->old.n);
	r = line_classes_make(&d->old, a->range, &d->new, b->range, &c, err);
	if (r < 0)
		return r;
	a->classes = c.old;
	b->classes = c.new;
	r = diff_compare(a, b, c.n, &d->work, err);
	line_classes_done(&c);
	if (r < 0)
		return r;
	d->n = diff_collect(d, a, b, NULL);
	d->v = malloc((d->n + 1) * sizeof(*d->v));
	if (!d->v)
		return error_errno(err, ENOMEM, "compare %zu lines", d->old.n);
	(void)diff_collect(d, a, b, d->v);
	return 0;
}

/* All of one text, or nothing, is between the equal lines at both ends. */
static int diff_one_edit(struct text_diff *d, const struct diff_side *a,
			 const struct diff_side *b, struct warren_error *err)
{
	if (!a->range.n && !b->range.n)
		return 0;
	d->v = malloc(sizeof(*d->v));
	if (!d->v)
		return error_errno(err, ENOMEM, "compare %zu lines", d->old.n);
	d->v[d->n++] = (struct text_edit){ a->range.first, a->range.n, b->range.first,
					   b->range.n };
	return 0;
}

int text_diff_make(struct text old, struct text new, struct text_diff *ret,
		   struct warren_error *err)
{
	AUTO_DIFF struct text_diff d = { 0 };
	struct diff_side a = { 0 }, b = { 0 };
	int r = text_lines_make(old, &d.old, err);

	if (r == 0)
		r = text_lines_make(new, &d.new, err);
	if (r < 0)
		return r;
	diff_trim(&d, &a, &b);
	d.work = DIFF_LINE_WORK * (uint64_t)(d.old.n + d.new.n);
	if (a.range.n && b.range.n) {
		d.work += DIFF_CLASS_WORK * ((uint64_t)a.range.n + b.range.n);
		r = diff_edits(&d, &a, &b, err);
	} else {
		r = diff_one_edit(&d, &a, &b, err);
	}
	diff_side_done(&a);
	diff_side_done(&b);
	if (r < 0)
		return r;
	diff_slide(&d);
	*ret = d;
	d = (struct text_diff){ 0 };
	return 0;
}

void text_diff_done(struct text_diff *d)
{
	text_lines_done(&d->old);
	text_lines_done(&d->new);
	free(d->v);
	*d = (struct text_diff){ 0 };
}

void text_diff_count(const struct text_diff *d, size_t *ret_added, size_t *ret_removed)
{
	*ret_added = *ret_removed = 0;
	for (size_t i = 0; i < d->n; i++) {
		*ret_added += d->v[i].new_n;
		*ret_removed += d->v[i].old_n;
	}
}
