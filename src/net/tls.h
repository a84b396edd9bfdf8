/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls.h - a server's certificate, which can be replaced while connections are open
 *
 * The server supports TLS 1.2 and 1.3. By ALPN it offers HTTP/1.1 and, where an HTTP
 * server uses it, HTTP/2. A handshake uses the certificate that was set last; existing
 * connections keep theirs.
 */
#ifndef NET_TLS_H
#define NET_TLS_H

#include <stddef.h>

#include "base/error.h"

struct tls;

int tls_new(struct tls **ret, struct warren_error *err);
struct tls *tls_free(struct tls *tls);

/*
 * Set the certificate chain and its key, as PEM text. On failure, the previous
 * certificate and key stay in use.
 */
int tls_set_pem(struct tls *tls, const void *cert, size_t cert_len, const void *key,
		size_t key_len, struct warren_error *err);
int tls_set_files(struct tls *tls, const char *cert_path, const char *key_path,
		  struct warren_error *err);

#endif /* NET_TLS_H */
