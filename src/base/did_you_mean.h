/* SPDX-License-Identifier: Apache-2.0 */
/*
 * did_you_mean.h - suggest a known word for an unknown one
 *
 *	struct suggestion s = { .word = "memroy" };
 *
 *	for (...)
 *		suggest_consider(&s, name);
 *	if (s.best) ...
 */
#ifndef BASE_DID_YOU_MEAN_H
#define BASE_DID_YOU_MEAN_H

#include <stddef.h>

struct suggestion {
	const char *word;
	const char *best; /* NULL: no known word is similar */
	size_t distance;
};

void suggest_consider(struct suggestion *s, const char *candidate);

#endif /* BASE_DID_YOU_MEAN_H */
