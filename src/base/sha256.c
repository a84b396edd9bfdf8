/* SPDX-License-Identifier: Apache-2.0 */
/* sha256.c - SHA-256 as FIPS 180-4 defines it */
#include "base/sha256.h"

#include <string.h>

#include "base/hex.h"

static const uint32_t sha256_constants[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
	0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
	0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
	0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
	0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
	0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
	0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
	0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t sha256_rotate(uint32_t x, unsigned n)
{
	return x >> n | x << (32 - n);
}

static void sha256_schedule(const unsigned char *block, uint32_t w[64])
{
	for (size_t i = 0; i < 16; i++)
		w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
		       (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
	for (size_t i = 16; i < 64; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];

		w[i] = w[i - 16] + w[i - 7] +
		       (sha256_rotate(a, 7) ^ sha256_rotate(a, 18) ^ a >> 3) +
		       (sha256_rotate(b, 17) ^ sha256_rotate(b, 19) ^ b >> 10);
	}
}

static void sha256_block(struct sha256 *h, const unsigned char *block)
{
	uint32_t w[64];
	uint32_t s0 = h->state[0], s1 = h->state[1], s2 = h->state[2], s3 = h->state[3];
	uint32_t s4 = h->state[4], s5 = h->state[5], s6 = h->state[6], s7 = h->state[7];

	sha256_schedule(block, w);
	/* Eight variables rather than an array: the compiler keeps them in registers. */
	for (size_t i = 0; i < 64; i++) {
		uint32_t one = s7 + ((s4 & s5) ^ (~s4 & s6)) + sha256_constants[i] +
			       w[i] +
			       (sha256_rotate(s4, 6) ^ sha256_rotate(s4, 11) ^
				sha256_rotate(s4, 25));
		uint32_t two = ((s0 & s1) ^ (s0 & s2) ^ (s1 & s2)) +
			       (sha256_rotate(s0, 2) ^ sha256_rotate(s0, 13) ^
				sha256_rotate(s0, 22));

		s7 = s6;
		s6 = s5;
		s5 = s4;
		s4 = s3 + one;
		s3 = s2;
		s2 = s1;
		s1 = s0;
		s0 = one + two;
	}
	h->state[0] += s0;
	h->state[1] += s1;
	h->state[2] += s2;
	h->state[3] += s3;
	h->state[4] += s4;
	h->state[5] += s5;
	h->state[6] += s6;
	h->state[7] += s7;
}

void sha256_add(struct sha256 *h, const void *data, size_t n)
{
	const unsigned char *p = data;
	size_t used = h->length % sizeof(h->block);

	h->length += n;
	while (n > 0) {
		size_t part = sizeof(h->block) - used < n ? sizeof(h->block) - used : n;

		(void)memcpy(h->block + used, p, part);
		used += part;
		p += part;
		n -= part;
		if (used == sizeof(h->block)) {
			sha256_block(h, h->block);
			used = 0;
		}
	}
}

void sha256_text(struct sha256 *h, const char *text)
{
	uint64_t n = strlen(text);
	unsigned char bytes[8];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)(n >> (8 * i));
	sha256_add(h, bytes, sizeof(bytes));
	sha256_add(h, text, n);
}

void sha256_bytes(struct sha256 *h, unsigned char ret[SHA256_BYTES])
{
	static const unsigned char padding[64] = { 0x80 };
	uint64_t bits = h->length * 8;
	size_t used = h->length % sizeof(h->block);
	unsigned char length[8];

	for (size_t i = 0; i < sizeof(length); i++)
		length[i] = (unsigned char)(bits >> (56 - 8 * i));
	sha256_add(h, padding, (used < 56 ? 56 : 120) - used);
	sha256_add(h, length, sizeof(length));
	for (size_t i = 0; i < SHA256_BYTES; i++)
		ret[i] = (unsigned char)(h->state[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256_end(struct sha256 *h, char ret[SHA256_DIGITS + 1])
{
	unsigned char sum[SHA256_BYTES];

	sha256_bytes(h, sum);
	(void)hex_encode(sum, sizeof(sum), ret);
}
