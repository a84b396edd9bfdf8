/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sha256.h - SHA-256 for programs that must not load a cryptographic library
 *
 *	struct sha256 h = SHA256_INIT;
 *
 *	sha256_add(&h, data, n);
 *	sha256_end(&h, digits);
 */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES  32
#define SHA256_DIGITS 64 /* hexadecimal */

struct sha256 {
	uint32_t state[8];
	uint64_t length; /* bytes */
	unsigned char block[64];
};

#define SHA256_INIT                                                          \
	{                                                                    \
		.state = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,   \
			   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 }, \
	}

void sha256_add(struct sha256 *h, const void *data, size_t n);
/* Add a text with its length in front, so that two texts cannot become one. */
void sha256_text(struct sha256 *h, const char *text);
/* Write the sum; add nothing after this. */
void sha256_bytes(struct sha256 *h, unsigned char ret[SHA256_BYTES]);
void sha256_end(struct sha256 *h, char ret[SHA256_DIGITS + 1]);

#endif /* BASE_SHA256_H */
