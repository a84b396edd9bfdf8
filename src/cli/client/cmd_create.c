/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_create.c - warren create: create a sandbox */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/parse.h"
#include "cli/client/commands.h"
#include "cli/client/policy_file.h"
#include "cli/client/progress.h"
#include "cli/client/spec.h"
#include "cli/client/volumes.h"
#include "cli/common_options.h"

#define COUNT_MAX 1000 /* maximum of the API */

struct create_options {
	struct run_options sandbox; /* the options that `warren run` also has */
	const char *name;
	const char *template;
	const char *on_idle, *idle_action, *on_ttl;
	const char *key;
	json_t *labels;
	json_t *policy;
	uint64_t ttl_ms, idle_timeout_ms, wait_ms;
	uint64_t count;
	bool no_wake, persist;
	bool no_wait;
	bool quiet;
	bool json;
};

static int create_set_count(void *field, const char *value, struct warren_error *err)
{
	uint64_t n;
	int r = parse_u64(value, COUNT_MAX, &n, err);

	if (r == 0 && n == 0)
		return error_set(err, ERANGE, "'0' is less than 1");
	if (r == 0)
		*(uint64_t *)field = n;
	return r;
}

#define FIELD(name) offsetof(struct create_options, name)

#define CREATE_LIMIT(...) OPT_LIMIT("Limits", FIELD(sandbox.limits), __VA_ARGS__)

/* clang-format off */
static const struct opt create_table[] = {
	{ "Computer", OPT_IMAGE("python:3.12",
		"host, or a reference: python:3.12 (default: the service's)",
		FIELD(sandbox.image)) },
	{ NULL, OPT_PULL(FIELD(sandbox.pull)) },
	{ NULL, OPT_PLATFORM(FIELD(sandbox.platform)) },
	{ NULL, OPT_NAME("name of the sandbox, accepted wherever its id is", FIELD(name)) },
	{ NULL, "label", 'l', "KEY=VALUE", "team=search",
	  "attach a label",
	  value_label, FIELD(labels) },
	{ NULL, OPT_HOSTNAME("host name inside (default: its id)", FIELD(sandbox.hostname)) },
	{ NULL, OPT_NETWORK(FIELD(sandbox.network.mode)) },
	{ NULL, OPT_ALLOW(FIELD(sandbox.network.rules)) },
	{ NULL, OPT_DENY(FIELD(sandbox.network.rules)) },
	{ NULL, OPT_POLICY(FIELD(policy)) },
	{ NULL, OPT_READ_ONLY(FIELD(sandbox.read_only)) },
	{ NULL, OPT_VOLUME("/srv/data:/data:ro",
		"mount a volume, or a directory of the service's machine, at DST",
		FIELD(sandbox.mounts)) },
	{ NULL, OPT_TMPFS(FIELD(sandbox.mounts)) },
	{ NULL, "template", 0, "NAME", "python-tools",
	  "start from this template",
	  opt_text, FIELD(template) },
	{ NULL, OPT_BACKEND("native", "backend to run on (default: the service's)",
		FIELD(sandbox.backend)) },
	{ NULL, OPT_TIER("namespace", "minimum isolation tier: namespace, gvisor",
		FIELD(sandbox.tier)) },

	{ "Its commands", OPT_ENV(FIELD(sandbox.env_option)) },
	{ NULL, OPT_ENV_FILE(FIELD(sandbox.env_file)) },
	{ NULL, OPT_WORKDIR("working directory (default: the image's, or /)",
		FIELD(sandbox.workdir)) },
	{ NULL, OPT_USER("user name, uid or uid:gid (default: the image's, or root)",
		FIELD(sandbox.user)) },

	SPEC_LIMITS(CREATE_LIMIT)

	{ "Life", "ttl", 0, "DURATION", "1h",
	  "delete the sandbox at this age",
	  opt_duration, FIELD(ttl_ms) },
	{ NULL, "on-ttl", 0, "ACTION", "hibernate",
	  "what to do then: delete (the default), pause or hibernate",
	  opt_text, FIELD(on_ttl) },
	{ NULL, "idle-timeout", 0, "DURATION", "5m",
	  "pause the sandbox after this time without use",
	  opt_duration, FIELD(idle_timeout_ms) },
	{ NULL, "on-idle", 0, "ACTION", "hibernate",
	  "what to do then: pause (the default), hibernate or delete",
	  opt_text, FIELD(on_idle) },
	{ NULL, "idle-action", 0, "ACTION", "hibernate",
	  "another name for --on-idle",
	  opt_text, FIELD(idle_action) },
	{ NULL, "persist", 0, NULL, NULL,
	  "keep its files on disk from the start; they survive a reboot",
	  opt_flag, FIELD(persist) },
	{ NULL, "no-wake", 0, NULL, NULL,
	  "do not resume or wake it automatically when it is used again",
	  opt_flag, FIELD(no_wake) },
	{ NULL, "count", 0, "N", "100",
	  "create this many sandboxes",
	  create_set_count, FIELD(count) },
	{ NULL, "key", 0, "KEY", "rollout-42-attempt-1",
	  "idempotency key: repeating it creates nothing new",
	  opt_text, FIELD(key) },
	{ NULL, "wait", 0, "DURATION", "10s",
	  "how long to wait until the sandbox runs (default: 60s)",
	  opt_duration, FIELD(wait_ms) },
	{ NULL, "no-wait", 0, NULL, NULL,
	  "do not wait until the sandbox runs",
	  opt_flag, FIELD(no_wait) },

	{ "Output", OPT_JSON("print the sandbox as a JSON object; several as an array",
		FIELD(json)) },
	{ NULL, OPT_QUIET("print ids only, no progress", FIELD(quiet)) },
};
/* clang-format on */

static const struct opt_conflict create_conflicts[] = {
	{ "wait", "no-wait", "one requests what the other forbids" },
	{ "json", "quiet", "one prints everything, the other only ids" },
	{ "policy", "network", POLICY_FILE_ONLY },
	{ "policy", "allow", POLICY_FILE_ONLY },
	{ "policy", "deny", POLICY_FILE_ONLY },
};

static const struct opts create_opts = {
	.table = create_table,
	.n = ARRAY_SIZE(create_table),
	.conflicts = create_conflicts,
	.n_conflicts = ARRAY_SIZE(create_conflicts),
	.example = "warren create --image python:3.12 -m 512m --ttl 1h",
};

static json_t *spec_of(const struct create_options *o)
{
	json_t *spec = spec_json(&o->sandbox), *env = env_json(&o->sandbox.env);

	if (env)
		(void)json_object_set_new(spec, "env", env);
	spec_put_text(spec, "name", o->name);
	spec_put_text(spec, "template", o->template);
	spec_put_text(spec, "on_idle", o->on_idle);
	spec_put_text(spec, "idle_action", o->idle_action);
	spec_put_text(spec, "on_ttl", o->on_ttl);
	spec_put_number(spec, "ttl_ms", o->ttl_ms);
	spec_put_number(spec, "idle_timeout_ms", o->idle_timeout_ms);
	if (o->labels)
		(void)json_object_set(spec, "labels", o->labels);
	if (o->policy)
		(void)json_object_set(spec, "network", o->policy);
	if (o->persist)
		(void)json_object_set_new(spec, "persist", json_true());
	if (o->no_wake)
		(void)json_object_set_new(spec, "wake_on_use", json_false());
	return spec;
}

static void put_waiting(json_t *body, const struct create_options *o)
{
	spec_put_text(body, "idempotency_key", o->key);
	spec_put_number(body, "wait_ms", o->wait_ms);
	if (o->no_wait)
		(void)json_object_set_new(body, "wait_ms", json_integer(0));
}

/* Print the id of each sandbox on a line. If some failed, report them and return a
 * failure. */
static int print_made(const json_t *sandboxes, const struct create_options *o)
{
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	int failed = 0, status;

	for (size_t i = 0; i < json_array_size(sandboxes); i++) {
		const json_t *sandbox = json_array_get(sandboxes, i);

		if (!o->json)
			buf_printf(&out, "%s\n", print_text_of(sandbox, "id"));
		if (!print_is_over(sandbox))
			continue;
		message_say(client_create.name, "sandbox %s failed: %s",
			    print_text_of(sandbox, "id"),
			    print_text_of(sandbox, "error"));
		failed = STATUS_FAILED;
	}
	status = o->json ? print_json(&client_create, sandboxes)
			 : message_print(client_create.name, &out);
	return status ? status : failed;
}

static int create_fail(const struct create_options *o, struct warren_error *err)
{
	policy_file_explain(o->policy, err);
	return client_fail(&client_create, err);
}

static int create_many(struct client *c, json_t *spec, const struct create_options *o)
{
	AUTO_JSON json_t *body = json_pack("{s:[O], s:I}", "sandboxes", spec, "count",
					   (json_int_t)o->count);
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_JSON json_t *made = NULL;
	int r;

	put_waiting(body, o);
	progress_about(o->quiet ? NULL : "creating sandboxes");
	r = client_call(c, "POST", "/v1/sandboxes/batch", body, &made, &err);
	progress_about(NULL);
	return r < 0 ? create_fail(o, &err)
		     : print_made(json_object_get(made, "sandboxes"), o);
}

/*
 * Warn about features that do not work with this image, because the image's tools do not
 * report it.
 */
static void say_broken(const json_t *sandbox)
{
	const json_t *enforced = json_object_get(sandbox, "enforced");

	for (size_t i = 0; i < json_array_size(enforced); i++) {
		const json_t *e = json_array_get(enforced, i);

		if (strcmp(print_text_of(e, "name"), "stat") == 0 &&
		    !json_is_true(json_object_get(e, "enforced")))
			message_say(client_create.name, "%s", print_text_of(e, "detail"));
	}
}

static int create_one(struct client *c, json_t *spec, const struct create_options *o)
{
	AUTO_BUF struct buf out = BUF_INIT(256);
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_JSON json_t *sandbox = NULL;

	put_waiting(spec, o);
	if (spec_make_sandbox(c, spec, &sandbox, &err) < 0)
		return create_fail(o, &err);
	if (o->json)
		return print_json(&client_create, sandbox);
	say_broken(sandbox);
	buf_printf(&out, "%s\n", print_text_of(sandbox, "id"));
	return message_print(client_create.name, &out);
}

static int client_cmd_create(int argc, char **argv)
{
	struct create_options o = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_CLIENT struct client *c = NULL;
	AUTO_JSON json_t *spec = NULL;
	char **words = NULL;
	int status = 0;

	if (command_operands(&client_create, argc, argv, &o, 0, 0, &words, &status)) {
		if (run_options_finish(&o.sandbox, &err) < 0 ||
		    client_open(&c, &err) < 0) {
			status = client_fail(&client_create, &err);
		} else {
			spec = spec_of(&o);
			status = volumes_ensure(c, client_create.name, &o.sandbox.mounts,
						&err) < 0
					 ? client_fail(&client_create, &err)
				 : o.count ? create_many(c, spec, &o)
					   : create_one(c, spec, &o);
		}
	}
	json_decref(o.labels);
	json_decref(o.policy);
	run_options_done(&o.sandbox);
	return status;
}

const struct command client_create = {
	.name = "create",
	.summary = "Create a sandbox and print its id.",
	.opts = &create_opts,
	.run = client_cmd_create,
};
