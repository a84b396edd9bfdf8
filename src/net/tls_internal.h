/* SPDX-License-Identifier: Apache-2.0 */
/* tls_internal.h - a handshake on an accepted socket */
#ifndef NET_TLS_INTERNAL_H
#define NET_TLS_INTERNAL_H

struct tls;
struct ssl_st;

/*
 * Create the server side of a TLS connection on @fd, which the caller keeps. NULL: there
 * is no certificate.
 */
struct ssl_st *tls_accept(struct tls *tls, int fd);

#endif /* NET_TLS_INTERNAL_H */
