/* SPDX-License-Identifier: Apache-2.0 */
/* warden.h - the process that may create sandboxes, and does nothing else */
#ifndef WARDEN_WARDEN_H
#define WARDEN_WARDEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/tier.h"
#include "spec/limits.h"

#define WARDEN_THREADS        8  /* of which one tenant has half at most */
#define WARDEN_SLOW_THREADS   32 /* for backends that are other programs */
#define WARDEN_REGISTRIES_MAX 64
/* Programs at work on images at the same time; of them, those that pull. */
#define WARDEN_IMAGES_MAX 32
#define WARDEN_PULLS_MAX  16

/* What the configuration lets a sandbox have of this machine. */
struct warden_policy {
	/* The most that a sandbox may have of each; 0: any amount. */
	uint64_t max[SPEC_LIMIT_MAX];
	uint64_t max_sandboxes; /* of all backends and tenants; 0: any number */
	enum tier min_tier;     /* no sandbox is created on a backend of a lower one */
	enum tier native_tier;
	const char *const *mounts; /* "/srv/data:ro", "/srv/scratch"; NULL-terminated */
	bool host_image;
	bool dir_image;
	size_t parts_min, parts_max; /* prepared in advance; pool.h */
	const char *image_program;   /* path of warren-image */
	const char *const
		*insecure_registries; /* spoken to without TLS; NULL-terminated */
	const char *const
		*trusted_registries; /* whatever their address; NULL-terminated */
};

/* A backend other than the native one, opened when it is first requested. */
struct warden_backend {
	const char *name;     /* as requests call it */
	const char *kind;     /* as of warren_options.backend */
	const char *settings; /* as of warren_options.backend_config */
	enum tier tier;
};

struct warden;

/*
 * @options are those of the native engine, which is opened here; @backends are borrowed,
 * for as long as the warden lives. Without @native, requests to the native backend are
 * refused.
 */
int warden_open(const struct warren_options *options, bool native,
		const struct warden_backend *backends, size_t n,
		const struct warden_policy *policy, struct warden **ret,
		struct warren_error *err);
struct warden *warden_close(struct warden *w);
/* Serve the requests from @sock, on separate threads, until the connection ends. */
int warden_serve(struct warden *w, int sock, struct warren_error *err);
/* While it is held, no part is prepared or destroyed: for a fork. */
void warden_hold(struct warden *w, bool hold);
/*
 * After the end of the connection: all threads are gone when it returns. @ms: how long
 * that may take, 0 forever; false: it took longer, and the process can only exit.
 */
bool warden_join(struct warden *w, unsigned ms);

/*
 * policy.c, for the api as well: whether a sandbox may have this spec. Sources of mounts
 * are checked by name only. -EPERM: the configuration does not allow it; -EINVAL: it
 * makes no sense.
 */
int policy_check(const struct warden_policy *policy, const struct warren_spec *spec,
		 struct warren_error *err);
/* For the warden: whether it may run on this backend (NULL: the native one). */
int policy_check_place(const struct warden_policy *policy,
		       const struct warden_backend *backend, uint64_t memory,
		       struct warren_error *err);
int policy_check_update(const struct warden_policy *policy,
			const struct warden_backend *backend,
			const struct warren_limits *limits, struct warren_error *err);
/* Whether it is a valid image name for registries and docker. */
int policy_check_ref(const char *ref, struct warren_error *err);
/*
 * Open each source once: the file of source_fd is then within what the configuration
 * allows, whatever happens to the names later. Closed by policy_close_mounts().
 */
int policy_open_mounts(const struct warden_policy *policy, struct warren_mount *mounts,
		       size_t n, struct warren_error *err);
void policy_close_mounts(struct warren_mount *mounts, size_t n);

/*
 * Whether a backend that pulls by itself may pull @image. It follows redirects of the
 * registry without a check, so only docker.io and the registries in the configuration are
 * allowed.
 */
bool policy_may_pull(const struct warden_policy *policy, const char *image);

#endif /* WARDEN_WARDEN_H */
