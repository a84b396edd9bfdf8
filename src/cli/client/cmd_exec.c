/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_exec.c - warren exec: run a command in a sandbox */
#include <stddef.h>

#include "cli/client/commands.h"
#include "cli/client/exec.h"
#include "cli/common_options.h"
#include "cli/values.h"

#define FIELD(name) offsetof(struct exec_options, name)

#define EXEC_LIMIT(...) \
	OPT_LIVE_LIMIT("Limits, at most those of the sandbox", FIELD(limits), __VA_ARGS__)

/* clang-format off */
static const struct opt exec_table[] = {
	{ "Command", OPT_ENV(FIELD(env)) },
	{ NULL, OPT_ENV_FILE(FIELD(env_file)) },
	{ NULL, OPT_WORKDIR("working directory (default: the sandbox's)", FIELD(workdir)) },
	{ NULL, OPT_USER("user name, uid or uid:gid (default: the sandbox's)",
		FIELD(user)) },
	{ NULL, OPT_INTERACTIVE(FIELD(interactive)) },
	{ NULL, OPT_TTY(FIELD(tty)) },
	{ NULL, "detach", 'd', NULL, NULL,
	  "run in the background and print its id",
	  opt_flag, FIELD(detach) },
	{ NULL, OPT_UNDOABLE(FIELD(undoable)) },

	SPEC_LIMITS(EXEC_LIMIT)
	{ NULL, OPT_TIMEOUT("kill the command after this time, status 124", FIELD(timeout_ms)) },
	{ NULL, "output-limit", 0, "SIZE", "4m",
	  "how much output to keep (default: 1m)",
	  value_size, FIELD(output_limit) },

	{ "Output", OPT_JSON("print the result with its output as one JSON object",
		FIELD(json)) },
	{ NULL, OPT_QUIET("print no messages of Warren except errors", FIELD(quiet)) },
};
/* clang-format on */

static const struct opt_conflict exec_conflicts[] = {
	{ "json", "tty", "a terminal mixes the streams that --json reports separately" },
	{ "detach", "interactive", "a background command has no terminal" },
};

static const struct opts exec_opts = {
	.table = exec_table,
	.n = ARRAY_SIZE(exec_table),
	.conflicts = exec_conflicts,
	.n_conflicts = ARRAY_SIZE(exec_conflicts),
	.operands = "SANDBOX [--] CMD [ARG...]",
	.example = "warren exec -it k3f9x2m7qd1w -- bash",
};

static int run_exec(int argc, char **argv)
{
	struct exec_options o = { .command = &client_exec };
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_CLIENT struct client *c = NULL;
	char id[ID_LEN + 1];
	const char *name = NULL;
	char **words = NULL;
	int status = 0;

	if (!command_in_sandbox(&client_exec, argc, argv, &o, &name, &words, &status)) {
		exec_options_done(&o);
		return status;
	}
	if (exec_options_finish(&o, &err) < 0 || client_open(&c, &err) < 0 ||
	    resolve_id_find_sandbox(c, name, id, &err) < 0)
		status = client_fail(&client_exec, &err);
	else
		status = exec_run(c, id, &o, words, (size_t)(argv + argc - words));
	exec_options_done(&o);
	return status;
}

const struct command client_exec = {
	.name = "exec",
	.summary = "Run a command in a sandbox.",
	.about =
		"Exit status: the command's own; 124 after a timeout, 125 when Warren failed,\n"
		"126 when the command cannot be executed, 127 when it does not exist, 128+N when\n"
		"signal N ended it.\n",
	.opts = &exec_opts,
	.run = run_exec,
	.complete = complete_sandbox,
};
