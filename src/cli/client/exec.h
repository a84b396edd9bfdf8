/* SPDX-License-Identifier: Apache-2.0 */
/* exec.h - start a command in a sandbox, attach to it, and exit with its status */
#ifndef CLI_CLIENT_EXEC_H
#define CLI_CLIENT_EXEC_H

#include "cli/client/client.h"
#include "cli/run_env.h"
#include "spec/limits.h"

struct command;
struct splice;

struct exec_options {
	const struct command *command; /* the warren command, as prefix of errors */
	struct env_list env_file;
	struct env_list env; /* overrides env_file */
	const char *user;
	const char *workdir;
	uint64_t limits[SPEC_LIMIT_MAX]; /* limits that cannot be set per exec stay 0 */
	uint64_t timeout_ms;
	uint64_t output_limit;
	bool interactive;
	bool tty;
	bool detach;
	bool undoable;
	bool json;
	bool quiet;
	struct splice *keep; /* see struct attach */
};

/* Check combinations of options. */
int exec_options_finish(struct exec_options *o, struct warren_error *err) MUST_CHECK;
void exec_options_done(struct exec_options *o);

/* The request body that starts the command. */
json_t *exec_json(const struct exec_options *o, char *const *argv, size_t n);
/* Run the command to its end and print any messages; return the exit status. */
int exec_run(struct client *c, const char *sandbox, const struct exec_options *o,
	     char *const *argv, size_t n);
/*
 * Run the command and store its result in *@ret_result. On failure return -errno and set
 * *@ret_status to the exit status.
 */
int exec_start_and_attach(struct client *c, const char *sandbox,
			  const struct exec_options *o, char *const *argv, size_t n,
			  struct warren_result *ret_result, int *ret_status,
			  struct warren_error *err) MUST_CHECK;

#endif /* CLI_CLIENT_EXEC_H */
