/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.h - a JSON writer: it adds commas and escapes; the caller opens and closes objects
 *
 *	json_open(&j, NULL, '{');
 *	json_str(&j, "name", "value");
 *	json_close(&j, '}');
 *
 * A NULL key means an element of an array, or the top level. Bytes that are not UTF-8
 * become U+FFFD, so that the output is always valid JSON. Control characters, and those
 * that are invisible or change the direction of text, are escaped (utf8_deceives()).
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdint.h>

#include "base/buf.h"

struct json {
	struct buf *out;
	bool comma;
};

void json_open(struct json *j, const char *key, char bracket);
void json_close(struct json *j, char bracket);
void json_str(struct json *j, const char *key, const char *value); /* NULL: null */
/* Write a string of @n arbitrary bytes; a NUL is escaped. */
void json_strn(struct json *j, const char *key, const void *value, size_t n);
/* Write @n bytes as a string in base64. */
void json_base64(struct json *j, const char *key, const void *value, size_t n);
/* Insert @n bytes that are already JSON. */
void json_raw(struct json *j, const char *key, const char *text, size_t n);
void json_int(struct json *j, const char *key, int64_t value);
void json_u64(struct json *j, const char *key, uint64_t value);
void json_bool(struct json *j, const char *key, bool value);
void json_nil(struct json *j, const char *key); /* jansson has a json_null() */
/* Write @thousandths / 1000 with three decimals. */
void json_milli(struct json *j, const char *key, uint64_t thousandths);

#endif /* BASE_JSON_H */
