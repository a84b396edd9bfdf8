/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-regex.c - a pattern and a line: a match is within the line and found in time, or
 * there is an error
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "regex/regex.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int (*const make[])(const char *, bool, struct pattern **,
				   struct warren_error *) = { pattern_new_regex,
							      pattern_new_glob,
							      pattern_new_text };
	const uint8_t *end = memchr(data, '\n', size);
	struct warren_error err = WARREN_ERROR_INIT;
	struct pattern *p = NULL;
	size_t from = 0, to = 0, n = end ? (size_t)(end - data) : 0;
	char text[512];

	if (n < 2 || n >= sizeof(text))
		return 0;
	(void)memcpy(text, data + 1, n - 1);
	text[n - 1] = '\0';
	if (make[data[0] % 3](text, data[0] & 4, &p, &err) < 0) {
		if (!err.code)
			abort();
		return 0;
	}
	data += n + 1;
	size -= n + 1;
	if (pattern_find(p, (const char *)data, size, &from, &to) &&
	    (from > to || to > size))
		abort();
	(void)pattern_free(p);
	return 0;
}
