/* SPDX-License-Identifier: Apache-2.0 */
/* authority.c - issue certificates for hosts, and cache them */
#include "egress/authority.h"

#include <errno.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <string.h>
#include <time.h>

#include "base/list.h"
#include "net/certificate.h"

#define LEAF_SECONDS  86400L
#define LEAF_RENEW    (LEAF_SECONDS / 2)
#define HOST_NAME_LEN 253
#define TLS12_CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"

/* A certificate in the cache; the list is sorted by last use, the most recent first. */
struct authority_host {
	struct authority_host *next, **prev;
	char *name;
	time_t issued;
	X509 *cert;
};

struct authority {
	X509 *cert;
	EVP_PKEY *key, *leaf_key;
	SSL_CTX *ctx; /* shared by the connections of all hosts */
	struct authority_host *hosts;
	size_t n_hosts;
};

/* -------------------------------------------------------------- opening the authority */

/* Choose HTTP/1.1, or no protocol at all. A client that offers only other protocols is
 * refused. */
static int authority_choose(SSL *ssl UNUSED, const unsigned char **out,
			    unsigned char *out_len, const unsigned char *in,
			    unsigned in_len, void *arg UNUSED)
{
	static const unsigned char ours[] = "\x08http/1.1";

	if (SSL_select_next_proto((unsigned char **)(uintptr_t)out, out_len, ours,
				  sizeof(ours) - 1, in, in_len) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	return SSL_TLSEXT_ERR_OK;
}

static SSL_CTX *authority_new_context(void)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

	if (!ctx || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1 ||
	    SSL_CTX_set_cipher_list(ctx, TLS12_CIPHERS) != 1) {
		SSL_CTX_free(ctx);
		return NULL;
	}
	(void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
					       SSL_OP_NO_TICKET);
	(void)SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
					    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					    SSL_MODE_RELEASE_BUFFERS);
	/* A TLS session of one host must not be resumed for another host. */
	(void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	(void)SSL_CTX_set_num_tickets(ctx, 0);
	SSL_CTX_set_alpn_select_cb(ctx, authority_choose, NULL);
	return ctx;
}

static int authority_no_password(char *buf UNUSED, int size UNUSED, int writing UNUSED,
				 void *arg UNUSED)
{
	return -1; /* do not ask for a password at the terminal */
}

int authority_new(const char *pem, size_t n, struct authority **ret,
		  struct warren_error *err)
{
	struct authority *a = calloc(1, sizeof(*a));
	BIO *keys = n <= AUTHORITY_FILE_MAX ? BIO_new_mem_buf(pem, (int)n) : NULL;
	BIO *certs = keys ? BIO_new_mem_buf(pem, (int)n) : NULL;

	if (a && certs) {
		a->key = PEM_read_bio_PrivateKey(keys, NULL, authority_no_password, NULL);
		a->cert = PEM_read_bio_X509(certs, NULL, NULL, NULL);
		a->leaf_key = EVP_EC_gen("P-256");
		a->ctx = authority_new_context();
	}
	BIO_free(keys);
	BIO_free(certs);
	if (!a)
		return error_errno(err, ENOMEM, "open the certificate authority");
	if (!a->key || !a->cert || !a->leaf_key || !a->ctx ||
	    X509_check_private_key(a->cert, a->key) != 1) {
		a = authority_free(a);
		return certificate_fail(err, "open the certificate authority");
	}
	*ret = a;
	return 0;
}

static void authority_drop(struct authority *a, struct authority_host *h)
{
	DLIST_REMOVE(h);
	a->n_hosts--;
	X509_free(h->cert);
	free(h->name);
	free(h);
}

struct authority *authority_free(struct authority *a)
{
	if (!a)
		return NULL;
	while (a->hosts)
		authority_drop(a, a->hosts);
	SSL_CTX_free(a->ctx);
	X509_free(a->cert);
	EVP_PKEY_free(a->key);
	EVP_PKEY_free(a->leaf_key);
	free(a);
	return NULL;
}

/* --------------------------------------------------------------------- certificates */

static X509 *authority_issue(struct authority *a, const char *host)
{
	char names[HOST_NAME_LEN + 5];
	const struct certificate_extension extensions[] = {
		{ NID_basic_constraints, "critical,CA:FALSE" },
		{ NID_key_usage, "critical,digitalSignature" },
		{ NID_ext_key_usage, "serverAuth" },
		{ NID_subject_key_identifier, "hash" },
		{ NID_authority_key_identifier, "keyid:always" },
		/* The subject is empty, because some names are too long for it. */
		{ NID_subject_alt_name, names },
	};
	const struct certificate_request q = { .issuer = a->cert,
					       .signer = a->key,
					       .key = a->leaf_key,
					       .seconds = LEAF_SECONDS,
					       .extensions = extensions,
					       .n = ARRAY_SIZE(extensions) };

	(void)snprintf(names, sizeof(names), "DNS:%s", host);
	return certificate_sign(&q);
}

/* -------------------------------------------------------------------------- hosts */

static struct authority_host *authority_find(struct authority *a, const char *host)
{
	for (struct authority_host *h = a->hosts; h; h = h->next)
		if (strcmp(h->name, host) == 0)
			return h;
	return NULL;
}

static struct authority_host *authority_last(struct authority *a)
{
	struct authority_host *h = a->hosts;

	while (h && h->next)
		h = h->next;
	return h;
}

static struct authority_host *authority_add(struct authority *a, const char *host,
					    time_t now)
{
	struct authority_host *h = calloc(1, sizeof(*h)), *last;

	if (h) {
		h->issued = now;
		h->name = strdup(host);
		h->cert = h->name ? authority_issue(a, host) : NULL;
	}
	if (!h || !h->cert) {
		if (h)
			free(h->name);
		free(h);
		return NULL;
	}
	last = authority_last(a);
	if (last && a->n_hosts >= AUTHORITY_HOSTS_MAX)
		authority_drop(a, last);
	a->n_hosts++;
	DLIST_PUSH(a->hosts, h);
	return h;
}

int authority_accept(struct authority *a, const char *host, SSL **ret,
		     struct warren_error *err)
{
	struct authority_host *h = authority_find(a, host);
	time_t now = time(NULL);
	SSL *ssl = SSL_new(a->ctx);

	/* The certificate is also replaced if the clock was set back. */
	if (h && (now < h->issued || now - h->issued > LEAF_RENEW)) {
		authority_drop(a, h);
		h = NULL;
	}
	if (h) {
		DLIST_REMOVE(h);
		DLIST_PUSH(a->hosts, h);
	} else if (strlen(host) <= HOST_NAME_LEN) {
		h = authority_add(a, host, now);
	}
	if (!h || !ssl || SSL_use_certificate(ssl, h->cert) != 1 ||
	    SSL_use_PrivateKey(ssl, a->leaf_key) != 1) {
		SSL_free(ssl);
		return certificate_fail(err, "issue a certificate");
	}
	SSL_set_accept_state(ssl);
	*ret = ssl;
	return 0;
}
