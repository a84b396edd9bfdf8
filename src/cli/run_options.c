/* SPDX-License-Identifier: Apache-2.0 */
/* run_options.c - the options of `warren run`: the table, and what no single option can tell */
#include "cli/run_options.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/macro.h"
#include "cli/values.h"

#define FIELD(name) offsetof(struct run_options, name)

/* clang-format off */
static const struct opt run_table[] = {
	{ "Computer", "image", 0, "IMAGE", "dir:./rootfs",
	  "host (the default), dir:PATH, or a reference: python:3.12",
	  value_image, FIELD(image) },
	{ NULL, "pull", 0, "WHEN", "always",
	  "missing (the default), always, or never",
	  value_pull, FIELD(pull) },
	{ NULL, "backend", 0, "NAME", "docker",
	  "where it runs (default: native, or the service's)",
	  opt_text, FIELD(backend) },
	{ NULL, "tier", 0, "TIER", "gvisor",
	  "the wall it must have at least: namespace, gvisor",
	  opt_text, FIELD(tier) },
	{ NULL, "daemon", 0, NULL, NULL,
	  "let the service ('warren serve') make it",
	  opt_flag, FIELD(daemon) },
	{ NULL, "platform", 0, "OS/ARCH", "linux/arm64",
	  "of several, which to pull (default: this machine's)",
	  value_platform, FIELD(platform) },
	{ NULL, "hostname", 0, "NAME", "burrow",
	  "its name (default: the sandbox's id)",
	  value_hostname, FIELD(hostname) },
	{ NULL, "network", 0, "MODE", "none",
	  "loopback (the default), or none",
	  value_network, FIELD(network) },
	{ NULL, "read-only", 0, NULL, NULL,
	  "let nothing write to the root",
	  opt_flag, FIELD(read_only) },
	{ NULL, "volume", 'v', "SRC:DST[:ro]", "./data:/data:ro",
	  "show a file or directory of yours at DST",
	  value_volume, FIELD(mounts) },
	{ NULL, "tmpfs", 0, "DST[:size=SIZE]", "/scratch:size=64m",
	  "an empty tmpfs at DST",
	  value_tmpfs, FIELD(mounts) },

	{ "Command", "env", 'e', "NAME[=VALUE]", "DEBUG=1",
	  "a variable; without a value: the caller's",
	  value_env, FIELD(env_option) },
	{ NULL, "env-file", 0, "FILE", "./settings.env",
	  "variables, one on a line",
	  value_env_file, FIELD(env_file) },
	{ NULL, "workdir", 'w', "DIR", "/work",
	  "where it starts (default: the image's, or /)",
	  value_workdir, FIELD(workdir) },
	{ NULL, "user", 'u', "USER", "1000:1000",
	  "a name, uid or uid:gid (default: the image's, or root)",
	  value_user, FIELD(user) },
	{ NULL, "entrypoint", 0, "PROGRAM", "/bin/sh",
	  "in place of the image's own; '' for none",
	  opt_text_or_none, FIELD(entrypoint) },
	{ NULL, "interactive", 'i', NULL, NULL,
	  "pass stdin on (else it is /dev/null)",
	  opt_flag, FIELD(interactive) },
	{ NULL, "tty", 't', NULL, NULL,
	  "give it a terminal",
	  opt_flag, FIELD(tty) },

	{ "Limits", "memory", 'm', "SIZE", "512m",
	  "memory, without swap",
	  value_size, FIELD(memory) },
	{ NULL, "cpus", 0, "N", "1.5",
	  "processors",
	  opt_cpus, FIELD(cpu_millis) },
	{ NULL, "pids", 0, "N", "100",
	  "processes and threads",
	  value_pids, FIELD(pids) },
	{ NULL, "disk", 0, "SIZE", "1g",
	  "what writes to the root may take",
	  value_size, FIELD(disk) },
	{ NULL, "nofile", 0, "N", "1024",
	  "open files of each process",
	  value_nofile, FIELD(nofile) },
	{ NULL, "timeout", 0, "DURATION", "30s",
	  "then all of it is killed, status 124",
	  opt_duration, FIELD(timeout_ms) },

	{ "Output", "json", 0, NULL, NULL,
	  "the result, output included, as one JSON object",
	  opt_flag, FIELD(json) },
	{ NULL, "quiet", 0, NULL, NULL,
	  "nothing from Warren itself but errors",
	  opt_flag, FIELD(quiet) },
	{ NULL, "verbose", 0, NULL, NULL,
	  "what is enforced, and where the time goes",
	  opt_flag, FIELD(verbose) },
};
/* clang-format on */

static const struct opt_conflict run_conflicts[] = {
	{ "quiet", "verbose", "one asks for less, the other for more" },
	{ "json", "tty", "a terminal mixes the streams that --json reports apart" },
};

const struct opts run_opts = {
	.table = run_table,
	.n = ARRAY_SIZE(run_table),
	.conflicts = run_conflicts,
	.n_conflicts = ARRAY_SIZE(run_conflicts),
	.operands = "[--] [CMD [ARG...]]",
	.example = "warren run -m 512m --timeout 30s -- make test",
};

static int check_targets(const struct mount_list *list, struct warren_error *err)
{
	for (size_t i = 1; i < list->n; i++)
		for (size_t j = 0; j < i; j++)
			if (strcmp(list->v[i].target, list->v[j].target) == 0)
				return error_set(
					err, EINVAL,
					"two mounts at '%s': --volume and --tmpfs need a "
					"place each (example: --tmpfs /scratch)",
					list->v[i].target);
	return 0;
}

bool run_options_stored(const struct run_options *o)
{
	return o->image && strcmp(o->image, "host") != 0 &&
	       strncmp(o->image, "dir:", 4) != 0;
}

static int check_pull(const struct run_options *o, struct warren_error *err)
{
	const char *image = o->image ? o->image : "host";

	if (o->platform && o->pull == PULL_NEVER)
		return error_set(
			err, EINVAL,
			"--platform chooses what to pull, and --pull never forbids it");
	if (o->platform && !run_options_stored(o))
		return error_set(
			err, EINVAL,
			"--platform chooses what to pull, and '%s' is not pulled", image);
	if (o->pull == PULL_ALWAYS && !run_options_stored(o))
		return error_set(err, EINVAL, "--pull always: '%s' is not pulled", image);
	return 0;
}

int run_options_finish(struct run_options *o, struct warren_error *err)
{
	const char *term = getenv("TERM");
	int r = check_targets(&o->mounts, err);

	if (r < 0)
		return r;
	r = check_pull(o, err);
	if (r < 0)
		return r;
	if (o->tty && o->interactive && !isatty(STDIN_FILENO))
		return error_set(
			err, ENOTTY,
			"--tty: stdin is not a terminal, leave out -t to pass it on "
			"(example: echo hello | warren run -i -- cat)");
	if (o->tty) {
		r = env_list_add(&o->env, term && *term ? "TERM" : "TERM=xterm", err);
		if (r < 0)
			return r;
	}
	r = env_list_add_all(&o->env, &o->env_file, err);
	return r < 0 ? r : env_list_add_all(&o->env, &o->env_option, err);
}

void run_options_done(struct run_options *o)
{
	free(o->image);
	env_list_done(&o->env);
	env_list_done(&o->env_file);
	env_list_done(&o->env_option);
	mount_list_done(&o->mounts);
}
