/* SPDX-License-Identifier: Apache-2.0 */
/*
 * claim.h - one change of a sandbox at a time, and the number of sandboxes
 *
 * The api promises not to ask for two changes of one sandbox at once. The warden does not
 * rely on it: what creates, destroys or changes a sandbox claims its id first, whatever
 * the backend, and a second request for the same id is refused while the first is under
 * way. So nothing changes between a backend's check of an id and the action that follows.
 */
#ifndef WARDEN_CLAIM_H
#define WARDEN_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

struct claims;

/* A claim, in the memory of its owner. */
struct claim {
	struct claim *next;
	const char *id;
};

/* @run_dir: where sandboxes are counted; @max: how many there may be, 0: any number. */
struct claims *claims_new(const char *run_dir, uint64_t max);
/* NULL is fine; returns NULL. */
struct claims *claims_free(struct claims *all);

/* @id is borrowed until claims_drop(). -EBUSY: another request has claimed it. */
int claims_take(struct claims *all, struct claim *claim, const char *id);
void claims_drop(struct claims *all, struct claim *claim);

/* Count one more before it is created. -EDQUOT: the maximum is reached. */
int claims_count(struct claims *all);
/* A sandbox that was counted was created, or its creation failed. */
void claims_created(struct claims *all, bool created);
/* One is gone. */
void claims_destroyed(struct claims *all);

#endif /* WARDEN_CLAIM_H */
