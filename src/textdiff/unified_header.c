/* SPDX-License-Identifier: Apache-2.0 */
/* unified_header.c - the lines of a patch before the hunks; names in quotes */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "textdiff/sha1.h"
#include "textdiff/unified_internal.h"

#define NO_BLOB_ID "0000000000000000000000000000000000000000"

/* git shows at least this many; to apply binary contents, it needs all. */
#define SHORT_ID_DIGITS 7

/*
 * A name with a blank at the beginning or end of a component is quoted, too: without
 * quotes, git does not find where the first name of a header ends.
 */
static bool unified_needs_quotes(const char *path)
{
	const unsigned char *p = (const unsigned char *)path;

	for (; *p; p++)
		if (*p < 0x20 || *p >= 0x7f || *p == '"' || *p == '\\' ||
		    (*p == ' ' && (p == (const unsigned char *)path || p[-1] == '/' ||
				   p[1] == '/' || !p[1])))
			return true;
	return false;
}

void unified_quote_always(struct buf *out, const char *prefix, const char *path)
{
	static const char names[] = "abtnvfr"; /* "\a" is 7, and so on */
	const unsigned char *p = (const unsigned char *)path;

	buf_puts(out, "\"");
	buf_puts(out, prefix);
	for (; *p; p++)
		if (*p == '"' || *p == '\\')
			buf_printf(out, "\\%c", *p);
		else if (*p >= 7 && *p < 7 + sizeof(names) - 1)
			buf_printf(out, "\\%c", names[*p - 7]);
		else if (*p < 0x20 || *p >= 0x7f)
			buf_printf(out, "\\%03o", *p);
		else
			buf_add(out, p, 1);
	buf_puts(out, "\"");
}

void unified_quote(struct buf *out, const char *prefix, const char *path)
{
	if (unified_needs_quotes(path)) {
		unified_quote_always(out, prefix, path);
		return;
	}
	buf_puts(out, prefix);
	buf_puts(out, path);
}

void unified_meta(struct buf *out, const struct unified_options *o, const char *fmt, ...)
{
	char line[256];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	buf_printf(out, "%s%s%s\n", o->colors ? o->colors->meta : "", line,
		   o->colors ? o->colors->reset : "");
}

/* Write a line that ends with a path; paths are longer than unified_meta() can format. */
static void unified_meta_path(struct buf *out, const struct unified_options *o,
			      const char *words, const char *prefix, const char *path,
			      const char *end)
{
	buf_puts(out, o->colors ? o->colors->meta : "");
	buf_puts(out, words);
	if (path)
		unified_quote(out, prefix, path);
	else
		buf_puts(out, "/dev/null");
	buf_puts(out, end);
	buf_puts(out, o->colors ? o->colors->reset : "");
	buf_puts(out, "\n");
}

unsigned unified_mode(mode_t mode)
{
	return S_ISLNK(mode) ? 0120000 : mode & S_IXUSR ? 0100755 : 0100644;
}

static const char *header_id(const struct unified_side *s, char id[UNIFIED_ID_SIZE])
{
	if (!s->path)
		return NO_BLOB_ID;
	unified_blob_id(s->text, id);
	return id;
}

/* A rough measure; what matters is that 100 means that nothing changed. */
static unsigned header_similarity(const struct unified_side *old,
				  const struct unified_side *new, bool equal)
{
	size_t a = old->text.len, b = new->text.len;
	size_t least = a < b ? a : b, most = a < b ? b : a;
	unsigned percent = most ? (unsigned)(least * 100 / most) : 100;

	return equal ? 100 : percent > 99 ? 99 : percent;
}

static void header_modes(struct buf *out, const struct unified_side *old,
			 const struct unified_side *new, const struct unified_options *o)
{
	unsigned from = unified_mode(old->mode), to = unified_mode(new->mode);

	if (!old->path) {
		unified_meta(out, o, "new file mode %06o", to);
	} else if (!new->path) {
		unified_meta(out, o, "deleted file mode %06o", from);
	} else if (from != to) {
		unified_meta(out, o, "old mode %06o", from);
		unified_meta(out, o, "new mode %06o", to);
	}
}

void unified_header(struct buf *out, const struct unified_side *old,
		    const struct unified_side *new, bool equal,
		    const struct unified_options *o)
{
	const char *from = old->path ? old->path : new->path;
	const char *to = new->path ? new->path : old->path;
	char old_id[UNIFIED_ID_SIZE], new_id[UNIFIED_ID_SIZE];
	const int digits = o->binary ? UNIFIED_ID_SIZE - 1 : SHORT_ID_DIGITS;
	unsigned mode = unified_mode(old->mode);

	buf_puts(out, o->colors ? o->colors->meta : "");
	buf_puts(out, "diff --git ");
	unified_quote(out, "a/", from);
	buf_puts(out, " ");
	unified_quote(out, "b/", to);
	buf_puts(out, o->colors ? o->colors->reset : "");
	buf_puts(out, "\n");
	header_modes(out, old, new, o);
	if (old->path && new->path && strcmp(old->path, new->path) != 0) {
		unified_meta(out, o, "similarity index %u%%",
			     header_similarity(old, new, equal));
		unified_meta_path(out, o, "rename from ", "", from, "");
		unified_meta_path(out, o, "rename to ", "", to, "");
	}
	if (equal && old->path && new->path)
		return;
	if (old->path && new->path && mode == unified_mode(new->mode))
		unified_meta(out, o, "index %.*s..%.*s %06o", digits,
			     header_id(old, old_id), digits, header_id(new, new_id),
			     mode);
	else
		unified_meta(out, o, "index %.*s..%.*s", digits, header_id(old, old_id),
			     digits, header_id(new, new_id));
}

void unified_names(struct buf *out, const struct unified_side *old,
		   const struct unified_side *new, const struct unified_options *o)
{
	/* patch(1) would otherwise take a part of the name for a time. */
	unified_meta_path(out, o, "--- ", "a/", old->path,
			  old->path && strchr(old->path, ' ') ? "\t" : "");
	unified_meta_path(out, o, "+++ ", "b/", new->path,
			  new->path &&strchr(new->path, ' ') ? "\t" : "");
}

void unified_blob_id(struct text t, char ret[UNIFIED_ID_SIZE])
{
	uint8_t digest[SHA1_SIZE];
	char head[32];
	int n = snprintf(head, sizeof(head), "blob %zu", t.len);

	/* git hashes the NUL, too. */
	sha1_digest((const struct text[]){ { head, (size_t)n + 1 }, t }, 2, digest);
	for (size_t i = 0; i < sizeof(digest); i++)
		(void)snprintf(ret + 2 * i, 3, "%02x", digest[i]);
}
