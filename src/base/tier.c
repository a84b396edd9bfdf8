/* SPDX-License-Identifier: Apache-2.0 */
/* tier.c - the names of the tiers */
#include "base/tier.h"

#include <errno.h>
#include <string.h>

const char *const tier_names[TIER_MAX + 1] = {
	[TIER_NONE] = "none",
	[TIER_CONTAINER] = "container",
	[TIER_NAMESPACE] = "namespace",
	[TIER_GVISOR] = "gvisor",
	[TIER_VM] = "vm",
};

int tier_parse(const char *name)
{
	for (int i = 0; i < TIER_MAX; i++)
		if (strcmp(tier_names[i], name) == 0)
			return i;
	return -EINVAL;
}
