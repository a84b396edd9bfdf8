/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engines.c - an engine for each backend in the configuration
 *
 * The native engine is opened with the warden, before all others: its lock prevents a
 * second service. The other engines are opened when a request first needs them, so a
 * machine without their programs can still run the service. Each engine has its own name,
 * by which the next warden finds its sandboxes again.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "warden/internal.h"

#define ENGINE_NAME_SIZE 33 /* length of warren_options.engine_name, with a NUL */

struct engines {
	struct warren_options options; /* options of the native engine; the strings belong
					  to the caller */
	struct warren *native;
	bool native_permitted;
	size_t n;
	struct engine {
		const struct warden_backend *is;
		/* Held while it is opened: an engine that hangs does not delay others. */
		pthread_mutex_t lock;
		struct warren *engine; /* NULL: not opened yet */
	} others[];
};

int engines_new(const struct warren_options *options, bool native,
		const struct warden_backend *backends, size_t n, struct engines **ret,
		struct warren_error *err)
{
	struct engines *all = calloc(1, sizeof(*all) + n * sizeof(all->others[0]));
	int r;

	if (!all)
		return error_errno(err, ENOMEM, "start the warden");
	all->options = *options;
	all->native_permitted = native;
	all->n = n;
	for (size_t i = 0; i < n; i++) {
		all->others[i].is = &backends[i];
		(void)pthread_mutex_init(&all->others[i].lock, NULL);
	}
	r = warren_open(options, &all->native, err);
	if (r < 0)
		all = engines_free(all);
	else
		*ret = all;
	return r;
}

struct engines *engines_free(struct engines *all)
{
	for (size_t i = 0; i < all->n; i++) {
		all->others[i].engine = warren_close(all->others[i].engine);
		(void)pthread_mutex_destroy(&all->others[i].lock);
	}
	all->native = warren_close(all->native);
	free(all);
	return NULL;
}

struct warren *engines_native(const struct engines *all)
{
	return all->native;
}

const struct warden_backend *engines_backend(const struct engines *all, const char *name)
{
	for (size_t i = 0; i < all->n; i++)
		if (strcmp(all->others[i].is->name, name) == 0)
			return all->others[i].is;
	return NULL;
}

static int engines_open_engine(const struct engines *all, struct engine *e,
			       struct warren_error *err)
{
	struct warren_options options = all->options;
	char name[ENGINE_NAME_SIZE];
	int n = snprintf(name, sizeof(name), "%s-%s", all->options.engine_name,
			 e->is->name);

	if (n < 0 || n >= (int)sizeof(name))
		return error_set(err, ENAMETOOLONG,
				 "the name of backend '%s' is too long", e->is->name);
	options.backend = e->is->kind;
	options.backend_config = e->is->settings;
	options.engine_name = name;
	return warren_open(&options, &e->engine, err);
}

int engines_get(struct engines *all, const char *name, struct warren **ret,
		struct warren_error *err)
{
	int r = 0;

	if (all->native_permitted && strcmp(name, WIRE_NATIVE) == 0) {
		*ret = all->native;
		return 0;
	}
	for (size_t i = 0; i < all->n; i++) {
		struct engine *e = &all->others[i];

		if (strcmp(e->is->name, name) != 0)
			continue;
		(void)pthread_mutex_lock(&e->lock);
		if (!e->engine)
			r = engines_open_engine(all, e, err);
		(void)pthread_mutex_unlock(&e->lock);
		if (r == 0)
			*ret = e->engine;
		return r;
	}
	return error_set(
		err, ENODEV,
		"the configuration no longer has the backend '%s': add it again to access its sandboxes",
		name);
}
