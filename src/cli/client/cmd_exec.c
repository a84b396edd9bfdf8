/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_exec.c - warren exec: a command in a sandbox that is there */
#include <stddef.h>

#include "cli/client/commands.h"
#include "cli/client/exec.h"
#include "cli/values.h"

#define FIELD(name) offsetof(struct exec_options, name)

/* clang-format off */
static const struct opt exec_table[] = {
	{ "Command", "env", 'e', "NAME[=VALUE]", "DEBUG=1",
	  "a variable; without a value: the caller's",
	  value_env, FIELD(env) },
	{ NULL, "env-file", 0, "FILE", "./settings.env",
	  "variables, one on a line",
	  value_env_file, FIELD(env_file) },
	{ NULL, "workdir", 'w', "DIR", "/work",
	  "where it starts (default: the sandbox's)",
	  value_workdir, FIELD(workdir) },
	{ NULL, "user", 'u', "USER", "1000:1000",
	  "a name, uid or uid:gid (default: the sandbox's)",
	  value_user, FIELD(user) },
	{ NULL, "interactive", 'i', NULL, NULL,
	  "pass stdin on (else it is /dev/null)",
	  opt_flag, FIELD(interactive) },
	{ NULL, "tty", 't', NULL, NULL,
	  "give it a terminal",
	  opt_flag, FIELD(tty) },
	{ NULL, "detach", 'd', NULL, NULL,
	  "print its id, and let it run on alone",
	  opt_flag, FIELD(detach) },

	{ "Limits, within the sandbox's", "memory", 'm', "SIZE", "512m",
	  "memory, without swap",
	  value_size, FIELD(memory) },
	{ NULL, "cpus", 0, "N", "1.5",
	  "processors",
	  opt_cpus, FIELD(cpu_millis) },
	{ NULL, "pids", 0, "N", "100",
	  "processes and threads",
	  value_pids, FIELD(pids) },
	{ NULL, "timeout", 0, "DURATION", "30s",
	  "then all of it is killed, status 124",
	  opt_duration, FIELD(timeout_ms) },
	{ NULL, "output-limit", 0, "SIZE", "4m",
	  "how much output is kept (default: 1m)",
	  value_size, FIELD(output_limit) },

	{ "Output", "json", 0, NULL, NULL,
	  "the result, output included, as one JSON object",
	  opt_flag, FIELD(json) },
	{ NULL, "quiet", 'q', NULL, NULL,
	  "nothing from Warren itself but errors",
	  opt_flag, FIELD(quiet) },
};
/* clang-format on */

static const struct opt_conflict exec_conflicts[] = {
	{ "json", "tty", "a terminal mixes the streams that --json reports apart" },
	{ "detach", "interactive", "nobody is there to type" },
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
	struct exec_options o = { .command = client_exec.name };
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
	    find_sandbox(c, name, id, &err) < 0)
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
		"126 when the command cannot be executed, 127 when there is none, 128+N when\n"
		"signal N ended it.\n",
	.opts = &exec_opts,
	.run = run_exec,
	.complete = complete_sandbox,
};
