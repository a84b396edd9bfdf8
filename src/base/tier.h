/* SPDX-License-Identifier: Apache-2.0 */
/* tier.h - isolation tiers by name; a stronger tier has a greater number */
#ifndef BASE_TIER_H
#define BASE_TIER_H

enum tier {
	TIER_NONE,      /* no wall, or one of which we know nothing */
	TIER_CONTAINER, /* the kernel of this machine, and its user ids */
	TIER_NAMESPACE, /* the kernel of this machine, with user ids of its own */
	TIER_GVISOR,    /* its own kernel, in user space */
	TIER_VM,        /* its own machine */
	TIER_MAX,
};

/* With a NULL behind the last. */
extern const char *const tier_names[TIER_MAX + 1];

/* The tier of that name, or -EINVAL. */
int tier_parse(const char *name);

#endif /* BASE_TIER_H */
