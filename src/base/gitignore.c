/* SPDX-License-Identifier: Apache-2.0 */
/* gitignore.c - parse and match patterns */
#include "base/gitignore.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define GLOB_STEPS_MAX 20000

/* ---------------------------------------------------------------------- glob */

struct glob {
	bool any_case;
	unsigned steps;
};

static bool gitignore_glob_same(const struct glob *g, char a, char b)
{
	return a == b ||
	       (g->any_case && tolower((unsigned char)a) == tolower((unsigned char)b));
}

static const struct {
	const char *name;
	int (*is)(int c);
} glob_classes[] = {
	{ "alnum", isalnum }, { "alpha", isalpha }, { "blank", isblank },
	{ "cntrl", iscntrl }, { "digit", isdigit }, { "graph", isgraph },
	{ "lower", islower }, { "print", isprint }, { "punct", ispunct },
	{ "space", isspace }, { "upper", isupper }, { "xdigit", isxdigit },
};

/* "[:alpha:]" at @p, which is after the "[". NULL: it is not a class. */
static const char *gitignore_glob_class(const char *p, unsigned char c, bool *found)
{
	const char *end = *p == ':' ? strstr(p, ":]") : NULL;

	for (size_t i = 0; end && i < sizeof(glob_classes) / sizeof(*glob_classes); i++) {
		size_t n = strlen(glob_classes[i].name);

		if ((size_t)(end - p - 1) == n &&
		    strncmp(p + 1, glob_classes[i].name, n) == 0) {
			*found |= glob_classes[i].is(c) != 0;
			return end + 2;
		}
	}
	return NULL;
}

/* Match "[...]" at @p; *@ret_end is what follows, or NULL: it is not closed. */
static bool gitignore_glob_set(const struct glob *g, const char *p, char c,
			       const char **ret_end)
{
	bool negated = p[1] == '^' || p[1] == '!', found = false;
	const char *first = p + 1 + negated, *after;
	unsigned char u = (unsigned char)c;

	for (p = first; *p && (*p != ']' || p == first);) {
		unsigned char low, high;

		after = *p == '[' ? gitignore_glob_class(p + 1, u, &found) : NULL;
		if (after) {
			p = after;
			continue;
		}
		if (*p == '\\' && p[1])
			p++;
		low = high = (unsigned char)*p++;
		if (*p == '-' && p[1] && p[1] != ']') {
			p++;
			if (*p == '\\' && p[1])
				p++;
			high = (unsigned char)*p++;
		}
		found |= u >= low && u <= high;
		if (g->any_case) {
			unsigned char other =
				(unsigned char)(islower(u) ? toupper(u) : tolower(u));

			found |= other >= low && other <= high;
		}
	}
	*ret_end = *p ? p + 1 : NULL;
	return c != '/' && found != negated;
}

static bool gitignore_glob_match(struct glob *g, const char *start, const char *p,
				 const char *s);

/* The pattern at @p begins with a star. */
/* NOLINTNEXTLINE(misc-no-recursion): at most GLOB_STEPS_MAX */
static bool gitignore_glob_stars(struct glob *g, const char *start, const char *p,
				 const char *s)
{
	const char *next = p;
	bool deep;

	while (*next == '*')
		next++;
	/* Two stars between slashes, or at an end, match directories. */
	deep = next - p == 2 && (p == start || p[-1] == '/') && (*next == '/' || !*next);
	if (deep && !*next)
		return *s != '\0';
	if (deep && gitignore_glob_match(g, start, next + 1, s))
		return true;
	for (;; s++) {
		if (deep) {
			if (*s == '/' && gitignore_glob_match(g, start, next + 1, s + 1))
				return true;
		} else if (gitignore_glob_match(g, start, next, s)) {
			return true;
		}
		if (!*s || (*s == '/' && !deep) || g->steps > GLOB_STEPS_MAX)
			return false;
	}
}

/* NOLINTNEXTLINE(misc-no-recursion): at most GLOB_STEPS_MAX, once for each star */
static bool gitignore_glob_match(struct glob *g, const char *start, const char *p,
				 const char *s)
{
	for (;; s++) {
		const char *end;

		if (++g->steps > GLOB_STEPS_MAX)
			return false;
		if (*p == '*')
			return gitignore_glob_stars(g, start, p, s);
		if (!*p || !*s)
			return !*p && !*s;
		if (*p == '[') {
			if (!gitignore_glob_set(g, p, *s, &end) || !end)
				return false;
			p = end;
			continue;
		}
		if (*p == '?') {
			if (*s == '/')
				return false;
			p++;
			continue;
		}
		if (*p == '\\' && p[1])
			p++;
		if (!gitignore_glob_same(g, *p++, *s))
			return false;
	}
}

bool gitignore_glob(const char *glob, const char *path, bool any_case)
{
	struct glob g = { .any_case = any_case };

	return gitignore_glob_match(&g, glob, glob, path);
}

/* --------------------------------------------------------------------- files */

/* Spaces at the end count only after a backslash. */
static size_t gitignore_trim(const char *line, size_t n)
{
	while (n > 0 && line[n - 1] == ' ' && (n < 2 || line[n - 2] != '\\'))
		n--;
	return n;
}

static int gitignore_add(struct gitignore *g, const char *line, size_t n)
{
	struct gitignore_pattern p = { 0 }, *more;

	if (n > 0 && line[n - 1] == '\r')
		n--;
	if (n > 0 && line[0] == '#')
		return 0;
	n = gitignore_trim(line, n);
	if (n > 0 && line[0] == '!') {
		p.negated = true;
		line++;
		n--;
	}
	if (n > 0 && line[n - 1] == '/') {
		p.dirs_only = true;
		n--;
	}
	p.anchored = memchr(line, '/', n) != NULL;
	if (n > 0 && line[0] == '/') {
		line++;
		n--;
	}
	if (n == 0 || g->n >= GITIGNORE_MAX || memchr(line, '\0', n))
		return 0;
	if ((g->n & (g->n - 1)) == 0) { /* a power of two: double */
		more = reallocarray(g->v, g->n ? g->n * 2 : 1, sizeof(*more));
		if (!more)
			return -ENOMEM;
		g->v = more;
	}
	p.glob = strndup(line, n);
	if (!p.glob)
		return -ENOMEM;
	p.literal = strpbrk(p.glob, "*?[\\") == NULL;
	g->v[g->n++] = p;
	return 0;
}

int gitignore_parse(struct gitignore *g, const char *text, size_t n)
{
	const char *end = text + n;
	int r = 0;

	if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		text += 3;
	while (r == 0 && text < end) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));

		if (!stop)
			stop = end;
		r = gitignore_add(g, text, (size_t)(stop - text));
		text = stop + 1;
	}
	return r;
}

void gitignore_done(struct gitignore *g)
{
	for (size_t i = 0; i < g->n; i++)
		free(g->v[i].glob);
	free(g->v);
	*g = (struct gitignore){ 0 };
}

int gitignore_match(const struct gitignore *g, const char *path, bool is_dir)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	for (size_t i = g->n; i-- > 0;) {
		const struct gitignore_pattern *p = &g->v[i];
		const char *what = p->anchored ? path : name;

		if (p->dirs_only && !is_dir)
			continue;
		if (p->literal ? (g->any_case ? strcasecmp(p->glob, what)
					      : strcmp(p->glob, what)) == 0
			       : gitignore_glob(p->glob, what, g->any_case))
			return !p->negated;
	}
	return -1;
}
