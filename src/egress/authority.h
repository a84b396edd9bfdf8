/* SPDX-License-Identifier: Apache-2.0 */
/*
 * authority.h - a certificate authority of one service, for TLS that is terminated
 *
 * To add headers to requests, or to allow only some requests, warren-egress must see the
 * requests inside TLS. For the hosts of such rules, warren-egress presents a certificate
 * that this authority has issued, and sandboxes trust the authority.
 *
 * The authority is a file with mode 0600: an EC key (P-256) and a certificate that is
 * valid for ten years. It is created once and never replaced. Each service has its own,
 * so its key is useless outside the sandboxes of that service. The certificate cannot be
 * used to issue other authorities, nor certificates for addresses.
 *
 * Certificates for hosts are created in memory when they are needed, and are valid for a
 * day. They share one key, which is never stored. The least recently used are dropped.
 */
#ifndef EGRESS_AUTHORITY_H
#define EGRESS_AUTHORITY_H

#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/macro.h"

#define AUTHORITY_HOSTS_MAX 256   /* maximum number of certificates that are kept */
#define AUTHORITY_FILE_MAX  16384 /* maximum size of the file */

struct authority;
struct ssl_st;

/*
 * Create the file @path. It gets its name only when it is complete and synced to the
 * disk. If the file exists already, it is not changed, and the call succeeds. Blocks
 * until the file is on the disk.
 */
int authority_create(const char *path, struct warren_error *err) MUST_CHECK;
/*
 * Append the certificate of the authority at @path to @out, as PEM: for the certificates
 * that a sandbox trusts.
 */
int authority_read_certificate(const char *path, struct buf *out,
			       struct warren_error *err) MUST_CHECK;

/* @pem is the content of the file. */
int authority_new(const char *pem, size_t n, struct authority **ret,
		  struct warren_error *err) MUST_CHECK;
/* Accepts NULL; returns NULL. */
struct authority *authority_free(struct authority *a);
/*
 * Create the server side of a TLS connection for @host, a name: with its certificate, TLS
 * 1.2 and 1.3, and HTTP/1.1 by ALPN. Issues a certificate if there is none that is valid
 * for at least half a day, which takes less than a millisecond. The caller sets the BIO,
 * and frees it with SSL_free().
 */
int authority_accept(struct authority *a, const char *host, struct ssl_st **ret,
		     struct warren_error *err) MUST_CHECK;

#endif /* EGRESS_AUTHORITY_H */
