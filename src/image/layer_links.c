/* SPDX-License-Identifier: Apache-2.0 */
/* layer_links.c - a hash table of the files that have several names */
#include "image/layer_links.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LINKS_MAX (256U << 20) /* bytes of names */

struct layer_link {
	dev_t dev;
	ino_t ino;
	nlink_t left; /* names that are not yet seen */
	char *path;   /* NULL: the slot is free; layer_link_gone: it was in use */
};

/* The path of a slot that was in use: a search continues after it. */
static char layer_link_gone[1];

static bool layer_link_used(const struct layer_link *k)
{
	return k->path && k->path != layer_link_gone;
}

static size_t layer_links_hash(const struct stat *st, size_t cap)
{
	uint64_t h = ((uint64_t)st->st_ino ^ ((uint64_t)st->st_dev << 40)) *
		     0x9e3779b97f4a7c15ULL;

	return (size_t)(h >> 20) & (cap - 1);
}

/* Get the slot of the file, or the first free one on its way. */
static struct layer_link *layer_links_find(const struct layer_links *l,
					   const struct stat *st)
{
	struct layer_link *gone = NULL;

	for (size_t i = layer_links_hash(st, l->cap);; i = (i + 1) & (l->cap - 1)) {
		struct layer_link *k = &l->slots[i];

		if (!k->path)
			return gone ? gone : k;
		if (k->path == layer_link_gone)
			gone = gone ? gone : k;
		else if (k->ino == st->st_ino && k->dev == st->st_dev)
			return k;
	}
}

/* Make room for one more; this also drops the slots that were in use. */
static int layer_links_grow(struct layer_links *l)
{
	struct layer_links larger = { .cap = 64, .bytes = l->bytes };
	size_t used = 0;

	for (size_t i = 0; i < l->cap; i++)
		used += layer_link_used(&l->slots[i]);
	while (larger.cap < (used + 1) * 4)
		larger.cap *= 2;
	larger.slots = calloc(larger.cap, sizeof(*larger.slots));
	if (!larger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < l->cap; i++) {
		const struct layer_link *k = &l->slots[i];
		const struct stat st = { .st_dev = k->dev, .st_ino = k->ino };

		if (layer_link_used(k))
			*layer_links_find(&larger, &st) = *k;
	}
	larger.n = used;
	free(l->slots);
	*l = larger;
	return 0;
}

static int layer_links_add(struct layer_links *l, struct layer_link *k,
			   const struct stat *st, const char *path)
{
	size_t n = strlen(path) + 1;
	char *copy = l->bytes + n > LINKS_MAX ? NULL : strdup(path);

	if (!copy)
		return -ENOMEM;
	l->n += k->path == NULL;
	l->bytes += n;
	*k = (struct layer_link){ st->st_dev, st->st_ino, st->st_nlink - 1, copy };
	return 0;
}

int layer_links_see(struct layer_links *l, const struct stat *st, const char *path,
		    const char **ret_first)
{
	struct layer_link *k;

	free(l->last);
	l->last = NULL;
	*ret_first = NULL;
	if ((l->n + 1) * 2 > l->cap && layer_links_grow(l) < 0)
		return -ENOMEM;
	k = layer_links_find(l, st);
	if (!layer_link_used(k))
		return layer_links_add(l, k, st, path);
	*ret_first = k->path;
	if (--k->left == 0) {
		l->bytes -= strlen(k->path) + 1;
		l->last = k->path;
		k->path = layer_link_gone;
	}
	return 0;
}

void layer_links_done(struct layer_links *l)
{
	for (size_t i = 0; i < l->cap; i++)
		if (layer_link_used(&l->slots[i]))
			free(l->slots[i].path);
	free(l->slots);
	free(l->last);
	*l = (struct layer_links){ 0 };
}
