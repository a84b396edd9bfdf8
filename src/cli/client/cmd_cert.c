/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_cert.c - warren cert: certificates for the domain of a service
 *
 *	ca.pem, ca.key		an authority that can issue certificates for this domain
 *only cert.pem, key.pem	the certificate of the service, for the domain and
 **.domain
 *
 * Keys are created once. A second call issues another certificate with the same keys, so
 * that clients that trust the authority continue to work.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/date.h"
#include "base/fd.h"
#include "base/hex.h"
#include "cli/client/commands.h"
#include "cli/common_options.h"
#include "net/certificate.h"

#define CERT_CA_SECONDS (3653L * 86400) /* ten years */
#define CERT_SECONDS    (825L * 86400)  /* some clients refuse a longer time */
#define CERT_FILE_MAX   65536
#define CERT_DOMAIN_MAX 240

struct cert_options {
	const char *dir;
	bool json;
};

/* The files of one domain, open. */
struct cert_work {
	const char *domain;
	char dir[PATH_MAX];
	EVP_PKEY *ca_key, *key;
	X509 *ca, *cert;
};

#define FIELD(name) offsetof(struct cert_options, name)

static const struct opt cert_table[] = {
	{ .name = "dir",
	  .value = "DIR",
	  .example = "/etc/warren/tls",
	  .help = "directory for the files (default: the current one)",
	  .set = opt_text,
	  .field = FIELD(dir) },
	{ NULL,
	  OPT_JSON("print the names of the files as one JSON object", FIELD(json)) },
};

static const struct opts cert_opts = {
	.table = cert_table,
	.n = ARRAY_SIZE(cert_table),
	.operands = "DOMAIN",
	.example = "warren cert --dir /etc/warren/tls box.example.org",
};

/* ------------------------------------------------------------------------- files */

static void cert_path(const struct cert_work *w, const char *name,
		      char ret[PATH_MAX + 16])
{
	(void)snprintf(ret, PATH_MAX + 16, "%s/%s", w->dir, name);
}

/* Open a file for reading; NULL and errno: it cannot be read. */
static BIO *cert_open(const struct cert_work *w, const char *name)
{
	char path[PATH_MAX + 16], text[CERT_FILE_MAX];
	ssize_t n;
	BIO *bio;

	cert_path(w, name, path);
	n = fd_read_file_at(AT_FDCWD, path, text, sizeof(text));
	if (n < 0) {
		errno = (int)-n;
		return NULL;
	}
	bio = BIO_new(BIO_s_secmem());
	if (bio && BIO_write(bio, text, (int)n) != (int)n) {
		BIO_free(bio);
		bio = NULL;
	}
	OPENSSL_cleanse(text, sizeof(text));
	errno = ENOMEM;
	return bio;
}

/* Write what is in @pem; only a certificate may replace a file. */
static int cert_write(const struct cert_work *w, const char *name, BIO *pem, bool replace,
		      struct warren_error *err)
{
	char path[PATH_MAX + 16], temp[PATH_MAX + 24];
	char *data = NULL;
	long n = BIO_get_mem_data(pem, &data);
	int r;

	cert_path(w, name, path);
	(void)snprintf(temp, sizeof(temp), "%s.%d", path, (int)getpid());
	r = fd_create_file(replace ? temp : path, data, (size_t)n);
	if (r == 0 && replace && (chmod(temp, 0644) < 0 || rename(temp, path) < 0)) {
		r = -errno;
		(void)unlink(temp);
	}
	return r < 0 ? error_errno(err, -r, "write '%s'", path) : 0;
}

static int cert_no_password(char *buf UNUSED, int size UNUSED, int writing UNUSED,
			    void *arg UNUSED)
{
	return -1; /* do not ask for a password at the terminal */
}

/* Read a key, or create it. */
static int cert_get_key(const struct cert_work *w, const char *name, EVP_PKEY **ret,
			struct warren_error *err)
{
	BIO *bio = cert_open(w, name);
	int r = 0;

	if (bio) {
		*ret = PEM_read_bio_PrivateKey(bio, NULL, cert_no_password, NULL);
		BIO_free(bio);
		return *ret ? 0 : certificate_fail(err, name);
	}
	if (errno != ENOENT)
		return error_errno(err, errno, "read '%s/%s'", w->dir, name);
	*ret = EVP_EC_gen("P-256");
	bio = BIO_new(BIO_s_secmem());
	if (!*ret || !bio ||
	    PEM_write_bio_PrivateKey(bio, *ret, NULL, NULL, 0, NULL, NULL) != 1)
		r = certificate_fail(err, "create a key");
	if (r == 0)
		r = cert_write(w, name, bio, false, err);
	BIO_free(bio);
	return r;
}

static int cert_put(const struct cert_work *w, const char *name, X509 *cert,
		    struct warren_error *err)
{
	BIO *bio = BIO_new(BIO_s_mem());
	int r = bio && PEM_write_bio_X509(bio, cert) == 1
			? cert_write(w, name, bio, true, err)
			: certificate_fail(err, name);

	BIO_free(bio);
	return r;
}

/* ------------------------------------------------------------------- certificates */

/* Some clients confuse authorities of the same name. */
static bool cert_ca_name(char ret[64])
{
	unsigned char bits[6];

	if (RAND_bytes(bits, sizeof(bits)) != 1)
		return false;
	(void)hex_encode(bits, sizeof(bits), stpcpy(ret, "Warren CA "));
	return true;
}

static int cert_make_ca(struct cert_work *w, struct warren_error *err)
{
	char only[CERT_DOMAIN_MAX + 160], name[64];
	const struct certificate_extension extensions[] = {
		{ NID_basic_constraints, "critical,CA:TRUE,pathlen:0" },
		{ NID_key_usage, "critical,keyCertSign,cRLSign" },
		{ NID_subject_key_identifier, "hash" },
		/* A thief of its key can impersonate no other domain. */
		{ NID_name_constraints, only },
	};
	const struct certificate_request q = { .signer = w->ca_key,
					       .key = w->ca_key,
					       .subject = name,
					       .seconds = CERT_CA_SECONDS,
					       .extensions = extensions,
					       .n = ARRAY_SIZE(extensions) };

	(void)snprintf(only, sizeof(only),
		       "critical,permitted;DNS:%s,excluded;IP:0.0.0.0/0.0.0.0,excluded;"
		       "IP:0:0:0:0:0:0:0:0/0:0:0:0:0:0:0:0",
		       w->domain);
	w->ca = cert_ca_name(name) ? certificate_sign(&q) : NULL;
	return w->ca ? cert_put(w, "ca.pem", w->ca, err)
		     : certificate_fail(err, "create the authority");
}

/* Read the authority, or create it. */
static int cert_get_ca(struct cert_work *w, struct warren_error *err)
{
	BIO *bio;
	int r = cert_get_key(w, "ca.key", &w->ca_key, err);

	if (r < 0)
		return r;
	bio = cert_open(w, "ca.pem");
	if (!bio && errno != ENOENT)
		return error_errno(err, errno, "read '%s/ca.pem'", w->dir);
	if (!bio)
		return cert_make_ca(w, err);
	w->ca = PEM_read_bio_X509(bio, NULL, NULL, NULL);
	BIO_free(bio);
	if (!w->ca)
		return certificate_fail(err, "ca.pem");
	return X509_check_private_key(w->ca, w->ca_key) == 1
		       ? 0
		       : error_set(err, EINVAL, "'%s/ca.key' is not the key of ca.pem",
				   w->dir);
}

/* An authority for another domain cannot issue the certificate. */
static bool cert_is_valid(const struct cert_work *w)
{
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	bool ok = store && ctx && X509_STORE_add_cert(store, w->ca) == 1 &&
		  X509_STORE_CTX_init(ctx, store, w->cert, NULL) == 1 &&
		  X509_verify_cert(ctx) == 1;

	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	return ok;
}

static int cert_make(struct cert_work *w, struct warren_error *err)
{
	char names[2 * CERT_DOMAIN_MAX + 16];
	const struct certificate_extension extensions[] = {
		{ NID_basic_constraints, "critical,CA:FALSE" },
		{ NID_key_usage, "critical,digitalSignature" },
		{ NID_ext_key_usage, "serverAuth" },
		{ NID_subject_key_identifier, "hash" },
		{ NID_authority_key_identifier, "keyid:always" },
		{ NID_subject_alt_name, names },
	};
	const struct certificate_request q = { .issuer = w->ca,
					       .signer = w->ca_key,
					       .seconds = CERT_SECONDS,
					       .key = w->key,
					       .extensions = extensions,
					       .n = ARRAY_SIZE(extensions) };

	(void)snprintf(names, sizeof(names), "DNS:%s,DNS:*.%s", w->domain, w->domain);
	w->cert = certificate_sign(&q);
	if (!w->cert)
		return certificate_fail(err, "create the certificate");
	if (!cert_is_valid(w))
		return error_set(err, EINVAL,
				 "'%s/ca.pem' has expired or is for another domain: use "
				 "another directory",
				 w->dir);
	return cert_put(w, "cert.pem", w->cert, err);
}

/* ----------------------------------------------------------------------- command */

static bool cert_is_domain(const char *text)
{
	size_t n = strlen(text);

	return n > 0 && n <= CERT_DOMAIN_MAX &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789.-") == n &&
	       !strstr(text, "..") && !strchr(".-", text[0]) &&
	       !strchr(".-", text[n - 1]);
}

static int cert_do(struct cert_work *w, const char *dir, struct warren_error *err)
{
	int r;

	if (!cert_is_domain(w->domain))
		return error_set(err, EINVAL, "'%.100s' is not a domain in lower case",
				 w->domain);
	r = fd_make_dirs(dir, 0755);
	if (r < 0 || !realpath(dir, w->dir))
		return error_errno(err, r < 0 ? -r : errno, "create '%s'", dir);
	r = cert_get_ca(w, err);
	if (r == 0)
		r = cert_get_key(w, "key.pem", &w->key, err);
	return r < 0 ? r : cert_make(w, err);
}

static int cert_show(const struct cert_work *w, bool as_json)
{
	AUTO_BUF struct buf out = BUF_INIT(65536);
	AUTO_JSON json_t *object = NULL;
	char until[DATE_SIZE];
	struct tm tm = { 0 };

	(void)ASN1_TIME_to_tm(X509_get0_notAfter(w->cert), &tm);
	date_iso(until, (int64_t)timegm(&tm) * 1000);
	if (as_json) {
		object = json_pack("{ss, s:o, s:o, s:o, ss}", "domain", w->domain, "ca",
				   json_sprintf("%s/ca.pem", w->dir), "cert",
				   json_sprintf("%s/cert.pem", w->dir), "key",
				   json_sprintf("%s/key.pem", w->dir), "expires_at",
				   until);
		return print_json(&client_cert, object);
	}
	buf_printf(&out,
		   "# For warren.yaml; valid until %s. Restart the service after a "
		   "change.\n"
		   "listen: [unix:/run/warren/warren.sock, tls:0.0.0.0:443]\n"
		   "domain: %s\n"
		   "tls:\n"
		   "  cert: %s/cert.pem\n"
		   "  key: %s/key.pem\n"
		   "# For clients:\n"
		   "# SSL_CERT_FILE=%s/ca.pem NODE_EXTRA_CA_CERTS=%s/ca.pem\n",
		   until, w->domain, w->dir, w->dir, w->dir, w->dir);
	return message_print(client_cert.name, &out);
}

static int cert_run(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct cert_options o = { .dir = "." };
	struct cert_work w = { 0 };
	char **words = NULL;
	int status = 0;

	if (!command_operands(&client_cert, argc, argv, &o, 1, 1, &words, &status))
		return status;
	w.domain = *words;
	status = cert_do(&w, o.dir, &err) < 0 ? client_fail(&client_cert, &err)
					      : cert_show(&w, o.json);
	X509_free(w.cert);
	X509_free(w.ca);
	EVP_PKEY_free(w.key);
	EVP_PKEY_free(w.ca_key);
	return status;
}

const struct command client_cert = {
	.name = "cert",
	.summary = "Create certificates for the domain of a service.",
	.about =
		"Creates ca.pem for clients, and cert.pem and key.pem for the service, which are\n"
		"valid for DOMAIN and all names below it. The service is not contacted.\n",
	.opts = &cert_opts,
	.run = cert_run,
};
