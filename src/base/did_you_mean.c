/* SPDX-License-Identifier: Apache-2.0 */
/* did_you_mean.c - find the closest word by edit distance; a word that begins with the
 * given text is the closest */
#include "base/did_you_mean.h"

#include <string.h>

#define WORD_MAX 31

static size_t did_you_mean_min3(size_t a, size_t b, size_t c)
{
	size_t m = a < b ? a : b;

	return m < c ? m : c;
}

/*
 * Insertions, deletions, replacements, and swaps of two neighbours each count as one
 * edit.
 */
static size_t did_you_mean_edits(const char *a, size_t na, const char *b, size_t nb)
{
	size_t d[WORD_MAX + 1][WORD_MAX + 1];

	for (size_t i = 0; i <= na; i++)
		d[i][0] = i;
	for (size_t j = 0; j <= nb; j++)
		d[0][j] = j;
	for (size_t i = 1; i <= na; i++) {
		for (size_t j = 1; j <= nb; j++) {
			size_t cost = a[i - 1] != b[j - 1];

			d[i][j] = did_you_mean_min3(d[i - 1][j] + 1, d[i][j - 1] + 1,
						    d[i - 1][j - 1] + cost);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
			    a[i - 2] == b[j - 1])
				d[i][j] = did_you_mean_min3(d[i][j], d[i][j],
							    d[i - 2][j - 2] + 1);
		}
	}
	return d[na][nb];
}

void suggest_consider(struct suggestion *s, const char *candidate)
{
	size_t n = strlen(s->word), m = strlen(candidate);
	size_t distance;

	if (n == 0 || n > WORD_MAX || m > WORD_MAX)
		return;
	if (n >= 2 && strncmp(s->word, candidate, n) == 0)
		distance = 0;
	else
		distance = did_you_mean_edits(s->word, n, candidate, m);
	if (distance > (n < 3 ? 1 : n < 6 ? 2 : 3) || distance >= m)
		return;
	if (s->best && distance >= s->distance)
		return;
	s->best = candidate;
	s->distance = distance;
}
