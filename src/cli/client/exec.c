/* SPDX-License-Identifier: Apache-2.0 */
/* exec.c - start a command in a sandbox, attach to it, and exit with its status */
#include "cli/client/exec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/json.h"
#include "cli/client/attach.h"
#include "cli/client/commands.h"
#include "cli/client/spec.h"
#include "cli/run_result.h"
#include "cli/run_tty.h"

#define INPUT_MAX (1U << 20) /* maximum of the API for input in a request */

int exec_options_finish(struct exec_options *o, struct warren_error *err)
{
	const char *term = getenv("TERM");
	struct env_list all = { 0 };
	int r = 0;

	if (o->tty && o->interactive && !isatty(STDIN_FILENO))
		return error_set(
			err, ENOTTY,
			"--tty: stdin is not a terminal; leave out -t to forward it "
			"(example: echo hello | warren exec -i SANDBOX cat)");
	if (o->tty)
		r = env_list_add(&all, term && *term ? "TERM" : "TERM=xterm", err);
	if (r == 0)
		r = env_list_add_all(&all, &o->env_file, err);
	if (r == 0)
		r = env_list_add_all(&all, &o->env, err);
	env_list_done(&o->env);
	o->env = all;
	return r;
}

void exec_options_done(struct exec_options *o)
{
	env_list_done(&o->env);
	env_list_done(&o->env_file);
}

json_t *exec_json(const struct exec_options *o, char *const *argv, size_t n)
{
	json_t *body = json_object(), *env = env_json(&o->env);
	uint16_t rows = 0, cols = 0;

	(void)json_object_set_new(body, "argv", words_json(argv, n));
	if (env)
		(void)json_object_set_new(body, "env", env);
	spec_put_text(body, "cwd", o->workdir);
	spec_put_text(body, "user", o->user);
	spec_put_number(body, "timeout_ms", o->timeout_ms);
	spec_put_number(body, "output_limit", o->output_limit);
	spec_put_limits(body, o->limits);
	if (o->undoable)
		(void)json_object_set_new(body, "undoable", json_true());
	if (o->interactive && !o->tty && !o->json)
		(void)json_object_set_new(body, "stdin", json_true());
	if (o->tty) {
		(void)json_object_set_new(body, "pty", json_true());
		tty_size(&rows, &cols);
		spec_put_number(body, "rows", rows);
		spec_put_number(body, "cols", cols);
	}
	return body;
}

static int client_exec_start(struct client *c, const char *sandbox,
			     const struct exec_options *o, char *const *argv, size_t n,
			     json_t **ret, struct warren_error *err)
{
	AUTO_JSON json_t *body = exec_json(o, argv, n);
	char path[64];

	/* Request a hold, because all output will be read from the first byte. */
	if (!o->detach)
		(void)json_object_set_new(body, "hold", json_true());
	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s/execs", sandbox);
	return client_call(c, "POST", path, body, ret, err);
}

int exec_start_and_attach(struct client *c, const char *sandbox,
			  const struct exec_options *o, char *const *argv, size_t n,
			  struct warren_result *ret_result, int *ret_status,
			  struct warren_error *err)
{
	AUTO_JSON json_t *exec = NULL;
	struct attach a = { .client = c,
			    .command = o->command->name,
			    .sandbox = sandbox,
			    .in = o->interactive,
			    .tty = o->tty,
			    .quiet = o->quiet,
			    .keep = o->keep };
	int r = client_exec_start(c, sandbox, o, argv, n, &exec, err);

	*ret_status = STATUS_FAILED;
	if (r < 0) {
		*ret_status = start_status(c);
		return r;
	}
	a.exec = print_text_of(exec, "id");
	r = attach_run(&a, ret_result, NULL, err);
	if (r == 0)
		*ret_status = result_status(ret_result);
	return r;
}

/* Add all of stdin to the request. */
static int put_input(json_t *body, struct warren_error *err)
{
	AUTO_FREE char *input = malloc(INPUT_MAX + 1);
	AUTO_BUF struct buf text = BUF_INIT(2 * INPUT_MAX + 64);
	struct json j = { .out = &text };
	ssize_t n = input ? fd_read_all(STDIN_FILENO, input, INPUT_MAX + 1) : -ENOMEM;

	if (n < 0)
		return error_errno(err, (int)-n, "read stdin");
	if (n > (ssize_t)INPUT_MAX)
		return error_set(err, EFBIG,
				 "--json accepts at most 1m of input: leave it out, or "
				 "put the input into a file with 'warren cp'");
	json_base64(&j, NULL, input, (size_t)n);
	if (text.failed || text.len < 2)
		return error_errno(err, ENOMEM, "store the input");
	/* Remove the quotes. */
	(void)json_object_set_new(body, "input_base64",
				  json_stringn(text.data + 1, text.len - 2));
	return 0;
}

/* Run the command with a single request, for --json; *@ret is the result. */
static int exec_outcome(struct client *c, const char *sandbox,
			const struct exec_options *o, char *const *argv, size_t n,
			json_t **ret, struct warren_error *err)
{
	AUTO_JSON json_t *body = exec_json(o, argv, n);
	char path[64];

	if (o->interactive && put_input(body, err) < 0)
		return -err->code;
	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s/run", sandbox);
	return client_call(c, "POST", path, body, ret, err);
}

static int run_for_json(struct client *c, const char *sandbox,
			const struct exec_options *o, char *const *argv, size_t n)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_result result;
	AUTO_JSON json_t *outcome = NULL;
	int printed;

	if (exec_outcome(c, sandbox, o, argv, n, &outcome, &err) < 0) {
		client_say(o->command, &err);
		return start_status(c);
	}
	printed = print_json(&client_exec, outcome);
	if (!json_is_object(json_object_get(outcome, "result")))
		return STATUS_FAILED;
	result_of(json_object_get(outcome, "result"), &result);
	return result_status(&result) ? result_status(&result) : printed;
}

static int run_detached(struct client *c, const char *sandbox,
			const struct exec_options *o, char *const *argv, size_t n)
{
	AUTO_BUF struct buf out = BUF_INIT(256);
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_JSON json_t *exec = NULL;

	if (client_exec_start(c, sandbox, o, argv, n, &exec, &err) < 0) {
		client_say(o->command, &err);
		return start_status(c);
	}
	if (o->json)
		return print_json(&client_exec, exec);
	buf_printf(&out, "%s\n", print_text_of(exec, "id"));
	return message_print(o->command->name, &out);
}

int exec_run(struct client *c, const char *sandbox, const struct exec_options *o,
	     char *const *argv, size_t n)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_result result = { 0 };
	int status = 0;

	if (o->detach)
		return run_detached(c, sandbox, o, argv, n);
	if (o->json)
		return run_for_json(c, sandbox, o, argv, n);
	if (exec_start_and_attach(c, sandbox, o, argv, n, &result, &status, &err) < 0) {
		client_say(o->command, &err);
		return status;
	}
	if (result.timed_out && !o->quiet)
		message_say(o->command->name, "timed out after %ju ms",
			    (uintmax_t)o->timeout_ms);
	if (result.oom && !o->quiet)
		message_say(o->command->name,
			    "out of memory: the kernel killed a process");
	return status;
}
