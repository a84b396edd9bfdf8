/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_help.c - warren help: what the tables say, for one command or for all */
#include <string.h>

#include "cli/cli.h"

#define HELP_MAX (64U << 10)

int help_command(const struct command *cmd)
{
	AUTO_BUF struct buf out = BUF_INIT(HELP_MAX);

	buf_printf(&out, "Usage: warren %s [OPTIONS]%s%s\n\n%s\n", cmd->name,
		   cmd->opts->operands ? " " : "",
		   cmd->opts->operands ? cmd->opts->operands : "", cmd->summary);
	opts_list(cmd->opts, &out);
	if (cmd->about) {
		buf_puts(&out, "\n");
		buf_puts(&out, cmd->about);
	}
	buf_printf(&out, "\nExample: %s\n", cmd->opts->example);
	return print(cmd->name, &out);
}

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

static int run_help(int argc, char **argv)
{
	const struct command *cmd;
	int first = 0, status = 0;

	if (!command_options(&command_help, argc, argv, NULL, &first, &status))
		return status;
	if (first == argc)
		return help_all();
	if (argc - first > 1) {
		say("help", "one command at a time (example: %s)",
		    command_help.opts->example);
		return STATUS_FAILED;
	}
	cmd = command_find(argv[first]);
	return cmd ? help_command(cmd) : STATUS_FAILED;
}

const struct command command_help = {
	.name = "help",
	.summary = "Show how a command is used.",
	.opts = &(const struct opts){ .operands = "[COMMAND]",
				      .example = "warren help run" },
	.run = run_help,
};
