/* SPDX-License-Identifier: Apache-2.0 */
/*
 * claim.h - allow only one change of a sandbox at a time, and count sandboxes
 *
 * The api requests one change of a sandbox at a time. The warden does not rely on that:
 * every request that creates, destroys or changes a sandbox claims its id first, on every
 * backend. While the first request is in progress, a second request for the same id is
 * refused. So nothing changes between a backend's check of an id and the action that
 * follows.
 *
 * A brief claim belongs to a request that no client has sent: the api captures the
 * network again after warren-egress has ended. A client could not understand a refusal,
 * so a second request waits until the brief claim ends.
 */
#ifndef WARDEN_CLAIM_H
#define WARDEN_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

struct claims;

/* A claim; its owner provides the memory. */
struct claim {
	struct claim *next;
	const char *id;
	bool brief;
	bool counted; /* its sandbox counts, whether or not there is a state file */
};

/*
 * Create a set of claims. Sandboxes are counted in @run_dir, and those that hibernate in
 * @state_dir; @max is their maximum, 0: none.
 */
struct claims *claims_new(const char *run_dir, const char *state_dir, uint64_t max);
/* Accepts NULL; returns NULL. */
struct claims *claims_free(struct claims *all);

/*
 * Claim @id, which is borrowed until claims_drop(). -EBUSY: another request has claimed
 * it.
 */
int claims_take(struct claims *all, struct claim *claim, const char *id, bool brief);
/*
 * Wait until no request has claimed @id. An api that was started in the meantime must not
 * see what a request of its predecessor changes only for a while, such as processes that
 * are stopped while their files are copied. -EBUSY: a request still has it after some
 * seconds.
 */
int claims_await(struct claims *all, const char *id);
void claims_drop(struct claims *all, struct claim *claim);

/*
 * Count one more sandbox before it is created, by the request that has @claim. -EDQUOT:
 * the maximum is reached.
 */
int claims_count(struct claims *all, struct claim *claim);
/* Record that the creation of a counted sandbox succeeded or failed. */
void claims_created(struct claims *all, struct claim *claim, bool created);
/* Record that the request that has @claim begins to destroy a sandbox that exists. */
void claims_destroying(struct claims *all, struct claim *claim);
/*
 * Record that the sandbox was destroyed, or could not be. One that hibernates still
 * counts.
 */
void claims_destroyed(struct claims *all, struct claim *claim, bool destroyed);

#endif /* WARDEN_CLAIM_H */
