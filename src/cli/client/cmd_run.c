/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_run.c - warren run --daemon: run a command in a new sandbox of the service
 *
 * `warren run` passes its options to this command unchanged.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/strv.h"
#include "cli/client/attach.h"
#include "cli/client/commands.h"
#include "cli/client/exec.h"
#include "cli/client/forward.h"
#include "cli/client/network_suggest.h"
#include "cli/client/pull.h"
#include "cli/client/spec.h"
#include "cli/client/volumes.h"
#include "cli/run_result.h"
#include "cli/run_signal.h"

/* Get the command to run: the given words, or the image's command. *@ret owns them. */
static int command_of(struct client *c, const struct run_options *o, char **words,
		      json_t **ret, struct warren_error *err)
{
	AUTO_BUF struct buf path = BUF_INIT(PATH_LIMIT);
	AUTO_JSON json_t *image = NULL, *argv = json_array();
	size_t n = strv_len(words);

	if (run_options_stored(o)) {
		buf_puts(&path, "/v1/images/inspect");
		put_query(&path, "image", o->image);
		if (client_call(c, "GET", path.data, NULL, &image, err) < 0)
			return -err->code;
	}
	if (o->entrypoint && *o->entrypoint)
		(void)json_array_append_new(argv, json_string_nocheck(o->entrypoint));
	else if (!o->entrypoint)
		(void)json_array_extend(argv, json_object_get(image, "entrypoint"));
	if (n > 0) {
		AUTO_JSON json_t *given = words_json(words, n);

		(void)json_array_extend(argv, given);
	} else if (!o->entrypoint) {
		(void)json_array_extend(argv, json_object_get(image, "cmd"));
	}
	if (json_array_size(argv) == 0)
		return error_set(err, EINVAL,
				 "no command to run (example: warren run -- uname -n)");
	*ret = TAKE_PTR(argv);
	return 0;
}

/* Convert words for exec.h; the strings belong to @from. */
static char **run_words_of(const json_t *from)
{
	size_t n = json_array_size(from);
	char **words = calloc(n + 1, sizeof(*words));

	for (size_t i = 0; words && i < n; i++)
		words[i] = (char *)(uintptr_t)json_string_value(json_array_get(from, i));
	return words;
}

/* With --json, also print one object, as a run without the service does. */
static int cmd_run_fail(const struct run_options *o, const struct warren_error *err,
			int status)
{
	const struct warren_error words = client_words(&client_run, err);
	struct run_report report;

	message_say(client_run.name, "%s", words.msg);
	if (!o->json)
		return status;
	report_init(&report);
	report_error(&report, &words, status);
	status = report_print(&report, status);
	report_done(&report);
	return status;
}

/* Get the network usage of a sandbox with a policy; NULL: it is unknown. */
static json_t *cmd_run_network(struct client *c, const json_t *sandbox,
			       const struct run_options *o)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	json_t *network = NULL;
	char path[96];

	if (!network_options_has_policy(&o->network))
		return NULL;
	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s/network",
		       print_text_of(sandbox, "id"));
	(void)!client_call(c, "GET", path, NULL, &network, &ignored);
	return network;
}

/* Print the same messages as without the service. */
static void cmd_run_say_network(const json_t *network, const struct run_options *o)
{
	AUTO_BUF struct buf text = BUF_INIT(OUTPUT_MAX);
	struct warren_error err = WARREN_ERROR_INIT;
	json_int_t denied = json_integer_value(
		json_object_get(json_object_get(network, "usage"), "denied"));
	bool learn = network_options_learn(&o->network);

	if (!network || (!learn && (denied == 0 || o->quiet || o->json)))
		return;
	if (network_suggest_options(network, &text, &err) < 0) {
		client_say(&client_run, &err);
		return;
	}
	if (learn)
		message_say(client_run.name, NETWORK_SAY_LEARN);
	else
		message_say(client_run.name, NETWORK_SAY_DENIED, (uintmax_t)denied);
	(void)fputs(text.data, stderr);
}

/* Write the object of `warren run --json` from the service's data. */
static int cmd_run_report(const json_t *sandbox, const json_t *network,
			  const struct warren_result *result, const struct splice keep[2],
			  int status)
{
	AUTO_JSON json_t *part =
		network ? json_pack("{s:O?, s:O?}", "policy",
				    json_object_get(network, "policy"), "usage",
				    json_object_get(network, "usage"))
			: NULL;
	AUTO_FREE char *used = part ? json_dumps(part, JSON_COMPACT) : NULL;
	AUTO_FREE char *enforced = json_dumps(json_object_get(sandbox, "enforced"), 0);
	struct run_report r;

	report_init(&r);
	report_result(&r, print_text_of(sandbox, "id"), result);
	json_raw(&r.json, "enforced", enforced ? enforced : "[]",
		 enforced ? strlen(enforced) : 2);
	if (used)
		json_raw(&r.json, "network", used, strlen(used));
	report_output(&r, &keep[0], &keep[1]);
	status = report_print(&r, status);
	report_done(&r);
	return status;
}

static int cmd_run_in(struct client *c, const json_t *sandbox,
		      const struct run_options *o, struct exec_options *x, char **argv,
		      size_t n)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_result result = { 0 };
	struct splice keep[2] = { PUMP_IDLE, PUMP_IDLE };
	AUTO_JSON json_t *network = NULL;
	int status = STATUS_FAILED, r;

	for (size_t i = 0; i < ARRAY_SIZE(keep); i++)
		splice_init_capture(&keep[i], -1, PUMP_CAPTURE_MAX);
	x->keep = o->json ? keep : NULL;
	r = exec_start_and_attach(c, print_text_of(sandbox, "id"), x, argv, n, &result,
				  &status, &err);
	if (r == 0)
		network = cmd_run_network(c, sandbox, o);
	if (r < 0)
		status = cmd_run_fail(o, &err, status);
	else if (o->json)
		status = cmd_run_report(sandbox, network, &result, keep, status);
	if (r == 0) {
		result_say_end(o, &result);
		cmd_run_say_network(network, o);
	}
	x->keep = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(keep); i++)
		splice_done(&keep[i]);
	return status;
}

static int run_all(struct client *c, const struct run_options *o, char **words)
{
	struct exec_options x = { .command = &client_run,
				  .env = o->env,
				  .interactive = o->interactive,
				  .tty = o->tty,
				  .quiet = o->quiet,
				  .timeout_ms = o->timeout_ms };
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_JSON json_t *spec = spec_json(o), *sandbox = NULL, *argv = NULL;
	AUTO_FREE char **list = NULL;
	int status;

	spec_put_text(spec, "name", o->name);
	if (volumes_ensure(c, client_run.name, &o->mounts, &err) < 0 ||
	    make_passing_sandbox(c, spec, &sandbox, &err) < 0)
		return cmd_run_fail(o, &err, STATUS_FAILED);
	if (o->publish.n &&
	    publish_while_running(c, print_text_of(sandbox, "id"), &o->publish, &err) < 0)
		status = cmd_run_fail(o, &err, STATUS_FAILED);
	else if (command_of(c, o, words, &argv, &err) < 0)
		status = cmd_run_fail(o, &err, STATUS_FAILED);
	else if (!(list = run_words_of(argv)))
		status = STATUS_FAILED;
	else
		status = cmd_run_in(c, sandbox, o, &x, list, json_array_size(argv));
	if (delete_sandbox(c, print_text_of(sandbox, "id"), &err) < 0) {
		int failed = client_fail(&client_run, &err);

		status = status ? status : failed;
	}
	return status;
}

/* ------------------------------------------------------------ run in the background */

/* The command may come from the image, so the image must be present first. */
static int run_pull_image(struct client *c, const struct run_options *o,
			  struct warren_error *err)
{
	const struct pull_request request = { .image = o->image,
					      .platform = o->platform,
					      .quiet = o->quiet };

	return pull_image(c, &request, NULL, err);
}

/* Explain a failure if the user may have meant a program, whose name looks like an
 * image. */
static void run_explain_image(const struct run_options *o, struct warren_error *err)
{
	struct warren_error why = *err;

	if (o->image_is_operand && !strpbrk(o->image, ":@/"))
		(void)error_set(
			err, why.code,
			"%.300s; '%.60s' was interpreted as IMAGE: to run a program of this machine, use --image host",
			why.msg, o->image);
}

static int run_main_words(struct client *c, const struct run_options *o, char **words,
			  json_t **ret, struct warren_error *err)
{
	int r = 0;

	if (run_options_stored(o) && o->pull == PULL_ALWAYS)
		r = run_pull_image(c, o, err);
	if (r == 0)
		r = command_of(c, o, words, ret, err);
	if (r < 0 && client_said(c, "image_not_found") && o->pull == PULL_MISSING) {
		r = run_pull_image(c, o, err);
		if (r == 0)
			r = command_of(c, o, words, ret, err);
	}
	if (r < 0)
		run_explain_image(o, err);
	return r;
}

/* Describe the sandbox and its command in one request, so that the service starts both or
 * neither. */
static json_t *run_detached_spec(const struct run_options *o, json_t *argv)
{
	json_t *spec = spec_json(o), *env = env_json(&o->env);
	json_t *command = json_pack("{s:O, s:b, s:b}", "argv", argv, "pty", o->tty,
				    "stdin", o->interactive && !o->tty);

	if (env)
		(void)json_object_set_new(spec, "env", env);
	if (command)
		(void)json_object_set_new(spec, "main", command);
	spec_put_text(spec, "name", o->name);
	spec_put_text(spec, "on_exit", o->remove ? "delete" : "stop");
	if (o->pull == PULL_ALWAYS)
		(void)json_object_del(spec, "pull"); /* it was */
	return spec;
}

static int run_detached_sandbox(struct client *c, const struct run_options *o,
				char **words)
{
	AUTO_BUF struct buf out = BUF_INIT(256);
	struct warren_error err = WARREN_ERROR_INIT, ignored = WARREN_ERROR_INIT;
	AUTO_JSON json_t *argv = NULL, *spec = NULL, *sandbox = NULL;
	const char *id;
	int r = run_main_words(c, o, words, &argv, &err);

	if (r < 0)
		return cmd_run_fail(o, &err, STATUS_FAILED);
	spec = run_detached_spec(o, argv);
	if (volumes_ensure(c, client_run.name, &o->mounts, &err) < 0)
		return cmd_run_fail(o, &err, STATUS_FAILED);
	if (spec_make_sandbox(c, spec, &sandbox, &err) < 0)
		return cmd_run_fail(o, &err, start_status(c));
	id = print_text_of(sandbox, "id");
	if (o->publish.n && publish_in_background(c, id, &o->publish, &err) < 0) {
		(void)!delete_sandbox(c, id, &ignored);
		return cmd_run_fail(o, &err, STATUS_FAILED);
	}
	if (o->json)
		return print_json(&client_run, sandbox);
	buf_printf(&out, "%s\n", id);
	return message_print(client_run.name, &out);
}

static int client_cmd_run(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct run_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	int first = 0, status;

	if (!command_options(&client_run, argc, argv, &o, &first, &status))
		return status;
	if (run_options_take_image(&o, argv, argc, &first, &err) < 0 ||
	    run_options_finish(&o, &err) < 0 || client_open(&c, &err) < 0)
		status = cmd_run_fail(&o, &err, STATUS_FAILED);
	else
		status = o.detach ? run_detached_sandbox(c, &o, argv + first)
				  : run_all(c, &o, argv + first);
	run_options_done(&o);
	return status;
}

const struct command client_run = {
	.name = "run",
	.summary = "Run a command in a new sandbox that the service creates.",
	.opts = &run_opts,
	.run = client_cmd_run,
};
