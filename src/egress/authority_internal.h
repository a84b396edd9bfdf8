/* SPDX-License-Identifier: Apache-2.0 */
/* authority_internal.h - create and sign a certificate */
#ifndef EGRESS_AUTHORITY_INTERNAL_H
#define EGRESS_AUTHORITY_INTERNAL_H

#include <openssl/x509.h>
#include <stddef.h>

#include "base/error.h"

struct authority_extension {
	int nid;
	const char *value; /* in the words of x509v3_config(5) */
};

struct authority_request {
	X509 *issuer; /* NULL: it signs itself */
	EVP_PKEY *signer;
	EVP_PKEY *key;       /* key of the subject */
	const char *subject; /* its common name; NULL: it has only alternative names */
	long seconds;        /* how long it is valid */
	const struct authority_extension *extensions;
	size_t n;
};

/*
 * authority_file.c: create and sign a certificate; NULL: OpenSSL's error queue has the
 * reason.
 */
X509 *authority_sign(const struct authority_request *q);
/* Set an error from OpenSSL's error queue; return its code. */
int authority_fail(struct warren_error *err, const char *what);

#endif /* EGRESS_AUTHORITY_INTERNAL_H */
