/* SPDX-License-Identifier: Apache-2.0 */
/*
 * denial.h - remembers which quota an error is about
 *
 * An error passes through callbacks before a client gets it, and other requests are
 * denied in the meantime. So a denial is found by the text of its error, which other
 * errors may contain after words of their own.
 */
#ifndef BASE_DENIAL_H
#define BASE_DENIAL_H

#include <stdint.h>

#include "warren.h"

#define DENIALS_KEPT 16

struct denial {
	const char *quota; /* its name, a constant; NULL: none */
	uint64_t used, maximum;
	char msg[sizeof(((struct warren_error *)0)->msg)];
};

struct denials {
	struct denial last[DENIALS_KEPT];
	unsigned n; /* number of denials so far */
};

/* Remember the denial that @err reports. */
void denials_add(struct denials *all, const char *quota, uint64_t used, uint64_t maximum,
		 const struct warren_error *err);
/* Find the denial that @err reports; NULL: it is about no quota, or too old. */
const struct denial *denials_find(const struct denials *all,
				  const struct warren_error *err);

#endif /* BASE_DENIAL_H */
