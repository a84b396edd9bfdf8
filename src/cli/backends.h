/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backends.h - the backends of this machine, from its configuration
 *
 * The configuration is YAML, and this program has no YAML parser. It asks warren-serve
 * instead, and only if a backend other than the native one is requested.
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
	char *text; /* the text that the entries point into */
};

/* Read all backends. */
int places_read(struct places *ret, struct warren_error *err) MUST_CHECK;
/*
 * Choose the backend for a sandbox that requests @backend (NULL: any) and at least @tier
 * (NULL: any), by the rules of the service. *@ret contains exactly one.
 */
int places_choose(const char *backend, const char *tier, struct places *ret,
		  struct warren_error *err) MUST_CHECK;
void places_done(struct places *p);

#endif /* CLI_BACKENDS_H */
