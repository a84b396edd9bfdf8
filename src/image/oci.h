/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci.h - pull, load and import images into the store; save and push them
 *
 * All functions that add an image end in the same way: missing layers are unpacked and
 * verified by diff id, then the image is recorded, then it gets its name. A failure
 * leaves only complete layers, which the next garbage collection removes.
 */
#ifndef IMAGE_OCI_H
#define IMAGE_OCI_H

#include "archive/tar.h"
#include "image/registry.h"
#include "image/store.h"

#define OCI_BYTES_MAX (64ULL << 30)

/* State of one layer, for progress reports. */
enum oci_state {
	OCI_WAITING,     /* not started */
	OCI_DOWNLOADING, /* `done` and `total` are bytes */
	OCI_UNPACKING,
	OCI_PACKING,   /* `done` is bytes */
	OCI_UPLOADING, /* `done` and `total` are bytes */
	OCI_PRESENT,   /* already in the store, or in the registry */
	OCI_DONE,
};

struct oci_layer {
	char digest[REF_DIGEST_LEN +
		    1]; /* digest of the blob; for an archive, the diff id */
	char diff_id[REF_DIGEST_LEN + 1];
	uint64_t size, done;
	enum oci_state state;
};

struct oci_options {
	const char *platform; /* "linux/arm64" or "linux/arm/v7"; NULL: this machine */
	struct registry_options
		registry; /* the oci functions set its progress callback */
	/* Maximum uncompressed size of a load or import (-EFBIG); 0: OCI_BYTES_MAX */
	uint64_t max_bytes;
	/*
	 * Called after changes, about ten times a second; may be NULL. Returns non-zero
	 * to cancel.
	 */
	int (*progress)(void *ctx, const struct oci_layer *layers, size_t n);
	void *ctx;
};

/* Get this machine's platform, such as "linux/amd64". */
const char *oci_platform(void);

/* Pull @ref and store it under that name. @ret_id gets the id of the image. */
int oci_pull(const struct store *s, const struct ref *ref, const struct oci_options *o,
	     char ret_id[REF_DIGEST_LEN + 1], struct warren_error *err);

/*
 * Load all images of an archive (docker save or OCI, compressed or not) in @fd. Call
 * @loaded with each id and each name that the archive gives it (NULL: none).
 */
int oci_load(const struct store *s, int fd, const struct oci_options *o,
	     void (*loaded)(void *ctx, const char *id, const char *ref),
	     struct warren_error *err);

/* Like oci_load(), from a directory with an OCI layout. */
int oci_load_layout(const struct store *s, int dir, const struct oci_options *o,
		    void (*loaded)(void *ctx, const char *id, const char *ref),
		    struct warren_error *err);

/*
 * Create an image of one layer from a root filesystem: a tar archive or a directory in
 * @fd.
 */
int oci_import(const struct store *s, int fd, const struct ref *name,
	       const struct oci_options *o, char ret_id[REF_DIGEST_LEN + 1],
	       struct warren_error *err);

/*
 * Call this before oci_save() or oci_push(), when the store is open. The layers of an
 * ordinary user belong to that user, who is root in them, and have files that not even
 * the owner may read. So the process becomes root of a user namespace that has only this
 * user.
 */
int oci_own_layers(struct warren_error *err) MUST_CHECK;

/*
 * Write the images @texts (references or ids, NULL-terminated) to @out as one archive, in
 * docker's format and as an OCI layout. Layers have the compression @kind: PACK_NONE,
 * PACK_GZIP or PACK_ZSTD. layer_blob.h says when an image keeps its id. Call @saved (may
 * be NULL) with each id and name in the archive (NULL: none).
 */
int oci_save(const struct store *s, const char *const *texts, enum pack_kind kind,
	     int out, const struct oci_options *o,
	     void (*saved)(void *ctx, const char *id, const char *ref),
	     struct warren_error *err);

struct oci_pushed {
	char digest[REF_DIGEST_LEN + 1]; /* of the manifest */
	char id[REF_DIGEST_LEN + 1];     /* of the image, as the registry has it */
};

/*
 * Push the image @text (a reference or an id) as @to, which has a tag. Needs
 * oci_own_layers(), too.
 */
int oci_push(const struct store *s, const char *text, const struct ref *to,
	     const struct oci_options *o, struct oci_pushed *ret,
	     struct warren_error *err);

#endif /* IMAGE_OCI_H */
