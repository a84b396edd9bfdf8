/* SPDX-License-Identifier: Apache-2.0 */
/* certificate.c - create and sign certificates */
#include "net/certificate.h"

#include <errno.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#define CLOCK_SKEW  3600L /* for clients whose clock is slow */
#define SERIAL_BITS 120

int certificate_fail(struct warren_error *err, const char *what)
{
	unsigned long e = ERR_peek_last_error();
	const char *why = e ? ERR_reason_error_string(e) : NULL;

	ERR_clear_error();
	return error_set(err, EINVAL, "%s: %s", what, why ? why : "malformed");
}

static bool certificate_put_serial(X509 *x)
{
	BIGNUM *n = BN_new();
	bool ok = n &&
		  BN_rand(n, SERIAL_BITS, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
		  BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x));

	BN_free(n);
	return ok;
}

static bool certificate_put_names(X509 *x, const struct certificate_request *q)
{
	X509_NAME *name = X509_get_subject_name(x);

	if (q->subject && (X509_NAME_add_entry_by_txt(name, "O", MBSTRING_ASC,
						      (const unsigned char *)"Warren", -1,
						      -1, 0) != 1 ||
			   X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
						      (const unsigned char *)q->subject,
						      -1, -1, 0) != 1))
		return false;
	return X509_set_issuer_name(x, q->issuer ? X509_get_subject_name(q->issuer)
						 : name) == 1;
}

static bool certificate_put_extensions(X509 *x, const struct certificate_request *q)
{
	X509V3_CTX ctx;

	X509V3_set_ctx(&ctx, q->issuer ? q->issuer : x, x, NULL, NULL, 0);
	X509V3_set_ctx_nodb(&ctx);
	for (size_t i = 0; i < q->n; i++) {
		X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, q->extensions[i].nid,
							q->extensions[i].value);
		bool ok = e && X509_add_ext(x, e, -1) == 1;

		X509_EXTENSION_free(e);
		if (!ok)
			return false;
	}
	return true;
}

X509 *certificate_sign(const struct certificate_request *q)
{
	X509 *x = X509_new();

	if (x && X509_set_version(x, X509_VERSION_3) == 1 && certificate_put_serial(x) &&
	    certificate_put_names(x, q) &&
	    X509_gmtime_adj(X509_getm_notBefore(x), -CLOCK_SKEW) &&
	    X509_gmtime_adj(X509_getm_notAfter(x), q->seconds) &&
	    X509_set_pubkey(x, q->key) == 1 && certificate_put_extensions(x, q) &&
	    X509_sign(x, q->signer, EVP_sha256()) != 0)
		return x;
	X509_free(x);
	return NULL;
}
