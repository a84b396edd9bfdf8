/* SPDX-License-Identifier: Apache-2.0 */
/* unified.c - write the change of one file in the format of `git diff` */
#include "textdiff/unified.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "textdiff/unified_internal.h"

/* The longest part of a function's line that follows "@@". */
#define FUNCTION_MAX 80

/* Which function a hunk belongs to, as far as git guesses it. */
struct unified_function {
	const struct text_lines *old; /* NULL: not written */
	size_t seen;                  /* lines before this one were searched */
	struct text found;
};

static bool unified_begins_function(struct text t)
{
	char c;

	if (!t.len)
		return false;
	c = t.data[0];
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$';
}

/* Search the lines in front of line @at for the last one that begins a function. */
static void unified_find_function(struct unified_function *f, size_t at)
{
	for (size_t i = at; f->old && i-- > f->seen;) {
		struct text t = text_line(f->old, i);

		if (!unified_begins_function(t))
			continue;
		t.len = t.len < FUNCTION_MAX ? t.len : FUNCTION_MAX;
		while (t.len &&
		       (t.data[t.len - 1] == ' ' || t.data[t.len - 1] == '\n' ||
			(t.data[t.len - 1] >= '\t' && t.data[t.len - 1] <= '\r')))
			t.len--;
		f->found = t;
		break;
	}
	f->seen = at;
}

static void unified_put_text(struct buf *out, struct text t,
			     const struct unified_options *o)
{
	if (o->terminal)
		text_put_visible(out, t);
	else
		buf_add(out, t.data, t.len);
}

static void unified_put_range(struct buf *out, char sign, uint32_t at, uint32_t n)
{
	/* Without lines, the position is that of the line before. */
	buf_printf(out, "%c%u", sign, n ? at + 1 : at);
	if (n != 1)
		buf_printf(out, ",%u", n);
}

static void unified_put_line(struct buf *out, const struct patch_line *l,
			     const struct unified_options *o)
{
	const struct unified_colors *c = o->colors;
	const char *color = !c               ? ""
			    : l->kind == '+' ? c->added
			    : l->kind == '-' ? c->removed
					     : "";
	struct text t = l->text;
	bool ended = t.len && t.data[t.len - 1] == '\n';

	t.len -= ended;
	buf_puts(out, color);
	buf_add(out, &l->kind, 1);
	unified_put_text(out, t, o);
	buf_puts(out, *color ? c->reset : "");
	buf_puts(out, ended ? "\n" : "\n\\ No newline at end of file\n");
}

static void unified_put_hunk(struct buf *out, const struct patch_hunk *h,
			     struct unified_function *f, const struct unified_options *o)
{
	buf_puts(out, o->colors ? o->colors->hunk : "");
	buf_puts(out, "@@ ");
	unified_put_range(out, '-', h->old_at, h->old_n);
	buf_puts(out, " ");
	unified_put_range(out, '+', h->new_at, h->new_n);
	buf_puts(out, " @@");
	buf_puts(out, o->colors ? o->colors->reset : "");
	unified_find_function(f, h->old_at);
	if (f->found.len) {
		buf_puts(out, " ");
		unified_put_text(out, f->found, o);
	}
	buf_puts(out, "\n");
	for (size_t i = 0; i < h->n; i++)
		unified_put_line(out, &h->v[i], o);
}

void unified_write_hunk(struct buf *out, const struct patch_hunk *h,
			const struct text_lines *old, const struct unified_options *o)
{
	unified_put_hunk(out, h, &(struct unified_function){ .old = old }, o);
}

static int unified_text(struct buf *out, const struct unified_side *old,
			const struct unified_side *new, const struct unified_options *o,
			struct warren_error *err)
{
	AUTO_DIFF struct text_diff d = { 0 };
	AUTO_PATCH struct patch p = { 0 };
	struct unified_function f = { .old = &d.old };
	int r = text_diff_make(old->text, new->text, &d, err);

	if (r == 0)
		r = patch_from_diff(&d, o->context, &p, err);
	if (r < 0)
		return r;
	unified_names(out, old, new, o);
	for (size_t i = 0; i < p.n; i++)
		unified_put_hunk(out, &p.v[i], &f, o);
	return 0;
}

static void unified_differ(struct buf *out, const struct unified_side *old,
			   const struct unified_side *new)
{
	buf_puts(out, "Binary files ");
	if (old->path)
		unified_quote(out, "a/", old->path);
	else
		buf_puts(out, "/dev/null");
	buf_puts(out, " and ");
	if (new->path)
		unified_quote(out, "b/", new->path);
	else
		buf_puts(out, "/dev/null");
	buf_puts(out, " differ\n");
}

static int unified_one(struct buf *out, const struct unified_side *old,
		       const struct unified_side *new, const struct unified_options *o,
		       struct warren_error *err)
{
	bool equal = text_equal(old->text, new->text);

	if (old->path && new->path && equal &&strcmp(old->path, new->path) == 0 &&
	    unified_mode(old->mode) == unified_mode(new->mode))
		return 0;
	unified_header(out, old, new, equal, o);
	if (equal)
		return 0;
	if (!text_is_binary(old->text) && !text_is_binary(new->text))
		return unified_text(out, old, new, o, err);
	if (o->binary)
		return unified_binary(out, old->text, new->text, err);
	unified_differ(out, old, new);
	return 0;
}

int unified_write(struct buf *out, const struct unified_side *old,
		  const struct unified_side *new, const struct unified_options *o,
		  struct warren_error *err)
{
	static const struct unified_side none;
	int r;

	if (old->path && new->path && S_ISLNK(old->mode) != S_ISLNK(new->mode)) {
		r = unified_one(out, old, &none, o, err);
		if (r == 0)
			r = unified_one(out, &none, new, o, err);
	} else {
		r = unified_one(out, old, new, o, err);
	}
	if (r == 0 && out->failed)
		return error_errno(err, out->full ? EFBIG : ENOMEM, "write a patch");
	return r;
}
