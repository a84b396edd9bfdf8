/* SPDX-License-Identifier: Apache-2.0 */
/* warden.h - the privileged process, which creates sandboxes and does nothing else */
#ifndef WARDEN_WARDEN_H
#define WARDEN_WARDEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/tier.h"
#include "spec/limits.h"

#define WARDEN_THREADS        8  /* threads; one tenant gets at most half of them */
#define WARDEN_SLOW_THREADS   32 /* threads for backends that run programs */
#define WARDEN_REGISTRIES_MAX 64
/*
 * Maximum number of programs that work on images at the same time; maximum number of
 * these that pull.
 */
#define WARDEN_IMAGES_MAX 40
#define WARDEN_PULLS_MAX  24
/*
 * Maximum number of programs that work on works at the same time; maximum number of these
 * that only read, which last as long as their clients want.
 */
#define WARDEN_WORKS_MAX   8
#define WARDEN_READERS_MAX 6

/* The end of warden_policy.bundle, below a directory that the api cannot replace. */
#define WARDEN_BUNDLE "/trust/ca-certificates.crt"

/* What the configuration allows sandboxes to use on this machine. */
struct warden_policy {
	/* The maximum of each limit of a sandbox; 0: none. */
	uint64_t max[SPEC_LIMIT_MAX];
	uint64_t max_sandboxes; /* maximum on all backends, for all tenants; 0: no maximum
				 */
	enum tier min_tier; /* no sandbox is created on a backend with a weaker tier */
	enum tier native_tier;
	const char *const *mounts; /* "/srv/data:ro", "/srv/scratch"; NULL-terminated */
	bool host_image;
	bool dir_image;
	size_t parts_min, parts_max; /* number of parts prepared in advance; see pool.h */
	const char *image_program;   /* path of warren-image */
	const char *run_dir; /* directory of live sandboxes, for builds; NULL: default */
	/* For warren-egress; NULL: the machine's. */
	const char *dns_servers;
	const char *ca_file;         /* for warren-egress; NULL: none */
	uint64_t lookups_per_second; /* of a sandbox; 0: the default of warren-egress */
	/* File of the certificate authority of warren-egress; see egress/authority.h. */
	const char *authority;
	/*
	 * File with all certificates that sandboxes trust whose TLS may be terminated; it
	 * ends in WARDEN_BUNDLE. warren-egress writes it. Sandboxes may mount it.
	 */
	const char *bundle;
	/* Directory of volumes, which only root may write to; NULL: no volumes. */
	const char *volumes;
	uid_t uid; /* user of the api, who owns @authority and @bundle */
	gid_t gid;
	uid_t egress_uid; /* user of warren-egress */
	gid_t egress_gid;
	/* Registries to contact without TLS; NULL-terminated. */
	const char *const *insecure_registries;
	/* Registries that may have any address; NULL-terminated. */
	const char *const *trusted_registries;
};

/* A backend other than the native one. It is opened when a request first uses it. */
struct warden_backend {
	const char *name;     /* name of the backend in requests */
	const char *kind;     /* see warren_options.backend */
	const char *settings; /* see warren_options.backend_config */
	enum tier tier;
};

struct warden;

/*
 * Opens the native engine with @options. @backends must outlive the warden. If @native is
 * false, requests to the native backend are refused.
 */
int warden_open(const struct warren_options *options, bool native,
		const struct warden_backend *backends, size_t n,
		const struct warden_policy *policy, struct warden **ret,
		struct warren_error *err);
struct warden *warden_close(struct warden *w);
/* Serve the requests from @sock, on separate threads, until the connection ends. */
int warden_serve(struct warden *w, int sock, struct warren_error *err);
/* While the warden is held, no part is prepared or destroyed. Call this around a fork. */
void warden_hold(struct warden *w, bool hold);
/*
 * Wait until all threads have ended after the end of the connection, at most @ms (0:
 * forever). False: a thread is still running, and the process can only exit.
 */
bool warden_join(struct warden *w, unsigned ms);

/*
 * policy.c, which the api uses too: check whether a sandbox may have this spec. The
 * sources of mounts are checked only by name. -EPERM: the configuration does not allow
 * the spec; -EINVAL: it is invalid.
 */
int policy_check(const struct warden_policy *policy, const struct warren_spec *spec,
		 struct warren_error *err);
/*
 * Check for the warden whether this backend (NULL: the native one) may run the sandbox.
 */
int policy_check_backend(const struct warden_policy *policy,
			 const struct warden_backend *backend, uint64_t memory,
			 struct warren_error *err);
int policy_check_update(const struct warden_policy *policy,
			const struct warden_backend *backend,
			const struct warren_limits *limits, struct warren_error *err);
/* Check whether @ref is a valid image name for registries and docker. */
int policy_check_ref(const char *ref, struct warren_error *err);
/* Open the file @policy->bundle. */
int policy_open_bundle(const struct warden_policy *policy, int flags, int *ret_fd,
		       struct warren_error *err);
/*
 * Open each source once and set source_fd. The opened file is within the directories that
 * the configuration allows, even if the names change later. policy_close_mounts() closes
 * it.
 */
int policy_open_mounts(const struct warden_policy *policy, struct warren_mount *mounts,
		       size_t n, struct warren_error *err);
void policy_close_mounts(struct warren_mount *mounts, size_t n);

/*
 * Return whether a backend that pulls by itself may pull @image. Such a backend follows
 * redirects of the registry without a check, so only docker.io and the registries in the
 * configuration are allowed.
 */
bool policy_may_pull(const struct warden_policy *policy, const char *image);

#endif /* WARDEN_WARDEN_H */
