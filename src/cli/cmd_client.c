/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_client.c - commands that are run by another program, which has their libraries
 *
 * This program knows only the names and summaries of these commands, for the list of
 * commands. The other program contains everything else, including their help.
 */
#include "cli/cli.h"
#include "cli/client_commands.h"
#include "cli/work_commands.h"

#define CLIENT  "warren-client"
#define WORK    "warren-work"
#define SERVICE "warren-serve"

#define HANDED(word, by, says)                                          \
	const struct command command_##word = {                         \
		.name = #word,                                          \
		.summary = (says),                                      \
		.opts = &(const struct opts){ .operands = "[ARG...]" }, \
		.program = (by)                                         \
	}

HANDED(serve, SERVICE, "Run the sandbox service on this machine.");

#define CLIENT_HANDED(word, says) HANDED(word, CLIENT, says);
CLIENT_COMMANDS(CLIENT_HANDED)

#define WORK_HANDED(word, says) HANDED(word, WORK, says);
WORK_COMMANDS(WORK_HANDED)
