/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_collect.h - remove what no image of the store uses
 *
 * A collection needs the store's lock alone, and all others hold it only for moments: a
 * pull or load that lasts writes down the layers that it needs, which is its claim, and
 * the directories that it fills are locked (store_new_work()). So layers are freed while
 * the store is in steady use.
 */
#ifndef IMAGE_STORE_COLLECT_H
#define IMAGE_STORE_COLLECT_H

#include "image/store_write.h"

/* Layers that this process needs before it has recorded their image. */
struct store_claim {
	char name[32];
	int fd; /* -1: none; locked, so the claim ends with this process */
};

#define STORE_CLAIM_NONE \
	{                \
		.fd = -1 \
	}

/* Claim layers, whether the store has them or not. The caller holds the shared lock. */
int store_claim_layers(const struct store *s, char *const *layers,
		       struct store_claim *ret, struct warren_error *err) MUST_CHECK;
void store_claim_end(const struct store *s, struct store_claim *claim);

struct store_collected {
	unsigned images, layers, leftovers;
	uint64_t bytes;
	/*
	 * An image that cannot be read, and whose layers are unknown. It may need every
	 * layer, so none was removed. "": there is none
	 */
	char unknown[REF_DIGEST_LEN + 1];
	/* What was set aside: the beginning of the names, and their number. */
	char aside[32];
	unsigned n_aside;
};
/*
 * Remove layers that no image uses, and incomplete leftovers. Needs the exclusive lock,
 * but not for long: the files are set aside, and store_sweep() removes them.
 */
int store_collect(const struct store *s, struct store_collected *ret);
/*
 * Remove the files that were set aside, except those that another process removes. The
 * store must not be locked, because this may take minutes.
 */
void store_sweep(const struct store *s);
/* The same, but only those that this collection has set aside. */
void store_sweep_collected(const struct store *s, const struct store_collected *by);
/*
 * Lock the store exclusively, and wait for that, but no longer than a few seconds.
 * -EWOULDBLOCK: others still use it.
 */
int store_lock_soon(const struct store *s) MUST_CHECK;
/*
 * For a process that adds an image: collect garbage, unless another process is adding
 * one. Before, remove only a few of the files that were set aside, because the client
 * should not wait for the removal of what others have left. After it has @failed, remove
 * all files that this call sets aside, among them its own.
 */
void store_tidy(const struct store *s, bool failed);

#endif /* IMAGE_STORE_COLLECT_H */
