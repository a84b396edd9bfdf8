/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_write.h - add images to the store and remove them (store.h describes its layout)
 *
 * A process that adds an image holds the store's lock shared, from the first layer to the
 * reference, or while it claims layers, and again while it records their image. A process
 * that collects garbage holds it exclusively (store_collect.h), so that it does not
 * remove an unpacked layer whose image is not complete yet. Directories and files that
 * are not complete themselves have locks of their own (entry.h). Each layer also has a
 * lock while it is fetched and unpacked: if two pulls need it, one waits and then finds
 * it in the store.
 */
#ifndef IMAGE_STORE_WRITE_H
#define IMAGE_STORE_WRITE_H

#include "image/store.h"

/*
 * Lock the store, shared or exclusive. -EWOULDBLOCK: another process holds the lock, and
 * @wait is false.
 */
int store_lock(const struct store *s, bool exclusive, bool wait);
void store_unlock(const struct store *s);

/*
 * Lock a layer: return a descriptor that the caller closes to unlock it, or -EWOULDBLOCK
 * while another process holds the lock.
 */
int store_lock_layer(const struct store *s, const char *diff_id);

/*
 * A new layer: store_new_work() creates an empty directory to unpack into; then
 * store_sync_layer() writes it to disk, which may take long, and store_keep_layer() puts
 * it into the store, which must be locked; or store_drop_layer() removes it. The
 * directory is locked from its creation (entry.h), so the store need not be locked until
 * then: garbage collection neither waits for it nor removes it before this process has
 * ended.
 */
struct store_new {
	char name[32];
	int fd;
};
int store_new_work(const struct store *s, struct store_new *ret,
		   struct warren_error *err) MUST_CHECK;
/*
 * The same for the files of the snapshot @id. Until their layer is in the store, or this
 * process and those that inherit @ret->fd have ended, the other function returns true, so
 * that the snapshot is not deleted before it exists.
 */
int store_new_snapshot(const struct store *s, const char *id, struct store_new *ret,
		       struct warren_error *err) MUST_CHECK;
bool store_has_snapshot_work(const struct store *s, const char *id);
/* Open the new layer @name, which another process has created and locked. */
int store_open_new(const struct store *s, const char *name, struct store_new *ret,
		   struct warren_error *err);
int store_sync_layer(const struct store_new *layer, struct warren_error *err) MUST_CHECK;
int store_keep_layer(const struct store *s, struct store_new *layer, const char *diff_id,
		     uint64_t size, struct warren_error *err);
void store_drop_layer(const struct store *s, struct store_new *layer);

/*
 * Record an image. It is written to disk before it gets its name, so that it survives a
 * power failure. If the store has it, but cannot read it, it is repaired.
 */
int store_put_image(const struct store *s, const struct store_image *image,
		    const char *manifest, const char *config, struct warren_error *err);
int store_tag(const struct store *s, const struct ref *ref, const char *id,
	      struct warren_error *err);
int store_untag(const struct store *s, const struct ref *ref, struct warren_error *err);

/*
 * Call @fn for each reference and the id of its image, or for each image. If @fn returns
 * non-zero, stop and return that value.
 */
int store_each_ref(const struct store *s,
		   int (*fn)(void *ctx, const char *ref, const char *id), void *ctx);
int store_each_image(const struct store *s, int (*fn)(void *ctx, const char *id),
		     void *ctx);
/* Size of a layer's uncompressed archive; 0: unknown. */
uint64_t store_layer_size(const struct store *s, const char *diff_id);

/*
 * Remove an image, even one that cannot be read; -EBUSY: a sandbox uses it.
 * store_collect() finds its layers.
 */
int store_remove_image(const struct store *s, const char *id);

/* Read a JSON file of an image, "manifest.json" or "config.json". The caller frees it. */
int store_read_json(const struct store *s, const char *id, const char *name, char **ret);

#endif /* IMAGE_STORE_WRITE_H */
