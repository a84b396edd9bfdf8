/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - warren-work: the commands of warren(1) that work on a project */
#include <signal.h>
#include <string.h>

#include "cli/work/commands.h"
#include "cli/work/request.h"

#define WORK_LISTED(word, says) &work_##word,

/* clang-format off */
static const struct command *const commands[] = {
	WORK_COMMANDS(WORK_LISTED)
	NULL,
};
/* clang-format on */

int main(int argc, char **argv)
{
	if (argc > 0 && strcmp(argv[0], REQUEST_WORD) == 0) {
		(void)signal(SIGPIPE, SIG_IGN); /* EPIPE reports the same */
		return hold_standard_fds() < 0 ? STATUS_FAILED : request_main(argc, argv);
	}
	return command_helper_main(commands, argc, argv);
}
