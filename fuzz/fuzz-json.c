/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-json.c - the output is valid JSON in UTF-8, whatever the strings contain */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/*
 * Skip one character of a string, escaped or in UTF-8. Return the start of the next one;
 * NULL: it is invalid.
 */
static const unsigned char *skip_char(const unsigned char *s)
{
	static const struct {
		unsigned char first, last, low,
			high; /* bounds of the first byte, and of the second */
		int more;
	} forms[] = {
		{ 0xc2, 0xdf, 0x80, 0xbf, 1 }, { 0xe0, 0xe0, 0xa0, 0xbf, 2 },
		{ 0xe1, 0xec, 0x80, 0xbf, 2 }, { 0xed, 0xed, 0x80, 0x9f, 2 },
		{ 0xee, 0xef, 0x80, 0xbf, 2 }, { 0xf0, 0xf0, 0x90, 0xbf, 3 },
		{ 0xf1, 0xf3, 0x80, 0xbf, 3 }, { 0xf4, 0xf4, 0x80, 0x8f, 3 },
	};

	if (*s == '\\') {
		if (s[1] == 'u')
			return strspn((const char *)s + 2, "0123456789abcdef") >= 4
				       ? s + 6
				       : NULL;
		return s[1] && strchr("\"\\/bfnrt", s[1]) ? s + 2 : NULL;
	}
	if (*s >= 0x20 && *s < 0x80)
		return s + 1;
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		if (*s < forms[i].first || *s > forms[i].last)
			continue;
		if (s[1] < forms[i].low || s[1] > forms[i].high)
			return NULL;
		for (int k = 2; k <= forms[i].more; k++)
			if ((s[k] & 0xc0) != 0x80)
				return NULL;
		return s + 1 + forms[i].more;
	}
	return NULL;
}

/* Skip a string at @s and the character that must follow it. */
static const unsigned char *skip_string(const unsigned char *s, const char *then)
{
	if (*s++ != '"')
		abort();
	while (*s != '"') {
		s = skip_char(s);
		if (!s)
			abort();
	}
	s++;
	if (strncmp((const char *)s, then, strlen(then)) != 0)
		abort();
	return s + strlen(then);
}

/* The input is a key and a value, with a NUL in between. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_BUF struct buf out = BUF_INIT(8U << 20);
	struct json j = { .out = &out };
	char *key = strndup((const char *)data, size);
	size_t n = key ? strlen(key) : 0;
	char *value = n < size ? strndup((const char *)data + n + 1, size - n - 1) : NULL;
	const unsigned char *s;

	json_open(&j, NULL, '{');
	json_str(&j, key, value ? value : "");
	json_open(&j, key, '[');
	json_str(&j, NULL, key);
	json_u64(&j, NULL, size);
	json_close(&j, ']');
	json_close(&j, '}');
	if (!key || out.failed)
		abort();
	s = (const unsigned char *)out.data;
	s = skip_string(s + 1, ":");
	s = skip_string(s, ",");
	s = skip_string(s, ":[");
	s = skip_string(s, ",");
	s += strspn((const char *)s, "0123456789");
	if (strcmp((const char *)s, "]}") != 0)
		abort();
	free(key);
	free(value);
	return 0;
}
