/* SPDX-License-Identifier: Apache-2.0 */
/* spec.c - convert options to JSON, and create a sandbox from it */
#include "cli/client/spec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/client/commands.h"
#include "cli/client/progress.h"
#include "cli/run_signal.h"
#include "spec/spec.h"

#define SLICE_MS       500 /* maximum time until a signal is noticed */
#define SPEC_RULES_MAX (16U << 20)

void spec_put_number(json_t *object, const char *key, uint64_t value)
{
	if (value)
		(void)json_object_set_new(object, key, json_integer((json_int_t)value));
}

/*
 * Keep text that is not UTF-8: it is refused when the request is written, and must not be
 * dropped silently.
 */
void spec_put_text(json_t *object, const char *key, const char *value)
{
	if (value)
		(void)json_object_set_new_nocheck(object, key,
						  json_string_nocheck(value));
}

json_t *words_json(char *const *words, size_t n)
{
	json_t *array = json_array();

	for (size_t i = 0; i < n; i++)
		(void)json_array_append_new(array, json_string_nocheck(words[i]));
	return array;
}

json_t *env_json(const struct env_list *env)
{
	json_t *object = env->n ? json_object() : NULL;

	for (size_t i = 0; object && i < env->n; i++) {
		const char *equals = strchr(env->v[i], '=');
		char *name = strndup(env->v[i], (size_t)(equals - env->v[i]));

		if (name)
			spec_put_text(object, name, equals + 1);
		free(name);
	}
	return object;
}

static json_t *mount_json(const struct warren_mount *m)
{
	json_t *object = json_object();

	spec_put_text(object, m->volume ? "volume" : "source", m->source);
	spec_put_text(object, "target", m->target);
	spec_put_number(object, "size", m->size);
	if (m->read_only)
		(void)json_object_set_new(object, "read_only", json_true());
	return object;
}

void spec_put_limits(json_t *object, const uint64_t limits[SPEC_LIMIT_MAX])
{
	json_t *given = json_object();

	for (size_t i = 0; i < SPEC_LIMIT_MAX; i++)
		spec_put_number(given, spec_limits[i].name, limits[i]);
	if (json_object_size(given) > 0)
		(void)json_object_set(object, "limits", given);
	json_decref(given);
}

static json_t *spec_rules_json(const struct rules *rules)
{
	AUTO_BUF struct buf text = BUF_INIT(SPEC_RULES_MAX);
	struct json j = { .out = &text };

	json_open(&j, NULL, '[');
	for (size_t i = 0; i < rules->n; i++)
		rule_write(&rules->list[i], &j, NULL);
	json_close(&j, ']');
	return text.failed ? NULL : json_loads(text.data, 0, NULL);
}

/* Convert the words of --network to an array. */
static json_t *spec_capabilities_json(const char *list)
{
	json_t *array = json_array();

	for (const char *word = list;; word++) {
		size_t n = strcspn(word, ",");

		(void)json_array_append_new(array, json_stringn(word, n));
		word += n;
		if (!*word)
			return array;
	}
}

void spec_put_network(json_t *object, const struct network_options *o)
{
	bool learn = network_options_learn(o);
	struct warren_error ignored = WARREN_ERROR_INIT;
	AUTO_POLICY struct policy open = { 0 };
	const struct policy *rules = learn ? &open : &o->rules;
	json_t *network;

	/* `learn` exists only on the command line; the service gets the rule that it
	 * stands for. */
	if (learn && network_options_policy(o, &open, &ignored) < 0)
		return;
	if (rules->allow.n == 0 && rules->deny.n == 0) {
		spec_put_text(object, "network", o->mode);
		return;
	}
	network = json_object();
	if (o->mode && !learn && strcmp(o->mode, "loopback") != 0)
		(void)json_object_set_new(network, "capabilities",
					  spec_capabilities_json(o->mode));
	if (rules->allow.n)
		(void)json_object_set_new(network, "allow",
					  spec_rules_json(&rules->allow));
	if (rules->deny.n)
		(void)json_object_set_new(network, "deny", spec_rules_json(&rules->deny));
	(void)json_object_set_new(object, "network", network);
}

json_t *spec_json(const struct run_options *o)
{
	static const char *const pulls[] = {
		[PULL_MISSING] = NULL, /* the default */
		[PULL_ALWAYS] = "always",
		[PULL_NEVER] = "never",
	};
	json_t *spec = json_object(), *mounts;

	spec_put_text(spec, "image", o->image);
	spec_put_text(spec, "pull", pulls[o->pull]);
	spec_put_text(spec, "platform", o->platform);
	spec_put_text(spec, "backend", o->backend);
	spec_put_text(spec, "tier", o->tier);
	spec_put_text(spec, "hostname", o->hostname);
	spec_put_text(spec, "user", o->user);
	spec_put_text(spec, "workdir", o->workdir);
	spec_put_network(spec, &o->network);
	if (o->read_only)
		(void)json_object_set_new(spec, "read_only", json_true());
	spec_put_limits(spec, o->limits);
	mounts = json_array();
	for (size_t i = 0; i < o->mounts.n; i++)
		(void)json_array_append_new(mounts, mount_json(&o->mounts.v[i]));
	if (o->mounts.n)
		(void)json_object_set(spec, "mounts", mounts);
	json_decref(mounts);
	return spec;
}

/* ----------------------------------------------------------- values of options */

int value_label(void *field, const char *value, struct warren_error *err)
{
	json_t **labels = field;
	const char *equals = strchr(value, '=');
	AUTO_FREE char *key = NULL;

	if (!*value || equals == value)
		return error_set(err, EINVAL, "'%s' is not KEY=VALUE", value);
	key = strndup(value, equals ? (size_t)(equals - value) : strlen(value));
	if (!*labels)
		*labels = json_object();
	if (!key ||
	    json_object_set_new(*labels, key, json_string(equals ? equals + 1 : "")) < 0)
		return error_set(err, EINVAL, "'%s' is not UTF-8", value);
	return 0;
}

int value_word(void *field, const char *value, struct warren_error *err)
{
	json_t **words = field;

	if (!*value)
		return error_set(err, EINVAL, "it is empty");
	if (!*words)
		*words = json_array();
	if (json_array_append_new(*words, json_string(value)) < 0)
		return error_set(err, EINVAL, "'%s' is not UTF-8", value);
	return 0;
}

/* -------------------------------------------------------------- creation and deletion */

int delete_sandbox(struct client *c, const char *id, struct warren_error *err)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s", id);
	return client_call(c, "DELETE", path, NULL, NULL, err);
}

/* Report a sandbox whose creation failed. */
static int check_made(struct client *c, const json_t *made, struct warren_error *err)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	int r;

	if (!print_is_over(made))
		return 0;
	r = error_set(err, EREMOTEIO, "%s", print_text_of(made, "error"));
	(void)!delete_sandbox(c, print_text_of(made, "id"), &ignored);
	return r;
}

/* Return the text for the progress line. */
static const char *spec_about(const json_t *spec)
{
	static char text[128];
	const char *image = print_text_of(spec, "image");

	(void)snprintf(text, sizeof(text), "creating a sandbox from %.100s",
		       *image ? image : "the default image");
	return text;
}

int spec_make_sandbox(struct client *c, const json_t *spec, json_t **ret,
		      struct warren_error *err)
{
	AUTO_JSON json_t *made = NULL;
	int r;

	progress_about(spec_about(spec));
	r = client_call(c, "POST", "/v1/sandboxes", spec, &made, err);
	progress_about(NULL);
	if (r == 0)
		r = check_made(c, made, err);
	if (r == 0)
		*ret = TAKE_PTR(made);
	return r;
}

/* Wait until the sandbox runs or has failed; *@sandbox is then its current state. */
static int wait_made(struct client *c, int signals, json_t **sandbox,
		     struct warren_error *err)
{
	char id[ID_LEN + 1], path[128];
	struct progress p;
	int r = 0;

	(void)snprintf(id, sizeof(id), "%s", print_text_of(*sandbox, "id"));
	(void)snprintf(path, sizeof(path),
		       "/v1/sandboxes/%s/wait?state=running&state=failed&timeout_ms=%d",
		       id, SLICE_MS);
	progress_begin(&p);
	while (r == 0 && strcmp(print_text_of(*sandbox, "state"), "creating") == 0) {
		AUTO_JSON json_t *answer = NULL;
		int sig = signals_next(signals);

		if (sig > 0 && signal_ends(sig)) {
			progress_end(&p);
			(void)!delete_sandbox(c, id, err);
			return error_set(err, EINTR,
					 "interrupted before the command was started");
		}
		progress_tick(&p);
		r = client_call(c, "GET", path, NULL, &answer, err);
		if (r == 0 && json_object_get(answer, "sandbox")) {
			json_decref(*sandbox);
			*sandbox = json_incref(json_object_get(answer, "sandbox"));
		}
	}
	progress_end(&p);
	return r;
}

int make_passing_sandbox(struct client *c, json_t *spec, json_t **ret,
			 struct warren_error *err)
{
	AUTO_JSON json_t *made = NULL;
	AUTO_CLOSE int signals = -1;
	sigset_t set;
	int r;

	signals_block(false, &set);
	signals = signals_open(&set, err);
	if (signals < 0)
		return signals;
	(void)json_object_set_new(spec, "wait_ms", json_integer(0));
	r = client_call(c, "POST", "/v1/sandboxes", spec, &made, err);
	progress_about(spec_about(spec));
	if (r == 0)
		r = wait_made(c, signals, &made, err);
	progress_about(NULL);
	if (r == 0)
		r = check_made(c, made, err);
	if (r == 0)
		*ret = TAKE_PTR(made);
	return r;
}
