/* SPDX-License-Identifier: Apache-2.0 */
/* hash.h - SHA-256 of data that arrives in pieces */
#ifndef IMAGE_HASH_H
#define IMAGE_HASH_H

#include <stdint.h>

#include "base/macro.h"

#define HASH_LEN 64 /* hexadecimal digits */

struct hash; /* NULL if there was not enough memory; then hash_end() fails */

struct hash *hash_new(void);
struct hash *hash_free(struct hash *h);
void hash_add(struct hash *h, const void *data, size_t n);
/* Add a text with its length before it, so that two texts cannot become one. */
void hash_text(struct hash *h, const char *text);
void hash_number(struct hash *h, uint64_t n);
/* Write the digits of the sum, without "sha256:". */
int hash_end(struct hash *h, char ret[HASH_LEN + 1]) MUST_CHECK;

static inline void hash_free_p(struct hash **h)
{
	(void)hash_free(*h);
}

#define AUTO_HASH CLEANUP(hash_free_p)

#endif /* IMAGE_HASH_H */
