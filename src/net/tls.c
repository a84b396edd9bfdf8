/* SPDX-License-Identifier: Apache-2.0 */
/* tls.c - certificates and handshakes; the only file that configures OpenSSL */
#include "net/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <string.h>

#include "base/fd.h"
#include "net/tls_internal.h"

#define TLS12_CIPHERS                                                \
	"ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:" \
	"ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:" \
	"ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"
#define PEM_MAX (256U << 10)

struct tls {
	SSL_CTX *ctx; /* NULL until a certificate is set */
	bool http2;   /* HTTP/2 is offered, and preferred */
};

static void bio_freep(BIO **b)
{
	(void)BIO_free(*b);
}

static void x509_freep(X509 **x)
{
	X509_free(*x);
}

static void key_freep(EVP_PKEY **k)
{
	EVP_PKEY_free(*k);
}

static void ctx_freep(SSL_CTX **c)
{
	SSL_CTX_free(*c);
}

/*
 * Report OpenSSL's error, and clear its queue, because old errors would confuse later
 * calls.
 */
static int tls_error(struct warren_error *err, const char *what)
{
	unsigned long e = ERR_peek_last_error();
	const char *why = e ? ERR_reason_error_string(e) : NULL;

	ERR_clear_error();
	return error_set(err, EINVAL, "%s: %s", what, why ? why : "malformed");
}

int tls_new(struct tls **ret, struct warren_error *err)
{
	struct tls *tls = calloc(1, sizeof(*tls));

	if (!tls)
		return error_errno(err, ENOMEM, "prepare TLS");
	*ret = tls;
	return 0;
}

struct tls *tls_free(struct tls *tls)
{
	if (tls)
		SSL_CTX_free(tls->ctx);
	free(tls);
	return NULL;
}

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
			   const unsigned char *in, unsigned in_len, void *arg)
{
	static const unsigned char ours[] = "\x02h2\x08http/1.1";
	const struct tls *tls = arg;
	unsigned skip = tls->http2 ? 0 : 3;

	(void)ssl;
	if (SSL_select_next_proto((unsigned char **)(uintptr_t)out, out_len, ours + skip,
				  (unsigned)sizeof(ours) - 1 - skip, in,
				  in_len) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	return SSL_TLSEXT_ERR_OK;
}

static SSL_CTX *new_ctx(struct tls *tls)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

	if (!ctx)
		return NULL;
	(void)SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
	/*
	 * Of TLS 1.2, allow only ciphers that are as good as those of 1.3: with forward
	 * secrecy and authentication.
	 */
	if (SSL_CTX_set_cipher_list(ctx, TLS12_CIPHERS) != 1) {
		SSL_CTX_free(ctx);
		return NULL;
	}
	(void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
					       SSL_OP_CIPHER_SERVER_PREFERENCE |
					       SSL_OP_IGNORE_UNEXPECTED_EOF);
	/*
	 * A write may be retried from another buffer with another size; an idle
	 * connection keeps no buffers. Sessions are stored in tickets, not in memory.
	 */
	(void)SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
					    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					    SSL_MODE_RELEASE_BUFFERS);
	(void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, tls);
	return ctx;
}

/* The first certificate is the server's; the others form the chain to a root. */
static int use_chain(SSL_CTX *ctx, BIO *pem)
{
	CLEANUP(x509_freep) X509 *own = PEM_read_bio_X509_AUX(pem, NULL, NULL, NULL);

	if (!own || SSL_CTX_use_certificate(ctx, own) != 1)
		return -EINVAL;
	for (;;) {
		X509 *next = PEM_read_bio_X509(pem, NULL, NULL, NULL);

		if (!next)
			break;
		if (SSL_CTX_add0_chain_cert(ctx, next) != 1) {
			X509_free(next);
			return -EINVAL;
		}
	}
	/* OpenSSL reports the end of the text as an error, too. */
	if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
		return -EINVAL;
	ERR_clear_error();
	return 0;
}

static int no_password(char *buf, int size, int writing, void *arg)
{
	(void)buf;
	(void)size;
	(void)writing;
	(void)arg;
	return -1; /* do not ask for a password at the terminal */
}

int tls_set_pem(struct tls *tls, const void *cert, size_t cert_len, const void *key,
		size_t key_len, struct warren_error *err)
{
	CLEANUP(ctx_freep) SSL_CTX *ctx = new_ctx(tls);
	CLEANUP(bio_freep) BIO *certs = NULL;
	CLEANUP(bio_freep) BIO *keys = NULL;
	CLEANUP(key_freep) EVP_PKEY *pkey = NULL;

	if (cert_len > PEM_MAX || key_len > PEM_MAX)
		return error_set(err, EFBIG, "a certificate or key is too large");
	certs = BIO_new_mem_buf(cert, (int)cert_len);
	keys = BIO_new_mem_buf(key, (int)key_len);
	if (!ctx || !certs || !keys)
		return error_errno(err, ENOMEM, "prepare TLS");
	if (use_chain(ctx, certs) < 0)
		return tls_error(err, "read the certificate");
	pkey = PEM_read_bio_PrivateKey(keys, NULL, no_password, NULL);
	if (!pkey)
		return tls_error(err, "read the private key");
	if (SSL_CTX_use_PrivateKey(ctx, pkey) != 1 || SSL_CTX_check_private_key(ctx) != 1)
		return tls_error(err, "the key does not belong to the certificate");
	SSL_CTX_free(tls->ctx);
	tls->ctx = TAKE_PTR(ctx);
	return 0;
}

static ssize_t read_pem(const char *path, char *text, struct warren_error *err)
{
	ssize_t n = fd_read_file_at(AT_FDCWD, path, text, PEM_MAX);

	return n < 0 ? error_errno(err, (int)-n, "read '%s'", path) : n;
}

int tls_set_files(struct tls *tls, const char *cert_path, const char *key_path,
		  struct warren_error *err)
{
	AUTO_FREE char *cert = malloc(PEM_MAX);
	AUTO_FREE char *key = malloc(PEM_MAX);
	ssize_t n_cert, n_key;
	int r;

	if (!cert || !key)
		return error_errno(err, ENOMEM, "read a certificate");
	n_cert = read_pem(cert_path, cert, err);
	if (n_cert < 0)
		return (int)n_cert;
	n_key = read_pem(key_path, key, err);
	if (n_key < 0)
		return (int)n_key;
	r = tls_set_pem(tls, cert, (size_t)n_cert, key, (size_t)n_key, err);
	OPENSSL_cleanse(key, PEM_MAX);
	return r < 0 ? error_wrap(err, "use '%s' and '%s'", cert_path, key_path) : 0;
}

SSL *tls_accept(struct tls *tls, int fd)
{
	SSL *ssl = tls->ctx ? SSL_new(tls->ctx) : NULL;

	if (!ssl || SSL_set_fd(ssl, fd) != 1) {
		SSL_free(ssl);
		ERR_clear_error();
		return NULL;
	}
	SSL_set_accept_state(ssl);
	return ssl;
}

void tls_offer_http2(struct tls *tls)
{
	tls->http2 = true;
}

bool tls_is_http2(SSL *ssl)
{
	const unsigned char *name = NULL;
	unsigned n = 0;

	SSL_get0_alpn_selected(ssl, &name, &n);
	return n == 2 && memcmp(name, "h2", 2) == 0;
}
