/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry_challenge.c - parse the header with which a server requests a login (RFC 7235)
 *
 *	challenges = challenge *( "," challenge )
 *	challenge  = scheme [ " " ( token68 / param *( "," param ) ) ]
 *	param      = name "=" ( word / quoted-string )
 *
 * A comma separates challenges and also the parameters of one challenge; a name that "="
 * follows is a parameter.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "image/registry_auth.h"

#define ALNUM   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
#define WORD    ALNUM "!#$%&'*+-.^_`|~"
#define TOKEN68 ALNUM "-._~+/"
#define BLANK   " \t"

static const struct {
	const char *name;
	enum challenge_scheme scheme;
} schemes[] = {
	{ "basic", CHALLENGE_BASIC },
	{ "bearer", CHALLENGE_BEARER },
};

static bool registry_challenge_is_word(const char *s, size_t n, const char *word)
{
	return strlen(word) == n && strncasecmp(s, word, n) == 0;
}

static enum challenge_scheme scheme_of(const char *s, size_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
		if (registry_challenge_is_word(s, n, schemes[i].name))
			return schemes[i].scheme;
	return CHALLENGE_NONE;
}

static void skip_blank(const char **p)
{
	*p += strspn(*p, BLANK);
}

/* Read a word or quoted string into @to, which is long enough for all accepted values. */
static int read_value(const char **p, char *to, size_t size)
{
	const char *s = *p;
	size_t n = 0;

	if (*s != '"') {
		n = strspn(s, WORD);
		if (n == 0 || n >= size)
			return -EINVAL;
		(void)memcpy(to, s, n);
		to[n] = '\0';
		*p = s + n;
		return 0;
	}
	for (s++; *s != '"'; s++) {
		if (*s == '\\')
			s++;
		if (*s < ' ' || *s > '~' || n + 1 >= size)
			return -EINVAL;
		to[n++] = *s;
	}
	to[n] = '\0';
	*p = s + 1;
	return 0;
}

static int read_param(const char **p, struct challenge *c)
{
	const char *name = *p;
	size_t n = strspn(name, WORD);
	char value[sizeof(c->realm)];
	struct {
		const char *name;
		char *to;
		size_t size;
	} known[] = {
		{ "realm", c->realm, sizeof(c->realm) },
		{ "service", c->service, sizeof(c->service) },
		{ "scope", c->scope, sizeof(c->scope) },
	};

	*p += n;
	skip_blank(p);
	(*p)++; /* '=' */
	skip_blank(p);
	if (read_value(p, value, sizeof(value)) < 0)
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (!registry_challenge_is_word(name, n, known[i].name))
			continue;
		if (known[i].to[0] || strlen(value) >= known[i].size)
			return -EINVAL; /* the name occurs twice, so it is not clear which
					   one counts */
		(void)memcpy(known[i].to, value, strlen(value) + 1);
	}
	return 0;
}

/* Is this a name and "=", and not the padding of a token68? */
static bool at_param(const char *p)
{
	size_t n = strspn(p, WORD);

	if (n == 0)
		return false;
	p += n;
	skip_blank(&p);
	if (*p != '=')
		return false;
	p++;
	skip_blank(&p);
	return *p != '\0' && *p != ',' && *p != '=';
}

/* Skip a comma. Return 0 after a comma or at the end; *p is then at the following
 * text. */
static int read_separator(const char **p)
{
	skip_blank(p);
	if (**p != '\0' && **p != ',')
		return -EINVAL;
	while (**p == ',') {
		(*p)++;
		skip_blank(p);
	}
	return 0;
}

static int read_challenge(const char **p, struct challenge *ret)
{
	size_t n = strspn(*p, WORD);
	struct challenge c = { .scheme = scheme_of(*p, n) };

	if (n == 0)
		return -EINVAL;
	*p += n;
	if (**p == ' ') {
		skip_blank(p);
		if (!at_param(*p)) { /* skip a token68 of another scheme, or nothing */
			*p += strspn(*p, TOKEN68);
			*p += strspn(*p, "=");
		}
	}
	while (at_param(*p)) {
		const char *next;

		if (read_param(p, &c) < 0)
			return -EINVAL;
		next = *p;
		if (read_separator(&next) < 0)
			return -EINVAL;
		if (at_param(next)) /* otherwise another challenge follows the comma */
			*p = next;
	}
	*ret = c;
	return 0;
}

int challenge_parse(const char *text, struct challenge *ret)
{
	struct challenge best = { .scheme = CHALLENGE_NONE };

	if (read_separator(&text) < 0 && *text == '\0')
		return -EINVAL;
	while (*text) {
		struct challenge c;

		if (read_challenge(&text, &c) < 0 || read_separator(&text) < 0)
			return -EINVAL;
		if (c.scheme > best.scheme)
			best = c;
	}
	if (best.scheme == CHALLENGE_BEARER && !best.realm[0])
		return -EINVAL;
	*ret = best;
	return 0;
}
