/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build_store.h - what a build adds to the store: layers, images, and a cache of steps
 *
 * The cache is a directory of the store, with a file for each step that was executed:
 *
 *	<state>/images/build/<key>	"sha256:<image id>"
 *
 * The key is a hash of everything that the result of a step depends on. The image has no
 * name: `warren image prune` removes it, and garbage collection then removes the file.
 * The modification time of the file is that of the last use.
 */
#ifndef IMAGE_BUILD_STORE_H
#define IMAGE_BUILD_STORE_H

#include "image/hash.h"
#include "image/store_write.h"

/*
 * Compute the digest and size of a complete layer, and write it to disk. This takes long,
 * so it needs no lock. It ends with -ECANCELED when @cancelled returns true (NULL:
 * never).
 */
int build_store_finish(const struct store_new *layer, bool (*cancelled)(void),
		       char ret_diff_id[REF_DIGEST_LEN + 1], uint64_t *ret_bytes,
		       struct warren_error *err) MUST_CHECK;
/*
 * Put the layer into the store, unless the store has the same one. The caller holds the
 * store's lock, and drops the layer later.
 */
int build_store_layer(const struct store *s, struct store_new *layer, const char *diff_id,
		      uint64_t bytes, struct warren_error *err) MUST_CHECK;

/*
 * Record an image with this configuration. @parent is the image whose layers are its
 * first ones; NULL: none. @snapshot: see store_image.snapshot; NULL: an ordinary image.
 * The caller holds the store's lock.
 */
int build_store_image(const struct store *s, const char *config,
		      const struct store_image *parent, const char *snapshot,
		      char ret_id[REF_DIGEST_LEN + 1],
		      struct warren_error *err) MUST_CHECK;

/*
 * The beginning of store_image.snapshot of a step of a client's build; the tenant
 * follows. So the image is as private as a snapshot.
 */
#define BUILD_STEP "step:"

/* Find the image of a step; -ENOENT: there is none, or it was removed. */
int build_cache_find(const struct store *s, const char key[HASH_LEN + 1],
		     struct store_image *ret) MUST_CHECK;
int build_cache_put(const struct store *s, const char key[HASH_LEN + 1], const char *id,
		    struct warren_error *err) MUST_CHECK;
/*
 * Call @fn with the image of each step, and the time of its last use in ns. If @fn
 * returns non-zero, stop and return that value.
 */
int build_cache_each(const struct store *s,
		     int (*fn)(void *ctx, const char *id, uint64_t used),
		     void *ctx) MUST_CHECK;

/* Directories of RUN --mount=type=cache, below the store's images. */
#define BUILD_MOUNTS_DIR STORE_BUILD_DIR "/mounts"

#endif /* IMAGE_BUILD_STORE_H */
