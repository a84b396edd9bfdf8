/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_main.c - warren attach, kill and rename: operations on a sandbox and its main
 * command
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/errno_names.h"
#include "cli/client/attach.h"
#include "cli/client/commands.h"
#include "cli/client/spec.h"
#include "cli/common_options.h"
#include "cli/run_result.h"

struct main_options {
	const char *signal;
	bool no_stdin;
	bool quiet;
	bool json;
};

#define FIELD(name) offsetof(struct main_options, name)

/* Find the sandbox and the exec of its main command. It is an error if it has none. */
static int main_find(struct client *c, const char *word, json_t **ret_sandbox,
		     const char **ret_exec, struct warren_error *err)
{
	AUTO_JSON json_t *sandbox = NULL;
	char id[ID_LEN + 1], path[64];
	int r = resolve_id_find_sandbox(c, word, id, err);

	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s", id);
	r = client_call(c, "GET", path, NULL, &sandbox, err);
	if (r < 0)
		return r;
	*ret_exec = print_text_of(json_object_get(sandbox, "main"), "exec_id");
	if (!**ret_exec)
		return error_set(
			err, ENOENT,
			"sandbox '%s' has no main command: it was not created by "
			"'warren run -d'",
			id);
	*ret_sandbox = TAKE_PTR(sandbox);
	return 0;
}

/* ------------------------------------------------------------------ attach */

static const struct opt attach_table[] = {
	{ .name = "no-stdin",
	  .help = "do not forward stdin",
	  .set = opt_flag,
	  .field = FIELD(no_stdin) },
	{ NULL, OPT_QUIET("do not report dropped output", FIELD(quiet)) },
};

static int run_attach(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct main_options o = { 0 };
	struct warren_result result = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	AUTO_JSON json_t *sandbox = NULL;
	const json_t *main;
	const char *exec = NULL;
	char **words = NULL;
	int status = 0;

	if (!command_operands(&client_attach, argc, argv, &o, 1, 1, &words, &status))
		return status;
	if (client_open(&c, &err) < 0 || main_find(c, *words, &sandbox, &exec, &err) < 0)
		return client_fail(&client_attach, &err);
	main = json_object_get(sandbox, "main");
	if (attach_run(
		    &(const struct attach){
			    .client = c,
			    .command = client_attach.name,
			    .sandbox = print_text_of(sandbox, "id"),
			    .exec = exec,
			    .in = !o.no_stdin &&
				  (json_is_true(json_object_get(main, "stdin")) ||
				   json_is_true(json_object_get(main, "pty"))),
			    .tty = json_is_true(json_object_get(main, "pty")),
			    .quiet = o.quiet },
		    &result, NULL, &err) < 0)
		return client_fail(&client_attach, &err);
	return result_status(&result);
}

const struct command client_attach = {
	.name = "attach",
	.summary = "Show the output of the main command, and forward input and signals.",
	.about =
		"Shows the output from the beginning, and exits with the status of the command.\n"
		"Forwards stdin only if the sandbox was run with -i or -t.\n",
	.opts = &(const struct opts){ .table = attach_table,
				      .n = ARRAY_SIZE(attach_table),
				      .operands = "SANDBOX",
				      .example = "warren attach k3f9x2m7qd1w",
				      .mixed = true },
	.run = run_attach,
	.complete = complete_sandbox,
};

/* -------------------------------------------------------------------- kill */

/* Convert "HUP", "SIGHUP" or "1" to the form of the API, "HUP". */
static int kill_set_signal(void *field, const char *value, struct warren_error *err)
{
	const char *word = strncmp(value, "SIG", 3) == 0 ? value + 3 : value;

	for (int sig = 1; sig < NSIG; sig++) {
		const char *name = signal_abbrev(sig);
		char number[16];

		(void)snprintf(number, sizeof(number), "%d", sig);
		if (!name || (strcmp(name, word) != 0 && strcmp(number, word) != 0))
			continue;
		*(const char **)field = name;
		return 0;
	}
	return error_set(err, EINVAL, "'%.40s' is not a signal", value);
}

static const struct opt kill_table[] = {
	{ .name = "signal",
	  .letter = 's',
	  .value = "SIGNAL",
	  .example = "HUP",
	  .help = "send this signal to the main command only",
	  .set = kill_set_signal,
	  .field = FIELD(signal) },
	{ NULL, OPT_QUIET("do not print the ids", FIELD(quiet)) },
	{ NULL, OPT_JSON("print what was signalled, one JSON object on each line",
			 FIELD(json)) },
};

static int kill_one(struct client *c, const char *word, const char *signal,
		    char ret_id[ID_LEN + 1], struct warren_error *err)
{
	AUTO_JSON json_t *body = NULL, *sandbox = NULL;
	const char *exec = NULL;
	char path[128];
	int r = resolve_id_find_sandbox(c, word, ret_id, err);

	if (r < 0)
		return r;
	if (signal && strcmp(signal, "KILL") != 0) {
		r = main_find(c, ret_id, &sandbox, &exec, err);
		body = json_pack("{s:s}", "signal", signal);
		(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s/execs/%s/signal",
			       ret_id, exec ? exec : "");
	} else {
		body = json_pack("{s:i}", "timeout_ms", 0);
		(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s/stop", ret_id);
	}
	return r < 0 ? r : client_call(c, "POST", path, body, NULL, err);
}

static int run_kill(int argc, char **argv)
{
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	struct warren_error err = WARREN_ERROR_INIT;
	struct main_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	char **words = NULL;
	int status = 0, failed = 0;

	if (!command_operands(&client_kill, argc, argv, &o, 1, 0, &words, &status))
		return status;
	if (client_open(&c, &err) < 0)
		return client_fail(&client_kill, &err);
	for (; *words; words++) {
		char id[ID_LEN + 1];

		if (kill_one(c, *words, o.signal, id, &err) < 0)
			failed = client_fail(&client_kill, &err);
		else if (o.json)
			buf_printf(&out, "{\"id\":\"%s\",\"signal\":\"%s\"}\n", id,
				   o.signal ? o.signal : "KILL");
		else if (!o.quiet)
			buf_printf(&out, "%s\n", id);
	}
	status = message_print(client_kill.name, &out);
	return status ? status : failed;
}

const struct command client_kill = {
	.name = "kill",
	.summary = "Kill all processes of a sandbox, or signal its main command.",
	.about = "Without --signal, this is the same as 'warren stop --time 0'.\n",
	.opts = &(const struct opts){ .table = kill_table,
				      .n = ARRAY_SIZE(kill_table),
				      .operands = "SANDBOX...",
				      .example = "warren kill -s HUP k3f9x2m7qd1w",
				      .mixed = true },
	.run = run_kill,
	.complete = complete_sandboxes,
};

/* ------------------------------------------------------------------ rename */

static const struct opt rename_table[] = {
	{ NULL, OPT_JSON("print the sandbox as a JSON object", FIELD(json)) },
};

static int run_rename(int argc, char **argv)
{
	struct main_options o = { 0 };
	AUTO_JSON json_t *sandbox = NULL;
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_CLIENT struct client *c = NULL;
	AUTO_JSON json_t *body = NULL;
	char id[ID_LEN + 1], path[64];
	char **words = NULL;
	int status = 0;

	if (!command_operands(&client_rename, argc, argv, &o, 2, 2, &words, &status))
		return status;
	if (client_open(&c, &err) < 0 || resolve_id_find_sandbox(c, *words, id, &err) < 0)
		return client_fail(&client_rename, &err);
	body = json_object();
	spec_put_text(body, "name", words[1]);
	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s", id);
	if (client_call(c, "PATCH", path, body, &sandbox, &err) < 0)
		return client_fail(&client_rename, &err);
	return o.json ? print_json(&client_rename, sandbox) : 0;
}

const struct command client_rename = {
	.name = "rename",
	.summary = "Give a sandbox another name.",
	.opts = &(const struct opts){ .table = rename_table,
				      .n = ARRAY_SIZE(rename_table),
				      .operands = "SANDBOX NAME",
				      .example = "warren rename k3f9x2m7qd1w worker",
				      .mixed = true },
	.run = run_rename,
	.complete = complete_sandbox,
};
