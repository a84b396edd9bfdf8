/* SPDX-License-Identifier: Apache-2.0 */
/* secret.c - seal and unseal values with AES-256-GCM */
#include "secret/secret.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <string.h>

#define SECRET_FORMAT 1
#define NONCE_SIZE    12
#define TAG_SIZE      16

_Static_assert(SECRET_OVERHEAD - TAG_SIZE == 1 + SECRET_KEY_ID + NONCE_SIZE,
	       "the parts of a sealed value");

static void secret_free_ctx(EVP_CIPHER_CTX **ctx)
{
	EVP_CIPHER_CTX_free(*ctx);
}

int secret_check_value(const char *value, size_t n, struct warren_error *err)
{
	if (n == 0)
		return error_set(err, EINVAL, "the value is empty");
	if (n > SECRET_VALUE_MAX)
		return error_set(err, EINVAL,
				 "the value has %zu bytes; the maximum is %d", n,
				 SECRET_VALUE_MAX);
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)value[i];

		if ((c < ' ' && c != '\t') || c == 0x7f)
			return error_set(err, EINVAL,
					 "the value contains a line break or another "
					 "control character, which a header cannot "
					 "contain");
	}
	return 0;
}

/*
 * Start a cipher, and pass it the data that is authenticated: the head of the sealed
 * value, the tenant and the name. The tenant and the name include their NUL, so that no
 * two pairs look the same.
 */
static int secret_start(EVP_CIPHER_CTX *ctx, const struct secret_key *key, int encrypt,
			const unsigned char *head, const char *tenant, const char *name)
{
	const unsigned char *nonce = head + 1 + SECRET_KEY_ID;
	int n = 0;

	return EVP_CipherInit_ex(ctx, EVP_aes_256_gcm(), NULL, key->bytes, nonce,
				 encrypt) == 1 &&
	       EVP_CipherUpdate(ctx, NULL, &n, head, 1 + SECRET_KEY_ID) == 1 &&
	       EVP_CipherUpdate(ctx, NULL, &n, (const unsigned char *)tenant,
				(int)strlen(tenant) + 1) == 1 &&
	       EVP_CipherUpdate(ctx, NULL, &n, (const unsigned char *)name,
				(int)strlen(name) + 1) == 1;
}

int secret_seal(const struct secret_key *key, const char *tenant, const char *name,
		const char *value, size_t n, unsigned char ret[SECRET_SEALED_MAX],
		size_t *ret_n, struct warren_error *err)
{
	CLEANUP(secret_free_ctx) EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	unsigned char *body = ret + 1 + SECRET_KEY_ID + NONCE_SIZE;
	int len = 0, rest = 0;
	int r = secret_check_value(value, n, err);

	if (r < 0)
		return r;
	ret[0] = SECRET_FORMAT;
	(void)memcpy(ret + 1, key->id, SECRET_KEY_ID);
	/* Nonces are random, so at most 2^32 values should be sealed with one key. */
	if (!ctx || RAND_bytes(ret + 1 + SECRET_KEY_ID, NONCE_SIZE) != 1 ||
	    !secret_start(ctx, key, 1, ret, tenant, name) ||
	    EVP_CipherUpdate(ctx, body, &len, (const unsigned char *)value, (int)n) !=
		    1 ||
	    EVP_CipherFinal_ex(ctx, body + len, &rest) != 1 ||
	    EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG_SIZE, body + n) != 1) {
		ERR_clear_error();
		return error_errno(err, ENOMEM, "encrypt the secret '%s'", name);
	}
	*ret_n = n + SECRET_OVERHEAD;
	return 0;
}

int secret_unseal(const struct secret_key *key, const char *tenant, const char *name,
		  const unsigned char *sealed, size_t sealed_n,
		  char ret[SECRET_VALUE_MAX + 1], size_t *ret_n, struct warren_error *err)
{
	CLEANUP(secret_free_ctx) EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	size_t n = sealed_n - SECRET_OVERHEAD;
	unsigned char tag[TAG_SIZE];
	const unsigned char *body;
	int len = 0, rest = 0;

	if (!ctx)
		return error_errno(err, ENOMEM, "decrypt the secret '%s'", name);
	if (sealed_n <= SECRET_OVERHEAD || sealed_n > SECRET_SEALED_MAX ||
	    sealed[0] != SECRET_FORMAT)
		return error_set(err, EBADMSG, "the secret '%s' is damaged: set it again",
				 name);
	if (CRYPTO_memcmp(sealed + 1, key->id, SECRET_KEY_ID) != 0)
		return error_set(err, ENOKEY,
				 "the secret '%s' was encrypted with another key: "
				 "restore that key, or set the secret again",
				 name);
	body = sealed + 1 + SECRET_KEY_ID + NONCE_SIZE;
	(void)memcpy(tag, body + n, TAG_SIZE);
	if (!secret_start(ctx, key, 0, sealed, tenant, name) ||
	    EVP_CipherUpdate(ctx, (unsigned char *)ret, &len, body, (int)n) != 1 ||
	    EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, TAG_SIZE, tag) != 1 ||
	    EVP_CipherFinal_ex(ctx, (unsigned char *)ret + len, &rest) != 1) {
		ERR_clear_error();
		OPENSSL_cleanse(ret, n);
		return error_set(err, EBADMSG,
				 "the secret '%s' is damaged, or was copied from "
				 "another place: set it again",
				 name);
	}
	ret[n] = '\0';
	*ret_n = n;
	return 0;
}
