/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_shell.c - warren shell: a terminal in a new or an existing sandbox */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "cli/client/commands.h"
#include "cli/client/exec.h"
#include "cli/client/spec.h"
#include "cli/client/volumes.h"
#include "cli/common_options.h"

struct shell_options {
	struct exec_options exec;
	struct run_options sandbox; /* options of a new sandbox */
	const char *name;
	const char *shell;
	bool keep;
};

#define FIELD(name) offsetof(struct shell_options, name)

/* clang-format off */
static const struct opt shell_table[] = {
	{ "Shell", OPT_SHELL(FIELD(shell)) },
	{ NULL, OPT_ENV(FIELD(exec.env)) },
	{ NULL, OPT_WORKDIR("working directory (default: the sandbox's)",
		FIELD(exec.workdir)) },
	{ NULL, OPT_USER("user name, uid or uid:gid (default: the sandbox's)",
		FIELD(exec.user)) },

	{ "A new sandbox", OPT_IMAGE("python:3.12",
		"host, or a reference: python:3.12 (default: the service's)",
		FIELD(sandbox.image)) },
	{ NULL, OPT_NAME("name of the sandbox, accepted wherever its id is", FIELD(name)) },
	{ NULL, "memory", 'm', "SIZE", "512m",
	  "maximum memory; no swap",
	  value_limit_memory, FIELD(sandbox.limits[SPEC_MEMORY]) },
	{ NULL, "cpus", 0, "N", "1.5",
	  "maximum number of processors",
	  value_limit_cpu_millis, FIELD(sandbox.limits[SPEC_CPU]) },
	{ NULL, "keep", 0, NULL, NULL,
	  "do not delete the new sandbox afterwards",
	  opt_flag, FIELD(keep) },
};
/* clang-format on */

static const struct opts shell_opts = {
	.table = shell_table,
	.n = ARRAY_SIZE(shell_table),
	.operands = "[SANDBOX]",
	.example = "warren shell --image python:3.12",
	.mixed = true,
};

/* Run the shell that was named, or the best one in the image. */
static int shell_run_in(struct client *c, const char *id, const struct shell_options *o)
{
	static const char *const shells[] = { "bash", "sh" };
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_result result;
	int status = STATUS_FAILED, r = -ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(shells); i++) {
		char *argv[] = { (char *)(uintptr_t)(o->shell ? o->shell : shells[i]),
				 NULL };

		r = exec_start_and_attach(c, id, &o->exec, argv, 1, &result, &status,
					  &err);
		if (r == 0 || o->shell || status != STATUS_NOT_FOUND)
			break;
	}
	if (r < 0)
		client_say(&client_shell, &err);
	return status;
}

static int run_in_new(struct client *c, const struct shell_options *o)
{
	AUTO_JSON json_t *spec = spec_json(&o->sandbox);
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_JSON json_t *sandbox = NULL;
	int status;

	spec_put_text(spec, "name", o->name);
	if (volumes_ensure(c, client_shell.name, &o->sandbox.mounts, &err) < 0 ||
	    make_passing_sandbox(c, spec, &sandbox, &err) < 0)
		return client_fail(&client_shell, &err);
	status = shell_run_in(c, print_text_of(sandbox, "id"), o);
	if (o->keep)
		message_say(client_shell.name, "the sandbox is %s",
			    print_text_of(sandbox, "id"));
	else if (delete_sandbox(c, print_text_of(sandbox, "id"), &err) < 0)
		return client_fail(&client_shell, &err);
	return status;
}

static int client_cmd_shell(const struct shell_options *o, const char *word)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_CLIENT struct client *c = NULL;
	char id[ID_LEN + 1];

	if (word && (o->sandbox.image || o->name || o->keep ||
		     o->sandbox.limits[SPEC_MEMORY] || o->sandbox.limits[SPEC_CPU])) {
		message_say(client_shell.name,
			    "'%.100s' already exists: --image, --name, --memory, --cpus "
			    "and --keep apply to a new sandbox (example: %s)",
			    word, shell_opts.example);
		return STATUS_FAILED;
	}
	if (client_open(&c, &err) < 0 ||
	    (word && resolve_id_find_sandbox(c, word, id, &err) < 0))
		return client_fail(&client_shell, &err);
	return word ? shell_run_in(c, id, o) : run_in_new(c, o);
}

static int run_shell(int argc, char **argv)
{
	struct shell_options o = {
		.exec = { .command = &client_shell, .interactive = true, .tty = true }
	};
	struct warren_error err = WARREN_ERROR_INIT;
	char **words = NULL;
	int status = 0;

	if (command_operands(&client_shell, argc, argv, &o, 0, 1, &words, &status)) {
		/* If commands are piped into the shell, there is no terminal. */
		o.exec.tty = isatty(STDIN_FILENO);
		if (exec_options_finish(&o.exec, &err) < 0)
			status = client_fail(&client_shell, &err);
		else
			status = client_cmd_shell(&o, *words);
	}
	exec_options_done(&o.exec);
	run_options_done(&o.sandbox);
	return status;
}

const struct command client_shell = {
	.name = "shell",
	.summary = "Open a terminal in a sandbox, or in a new one.",
	.about = "A new sandbox is deleted after its shell, unless --keep is given.\n",
	.opts = &shell_opts,
	.run = run_shell,
	.complete = complete_sandbox,
};
