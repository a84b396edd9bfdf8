/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h - the configuration of `warren serve`: one table of keys, and the functions
 * that use it
 *
 *	AUTO_CONFIG struct config *c = NULL;
 *
 *	r = config_new(&c, err);
 *	r = config_read_file(c, path, err); // the file, if it exists
 *	r = config_read_flags(c, argc, argv, &first, err); // they override it
 *	r = config_finish(c, err); // defaults and checks
 *	...
 *	r = config_allow(c, n_tokens, err); // before anything listens
 *
 * Every key is also a flag: dots and underscores become dashes, so that
 * `log.level: debug` in the file is `--log-level debug` or `--log-level=debug`. A flag
 * for a list can be given several times; together they replace the list in the file. An
 * unknown key is an error that names its line and the most similar known key.
 *
 * The value `none`, where a key allows it, is 0 in the structure: no limit.
 */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "backend/kind.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/macro.h"
#include "base/tier.h"
#include "spec/limits.h"

struct code_language;

#define CONFIG_BACKEND_NAME_MAX 24
#define CONFIG_BACKENDS_MAX     32
#define CONFIG_LIST_MAX         256
#define CONFIG_KEYS_MAX         128

enum config_log_format {
	CONFIG_LOG_AUTO, /* text on a terminal, JSON otherwise */
	CONFIG_LOG_TEXT,
	CONFIG_LOG_JSON,
};

enum config_log_level {
	CONFIG_LOG_ERROR,
	CONFIG_LOG_WARNING,
	CONFIG_LOG_INFO,
	CONFIG_LOG_DEBUG,
};

enum config_on_stop {
	CONFIG_STOP_KEEP, /* sandboxes keep running */
	CONFIG_STOP_DELETE,
};

struct config_list {
	char **items;
	size_t n;
};

/* The defaults of a sandbox, or the most that it may request. */
struct config_limits {
	uint64_t limits[SPEC_LIMIT_MAX];
	uint64_t ttl_ms, idle_timeout_ms;
};

/* A backend that runs sandboxes. Requests refer to it by name. */
struct config_backend {
	char *name;
	const char *kind;
	enum tier tier;
	enum backend_images images;
	bool network;    /* the backend controls the network of its sandboxes */
	bool policies;   /* its sandboxes can have a network policy */
	bool volumes;    /* its sandboxes can mount volumes */
	bool trusts;     /* certificates can be added to them while they run */
	bool hibernates; /* its sandboxes can hibernate */
	bool persists;   /* the files of its sandboxes can be on disk from the start */
	bool memory;     /* its sandboxes can hibernate with their processes */
	bool snapshots;  /* its sandboxes have snapshots */
	char *settings;  /* JSON for warren_options.backend_config; NULL: none */
	bool off;        /* a default backend that is switched off */
};

struct config {
	struct config_list listen; /* config_listener() parses an item */
	char *state_dir, *run_dir;
	char *user;               /* user of the api process; "": the current user */
	char *egress_user;        /* user of warren-egress; "": that of the api */
	char *domain;             /* "": ports are reached by path only */
	char *tls_cert, *tls_key; /* "": none */
	uint64_t on_stop;         /* enum config_on_stop */
	uint64_t log_format, log_level;
	bool metrics;
	bool shared; /* tenants do not trust each other */
	bool host_image;
	/* Defaults of sandboxes; image "": each sandbox must name one. */
	char *backend, *image;
	/* The backends that are not off; valid after config_finish(). */
	struct config_backend *backends;
	size_t n_backends;
	struct json_t *templates; /* templates by name; NULL: none */
	struct json_t *network;   /* the section `network`; NULL: none */
	/* Code runs: LANGUAGE=IMAGE, defaults, and rows of code/language.h. */
	struct config_list code_images;
	bool code_pull;
	uint64_t code_timeout_ms, code_memory, code_disk, code_pids;
	struct json_t *code_languages; /* NULL: none; code_rows points into it */
	struct code_language *code_rows;
	size_t n_code_rows;
	/* The weakest tier that a sandbox may have (enum tier). */
	uint64_t min_tier;
	struct config_list tenant_tiers; /* for config_min_tier() */
	struct config_list mounts;       /* for config_mount_allowed() */
	struct config_list insecure_registries, trusted_registries;
	struct config_limits defaults, max;
	uint64_t max_sandboxes; /* maximum for all tenants together */
	uint64_t quota_sandboxes, quota_execs, quota_memory, quota_cpu_millis, quota_disk;
	uint64_t quota_volumes, quota_volume_bytes;
	uint64_t quota_snapshots, quota_snapshot_bytes;
	uint64_t code_warm;          /* interpreters started in advance */
	uint64_t pool_min, pool_max; /* prepared sandboxes */
	uint64_t journal_default, journal_max;
	/*
	 * Maximum for one sandbox, and for all sandboxes together (0: half of the free
	 * space).
	 */
	uint64_t journal_total, journal_all;
	uint64_t execs_kept, sessions_max;
	uint64_t request_body, request_header, request_connections;
	uint64_t request_header_ms, request_body_ms, request_idle_ms, request_kept_ms,
		request_write_ms;

	/* The keys that were given, in the order of the table. */
	bool given[CONFIG_KEYS_MAX];
};

int config_new(struct config **ret, struct warren_error *err) MUST_CHECK;
/* Accepts NULL; returns NULL. */
struct config *config_free(struct config *c);

static inline void config_free_p(struct config **c)
{
	(void)config_free(*c);
}

#define AUTO_CONFIG CLEANUP(config_free_p)

/* Read the file at @path. -ENOENT: there is no such file. */
int config_read_file(struct config *c, const char *path,
		     struct warren_error *err) MUST_CHECK;
/* Like config_read_file(), from memory; @name is the name of the text in errors. */
int config_read_text(struct config *c, const char *name, const char *text, size_t size,
		     struct warren_error *err) MUST_CHECK;
/*
 * Reads flags of the table, from argv[1] on. *@ret_first is the index of the first word
 * that is not such a flag (argc: there is none). That word is an operand, or a flag of
 * the caller, which handles it and calls again with the rest.
 */
int config_read_flags(struct config *c, int argc, char *const *argv, int *ret_first,
		      struct warren_error *err) MUST_CHECK;
/* Set the error for an unknown flag, which names the most similar known flag. */
int config_unknown_flag(const char *word, struct warren_error *err);
/*
 * Set the keys that were not given to their defaults, and check rules that involve
 * several keys.
 */
int config_finish(struct config *c, struct warren_error *err) MUST_CHECK;

/* --------------------------------------------------------------- listeners */

enum config_transport {
	CONFIG_UNIX,
	CONFIG_TCP,
	CONFIG_TLS,
};

/* The processes that can reach a listener; a higher number means more processes. */
enum config_reach {
	CONFIG_OWNER, /* processes that may open the socket, whose mode is 0600 */
	/* All processes of this machine, including web pages in a browser. */
	CONFIG_LOOPBACK,
	CONFIG_WIDE,
};

struct config_listener {
	enum config_transport transport;
	enum config_reach reach;
	const char *path; /* for CONFIG_UNIX; points into the text */
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} addr;
	socklen_t addr_len;
};

/*
 * Parse "unix:/PATH", "tcp:HOST:PORT" or "tls:HOST:PORT". HOST is an address
 * ("127.0.0.1", "[::1]", "0.0.0.0") or "localhost", which is 127.0.0.1: the result must
 * not depend on a name that others could change.
 */
int config_listener(const char *text, struct config_listener *ret,
		    struct warren_error *err) MUST_CHECK;
/*
 * Check whether the service may listen with @tokens valid tokens. 0: yes. 1: it listens
 * on loopback, and there is no token: the caller must create one first and report where
 * it is. -EACCES: other machines could connect without a token.
 */
int config_allow(const struct config *c, uint64_t tokens,
		 struct warren_error *err) MUST_CHECK;
/*
 * Return whether a directory or file of this machine may be mounted. @path is absolute
 * and normalised.
 */
bool config_mount_allowed(const struct config *c, const char *path, bool read_only);

/* ---------------------------------------------------------------- backends */

/* Find a backend by name; NULL: there is no such backend. */
const struct config_backend *config_backend(const struct config *c, const char *name);
/* The weakest tier that a sandbox of @tenant may have. */
enum tier config_min_tier(const struct config *c, const char *tenant);
/*
 * The backend for a sandbox of @tenant that requests backend @name (NULL: none) and at
 * least @tier. Without a name, it is the default backend, or if its tier is too weak, the
 * one with the weakest sufficient tier. -ENODEV: there is no such backend; -EPERM: its
 * tier, or that of all backends, is too weak. A required tier is never lowered.
 */
int config_select_backend(const struct config *c, const char *tenant, const char *name,
			  enum tier tier, const struct config_backend **ret,
			  struct warren_error *err) MUST_CHECK;

/* ------------------------------------------------ generated from the table */

/* The example: every key, commented out, with its default. */
void config_example(struct buf *out);
/* A manual page, warren.yaml(5). */
void config_manual(struct buf *out);
/* The flags, for --help. */
void config_help(struct buf *out);
/* The effective configuration as YAML, for --check. */
void config_show(const struct config *c, struct buf *out);

/* The text `network.NAME`; NULL: not configured. */
const char *config_network_text(const struct config *c, const char *name);
/* The number `network.NAME`; 0: not configured. */
uint64_t config_network_number(const struct config *c, const char *name);

#endif /* CONFIG_CONFIG_H */
