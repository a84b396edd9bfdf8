/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci.h - pull, load and import images into the store
 *
 * All of them end the same way: layers that are missing are unpacked, each once
 * and verified by its diff id; then the image is recorded; then it is named.
 * What fails leaves nothing but whole layers, which the next collection takes.
 */
#ifndef IMAGE_OCI_H
#define IMAGE_OCI_H

#include "image/registry.h"
#include "image/store.h"

#define OCI_BYTES_MAX (64ULL << 30)

/* What is going on with one layer, for a progress bar or a line. */
enum oci_state {
	OCI_WAITING,     /* for its turn */
	OCI_DOWNLOADING, /* done and total are bytes */
	OCI_UNPACKING,
	OCI_PRESENT, /* it was in the store */
	OCI_DONE,
};

struct oci_layer {
	char digest[REF_DIGEST_LEN +
		    1]; /* of the blob; of an archive's layer its diff id */
	char diff_id[REF_DIGEST_LEN + 1];
	uint64_t size, done;
	enum oci_state state;
};

struct oci_options {
	const char *platform; /* "linux/arm64" or "linux/arm/v7"; NULL: this machine's */
	struct registry_options registry; /* its progress is ours to use */
	/* Of what is loaded or imported, uncompressed; 0: OCI_BYTES_MAX. -EFBIG */
	uint64_t max_bytes;
	/*
	 * Called when something changed, some ten times a second; may be NULL. Non-zero:
	 * cancel.
	 */
	int (*progress)(void *ctx, const struct oci_layer *layers, size_t n);
	void *ctx;
};

/* This machine's platform, "linux/amd64". */
const char *oci_platform(void);

/* Pull @ref and name it. The id of the image is left in @ret_id. */
int oci_pull(const struct store *s, const struct ref *ref, const struct oci_options *o,
	     char ret_id[REF_DIGEST_LEN + 1], struct warren_error *err);

/*
 * All images of an archive (docker save or OCI, compressed or not) in @fd.
 * Calls @loaded with each id and each name that the archive gives it (NULL: none).
 */
int oci_load(const struct store *s, int fd, const struct oci_options *o,
	     void (*loaded)(void *ctx, const char *id, const char *ref),
	     struct warren_error *err);

/* A directory with an OCI layout; as oci_load(). */
int oci_load_layout(const struct store *s, int dir, const struct oci_options *o,
		    void (*loaded)(void *ctx, const char *id, const char *ref),
		    struct warren_error *err);

/* A plain root filesystem, as a tarball in @fd or a directory: an image of one layer. */
int oci_import(const struct store *s, int fd, const struct ref *name,
	       const struct oci_options *o, char ret_id[REF_DIGEST_LEN + 1],
	       struct warren_error *err);

#endif /* IMAGE_OCI_H */
