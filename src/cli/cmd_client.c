/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_client.c - the commands of the service: handed over to the programs that have the
 * libraries for them
 *
 * Only what the list of commands shows is known here; the rest, help included,
 * is theirs.
 */
#include "cli/cli.h"

#define CLIENT  "warren-client"
#define SERVICE "warren-serve"

#define HANDED(word, by, says)                                          \
	const struct command command_##word = {                         \
		.name = #word,                                          \
		.summary = (says),                                      \
		.opts = &(const struct opts){ .operands = "[ARG...]" }, \
		.program = (by)                                         \
	}

HANDED(serve, SERVICE, "Offer sandboxes as a service on this machine.");
HANDED(backends, CLIENT, "Show where sandboxes can run, and what each backend can do.");
HANDED(create, CLIENT, "Make a sandbox that stays, and print its id.");
HANDED(ls, CLIENT, "List sandboxes, or what was run in one.");
HANDED(show, CLIENT, "Show a sandbox, and what is enforced in it.");
HANDED(exec, CLIENT, "Run a command in a sandbox.");
HANDED(shell, CLIENT, "A terminal in a sandbox, or in a new one.");
HANDED(session, CLIENT, "Run commands in a shell that keeps its state.");
HANDED(cp, CLIENT, "Copy files and trees into a sandbox, or out of it.");
HANDED(logs, CLIENT, "Show the output of a command in a sandbox.");
HANDED(top, CLIENT, "Show what sandboxes use, once a second.");
HANDED(events, CLIENT, "Follow what happens, a line each.");
HANDED(pause, CLIENT, "Stop all processes of a sandbox where they are.");
HANDED(resume, CLIENT, "Let a paused sandbox go on.");
HANDED(rm, CLIENT, "Delete sandboxes, with all that runs in them.");
HANDED(wait, CLIENT, "Wait for a sandbox, or for a command in it.");
HANDED(port, CLIENT, "Reach a server in a sandbox from here.");
HANDED(token, CLIENT, "Make, list and revoke tokens.");
