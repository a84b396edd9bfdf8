/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glob.c - match the path of a file with a glob
 *
 * The states of a match are positions in the glob, and all possible states are followed
 * at the same time. So the number of steps of a match is at most the length of the glob
 * times that of the path, whatever a client writes. For many files, this may still be too
 * much, so the caller limits the number of steps.
 */
#include <errno.h>
#include <string.h>

#include "base/utf8.h"
#include "code/plan.h"

static size_t glob_char(const char *s)
{
	size_t n = utf8_len(s, strnlen(s, 4));

	return n ? n : 1;
}

/* Return the position after the bracket that ends the set at @at; NULL: it is not
 * closed. */
static const char *glob_set_end(const char *at)
{
	const char *p = at + 1 + (at[1] == '!' || at[1] == '^');

	for (bool first = true; *p && (first || *p != ']'); first = false)
		p += glob_char(p);
	return *p ? p + 1 : NULL;
}

/* Is the character of @n bytes at @c in the set from @at to @end? */
static bool glob_set_has(const char *at, const char *end, const char *c, size_t n)
{
	bool inverse = at[1] == '!' || at[1] == '^', found = false;
	const char *p = at + 1 + inverse;

	while (p < end - 1) {
		size_t low = glob_char(p);
		const char *high = p + low;

		if (*high == '-' && high + 1 < end - 1) {
			size_t len = glob_char(high + 1);

			found |= n == low && n == len && memcmp(c, p, n) >= 0 &&
				 memcmp(c, high + 1, n) <= 0;
			p = high + 1 + len;
		} else {
			found |= n == low && memcmp(c, p, n) == 0;
			p = high;
		}
	}
	return found != inverse;
}

struct glob_states {
	bool on[CODE_GLOB_LEN + 4];
};

/*
 * Follow the state at @p of @now over the character of @n bytes at @c (n is 0 at the end
 * of the path). @fresh is set at the beginning of a name.
 */
static void glob_follow(const char *glob, size_t p, struct glob_states *now,
			struct glob_states *next, const char *c, size_t n, bool fresh)
{
	const char *at = glob + p;
	bool name = n > 0 && *c != '/';
	size_t len;

	if (at[0] == '*' && at[1] == '*') {
		now->on[p + 2] = true;
		if (at[2] == '/' && fresh)
			now->on[p + 3] = true;
		next->on[p] |= n > 0;
	} else if (*at == '*') {
		now->on[p + 1] = true;
		next->on[p] |= name;
	} else if (*at == '?') {
		next->on[p + 1] |= name;
	} else if (*at == '[' && glob_set_end(at)) {
		const char *end = glob_set_end(at);

		next->on[end - glob] |= name && glob_set_has(at, end, c, n);
	} else {
		at += *at == '\\' && at[1];
		len = glob_char(at);
		next->on[(size_t)(at - glob) + len] |= n == len && memcmp(at, c, n) == 0;
	}
}

int code_glob_match(const char *glob, const char *path, unsigned *steps)
{
	struct glob_states now = { { true } }, next;
	size_t m = strlen(glob);
	bool fresh = true;

	if (m > CODE_GLOB_LEN)
		return 0;
	for (;;) {
		size_t n = *path ? glob_char(path) : 0;
		bool any = false;

		(void)memset(&next, 0, m + 4);
		for (size_t p = 0; p < m; p++) {
			if (!now.on[p])
				continue;
			if ((*steps)-- == 0) {
				*steps = 0;
				return -E2BIG;
			}
			any = true;
			glob_follow(glob, p, &now, &next, path, n, fresh);
		}
		if (n == 0 || !any)
			return n == 0 && now.on[m];
		fresh = *path == '/';
		path += n;
		(void)memcpy(&now, &next, m + 4);
	}
}
