/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hide_names.c - dismiss most names by their first and last two characters
 *
 * A project has too many names to try all patterns for each. Only the remaining names are
 * compared with the patterns (hide_search.c).
 */
#include <ctype.h>
#include <string.h>

#include "work/hide_internal.h"

#define NAMES_SPECIAL "*?[\\"

static void names_set(bool pairs[256][256], char a, char b)
{
	static int (*const to[])(int) = { tolower, toupper };

	for (size_t i = 0; i < ARRAY_SIZE(to); i++)
		for (size_t j = 0; j < ARRAY_SIZE(to); j++)
			pairs[(unsigned char)to[i]((unsigned char)a)]
			     [(unsigned char)to[j]((unsigned char)b)] = true;
}

/* Note how @name begins; its first character is not a special one. */
static void names_begin(bool pairs[256][256], const char *name)
{
	bool any = name[1] && strchr(NAMES_SPECIAL, name[1]);

	for (int c = any ? 0 : 256; c < 256; c++)
		names_set(pairs, name[0], (char)c);
	if (!any)
		names_set(pairs, name[0], name[1] == '/' ? '\0' : name[1]);
}

/* "*.tfstate.*": matching names contain the part between the stars. */
static bool names_part(struct hide_names *names, const char *name)
{
	const char *part = name + 1;
	size_t n = strcspn(part, NAMES_SPECIAL);

	if (name[0] != '*' || n < 2 || n >= HIDE_PART_SIZE ||
	    names->n_parts == HIDE_PARTS_MAX)
		return false;
	(void)memcpy(names->parts[names->n_parts], part, n);
	names->parts[names->n_parts++][n] = '\0';
	return true;
}

void hide_names_note(struct hide_names *names, const struct gitignore *g)
{
	for (size_t i = 0; i < g->n; i++) {
		const char *glob = g->v[i].glob, *slash = strrchr(glob, '/');
		const char *name = slash ? slash + 1 : glob;
		size_t n = strlen(name);

		if (g->v[i].negated)
			continue;
		/* ".docker/config.json": the directory may be a link. */
		if (slash && strncmp(glob, "**/", 3) == 0 &&
		    !strchr(NAMES_SPECIAL, glob[3]))
			names_begin(names->dirs, glob + 3);
		if (n > 0 && !strchr(NAMES_SPECIAL, name[0])) {
			names_begin(names->first, name);
			if (g->v[i].dirs_only)
				names_begin(names->dirs, name);
		} else if (n > 1 && !strpbrk(name + n - 2, "*?]\\") &&
			   !strchr(name, '\\')) {
			names_set(names->last, name[n - 2], name[n - 1]);
		} else if (!names_part(names, name)) {
			names->all = true;
		}
	}
}

bool hide_names_may_match(const struct hide_names *names, const char *name)
{
	const unsigned char *c = (const unsigned char *)name;
	size_t n = strlen(name);

	if (names->all || names->first[c[0]][c[1]] || names->dirs[c[0]][c[1]] ||
	    (n > 1 && names->last[c[n - 2]][c[n - 1]]))
		return true;
	for (size_t i = 0; i < names->n_parts; i++)
		if (strcasestr(name, names->parts[i]))
			return true;
	return false;
}

bool hide_names_may_be_dir(const struct hide_names *names, const char *name)
{
	const unsigned char *c = (const unsigned char *)name;

	return names->dirs[c[0]][c[1]];
}
