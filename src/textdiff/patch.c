/* SPDX-License-Identifier: Apache-2.0 */
/* patch.c - make patches from differences; split hunks; replace them by edited ones */
#include "textdiff/patch.h"

#include <errno.h>
#include <string.h>

static void patch_put(struct patch_hunk *h, char kind, struct text line)
{
	h->v[h->n++] = (struct patch_line){ .kind = kind, .text = line };
}

static uint32_t edit_old_end(const struct text_edit *e)
{
	return e->old_at + e->old_n;
}

/* Return the end of the group of edits that begins with edit @from. */
static size_t patch_group_end(const struct text_diff *d, size_t from, unsigned context)
{
	size_t i = from + 1;

	while (i < d->n && d->v[i].old_at - edit_old_end(&d->v[i - 1]) <= 2UL * context)
		i++;
	return i;
}

/* Make a hunk of the edits [from, end). */
static int patch_make_hunk(const struct text_diff *d, size_t from, size_t end,
			   unsigned context, struct patch_hunk *ret)
{
	const struct text_edit *first = &d->v[from], *last = &d->v[end - 1];
	uint32_t above = first->old_at < context ? first->old_at : context;
	uint32_t old = first->old_at - above, below;
	struct patch_hunk h = { .old_at = old, .new_at = first->new_at - above };

	below = (uint32_t)d->old.n - edit_old_end(last);
	below = below < context ? below : context;
	h.old_n = edit_old_end(last) + below - old;
	h.new_n = last->new_at + last->new_n + below - h.new_at;
	h.v = malloc(((size_t)h.old_n + h.new_n + 1) * sizeof(*h.v));
	if (!h.v)
		return -ENOMEM;
	for (size_t i = from; i < end; i++) {
		const struct text_edit *e = &d->v[i];

		for (; old < e->old_at; old++)
			patch_put(&h, ' ', text_line(&d->old, old));
		for (; old < edit_old_end(e); old++)
			patch_put(&h, '-', text_line(&d->old, old));
		for (uint32_t k = 0; k < e->new_n; k++)
			patch_put(&h, '+', text_line(&d->new, e->new_at + k));
	}
	for (; below; below--, old++)
		patch_put(&h, ' ', text_line(&d->old, old));
	*ret = h;
	return 0;
}

int patch_from_diff(const struct text_diff *d, unsigned context, struct patch *ret,
		    struct warren_error *err)
{
	AUTO_PATCH struct patch p = { 0 };

	p.v = calloc(d->n + 1, sizeof(*p.v));
	if (!p.v)
		return error_errno(err, ENOMEM, "make a patch of %zu hunks", d->n);
	for (size_t i = 0, end; i < d->n; i = end) {
		end = patch_group_end(d, i, context);
		if (patch_make_hunk(d, i, end, context, &p.v[p.n]) < 0)
			return error_errno(err, ENOMEM, "make a patch of %zu hunks",
					   d->n);
		p.n++;
	}
	*ret = p;
	p = (struct patch){ 0 };
	return 0;
}

void patch_done(struct patch *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->v[i].v);
	free(p->v);
	free(p->old_path);
	free(p->new_path);
	free(p->forward.data);
	free(p->reverse.data);
	*p = (struct patch){ 0 };
}

/* ------------------------------------------------------------------- split */

/*
 * Find the part of hunk @h that begins with line @from: lines of context, changed lines,
 * and lines of context up to the next change or the end. Set *@ret_next to where the next
 * part begins: at the context behind the changes, which both parts contain.
 */
static size_t patch_part_end(const struct patch_hunk *h, size_t from, size_t *ret_next)
{
	size_t i = from;

	while (i < h->n && h->v[i].kind == ' ')
		i++;
	while (i < h->n && h->v[i].kind != ' ')
		i++;
	*ret_next = i;
	while (i < h->n && h->v[i].kind == ' ')
		i++;
	return i;
}

size_t patch_split_count(const struct patch *p, size_t at)
{
	const struct patch_hunk *h = &p->v[at];
	size_t n = 0, next = 0;

	for (size_t end = 0; end < h->n; n++)
		end = patch_part_end(h, next, &next);
	return n;
}

static uint32_t patch_count_lines(const struct patch_hunk *h, size_t from, size_t end,
				  char unlike)
{
	uint32_t n = 0;

	for (size_t i = from; i < end; i++)
		n += h->v[i].kind != unlike;
	return n;
}

static int patch_part_make(const struct patch_hunk *h, size_t from, size_t end,
			   struct patch_hunk *ret)
{
	struct patch_hunk part = { .n = end - from, .skip = h->skip };

	part.v = malloc(part.n * sizeof(*part.v));
	if (!part.v)
		return -ENOMEM;
	(void)memcpy(part.v, h->v + from, part.n * sizeof(*part.v));
	part.old_at = h->old_at + patch_count_lines(h, 0, from, '+');
	part.new_at = h->new_at + patch_count_lines(h, 0, from, '-');
	part.old_n = patch_count_lines(h, from, end, '+');
	part.new_n = patch_count_lines(h, from, end, '-');
	*ret = part;
	return 0;
}

int patch_split(struct patch *p, size_t at, struct warren_error *err)
{
	size_t parts = patch_split_count(p, at), next = 0, from = 0;
	struct patch_hunk *h = &p->v[at], *v;

	if (parts < 2)
		return 0;
	v = calloc(p->n + parts, sizeof(*v));
	if (!v)
		return error_errno(err, ENOMEM, "split a hunk");
	(void)memcpy(v, p->v, at * sizeof(*v));
	for (size_t i = 0; i < parts; i++, from = next) {
		size_t end = patch_part_end(h, from, &next);

		if (patch_part_make(h, from, end, &v[at + i]) < 0) {
			while (i--)
				free(v[at + i].v);
			free(v);
			return error_errno(err, ENOMEM, "split a hunk");
		}
	}
	(void)memcpy(v + at + parts, h + 1, (p->n - at - 1) * sizeof(*v));
	free(h->v);
	free(p->v);
	p->v = v;
	p->n += parts - 1;
	return 0;
}

/* ------------------------------------------------------------------ edited */

/* Add a line of the edited hunk; @line is with its first character. */
static int patch_edited_line(struct patch_hunk *h, struct text line, size_t number,
			     struct warren_error *err)
{
	char kind = line.data[0];

	if (kind == '#' || (line.len > 1 && memcmp(line.data, "@@", 2) == 0))
		return 0;
	if (kind == '\\') { /* "\ No newline at end of file" */
		struct text *last = h->n ? &h->v[h->n - 1].text : NULL;

		if (last && last->len && last->data[last->len - 1] == '\n')
			last->len--;
		return 0;
	}
	if (kind == '\n') { /* editors remove the space of an empty line of context */
		patch_put(h, ' ', line);
		return 0;
	}
	if (kind != ' ' && kind != '+' && kind != '-')
		return error_set(err, EINVAL,
				 "line %zu: must begin with ' ', '+', '-' or '#'",
				 number);
	patch_put(h, kind, TEXT(line.data + 1, line.len - 1));
	return 0;
}

static int patch_edited_check(const struct patch_hunk *h, const struct text_lines *old,
			      struct warren_error *err)
{
	uint32_t at = h->old_at;
	bool ended = false; /* the last new line had no "\n" */

	for (size_t i = 0; i < h->n; i++) {
		struct text t = h->v[i].text;

		if (ended && h->v[i].kind != '-')
			return error_set(err, EINVAL,
					 "only the last line can have no newline");
		ended |= h->v[i].kind != '-' && (!t.len || t.data[t.len - 1] != '\n');
		if (h->v[i].kind == '+')
			continue;
		if (at >= old->n || !text_equal(h->v[i].text, text_line(old, at)))
			return error_set(err, EINVAL,
					 "the lines with ' ' and '-' are not lines %u to "
					 "%zu of the old file",
					 h->old_at + 1, h->old_at + (size_t)h->old_n);
		at++;
	}
	if (ended && at != old->n)
		return error_set(err, EINVAL, "only the last line can have no newline");
	return 0;
}

int patch_replace_hunk(struct patch *p, size_t at, struct text old, struct text edited,
		       struct warren_error *err)
{
	AUTO_LINES struct text_lines lines = { 0 };
	AUTO_LINES struct text_lines old_lines = { 0 };
	AUTO_FREE struct patch_line *v = NULL;
	struct patch_hunk h = p->v[at];
	int r = text_lines_make(edited, &lines, err);

	if (r == 0)
		r = text_lines_make(old, &old_lines, err);
	if (r < 0)
		return r;
	v = malloc((lines.n + 1) * sizeof(*v));
	if (!v)
		return error_errno(err, ENOMEM, "edit a hunk");
	h.v = v;
	h.n = 0;
	for (size_t i = 0; i < lines.n && r == 0; i++)
		r = patch_edited_line(&h, text_line(&lines, i), i + 1, err);
	h.old_n = patch_count_lines(&h, 0, h.n, '+');
	h.new_n = patch_count_lines(&h, 0, h.n, '-');
	if (r == 0)
		r = patch_edited_check(&h, &old_lines, err);
	if (r < 0)
		return r;
	free(p->v[at].v);
	p->v[at] = h;
	v = NULL;
	return 0;
}
