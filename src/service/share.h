/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share.h - what the kernel counts for the service as a whole, shared among its tenants
 *
 * A tenant may take one more as long as more are free than it holds. So the first has
 * half at most, the next half of what is left then, and whoever comes finds some free as long
 * as there is more than one.
 */
#ifndef SERVICE_SHARE_H
#define SERVICE_SHARE_H

#include <stdint.h>

#include "base/macro.h"

struct share {
	uint64_t limit, used;
	struct share_holder *holders;
};

/* One of it for @tenant; or -EDQUOT, -ENOMEM. */
int share_take(struct share *s, const char *tenant) MUST_CHECK;
/* @n of those that @tenant took are free again. */
void share_give(struct share *s, const char *tenant, uint64_t n);
/* What @tenant has, and the most that it may have as things are. */
void share_look(const struct share *s, const char *tenant, uint64_t *ret_used,
		uint64_t *ret_maximum);

#endif /* SERVICE_SHARE_H */
