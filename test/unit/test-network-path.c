/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-network-path.c - what a rule allows below /v1/ stays there, for every server
 *
 * The readings are what lenient servers do with a path. They are applied in any
 * combination to random targets made of pieces that have a meaning for one of them.
 */
#include "base/macro.h"
#include "network/policy.h"

#include "lib/tap.h"

#define ROUNDS 200000
#define SIZE   512

static uint32_t seed = 1;

static uint32_t any(uint32_t n)
{
	seed = seed * 1664525U + 1013904223U;
	return (seed >> 8) % n;
}

/* ------------------------------------------------------------------------ readings */

static int hex(char c)
{
	return c >= '0' && c <= '9'                 ? c - '0'
	       : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
						    : -1;
}

static void decode(char *s)
{
	char *out = s;

	for (; *s; s++)
		if (*s == '%' && hex(s[1]) >= 0 && hex(s[2]) >= 0) {
			*out = (char)(hex(s[1]) * 16 + hex(s[2]));
			s += 2;
			if (!*out++)
				return;
		} else {
			*out++ = *s;
		}
	*out = '\0';
}

/* Replace each @from by @to, which is not longer. */
static void replace(char *s, const char *from, const char *to)
{
	for (char *at; (at = strstr(s, from));) {
		(void)memcpy(at, to, strlen(to));
		(void)memmove(at + strlen(to), at + strlen(from),
			      strlen(at + strlen(from)) + 1);
	}
}

static void old_escapes(char *s)
{
	replace(s, "%u002e", ".");
	replace(s, "%u002f", "/");
}

static void other_characters(char *s)
{
	static const char *const from[] = { "\xc0\xae", "\xe0\x80\xae", "\xef\xbc\x8e",
					    "\xe2\x80\xa4" };
	static const char *const slash[] = { "\xc0\xaf", "\xef\xbc\x8f", "\xe2\x88\x95",
					     "\xc1\x9c" };

	for (size_t i = 0; i < ARRAY_SIZE(from); i++)
		replace(s, from[i], ".");
	for (size_t i = 0; i < ARRAY_SIZE(slash); i++)
		replace(s, slash[i], "/");
	replace(s, "\xe2\x80\xa5", ".."); /* two dots in one character */
}

static void only_ascii(char *s)
{
	char *out = s;

	for (; *s; s++)
		if (!(*s & 0x80))
			*out++ = *s;
	*out = '\0';
}

static void seven_bits(char *s)
{
	for (; *s; s++)
		*s = (char)(*s & 0x7f);
}

static void backslashes(char *s)
{
	for (; *s; s++)
		*s = *s == '\\' ? '/' : *s;
}

static void cut_query(char *s)
{
	s[strcspn(s, "?#")] = '\0';
}

static void cut_parameters(char *s)
{
	char *out = s;

	while (*s) {
		if (*s == ';')
			s += strcspn(s, "/");
		else
			*out++ = *s++;
	}
	*out = '\0';
}

static void drop_controls(char *s)
{
	char *out = s;

	for (; *s; s++)
		if ((unsigned char)*s >= ' ')
			*out++ = *s;
	*out = '\0';
}

/* Remove what some systems ignore at the end of a name; ".." itself stays. */
static void trim_segments(char *s)
{
	static const char *const ends[] = { " /", ":/", "::$DATA/" };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		replace(s, ends[i], "/");
	while (*s && s[strlen(s) - 1] == ' ')
		s[strlen(s) - 1] = '\0';
	replace(s, "/ ", "/");
	replace(s, ".../", "../");
}

static void (*const readings[])(char *) = {
	decode,         decode,        old_escapes,   other_characters,
	only_ascii,     seven_bits,    backslashes,   cut_query,
	cut_parameters, drop_controls, trim_segments,
};

/* Resolve the segments "." and ".."; the path begins with '/'. */
static void resolve(char *s)
{
	char out[SIZE] = "";
	char *rest = s, *segment;

	while ((segment = strsep(&rest, "/"))) {
		char *last = strrchr(out, '/');

		if (strcmp(segment, "..") == 0) {
			if (last)
				*last = '\0';
		} else if (*segment && strcmp(segment, ".") != 0) {
			(void)strcat(out, "/");
			(void)strcat(out, segment);
		}
	}
	(void)strcpy(s, out);
}

/* ------------------------------------------------------------------------- targets */

static void random_target(char *out)
{
	static const char *const pieces[] = {
		".",         "..",        "/",         "/",      "/../",   "%2e",
		"%2E",       "%2f",       "%5c",       "\\",     "%252e",  "%25",
		";",         ";a=b",      "%3b",       "?",      "%3f",    "#",
		"%23",       "%20",       " ",         "%00",    "%09",    "%0d",
		"%c0%ae",    "%c0%af",    "%ef%bc%8e", "%u002e", "%u002f", "%ae",
		"%e0%80%ae", "%e2%80%a5", "\xc0\xae",  "\xae",   "a",      "b",
		"admin",     ":",         "::$DATA",   "~",      "%3a",    "@",
		"v1",
	};

	(void)strcpy(out, "/v1/");
	for (uint32_t i = any(8) + 1; i > 0; i--)
		(void)strcat(out, pieces[any(ARRAY_SIZE(pieces))]);
}

static bool is_below(const char *path)
{
	return strncmp(path, "/v1/", 4) == 0 || strcmp(path, "/v1") == 0;
}

TEST(no_server_reads_an_allowed_path_as_another_one)
{
	unsigned accepted = 0, outside = 0;

	for (int i = 0; i < ROUNDS; i++) {
		char target[SIZE], path[SIZE], read[SIZE];
		bool ok;

		random_target(target);
		ok = rule_path(target, path, sizeof(path)) &&
		     strncmp(path, "/v1/", 4) == 0;
		accepted += ok;
		(void)strcpy(read, target);
		cut_query(read);
		for (uint32_t n = any(6); n > 0; n--)
			readings[any(ARRAY_SIZE(readings))](read);
		resolve(read);
		if (ok && !is_below(read))
			TAP_FAIL("%s is read as %s", target, read);
		outside += !ok && !is_below(read);
	}
	/* The targets are both harmless and not. */
	OK(accepted > ROUNDS / 100);
	OK(outside > ROUNDS / 100);
}

TEST_MAIN()
