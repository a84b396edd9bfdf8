/* SPDX-License-Identifier: Apache-2.0 */
/* terminate.c - the two handshakes of a flow whose TLS is terminated */
#include "egress/terminate.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "egress/authority.h"
#include "egress/egress_internal.h"
#include "egress/end_tls.h"

#define TLS12_CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"

struct terminate {
	struct authority *authority;
	SSL_CTX *servers; /* settings for connections to servers */
};

/* ------------------------------------------------------------------------- settings */

static SSL_CTX *terminate_servers(const char *ca_file)
{
	static const unsigned char protocols[] = "\x08http/1.1";
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());

	if (!ctx || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1 ||
	    SSL_CTX_set_cipher_list(ctx, TLS12_CIPHERS) != 1 ||
	    SSL_CTX_set_default_verify_paths(ctx) != 1 ||
	    (ca_file && SSL_CTX_load_verify_file(ctx, ca_file) != 1) ||
	    SSL_CTX_set_alpn_protos(ctx, protocols, sizeof(protocols) - 1) != 0) {
		SSL_CTX_free(ctx);
		return NULL;
	}
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	(void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	(void)SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
					    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					    SSL_MODE_RELEASE_BUFFERS);
	(void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	return ctx;
}

int terminate_new(const char *authority, size_t n, const char *ca_file,
		  struct terminate **ret, struct warren_error *err)
{
	struct terminate *t = calloc(1, sizeof(*t));
	unsigned long code;
	int r;

	if (!t)
		return error_errno(err, ENOMEM, "prepare TLS");
	r = authority_new(authority, n, &t->authority, err);
	if (r == 0) {
		t->servers = terminate_servers(ca_file);
		code = ERR_peek_last_error();
		if (!t->servers)
			r = error_set(err, EINVAL, "read the certificates of '%s': %s",
				      ca_file ? ca_file : "the system",
				      code ? ERR_reason_error_string(code) : "malformed");
		ERR_clear_error();
	}
	if (r < 0) {
		t = terminate_free(t);
		return r;
	}
	*ret = t;
	return 0;
}

struct terminate *terminate_free(struct terminate *t)
{
	if (!t)
		return NULL;
	t->authority = authority_free(t->authority);
	SSL_CTX_free(t->servers);
	free(t);
	return NULL;
}

/* ----------------------------------------------------------- connection of the client */

bool terminate_wants(const struct egress_flow *f)
{
	return f->sandbox->egress->terminate && f->q.host.kind == HOST_NAME &&
	       policy_terminates(f->sandbox->index, &f->q.host, f->q.port);
}

void terminate_start(struct egress_flow *f)
{
	struct warren_error err = WARREN_ERROR_INIT;
	SSL *ssl = NULL;
	int r = authority_accept(f->sandbox->egress->terminate->authority, f->name, &ssl,
				 &err);

	if (r == 0)
		r = end_tls_start(&f->client, ssl, f->first.data, f->first.len);
	if (r < 0) {
		egress_flow_reset(f);
		return;
	}
	/*
	 * If an earlier policy did not terminate this host, there may already be a
	 * connection to the server, without TLS. It must not carry requests.
	 */
	upstream_stop(f);
	buf_done(&f->first);
	f->first = (struct buf)BUF_INIT(0);
	f->state = EGRESS_FLOW_TLS;
	f->q.protocol = RULE_HTTPS;
	egress_flow_set_timer(f, EGRESS_FIRST_MS);
	terminate_continue(f);
}

void terminate_continue(struct egress_flow *f)
{
	int r = end_tls_handshake(&f->client);

	f->client.tls_writes = r == LOOP_WRITE;
	if (r > 0)
		return;
	/* A client that does not trust the authority sends an alert, and closes the
	 * connection. */
	if (r < 0 || !http_flow_start(f, false))
		egress_flow_reset(f);
}

/* ----------------------------------------------------------- connection to the server */

static int terminate_begin(struct egress_flow *f)
{
	SSL *ssl = SSL_new(f->sandbox->egress->terminate->servers);

	if (!ssl || SSL_set_tlsext_host_name(ssl, f->name) != 1 ||
	    SSL_set1_host(ssl, f->name) != 1) {
		SSL_free(ssl);
		ERR_clear_error();
		return -ENOMEM;
	}
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	SSL_set_connect_state(ssl);
	return end_tls_start(&f->server, ssl, NULL, 0);
}

int terminate_secure(struct egress_flow *f, char *why, size_t size)
{
	int r = f->server.tls ? 0 : terminate_begin(f);

	if (r == 0)
		r = end_tls_handshake(&f->server);
	if (r > 0) {
		end_watch(&f->server, (unsigned)r);
		return 1;
	}
	if (r < 0)
		(void)snprintf(why, size, "TLS with %.253s: %s", f->name,
			       r == -ENOMEM ? "out of memory" : end_tls_why(&f->server));
	return r;
}
