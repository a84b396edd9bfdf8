/* SPDX-License-Identifier: Apache-2.0 */
/* ignore.c - patterns of file names */
#include "dockerfile/ignore.h"

#include <errno.h>
#include <string.h>

#include "dockerfile/state.h"
#include "dockerfile/words.h"

/* ----------------------------------------------------------------- patterns */

/*
 * The set at @p ("[a-z]"): *@ret_end is what follows it; NULL: it is not closed. Returns
 * whether it contains @c.
 */
static bool ignore_glob_set(const char *p, char c, const char **ret_end)
{
	bool negated = p[1] == '^' || p[1] == '!', found = false;
	const char *first = p + 1 + negated;

	for (p = first; *p && (*p != ']' || p == first); p++) {
		char low = *p, high;

		if (low == '\\' && p[1])
			low = *++p;
		high = low;
		if (p[1] == '-' && p[2] && p[2] != ']') {
			p += 2;
			if (*p == '\\' && p[1])
				p++;
			high = *p;
		}
		found |= (unsigned char)c >= (unsigned char)low &&
			 (unsigned char)c <= (unsigned char)high;
	}
	*ret_end = *p ? p + 1 : NULL;
	return c != '/' && found != negated;
}

/* Match one element of the pattern with *@s; *@ret_next is the next element. */
static bool ignore_glob_one(const char *p, const char *s, const char **ret_next)
{
	bool matched;

	*ret_next = p + 1;
	if (!*s)
		return false;
	if (*p == '?')
		return *s != '/';
	if (*p == '[') {
		matched = ignore_glob_set(p, *s, ret_next);
		return *ret_next && matched;
	}
	if (*p == '\\' && p[1]) {
		*ret_next = p + 2;
		return p[1] == *s;
	}
	return *p == *s;
}

/* After "**": "**" + "/" also matches no directory at all. */
static const char *ignore_after_stars(const char *p)
{
	while (*p == '*')
		p++;
	return p;
}

static bool ignore_glob_match(const char *p, const char *s, unsigned *steps)
{
	for (;;) {
		const char *next;
		bool deep;

		if (++*steps > IGNORE_STEPS_MAX)
			return false;
		if (!*p)
			return !*s;
		if (*p != '*') {
			if (!ignore_glob_one(p, s, &next))
				return false;
			p = next;
			s++;
			continue;
		}
		deep = p[1] == '*';
		next = ignore_after_stars(p);
		if (deep && *next == '/' && ignore_glob_match(next + 1, s, steps))
			return true;
		for (;; s++) {
			if (ignore_glob_match(next, s, steps))
				return true;
			if (!*s || (*s == '/' && !deep) || *steps > IGNORE_STEPS_MAX)
				return false;
		}
	}
}

bool ignore_glob(const char *glob, const char *path)
{
	unsigned steps = 0;

	return ignore_glob_match(glob, path, &steps);
}

bool ignore_is_glob(const char *glob)
{
	return strpbrk(glob, "*?[\\") != NULL;
}

/* ---------------------------------------------------------------- the file */

void ignore_done(struct ignore *ignore)
{
	for (size_t k = 0; k < ignore->n; k++)
		free(ignore->v[k].glob);
	free(ignore->v);
	*ignore = (struct ignore){ 0 };
}

static int ignore_add(struct ignore *ignore, const char *text, struct warren_error *err)
{
	AUTO_FREE char *clean = NULL;
	bool except = text[0] == '!';
	char *glob;

	text += except;
	while (words_blank(*text))
		text++;
	clean = dockerfile_join("/", text);
	if (!clean)
		return error_errno(err, ENOMEM, "read .dockerignore");
	if (except && !text[0])
		return error_set(err, EINVAL, ".dockerignore: a '!' has no pattern");
	if (ignore->n == IGNORE_PATTERNS_MAX)
		return error_set(err, E2BIG, ".dockerignore has more than %d patterns",
				 IGNORE_PATTERNS_MAX);
	if (strcmp(clean, "/") == 0) /* "." or "/": nothing, as with docker */
		return 0;
	glob = strdup(clean + 1);
	if (!glob)
		return error_errno(err, ENOMEM, "read .dockerignore");
	ignore->v[ignore->n++] = (struct ignore_pattern){ glob, except };
	ignore->has_exceptions |= except;
	return 0;
}

int ignore_parse(const char *text, size_t size, struct ignore *ret,
		 struct warren_error *err)
{
	struct ignore ignore = { .v = calloc(IGNORE_PATTERNS_MAX, sizeof(*ignore.v)) };
	AUTO_FREE char *copy = strndup(text, size);
	char *save = NULL;
	int r = 0;

	if (!ignore.v || !copy)
		r = error_errno(err, ENOMEM, "read .dockerignore");
	else if (size > IGNORE_SIZE_MAX || strlen(copy) != size)
		r = error_set(err, EINVAL, ".dockerignore is too large or not text");
	for (char *line = r == 0 ? strtok_r(copy, "\n", &save) : NULL; r == 0 && line;
	     line = strtok_r(NULL, "\n", &save)) {
		size_t n;

		if (strncmp(line, "\xef\xbb\xbf", 3) == 0)
			line += 3;
		if (line[0] == '#')
			continue;
		while (words_blank(*line))
			line++;
		n = strlen(line);
		while (n > 0 && words_blank(line[n - 1]))
			line[--n] = '\0';
		if (n > 0)
			r = ignore_add(&ignore, line, err);
	}
	if (r < 0) {
		ignore_done(&ignore);
		return r;
	}
	*ret = ignore;
	return 0;
}

/* Return whether the pattern matches the path itself or a directory that it is in. */
static bool ignore_match_parents(const char *glob, const char *path)
{
	AUTO_FREE char *copy = strdup(path);
	char *slash;

	if (!copy)
		return false;
	while (!ignore_glob(glob, copy)) {
		slash = strrchr(copy, '/');
		if (!slash)
			return false;
		*slash = '\0';
	}
	return true;
}

bool ignore_match(const struct ignore *ignore, const char *path)
{
	bool ignored = false;

	/* Only a pattern that changes the result has to be compared. */
	for (size_t k = 0; k < ignore->n; k++)
		if (ignore->v[k].except == ignored &&
		    ignore_match_parents(ignore->v[k].glob, path))
			ignored = !ignored;
	return ignored;
}
