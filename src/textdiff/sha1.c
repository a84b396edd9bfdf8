/* SPDX-License-Identifier: Apache-2.0 */
/* sha1.c - SHA-1 (FIPS 180-4), only for what git names or protects with it */
#include <string.h>

#include "textdiff/sha1.h"

enum {
	SHA1_BLOCK = 64,
	SHA1_LENGTH_AT = 56
};

struct sha1_state {
	uint32_t h[5];
	uint8_t block[SHA1_BLOCK];
	size_t n; /* bytes in the block */
	uint64_t total;
};

static uint32_t sha1_rotate(uint32_t x, int by)
{
	return x << by | x >> (32 - by);
}

static uint32_t sha1_mix(const uint32_t v[5], int round)
{
	if (round < 20)
		return (v[3] ^ (v[1] & (v[2] ^ v[3]))) + 0x5a827999U;
	if (round < 40)
		return (v[1] ^ v[2] ^ v[3]) + 0x6ed9eba1U;
	if (round < 60)
		return ((v[1] & v[2]) | (v[3] & (v[1] | v[2]))) + 0x8f1bbcdcU;
	return (v[1] ^ v[2] ^ v[3]) + 0xca62c1d6U;
}

static void sha1_process(struct sha1_state *s, const uint8_t *p)
{
	uint32_t w[80], v[5];

	for (size_t i = 0; i < 16; i++)
		w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
		       (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
	for (size_t i = 16; i < ARRAY_SIZE(w); i++)
		w[i] = sha1_rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	(void)memcpy(v, s->h, sizeof(v));
	for (int i = 0; i < (int)ARRAY_SIZE(w); i++) {
		uint32_t t = sha1_rotate(v[0], 5) + sha1_mix(v, i) + v[4] + w[i];

		v[4] = v[3];
		v[3] = v[2];
		v[2] = sha1_rotate(v[1], 30);
		v[1] = v[0];
		v[0] = t;
	}
	for (size_t i = 0; i < ARRAY_SIZE(v); i++)
		s->h[i] += v[i];
}

static void sha1_add(struct sha1_state *s, const void *data, size_t n)
{
	const uint8_t *p = data;

	s->total += n;
	while (n) {
		size_t part = SHA1_BLOCK - s->n;

		if (!s->n && n >= SHA1_BLOCK) {
			sha1_process(s, p);
			part = SHA1_BLOCK;
		} else {
			part = part < n ? part : n;
			(void)memcpy(s->block + s->n, p, part);
			s->n = (s->n + part) % SHA1_BLOCK;
			if (!s->n)
				sha1_process(s, s->block);
		}
		p += part;
		n -= part;
	}
}

void sha1_digest(const struct text *parts, size_t n, uint8_t ret[SHA1_SIZE])
{
	struct sha1_state s = { .h = { 0x67452301U, 0xefcdab89U, 0x98badcfeU, 0x10325476U,
				       0xc3d2e1f0U } };
	static const uint8_t zeros[SHA1_BLOCK];
	uint8_t length[8];

	for (size_t i = 0; i < n; i++)
		sha1_add(&s, parts[i].data, parts[i].len);
	for (size_t i = 0; i < sizeof(length); i++)
		length[i] = (uint8_t)(s.total * 8 >> (56 - 8 * i));
	sha1_add(&s, "\x80", 1);
	sha1_add(&s, zeros, (SHA1_BLOCK + SHA1_LENGTH_AT - s.n) % SHA1_BLOCK);
	sha1_add(&s, length, sizeof(length));
	for (size_t i = 0; i < SHA1_SIZE; i++)
		ret[i] = (uint8_t)(s.h[i / 4] >> (24 - 8 * (i % 4)));
}
