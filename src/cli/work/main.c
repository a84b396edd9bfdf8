/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - warren-work: the commands of warren(1) that work on a project */
#include "cli/work/commands.h"

#define WORK_LISTED(word, says) &work_##word,

/* clang-format off */
static const struct command *const commands[] = {
	WORK_COMMANDS(WORK_LISTED)
	NULL,
};
/* clang-format on */

int main(int argc, char **argv)
{
	return command_helper_main(commands, argc, argv);
}
