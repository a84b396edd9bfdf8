/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_write.h - fill the store and empty it (store.h has its layout)
 *
 * A process that adds an image holds the store's lock shared, from the first layer to the
 * reference; one that collects garbage holds it exclusively, so that it does not remove a
 * layer that was unpacked and whose image is not complete yet. Each layer also has a lock
 * while it is fetched and unpacked: of two pulls that need it, one waits and then finds
 * it in the store.
 */
#ifndef IMAGE_STORE_WRITE_H
#define IMAGE_STORE_WRITE_H

#include "image/store.h"

/* Shared or exclusive; -EWOULDBLOCK: it is taken, and @wait is false. */
int store_lock(const struct store *s, bool exclusive, bool wait);
void store_unlock(const struct store *s);

/* A descriptor to close; -EWOULDBLOCK while another process works on this layer. */
int store_lock_layer(const struct store *s, const char *diff_id);

/* An empty directory to unpack into, then its place in the store, or its removal. */
struct store_new {
	char name[32];
	int fd;
};
int store_new_layer(const struct store *s, struct store_new *ret,
		    struct warren_error *err);
int store_keep_layer(const struct store *s, struct store_new *layer, const char *diff_id,
		     uint64_t size, struct warren_error *err);
void store_drop_layer(const struct store *s, struct store_new *layer);

/* Writes it to disk before it gets a name, so that an image survives a power cut. */
int store_put_image(const struct store *s, const struct store_image *image,
		    const char *manifest, const char *config, struct warren_error *err);
int store_tag(const struct store *s, const struct ref *ref, const char *id,
	      struct warren_error *err);
int store_untag(const struct store *s, const struct ref *ref, struct warren_error *err);

/*
 * Each reference with the id it names; each image by its id. Non-zero ends it and is
 * returned.
 */
int store_each_ref(const struct store *s,
		   int (*fn)(void *ctx, const char *ref, const char *id), void *ctx);
int store_each_image(const struct store *s, int (*fn)(void *ctx, const char *id),
		     void *ctx);
/* What a layer's plain archive measured; 0 when unknown. */
uint64_t store_layer_size(const struct store *s, const char *diff_id);

/* Remove an image; -EBUSY: a sandbox runs from it. Its layers go with store_collect(). */
int store_remove_image(const struct store *s, const char *id);

struct store_collected {
	unsigned images, layers, leftovers;
	uint64_t bytes;
};
/* With the exclusive lock: layers that no image has, and what was left half-made. */
int store_collect(const struct store *s, struct store_collected *ret);

/* A JSON file of an image: "manifest.json" or "config.json", to be freed. */
int store_read_json(const struct store *s, const char *id, const char *name, char **ret);

#endif /* IMAGE_STORE_WRITE_H */
