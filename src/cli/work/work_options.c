/* SPDX-License-Identifier: Apache-2.0 */
/* work_options.c - the table of the options of `warren work`, and checks between them */
#include "cli/work/work_options.h"

#include <errno.h>
#include <stddef.h>

#include "base/macro.h"
#include "base/strv.h"
#include "cli/common_options.h"

#define FIELD(name) offsetof(struct work_cli_options, name)

static int work_set_mode(void *field, const char *value, struct warren_error *err)
{
	return work_mode_parse(value, field, err);
}

int work_set_hide(void *field, const char *value, struct warren_error *err)
{
	return strv_add(field, value) < 0 ? error_errno(err, ENOMEM, "'%s'", value) : 0;
}

#define WORK_LIMIT(...) OPT_LIMIT("Limits", FIELD(run.limits), __VA_ARGS__)

/* clang-format off */
static const struct opt work_table[] = {
	{ "Project", "mode", 0, "MODE", "copy",
	  "overlay (the default), copy, or bind: change the project itself",
	  work_set_mode, FIELD(mode) },
	{ NULL, OPT_WORKDIR("path of the project in the sandbox (default: its own path)",
		FIELD(run.workdir)) },
	{ NULL, "hide", 0, "PATTERN", "'*.pem'",
	  "hide more files than those with secrets; '!PATTERN' shows files",
	  work_set_hide, FIELD(hide) },

	{ NULL, "no-setup", 0, NULL, NULL,
	  "do not prepare the project (see 'warren detect')",
	  opt_flag, FIELD(no_setup) },
	{ NULL, "yes", 'y', NULL, NULL,
	  "approve setup.sh, 'make setup' and postStartCommand without asking",
	  opt_flag, FIELD(yes) },

	{ "Changes", OPT_NAME("name of the work", FIELD(run.name)) },
	{ NULL, "sync", 0, NULL, NULL,
	  "accept all changes at the end, without questions",
	  opt_flag, FIELD(sync) },
	{ NULL, "no-sync", 0, NULL, NULL,
	  "discard all changes at the end",
	  opt_flag, FIELD(no_sync) },
	{ NULL, "keep", 0, NULL, NULL,
	  "keep all changes at the end, to decide later",
	  opt_flag, FIELD(keep) },
	{ NULL, "resume", 0, "WORK", "k3f9x2m7qd1w",
	  "continue a work, by its id or name",
	  opt_text, FIELD(resume) },
	{ NULL, "list", 0, NULL, NULL,
	  "list the works, and exit",
	  opt_flag, FIELD(list) },
	{ NULL, OPT_JSON("with --list: print each work as a JSON object", FIELD(json)) },
	{ NULL, "remove", 0, "WORK...", "k3f9x2m7qd1w",
	  "discard works with all their changes, print their ids, and exit",
	  opt_text, FIELD(remove) },

	{ "Computer", OPT_IMAGE("python:3.12",
		"host (the default), dir:PATH, or a reference: python:3.12",
		FIELD(run.image)) },
	{ NULL, OPT_PULL(FIELD(run.pull)) },
	{ NULL, OPT_NETWORK(FIELD(run.network.mode)) },
	{ NULL, OPT_ALLOW(FIELD(run.network.rules)) },
	{ NULL, OPT_DENY(FIELD(run.network.rules)) },
	{ NULL, OPT_VOLUME("./data:/data:ro", "mount a host file or directory at DST",
		FIELD(run.mounts)) },
	{ NULL, OPT_TMPFS(FIELD(run.mounts)) },

	{ "Command", OPT_ENV(FIELD(run.env_option)) },
	{ NULL, OPT_ENV_FILE(FIELD(run.env_file)) },
	{ NULL, OPT_USER("user name, uid or uid:gid (default: the image's, or root)",
		FIELD(run.user)) },

	SPEC_LIMITS(WORK_LIMIT)
	{ NULL, OPT_TIMEOUT("kill the command after this time, status 124",
		FIELD(run.timeout_ms)) },

	{ "Output", OPT_QUIET("print no messages of Warren except errors", FIELD(run.quiet)) },
	{ NULL, "verbose", 0, NULL, NULL,
	  "show what is enforced, and the names of hidden files",
	  opt_flag, FIELD(run.verbose) },
};

static const struct opt_conflict work_conflicts[] = {
	{ "quiet", "verbose", "one asks for less, the other for more" },
	{ "sync", "no-sync", "one accepts the changes, the other discards them" },
	{ "sync", "keep", "one accepts the changes, the other keeps them" },
	{ "no-sync", "keep", "one discards the changes, the other keeps them" },
	{ "resume", "name", "the work already has a name" },
	{ "resume", "mode", "the work already has a mode" },
	{ "resume", "workdir", "the project already has a path in the sandbox" },
	{ "resume", "hide", "the work already has its hidden files" },
	{ "yes", "no-setup", "one runs the setup, the other skips it" },
	{ "list", "resume", "one only lists works" },
	{ "list", "remove", "one only lists works" },
	{ "remove", "resume", "one discards the work, the other continues it" },
};
/* clang-format on */

const struct opts work_opts = {
	.table = work_table,
	.n = ARRAY_SIZE(work_table),
	.conflicts = work_conflicts,
	.n_conflicts = ARRAY_SIZE(work_conflicts),
	.operands = "[PATH] [-- CMD [ARG...]]",
	.example = "warren work ./project -- make test",
};

int work_options_check(struct work_cli_options *o, struct warren_error *err)
{
	bool decides = o->sync || o->no_sync || o->keep;

	if (o->json)
		return error_set(err, EINVAL, "--json is for --list");
	if (o->mode == WORK_BIND && (decides || o->run.name || o->hide))
		return error_set(
			err, EINVAL,
			"--%s: with --mode bind, the project itself changes, and "
			"nothing is hidden or left to decide",
			o->sync      ? "sync"
			: o->no_sync ? "no-sync"
			: o->keep    ? "keep"
			: o->hide    ? "hide"
				     : "name");
	return 0;
}

void work_options_done(struct work_cli_options *o)
{
	o->hide = strv_free(o->hide);
	run_options_done(&o->run);
}
