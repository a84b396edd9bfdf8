/* SPDX-License-Identifier: Apache-2.0 */
/* git_config.c - read the text of git's configuration, as git does */
#include "work/git_config.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

size_t git_config_mark(const char *text, size_t n)
{
	return n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

/* Copy the text without its mark, with "\n" at the end of lines, and without NUL. */
static char *config_copy(const char *text, size_t n)
{
	char *copy = calloc(1, n + 1); /* with '\0' at the end */
	size_t len = 0;

	for (size_t i = git_config_mark(text, n); copy && i < n; i++) {
		if (text[i] == '\r' && i + 1 < n && text[i + 1] == '\n')
			continue;
		copy[len] = text[i];
		if (!copy[len])
			copy[len] = ' ';
		len++;
	}
	return copy;
}

/* Copy a name up to a character that it cannot have; returns what follows. */
static const char *config_name(const char *at, char *ret)
{
	while (isalnum((unsigned char)*at) || *at == '-' || *at == '.')
		*ret++ = *at++;
	*ret = '\0';
	return at;
}

/* "[section "sub"]", or the old form [section.sub]; returns what follows. */
static const char *config_section(const char *at, char *section, char *sub)
{
	bool quoted = false;
	char *dot;

	at = config_name(at, section);
	dot = strchr(section, '.');
	if (dot) {
		*dot = '\0';
		sub = stpcpy(sub, dot + 1);
	}
	for (; *at && *at != '\n' && (quoted || *at != ']'); at++) {
		if (*at == '"') {
			quoted = !quoted;
			continue;
		}
		if (*at == '\\' && at[1] && at[1] != '\n')
			at++;
		if (quoted)
			*sub++ = *at;
	}
	*sub = '\0';
	return *at == ']' ? at + 1 : at;
}

/* What is meant by "\" and the character @at; returns '\0' if it continues the line. */
static char config_escape(char c)
{
	return (char)(c == '\n' ? '\0' : c == 'n' ? '\n' : c == 't' ? '\t' : c);
}

/* A value, without quotes, escapes and comments; returns what follows. */
static const char *config_value(const char *at, char *ret)
{
	bool quoted = false;
	size_t n = 0, end = 0;

	for (; *at && *at != '\n'; at++) {
		char c = *at;

		if (c == '"') {
			quoted = !quoted;
			end = n;
			continue;
		}
		if (!quoted && (c == '#' || c == ';'))
			break;
		/* Also in a line that continues the value's first one, which is empty. */
		if (!quoted && n == 0 && isspace((unsigned char)c))
			continue;
		if (c == '\\' && at[1]) {
			c = config_escape(*++at);
			if (!c)
				continue;
			end = n + 1;
		}
		ret[n++] = c;
		if (quoted || !isspace((unsigned char)c))
			end = n;
	}
	ret[end < n ? end : n] = '\0';
	while (*at && *at != '\n')
		at++;
	return at;
}

static const char *config_key(const char *at, struct git_config_entry *e, char *key)
{
	at = config_name(at, key);
	while (*at == ' ' || *at == '\t')
		at++;
	e->value[0] = '\0';
	return *at == '=' ? config_value(at + 1, e->value) : at;
}

int git_config_parse(const char *text, size_t n, git_config_each *each, void *arg)
{
	AUTO_FREE char *copy = config_copy(text, n), *section = calloc(1, n + 1),
		       *sub = calloc(1, n + 1), *key = calloc(1, n + 1),
		       *value = calloc(1, n + 1);
	struct git_config_entry e;
	const char *at = copy;

	if (!copy || !section || !sub || !key || !value)
		return -ENOMEM;
	while (*at) {
		if (isspace((unsigned char)*at)) {
			at++;
		} else if (*at == '[') {
			sub[0] = '\0';
			at = config_section(at + 1, section, sub);
		} else if (isalpha((unsigned char)*at)) {
			e = (struct git_config_entry){ section, key, sub, value };
			at = config_key(at, &e, key);
			each(arg, &e);
		} else {
			at += strcspn(at, "\n");
		}
	}
	return 0;
}

bool git_config_is(const char *text, size_t n)
{
	const char *at = text + git_config_mark(text, n), *end = text + n;

	if (memchr(text, '\0', n))
		return false;
	while (at < end && (isspace((unsigned char)*at) || *at == '#' || *at == ';')) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));

		if (!isspace((unsigned char)*at))
			at = stop ? stop : end - 1;
		at++;
	}
	return end - at > 1 && *at == '[' && isalpha((unsigned char)at[1]);
}
