/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fair_quota.h - divides resources that the kernel limits for the whole service among
 * tenants
 *
 * A tenant may take one more unit while more units are free than it holds. So the first
 * tenant gets at most half, the next one half of the rest, and a new tenant can take some
 * while more than one unit is free. A greater `weight` lets one tenant have more than
 * half: it may hold up to that many times the free units.
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

/* Units held for an object, which may outlive its tenant's name; zero: none. */
struct fair_quota_lease {
	struct fair_quota_holder *holder;
	uint64_t n;
};

/* Take one unit for @tenant; or -EDQUOT, -ENOMEM. */
int fair_quota_take(struct fair_quota *s, const char *tenant) MUST_CHECK;
/* Give back @n units of @tenant. */
void fair_quota_give(struct fair_quota *s, const char *tenant, uint64_t n);
/*
 * Take @n units at once, all or none, until fair_quota_end(). *@ret is empty or an
 * earlier lease, which is replaced on success and kept on failure.
 */
int fair_quota_lease(struct fair_quota *s, const char *tenant, uint64_t n,
		     struct fair_quota_lease *ret) MUST_CHECK;
/*
 * Like fair_quota_lease(), but without a limit, for objects that already exist; -ENOMEM:
 * they are not counted.
 */
int fair_quota_force(struct fair_quota *s, const char *tenant, uint64_t n,
		     struct fair_quota_lease *ret);
/* End a lease, which may be empty. */
void fair_quota_end(struct fair_quota *s, struct fair_quota_lease *lease);
/* Get the units that @tenant holds, and the maximum that it may hold at present. */
void fair_quota_look(const struct fair_quota *s, const char *tenant, uint64_t *ret_used,
		     uint64_t *ret_maximum);

#endif /* SERVICE_CORE_FAIR_QUOTA_H */
