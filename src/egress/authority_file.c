/* SPDX-License-Identifier: Apache-2.0 */
/* authority_file.c - create the file of a certificate authority */
#include <errno.h>
#include <fcntl.h>
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
#include "net/certificate.h"

#define CA_SECONDS (3653L * 86400) /* ten years */
#define CERT_BEGIN "-----BEGIN CERTIFICATE-----\n"
#define CERT_END   "-----END CERTIFICATE-----\n"

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
	static const struct certificate_extension extensions[] = {
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
	const struct certificate_request q = { .signer = key,
					       .key = key,
					       .subject = name,
					       .seconds = CA_SECONDS,
					       .extensions = extensions,
					       .n = ARRAY_SIZE(extensions) };
	X509 *cert = key && authority_name(name) ? certificate_sign(&q) : NULL;
	bool ok = cert &&
		  PEM_write_bio_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL) == 1 &&
		  PEM_write_bio_X509(out, cert) == 1;

	X509_free(cert);
	EVP_PKEY_free(key);
	return ok ? 0 : certificate_fail(err, "create the certificate authority");
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
