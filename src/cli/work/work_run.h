/* SPDX-License-Identifier: Apache-2.0 */
/*
 * work_run.h - a sandbox for a project, and commands in it
 *
 *	struct work_sandbox *sb = NULL;
 *	struct warren_result result;
 *
 *	if (work_sandbox_open(&(struct work_sandbox_options){ .command = "work",
 *		.options = &options, .mounts = mounts, .n_mounts = 1 }, &sb, &err) < 0)
 *		...
 *	r = work_sandbox_exec(sb, &(struct work_exec){ .argv = argv, .output = -1 },
 *			      &result, &err);
 *	sb = work_sandbox_close(sb);
 *
 * Signals that end a process are blocked while a sandbox is open, and are passed on to
 * the command that runs. The sandbox ends with this process.
 */
#ifndef CLI_WORK_RUN_H
#define CLI_WORK_RUN_H

#include "cli/run_options.h"

struct work_sandbox;

struct work_sandbox_options {
	const char *command; /* its name in messages: "work" */
	/*
	 * Checked by run_options_finish(); borrowed until the sandbox is closed. Its
	 * image is pulled if it is missing. Its mounts are not used.
	 */
	const struct run_options *options;
	const struct warren_mount *mounts; /* all mounts of the sandbox */
	size_t n_mounts;
	/* Copy on write for the root, as in struct warren_spec. */
	const char *writes;
	const char *const *layers;
	/*
	 * Only one command will run, which may have the terminal. Its start is faster.
	 */
	bool single;
	/* Ports of the sandbox to forward while a command runs (forward_ports.h). */
	const uint16_t *ports;
	size_t n_ports;
};

/*
 * Create the sandbox, with its network. -EINTR: a signal arrived first: *@ret_signal,
 * unless that is NULL.
 */
int work_sandbox_open(const struct work_sandbox_options *options,
		      struct work_sandbox **ret, int *ret_signal,
		      struct warren_error *err) MUST_CHECK;

struct work_exec {
	const char *const *argv; /* NULL-terminated; the image's entrypoint is not used */
	const char *cwd;         /* NULL: the sandbox's */
	const char *user;        /* NULL: the sandbox's */
	/* Descriptor for stdout and stderr; -1: those of this process. */
	int output;
};

/*
 * Run a command until its end. With .output -1, stdin is forwarded and a terminal is
 * allocated as the options say; otherwise stdin is empty. If the command cannot be
 * started, the error's code is that of execve(2).
 */
int work_sandbox_exec(struct work_sandbox *sb, const struct work_exec *spec,
		      struct warren_result *ret, struct warren_error *err) MUST_CHECK;
/*
 * The signal that was to end this process; 0: none. A ^C that the terminal sends to all
 * its programs is no such signal: as outside a sandbox, the command may handle it.
 * *@ret_killed: the command did not end after it in time, and was killed.
 */
int work_sandbox_signal(const struct work_sandbox *sb, bool *ret_killed);
/* Let work_sandbox_close() report what the network policy denied, even if .quiet. */
void work_sandbox_say_denied(struct work_sandbox *sb);
/*
 * Destroy the sandbox, deliver what is left of its output, report what its network policy
 * denied, and let signals arrive again. Accepts NULL; returns NULL.
 */
struct work_sandbox *work_sandbox_close(struct work_sandbox *sb);

#endif /* CLI_WORK_RUN_H */
