/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kind.h - the descriptor of a kind of backend
 *
 * A kind has its own folder, with one `const struct backend_kind backend_kind_NAME`, and
 * is in one of the two lists below. Configuration, `warren doctor`, the service and the
 * command line iterate over these descriptors; none of them names a kind.
 *
 * A descriptor is only data, so that programs without the kind's code can link it.
 */
#ifndef BACKEND_KIND_H
#define BACKEND_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/tier.h"

/* Kinds inside libwarren: backend/NAME/, with a table backend_NAME (backend.h). */
#define BACKEND_KINDS_OWN(KIND) KIND(native)

/* Kinds with a shim: shim/NAME/, with a driver shim_driver_NAME (shim/core/driver.h). */
#define BACKEND_KINDS_SHIMMED(KIND) \
	KIND(docker)                \
	KIND(gvisor)                \
	KIND(command)

/* The images from which a backend creates sandboxes. */
enum backend_images {
	BACKEND_IMAGES_OURS,   /* images in Warren's store on this machine */
	BACKEND_IMAGES_THEIRS, /* the platform's images; a request must name one */
	BACKEND_IMAGES_NONE,   /* a request cannot choose an image */
};

enum backend_setting_type {
	BACKEND_SETTING_TEXT,
	BACKEND_SETTING_PATH,
	BACKEND_SETTING_CHOICE,
	BACKEND_SETTING_SECONDS,
	BACKEND_SETTING_ARGV, /* argument vector with placeholders */
};

/* A setting of a backend in the configuration. */
struct backend_setting {
	const char *name;
	enum backend_setting_type type;
	bool required;
	const char *const *choices; /* NULL-terminated */
	const char *const *places;  /* ARGV: the allowed placeholders */
	const char *const *needs;   /* ARGV: one of these is required */
	const char *needs_what;     /* ARGV: its purpose, for error messages: "command" */
	const char *example;        /* an example value, in YAML */
	bool example_hidden; /* shown in the manual page, but not in the example file */
	const char *help;    /* one sentence without its full stop */
};

struct backend_kind {
	const char *name;
	const char *help; /* one sentence without its full stop */
	enum tier tier;   /* default tier; a setting `tier` overrides it */
	bool offered;     /* a backend of this name exists without configuration */
	bool only_one;    /* at most one backend of this kind, without settings */
	bool network;     /* the backend controls the network of its sandboxes */
	bool policies;    /* its sandboxes can have a network policy */
	bool volumes;     /* its sandboxes can mount volumes of the service */
	bool trusts;      /* certificates can be added to them while they run */
	bool here;        /* the sandboxes use the memory of this machine */
	bool hibernates;  /* its sandboxes can hibernate */
	bool memory;      /* its sandboxes can hibernate with their processes */
	bool snapshots;   /* its sandboxes have snapshots, and can be created from them */
	/*
	 * A daemon keeps the files of a sandbox, also of one that hibernates, in an
	 * overlay of root.
	 */
	bool daemon;
	bool persists; /* the files of its sandboxes can be on disk from the start */
	/* NONE becomes THEIRS if the settings of the backend use {image}. */
	enum backend_images images;
	uint32_t limits; /* WARREN_LIMIT_* that the backend enforces, if the platform can
			  */
	const struct backend_setting *settings;
	size_t n_settings;
};

/* All kinds, in the order of the lists. */
extern const struct backend_kind *const backend_kinds[];
extern const size_t backend_n_kinds;

/* Find a kind by name; NULL: there is no such kind. */
const struct backend_kind *backend_kind_find(const char *name);

#define BACKEND_KIND_EXTERN(name) extern const struct backend_kind backend_kind_##name;
BACKEND_KINDS_OWN(BACKEND_KIND_EXTERN)
BACKEND_KINDS_SHIMMED(BACKEND_KIND_EXTERN)

#endif /* BACKEND_KIND_H */
