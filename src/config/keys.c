/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keys.c - every key of the configuration: the one place to add one
 *
 * What reads the file and the flags, the example, the manual page and the
 * help are made from this table; packaging/warren.yaml and man/warren.yaml.5
 * are written by tools/gen-config, and a test notices when they are not.
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
	{ "tls", "TLS, for listeners of that kind" },
	{ "log", "What it says of itself, on standard error" },
	{ "defaults", "What a sandbox gets that asks for nothing else" },
	{ "max", "The most that a sandbox may ask for" },
	{ "quota", "What a tenant may have at a time that has no quota of its own" },
	{ "pool",
	  "Parts that any sandbox needs, made ahead; how many follows the demand" },
	{ "journal", "What execs write, kept so that it can be read later" },
	{ "request", "What a client may do" },
};
const size_t config_n_sections = ARRAY_SIZE(config_sections);

const struct config_key config_keys[] = {
	{ .name = "listen",
	  .type = TYPE_LIST,
	  .value = "unix:{run_dir}/warren.sock",
	  .check = check_listener,
	  .field = FIELD(listen),
	  .help = "Where clients come in: unix:/PATH (its owner needs no token), "
		  "tcp:HOST:PORT or tls:HOST:PORT. Other machines can be let in only "
		  "once there is a token" },
	{ .name = "state_dir",
	  .type = TYPE_PATH,
	  .value = "/var/lib/warren",
	  .field = FIELD(state_dir),
	  .help = "What must survive a restart of the machine: images, the database" },
	{ .name = "run_dir",
	  .type = TYPE_PATH,
	  .value = "/run/warren",
	  .field = FIELD(run_dir),
	  .help = "What is gone with the next restart of the machine: sockets, locks" },
	{ .name = "user",
	  .type = TYPE_TEXT,
	  .value = "warren",
	  .check = check_name,
	  .field = FIELD(user),
	  .help = "Who the process is that speaks to clients, when root starts the service" },
	{ .name = "domain",
	  .type = TYPE_TEXT,
	  .value = "",
	  .example = "box.example.org",
	  .check = check_domain,
	  .field = FIELD(domain),
	  .help = "Ports of sandboxes are at PORT-ID.DOMAIN as well as below their path" },
	{ .name = "on_stop",
	  .type = TYPE_CHOICE,
	  .value = "keep",
	  .choices = on_stop,
	  .field = FIELD(on_stop),
	  .help = "What happens to sandboxes when the service is stopped" },
	{ .name = "metrics",
	  .type = TYPE_BOOL,
	  .value = "true",
	  .field = FIELD(metrics),
	  .help = "Whether /metrics is served, for Prometheus" },
	{ .name = "shared",
	  .type = TYPE_BOOL,
	  .value = "false",
	  .field = FIELD(shared),
	  .help = "Whether tenants share this machine who do not trust each other: the "
		  "image 'host' is then refused" },
	{ .name = "host_image",
	  .type = TYPE_BOOL,
	  .value = "true",
	  .field = FIELD(host_image),
	  .help = "Whether sandboxes may have this machine's own programs for an image" },
	{ .name = "backend",
	  .type = TYPE_TEXT,
	  .value = "native",
	  .check = check_backend_name,
	  .field = FIELD(backend),
	  .help = "Where sandboxes run that name no backend" },
	{ .name = "min_tier",
	  .type = TYPE_CHOICE,
	  .value = "none",
	  .choices = tier_names,
	  .field = FIELD(min_tier),
	  .help = "The weakest wall that a sandbox may have; what is not to be had is "
		  "refused. Where the machine is shared it is namespace unless it is given" },
	{ .name = "tenant_tiers",
	  .type = TYPE_LIST,
	  .value = "",
	  .example = "research:gvisor",
	  .check = check_tenant_tier,
	  .field = FIELD(tenant_tiers),
	  .help = "Tenants whose sandboxes must have a stronger wall than that: TENANT:TIER" },
	{ .name = "image",
	  .type = TYPE_TEXT,
	  .value = "host",
	  .field = FIELD(image),
	  .help = "The image of sandboxes that name none" },
	{ .name = "mounts",
	  .type = TYPE_LIST,
	  .value = "",
	  .example = "/srv/data:ro",
	  .check = check_mount,
	  .field = FIELD(mounts),
	  .help = "Directories of this machine that sandboxes may mount, with what is "
		  "below them: /PATH:ro or /PATH:rw" },
	{ .name = "insecure_registries",
	  .type = TYPE_LIST,
	  .value = "",
	  .example = "localhost:5000",
	  .check = check_registry,
	  .field = FIELD(insecure_registries),
	  .help = "Registries that are spoken to without TLS, whatever their address: HOST "
		  "or HOST:PORT" },
	{ .name = "trusted_registries",
	  .type = TYPE_LIST,
	  .value = "",
	  .example = "registry.lan:5000",
	  .check = check_registry,
	  .field = FIELD(trusted_registries),
	  .help = "Registries, and the servers they refer to, that may have an address that "
		  "is not public (loopback, a private network): HOST or HOST:PORT. A backend "
		  "that pulls images by itself pulls from these and from docker.io" },

	{ .name = "tls.cert",
	  .type = TYPE_PATH,
	  .value = "",
	  .example = "/etc/warren/cert.pem",
	  .field = FIELD(tls_cert),
	  .help = "The certificate and its chain, as PEM" },
	{ .name = "tls.key",
	  .type = TYPE_PATH,
	  .value = "",
	  .example = "/etc/warren/key.pem",
	  .field = FIELD(tls_key),
	  .help = "The certificate's key, as PEM" },

	{ .name = "log.format",
	  .type = TYPE_CHOICE,
	  .value = "auto",
	  .choices = log_formats,
	  .field = FIELD(log_format),
	  .help = "How it is written; auto is text on a terminal and JSON elsewhere" },
	{ .name = "log.level",
	  .type = TYPE_CHOICE,
	  .value = "info",
	  .choices = log_levels,
	  .field = FIELD(log_level),
	  .help = "The least important thing that is said" },

	{ .name = "defaults.memory",
	  .type = TYPE_SIZE,
	  .value = "512m",
	  .min = MIB,
	  .max = 1024 * TIB,
	  .field = FIELD(defaults.memory),
	  .help = "Memory" },
	{ .name = "defaults.cpus",
	  .type = TYPE_CPUS,
	  .value = "1",
	  .min = 10,
	  .field = FIELD(defaults.cpu_millis),
	  .help = "Processors" },
	{ .name = "defaults.pids",
	  .type = TYPE_NUMBER,
	  .value = "1024",
	  .min = 1,
	  .max = 4194304,
	  .field = FIELD(defaults.pids),
	  .help = "Processes and threads" },
	{ .name = "defaults.disk",
	  .type = TYPE_SIZE,
	  .value = "256m",
	  .min = MIB,
	  .max = 1024 * TIB,
	  .field = FIELD(defaults.disk),
	  .help = "What writes to its root filesystem may take. More than the memory is kept "
		  "in a file, which takes longer to make" },
	{ .name = "defaults.nofile",
	  .type = TYPE_NUMBER,
	  .value = "1024",
	  .min = 4,
	  .max = 1048576,
	  .field = FIELD(defaults.nofile),
	  .help = "Open files of each process" },
	{ .name = "defaults.ttl",
	  .type = TYPE_DURATION,
	  .value = "none",
	  .min = SECOND,
	  .max = YEAR,
	  .none = true,
	  .field = FIELD(defaults.ttl_ms),
	  .help = "It is deleted when it is this old" },
	{ .name = "defaults.idle_timeout",
	  .type = TYPE_DURATION,
	  .value = "none",
	  .min = SECOND,
	  .max = YEAR,
	  .none = true,
	  .field = FIELD(defaults.idle_timeout_ms),
	  .help = "It is idle when nobody has used it for so long" },

	{ .name = "max.memory",
	  .type = TYPE_SIZE,
	  .value = "none",
	  .min = MIB,
	  .max = 1024 * TIB,
	  .none = true,
	  .field = FIELD(max.memory),
	  .help = "Memory" },
	{ .name = "max.cpus",
	  .type = TYPE_CPUS,
	  .value = "none",
	  .min = 10,
	  .none = true,
	  .field = FIELD(max.cpu_millis),
	  .help = "Processors" },
	{ .name = "max.pids",
	  .type = TYPE_NUMBER,
	  .value = "32768",
	  .min = 1,
	  .max = 4194304,
	  .field = FIELD(max.pids),
	  .help = "Processes and threads" },
	{ .name = "max.disk",
	  .type = TYPE_SIZE,
	  .value = "none",
	  .min = MIB,
	  .max = 1024 * TIB,
	  .none = true,
	  .field = FIELD(max.disk),
	  .help = "What writes to its root filesystem may take" },
	{ .name = "max.nofile",
	  .type = TYPE_NUMBER,
	  .value = "65536",
	  .min = 4,
	  .max = 1048576,
	  .field = FIELD(max.nofile),
	  .help = "Open files of each process" },
	{ .name = "max.sandboxes",
	  .type = TYPE_NUMBER,
	  .value = "10000",
	  .min = 1,
	  .none = true,
	  .field = FIELD(max_sandboxes),
	  .help = "Sandboxes on this machine, of all tenants and backends together" },
	{ .name = "max.ttl",
	  .type = TYPE_DURATION,
	  .value = "none",
	  .min = SECOND,
	  .max = YEAR,
	  .none = true,
	  .field = FIELD(max.ttl_ms),
	  .help = "How old it may become; unless it is none, no sandbox lives for ever" },

	{ .name = "quota.sandboxes",
	  .type = TYPE_NUMBER,
	  .value = "none",
	  .min = 1,
	  .none = true,
	  .field = FIELD(quota_sandboxes),
	  .help = "Sandboxes" },
	{ .name = "quota.execs",
	  .type = TYPE_NUMBER,
	  .value = "none",
	  .min = 1,
	  .none = true,
	  .field = FIELD(quota_execs),
	  .help = "Execs that run; one sandbox has at most 512 in any case" },
	{ .name = "quota.memory",
	  .type = TYPE_SIZE,
	  .value = "none",
	  .min = MIB,
	  .none = true,
	  .field = FIELD(quota_memory),
	  .help = "Memory, by the limits of its sandboxes" },
	{ .name = "quota.cpus",
	  .type = TYPE_CPUS,
	  .value = "none",
	  .min = 10,
	  .none = true,
	  .field = FIELD(quota_cpu_millis),
	  .help = "Processors, by the limits of its sandboxes" },
	{ .name = "quota.disk",
	  .type = TYPE_SIZE,
	  .value = "none",
	  .min = MIB,
	  .none = true,
	  .field = FIELD(quota_disk),
	  .help = "Disk, by the limits of its sandboxes" },

	{ .name = "pool.min",
	  .type = TYPE_NUMBER,
	  .value = "16",
	  .max = 1024,
	  .field = FIELD(pool_min),
	  .help = "How many are ready when nobody has asked for long" },
	{ .name = "pool.max",
	  .type = TYPE_NUMBER,
	  .value = "512",
	  .max = 1024,
	  .field = FIELD(pool_max),
	  .help = "The most that are ever ready; each takes about half a megabyte. 0: "
		  "none, every sandbox is made from nothing" },
	{ .name = "journal.default",
	  .type = TYPE_SIZE,
	  .value = "1m",
	  .min = 4 * KIB,
	  .max = TIB,
	  .field = FIELD(journal_default),
	  .help = "Of an exec that asks for nothing else; the oldest goes first" },
	{ .name = "journal.max",
	  .type = TYPE_SIZE,
	  .value = "256m",
	  .min = 4 * KIB,
	  .max = TIB,
	  .field = FIELD(journal_max),
	  .help = "The most that one exec may ask for" },
	{ .name = "journal.total",
	  .type = TYPE_SIZE,
	  .value = "512m",
	  .min = 128 * KIB,
	  .max = TIB,
	  .field = FIELD(journal_total),
	  .help = "The most that all execs of a sandbox may have together. For a new one the "
		  "oldest that ended are forgotten; without room then it is refused" },
	{ .name = "journal.all",
	  .type = TYPE_SIZE,
	  .value = "none",
	  .min = MIB,
	  .max = 1024 * TIB,
	  .none = true,
	  .field = FIELD(journal_all),
	  .help = "The most that all sandboxes may have together, shared among tenants. "
		  "none: half of what the disk has for them" },
	{ .name = "journal.execs",
	  .type = TYPE_NUMBER,
	  .value = "1000",
	  .min = 1,
	  .max = 1000000,
	  .field = FIELD(execs_kept),
	  .help = "How many execs that ended are remembered of each sandbox" },

	{ .name = "request.body",
	  .type = TYPE_SIZE,
	  .value = "4m",
	  .min = 4 * KIB,
	  .max = 1024 * MIB,
	  .field = FIELD(request_body),
	  .help = "The largest body that is not a file" },
	{ .name = "request.header",
	  .type = TYPE_SIZE,
	  .value = "32k",
	  .min = KIB,
	  .max = MIB,
	  .field = FIELD(request_header),
	  .help = "The largest header" },
	{ .name = "request.connections",
	  .type = TYPE_NUMBER,
	  .value = "16384",
	  .min = 1,
	  .max = 1000000,
	  .field = FIELD(request_connections),
	  .help = "Connections at a time" },
	{ .name = "request.sessions",
	  .type = TYPE_NUMBER,
	  .value = "64",
	  .min = 1,
	  .max = 4096,
	  .field = FIELD(sessions_max),
	  .help = "Sessions at a time in one sandbox" },
	{ .name = "request.header_timeout",
	  .type = TYPE_DURATION,
	  .value = "10s",
	  .min = 100,
	  .max = HOUR,
	  .field = FIELD(request_header_ms),
	  .help = "How long a header may take" },
	{ .name = "request.body_timeout",
	  .type = TYPE_DURATION,
	  .value = "30s",
	  .min = 100,
	  .max = HOUR,
	  .field = FIELD(request_body_ms),
	  .help = "How long a body may pause" },
	{ .name = "request.idle_timeout",
	  .type = TYPE_DURATION,
	  .value = "75s",
	  .min = 100,
	  .max = 24 * HOUR,
	  .field = FIELD(request_idle_ms),
	  .help = "How long a connection may be silent between requests" },
	{ .name = "request.write_timeout",
	  .type = TYPE_DURATION,
	  .value = "60s",
	  .min = 100,
	  .max = 24 * HOUR,
	  .field = FIELD(request_write_ms),
	  .help = "How long a client may take nothing of what it is sent" },
};
const size_t config_n_keys = ARRAY_SIZE(config_keys);

_Static_assert(ARRAY_SIZE(config_keys) <= CONFIG_KEYS_MAX, "more keys than bits");

static const struct {
	const char *name, *form;
} types[] = {
	[TYPE_BOOL] = { "bool", "true or false" },
	[TYPE_NUMBER] = { "number", "a whole number" },
	[TYPE_SIZE] = { "size", "a size, as 64k, 512m, 1.5g" },
	[TYPE_DURATION] = { "duration", "a duration, as 500ms, 30s, 5m, 2h" },
	[TYPE_CPUS] = { "processors", "a number of processors, as 2 or 0.5" },
	[TYPE_CHOICE] = { "word", "one of several words" },
	[TYPE_TEXT] = { "text", "a text" },
	[TYPE_PATH] = { "path", "an absolute path" },
	[TYPE_LIST] = { "text", "a list of texts" },
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
