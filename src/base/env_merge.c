/* SPDX-License-Identifier: Apache-2.0 */
/* env_merge.c - one environment from several lists of variables */
#include "base/env_merge.h"

#include <stdlib.h>
#include <string.h>

#include "base/strv.h"

struct env_var {
	const char *text;
	size_t name; /* length of the name */
	size_t at;   /* index among all variables */
};

/* Compare by name; variables with the same name keep their order. */
static int env_compare(const void *one, const void *other)
{
	const struct env_var *a = one, *b = other;
	int r = memcmp(a->text, b->text, a->name < b->name ? a->name : b->name);

	if (r != 0)
		return r;
	if (a->name != b->name)
		return a->name < b->name ? -1 : 1;
	return a->at < b->at ? -1 : 1;
}

static bool env_same_name(const struct env_var *a, const struct env_var *b)
{
	return a->name == b->name && memcmp(a->text, b->text, a->name) == 0;
}

size_t env_merge(struct buf *out, const char *const *const *lists, size_t n_lists)
{
	AUTO_FREE struct env_var *sorted = NULL;
	AUTO_FREE const char **texts = NULL; /* NULL: replaced by a later variable */
	size_t n = 0, at = 0, written = 0;

	for (size_t i = 0; i < n_lists; i++)
		n += strv_len(lists[i]);
	sorted = calloc(n + 1, sizeof(*sorted));
	texts = calloc(n + 1, sizeof(*texts));
	if (!sorted || !texts) {
		out->failed = true;
		return 0;
	}
	for (size_t i = 0; i < n_lists; i++)
		for (const char *const *v = lists[i]; v && *v; v++, at++) {
			sorted[at] = (struct env_var){ *v, strcspn(*v, "="), at };
			texts[at] = *v;
		}
	qsort(sorted, n, sizeof(*sorted), env_compare);
	for (size_t i = 1; i < n; i++)
		if (env_same_name(&sorted[i - 1], &sorted[i]))
			texts[sorted[i - 1].at] = NULL;
	for (size_t i = 0; i < n; i++) {
		if (!texts[i])
			continue;
		buf_add(out, texts[i], strlen(texts[i]) + 1);
		written++;
	}
	return written;
}
