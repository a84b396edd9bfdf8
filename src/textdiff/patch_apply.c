/* SPDX-License-Identifier: Apache-2.0 */
/*
 * patch_apply.c - apply the hunks of a patch to a text
 *
 * Each hunk is found in the old text by its old lines, and only then the lines between
 * the context are replaced. So hunks whose contexts overlap, as those of a split hunk do,
 * can be applied together, and each of them alone.
 */
#include <errno.h>
#include <string.h>

#include "textdiff/patch.h"

/* Lines to compare at most while hunks are searched for. */
#define SEARCH_MAX ((int64_t)1 << 28)

struct apply {
	struct text_lines old;
	size_t at;      /* the first old line that was not yet copied or replaced */
	int64_t offset; /* how far the last hunk was from its place */
	int64_t work;
	struct buf *out;
};

/* Return whether the last line that @h makes has no end. */
static bool apply_unfinished(const struct patch_hunk *h)
{
	for (size_t i = h->n; i--;) {
		struct text t = h->v[i].text;

		if (h->v[i].kind != '-')
			return !t.len || t.data[t.len - 1] != '\n';
	}
	return false;
}

/* Return whether the old lines of @h are at line @at. */
static bool apply_fits(struct apply *a, const struct patch_hunk *h, size_t at)
{
	if (at > a->old.n || h->old_n > a->old.n - at)
		return false;
	/* A line without its end can only be the last one. */
	if (apply_unfinished(h) && at + h->old_n != a->old.n)
		return false;
	for (size_t i = 0; i < h->n; i++) {
		if (h->v[i].kind == '+')
			continue;
		a->work--;
		if (!text_equal(h->v[i].text, text_line(&a->old, at++)))
			return false;
	}
	return true;
}

/* Return the number of lines of context in front of the changes. */
static size_t apply_lead(const struct patch_hunk *h)
{
	size_t n = 0;

	while (n < h->n && h->v[n].kind == ' ')
		n++;
	return n;
}

/* Find the place of @h that is nearest to where it should be. */
static bool apply_find(struct apply *a, const struct patch_hunk *h, size_t *ret)
{
	int64_t want = (int64_t)h->old_at + a->offset, lead = (int64_t)apply_lead(h);
	int64_t low = (int64_t)a->at - lead, high = (int64_t)a->old.n - h->old_n;

	low = low < 0 ? 0 : low;
	for (int64_t k = 0; want - k >= low || want + k <= high; k++) {
		if (want + k >= low && want + k <= high &&
		    apply_fits(a, h, (size_t)(want + k))) {
			*ret = (size_t)(want + k);
			return true;
		}
		if (k && want - k >= low && want - k <= high &&
		    apply_fits(a, h, (size_t)(want - k))) {
			*ret = (size_t)(want - k);
			return true;
		}
		if (--a->work < 0)
			return false;
	}
	return false;
}

static void apply_copy(struct apply *a, size_t end)
{
	if (end <= a->at)
		return;
	buf_add(a->out, a->old.text.data + a->old.start[a->at],
		a->old.start[end] - a->old.start[a->at]);
	a->at = end;
}

/* Replace the lines at @at by those of @h. */
static void apply_hunk(struct apply *a, const struct patch_hunk *h, size_t at)
{
	for (size_t i = 0; i < h->n; i++) {
		const struct patch_line *l = &h->v[i];

		if (l->kind == '+') {
			apply_copy(a, at);
			buf_add(a->out, l->text.data, l->text.len);
			continue;
		}
		if (l->kind == '-') {
			apply_copy(a, at);
			a->at = at + 1;
		}
		at++;
	}
}

int patch_apply(const struct patch *p, struct text old, struct buf *out,
		struct warren_error *err)
{
	struct apply a = { .work = SEARCH_MAX, .out = out };
	int r;

	if (p->binary)
		return error_set(err, EINVAL, "a binary patch has no hunks");
	r = text_lines_make(old, &a.old, err);
	for (size_t i = 0; i < p->n && r == 0; i++) {
		size_t at = 0;

		if (p->v[i].skip)
			continue;
		if (!apply_find(&a, &p->v[i], &at)) {
			r = error_set(err, EINVAL,
				      "hunk %zu (line %u) does not fit: its old lines "
				      "are not in the file",
				      i + 1, p->v[i].old_at + 1);
			break;
		}
		a.offset = (int64_t)at - p->v[i].old_at;
		apply_hunk(&a, &p->v[i], at);
	}
	if (r == 0)
		apply_copy(&a, a.old.n);
	text_lines_done(&a.old);
	if (r == 0 && out->failed)
		return error_errno(err, out->full ? EFBIG : ENOMEM, "apply a patch");
	return r;
}
