/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_scan.h - check that text is JSON, piece by piece, without storing it
 *
 *	struct json_scan s = { 0 };
 *
 *	while (...)
 *		json_scan_add(&s, piece, n);
 *	valid = json_scan_ends(&s);
 *
 * The text must be one object of ASCII characters. Keys may be repeated.
 */
#ifndef BASE_JSON_SCAN_H
#define BASE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_SCAN_DEPTH 128 /* objects and arrays within each other */

struct json_scan {
	uint8_t state;
	uint8_t left;        /* hexadecimal digits, or bytes of a literal, to come */
	uint8_t depth;       /* number of open objects and arrays */
	bool key;            /* the string is a key */
	const char *literal; /* the rest of true, false or null */
	uint64_t arrays[JSON_SCAN_DEPTH / 64]; /* which of those are arrays */
};

/* Return whether the text can still become valid. */
bool json_scan_add(struct json_scan *s, const char *data, size_t n);
/* Return whether the text is complete and valid. */
bool json_scan_ends(const struct json_scan *s);

#endif /* BASE_JSON_SCAN_H */
