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
	const struct command *command; /* of ours, as errors begin */
	struct env_list env_file;
	struct env_list env; /* outdoes the files */
	const char *user;
	const char *workdir;
	uint64_t limits[SPEC_LIMIT_MAX]; /* of which those that are not live stay 0 */
	uint64_t timeout_ms;
	uint64_t output_limit;
	bool interactive;
	bool tty;
	bool detach;
	bool json;
	bool quiet;
	struct splice *keep; /* as that of struct attach */
};

/* What no single option can tell. */
int exec_options_finish(struct exec_options *o, struct warren_error *err) MUST_CHECK;
void exec_options_done(struct exec_options *o);

/* The body of a request to start it. */
json_t *exec_json(const struct exec_options *o, char *const *argv, size_t n);
/* Runs it to its end, and says what there is to say; the status. */
int exec_run(struct client *c, const char *sandbox, const struct exec_options *o,
	     char *const *argv, size_t n);
/* The same with *@ret_result; 0, or -errno with *@ret_status as the status. */
int exec_start_and_attach(struct client *c, const char *sandbox,
			  const struct exec_options *o, char *const *argv, size_t n,
			  struct warren_result *ret_result, int *ret_status,
			  struct warren_error *err) MUST_CHECK;

#endif /* CLI_CLIENT_EXEC_H */
