/* SPDX-License-Identifier: Apache-2.0 */
/* commands.h - the commands of warren-work; cli/work_commands.h lists them */
#ifndef CLI_WORK_COMMANDS_H
#define CLI_WORK_COMMANDS_H

#include "cli/command.h"
#include "cli/work_commands.h"

#define WORK_DECLARED(word, says) extern const struct command work_##word;
WORK_COMMANDS(WORK_DECLARED)

#endif /* CLI_WORK_COMMANDS_H */
