/* SPDX-License-Identifier: Apache-2.0 */
/* certificate.h - create and sign certificates */
#ifndef NET_CERTIFICATE_H
#define NET_CERTIFICATE_H

#include <openssl/x509.h>
#include <stddef.h>

#include "base/error.h"

struct certificate_extension {
	int nid;
	const char *value; /* in the words of x509v3_config(5) */
};

struct certificate_request {
	X509 *issuer; /* NULL: it signs itself */
	EVP_PKEY *signer;
	EVP_PKEY *key;       /* key of the subject */
	const char *subject; /* its common name; NULL: it has only alternative names */
	long seconds;        /* how long it is valid */
	const struct certificate_extension *extensions;
	size_t n;
};

/*
 * Create and sign a certificate; NULL: OpenSSL's error queue has the
 * reason.
 */
X509 *certificate_sign(const struct certificate_request *q);
/* Set an error from OpenSSL's error queue; return its code. */
int certificate_fail(struct warren_error *err, const char *what);

#endif /* NET_CERTIFICATE_H */
