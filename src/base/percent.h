/* SPDX-License-Identifier: Apache-2.0 */
/* percent.h - decode the percent-encoding of URLs */
#ifndef BASE_PERCENT_H
#define BASE_PERCENT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Decode @n bytes into @out, which has space for @size bytes including the NUL at the
 * end. @plus: '+' means a space, as in forms. Return the length; -EINVAL: a bad escape, a
 * NUL or invalid UTF-8; -ENOSPC: @out is too small.
 */
ssize_t percent_decode(const char *in, size_t n, bool plus, char *out, size_t size);

#endif /* BASE_PERCENT_H */
