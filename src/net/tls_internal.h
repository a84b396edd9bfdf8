/* SPDX-License-Identifier: Apache-2.0 */
/* tls_internal.h - a handshake on an accepted socket */
#ifndef NET_TLS_INTERNAL_H
#define NET_TLS_INTERNAL_H

#include <stdbool.h>

struct tls;
struct ssl_st;

/*
 * Create the server side of a TLS connection on @fd, which the caller keeps. NULL: there
 * is no certificate.
 */
struct ssl_st *tls_accept(struct tls *tls, int fd);

/* Offer HTTP/2 to clients of connections that begin from now on. */
void tls_offer_http2(struct tls *tls);
/* Return whether client and server have agreed on HTTP/2 (ALPN). */
bool tls_is_http2(struct ssl_st *ssl);

#endif /* NET_TLS_INTERNAL_H */
