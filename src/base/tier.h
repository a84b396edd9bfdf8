/* SPDX-License-Identifier: Apache-2.0 */
/* tier.h - isolation tiers by name; a stronger tier has a greater number */
#ifndef BASE_TIER_H
#define BASE_TIER_H

enum tier {
	TIER_NONE,      /* no isolation, or unknown isolation */
	TIER_CONTAINER, /* this machine's kernel and its user ids */
	TIER_NAMESPACE, /* this machine's kernel, with separate user ids */
	TIER_GVISOR,    /* a separate kernel, in user space */
	TIER_VM,        /* a virtual machine */
	TIER_MAX,
};

/* NULL-terminated. */
extern const char *const tier_names[TIER_MAX + 1];

/* Get the tier with this name, or -EINVAL. */
int tier_parse(const char *name);

#endif /* BASE_TIER_H */
