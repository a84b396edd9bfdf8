/* SPDX-License-Identifier: Apache-2.0 */
/* punycode.h - check the encoding of names that are not ASCII (RFC 3492) */
#ifndef NETWORK_PUNYCODE_H
#define NETWORK_PUNYCODE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Whether the @n bytes at @text, a label without its "xn--", in lower case, decode to
 * code points of Unicode of which at least one is not ASCII and none is a control
 * character. Which characters a registry permits (IDNA) is not checked.
 */
bool punycode_valid(const char *text, size_t n);

#endif /* NETWORK_PUNYCODE_H */
