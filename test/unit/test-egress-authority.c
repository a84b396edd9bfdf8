/* SPDX-License-Identifier: Apache-2.0 */
/* test-egress-authority.c - certificates for hosts are valid for clients that trust the
 * authority */
#include "egress/authority.h"

#include <errno.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <time.h>

#include "base/fd.h"
#include "lib/tap.h"

static struct warren_error err;
static char dir[] = "/tmp/test-authority-XXXXXX", path[64];

static void remove_files(void)
{
	(void)unlink(path);
	(void)rmdir(dir);
}

static struct authority *an_authority(void)
{
	char pem[AUTHORITY_FILE_MAX];
	struct authority *a = NULL;
	ssize_t n;

	OK(mkdtemp(dir) && atexit(remove_files) == 0);
	(void)snprintf(path, sizeof(path), "%s/ca.pem", dir);
	EQ(authority_create(path, &err), 0);
	n = fd_read_file_at(-1, path, pem, sizeof(pem));
	OK(n > 0);
	if (authority_new(pem, (size_t)n, &a, &err) < 0)
		TAP_FAIL("%s", err.msg);
	return a;
}

static X509 *ca_certificate(void)
{
	struct buf text = BUF_INIT(AUTHORITY_FILE_MAX);
	BIO *in;
	X509 *x;

	EQ(authority_read_certificate(path, &text, &err), 0);
	OK(!strstr(text.data, "PRIVATE"));
	in = BIO_new_mem_buf(text.data, (int)text.len);
	x = PEM_read_bio_X509(in, NULL, NULL, NULL);
	OK(x);
	BIO_free(in);
	buf_done(&text);
	return x;
}

/* Return a reference to the certificate that a server for @host shows. */
static X509 *certificate_of(struct authority *a, const char *host)
{
	SSL *ssl = NULL;
	X509 *x;

	EQ(authority_accept(a, host, &ssl, &err), 0);
	x = SSL_get_certificate(ssl);
	OK(x && X509_up_ref(x) == 1);
	SSL_free(ssl);
	return x;
}

/* Does a client that trusts @ca accept the certificate for @name? */
static bool accepts(X509 *ca, struct authority *a, const char *host, const char *name)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *c = NULL, *s = NULL;
	BIO *one = NULL, *two = NULL;
	bool ok;

	EQ(authority_accept(a, host, &s, &err), 0);
	OK(ctx && BIO_new_bio_pair(&one, 65536, &two, 65536) == 1);
	if (ca)
		OK(X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), ca) == 1);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	c = SSL_new(ctx);
	OK(SSL_set1_host(c, name) == 1 && SSL_set_tlsext_host_name(c, name) == 1);
	SSL_set_bio(c, one, one);
	SSL_set_bio(s, two, two);
	SSL_set_connect_state(c);
	for (int i = 0; i < 8; i++) {
		(void)SSL_do_handshake(c);
		(void)SSL_do_handshake(s);
	}
	ok = SSL_is_init_finished(c) && SSL_is_init_finished(s);
	SSL_free(c);
	SSL_free(s);
	SSL_CTX_free(ctx);
	return ok;
}

TEST(a_client_that_trusts_the_authority_accepts_its_hosts)
{
	struct authority *a = an_authority();
	X509 *ca = ca_certificate();
	char longest[254];

	OK(accepts(ca, a, "api.example.com", "api.example.com"));
	OK(!accepts(NULL, a, "api.example.com", "api.example.com"));
	OK(!accepts(ca, a, "api.example.com", "www.example.com"));
	OK(!accepts(ca, a, "api.example.com", "x.api.example.com"));

	(void)memset(longest, 'a', sizeof(longest) - 1);
	for (size_t i = 50; i < sizeof(longest) - 1; i += 50)
		longest[i] = '.';
	longest[253] = '\0';
	OK(accepts(ca, a, longest, longest));
	X509_free(ca);
	a = authority_free(a);
}

TEST(the_authority_is_created_once_and_private)
{
	struct authority *a = an_authority();
	X509 *one = ca_certificate(), *two;
	struct stat st;

	OK(stat(path, &st) == 0);
	EQ(st.st_mode & 07777, 0600);
	EQ(authority_create(path, &err), 0);
	two = ca_certificate();
	EQ(X509_cmp(one, two), 0);
	EQ(X509_get_pathlen(one), 0);
	OK(X509_get_extension_flags(one) & EXFLAG_CA);
	OK(X509_get_ext_by_NID(one, NID_name_constraints, -1) >= 0);
	X509_free(one);
	X509_free(two);
	a = authority_free(a);
}

TEST(certificates_of_hosts_are_short_lived_and_not_authorities)
{
	struct authority *a = an_authority();
	time_t later = time(NULL) + 25 * 3600, soon = time(NULL) + 20 * 3600;
	X509 *x;

	x = certificate_of(a, "api.example.com");
	OK(!(X509_get_extension_flags(x) & EXFLAG_CA));
	EQ(X509_get_extended_key_usage(x), XKU_SSL_SERVER);
	OK(X509_cmp_time(X509_get0_notAfter(x), &later) < 0);
	OK(X509_cmp_time(X509_get0_notAfter(x), &soon) > 0);
	X509_free(x);
	a = authority_free(a);
}

TEST(a_limited_number_of_certificates_is_kept)
{
	struct authority *a = an_authority();
	X509 *first, *again;
	char name[32];

	first = certificate_of(a, "first");
	for (int i = 0; i < AUTHORITY_HOSTS_MAX - 1; i++) {
		(void)snprintf(name, sizeof(name), "h%d.example.com", i);
		X509_free(certificate_of(a, name));
	}
	again = certificate_of(a, "first");
	OK(first == again);
	X509_free(again);
	/* The first one was used last, so another one is dropped. */
	X509_free(certificate_of(a, "one.more"));
	again = certificate_of(a, "first");
	OK(first == again);
	X509_free(again);
	for (int i = 0; i < AUTHORITY_HOSTS_MAX; i++) {
		(void)snprintf(name, sizeof(name), "g%d.example.com", i);
		X509_free(certificate_of(a, name));
	}
	again = certificate_of(a, "first");
	OK(first != again);
	X509_free(again);
	X509_free(first);
	a = authority_free(a);
}

TEST(a_file_that_is_not_an_authority_is_refused)
{
	struct authority *a = an_authority(), *other = NULL;
	char pem[AUTHORITY_FILE_MAX];
	ssize_t n = fd_read_file_at(-1, path, pem, sizeof(pem));

	EQ(authority_new("", 0, &other, &err), -EINVAL);
	EQ(authority_new(pem, (size_t)n / 2, &other, &err), -EINVAL);
	EQ(authority_new(strstr(pem, "-----BEGIN CERT"),
			 strlen(strstr(pem, "-----BEGIN CERT")), &other, &err),
	   -EINVAL);
	EQ(authority_new(pem, (size_t)n, &other, &err), 0);
	other = authority_free(other);
	a = authority_free(a);
}

TEST_MAIN()
