/* SPDX-License-Identifier: Apache-2.0 */
/* warden.h - the process that may make sandboxes, and does nothing else */
#ifndef WARDEN_WARDEN_H
#define WARDEN_WARDEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define WARDEN_THREADS        4
#define WARDEN_SLOW_THREADS   32 /* for backends that are other programs */
#define WARDEN_REGISTRIES_MAX 64

/* What the configuration lets a sandbox have of this machine. */
struct warden_policy {
	const char *const *mounts; /* "/srv/data:ro", "/srv/scratch"; NULL-terminated */
	bool host_image;
	bool dir_image;
	size_t parts_min, parts_max; /* made ahead; stock.h */
	const char *image_program;   /* path of warren-image */
	const char *const
		*insecure_registries; /* spoken to without TLS; NULL-terminated */
	const char *const
		*trusted_registries; /* whatever their address; NULL-terminated */
};

/* A backend beside the native one, opened when it is first asked for. */
struct warden_backend {
	const char *name;     /* as requests call it */
	const char *kind;     /* as of warren_options.backend */
	const char *settings; /* as of warren_options.backend_config */
};

struct warden;

/*
 * @options are those of the native engine, which is opened here; @backends are borrowed, for
 * as long as the warden lives. Without @native among what is permitted, requests to it are
 * refused.
 */
int warden_open(const struct warren_options *options, bool native,
		const struct warden_backend *backends, size_t n,
		const struct warden_policy *policy, struct warden **ret,
		struct warren_error *err);
struct warden *warden_close(struct warden *w);
/* Serve the requests that come over @sock, by threads of its own, until its end. */
int warden_serve(struct warden *w, int sock, struct warren_error *err);
/* While it is held no part is made or unmade: for a fork. */
void warden_hold(struct warden *w, bool hold);
/* After the end of the connection: all threads are gone when it returns. */
void warden_join(struct warden *w);

/* May a sandbox have @source of this machine? 0 or -EPERM. In policy.c, for the api as well. */
int policy_check(const struct warden_policy *policy, const struct warren_spec *spec,
		 struct warren_error *err);

/*
 * May a backend that pulls by itself pull @image? It follows where the registry
 * leads, unchecked: so docker.io and what the configuration lists alone.
 */
bool policy_may_pull(const struct warden_policy *policy, const char *image);

#endif /* WARDEN_WARDEN_H */
