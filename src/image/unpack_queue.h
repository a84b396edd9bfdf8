/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack_queue.h - unpack the layers of one image, two at a time, in the background
 *
 * A layer is unpacked by its own process (unpack_spawner.h), so that downloads go
 * on in ours. Each layer is locked from before it is fetched until it is in the store.
 */
#ifndef IMAGE_UNPACK_QUEUE_H
#define IMAGE_UNPACK_QUEUE_H

#include "image/oci.h"
#include "image/unpack_spawner.h"

struct oci_work_layer {
	int lock;   /* -1: none */
	int blob;   /* the archive, or -1 */
	int report; /* a pipe from its worker, or -1 */
	bool ready; /* the blob is whole: it may be unpacked */
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
 * Call this first: the unpacking processes know nothing that this process learns later.
 */
int oci_work_open(struct oci_work *w, const struct store *s, const struct oci_options *o,
		  struct warren_error *err);
/* @diff_ids as of the configuration; finds out which are present and locks the others. */
int oci_work_plan(struct oci_work *w, char **diff_ids, struct warren_error *err);
void oci_work_close(struct oci_work *w);
/* An empty file without a name, in the store, for a layer's archive. */
int oci_work_file(const struct store *s, struct warren_error *err);
/* Start what can be started, take in what has ended; tells the caller's progress. */
int oci_work_step(struct oci_work *w, struct warren_error *err);
/* Until all are done. */
int oci_work_finish(struct oci_work *w, struct warren_error *err);

#endif /* IMAGE_UNPACK_QUEUE_H */
