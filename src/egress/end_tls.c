/* SPDX-License-Identifier: Apache-2.0 */
/*
 * end_tls.c - TLS on one socket of a flow
 *
 * OpenSSL reads and writes the socket through the BIO below, which first returns the
 * bytes that were read before TLS began. OpenSSL never reads more than the record that it
 * needs, so the event loop still notices data that is left in the socket.
 */
#include "egress/end_tls.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>

#include "base/macro.h"
#include "egress/end.h"

struct end_tls {
	SSL *ssl;
	char *first; /* bytes that were read before TLS began */
	size_t first_off, first_len;
	const char *why;
};

/* ------------------------------------------------------------------------- sockets */

static size_t end_tls_take_first(struct end_tls *t, char *data, size_t n)
{
	n = n < t->first_len ? n : t->first_len;
	(void)memcpy(data, t->first + t->first_off, n);
	t->first_off += n;
	t->first_len -= n;
	if (t->first_len == 0) {
		free(t->first);
		t->first = NULL;
	}
	return n;
}

static int end_bio_read(BIO *b, char *data, int n)
{
	struct end *e = BIO_get_data(b);
	ssize_t got;

	BIO_clear_retry_flags(b);
	if (n <= 0)
		return 0;
	if (e->tls->first_len > 0)
		return (int)end_tls_take_first(e->tls, data, (size_t)n);
	do
		got = recv(e->fd, data, (size_t)n, MSG_DONTWAIT);
	while (got < 0 && errno == EINTR);
	if (got < 0 && errno == EAGAIN)
		BIO_set_retry_read(b);
	return (int)got;
}

static int end_bio_write(BIO *b, const char *data, int n)
{
	struct end *e = BIO_get_data(b);
	ssize_t sent;

	BIO_clear_retry_flags(b);
	do
		sent = send(e->fd, data, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent < 0 && errno == EAGAIN)
		BIO_set_retry_write(b);
	return (int)sent;
}

static long end_bio_ctrl(BIO *b UNUSED, int cmd, long n UNUSED, void *arg UNUSED)
{
	return cmd == BIO_CTRL_FLUSH;
}

static BIO *end_bio_new(struct end *e)
{
	static BIO_METHOD *method;
	BIO *b;

	if (!method) {
		method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "end");
		if (!method)
			return NULL;
		(void)BIO_meth_set_read(method, end_bio_read);
		(void)BIO_meth_set_write(method, end_bio_write);
		(void)BIO_meth_set_ctrl(method, end_bio_ctrl);
	}
	b = BIO_new(method);
	if (b) {
		BIO_set_data(b, e);
		BIO_set_init(b, 1);
	}
	return b;
}

/* ---------------------------------------------------------------------------- TLS */

int end_tls_start(struct end *e, SSL *ssl, const void *first, size_t n)
{
	struct end_tls *t = calloc(1, sizeof(*t));
	BIO *b = t ? end_bio_new(e) : NULL;

	if (b && n > 0) {
		t->first = malloc(n);
		t->first_len = n;
	}
	if (!b || (n > 0 && !t->first)) {
		BIO_free(b);
		free(t);
		SSL_free(ssl);
		ERR_clear_error();
		return -ENOMEM;
	}
	if (n > 0)
		(void)memcpy(t->first, first, n);
	t->ssl = ssl;
	e->tls = t;
	SSL_set_bio(ssl, b, b);
	return 0;
}

void end_tls_free(struct end *e)
{
	struct end_tls *t = e->tls;

	if (!t)
		return;
	SSL_free(t->ssl);
	free(t->first);
	free(t);
	e->tls = NULL;
	ERR_clear_error();
}

/* Record the reason from OpenSSL's error queue, or what is wrong with the certificate. */
static void end_tls_note(struct end_tls *t)
{
	long verify = SSL_get_verify_result(t->ssl);
	unsigned long code = ERR_peek_last_error();
	const char *why = code ? ERR_reason_error_string(code) : NULL;

	t->why = verify != X509_V_OK ? X509_verify_cert_error_string(verify)
		 : why               ? why
				     : "the connection ended";
	ERR_clear_error();
}

const char *end_tls_why(struct end *e)
{
	return e->tls && e->tls->why ? e->tls->why : "TLS failed";
}

int end_tls_handshake(struct end *e)
{
	struct end_tls *t = e->tls;
	int r;

	ERR_clear_error();
	r = SSL_do_handshake(t->ssl);
	if (r == 1)
		return 0;
	switch (SSL_get_error(t->ssl, r)) {
	case SSL_ERROR_WANT_READ:
		return LOOP_READ;
	case SSL_ERROR_WANT_WRITE:
		return LOOP_WRITE;
	default:
		end_tls_note(t);
		return -EPROTO;
	}
}

ssize_t end_tls_read(struct end *e, void *data, size_t n)
{
	struct end_tls *t = e->tls;
	int r;

	ERR_clear_error();
	r = SSL_read(t->ssl, data, n < INT32_MAX ? (int)n : INT32_MAX);
	if (r > 0)
		return r;
	switch (SSL_get_error(t->ssl, r)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SSL:
		/* The socket was closed, although the peer has not ended its data. */
		e->cut = ERR_GET_REASON(ERR_peek_last_error()) ==
			 SSL_R_UNEXPECTED_EOF_WHILE_READING;
		end_tls_note(t);
		return e->cut ? 0 : -EPROTO;
	default:
		end_tls_note(t);
		return -ECONNRESET;
	}
}

ssize_t end_tls_send(struct end *e, const void *data, size_t n)
{
	struct end_tls *t = e->tls;
	int r;

	ERR_clear_error();
	r = SSL_write(t->ssl, data, n < INT32_MAX ? (int)n : INT32_MAX);
	if (r > 0)
		return r;
	switch (SSL_get_error(t->ssl, r)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		return 0;
	default:
		end_tls_note(t);
		return -EPIPE;
	}
}

void end_tls_shut(struct end *e)
{
	ERR_clear_error();
	(void)SSL_shutdown(e->tls->ssl);
	ERR_clear_error();
}

bool end_tls_pending(const struct end *e)
{
	return e->tls->first_len > 0 || SSL_pending(e->tls->ssl) > 0;
}
