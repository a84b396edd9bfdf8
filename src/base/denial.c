/* SPDX-License-Identifier: Apache-2.0 */
/* denial.c - remembers which quota an error is about */
#include "base/denial.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void denials_add(struct denials *all, const char *quota, uint64_t used, uint64_t maximum,
		 const struct warren_error *err)
{
	struct denial *d = &all->last[all->n++ % DENIALS_KEPT];

	d->quota = quota;
	d->used = used;
	d->maximum = maximum;
	(void)snprintf(d->msg, sizeof(d->msg), "%s", err->msg);
}

static bool denial_is_of(const struct denial *d, const struct warren_error *err)
{
	size_t n = strlen(d->msg), size = strlen(err->msg);

	return d->quota && n > 0 && n <= size && strcmp(err->msg + size - n, d->msg) == 0;
}

const struct denial *denials_find(const struct denials *all,
				  const struct warren_error *err)
{
	for (unsigned i = 1; i <= DENIALS_KEPT; i++) {
		const struct denial *d = &all->last[(all->n - i) % DENIALS_KEPT];

		if (denial_is_of(d, err))
			return d;
	}
	return NULL;
}
