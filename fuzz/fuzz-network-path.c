/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-network-path.c - a path that rules are compared with has one form, and a server
 * that decodes it once more, or ignores what follows a semicolon, finds the same segments
 */
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "network/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Decode each %XX, as a careless server does. */
static void fuzz_decode(char *text)
{
	char *to = text;

	for (const char *p = text; *p; to++) {
		int high = *p == '%' ? hex_value(p[1]) : -1;
		int low = high >= 0 ? hex_value(p[2]) : -1;

		*to = low >= 0 ? (char)(high << 4 | low) : *p;
		p += low >= 0 ? 3 : 1;
	}
	*to = '\0';
}

/* Is there a segment that leads to another directory, with or without parameters? */
static bool fuzz_climbs(const char *path)
{
	for (const char *p = path; (p = strpbrk(p, "/\\"));) {
		size_t n = strcspn(++p, "/\\;");

		if ((n == 1 && p[0] == '.') || (n == 2 && memcmp(p, "..", 2) == 0))
			return true;
	}
	return false;
}

static size_t fuzz_slashes(const char *path)
{
	size_t n = 0;

	for (; *path; path++)
		n += *path == '/' || *path == '\\';
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char target[4096], path[4096], again[4096];
	size_t slashes;

	if (size >= sizeof(target))
		return 0;
	(void)memcpy(target, data, size);
	target[size] = '\0';
	if (!rule_path(target, path, sizeof(path)))
		return 0;
	if (path[0] != '/' || strlen(path) > strlen(target))
		abort();
	if (!rule_path(path, again, sizeof(again)) || strcmp(path, again) != 0)
		abort();
	slashes = fuzz_slashes(path);
	for (int i = 0; i < 3; i++) {
		if (fuzz_climbs(path) || fuzz_slashes(path) != slashes)
			abort();
		fuzz_decode(path);
	}
	return 0;
}
