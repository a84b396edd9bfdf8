/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.h - check UTF-8: no overlong forms, no surrogates, nothing incomplete */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Length of the valid sequence at the start of the @n bytes at @data; 0 if there is none.
 */
size_t utf8_len(const void *data, size_t n);
bool utf8_valid(const void *s, size_t n);
/* Number of bytes (0 to 3) of an incomplete sequence at the end of @data. */
size_t utf8_cut(const void *data, size_t n);
/* The character of the valid sequence of @n > 1 bytes. */
uint32_t utf8_char(const void *data, size_t n);
/*
 * Is the valid sequence of @n > 1 bytes a control character, or one that is invisible or
 * changes the direction of text? Text with it may look like other text.
 */
bool utf8_deceives(const void *data, size_t n);
/* Is the valid sequence a space of any width? */
bool utf8_is_blank(const void *data, size_t n);
/*
 * May a terminal get what the @n > 0 bytes at @data begin with: is it valid, no control
 * character, and nothing that deceives? *@ret_len is its length; 1 if it is not valid.
 */
bool utf8_shows(const void *data, size_t n, size_t *ret_len);
/* Number of characters in valid text. */
size_t utf8_count(const void *data, size_t n);

#endif /* BASE_UTF8_H */
