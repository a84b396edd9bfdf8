/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge.c - three-way merge by lines
 *
 * Both copies are compared with the base. An edit of one copy that does not touch an edit
 * of the other is taken. Edits that overlap, or that have no line between them, make a
 * region. It is not a conflict if both copies made the same edit. Otherwise the two
 * versions of the region are compared with each other: lines that they have in common are
 * taken, and what is between them is a conflict. Conflicts with only a few lines or only
 * punctuation between them become one, because that is easier to read.
 */
#include "textdiff/merge.h"

#include <errno.h>
#include <string.h>

#include "textdiff/diff.h"

enum {
	MARKER = 7, /* the length of a marker */
	JOIN = 3,   /* the most lines between conflicts that are joined */
};

/* One of the copies, and how far the merge has come in it. */
struct merge_side {
	struct text_diff d; /* from the base */
	size_t at;          /* the next edit */
	int64_t delta; /* line of the copy - line of the base, before the next edit */
};

struct merge_range {
	uint32_t at, n;
};

struct merge_region {
	struct merge_range base, ours, theirs;
};

struct merge {
	struct merge_side ours, theirs;
	const struct merge_labels *labels;
	struct buf *out;
	uint32_t written; /* the lines in front of this one were written or replaced */
	struct merge_region pending; /* a conflict that may be joined with the next one */
	bool is_pending;
	size_t conflicts;
};

static struct text_edit *merge_next(struct merge_side *s)
{
	return s->at < s->d.n ? &s->d.v[s->at] : NULL;
}

static void merge_advance(struct merge_side *s)
{
	s->delta += (int64_t)s->d.v[s->at].new_n - s->d.v[s->at].old_n;
	s->at++;
}

static struct text merge_slice(const struct text_lines *l, struct merge_range r)
{
	return TEXT(l->text.data + l->start[r.at],
		    (size_t)l->start[r.at + r.n] - l->start[r.at]);
}

static void merge_put(struct merge *m, const struct text_lines *l, struct merge_range r)
{
	struct text t = merge_slice(l, r);

	buf_add(m->out, t.data, t.len);
}

/* Write the lines of our copy up to line @end. */
static void merge_put_ours(struct merge *m, uint32_t end)
{
	if (end > m->written)
		merge_put(m, &m->ours.d.new,
			  (struct merge_range){ m->written, end - m->written });
	m->written = end;
}

/* Return whether line @at (or the last one) ends with "\r\n"; -1: unknown. */
static int merge_has_cr(const struct text_lines *l, size_t at)
{
	struct text t;

	if (!l->n)
		return -1;
	t = text_line(l, at < l->n ? at : l->n - 1);
	if (t.data[t.len - 1] != '\n') {
		if (l->n == 1)
			return -1;
		t = text_line(l, l->n - 2);
	}
	return t.len > 1 && t.data[t.len - 2] == '\r';
}

/* Markers have the line ends of the lines around them. */
static bool merge_needs_cr(const struct merge *m, const struct merge_region *r)
{
	int cr = merge_has_cr(&m->ours.d.new, r->ours.at ? r->ours.at - 1 : 0);

	if (cr)
		cr = merge_has_cr(&m->theirs.d.new, r->theirs.at ? r->theirs.at - 1 : 0);
	if (cr < 0)
		cr = merge_has_cr(&m->ours.d.old, 0);
	return cr > 0;
}

static void merge_put_marker(struct merge *m, char c, const char *label, bool cr)
{
	char marker[MARKER];

	(void)memset(marker, c, sizeof(marker));
	buf_add(m->out, marker, sizeof(marker));
	if (label) {
		buf_puts(m->out, " ");
		buf_puts(m->out, label);
	}
	buf_puts(m->out, cr ? "\r\n" : "\n");
}

/* Write one version of a conflict; its last line must have an end. */
static void merge_put_version(struct merge *m, const struct text_lines *l,
			      struct merge_range r, bool cr)
{
	struct text t = merge_slice(l, r);

	buf_add(m->out, t.data, t.len);
	if (t.len && t.data[t.len - 1] != '\n')
		buf_puts(m->out, cr ? "\r\n" : "\n");
}

/* Write the conflict that is pending, if there is one. */
static void merge_flush(struct merge *m)
{
	const struct merge_labels *labels = m->labels;
	const struct merge_region *r = &m->pending;
	bool cr = m->is_pending && merge_needs_cr(m, r);

	if (!m->is_pending)
		return;
	merge_put_ours(m, r->ours.at);
	merge_put_marker(m, '<', labels->ours, cr);
	merge_put_version(m, &m->ours.d.new, r->ours, cr);
	if (labels->show_base) {
		merge_put_marker(m, '|', labels->base, cr);
		merge_put_version(m, &m->ours.d.old, r->base, cr);
	}
	merge_put_marker(m, '=', NULL, cr);
	merge_put_version(m, &m->theirs.d.new, r->theirs, cr);
	merge_put_marker(m, '>', labels->theirs, cr);
	m->written = r->ours.at + r->ours.n;
	m->is_pending = false;
	m->conflicts++;
}

static bool merge_has_word(const struct text_lines *l, struct merge_range r)
{
	struct text t = merge_slice(l, r);

	for (size_t i = 0; i < t.len; i++) {
		char c = t.data[i];

		if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
		    (c >= 'A' && c <= 'Z'))
			return true;
	}
	return false;
}

static uint32_t merge_end(struct merge_range r)
{
	return r.at + r.n;
}

/* Return whether the lines between the pending conflict and @r do not separate them. */
static bool merge_joins(const struct merge *m, const struct merge_region *r)
{
	uint32_t from = merge_end(m->pending.ours);
	struct merge_range between = { from, r->ours.at - from };

	return m->is_pending && !m->labels->show_base &&
	       (between.n <= JOIN || !merge_has_word(&m->ours.d.new, between));
}

static void merge_put_conflict(struct merge *m, const struct merge_region *r)
{
	if (merge_joins(m, r)) {
		m->pending.ours.n = merge_end(r->ours) - m->pending.ours.at;
		m->pending.theirs.n = merge_end(r->theirs) - m->pending.theirs.at;
		return;
	}
	merge_flush(m);
	m->pending = *r;
	m->is_pending = true;
}

/* Write a region that both copies changed: what differs between them is in conflict. */
static int merge_put_region(struct merge *m, const struct merge_region *r,
			    struct warren_error *err)
{
	AUTO_DIFF struct text_diff d = { 0 };
	int ret;

	if (m->labels->show_base || !r->ours.n || !r->theirs.n) {
		merge_put_conflict(m, r);
		return 0;
	}
	ret = text_diff_make(merge_slice(&m->ours.d.new, r->ours),
			     merge_slice(&m->theirs.d.new, r->theirs), &d, err);
	if (ret == 0 && !d.n)
		merge_flush(m);
	for (size_t i = 0; ret == 0 && i < d.n; i++) {
		const struct text_edit *e = &d.v[i];
		struct merge_region part = {
			.ours = { r->ours.at + e->old_at, e->old_n },
			.theirs = { r->theirs.at + e->new_at, e->new_n },
		};

		merge_put_conflict(m, &part);
	}
	return ret;
}

static bool merge_same(const struct merge *m, const struct text_edit *a,
		       const struct text_edit *b)
{
	return a->old_at == b->old_at && a->old_n == b->old_n && a->new_n == b->new_n &&
	       text_equal(merge_slice(&m->ours.d.new,
				      (struct merge_range){ a->new_at, a->new_n }),
			  merge_slice(&m->theirs.d.new,
				      (struct merge_range){ b->new_at, b->new_n }));
}

/* Collect all edits that touch each other, beginning with @a and @b of the two copies. */
static void merge_collect(struct merge *m, const struct text_edit *a,
			  const struct text_edit *b, struct merge_region *r)
{
	uint32_t from = a->old_at < b->old_at ? a->old_at : b->old_at, end = from;

	r->base.at = from;
	r->ours.at = (uint32_t)(from + m->ours.delta);
	r->theirs.at = (uint32_t)(from + m->theirs.delta);
	for (bool grown = true; grown;) {
		grown = false;
		for (a = merge_next(&m->ours); a && a->old_at <= end;
		     a = merge_next(&m->ours), grown = true) {
			end = a->old_at + a->old_n > end ? a->old_at + a->old_n : end;
			merge_advance(&m->ours);
		}
		for (b = merge_next(&m->theirs); b && b->old_at <= end;
		     b = merge_next(&m->theirs), grown = true) {
			end = b->old_at + b->old_n > end ? b->old_at + b->old_n : end;
			merge_advance(&m->theirs);
		}
	}
	r->base.n = end - from;
	r->ours.n = (uint32_t)(end + m->ours.delta) - r->ours.at;
	r->theirs.n = (uint32_t)(end + m->theirs.delta) - r->theirs.at;
}

/* Take an edit of their copy that no edit of our copy touches. */
static void merge_take_theirs(struct merge *m, const struct text_edit *e)
{
	merge_flush(m);
	merge_put_ours(m, (uint32_t)(e->old_at + m->ours.delta));
	merge_put(m, &m->theirs.d.new, (struct merge_range){ e->new_at, e->new_n });
	m->written += e->old_n;
	merge_advance(&m->theirs);
}

static int merge_run(struct merge *m, struct warren_error *err)
{
	const struct text_edit *a, *b;
	int r = 0;

	while (r == 0 && (b = merge_next(&m->theirs))) {
		a = merge_next(&m->ours);
		if (a && a->old_at + a->old_n < b->old_at) {
			merge_flush(m);
			merge_advance(&m->ours);
		} else if (!a || b->old_at + b->old_n < a->old_at) {
			merge_take_theirs(m, b);
		} else if (merge_same(m, a, b)) {
			merge_advance(&m->ours);
			merge_advance(&m->theirs);
		} else {
			struct merge_region region;

			merge_collect(m, a, b, &region);
			r = merge_put_region(m, &region, err);
		}
	}
	merge_flush(m);
	merge_put_ours(m, (uint32_t)m->ours.d.new.n);
	return r;
}

int text_merge3(struct text base, struct text ours, struct text theirs,
		const struct merge_labels *labels, struct buf *out, size_t *ret_conflicts,
		struct warren_error *err)
{
	struct merge m = { .labels = labels, .out = out };
	int r = text_diff_make(base, ours, &m.ours.d, err);

	if (r == 0)
		r = text_diff_make(base, theirs, &m.theirs.d, err);
	if (r == 0)
		r = merge_run(&m, err);
	text_diff_done(&m.ours.d);
	text_diff_done(&m.theirs.d);
	if (r < 0)
		return r;
	if (out->failed)
		return error_errno(err, out->full ? EFBIG : ENOMEM, "merge two texts");
	*ret_conflicts = m.conflicts;
	return 0;
}
