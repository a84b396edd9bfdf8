/* SPDX-License-Identifier: Apache-2.0 */
/* sha1.h - SHA-1, only for what git names or protects with it */
#ifndef TEXTDIFF_SHA1_H
#define TEXTDIFF_SHA1_H

#include <stdint.h>

#include "textdiff/text.h"

#define SHA1_SIZE 20

/* Compute the sum of all @parts together. */
void sha1_digest(const struct text *parts, size_t n, uint8_t ret[SHA1_SIZE]);

#endif /* TEXTDIFF_SHA1_H */
