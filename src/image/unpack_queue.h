/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack_queue.h - unpack the layers of one image, two at a time, in the background
 *
 * Each layer is unpacked in a separate process (unpack_spawner.h), while this process
 * continues to download. A layer stays locked from before its download until it is in the
 * store.
 */
#ifndef IMAGE_UNPACK_QUEUE_H
#define IMAGE_UNPACK_QUEUE_H

#include "image/oci.h"
#include "image/store_collect.h"
#include "image/unpack_spawner.h"

struct oci_work_layer {
	int lock;   /* -1: none */
	int blob;   /* the archive, or -1 */
	int report; /* pipe from its worker, or -1 */
	bool ready; /* the blob is complete and can be unpacked */
};

struct oci_work {
	const struct store *store;
	const struct oci_options *options;
	struct oci_foreman foreman;
	size_t n;
	struct oci_layer *layers;
	struct oci_work_layer *state;
};

/*
 * Call this before this process reads any secret, so that the unpacking processes have
 * none in their memory.
 */
int oci_work_open(struct oci_work *w, const struct store *s, const struct oci_options *o,
		  struct warren_error *err);
/*
 * Claim the configuration's @diff_ids, find out which of them are in the store, and lock
 * the others. The store must not be locked. Until the image is recorded, *@claim keeps
 * its layers; the caller ends it.
 */
int oci_work_plan(struct oci_work *w, char **diff_ids, struct store_claim *claim,
		  struct warren_error *err);
void oci_work_close(struct oci_work *w);
/* Create an empty, unnamed file in the store for a layer's archive. */
int oci_work_file(const struct store *s, struct warren_error *err);
/*
 * Start unpacking layers that are ready, collect finished ones, and call the caller's
 * progress function.
 */
int oci_work_step(struct oci_work *w, struct warren_error *err);
/* Wait until all layers are done. */
int oci_work_finish(struct oci_work *w, struct warren_error *err);

#endif /* IMAGE_UNPACK_QUEUE_H */
