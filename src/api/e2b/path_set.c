/* SPDX-License-Identifier: Apache-2.0 */
/* path_set.c - the paths that an upload has written: a hash table that grows */
#include "api/e2b/path_set.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define FIRST_SIZE 64

/* FNV-1a, with two starting points. */
static struct path_key path_key_of(const char *path)
{
	struct path_key k = { { 0xcbf29ce484222325ULL, 0x9ae16a3b2f90404fULL } };

	for (; *path; path++)
		for (size_t i = 0; i < 2; i++)
			k.part[i] = (k.part[i] ^ (unsigned char)*path) * 0x100000001b3ULL;
	k.part[0] |= 1; /* not the key of an empty place */
	return k;
}

/* The place of a key, or the empty one where it belongs. */
static struct path_key *path_set_place(const struct path_set *s, struct path_key k)
{
	size_t at = k.part[1] & (s->size - 1);

	while (s->keys[at].part[0] &&
	       (s->keys[at].part[0] != k.part[0] || s->keys[at].part[1] != k.part[1]))
		at = (at + 1) & (s->size - 1);
	return &s->keys[at];
}

static int path_set_grow(struct path_set *s)
{
	struct path_set bigger = { .n = s->n,
				   .size = s->size ? 2 * s->size : FIRST_SIZE };

	bigger.keys = calloc(bigger.size, sizeof(*bigger.keys));
	if (!bigger.keys)
		return -ENOMEM;
	for (size_t i = 0; i < s->size; i++)
		if (s->keys[i].part[0])
			*path_set_place(&bigger, s->keys[i]) = s->keys[i];
	free(s->keys);
	*s = bigger;
	return 0;
}

int path_set_add(struct path_set *s, const char *path)
{
	struct path_key k = path_key_of(path), *place;

	if (2 * s->n >= s->size && path_set_grow(s) < 0)
		return -ENOMEM;
	place = path_set_place(s, k);
	if (place->part[0])
		return 0;
	*place = k;
	s->n++;
	return 1;
}

void path_set_done(struct path_set *s)
{
	free(s->keys);
	*s = (struct path_set){ 0 };
}
