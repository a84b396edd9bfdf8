/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_help.c - warren help: what the tables say, for one command or for all */
#include <string.h>

#include "cli/cli.h"
#include "cli/helper.h"

#define HELP_MAX (64U << 10)

int help_all(void)
{
	AUTO_BUF struct buf out = BUF_INIT(HELP_MAX);

	buf_printf(
		&out,
		"Usage: warren %s\n\nComputers of their own for commands: isolated, disposable, "
		"cheap.\n\nCommands:\n",
		main_opts.operands);
	for (const struct command *const *c = commands; *c; c++)
		buf_printf(&out, "  %-10s %s\n", (*c)->name, (*c)->summary);
	opts_list(&main_opts, &out);
	buf_printf(&out, "\n'warren help COMMAND' says more of one.\n\nExample: %s\n",
		   main_opts.example);
	return print(NULL, &out);
}

/* "image pull" as "image pull --help" */
static int help_elsewhere(const struct command *cmd, int argc, char **argv)
{
	char help[] = "--help";
	char *asked[] = { argv[0], argc > 1 ? argv[1] : help, argc > 1 ? help : NULL,
			  NULL };

	if (argc > 2) {
		say("help", "one command at a time (example: %s)",
		    command_help.opts->example);
		return STATUS_FAILED;
	}
	return helper_run(cmd, asked);
}

static int run_help(int argc, char **argv)
{
	const struct command *cmd;
	int first = 0, status = 0;

	if (!command_options(&command_help, argc, argv, NULL, &first, &status))
		return status;
	if (first == argc)
		return help_all();
	cmd = command_find(argv[first]);
	if (!cmd)
		return STATUS_FAILED;
	if (cmd->program)
		return help_elsewhere(cmd, argc - first, argv + first);
	if (argc - first > 1) {
		say("help", "one command at a time (example: %s)",
		    command_help.opts->example);
		return STATUS_FAILED;
	}
	return help_command(cmd);
}

static void complete_help(int at, struct buf *out)
{
	for (const struct command *const *c = commands; at == 0 && *c; c++)
		buf_printf(out, "%s\t%s\n", (*c)->name, (*c)->summary);
}

const struct command command_help = {
	.name = "help",
	.summary = "Show how a command is used.",
	.opts = &(const struct opts){ .operands = "[COMMAND]",
				      .example = "warren help run" },
	.run = run_help,
	.complete = complete_help,
};
