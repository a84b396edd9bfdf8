/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fair_quota.h - resources that the kernel counts for the whole service, shared among
 * tenants
 *
 * A tenant may take one more as long as more are free than it holds. So the first tenant
 * has at most half, the next half of the rest, and a new tenant finds some free as long
 * as there is more than one. If one tenant may have more than half of a resource, the
 * resource has a greater `weight`: a tenant then holds up to that many times what is
 * free.
 */
#ifndef SERVICE_CORE_FAIR_QUOTA_H
#define SERVICE_CORE_FAIR_QUOTA_H

#include <stdint.h>

#include "base/macro.h"

struct fair_quota {
	uint64_t limit, used;
	unsigned weight; /* 0: 1 */
	struct fair_quota_holder *holders;
};

/* What was taken for an object that may outlive its tenant's name; zero: nothing. */
struct fair_quota_lease {
	struct fair_quota_holder *holder;
	uint64_t n;
};

/* Take one for @tenant; or -EDQUOT, -ENOMEM. */
int fair_quota_take(struct fair_quota *s, const char *tenant) MUST_CHECK;
/* @n of those that @tenant took are free again. */
void fair_quota_give(struct fair_quota *s, const char *tenant, uint64_t n);
/*
 * Take @n at once, all or none, until fair_quota_end(). *@ret is empty or an earlier
 * lease, which is replaced on success and kept on failure.
 */
int fair_quota_lease(struct fair_quota *s, const char *tenant, uint64_t n,
		     struct fair_quota_lease *ret) MUST_CHECK;
/* The same without a limit, for what already exists; -ENOMEM: it is not counted. */
int fair_quota_force(struct fair_quota *s, const char *tenant, uint64_t n,
		     struct fair_quota_lease *ret);
/* An empty one is fine. */
void fair_quota_end(struct fair_quota *s, struct fair_quota_lease *lease);
/* What @tenant has, and the maximum that it may have at present. */
void fair_quota_look(const struct fair_quota *s, const char *tenant, uint64_t *ret_used,
		     uint64_t *ret_maximum);

#endif /* SERVICE_CORE_FAIR_QUOTA_H */
