/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry.h - a client of the registry protocol, version 2
 *
 * One handle per reference. It finds out how to talk to the registry. It uses TLS, except
 * for registries on loopback and those that the configuration lists as insecure, where
 * TLS is optional. It connects anonymously, with basic authentication or with bearer
 * tokens; logins come from the user's docker configuration and credential helpers. It
 * remembers the result, and retries temporary failures with backoff. All responses are
 * untrusted: sizes are bounded, and data with a wrong digest is never used.
 */
#ifndef IMAGE_REGISTRY_H
#define IMAGE_REGISTRY_H

#include "base/buf.h"
#include "base/error.h"
#include "image/ref.h"

#define REGISTRY_MANIFEST_MAX (4U << 20)

/* A blob to fetch or to upload. */
struct registry_blob {
	const char *digest; /* "sha256:..." */
	uint64_t size;      /* size in the manifest; any other size is an error */
	int fd; /* a regular file; the destination may be partly filled (resumed) */
	uint64_t done; /* bytes in the file now; for the progress callback */
	bool verified; /* complete, with the right digest */
};

struct registry_options {
	const char *docker_config; /* path of the docker configuration; NULL: the user's
				      file */
	const char *ca_file;       /* further certificates to trust (PEM), NULL: none */
	const char *const
		*insecure; /* registries for which TLS is optional, NULL-terminated */
	/*
	 * The reference comes from an untrusted client: connect only to public addresses
	 * and only with TLS, except to hosts listed in @trusted or @insecure. @hidden
	 * (may be NULL) gets the reason for a failure if the error must not contain it.
	 * The lists and @hidden must stay valid until registry_close().
	 */
	bool public_only;
	const char *const *trusted; /* HOST or HOST:PORT, NULL-terminated */
	/*
	 * With @public_only: a project of the user chose the reference, so errors say
	 * what is wrong, and this text is added to them. NULL: they say nothing.
	 */
	const char *advice;
	struct warren_error *hidden;
	unsigned parallel;   /* maximum concurrent downloads; 0: 4 */
	unsigned backoff_ms; /* ms before the first retry, doubled each time; 0: 500 */
	unsigned stall_s; /* seconds without data before a download is retried; 0: 30 */
	/*
	 * Called often, in the caller's thread; may be NULL. Returns non-zero to cancel.
	 * @n is 0 during other requests (a manifest, a login).
	 */
	int (*progress)(void *ctx, const struct registry_blob *blobs, size_t n);
	void *ctx;
};

struct registry;

int registry_open(const struct ref *ref, const struct registry_options *options,
		  struct registry **ret, struct warren_error *err);
struct registry *registry_close(struct registry *r);

/*
 * Fetch the manifest or index @what (a tag or a digest). If @what is a digest, the data
 * must match it. @ret_digest always gets the digest.
 */
int registry_manifest(struct registry *r, const char *what, struct buf *ret_body,
		      char ret_type[128], char ret_digest[REF_DIGEST_LEN + 1],
		      struct warren_error *err);

/*
 * Fetch and verify all @blobs, several at once. After a failure, complete blobs stay
 * verified.
 */
int registry_fetch(struct registry *r, struct registry_blob *blobs, size_t n,
		   struct warren_error *err);

/* Whether the repository has the blob @digest: 1 or 0. */
int registry_has_blob(struct registry *r, const char *digest, struct warren_error *err);
/*
 * Let the repository use the blob @digest of the repository @from of the same registry.
 * 1: it does; 0: the registry does not permit that.
 */
int registry_mount_blob(struct registry *r, const char *digest, const char *from,
			struct warren_error *err);
/*
 * Upload a blob from its file, which must have that digest and size. The progress
 * callback gets the blob; `done` is the number of bytes sent.
 */
int registry_push_blob(struct registry *r, struct registry_blob *blob,
		       struct warren_error *err);
/* Upload a manifest with the media type @type, and give it the tag of the reference. */
int registry_push_manifest(struct registry *r, const char *type, const char *manifest,
			   struct warren_error *err);

/*
 * Check a login. 0: @registry accepts it; 1: the registry needs no login, so nothing was
 * checked; -EACCES: it refuses the login. If registry_unreachable() is true for the
 * error, the registry could not be reached.
 */
int registry_check_login(const char *registry, const struct registry_options *options,
			 const char *user, const char *secret, struct warren_error *err);
/* Return whether @code means that the registry could not be reached. */
bool registry_unreachable(int code);

#endif /* IMAGE_REGISTRY_H */
