/* SPDX-License-Identifier: Apache-2.0 */
/*
 * myers.c - the shortest edit between two sequences, in linear space
 *
 * This is the algorithm of E. Myers, "An O(ND) difference algorithm and its variations".
 * The sequences are the axes of a grid. A path from its upper left corner to its lower
 * right corner consists of steps to the right (remove an element of the old sequence),
 * down (add an element of the new one) and diagonally (keep an equal element). Searches
 * from both corners advance in turn, one non-diagonal step at a time. Where they meet is
 * a point of a shortest path; it splits the grid into two smaller ones.
 *
 * A search that takes too many steps stops and splits the grid at the point where it came
 * furthest. If the total work exceeds a limit, the grids that remain are regarded as
 * replaced. So time is bounded for any input, and only the length of the result suffers.
 */
#include <errno.h>
#include <limits.h>

#include "textdiff/diff_internal.h"

enum {
	MIN_COST = 256,  /* steps before a search may stop early */
	MAX_COST = 2048, /* steps after which it stops in the largest grids */
};

/* Basic operations of all searches together: a second of work, or a little more. */
#define WORK_BASE     ((int64_t)1 << 26)
#define WORK_PER_LINE 8

struct myers_box {
	int64_t a0, a1, b0, b1;
};

struct myers_point {
	int64_t a, b;
};

struct myers {
	const uint32_t *a, *b;
	uint8_t *a_changed, *b_changed;
	/* For each diagonal near its start, how far along it each search came. */
	int64_t forward_room[2 * MAX_COST + 5], backward_room[2 * MAX_COST + 5];
	int64_t work; /* how much of it is left */
	struct myers_box *stack;
	size_t n, cap;
};

/* One of the two searches in a box. Diagonal d is where a - b = d. */
struct myers_search {
	int64_t *at; /* indexed by a diagonal */
	int64_t middle, min, max;
};

static void myers_replace(struct myers *m, const struct myers_box *box)
{
	for (int64_t i = box->a0; i < box->a1; i++)
		m->a_changed[i] = 1;
	for (int64_t i = box->b0; i < box->b1; i++)
		m->b_changed[i] = 1;
}

/* Remove what is equal at both ends. */
static void myers_trim(struct myers *m, struct myers_box *box)
{
	while (box->a0 < box->a1 && box->b0 < box->b1 && m->a[box->a0] == m->b[box->b0]) {
		box->a0++;
		box->b0++;
	}
	while (box->a0 < box->a1 && box->b0 < box->b1 &&
	       m->a[box->a1 - 1] == m->b[box->b1 - 1]) {
		box->a1--;
		box->b1--;
	}
}

/* Widen the range of diagonals of a search by one on both sides, as far as the box goes.
 */
static void myers_widen(struct myers_search *s, const struct myers_box *box,
			int64_t beyond)
{
	if (s->min > box->a0 - box->b1)
		s->at[--s->min - 1] = beyond;
	else
		s->min++;
	if (s->max < box->a1 - box->b0)
		s->at[++s->max + 1] = beyond;
	else
		s->max--;
}

static bool myers_forward(struct myers *m, const struct myers_box *box,
			  struct myers_search *f, const struct myers_search *b, bool meet,
			  struct myers_point *ret)
{
	myers_widen(f, box, -1);
	for (int64_t d = f->max; d >= f->min; d -= 2) {
		int64_t x =
			f->at[d - 1] >= f->at[d + 1] ? f->at[d - 1] + 1 : f->at[d + 1];
		int64_t from = x;

		while (x < box->a1 && x - d < box->b1 && m->a[x] == m->b[x - d])
			x++;
		f->at[d] = x;
		m->work -= 1 + x - from;
		if (meet && d >= b->min && d <= b->max && b->at[d] <= x) {
			*ret = (struct myers_point){ x, x - d };
			return true;
		}
	}
	return false;
}

static bool myers_backward(struct myers *m, const struct myers_box *box,
			   const struct myers_search *f, struct myers_search *b,
			   bool meet, struct myers_point *ret)
{
	myers_widen(b, box, INT64_MAX);
	for (int64_t d = b->max; d >= b->min; d -= 2) {
		int64_t x = b->at[d - 1] < b->at[d + 1] ? b->at[d - 1] : b->at[d + 1] - 1;
		int64_t from = x;

		while (x > box->a0 && x - d > box->b0 && m->a[x - 1] == m->b[x - d - 1])
			x--;
		b->at[d] = x;
		m->work -= 1 + from - x;
		if (meet && d >= f->min && d <= f->max && x <= f->at[d]) {
			*ret = (struct myers_point){ x, x - d };
			return true;
		}
	}
	return false;
}

/* The point inside the box that one of the searches reached along the longest path. */
static struct myers_point myers_furthest(const struct myers_box *box,
					 const struct myers_search *f,
					 const struct myers_search *b)
{
	struct myers_point best = { box->a0, box->b0 };
	int64_t longest = -1;

	for (int64_t d = f->max; d >= f->min; d -= 2) {
		int64_t x = f->at[d] < box->a1 ? f->at[d] : box->a1, y = x - d;

		if (y > box->b1) {
			y = box->b1;
			x = y + d;
		}
		if (x + y - box->a0 - box->b0 > longest && x >= box->a0 && y >= box->b0) {
			longest = x + y - box->a0 - box->b0;
			best = (struct myers_point){ x, y };
		}
	}
	for (int64_t d = b->max; d >= b->min; d -= 2) {
		int64_t x = b->at[d] > box->a0 ? b->at[d] : box->a0, y = x - d;

		if (y < box->b0) {
			y = box->b0;
			x = y + d;
		}
		if (box->a1 + box->b1 - x - y > longest && x <= box->a1 && y <= box->b1) {
			longest = box->a1 + box->b1 - x - y;
			best = (struct myers_point){ x, y };
		}
	}
	return best;
}

static int64_t myers_cost(const struct myers_box *box)
{
	int64_t n = box->a1 - box->a0 + box->b1 - box->b0, cost = MIN_COST;

	while (cost < MAX_COST && cost * cost < n)
		cost++;
	return cost;
}

/* Find where to split a box whose sides are both longer than 0. */
static struct myers_point myers_split(struct myers *m, const struct myers_box *box)
{
	int64_t fmid = box->a0 - box->b0, bmid = box->a1 - box->b1,
		cost = myers_cost(box);
	struct myers_search f = { m->forward_room + MAX_COST + 2 - fmid, fmid, fmid,
				  fmid };
	struct myers_search b = { m->backward_room + MAX_COST + 2 - bmid, bmid, bmid,
				  bmid };
	bool odd = (fmid - bmid) & 1;
	struct myers_point p;

	f.at[fmid] = box->a0;
	b.at[bmid] = box->a1;
	for (int64_t i = 0; i < cost; i++)
		if (myers_forward(m, box, &f, &b, odd, &p) ||
		    myers_backward(m, box, &f, &b, !odd, &p))
			return p;
	return myers_furthest(box, &f, &b);
}

static int myers_push(struct myers *m, struct myers_box box)
{
	struct myers_box *p;

	if (m->n == m->cap) {
		p = realloc(m->stack, 2 * (m->cap + 8) * sizeof(*p));
		if (!p)
			return -ENOMEM;
		m->stack = p;
		m->cap = 2 * (m->cap + 8);
	}
	m->stack[m->n++] = box;
	return 0;
}

static int myers_run(struct myers *m)
{
	while (m->n) {
		struct myers_box box = m->stack[--m->n], left, right;
		struct myers_point p;

		myers_trim(m, &box);
		if (box.a0 == box.a1 || box.b0 == box.b1 || m->work <= 0) {
			myers_replace(m, &box);
			continue;
		}
		p = myers_split(m, &box);
		left = (struct myers_box){ box.a0, p.a, box.b0, p.b };
		right = (struct myers_box){ p.a, box.a1, p.b, box.b1 };
		if ((p.a == box.a0 && p.b == box.b0) ||
		    (p.a == box.a1 && p.b == box.b1)) {
			myers_replace(m, &box); /* there is nothing in common */
			continue;
		}
		if (myers_push(m, right) < 0 || myers_push(m, left) < 0)
			return -ENOMEM;
	}
	return 0;
}

int myers_compare(const uint32_t *old, uint32_t old_n, const uint32_t *new,
		  uint32_t new_n, uint8_t *old_changed, uint8_t *new_changed,
		  uint64_t *work, struct warren_error *err)
{
	const int64_t most = WORK_BASE + WORK_PER_LINE * ((int64_t)old_n + new_n);
	AUTO_FREE struct myers *m = malloc(sizeof(*m));
	int r;

	if (!m)
		return error_errno(err, ENOMEM, "compare %u lines", old_n);
	m->a = old;
	m->b = new;
	m->a_changed = old_changed;
	m->b_changed = new_changed;
	m->work = most;
	m->stack = NULL;
	m->n = m->cap = 0;
	r = myers_push(m, (struct myers_box){ 0, old_n, 0, new_n });
	if (r == 0)
		r = myers_run(m);
	free(m->stack);
	*work += (uint64_t)(most - m->work);
	return r < 0 ? error_errno(err, ENOMEM, "compare %u lines", old_n) : 0;
}
