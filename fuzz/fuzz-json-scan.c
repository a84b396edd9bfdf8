/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-json-scan.c - the check of JSON in pieces agrees with itself and with a parser */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool scan(const char *text, size_t n, size_t step)
{
	struct json_scan s = { 0 };

	for (size_t at = 0; at < n; at += step)
		(void)json_scan_add(&s, text + at, n - at < step ? n - at : step);
	return json_scan_ends(&s);
}

/* Is there no byte that only the parser accepts? It ignores a NUL after a number. */
static bool is_plain(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (text[i] < 0x20 || text[i] >= 0x7f)
			return false;
	return true;
}

/* The first byte is the size of the pieces. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data + 1;
	size_t n = size > 0 ? size - 1 : 0;
	json_error_t why;
	json_t *json;
	bool valid;

	if (n == 0)
		return 0;
	valid = scan(text, n, n);
	if (scan(text, n, data[0] % 16U + 1) != valid)
		abort();
	json = json_loadb(text, n, JSON_ALLOW_NUL, &why);
	if (!valid && json_is_object(json) && is_plain(text, n) && n <= JSON_SCAN_DEPTH)
		abort();
	/* The parser has limits, and refuses some escapes. */
	if (valid && !json_is_object(json) && !memmem(text, n, "\\u", 2) &&
	    json_error_code(&why) != json_error_numeric_overflow)
		abort();
	json_decref(json);
	return 0;
}
