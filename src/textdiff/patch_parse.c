/* SPDX-License-Identifier: Apache-2.0 */
/* patch_parse.c - parse patches, which may be hostile */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "textdiff/patch_internal.h"
#include "textdiff/patch_path.h"

static bool parse_starts(struct text t, const char *with)
{
	size_t n = strlen(with);

	return t.len >= n && memcmp(t.data, with, n) == 0;
}

static struct text parse_skip(struct text t, size_t n)
{
	return TEXT(t.data + n, t.len - n);
}

static struct text parse_line(const struct patch_parser *p)
{
	return p->at < p->lines.n ? text_line(&p->lines, p->at) : TEXT("", 0);
}

int patch_parse_fail(const struct patch_parser *p, struct warren_error *err,
		     const char *why)
{
	return error_set(err, EINVAL, "line %zu: %s", p->at + 1, why);
}

/* ------------------------------------------------------------------- hunks */

/* Read digits; return how many, or 0. */
static size_t patch_parse_number(struct text t, uint32_t *ret)
{
	uint64_t value = 0;
	size_t n = 0;

	for (; n < t.len && t.data[n] >= '0' && t.data[n] <= '9'; n++) {
		value = value * 10 + (uint64_t)(t.data[n] - '0');
		if (value > INT32_MAX)
			return 0;
	}
	*ret = (uint32_t)value;
	return n;
}

/* Read "12,3" or "12"; return its length, or 0. */
static size_t parse_range(struct text t, uint32_t *ret_at, uint32_t *ret_n)
{
	size_t n = patch_parse_number(t, ret_at), m;

	*ret_n = 1;
	if (n && n < t.len && t.data[n] == ',') {
		m = patch_parse_number(parse_skip(t, n + 1), ret_n);
		n = m ? n + 1 + m : 0;
	}
	if (*ret_n && n) {
		if (*ret_at == 0)
			return 0;
		--*ret_at;
	}
	return n;
}

static bool parse_hunk_line(struct text t, struct patch_hunk *h)
{
	size_t n;

	if (!parse_starts(t, "@@ -"))
		return false;
	t = parse_skip(t, 4);
	n = parse_range(t, &h->old_at, &h->old_n);
	if (!n || !parse_starts(parse_skip(t, n), " +"))
		return false;
	t = parse_skip(t, n + 2);
	n = parse_range(t, &h->new_at, &h->new_n);
	return n && parse_starts(parse_skip(t, n), " @@");
}

/* Read a line of a hunk that lacks @old and @new lines. */
static int parse_body_line(struct patch_parser *p, struct patch_hunk *h, uint32_t *old,
			   uint32_t *new, struct warren_error *err)
{
	struct text t = parse_line(p);
	char kind = '\0';

	if (t.len)
		kind = t.data[0];
	if (kind == '\n') { /* mail programs remove the space */
		kind = ' ';
	} else if (kind == ' ' || kind == '+' || kind == '-') {
		t = parse_skip(t, 1);
	} else {
		return patch_parse_fail(p, err, "the hunk has too few lines");
	}
	if ((kind != '+' && !*old) || (kind != '-' && !*new))
		return patch_parse_fail(p, err, "the hunk has too many lines");
	*old -= kind != '+';
	*new -= kind != '-';
	h->v[h->n++] = (struct patch_line){ .kind = kind, .text = t };
	p->at++;
	if (parse_starts(parse_line(p), "\\ ")) {
		if (h->v[h->n - 1].text.len)
			h->v[h->n - 1].text.len--;
		p->at++;
	}
	return 0;
}

static int parse_hunk(struct patch_parser *p, struct patch *f, struct warren_error *err)
{
	struct patch_hunk h = { 0 }, *v;
	size_t left = p->lines.n - p->at;
	uint32_t old, new;
	int r = 0;

	if (!parse_hunk_line(parse_line(p), &h))
		return patch_parse_fail(p, err,
					"this is not a line like '@@ -1,2 +3,4 @@'");
	if (h.old_n > left || h.new_n > left)
		return patch_parse_fail(p, err, "the hunk has too few lines");
	v = realloc(f->v, (f->n + 1) * sizeof(*v));
	if (!v)
		return error_errno(err, ENOMEM, "parse a patch");
	f->v = v;
	h.v = malloc(((size_t)h.old_n + h.new_n + 1) * sizeof(*h.v));
	if (!h.v)
		return error_errno(err, ENOMEM, "parse a patch");
	old = h.old_n;
	new = h.new_n;
	p->at++;
	while (r == 0 && (old || new))
		r = parse_body_line(p, &h, &old, &new, err);
	f->v[f->n++] = h;
	return r;
}

/* ----------------------------------------------------------------- headers */

static int patch_parse_mode(struct patch_parser *p, struct text t, mode_t *ret,
			    struct warren_error *err)
{
	static const mode_t modes[] = { 0100644, 0100755, 0120000, 0100664, 0100600 };
	char text[8] = "";

	if (t.len >= 6)
		(void)memcpy(text, t.data, 6);
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		char known[16];

		(void)snprintf(known, sizeof(known), "%06o", modes[i]);
		if (strcmp(text, known) == 0) {
			*ret = modes[i];
			return 0;
		}
	}
	return patch_parse_fail(p, err, "only files and symbolic links can be patched");
}

static int parse_name(struct patch_parser *p, struct text t, bool prefixed, char **ret,
		      struct warren_error *err)
{
	char *name = NULL;
	size_t n;
	int r = patch_path_read(t, prefixed, &name, &n, err);

	if (r < 0)
		return error_wrap(err, "line %zu", p->at + 1);
	if (name) {
		free(*ret);
		*ret = name;
	}
	return 0;
}

/* Read a line like "rename from x". Returns 1, or 0 if it is not a line of a header. */
static int parse_header_line(struct patch_parser *p, struct patch *f, struct text t,
			     struct warren_error *err)
{
	int r = 1;

	if (parse_starts(t, "old mode ")) {
		r = patch_parse_mode(p, parse_skip(t, 9), &f->old_mode, err);
	} else if (parse_starts(t, "new mode ")) {
		r = patch_parse_mode(p, parse_skip(t, 9), &f->new_mode, err);
	} else if (parse_starts(t, "new file mode ")) {
		f->kind = PATCH_ADDED;
		r = patch_parse_mode(p, parse_skip(t, 14), &f->new_mode, err);
	} else if (parse_starts(t, "deleted file mode ")) {
		f->kind = PATCH_REMOVED;
		r = patch_parse_mode(p, parse_skip(t, 18), &f->old_mode, err);
	} else if (parse_starts(t, "rename from ") || parse_starts(t, "copy from ")) {
		f->kind = t.data[0] == 'r' ? PATCH_RENAMED : PATCH_COPIED;
		r = parse_name(p, parse_skip(t, t.data[0] == 'r' ? 12 : 10), false,
			       &f->old_path, err);
	} else if (parse_starts(t, "rename to ") || parse_starts(t, "copy to ")) {
		r = parse_name(p, parse_skip(t, t.data[0] == 'r' ? 10 : 8), false,
			       &f->new_path, err);
	} else {
		return parse_starts(t, "similarity index ") ||
		       parse_starts(t, "dissimilarity index ") ||
		       parse_starts(t, "index ");
	}
	return r < 0 ? r : 1;
}

/* Read the lines "---" and "+++"; "/dev/null" says that there is no file. */
static int parse_names(struct patch_parser *p, struct patch *f, struct warren_error *err)
{
	struct text old = parse_skip(parse_line(p), 4), new;
	int r = parse_name(p, old, true, &f->old_path, err);

	p->at++;
	new = parse_line(p);
	if (r == 0 && !parse_starts(new, "+++ "))
		r = patch_parse_fail(p, err, "the line '+++' is missing");
	if (r == 0)
		r = parse_name(p, parse_skip(new, 4), true, &f->new_path, err);
	p->at++;
	if (r == 0 && parse_starts(old, "/dev/null"))
		f->kind = PATCH_ADDED;
	if (r == 0 && parse_starts(parse_skip(new, 4), "/dev/null"))
		f->kind = PATCH_REMOVED;
	return r;
}

static int parse_finish(struct patch_parser *p, struct patch *f, struct warren_error *err)
{
	if (!f->old_path && f->new_path)
		f->old_path = strdup(f->new_path);
	if (!f->new_path && f->old_path)
		f->new_path = strdup(f->old_path);
	if (!f->old_path || !f->new_path)
		return patch_parse_fail(p, err, "the file has no name");
	return 0;
}

/* ------------------------------------------------------------------- files */

static int parse_file(struct patch_parser *p, struct patch *f, struct warren_error *err)
{
	struct text t = parse_line(p);
	int r = 1;

	if (parse_starts(t, "diff --git ")) {
		struct warren_error unread = WARREN_ERROR_INIT;

		/* If the names cannot be read, other lines have them: parse_finish(). */
		if (patch_path_read_both(parse_skip(t, 11), &f->old_path, &f->new_path,
					 &unread) == -ENOMEM)
			return error_errno(err, ENOMEM, "parse a patch");
		for (p->at++; r > 0; p->at += r > 0)
			r = parse_header_line(p, f, parse_line(p), err);
		if (r < 0)
			return r;
	}
	if (parse_starts(parse_line(p), "GIT binary patch"))
		r = patch_parse_binary(p, f, err);
	else if (parse_starts(parse_line(p), "--- "))
		r = parse_names(p, f, err);
	else
		r = 0;
	while (r == 0 && parse_starts(parse_line(p), "@@ "))
		r = f->binary ? patch_parse_fail(p, err, "a binary patch has no hunks")
			      : parse_hunk(p, f, err);
	return r < 0 ? r : parse_finish(p, f, err);
}

/* Return whether a file begins at this line; others, like a commit's message, do not
 * matter. */
static bool parse_begins(const struct patch_parser *p)
{
	struct text t = text_line(&p->lines, p->at);

	return parse_starts(t, "diff --git ") ||
	       (parse_starts(t, "--- ") && p->at + 1 < p->lines.n &&
		parse_starts(text_line(&p->lines, p->at + 1), "+++ "));
}

int patches_parse(struct text t, struct patches *ret, struct warren_error *err)
{
	AUTO_PATCHES struct patches out = { 0 };
	struct patch_parser p = { 0 };
	int r = text_lines_make(t, &p.lines, err);

	while (r == 0 && p.at < p.lines.n) {
		struct patch *v;

		if (!parse_begins(&p)) {
			p.at++;
			continue;
		}
		if ((out.n & (out.n - 1)) == 0) { /* a power of 2 */
			v = realloc(out.v, (out.n ? 2 * out.n : 1) * sizeof(*v));
			if (!v) {
				r = error_errno(err, ENOMEM, "parse a patch");
				break;
			}
			out.v = v;
		}
		out.v[out.n] = (struct patch){ 0 };
		r = parse_file(&p, &out.v[out.n++], err);
	}
	text_lines_done(&p.lines);
	if (r < 0)
		return r;
	*ret = out;
	out = (struct patches){ 0 };
	return 0;
}

void patches_done(struct patches *p)
{
	for (size_t i = 0; i < p->n; i++)
		patch_done(&p->v[i]);
	free(p->v);
	*p = (struct patches){ 0 };
}
