/* SPDX-License-Identifier: Apache-2.0 */
/*
 * diff_slide.c - choose where added or removed lines are described
 *
 * If "}\n" follows lines that were added and that end with "}\n", the edit can begin and
 * end one line earlier with the same result. Such an edit slides to where it touches
 * another one, which makes fewer edits; otherwise to where it begins and ends between
 * blocks: after an empty line, and before lines that are not indented.
 */
#include "textdiff/diff_internal.h"

enum {
	TAB = 8,
	INDENT_MAX = 200,
	LOOK_MAX = 20,    /* empty lines to skip in search of an indented one */
	PLACES_MAX = 100, /* places to compare */
	/* Lines to compare at most, in total. */
	WORK_BASE = 1 << 20,
	WORK_PER_LINE = 4,
};

/* The text in which the lines of an edit are, which has no lines on the other side. */
struct slide {
	const struct text_lines *lines;
	uint32_t at, n;
	uint32_t up, down; /* how far it can move */
	int64_t *work;     /* how many lines may still be compared */
};

static bool slide_line_blank(struct text t)
{
	for (size_t i = 0; i < t.len; i++)
		if (t.data[i] != ' ' && t.data[i] != '\t' && t.data[i] != '\n' &&
		    t.data[i] != '\r')
			return false;
	return true;
}

static unsigned slide_line_indent(struct text t)
{
	unsigned n = 0;

	for (size_t i = 0; i < t.len && n < INDENT_MAX; i++)
		if (t.data[i] == ' ')
			n++;
		else if (t.data[i] == '\t')
			n += TAB - n % TAB;
		else
			break;
	return n;
}

/* How bad it is if an edit begins or ends before line @at; less is better. */
static int slide_cost(const struct text_lines *l, uint32_t at)
{
	bool blank_before = at == 0 || slide_line_blank(text_line(l, at - 1));
	uint32_t i = at;

	while (i < l->n && i < at + LOOK_MAX && slide_line_blank(text_line(l, i)))
		i++;
	return 10 * (i < l->n ? (int)slide_line_indent(text_line(l, i)) : 0) +
	       (i > at ? 4 : 0) - (blank_before ? 3 : 0);
}

/* Return how many lines down the best place is; negative: up. */
static int64_t slide_best(const struct slide *s)
{
	int64_t best = s->down, low = -(int64_t)s->up;
	int least = 0;

	if (s->down + (int64_t)s->up > PLACES_MAX)
		low = s->down - PLACES_MAX;
	for (int64_t k = s->down; k >= low; k--) {
		uint32_t at = (uint32_t)(s->at + k);
		int cost = slide_cost(s->lines, at) + slide_cost(s->lines, at + s->n);

		if (k == s->down || cost < least) {
			best = k;
			least = cost;
		}
	}
	return best;
}

static bool slide_same(const struct slide *s, uint32_t i, uint32_t j)
{
	return --*s->work > 0 &&
	       text_equal(text_line(s->lines, i), text_line(s->lines, j));
}

/* Find how far an edit can move within the equal lines around it. */
static void slide_measure(struct slide *s, uint32_t room_up, uint32_t room_down)
{
	while (s->up < room_up &&
	       slide_same(s, s->at - s->up - 1, s->at + s->n - s->up - 1))
		s->up++;
	while (s->down < room_down &&
	       slide_same(s, s->at + s->down, s->at + s->n + s->down))
		s->down++;
}

static void slide_join(struct text_edit *to, const struct text_edit *from)
{
	to->old_n += from->old_n;
	to->new_n += from->new_n;
}

/* Move edit @i of @d, after the @kept edits before it. Return whether it was joined. */
static bool diff_slide_one(struct text_diff *d, size_t i, size_t kept, int64_t *work)
{
	struct text_edit *e = &d->v[i], *next = i + 1 < d->n ? e + 1 : NULL;
	struct text_edit none = { 0 }, *last = kept ? &d->v[kept - 1] : &none;
	uint32_t room_up = e->old_at - last->old_at - last->old_n;
	uint32_t end = next ? next->old_at : (uint32_t)d->old.n;
	uint32_t room_down = end - e->old_at - e->old_n;
	struct slide s = { .lines = e->old_n ? &d->old : &d->new,
			   .at = e->old_n ? e->old_at : e->new_at,
			   .n = e->old_n + e->new_n,
			   .work = work };
	int64_t by;

	if (e->old_n && e->new_n)
		return false;
	slide_measure(&s, room_up, room_down);
	if (kept && s.up == room_up) {
		slide_join(last, e);
		return true;
	}
	if (next && s.down == room_down) {
		next->old_at -= e->old_n;
		next->new_at -= e->new_n;
		slide_join(next, e);
		return true;
	}
	by = slide_best(&s);
	e->old_at = (uint32_t)(e->old_at + by);
	e->new_at = (uint32_t)(e->new_at + by);
	return false;
}

void diff_slide(struct text_diff *d)
{
	const int64_t most = WORK_BASE + WORK_PER_LINE * (int64_t)(d->old.n + d->new.n);
	int64_t work = most;
	size_t kept = 0;

	for (size_t i = 0; i < d->n; i++)
		if (!diff_slide_one(d, i, kept, &work))
			d->v[kept++] = d->v[i];
	d->n = kept;
	d->work += (uint64_t)(most - work);
}
