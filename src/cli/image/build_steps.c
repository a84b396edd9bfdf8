/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build_steps.c - bound what the steps of clients' builds keep in the store
 *
 * Each step is an image without a name, so that the next build finds it (build_store.h).
 * Here, the steps of a tenant are removed, those that were not used for longest first,
 * until there are at most STEPS_MAX, and the layers that only they use, with STEP_COST
 * for each step, have at most a given size. Layers that other images use, too, are not
 * counted: those are images of the machine, or snapshots, which have quotas. Steps of all
 * tenants are removed when they were not used for STEP_DAYS, because a tenant may never
 * build again.
 *
 * When there is little space on the disk, the service lets the steps of all tenants be
 * removed until there is enough, the half that was not used for longest first.
 *
 * An image that a build uses is locked, and stays.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

#include "cli/image/build.h"
#include "cli/image/catalog.h"
#include "image/store_collect.h"

#define STEP_DAYS 14
#define DAY_NS    (86400ULL * 1000000000ULL)
#define STEPS_MAX 1000
/* The files of its image, its layer's directory, and the time that each list of all
 * images takes for it: more than an empty layer. */
#define STEP_COST (64U << 10)
/* The space that build_steps_trim() wants: this part of the disk, or so many bytes. */
#define TRIM_PART   8
#define TRIM_ENOUGH (1ULL << 30)

struct step {
	const struct store_image *image;
	uint64_t used; /* when a build used it, in ns; 0: no build can find it */
	bool own;      /* of the tenant */
};

struct steps_layer {
	const char *id;
	uint64_t size;
	bool measured; /* the size is known */
	bool kept;     /* by an image that stays */
};

struct steps {
	const struct store *store;
	struct catalog catalog;
	struct step *list;
	size_t n;
	struct steps_layer *layers; /* of all images, each once, by id */
	size_t n_layers;
	uint64_t bytes; /* of the tenant's steps that stay */
	size_t kept;    /* their number */
};

static void steps_done(struct steps *t)
{
	catalog_done(&t->catalog);
	free(t->list);
	free(t->layers);
}

/* ---------------------------------------------------------------------- layers */

static int steps_layer_order(const void *a, const void *b)
{
	const struct steps_layer *x = a, *y = b;

	return strcmp(x->id, y->id);
}

static int steps_list_layers(struct steps *t)
{
	AUTO_FREE struct catalog_layer *list = NULL;
	int r = catalog_list_layers(&t->catalog, &list, &t->n_layers);

	if (r < 0)
		return r;
	t->layers = calloc(t->n_layers + 1, sizeof(*t->layers));
	if (!t->layers)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_layers; i++)
		t->layers[i].id = list[i].id;
	return 0;
}

static struct steps_layer *steps_find_layer(const struct steps *t, const char *id)
{
	const struct steps_layer key = { .id = id };

	return bsearch(&key, t->layers, t->n_layers, sizeof(*t->layers),
		       steps_layer_order);
}

/* What the store would free without this image. */
static uint64_t steps_weigh(const struct steps *t, const struct store_image *image)
{
	uint64_t bytes = STEP_COST;

	for (char **name = image->layers; *name; name++) {
		struct steps_layer *l = steps_find_layer(t, *name);

		if (!l->kept && !l->measured)
			l->size = store_layer_size(t->store, *name);
		l->measured = true;
		if (!l->kept)
			bytes += l->size;
	}
	return bytes;
}

static void steps_keep(const struct steps *t, const struct store_image *image)
{
	for (char **l = image->layers; *l; l++)
		steps_find_layer(t, *l)->kept = true;
}

/* ------------------------------------------------------------------------ steps */

static int steps_by_id(const void *a, const void *b)
{
	const struct step *x = a, *y = b;

	return strcmp(x->image->id, y->image->id);
}

static int steps_last_used_first(const void *a, const void *b)
{
	const struct step *x = a, *y = b;

	return x->used == y->used ? steps_by_id(a, b) : x->used < y->used ? 1 : -1;
}

static int steps_note_used(void *ctx, const char *id, uint64_t used)
{
	const struct steps *t = ctx;
	struct store_image image;
	const struct step key = { .image = &image };
	struct step *step;

	(void)strcpy(image.id, id);
	step = bsearch(&key, t->list, t->n, sizeof(*t->list), steps_by_id);
	if (step && used > step->used)
		step->used = used;
	return 0;
}

/* Find the steps, and the layers of all other images. */
static int steps_read(struct steps *t, const char *tenant, struct warren_error *err)
{
	const size_t n = strlen(BUILD_STEP);
	int r = catalog_read(t->store, &t->catalog, err);

	if (r < 0)
		return r;
	t->list = calloc(t->catalog.n_images + 1, sizeof(*t->list));
	if (!t->list || steps_list_layers(t) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < t->catalog.n_images; i++) {
		const struct store_image *image = &t->catalog.images[i];

		if (strncmp(image->snapshot, BUILD_STEP, n) != 0)
			steps_keep(t, image);
		else
			t->list[t->n++] =
				(struct step){ .image = image,
					       .own = strcmp(image->snapshot + n,
							     tenant) == 0 };
	}
	qsort(t->list, t->n, sizeof(*t->list), steps_by_id);
	r = build_cache_each(t->store, steps_note_used, t);
	qsort(t->list, t->n, sizeof(*t->list), steps_last_used_first);
	return r;
}

/* Is this one too many of the tenant's? Count it if not. */
static bool steps_exceed(struct steps *t, const struct step *step, uint64_t max)
{
	uint64_t bytes = steps_weigh(t, step->image);

	if (t->kept >= STEPS_MAX || bytes > max - t->bytes)
		return true;
	t->bytes += bytes;
	t->kept++;
	return false;
}

/* Is there little space on the disk of the store? */
static bool steps_space_is_short(const struct store *s)
{
	struct statvfs fs;
	uint64_t size, left;

	if (fstatvfs(s->images, &fs) < 0)
		return false;
	size = (uint64_t)fs.f_blocks * fs.f_frsize;
	left = (uint64_t)fs.f_bavail * fs.f_frsize;
	return left < size / TRIM_PART && left < TRIM_ENOUGH;
}

/* Remove the half of all steps that was not used for longest; *@ret_n: how many. */
static int steps_halve(const struct store *s, size_t *ret_n)
{
	CLEANUP(steps_done) struct steps t = { .store = s };
	struct store_collected collected = { 0 };
	struct warren_error ignored = WARREN_ERROR_INIT;
	int r = store_lock_soon(s);

	*ret_n = 0;
	if (r < 0)
		return r;
	r = steps_read(&t, "", &ignored);
	for (size_t i = t.n / 2; r == 0 && i < t.n; i++)
		*ret_n += store_remove_image(s, t.list[i].image->id) == 0;
	(void)store_collect(s, &collected);
	store_unlock(s);
	store_sweep_collected(s, &collected);
	return r;
}

int build_steps_trim(const struct store *s)
{
	size_t n = 1;
	int r = 0;

	while (r == 0 && n > 0 && steps_space_is_short(s))
		r = steps_halve(s, &n);
	return r;
}

int build_steps_limit(const struct store *s, const char *tenant, uint64_t max)
{
	CLEANUP(steps_done) struct steps t = { .store = s };
	struct store_collected collected = { 0 };
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct timespec now;
	uint64_t oldest;
	bool alone = store_lock_soon(s) == 0;
	int r = steps_read(&t, tenant, &ignored);

	(void)clock_gettime(CLOCK_REALTIME, &now);
	oldest = (uint64_t)now.tv_sec * 1000000000ULL - STEP_DAYS * DAY_NS;
	for (size_t i = 0; r == 0 && i < t.n; i++) {
		const struct step *step = &t.list[i];
		/* A step that no build can find may be one that is being recorded. */
		bool may = alone || step->used > 0;
		bool ends =
			step->used < oldest || (step->own && steps_exceed(&t, step, max));

		if (!ends || !may || store_remove_image(s, step->image->id) < 0)
			steps_keep(&t, step->image);
	}
	/* Otherwise the next process that locks the store frees their layers. */
	if (alone) {
		(void)store_collect(s, &collected);
		store_unlock(s);
		store_sweep_collected(s, &collected);
	}
	return r;
}
