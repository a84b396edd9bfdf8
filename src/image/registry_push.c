/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry_push.c - upload blobs and manifests
 *
 * A blob that the repository lacks is uploaded with two requests: POST opens an upload,
 * and PUT sends the whole blob to the location that the registry names. If the PUT fails
 * for a reason that may pass, both are repeated. The location may be on another server,
 * which gets the blob, but not the login. A manifest is uploaded last, when the registry
 * has everything that it refers to.
 */
#include <errno.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "image/registry_internal.h"

#define SHORT_DIGEST 19 /* "sha256:" and 12 digits, for messages */

/* Complete the message of an error, without details that clients must not see. */
static int registry_push_failed(struct registry *r, struct warren_error *err)
{
	(void)guard_failed(r, err);
	return error_wrap(err, "push %.240s", r->text);
}

static int registry_push_start(struct http *h, struct registry *r, const char *noun,
			       const char *method, char *path, struct warren_error *err)
{
	int code = http_init(h, r, noun, err);

	if (code < 0 || !path) {
		free(path);
		return code < 0 ? code : error_errno(err, ENOMEM, "start a request");
	}
	h->path = path;
	h->method = method;
	return 0;
}

static char *registry_push_path(const char *fmt, ...) PRINTF_LIKE(1, 2);

static char *registry_push_path(const char *fmt, ...)
{
	char *path = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&path, fmt, ap);
	va_end(ap);
	return n < 0 ? NULL : path;
}

/* If the registry says which digest it has stored, the digest must be right. */
static int registry_push_check(const struct http *h, const char *digest,
			       struct warren_error *err)
{
	if (ref_digest_valid(h->digest) && strcmp(h->digest, digest) != 0)
		return error_set(err, EBADMSG,
				 "the registry stored the %s with the digest %.19s",
				 h->noun, h->digest);
	return 0;
}

/* -------------------------------------------------------------------- blobs */

int registry_has_blob(struct registry *r, const char *digest, struct warren_error *err)
{
	CLEANUP(http_done) struct http h = { 0 };
	int code;

	r->cancelled = false;
	code = registry_push_start(
		&h, r, "blob", "HEAD",
		registry_push_path("/v2/%s/blobs/%s", r->ref.name, digest), err);
	if (code == 0)
		code = http_run(&h, err);
	if (code == 0)
		return 1;
	/*
	 * Other refusals of this request do not matter: a registry need not support it,
	 * and if the login is not sufficient, the upload says so.
	 */
	if (h.result == CURLE_OK && h.status >= 400 && h.status < 500 &&
	    h.status != 401 && h.status != 429) {
		*err = (struct warren_error)WARREN_ERROR_INIT;
		return 0;
	}
	return registry_push_failed(r, err);
}

int registry_mount_blob(struct registry *r, const char *digest, const char *from,
			struct warren_error *err)
{
	CLEANUP(http_done) struct http h = { 0 };
	int code;

	r->cancelled = false;
	/* Names of repositories need no escapes in a query. */
	code = registry_push_start(
		&h, r, "blob", "POST",
		registry_push_path("/v2/%s/blobs/uploads/?mount=%s&from=%s", r->ref.name,
				   digest, from),
		err);
	if (code == 0)
		code = http_run(&h, err);
	if (code == 0 && h.status == 201)
		return 1;
	if (code == -ECANCELED)
		return registry_push_failed(r, err);
	/* An error is ignored here: the upload would fail, too, and reports it. */
	*err = (struct warren_error)WARREN_ERROR_INIT;
	return 0;
}

/* The location of an upload as an absolute URL, with the digest added. */
static char *registry_push_location(const char *base, const char *where,
				    const char *digest)
{
	AUTO_FREE char *query = registry_push_path("digest=%s", digest);
	CURLU *u = curl_url();
	char *url = NULL, *copy = NULL;

	if (u && query && curl_url_set(u, CURLUPART_URL, base, 0) == CURLUE_OK &&
	    curl_url_set(u, CURLUPART_URL, where, 0) == CURLUE_OK &&
	    curl_url_set(u, CURLUPART_QUERY, query, CURLU_APPENDQUERY) == CURLUE_OK &&
	    curl_url_get(u, CURLUPART_URL, &url, 0) == CURLUE_OK)
		copy = strdup(url);
	curl_free(url);
	curl_url_cleanup(u);
	return copy;
}

/* Open an upload; *@ret_url is where the blob goes. */
static int registry_push_open(struct registry *r, const char *noun, const char *digest,
			      char **ret_url, struct warren_error *err)
{
	CLEANUP(http_done) struct http h = { 0 };
	AUTO_FREE char *base = NULL, *url = NULL;
	char from[300], to[300];
	int code = registry_push_start(
		&h, r, noun, "POST",
		registry_push_path("/v2/%s/blobs/uploads/", r->ref.name), err);

	if (code == 0)
		code = http_run(&h, err);
	if (code < 0)
		return code;
	base = http_url(&h);
	if (!base)
		return error_errno(err, ENOMEM, "upload the %s", noun);
	http_peer(base, from);
	url = h.where[0] ? registry_push_location(base, h.where, digest) : NULL;
	if (h.status != 202 || !url)
		return error_set(err, EPROTO,
				 "%s answered %ld, without a location for the %s", from,
				 h.status, noun);
	http_peer(url, to);
	if (!http_may_go(r, base, url))
		return error_set(err, EPROTO,
				 "%s wants the %s at %s without TLS, which is refused",
				 from, noun, to);
	*ret_url = TAKE_PTR(url);
	return 0;
}

/*
 * Send the blob to @url. HTTP_LATER: open another upload at *@ret_when; *@retries counts
 * how often that happened.
 */
static enum http_verdict registry_push_send(struct registry *r, const char *noun,
					    struct registry_blob *blob, const char *url,
					    unsigned *retries, uint64_t *ret_when,
					    struct warren_error *err)
{
	CLEANUP(http_done) struct http h = { 0 };
	enum http_verdict verdict = HTTP_AGAIN;
	/* A login is only for the registry itself, whose address is that of the path. */
	int code = registry_push_start(
		&h, r, noun, "PUT",
		registry_push_path("/v2/%s/blobs/uploads/", r->ref.name), err);

	h.location = code == 0 ? strdup(url) : NULL;
	if (code == 0 && !h.location)
		code = error_errno(err, ENOMEM, "upload the %s", noun);
	h.send_type = "application/octet-stream";
	h.send_blob = blob;
	h.retries = *retries;
	while (code == 0 && verdict == HTTP_AGAIN) {
		blob->done = 0;
		code = http_begin(&h, err);
		while (code == 0 && !h.finished)
			code = http_pump(r, REGISTRY_WAKE_MS, err);
		if (code == 0)
			verdict = http_judge(&h, err);
	}
	if (code == 0 && verdict == HTTP_OK)
		code = registry_push_check(&h, blob->digest, err);
	*retries = h.retries;
	*ret_when = h.not_before;
	return code < 0 ? HTTP_FAILED : verdict;
}

static int registry_push_tries(struct registry *r, const char *noun,
			       struct registry_blob *blob, struct warren_error *err)
{
	unsigned retries = 0;

	for (;;) {
		AUTO_FREE char *url = NULL;
		enum http_verdict verdict;
		uint64_t when = 0;
		int code = registry_push_open(r, noun, blob->digest, &url, err);

		if (code < 0)
			return code;
		verdict = registry_push_send(r, noun, blob, url, &retries, &when, err);
		if (verdict == HTTP_OK)
			return 0;
		if (verdict != HTTP_LATER)
			return -err->code;
		code = http_wait_until(r, when, err);
		if (code < 0)
			return code;
	}
}

int registry_push_blob(struct registry *r, struct registry_blob *blob,
		       struct warren_error *err)
{
	char noun[40];
	int code;

	(void)snprintf(noun, sizeof(noun), "blob %.*s", SHORT_DIGEST, blob->digest);
	r->cancelled = false;
	r->blobs = blob;
	r->n_blobs = 1;
	code = registry_push_tries(r, noun, blob, err);
	r->blobs = NULL;
	r->n_blobs = 0;
	return code < 0 ? registry_push_failed(r, err) : 0;
}

/* ---------------------------------------------------------------- manifests */

static int registry_push_document(struct registry *r, const char *type,
				  const char *manifest, struct warren_error *err)
{
	CLEANUP(http_done) struct http h = { 0 };
	char digest[REF_DIGEST_LEN + 1];
	unsigned char sum[32];
	int code = registry_push_start(
		&h, r, "manifest", "PUT",
		registry_push_path("/v2/%s/manifests/%s", r->ref.name, r->ref.tag), err);

	if (code < 0)
		return code;
	h.send_type = type;
	h.send_text = manifest;
	code = http_run(&h, err);
	if (code < 0)
		return code;
	if (EVP_Digest(manifest, strlen(manifest), sum, NULL, EVP_sha256(), NULL) != 1)
		return error_errno(err, ENOMEM, "hash the manifest");
	digest_text(sum, digest);
	return registry_push_check(&h, digest, err);
}

int registry_push_manifest(struct registry *r, const char *type, const char *manifest,
			   struct warren_error *err)
{
	int code;

	r->cancelled = false;
	code = registry_push_document(r, type, manifest, err);
	return code < 0 ? registry_push_failed(r, err) : 0;
}
