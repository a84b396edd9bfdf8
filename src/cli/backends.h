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

#define CLI_BACKENDS_MAX 64

struct cli_backend {
	const char *name, *kind, *tier;
	const char *settings; /* for warren_options.backend_config */
};

struct cli_backends {
	size_t n;
	struct cli_backend v[CLI_BACKENDS_MAX];
	char *text; /* the text that the entries point into */
};

/* Read all backends. */
int cli_backends_read(struct cli_backends *ret, struct warren_error *err) MUST_CHECK;
/*
 * Choose the backend for a sandbox that requests @backend (NULL: any) and at least @tier
 * (NULL: any), by the rules of the service. *@ret then contains exactly one backend.
 */
int cli_backends_choose(const char *backend, const char *tier, struct cli_backends *ret,
			struct warren_error *err) MUST_CHECK;
void cli_backends_done(struct cli_backends *p);

#endif /* CLI_BACKENDS_H */
