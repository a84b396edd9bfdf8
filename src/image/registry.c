/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c - the handle of a registry; fetch manifests, and check their size, digest
 * and type */
#include "image/registry.h"

#include <errno.h>
#include <jansson.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "base/strv.h"
#include "image/registry_internal.h"

#define DOCKER_HUB        "docker.io"
#define DOCKER_HUB_SERVER "registry-1.docker.io"
#define PARALLEL          4
#define PARALLEL_MAX      64
#define BACKOFF_MS        500
#define BACKOFF_MAX_MS    10000
#define STALL_S           30
#define TAG_CHARS         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
#define TAG_MAX           128

#define OCI_INDEX       "application/vnd.oci.image.index.v1+json"
#define OCI_MANIFEST    "application/vnd.oci.image.manifest.v1+json"
#define DOCKER_LIST     "application/vnd.docker.distribution.manifest.list.v2+json"
#define DOCKER_MANIFEST "application/vnd.docker.distribution.manifest.v2+json"
#define DOCKER_V1       "application/vnd.docker.distribution.manifest.v1+"

static const char *const manifest_types[] = {
	OCI_INDEX, OCI_MANIFEST, DOCKER_LIST, DOCKER_MANIFEST, NULL,
};

/* Types that a server sends if it does not know what it serves. */
static const char *const generic_types[] = {
	"",
	"application/json",
	"application/octet-stream",
	"binary/octet-stream",
	"text/plain",
};

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static bool curl_ready;

static void start_curl(void)
{
	curl_ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

/* Check the file now: later, a file without certificates would look like an untrusted
 * server. */
static int check_ca_file(const char *file, struct warren_error *err)
{
	X509_STORE *store = X509_STORE_new();
	bool fine = store && X509_STORE_load_locations(store, file, NULL) == 1;

	X509_STORE_free(store);
	return fine ? 0
		    : error_set(err, EINVAL, "there are no certificates in %.300s", file);
}

static char *copy_of(const char *s, bool *failed)
{
	char *copy = s ? strdup(s) : NULL;

	*failed = *failed || (s && !copy);
	return copy;
}

static unsigned registry_bounded(unsigned n, unsigned standard, unsigned max)
{
	if (n == 0)
		return standard;
	return n < max ? n : max;
}

static void registry_set_up(struct registry *r, const struct registry_options *o)
{
	r->insecure = strv_has_case(o->insecure, r->ref.registry);
	r->public_only = o->public_only;
	r->advice = o->advice;
	r->trusted = o->trusted;
	r->insecure_list = o->insecure;
	r->hidden = o->hidden;
	r->plain_ok = r->insecure || (!o->public_only && ref_is_loopback(&r->ref));
	r->parallel = registry_bounded(o->parallel, PARALLEL, PARALLEL_MAX);
	r->backoff_ms = registry_bounded(o->backoff_ms, BACKOFF_MS, BACKOFF_MAX_MS);
	r->stall_s = registry_bounded(o->stall_s, STALL_S, 3600);
	r->progress = o->progress;
	r->ctx = o->ctx;
}

static void registry_close_p(struct registry **r)
{
	*r = registry_close(*r);
}

int registry_open(const struct ref *ref, const struct registry_options *options,
		  struct registry **ret, struct warren_error *err)
{
	static const struct registry_options none = { 0 };
	CLEANUP(registry_close_p) struct registry *r = calloc(1, sizeof(*r));
	bool failed = !r;

	if (!options)
		options = &none;
	if (options->ca_file && check_ca_file(options->ca_file, err) < 0)
		return -err->code;
	(void)pthread_once(&curl_once, start_curl);
	if (r) {
		r->ref = *ref;
		ref_text(ref, r->text);
		(void)snprintf(r->host, sizeof(r->host), "%s",
			       strcmp(ref->registry, DOCKER_HUB) == 0 ? DOCKER_HUB_SERVER
								      : ref->registry);
		r->docker_config = copy_of(options->docker_config, &failed);
		r->ca_file = copy_of(options->ca_file, &failed);
		registry_set_up(r, options);
		r->multi = curl_ready ? curl_multi_init() : NULL;
		failed = failed || !r->multi;
	}
	if (failed)
		return error_errno(err, ENOMEM, "pull %.240s", r ? r->text : ref->name);
	*ret = TAKE_PTR(r);
	return 0;
}

struct registry *registry_close(struct registry *r)
{
	if (!r)
		return NULL;
	(void)curl_multi_cleanup(r->multi);
	if (r->authorization)
		OPENSSL_cleanse(r->authorization, strlen(r->authorization));
	free(r->authorization);
	creds_done(&r->creds);
	free(r->docker_config);
	free(r->ca_file);
	free(r);
	return NULL;
}

void digest_text(const unsigned char sum[32], char digest[REF_DIGEST_LEN + 1])
{
	(void)hex_encode(sum, 32, stpcpy(digest, "sha256:"));
}

static bool is_generic(const char *type)
{
	for (size_t i = 0; i < ARRAY_SIZE(generic_types); i++)
		if (strcasecmp(type, generic_types[i]) == 0)
			return true;
	return false;
}

static bool is_index(const char *type)
{
	return strcmp(type, OCI_INDEX) == 0 || strcmp(type, DOCKER_LIST) == 0;
}

/* Guess the type of a manifest that does not state it: in OCI, only the header has to
 * state it. */
static const char *guess_type(const json_t *root)
{
	if (json_is_array(json_object_get(root, "manifests")))
		return OCI_INDEX;
	if (json_is_array(json_object_get(root, "layers")))
		return OCI_MANIFEST;
	return NULL;
}

/*
 * Determine the type, on which header and body must agree. Otherwise, an attacker could
 * present a document as an index to one program and as a manifest to another, for example
 * to those that sign or scan it.
 */
static int settle_type(const json_t *root, char type[128], struct warren_error *err)
{
	const char *own = json_string_value(json_object_get(root, "mediaType"));
	bool index = json_object_get(root, "manifests"),
	     layers = json_object_get(root, "layers");

	type[strcspn(type, "; \t")] = '\0';
	if (strncasecmp(type, DOCKER_V1, strlen(DOCKER_V1)) == 0 ||
	    json_integer_value(json_object_get(root, "schemaVersion")) == 1)
		return error_set(
			err, EOPNOTSUPP,
			"the image is in docker's schema 1, which is not supported: "
			"push it again with a current tool");
	if (is_generic(type)) {
		if (!own)
			own = guess_type(root);
		if (!own || strlen(own) >= 128)
			return error_set(
				err, EPROTO,
				"the registry sent something that is not a manifest");
		(void)snprintf(type, 128, "%s", own);
	}
	for (const char *p = type; *p; p++)
		if (*p <= ' ' || *p > '~')
			return error_set(err, EPROTO,
					 "the type of the manifest is not valid");
	if ((own && strcasecmp(own, type) != 0) || (is_index(type) && layers) ||
	    (!is_index(type) && index))
		return error_set(
			err, EBADMSG,
			"the manifest contradicts the type it was sent with, '%s'", type);
	return 0;
}

static int check_manifest(const struct buf *body, char type[128],
			  struct warren_error *err)
{
	json_error_t why;
	json_t *root = json_loadb(body->data ? body->data : "", body->len,
				  JSON_REJECT_DUPLICATES, &why);
	int code;

	if (!json_is_object(root))
		code = error_set(
			err, EPROTO,
			"the manifest that the registry sent is not a JSON object");
	else
		code = settle_type(root, type, err);
	json_decref(root);
	return code;
}

static int registry_fetch_manifest(struct http *h, const char *what,
				   char ret_digest[REF_DIGEST_LEN + 1],
				   struct warren_error *err)
{
	unsigned char sum[32];
	int code;

	h->accept = manifest_types;
	h->body_max = REGISTRY_MANIFEST_MAX;
	if (asprintf(&h->path, "/v2/%s/manifests/%s", h->reg->ref.name, what) < 0) {
		h->path = NULL;
		return error_errno(err, ENOMEM, "get the manifest");
	}
	code = http_run(h, err);
	if (code < 0)
		return code;
	if (EVP_Digest(h->body.data ? h->body.data : "", h->body.len, sum, NULL,
		       EVP_sha256(), NULL) != 1)
		return error_errno(err, ENOMEM, "hash the manifest");
	digest_text(sum, ret_digest);
	if (ref_digest_valid(what) && strcmp(ret_digest, what) != 0)
		return error_set(err, EBADMSG,
				 "the manifest sent for %s has the digest %s", what,
				 ret_digest);
	return check_manifest(&h->body, h->type, err);
}

int registry_manifest(struct registry *r, const char *what, struct buf *ret_body,
		      char ret_type[128], char ret_digest[REF_DIGEST_LEN + 1],
		      struct warren_error *err)
{
	CLEANUP(http_done) struct http h = { 0 };
	char digest[REF_DIGEST_LEN + 1];
	int code;

	if (!ref_digest_valid(what) &&
	    (!*what || strlen(what) > TAG_MAX || strspn(what, TAG_CHARS) != strlen(what)))
		return error_set(err, EINVAL,
				 "pull %.240s: '%.80s' is neither a tag nor a digest",
				 r->text, what);
	r->cancelled = false;
	code = http_init(&h, r, "image", err);
	if (code == 0)
		code = registry_fetch_manifest(&h, what, digest, err);
	if (code < 0 && guard_failed(r, err) < 0)
		return error_wrap(err, "pull %.240s", r->text);
	buf_done(ret_body);
	*ret_body = h.body;
	h.body = (struct buf){ .max = h.body.max };
	(void)memcpy(ret_type, h.type, sizeof(h.type));
	(void)memcpy(ret_digest, digest, sizeof(digest));
	return 0;
}
