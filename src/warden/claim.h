/* SPDX-License-Identifier: Apache-2.0 */
/*
 * claim.h - one change of a sandbox at a time, and the number of sandboxes
 *
 * The api promises not to ask for two changes of one sandbox at once. The warden does not
 * rely on it: what creates, destroys or changes a sandbox claims its id first, whatever
 * the backend, and a second request for the same id is refused while the first is under
 * way. So nothing that looks and then acts (backends do that by id) is overtaken in
 * between.
 */
#ifndef WARDEN_CLAIM_H
#define WARDEN_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

struct claims;

/* A claim, in the memory of whoever makes it. */
struct claim {
	struct claim *next;
	const char *id;
};

/* @run_dir: where sandboxes are counted; @max: how many there may be, 0: any number. */
struct claims *claims_new(const char *run_dir, uint64_t max);
/* NULL is fine; returns NULL. */
struct claims *claims_free(struct claims *all);

/* @id is borrowed until claims_drop(). -EBUSY: somebody else has it. */
int claims_take(struct claims *all, struct claim *claim, const char *id);
void claims_drop(struct claims *all, struct claim *claim);

/* One more is to be created. -EDQUOT: there are as many as there may be. */
int claims_count(struct claims *all);
/* One that was counted is there now, or never came about. */
void claims_created(struct claims *all, bool created);
/* One is gone. */
void claims_destroyed(struct claims *all);

#endif /* WARDEN_CLAIM_H */
