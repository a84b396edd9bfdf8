/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build_steps.c - bound what the steps of clients' builds keep in the store
 *
 * Each step is an image without a name, so that the next build finds it (build_store.h).
 * Here, the steps of a tenant are removed, those that were not used for longest first,
 * until the layers that only they use have at most a given size. Layers that other images
 * use, too, are not counted: those are images of the machine, or snapshots, which have
 * quotas. Steps of all tenants are removed when they were not used for STEP_DAYS, because
 * a tenant may never build again.
 *
 * An image that a build uses is locked, and stays.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/strv.h"
#include "cli/image/build.h"
#include "cli/image/catalog.h"

#define STEP_DAYS 14
#define DAY_NS    (86400ULL * 1000000000ULL)

struct step {
	const struct store_image *image;
	uint64_t used; /* when a build used it, in ns; 0: no build can find it */
	bool own;      /* of the tenant */
};

struct steps {
	const struct store *store;
	struct catalog catalog;
	struct step *list;
	size_t n;
	char **layers; /* that are kept anyway */
	uint64_t bytes;
};

static void steps_done(struct steps *t)
{
	catalog_done(&t->catalog);
	free(t->list);
	t->layers = strv_free(t->layers);
}

static int steps_note_used(void *ctx, const char *id, uint64_t used)
{
	struct steps *t = ctx;

	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->list[i].image->id, id) == 0 && used > t->list[i].used)
			t->list[i].used = used;
	return 0;
}

static int steps_last_used_first(const void *a, const void *b)
{
	const struct step *x = a, *y = b;

	return x->used == y->used ? 0 : x->used < y->used ? 1 : -1;
}

/* Size of the layers of an image that are not kept anyway. */
static uint64_t steps_weigh(const struct steps *t, const struct store_image *image)
{
	uint64_t bytes = 0;

	for (char **l = image->layers; l && *l; l++)
		if (!strv_has_case(t->layers, *l))
			bytes += store_layer_size(t->store, *l);
	return bytes;
}

static int steps_keep(struct steps *t, const struct store_image *image)
{
	int r = 0;

	for (char **l = image->layers; r == 0 && l && *l; l++)
		if (!strv_has_case(t->layers, *l))
			r = strv_add(&t->layers, *l);
	return r;
}

/* Find the steps, and the layers of all other images. */
static int steps_read(struct steps *t, const char *tenant, struct warren_error *err)
{
	const size_t n = strlen(BUILD_STEP);
	int r = catalog_read(t->store, &t->catalog, err);

	if (r < 0)
		return r;
	t->list = calloc(t->catalog.n_images + 1, sizeof(*t->list));
	if (!t->list)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < t->catalog.n_images; i++) {
		const struct store_image *image = &t->catalog.images[i];

		if (strncmp(image->snapshot, BUILD_STEP, n) != 0)
			r = steps_keep(t, image);
		else
			t->list[t->n++] =
				(struct step){ .image = image,
					       .own = strcmp(image->snapshot + n,
							     tenant) == 0 };
	}
	if (r == 0)
		r = build_cache_each(t->store, steps_note_used, t);
	qsort(t->list, t->n, sizeof(*t->list), steps_last_used_first);
	return r;
}

int build_steps_limit(const struct store *s, const char *tenant, uint64_t max)
{
	CLEANUP(steps_done) struct steps t = { .store = s };
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct timespec now;
	uint64_t oldest;
	/* A step that no build can find may be one that is being recorded. */
	bool alone = store_lock(s, true, false) == 0;
	int r = steps_read(&t, tenant, &ignored), removed = 0;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	oldest = (uint64_t)now.tv_sec * 1000000000ULL - STEP_DAYS * DAY_NS;
	for (size_t i = 0; r == 0 && i < t.n; i++) {
		const struct step *step = &t.list[i];
		uint64_t bytes = steps_weigh(&t, step->image);
		bool old = step->used == 0 ? alone : step->used < oldest;

		if ((old || (step->own && bytes > max - t.bytes)) &&
		    store_remove_image(s, step->image->id) == 0) {
			removed++;
			continue;
		}
		if (step->own)
			t.bytes += bytes < max - t.bytes ? bytes : max - t.bytes;
		r = steps_keep(&t, step->image);
	}
	if (alone)
		store_unlock(s);
	if (removed > 0)
		store_tidy(s, true);
	return r;
}
