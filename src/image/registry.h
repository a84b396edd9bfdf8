/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry.h - a client of the registry protocol, version 2
 *
 * One handle per reference: it finds out how that registry wants to be asked
 * (TLS or, on loopback and where configured, not; anonymous, basic, bearer
 * tokens; the caller's docker config and credential helpers), keeps what it
 * learnt, and retries what may pass with backoff. Everything that comes back is
 * a stranger's: sizes are bounded, and nothing is passed on whose digest is not
 * what was asked for.
 */
#ifndef IMAGE_REGISTRY_H
#define IMAGE_REGISTRY_H

#include "base/buf.h"
#include "base/error.h"
#include "image/ref.h"

#define REGISTRY_MANIFEST_MAX (4U << 20)

/* A blob to fetch. */
struct registry_blob {
	const char *digest; /* "sha256:..." */
	uint64_t size;      /* as the manifest says; a byte more or less is an error */
	int fd;        /* where to: an empty or partly filled (resumed) regular file */
	uint64_t done; /* bytes there now; for the progress callback */
	bool verified; /* whole, and of that digest */
};

struct registry_options {
	const char *docker_config; /* file with auths, credsStore, credHelpers; NULL: the
				      user's */
	const char *ca_file;       /* further certificates to trust (PEM), NULL: none */
	const char *const
		*insecure; /* registries that may be asked without TLS, NULL-terminated */
	/*
	 * The reference is a stranger's: connect to public addresses alone, and with TLS
	 * alone, save for hosts that are listed as @trusted or @insecure; @hidden (or
	 * NULL) gets the reason of a failure that the error itself does not tell. All
	 * three lists and @hidden are borrowed until registry_close().
	 */
	bool public_only;
	const char *const *trusted; /* HOST or HOST:PORT, NULL-terminated */
	struct warren_error *hidden;
	unsigned parallel; /* downloads at a time; 0: 4 */
	unsigned
		backoff_ms; /* before the first retry, doubled for each further; 0: 500 */
	unsigned stall_s;   /* a download that stands still so long is retried; 0: 30 */
	/*
	 * Called often, from the caller's own thread; may be NULL. Non-zero: cancel.
	 * While there are no blobs yet (a manifest, a login) @n is 0.
	 */
	int (*progress)(void *ctx, const struct registry_blob *blobs, size_t n);
	void *ctx;
};

struct registry;

int registry_open(const struct ref *ref, const struct registry_options *options,
		  struct registry **ret, struct warren_error *err);
struct registry *registry_close(struct registry *r);

/*
 * The manifest or index that @what (a tag or a digest) names. Its digest is
 * checked when @what is one, and computed in any case.
 */
int registry_manifest(struct registry *r, const char *what, struct buf *ret_body,
		      char ret_type[128], char ret_digest[REF_DIGEST_LEN + 1],
		      struct warren_error *err);

/* All of @blobs, several at once, verified. On failure those that are whole stay so. */
int registry_fetch(struct registry *r, struct registry_blob *blobs, size_t n,
		   struct warren_error *err);

/*
 * Does @registry accept this login? 0: it does; 1: it does not ask for one, so nothing
 * was checked; -EACCES: it refuses it. Any error of registry_unreachable() means that
 * it could not be asked.
 */
int registry_check_login(const char *registry, const struct registry_options *options,
			 const char *user, const char *secret, struct warren_error *err);
/* Is @code an error of the way to a registry, and not an answer? */
bool registry_unreachable(int code);

#endif /* IMAGE_REGISTRY_H */
