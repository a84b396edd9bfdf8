/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backends.h - the backends of this machine, from its configuration
 *
 * The configuration is YAML, which this program does not load a reader for: warren-serve
 * is asked, and only by those who want another backend than the native one.
 */
#ifndef CLI_BACKENDS_H
#define CLI_BACKENDS_H

#include "base/error.h"

#define PLACES_MAX 64

struct place {
	const char *name, *kind, *tier;
	const char *settings; /* for warren_options.backend_config */
};

struct places {
	size_t n;
	struct place v[PLACES_MAX];
	char *text; /* what they point into */
};

/* All there are. */
int places_read(struct places *ret, struct warren_error *err) MUST_CHECK;
/*
 * The one that a sandbox gets that asks for @backend (NULL: any) and for a wall of @tier
 * at least (NULL: any); refused as the service does. There is one in *@ret.
 */
int places_choose(const char *backend, const char *tier, struct places *ret,
		  struct warren_error *err) MUST_CHECK;
void places_done(struct places *p);

#endif /* CLI_BACKENDS_H */
