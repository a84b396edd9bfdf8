/* SPDX-License-Identifier: Apache-2.0 */
/*
 * end_tls.h - TLS on one socket of a flow
 *
 * After the handshake, end_read() and end_write() work with decrypted bytes. Decrypted
 * bytes can be left although the socket has none: end_has_data().
 */
#ifndef EGRESS_END_TLS_H
#define EGRESS_END_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct end;
struct ssl_st;

/*
 * Begin TLS on an open end. Takes @ssl, whose side is set. The @n bytes at @first were
 * read from the socket before. -ENOMEM: @ssl is freed.
 */
int end_tls_start(struct end *e, struct ssl_st *ssl, const void *first, size_t n);
/*
 * Continue the handshake. 0: it is complete; LOOP_READ or LOOP_WRITE: call this again
 * after that event; -EPROTO: it failed, and end_tls_why() says why.
 */
int end_tls_handshake(struct end *e);
/* The reason of the last failure; valid until the next call. */
const char *end_tls_why(struct end *e);

/* For end.c, as the functions of the socket that they replace. */
ssize_t end_tls_read(struct end *e, void *data, size_t n);
ssize_t end_tls_send(struct end *e, const void *data, size_t n);
void end_tls_shut(struct end *e); /* tell the peer that nothing more will come */
void end_tls_free(struct end *e);
bool end_tls_pending(const struct end *e);

#endif /* EGRESS_END_TLS_H */
