/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_client.c - commands of the service: run by the programs that have the libraries for
 * them
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

HANDED(serve, SERVICE, "Run the sandbox service on this machine.");
HANDED(backends, CLIENT, "Show backends and what each can do.");
HANDED(create, CLIENT, "Create a sandbox and print its id.");
HANDED(ls, CLIENT, "List sandboxes, or the commands run in one.");
HANDED(show, CLIENT, "Show a sandbox and what is enforced in it.");
HANDED(exec, CLIENT, "Run a command in a sandbox.");
HANDED(shell, CLIENT, "Open a terminal in a sandbox, or in a new one.");
HANDED(session, CLIENT, "Run commands in a shell that keeps its state.");
HANDED(cp, CLIENT, "Copy files into or out of a sandbox.");
HANDED(logs, CLIENT, "Show the output of a command in a sandbox.");
HANDED(top, CLIENT, "Show resource usage of sandboxes, live.");
HANDED(events, CLIENT, "Follow events, one on each line.");
HANDED(pause, CLIENT, "Freeze all processes of a sandbox.");
HANDED(resume, CLIENT, "Resume a paused sandbox.");
HANDED(stop, CLIENT, "End all processes of a sandbox, and keep its files.");
HANDED(start, CLIENT, "Start a stopped sandbox and its main command again.");
HANDED(restart, CLIENT, "Stop a sandbox and start it again.");
HANDED(kill, CLIENT, "Kill all processes of a sandbox, or signal its main command.");
HANDED(attach, CLIENT, "Be with the main command of a sandbox: output, input, signals.");
HANDED(rename, CLIENT, "Give a sandbox another name.");
HANDED(rm, CLIENT, "Delete sandboxes with their processes and data.");
HANDED(wait, CLIENT, "Wait for a sandbox, or for a command in it.");
HANDED(port, CLIENT, "Forward a port of a sandbox.");
HANDED(token, CLIENT, "Create, list and revoke tokens.");
