/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_commands.h - list of the commands that use the service
 *
 * warren(1) lists them and runs warren-client, which has a `struct command client_<name>`
 * for each. X(name, summary), in the order of the help.
 */
#ifndef CLI_CLIENT_COMMANDS_LIST_H
#define CLI_CLIENT_COMMANDS_LIST_H

/* clang-format off */
#define CLIENT_COMMANDS(X) \
	X(create, "Create a sandbox and print its id.") \
	X(ls, "List sandboxes, or the commands run in one.") \
	X(show, "Show a sandbox and what is enforced in it.") \
	X(exec, "Run a command in a sandbox.") \
	X(shell, "Open a terminal in a sandbox, or in a new one.") \
	X(session, "Run commands in a shell that keeps its state.") \
	X(code, "Run a program once, in a new sandbox.") \
	X(cp, "Copy files into or out of a sandbox.") \
	X(undo, "Restore the files from before the last command.") \
	X(logs, "Show the output of a command in a sandbox.") \
	X(top, "Show resource usage of sandboxes, live.") \
	X(events, "Follow events, one on each line.") \
	X(attach, "Show the output of the main command, and forward input and signals.") \
	X(stop, "End all processes of a sandbox, and keep its files.") \
	X(start, "Start a stopped sandbox and its main command again.") \
	X(hibernate, "Stop a sandbox, and keep only its files, on disk.") \
	X(restart, "Stop a sandbox and start it again.") \
	X(reset, "Bring a sandbox back to its image.") \
	X(fork, "Create copies of a sandbox.") \
	X(snapshot, "Create, list, tag and remove snapshots of sandboxes.") \
	X(kill, "Kill all processes of a sandbox, or signal its main command.") \
	X(pause, "Freeze all processes of a sandbox.") \
	X(resume, "Resume a paused sandbox.") \
	X(rename, "Give a sandbox another name.") \
	X(rm, "Delete sandboxes with their processes and data.") \
	X(wait, "Wait for a sandbox, or for a command in it.") \
	X(port, "Forward a port of a sandbox.") \
	X(network, "Show or change what a sandbox may reach.") \
	X(mcp, "Serve sandboxes as tools for an agent (MCP) on stdin and stdout.") \
	X(token, "Create, list and revoke tokens.") \
	X(secret, "Set, list and delete secrets.") \
	X(volume, "Create, list, copy and delete volumes.") \
	X(cert, "Create certificates for the domain of a service.") \
	X(backends, "Show backends and the features of each.")
/* Commands that warren-work runs, unless they are about a sandbox of the service. */
#define CLIENT_FORWARDED(X) X(diff, "List the files that were changed in a sandbox.")
/* clang-format on */

#endif /* CLI_CLIENT_COMMANDS_LIST_H */
