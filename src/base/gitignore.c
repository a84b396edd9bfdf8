/* SPDX-License-Identifier: Apache-2.0 */
/* gitignore.c - parse and match patterns */
#include "base/gitignore.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---------------------------------------------------------------------- glob */

/*
 * A star, or two, that the match went past: if the rest does not match, it takes one more
 * character or directory. Only the last star of a name, and the last two stars of a path,
 * can need that: what follows a star must match where it first can, so that an earlier
 * star gains nothing. So no pattern takes exponential time.
 */
struct glob_retry {
	const char *p, *s; /* NULL: there was none */
};

struct glob {
	bool any_case;
	uint64_t steps;
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
	for (size_t i = 0; *p == ':' && i < sizeof(glob_classes) / sizeof(*glob_classes);
	     i++) {
		size_t n = strlen(glob_classes[i].name);

		if (strncmp(p + 1, glob_classes[i].name, n) == 0 &&
		    strncmp(p + 1 + n, ":]", 2) == 0) {
			*found |= glob_classes[i].is(c) != 0;
			return p + n + 3;
		}
	}
	return NULL;
}

/* Match "[...]" at @p; *@ret_end is what follows, or NULL: it is not closed. */
static bool gitignore_glob_set(struct glob *g, const char *p, char c,
			       const char **ret_end)
{
	const char *start = p;
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
	g->steps += (uint64_t)(p - start);
	*ret_end = *p ? p + 1 : NULL;
	return c != '/' && found != negated;
}

/* Match one character of the path; the rest of the pattern, or NULL. */
static const char *gitignore_glob_one(struct glob *g, const char *p, char c)
{
	const char *end;

	if (*p == '[')
		return gitignore_glob_set(g, p, c, &end) ? end : NULL;
	if (*p == '?')
		return c != '/' ? p + 1 : NULL;
	if (*p == '\\' && p[1])
		p++;
	return gitignore_glob_same(g, *p, c) ? p + 1 : NULL;
}

/* Go back to a star, which takes one more character or directory. False: none can. */
static bool gitignore_glob_again(struct glob_retry *star, struct glob_retry *deep,
				 const char **p, const char **s)
{
	if (star->p && *star->s && *star->s != '/') {
		star->s++;
		*p = star->p;
		*s = star->s;
		return true;
	}
	star->p = NULL;
	deep->s = deep->p ? strchr(deep->s, '/') : NULL;
	if (!deep->s)
		return false;
	deep->s++;
	*p = deep->p;
	*s = deep->s;
	return true;
}

/* Return whether @glob matches @s, in which "*" matches no "/". */
static bool gitignore_glob(struct glob *g, const char *glob, const char *s)
{
	struct glob_retry star = { NULL, NULL }, deep = { NULL, NULL };
	const char *p = glob, *next;

	for (;;) {
		g->steps++;
		if (*p == '*') {
			next = p + strspn(p, "*");
			g->steps += (uint64_t)(next - p);
			/* Between slashes, or at an end, two stars match directories. */
			if (next - p > 1 && (p == glob || p[-1] == '/') &&
			    (*next == '/' || !*next)) {
				if (!*next)
					return *s != '\0';
				p = next + 1;
				deep = (struct glob_retry){ p, s };
				star.p = NULL;
			} else {
				p = next;
				star = (struct glob_retry){ p, s };
			}
			continue;
		}
		if (!*p && !*s)
			return true;
		next = *p && *s ? gitignore_glob_one(g, p, *s) : NULL;
		if (next) {
			if (*s == '/')
				star.p = NULL;
			p = next;
			s++;
		} else if (!gitignore_glob_again(&star, &deep, &p, &s)) {
			return false;
		}
	}
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
	if (n == 0 || n > GITIGNORE_PATTERN_MAX || g->n >= GITIGNORE_MAX ||
	    memchr(line, '\0', n))
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
	p.length = n;
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

void gitignore_spend(uint64_t *work, uint64_t n)
{
	*work -= n < *work ? n : *work;
}

static bool gitignore_literal(const struct gitignore *g,
			      const struct gitignore_pattern *p, const char *what,
			      size_t n, uint64_t *steps)
{
	if (p->length != n)
		return false;
	*steps += n;
	return (g->any_case ? strcasecmp(p->glob, what) : strcmp(p->glob, what)) == 0;
}

int gitignore_match(const struct gitignore *g, const char *path, bool is_dir,
		    uint64_t *work)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const size_t path_n = strlen(path), name_n = strlen(name);

	for (size_t i = g->n; i-- > 0;) {
		const struct gitignore_pattern *p = &g->v[i];
		const char *what = p->anchored ? path : name;
		struct glob glob = { .any_case = g->any_case, .steps = 1 };
		bool found = false;

		if (!p->dirs_only || is_dir)
			found = p->literal
					? gitignore_literal(g, p, what,
							    p->anchored ? path_n : name_n,
							    &glob.steps)
					: gitignore_glob(&glob, p->glob, what);
		if (work)
			gitignore_spend(work, glob.steps);
		if (work && *work == 0)
			return -1;
		if (found)
			return !p->negated;
	}
	return -1;
}
