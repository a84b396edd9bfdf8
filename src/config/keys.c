/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keys.c - the table of all configuration keys, which is the only place to add one
 *
 * The parsers of the file and of the flags, the example, the manual page and the help use
 * this table. tools/gen/gen-config writes packaging/warren.yaml and man/warren.yaml.5,
 * and a test checks that they are up to date.
 */
#include <string.h>

#include "config/config_internal.h"

#define FIELD(name) offsetof(struct config, name)
#define KIB         (UINT64_C(1) << 10)
#define MIB         (UINT64_C(1) << 20)
#define TIB         (UINT64_C(1) << 40)
#define SECOND      UINT64_C(1000)
#define HOUR        (3600 * SECOND)
#define YEAR        (365UL * 24 * HOUR)

static const char *const log_formats[] = { "auto", "text", "json", NULL };
static const char *const log_levels[] = { "error", "warning", "info", "debug", NULL };
static const char *const on_stop[] = { "keep", "delete", NULL };

const struct config_section config_sections[] = {
	{ "", "The service" },
	{ "tls", "TLS, for the tls: addresses of listen" },
	{ "log", "Log messages, which the service writes to standard error" },
	{ "defaults", "Defaults for sandboxes" },
	{ "max", "Maximum values that a sandbox may request" },
	{ "quota",
	  "Maximum values for each tenant at a time; a change takes effect when the service restarts" },
	{ "pool", "Sandboxes prepared in advance; their number follows the demand" },
	{ "code", "Code runs: defaults for programs that run once (warren code)" },
	{ "journal",
	  "Journals: the output of execs, stored so that clients can read it later" },
	{ "request", "Limits for clients" },
};
const size_t config_n_sections = ARRAY_SIZE(config_sections);

/* Map units of spec/limits.h to types of keys. */
#define TYPE_OF_BYTES  TYPE_SIZE
#define TYPE_OF_MILLIS TYPE_CPUS
#define TYPE_OF_COUNT  TYPE_NUMBER

/* Two keys for each row of SPEC_LIMITS(). */
#define DEFAULTS_KEY(id, at, life, unit, word, letter, least, greatest, fallback, most, \
		     example, says, title, note)                                        \
	{ .name = "defaults." word,                                                     \
	  .type = TYPE_OF_##unit,                                                       \
	  .value = (fallback),                                                          \
	  .min = (least),                                                               \
	  .max = (greatest),                                                            \
	  .field = FIELD(defaults.limits[SPEC_##id]),                                   \
	  .help = title note },
#define NONE       .value = "none", .none = true
#define MOST(text) .value = (text)
/* NOLINTBEGIN(bugprone-macro-parentheses): @most is a designator with its value */
#define MAX_KEY(id, at, life, unit, word, letter, least, greatest, fallback, most, \
		example, says, title, note)                                        \
	{ .name = "max." word,                                                     \
	  .type = TYPE_OF_##unit,                                                  \
	  most,                                                                    \
	  .min = (least),                                                          \
	  .max = (greatest),                                                       \
	  .field = FIELD(max.limits[SPEC_##id]),                                   \
	  .help = title },
/* NOLINTEND(bugprone-macro-parentheses) */

const struct config_key config_keys[] = {
	{ .name = "listen",
	  .type = TYPE_LIST,
	  .value = "unix:{run_dir}/warren.sock",
	  .check = check_listener,
	  .field = FIELD(listen),
	  .help = "Addresses to listen on: unix:/PATH (its owner needs no token), "
		  "tcp:HOST:PORT or tls:HOST:PORT (also HTTP/2). The service listens on an "
		  "address that other machines can reach only once a token exists" },
	{ .name = "state_dir",
	  .type = TYPE_PATH,
	  .value = "/var/lib/warren",
	  .field = FIELD(state_dir),
	  .help = "Directory for data that survives a reboot: images, the database" },
	{ .name = "run_dir",
	  .type = TYPE_PATH,
	  .value = "/run/warren",
	  .field = FIELD(run_dir),
	  .help = "Directory for data that a reboot clears: sockets, locks" },
	{ .name = "user",
	  .type = TYPE_TEXT,
	  .value = "warren",
	  .check = check_name,
	  .field = FIELD(user),
	  .help = "User the API process runs as when root starts the service" },
	{ .name = "egress_user",
	  .type = TYPE_TEXT,
	  .value = "warren-egress",
	  .check = check_name,
	  .field = FIELD(egress_user),
	  .help = "User that warren-egress, which connects sandboxes to the network, runs as "
		  "when root starts the service. If there is no such account, it runs as the "
		  "user of the API process" },
	{ .name = "domain",
	  .type = TYPE_TEXT,
	  .value = "",
	  .example = "box.example.org",
	  .check = check_domain,
	  .field = FIELD(domain),
	  .help = "Also serve sandbox ports at PORT-ID.DOMAIN, not only below the path of the sandbox" },
	{ .name = "on_stop",
	  .type = TYPE_CHOICE,
	  .value = "keep",
	  .choices = on_stop,
	  .field = FIELD(on_stop),
	  .help = "What to do with sandboxes when the service stops" },
	{ .name = "metrics",
	  .type = TYPE_BOOL,
	  .value = "true",
	  .field = FIELD(metrics),
	  .help = "Serve /metrics for Prometheus" },
	{ .name = "shared",
	  .type = TYPE_BOOL,
	  .value = "false",
	  .field = FIELD(shared),
	  .help = "Tenants that do not trust each other share this machine. The image "
		  "'host' is then refused" },
	{ .name = "host_image",
	  .type = TYPE_BOOL,
	  .value = "true",
	  .field = FIELD(host_image),
	  .help = "Allow the image 'host': this machine's own programs" },
	{ .name = "backend",
	  .type = TYPE_TEXT,
	  .value = "native",
	  .check = check_backend_name,
	  .field = FIELD(backend),
	  .help = "Backend for sandboxes whose request names none" },
	{ .name = "min_tier",
	  .type = TYPE_CHOICE,
	  .value = "none",
	  .choices = tier_names,
	  .field = FIELD(min_tier),
	  .help = "Weakest isolation tier that a sandbox may have. Creating a sandbox fails if "
		  "no backend provides it. On a shared machine, the default is namespace" },
	{ .name = "tenant_tiers",
	  .type = TYPE_LIST,
	  .value = "",
	  .example = "research:gvisor",
	  .check = check_tenant_tier,
	  .field = FIELD(tenant_tiers),
	  .help = "Tenants that need a stronger tier than min_tier: TENANT:TIER" },
	{ .name = "image",
	  .type = TYPE_TEXT,
	  .value = "host",
	  .field = FIELD(image),
	  .help = "Image for sandboxes whose request names none" },
	{ .name = "mounts",
	  .type = TYPE_LIST,
	  .value = "",
	  .example = "/srv/data:ro",
	  .check = check_mount,
	  .field = FIELD(mounts),
	  .help = "Host directories that sandboxes may mount, with everything "
		  "below them: /PATH:ro or /PATH:rw" },
	{ .name = "insecure_registries",
	  .type = TYPE_LIST,
	  .value = "",
	  .example = "localhost:5000",
	  .check = check_registry,
	  .field = FIELD(insecure_registries),
	  .help = "Registries to contact without TLS, whatever their address: HOST "
		  "or HOST:PORT" },
	{ .name = "trusted_registries",
	  .type = TYPE_LIST,
	  .value = "",
	  .example = "registry.lan:5000",
	  .check = check_registry,
	  .field = FIELD(trusted_registries),
	  .help = "Registries, and servers they redirect to, that may have an address that "
		  "is not public (loopback, a private network): HOST or HOST:PORT. A backend "
		  "that pulls images by itself pulls from these and from docker.io" },

	{ .name = "tls.cert",
	  .type = TYPE_PATH,
	  .value = "",
	  .example = "/etc/warren/cert.pem",
	  .field = FIELD(tls_cert),
	  .help = "File with the certificate and its chain, in PEM format" },
	{ .name = "tls.key",
	  .type = TYPE_PATH,
	  .value = "",
	  .example = "/etc/warren/key.pem",
	  .field = FIELD(tls_key),
	  .help = "File with the private key of the certificate, in PEM format" },

	{ .name = "log.format",
	  .type = TYPE_CHOICE,
	  .value = "auto",
	  .choices = log_formats,
	  .field = FIELD(log_format),
	  .help = "Log format; auto is text on a terminal and JSON otherwise" },
	{ .name = "log.level",
	  .type = TYPE_CHOICE,
	  .value = "info",
	  .choices = log_levels,
	  .field = FIELD(log_level),
	  .help = "Minimum log level" },

	/* clang-format off */
	SPEC_LIMITS(DEFAULTS_KEY)
	/* clang-format on */
	{ .name = "defaults.ttl",
	  .type = TYPE_DURATION,
	  .value = "none",
	  .min = SECOND,
	  .max = YEAR,
	  .none = true,
	  .field = FIELD(defaults.ttl_ms),
	  .help = "Delete a sandbox at this age, or do what its on_ttl says" },
	{ .name = "defaults.idle_timeout",
	  .type = TYPE_DURATION,
	  .value = "none",
	  .min = SECOND,
	  .max = YEAR,
	  .none = true,
	  .field = FIELD(defaults.idle_timeout_ms),
	  .help = "Pause a sandbox after this time without use, or do what its on_idle says" },

	/* clang-format off */
	SPEC_LIMITS(MAX_KEY)
	/* clang-format on */
	{ .name = "max.sandboxes",
	  .type = TYPE_NUMBER,
	  .value = "10000",
	  .min = 1,
	  .none = true,
	  .field = FIELD(max_sandboxes),
	  .help = "Number of sandboxes on this machine, for all tenants and backends together" },
	{ .name = "max.ttl",
	  .type = TYPE_DURATION,
	  .value = "none",
	  .min = SECOND,
	  .max = YEAR,
	  .none = true,
	  .field = FIELD(max.ttl_ms),
	  .help = "Maximum age of a sandbox. Unless this is none, every sandbox is deleted when it reaches this age or its own TTL" },

	{ .name = "quota.sandboxes",
	  .type = TYPE_NUMBER,
	  .value = "none",
	  .min = 1,
	  .none = true,
	  .field = FIELD(quota_sandboxes),
	  .help = "Number of sandboxes" },
	{ .name = "quota.execs",
	  .type = TYPE_NUMBER,
	  .value = "none",
	  .min = 1,
	  .none = true,
	  .field = FIELD(quota_execs),
	  .help = "Number of running execs. One sandbox can have at most 512 in any case" },
	{ .name = "quota.memory",
	  .type = TYPE_SIZE,
	  .value = "none",
	  .min = MIB,
	  .none = true,
	  .field = FIELD(quota_memory),
	  .help = "Sum of the memory limits of a tenant's sandboxes" },
	{ .name = "quota.cpus",
	  .type = TYPE_CPUS,
	  .value = "none",
	  .min = 10,
	  .none = true,
	  .field = FIELD(quota_cpu_millis),
	  .help = "Sum of the processor limits of a tenant's sandboxes" },
	{ .name = "quota.disk",
	  .type = TYPE_SIZE,
	  .value = "none",
	  .min = MIB,
	  .none = true,
	  .field = FIELD(quota_disk),
	  .help = "Sum of the disk limits of a tenant's sandboxes" },
	{ .name = "quota.volumes",
	  .type = TYPE_NUMBER,
	  .value = "none",
	  .min = 1,
	  .none = true,
	  .field = FIELD(quota_volumes),
	  .help = "Number of volumes" },
	{ .name = "quota.volume_bytes",
	  .type = TYPE_SIZE,
	  .value = "none",
	  .min = MIB,
	  .none = true,
	  .field = FIELD(quota_volume_bytes),
	  .help = "Sum of the sizes of a tenant's volumes" },
	{ .name = "quota.snapshots",
	  .type = TYPE_NUMBER,
	  .value = "none",
	  .min = 1,
	  .none = true,
	  .field = FIELD(quota_snapshots),
	  .help = "Number of snapshots" },
	{ .name = "quota.snapshot_bytes",
	  .type = TYPE_SIZE,
	  .value = "none",
	  .min = MIB,
	  .none = true,
	  .field = FIELD(quota_snapshot_bytes),
	  .help = "Sum of the sizes of a tenant's snapshots; the steps that its builds "
		  "keep have the same limit (maximum: 10 GiB)" },

	{ .name = "pool.min",
	  .type = TYPE_NUMBER,
	  .value = "16",
	  .max = 1024,
	  .field = FIELD(pool_min),
	  .help = "Number of prepared sandboxes that are always ready" },
	{ .name = "pool.max",
	  .type = TYPE_NUMBER,
	  .value = "512",
	  .max = 1024,
	  .field = FIELD(pool_max),
	  .help = "Maximum number of prepared sandboxes; each takes about half a megabyte. "
		  "0 means none" },
	{ .name = "code.images",
	  .type = TYPE_LIST,
	  .value = "",
	  .example = "python=python:3.11-alpine",
	  .check = check_code_image,
	  .field = FIELD(code_images),
	  .help = "Images for languages: LANGUAGE=IMAGE. Default: host, this machine's own "
		  "programs" },
	{ .name = "code.pull",
	  .type = TYPE_BOOL,
	  .value = "false",
	  .field = FIELD(code_pull),
	  .help = "Pull these images in the background when the service starts" },
	{ .name = "code.timeout",
	  .type = TYPE_DURATION,
	  .value = "30s",
	  .min = 1,
	  .max = HOUR,
	  .field = FIELD(code_timeout_ms),
	  .help = "Time after which a program is killed, unless the request sets a different timeout" },
	{ .name = "code.memory",
	  .type = TYPE_SIZE,
	  .value = "256m",
	  .min = 8 * MIB,
	  .max = SPEC_PIB,
	  .field = FIELD(code_memory),
	  .help = "Memory limit of a program, without swap. Files that the program writes count too" },
	{ .name = "code.disk",
	  .type = TYPE_SIZE,
	  .value = "64m",
	  .min = MIB,
	  .max = SPEC_PIB,
	  .field = FIELD(code_disk),
	  .help = "Size of the working directory of a program, which is in memory" },
	{ .name = "code.pids",
	  .type = TYPE_NUMBER,
	  .value = "50",
	  .min = 1,
	  .max = 4194304,
	  .field = FIELD(code_pids),
	  .help = "Number of processes and threads of a program. Requests may ask for more than these "
		  "defaults, up to the maximum values for sandboxes" },
	{ .name = "code.warm",
	  .type = TYPE_NUMBER,
	  .value = "0",
	  .max = 16,
	  .field = FIELD(code_warm),
	  .help = "Number of interpreters (python, javascript) for each tenant and language that "
		  "are started before there is a program for them. They count as "
		  "sandboxes of the tenant, and end after a minute without use" },
	{ .name = "journal.default",
	  .type = TYPE_SIZE,
	  .value = "1m",
	  .min = 4 * KIB,
	  .max = TIB,
	  .field = FIELD(journal_default),
	  .help = "Journal size of an exec that does not set one; the oldest output is dropped first" },
	{ .name = "journal.max",
	  .type = TYPE_SIZE,
	  .value = "256m",
	  .min = 4 * KIB,
	  .max = TIB,
	  .field = FIELD(journal_max),
	  .help = "Maximum journal size that an exec may request" },
	{ .name = "journal.total",
	  .type = TYPE_SIZE,
	  .value = "512m",
	  .min = 128 * KIB,
	  .max = TIB,
	  .field = FIELD(journal_total),
	  .help = "Maximum size of all journals of a sandbox together. To make room for a new exec, "
		  "the service removes the oldest ended ones; if that is not enough, it refuses the "
		  "new exec" },
	{ .name = "journal.all",
	  .type = TYPE_SIZE,
	  .value = "none",
	  .min = MIB,
	  .max = 1024 * TIB,
	  .none = true,
	  .field = FIELD(journal_all),
	  .help = "Maximum size of all journals on this machine, shared among tenants. "
		  "none means half of the free space" },
	{ .name = "journal.execs",
	  .type = TYPE_NUMBER,
	  .value = "1000",
	  .min = 1,
	  .max = 1000000,
	  .field = FIELD(execs_kept),
	  .help = "Number of ended execs to remember for each sandbox" },

	{ .name = "request.body",
	  .type = TYPE_SIZE,
	  .value = "4m",
	  .min = 4 * KIB,
	  .max = 1024 * MIB,
	  .field = FIELD(request_body),
	  .help = "Maximum size of a request body that is not a file" },
	{ .name = "request.header",
	  .type = TYPE_SIZE,
	  .value = "32k",
	  .min = KIB,
	  .max = MIB,
	  .field = FIELD(request_header),
	  .help = "Maximum size of a request header" },
	{ .name = "request.connections",
	  .type = TYPE_NUMBER,
	  .value = "16384",
	  .min = 1,
	  .max = 1000000,
	  .field = FIELD(request_connections),
	  .help = "Maximum number of concurrent connections" },
	{ .name = "request.sessions",
	  .type = TYPE_NUMBER,
	  .value = "64",
	  .min = 1,
	  .max = 4096,
	  .field = FIELD(sessions_max),
	  .help = "Maximum number of concurrent sessions in one sandbox" },
	{ .name = "request.header_timeout",
	  .type = TYPE_DURATION,
	  .value = "10s",
	  .min = 100,
	  .max = HOUR,
	  .field = FIELD(request_header_ms),
	  .help = "Maximum time to receive a header" },
	{ .name = "request.body_timeout",
	  .type = TYPE_DURATION,
	  .value = "30s",
	  .min = 100,
	  .max = HOUR,
	  .field = FIELD(request_body_ms),
	  .help = "Maximum pause within a request body" },
	{ .name = "request.idle_timeout",
	  .type = TYPE_DURATION,
	  .value = "75s",
	  .min = 100,
	  .max = 24 * HOUR,
	  .field = FIELD(request_idle_ms),
	  .help = "Maximum idle time between requests on a connection of a client without "
		  "a valid token" },
	{ .name = "request.known_idle_timeout",
	  .type = TYPE_DURATION,
	  .value = "330s",
	  .min = 100,
	  .max = 24 * HOUR,
	  .field = FIELD(request_kept_ms),
	  .help = "Maximum idle time between requests on a connection of a client with a "
		  "valid token. Libraries use a connection again after minutes" },
	{ .name = "request.write_timeout",
	  .type = TYPE_DURATION,
	  .value = "60s",
	  .min = 100,
	  .max = 24 * HOUR,
	  .field = FIELD(request_write_ms),
	  .help = "Maximum time a client may go without reading any of its response" },
};
const size_t config_n_keys = ARRAY_SIZE(config_keys);

_Static_assert(ARRAY_SIZE(config_keys) <= CONFIG_KEYS_MAX,
	       "more keys than CONFIG_KEYS_MAX");

static const struct {
	const char *name, *form;
} types[] = {
	[TYPE_BOOL] = { "bool", "true or false" },
	[TYPE_NUMBER] = { "number", "a whole number" },
	[TYPE_SIZE] = { "size", "a size, such as 64k, 512m or 1.5g" },
	[TYPE_DURATION] = { "duration", "a duration, such as 500ms, 30s, 5m, 2h" },
	[TYPE_CPUS] = { "processors", "a number of processors, such as 2 or 0.5" },
	[TYPE_CHOICE] = { "word", "one of the allowed words" },
	[TYPE_TEXT] = { "text", "a string" },
	[TYPE_PATH] = { "path", "an absolute path" },
	[TYPE_LIST] = { "text", "a list of strings" },
};
_Static_assert(ARRAY_SIZE(types) == TYPE_MAX, "a type has no name");

const char *config_type_form(enum config_type type)
{
	return types[type].form;
}

const char *config_type_name(enum config_type type)
{
	return types[type].name;
}

const char *config_leaf(const struct config_key *key, size_t *ret_section)
{
	const char *dot = strchr(key->name, '.');

	*ret_section = dot ? (size_t)(dot - key->name) : 0;
	return dot ? dot + 1 : key->name;
}

void config_flag_name(const struct config_key *key, char out[CONFIG_FLAG_SIZE])
{
	size_t i = 0;

	for (; key->name[i] && i < CONFIG_FLAG_SIZE - 1; i++)
		out[i] = (char)(strchr("._", key->name[i]) ? '-' : key->name[i]);
	out[i] = '\0';
}

const struct config_key *config_find(const char *name, size_t len)
{
	for (size_t i = 0; i < config_n_keys; i++)
		if (strncmp(config_keys[i].name, name, len) == 0 &&
		    !config_keys[i].name[len])
			return &config_keys[i];
	return NULL;
}
