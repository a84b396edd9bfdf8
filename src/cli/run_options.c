/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_options.c - the options of `warren run`: the table, and the checks between options
 */
#include "cli/run_options.h"
#include "cli/common_options.h"
#include "cli/values.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/macro.h"

#define FIELD(name) offsetof(struct run_options, name)

static int run_set_publish(void *field, const char *value, struct warren_error *err)
{
	struct publish_list *list = field;

	if (list->n == PUBLISH_MAX)
		return error_set(err, E2BIG, "at most %d ports", PUBLISH_MAX);
	if (!strchr(value, ':'))
		return error_set(err, EINVAL, "'%s' is not HOST:PORT", value);
	list->v[list->n++] = value;
	return 0;
}

#define RUN_LIMIT(...) OPT_LIMIT("Limits", FIELD(limits), __VA_ARGS__)

/* clang-format off */
static const struct opt run_table[] = {
	{ "Computer", OPT_IMAGE("dir:./rootfs",
		"host (the default), dir:PATH, or a reference: python:3.12",
		FIELD(image)) },
	{ NULL, OPT_PULL(FIELD(pull)) },
	{ NULL, OPT_BACKEND("docker", "backend to run on (default: native, or the service's)",
		FIELD(backend)) },
	{ NULL, OPT_TIER("gvisor", "minimum isolation tier: namespace, gvisor",
		FIELD(tier)) },
	{ NULL, "daemon", 0, NULL, NULL,
	  "create the sandbox through the service ('warren serve')",
	  opt_flag, FIELD(daemon) },
	{ NULL, "detach", 'd', NULL, NULL,
	  "run IMAGE in the background; print the id",
	  opt_flag, FIELD(detach) },
	{ NULL, "rm", 0, NULL, NULL,
	  "remove the sandbox at the end (the default, except with -d)",
	  opt_flag, FIELD(remove) },
	{ NULL, OPT_NAME("name of the sandbox (with -d or --daemon)", FIELD(name)) },
	{ NULL, "publish", 'p', "HOST:PORT", "8080:80",
	  "forward this machine's port HOST (with -d or --daemon)",
	  run_set_publish, FIELD(publish) },
	{ NULL, OPT_PLATFORM(FIELD(platform)) },
	{ NULL, OPT_HOSTNAME("host name inside (default: the sandbox's id)", FIELD(hostname)) },
	{ NULL, OPT_NETWORK(FIELD(network.mode)) },
	{ NULL, OPT_ALLOW(FIELD(network.rules)) },
	{ NULL, OPT_DENY(FIELD(network.rules)) },
	{ NULL, OPT_READ_ONLY(FIELD(read_only)) },
	{ NULL, OPT_VOLUME("./data:/data:ro", "mount a host file or directory at DST",
		FIELD(mounts)) },
	{ NULL, OPT_TMPFS(FIELD(mounts)) },

	{ "Command", OPT_ENV(FIELD(env_option)) },
	{ NULL, OPT_ENV_FILE(FIELD(env_file)) },
	{ NULL, OPT_WORKDIR("working directory (default: the image's, or /)",
		FIELD(workdir)) },
	{ NULL, OPT_USER("user name, uid or uid:gid (default: the image's, or root)",
		FIELD(user)) },
	{ NULL, "entrypoint", 0, "PROGRAM", "/bin/sh",
	  "replace the image's entrypoint; '' for none",
	  opt_text_or_none, FIELD(entrypoint) },
	{ NULL, OPT_INTERACTIVE(FIELD(interactive)) },
	{ NULL, OPT_TTY(FIELD(tty)) },

	SPEC_LIMITS(RUN_LIMIT)
	{ NULL, OPT_TIMEOUT("kill the command after this time, status 124", FIELD(timeout_ms)) },

	{ "Output", OPT_JSON("print the result with its output as one JSON object",
		FIELD(json)) },
	{ NULL, OPT_QUIET("print no messages of Warren except errors", FIELD(quiet)) },
	{ NULL, "verbose", 0, NULL, NULL,
	  "show what is enforced, and the time of each step",
	  opt_flag, FIELD(verbose) },
};
/* clang-format on */

static const struct opt_conflict run_conflicts[] = {
	{ "quiet", "verbose", "one asks for less, the other for more" },
	{ "json", "tty", "a terminal mixes the streams that --json reports separately" },
	{ "detach", "timeout", "a background sandbox cannot have a timeout" },
};

const struct opts run_opts = {
	.table = run_table,
	.n = ARRAY_SIZE(run_table),
	.conflicts = run_conflicts,
	.n_conflicts = ARRAY_SIZE(run_conflicts),
	.operands = "[IMAGE] [--] [CMD [ARG...]]",
	.example = "warren run -m 512m --timeout 30s -- make test",
};

static int check_targets(const struct mount_list *list, struct warren_error *err)
{
	for (size_t i = 1; i < list->n; i++)
		for (size_t j = 0; j < i; j++)
			if (strcmp(list->v[i].target, list->v[j].target) == 0)
				return error_set(
					err, EINVAL,
					"two mounts at '%s': each --volume and --tmpfs needs "
					"its own path (example: --tmpfs /scratch)",
					list->v[i].target);
	return 0;
}

bool run_options_stored(const struct run_options *o)
{
	return o->image && strcmp(o->image, "host") != 0 &&
	       strncmp(o->image, "dir:", 4) != 0;
}

/*
 * Does it look like "python:3.12" or "host.example/tool@sha256:..."? A path does not, nor
 * does a word with characters that a reference cannot contain.
 */
static bool run_is_image(const char *word)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
		"0123456789._-:/@+[]";
	size_t n = strlen(word);

	if (strncmp(word, "dir:", 4) == 0)
		return true;
	return n > 0 && strspn(word, letters) == n && !strchr("./-:@", word[0]) &&
	       strpbrk(word, ":@") && !strchr(":@/", word[n - 1]);
}

int run_options_take_image(struct run_options *o, char **argv, int argc, int *first,
			   struct warren_error *err)
{
	bool dashes = *first > 1 && strcmp(argv[*first - 1], "--") == 0;
	int r;

	if (o->image || dashes || *first >= argc)
		return o->detach && !o->image
			       ? error_set(err, EINVAL,
					   "--detach: IMAGE is missing (example: warren "
					   "run -d python:3.12 sleep 2h)")
			       : 0;
	if (!o->detach && !run_is_image(argv[*first]))
		return 0;
	r = value_image(&o->image, argv[*first], err);
	if (r < 0)
		return error_wrap(err, "IMAGE");
	o->image_is_operand = true;
	(*first)++;
	if (*first < argc && strcmp(argv[*first], "--") == 0)
		(*first)++;
	return 0;
}

bool run_options_service(const struct run_options *o)
{
	return o->daemon || o->detach;
}

static int check_service(const struct run_options *o, struct warren_error *err)
{
	if (run_options_service(o) || (!o->name && !o->publish.n))
		return 0;
	return error_set(err, EINVAL,
			 "--%s needs the service: add --daemon, or -d to run in the "
			 "background",
			 o->name ? "name" : "publish");
}

static int check_pull(const struct run_options *o, struct warren_error *err)
{
	const char *image = o->image ? o->image : "host";

	if (o->platform && o->pull == PULL_NEVER)
		return error_set(
			err, EINVAL,
			"--platform selects what to pull, but --pull never forbids "
			"pulling");
	if (o->platform && !run_options_stored(o))
		return error_set(
			err, EINVAL,
			"--platform selects what to pull, but '%s' is not pulled", image);
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
	if (r == 0)
		r = check_service(o, err);
	if (r == 0)
		r = network_options_check(&o->network, err);
	if (r < 0)
		return r;
	if (o->tty && o->interactive && !o->detach && !isatty(STDIN_FILENO))
		return error_set(
			err, ENOTTY,
			"--tty: stdin is not a terminal; leave out -t to forward it "
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
	network_options_done(&o->network);
}
