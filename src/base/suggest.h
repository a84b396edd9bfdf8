/* SPDX-License-Identifier: Apache-2.0 */
/*
 * suggest.h - what was meant by a word that is not known
 *
 *	struct suggestion s = { .word = "memroy" };
 *
 *	for (...)
 *		suggest_consider(&s, name);
 *	if (s.best) ...
 */
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

#include <stddef.h>

struct suggestion {
	const char *word;
	const char *best; /* NULL: nothing is near */
	size_t distance;
};

void suggest_consider(struct suggestion *s, const char *candidate);

#endif /* BASE_SUGGEST_H */
