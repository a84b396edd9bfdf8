/* SPDX-License-Identifier: Apache-2.0 */
/* punycode.h - check the encoding of names that are not ASCII (RFC 3492) */
#ifndef NETWORK_PUNYCODE_H
#define NETWORK_PUNYCODE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Return whether the @n bytes at @text are valid: they must decode to Unicode code
 * points, at least one of which is not ASCII and none of which is a control character.
 * @text is a label in lower case without its "xn--". The characters that IDNA permits are
 * not checked.
 */
bool punycode_valid(const char *text, size_t n);

#endif /* NETWORK_PUNYCODE_H */
