/* SPDX-License-Identifier: Apache-2.0 */
/* percent.h - decode the percent-encoding of URLs */
#ifndef BASE_PERCENT_H
#define BASE_PERCENT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Decode @n bytes into @out, which has room for @size of them and the NUL at the end.
 * @plus: '+' is a space, as in forms. Returns the length;
 * -EINVAL: a bad escape, a NUL or what is not UTF-8; -ENOSPC: no room.
 */
ssize_t percent_decode(const char *in, size_t n, bool plus, char *out, size_t size);

#endif /* BASE_PERCENT_H */
