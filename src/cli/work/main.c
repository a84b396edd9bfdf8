/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - warren-work: the commands of warren(1) that work on a project */
#include <signal.h>
#include <string.h>

#include "cli/work/commands.h"

#define WORK_LISTED(word, says) &work_##word,

/* clang-format off */
static const struct command *const commands[] = {
	WORK_COMMANDS(WORK_LISTED)
	NULL,
};
/* clang-format on */

/* `warren` runs this program with the words of a command: argv[0] is its name. */
int main(int argc, char **argv)
{
	const struct command *cmd;

	if (argc < 1 || hold_standard_fds() < 0)
		return STATUS_FAILED;
	(void)signal(SIGPIPE, SIG_IGN); /* EPIPE reports the same */
	if (argc > 1 && strcmp(argv[0], COMPLETE_WORD) == 0)
		return complete_words(commands, argc - 1, argv + 1);
	cmd = command_among(commands, argv[0], NULL);
	if (!cmd) {
		message_say(NULL, "this program is part of warren(1): run that instead");
		return STATUS_FAILED;
	}
	return cmd->run(argc, argv);
}
