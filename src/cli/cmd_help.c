/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_help.c - warren help: show help for one command or for all, from the tables */
#include <string.h>

#include "cli/cli.h"
#include "cli/exec_helper.h"

/* Pass "image pull" as "image --help pull", so that an unknown verb is reported. */
static int help_elsewhere(const struct command *cmd, char **argv)
{
	char help[] = "--help";
	char *asked[] = { argv[0], help, argv[1], NULL };

	return helper_run(cmd, asked);
}

static int run_help(int argc, char **argv)
{
	const struct command *cmd;
	char **words = NULL;
	int status = 0;

	if (!command_operands(&command_help, argc, argv, NULL, 0, 2, &words, &status))
		return status;
	if (!words[0])
		return help_command(&command_warren);
	cmd = command_verb(&command_warren, words[0]);
	if (!cmd)
		return STATUS_FAILED;
	if (cmd->program)
		return help_elsewhere(cmd, words);
	if (words[1]) {
		message_say("help", "'warren %s' has no subcommands (example: %s)",
			    cmd->name, command_help.opts->example);
		return STATUS_FAILED;
	}
	return help_command(cmd);
}

static void complete_help(int at, struct buf *out)
{
	for (const struct command *const *c = command_warren.verbs; at == 0 && *c; c++)
		buf_printf(out, "%s\t%s\n", (*c)->name, (*c)->summary);
}

const struct command command_help = {
	.name = "help",
	.summary = "Show help for a command.",
	.opts = &(const struct opts){ .operands = "[COMMAND [COMMAND]]",
				      .example = "warren help run" },
	.run = run_help,
	.complete = complete_help,
};
