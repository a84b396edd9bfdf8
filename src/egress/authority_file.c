/* SPDX-License-Identifier: Apache-2.0 */
/* authority_file.c - create the file of a certificate authority, and sign certificates */
#include <errno.h>
#include <fcntl.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hex.h"
#include "egress/authority.h"
#include "egress/authority_internal.h"

#define CA_SECONDS  (3653L * 86400) /* ten years */
#define CLOCK_SKEW  3600L           /* for clients whose clock is slow */
#define SERIAL_BITS 120
#define CERT_BEGIN  "-----BEGIN CERTIFICATE-----\n"
#define CERT_END    "-----END CERTIFICATE-----\n"

/* ------------------------------------------------------------------------- signing */

static bool authority_put_serial(X509 *x)
{
	BIGNUM *n = BN_new();
	bool ok = n &&
		  BN_rand(n, SERIAL_BITS, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
		  BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x));

	BN_free(n);
	return ok;
}

static bool authority_put_names(X509 *x, const struct authority_request *q)
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

static bool authority_put_extensions(X509 *x, const struct authority_request *q)
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

X509 *authority_sign(const struct authority_request *q)
{
	X509 *x = X509_new();

	if (x && X509_set_version(x, X509_VERSION_3) == 1 && authority_put_serial(x) &&
	    authority_put_names(x, q) &&
	    X509_gmtime_adj(X509_getm_notBefore(x), -CLOCK_SKEW) &&
	    X509_gmtime_adj(X509_getm_notAfter(x), q->seconds) &&
	    X509_set_pubkey(x, q->key) == 1 && authority_put_extensions(x, q) &&
	    X509_sign(x, q->signer, EVP_sha256()) != 0)
		return x;
	X509_free(x);
	return NULL;
}

/* ------------------------------------------------------------------------ creation */

/* Choose a name that no other authority has: some clients confuse authorities of the same
 * name. */
static bool authority_name(char ret[64])
{
	unsigned char bits[6];

	if (RAND_bytes(bits, sizeof(bits)) != 1)
		return false;
	(void)hex_encode(bits, sizeof(bits), stpcpy(ret, "Warren egress CA "));
	return true;
}

static int authority_make_pem(BIO *out, struct warren_error *err)
{
	static const struct authority_extension extensions[] = {
		{ NID_basic_constraints, "critical,CA:TRUE,pathlen:0" },
		{ NID_key_usage, "critical,keyCertSign,cRLSign" },
		{ NID_subject_key_identifier, "hash" },
		/* Only host names are allowed, because no certificate is ever needed for
		 * an address. */
		{ NID_name_constraints, "critical,excluded;IP:0.0.0.0/0.0.0.0,excluded;"
					"IP:0:0:0:0:0:0:0:0/0:0:0:0:0:0:0:0" },
	};
	EVP_PKEY *key = EVP_EC_gen("P-256");
	char name[64];
	const struct authority_request q = { .signer = key,
					     .key = key,
					     .subject = name,
					     .seconds = CA_SECONDS,
					     .extensions = extensions,
					     .n = ARRAY_SIZE(extensions) };
	X509 *cert = key && authority_name(name) ? authority_sign(&q) : NULL;
	bool ok = cert &&
		  PEM_write_bio_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL) == 1 &&
		  PEM_write_bio_X509(out, cert) == 1;

	X509_free(cert);
	EVP_PKEY_free(key);
	return ok ? 0 : authority_fail(err, "create the certificate authority");
}

int authority_create(const char *path, struct warren_error *err)
{
	BIO *pem;
	char *data = NULL;
	long n;
	int r;

	if (access(path, F_OK) == 0)
		return 0;
	pem = BIO_new(BIO_s_secmem());
	if (!pem)
		return error_errno(err, ENOMEM, "create the certificate authority");
	r = authority_make_pem(pem, err);
	n = BIO_get_mem_data(pem, &data);
	if (r == 0) {
		r = fd_create_file(path, data, (size_t)n);
		/* If another process created the file first, its authority is used. */
		r = r < 0 && r != -EEXIST ? error_errno(err, -r, "create '%s'", path) : 0;
	}
	if (n > 0)
		OPENSSL_cleanse(data, (size_t)n);
	BIO_free(pem);
	return r;
}

int authority_read_certificate(const char *path, struct buf *out,
			       struct warren_error *err)
{
	char text[AUTHORITY_FILE_MAX];
	ssize_t n = fd_read_file_at(AT_FDCWD, path, text, sizeof(text));
	const char *begin = n > 0 ? strstr(text, CERT_BEGIN) : NULL;
	const char *end = begin ? strstr(begin, CERT_END) : NULL;
	int r = 0;

	if (n < 0)
		r = error_errno(err, (int)-n, "read '%s'", path);
	else if (!end)
		r = error_set(err, EINVAL, "'%s' has no certificate", path);
	else
		buf_add(out, begin, (size_t)(end - begin) + strlen(CERT_END));
	OPENSSL_cleanse(text, sizeof(text));
	return r;
}
