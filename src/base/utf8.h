/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.h - check UTF-8: no overlong forms, no surrogates, nothing incomplete */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Length of the sequence that the @n bytes at @data begin with; 0 when they do not begin
 * with one.
 */
size_t utf8_len(const void *data, size_t n);
bool utf8_valid(const void *s, size_t n);
/* How many bytes at the end of @data begin a sequence and do not end it: 0 to 3. */
size_t utf8_cut(const void *data, size_t n);
/* Characters in text that is valid. */
size_t utf8_count(const void *data, size_t n);

#endif /* BASE_UTF8_H */
