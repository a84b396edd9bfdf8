/* SPDX-License-Identifier: Apache-2.0 */
/* hash.c - SHA-256 by OpenSSL */
#include "image/hash.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <string.h>

#include "base/hex.h"

struct hash {
	EVP_MD_CTX *md;
	bool failed;
};

struct hash *hash_new(void)
{
	struct hash *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->md = EVP_MD_CTX_new();
	h->failed = !h->md || EVP_DigestInit_ex(h->md, EVP_sha256(), NULL) != 1;
	return h;
}

struct hash *hash_free(struct hash *h)
{
	if (h)
		EVP_MD_CTX_free(h->md);
	free(h);
	return NULL;
}

void hash_add(struct hash *h, const void *data, size_t n)
{
	if (h && !h->failed)
		h->failed = EVP_DigestUpdate(h->md, data, n) != 1;
}

void hash_number(struct hash *h, uint64_t n)
{
	unsigned char bytes[8];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)(n >> (8 * i));
	hash_add(h, bytes, sizeof(bytes));
}

void hash_text(struct hash *h, const char *text)
{
	hash_number(h, strlen(text));
	hash_add(h, text, strlen(text));
}

int hash_end(struct hash *h, char ret[HASH_LEN + 1])
{
	unsigned char sum[EVP_MAX_MD_SIZE];

	if (!h || h->failed || EVP_DigestFinal_ex(h->md, sum, NULL) != 1)
		return -ENOMEM;
	(void)hex_encode(sum, HASH_LEN / 2, ret);
	return 0;
}
