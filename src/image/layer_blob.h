/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer_blob.h - a layer of the store as the blob of an archive or a registry
 *
 * The store keeps layers unpacked, without the archives that they came from. So a new
 * archive is written (layer_tar.h) and compressed. If Warren created the layer, or saved
 * it and loaded it again, the archive has the recorded diff id; otherwise it has a
 * different one.
 */
#ifndef IMAGE_LAYER_BLOB_H
#define IMAGE_LAYER_BLOB_H

#include "archive/tar.h"
#include "image/store.h"

struct layer_blob {
	char diff_id[REF_DIGEST_LEN + 1]; /* digest of the uncompressed archive */
	char digest[REF_DIGEST_LEN + 1];  /* digest of the blob */
	uint64_t size;                    /* of the blob */
};

/* Takes the next bytes of the blob; returns 0, or -errno with @err. */
struct layer_blob_sink {
	int (*take)(void *ctx, const void *data, size_t n, struct warren_error *err);
	void *ctx;
};

/*
 * Write the layer @diff_id to @sink; @kind is PACK_NONE, PACK_GZIP or PACK_ZSTD. The
 * bytes depend only on the layer and @kind. The caller holds the lock of an image that
 * has the layer.
 */
int layer_blob_write(const struct store *s, const char *diff_id, enum pack_kind kind,
		     const struct layer_blob_sink *sink, struct layer_blob *ret,
		     struct warren_error *err);

#endif /* IMAGE_LAYER_BLOB_H */
