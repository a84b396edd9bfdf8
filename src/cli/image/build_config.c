/* SPDX-License-Identifier: Apache-2.0 */
/* build_config.c - the configuration of an image that is built */
#include <errno.h>
#include <string.h>

#include "base/strv.h"
#include "base/utf8.h"
#include "cli/image/build.h"
#include "image/oci.h"
#include "image/oci_json.h"

#define CREATED_BY_MAX 8192

json_t *build_config_empty(void)
{
	const char *platform = oci_platform(), *slash = strchr(platform, '/');

	return json_pack("{s:s%,s:s,s:{},s:{s:s,s:[]}}", "os", platform,
			 (size_t)(slash - platform), "architecture", slash + 1, "config",
			 "rootfs", "type", "layers", "diff_ids");
}

int build_config_read(const struct store *s, const char *id, json_t **ret,
		      struct warren_error *err)
{
	AUTO_FREE char *text = NULL;
	int r = store_read_json(s, id, "config.json", &text);

	if (r < 0)
		return error_errno(err, -r, "read the configuration of '%s'", id);
	*ret = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(*ret))
		return error_set(err, EBADMSG, "the configuration of '%s' is damaged",
				 id);
	return 0;
}

/* ------------------------------------------------------------------ inherit */

static int build_config_get_text(const json_t *c, const char *key, char **ret)
{
	const char *text = json_string_value(json_object_get(c, key));

	if (!text || !*text)
		return 0;
	*ret = strdup(text);
	return *ret ? 0 : -ENOMEM;
}

static int build_config_get_list(const json_t *c, const char *key, char ***ret)
{
	const json_t *list = json_object_get(c, key), *item;
	size_t i;
	int r = 0;

	json_array_foreach(list, i, item) if (r == 0 && json_is_string(item)) r =
		strv_add(ret, json_string_value(item));
	return r;
}

/* The keys of an object, or "key=value". */
static int build_config_get_keys(const json_t *c, const char *key, bool values,
				 char ***ret)
{
	json_t *object = json_object_get(c, key), *value;
	const char *name;
	int r = 0;

	json_object_foreach(object, name, value)
	{
		if (r == 0 && values && json_is_string(value))
			r = dockerfile_var_set(ret, name, strlen(name),
					       json_string_value(value));
		else if (r == 0 && !values)
			r = strv_add(ret, name);
	}
	return r;
}

static uint64_t build_config_get_number(const json_t *c, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(c, key));

	return n > 0 ? (uint64_t)n : 0;
}

int build_config_state(const json_t *config, struct dockerfile_state *ret,
		       struct warren_error *err)
{
	const json_t *c = json_object_get(config, "config");
	const json_t *health = json_object_get(c, "Healthcheck");
	struct dockerfile_state s = { 0 };
	const struct {
		const char *key;
		char ***list;
	} lists[] = { { "Env", &s.env },
		      { "Shell", &s.shell },
		      { "Cmd", &s.cmd },
		      { "Entrypoint", &s.entrypoint } };
	int r = 0;

	if (json_array_size(json_object_get(c, "OnBuild")) > 0)
		return error_set(err, ENOTSUP,
				 "the image has ONBUILD instructions, which are not "
				 "supported");
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(lists); i++)
		r = build_config_get_list(c, lists[i].key, lists[i].list);
	if (r == 0)
		r = build_config_get_list(health, "Test", &s.health.test);
	s.health.interval = build_config_get_number(health, "Interval");
	s.health.timeout = build_config_get_number(health, "Timeout");
	s.health.start_period = build_config_get_number(health, "StartPeriod");
	s.health.start_interval = build_config_get_number(health, "StartInterval");
	s.health.retries = build_config_get_number(health, "Retries");
	if (r == 0)
		r = build_config_get_text(c, "User", &s.user);
	if (r == 0)
		r = build_config_get_text(c, "WorkingDir", &s.workdir);
	if (r == 0)
		r = build_config_get_text(c, "StopSignal", &s.stop_signal);
	if (r == 0)
		r = build_config_get_keys(c, "Labels", true, &s.labels);
	if (r == 0)
		r = build_config_get_keys(c, "ExposedPorts", false, &s.exposed);
	if (r == 0)
		r = build_config_get_keys(c, "Volumes", false, &s.volumes);
	if (r < 0) {
		dockerfile_state_done(&s);
		return error_errno(err, -r, "read the configuration of the image");
	}
	*ret = s;
	return 0;
}

/* -------------------------------------------------------------------- write */

static void build_config_set_text(json_t *c, const char *key, const char *text)
{
	if (text)
		(void)json_object_set_new(c, key, json_string(text));
	else
		(void)json_object_del(c, key);
}

static json_t *build_config_array(char *const *list)
{
	json_t *array = json_array();

	for (; list && *list; list++)
		(void)json_array_append_new(array, json_string(*list));
	return array;
}

static void build_config_set_list(json_t *c, const char *key, char *const *list)
{
	if (list)
		(void)json_object_set_new(c, key, build_config_array(list));
	else
		(void)json_object_del(c, key);
}

/* Set an object with these keys; the values are empty objects, or the text after '='. */
static void build_config_set_keys(json_t *c, const char *key, char *const *list,
				  bool values)
{
	json_t *object;

	if (!list) {
		(void)json_object_del(c, key);
		return;
	}
	object = json_object();
	for (; *list; list++) {
		AUTO_FREE char *name = strdup(*list);
		char *value = name && values ? strchr(name, '=') : NULL;

		if (value)
			*value++ = '\0';
		if (name)
			(void)json_object_set_new(
				object, name, value ? json_string(value) : json_object());
	}
	(void)json_object_set_new(c, key, object);
}

static void build_config_set_health(json_t *c, const struct dockerfile_health *h)
{
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = { { "Interval", h->interval },
			{ "Timeout", h->timeout },
			{ "StartPeriod", h->start_period },
			{ "StartInterval", h->start_interval },
			{ "Retries", h->retries } };
	json_t *object;

	if (!h->test) {
		(void)json_object_del(c, "Healthcheck");
		return;
	}
	object = json_object();
	(void)json_object_set_new(object, "Test", build_config_array(h->test));
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if (numbers[i].value)
			(void)json_object_set_new(
				object, numbers[i].key,
				json_integer((json_int_t)numbers[i].value));
	(void)json_object_set_new(c, "Healthcheck", object);
}

void build_config_history(json_t *config, const char *created, const char *by,
			  bool has_layer)
{
	json_t *history = json_object_get(config, "history"), *entry = json_object();
	char text[CREATED_BY_MAX];

	(void)snprintf(text, sizeof(text), "%s", by);
	text[strlen(text) - utf8_cut(text, strlen(text))] = '\0';
	if (!json_is_array(history)) {
		history = json_array();
		(void)json_object_set_new(config, "history", history);
	}
	if (*created)
		(void)json_object_set_new(config, "created", json_string(created));
	else
		created = json_string_value(json_object_get(config, "created"));
	if (created)
		(void)json_object_set_new(entry, "created", json_string(created));
	(void)json_object_set_new(entry, "created_by", json_string(text));
	if (!has_layer)
		(void)json_object_set_new(entry, "empty_layer", json_true());
	(void)json_array_append_new(history, entry);
}

char *build_config_text(const json_t *config, const struct dockerfile_state *s,
			char *const *layers)
{
	json_t *root = json_deep_copy(config), *c, *rootfs;
	char *text;

	c = json_object_get(root, "config");
	if (!json_is_object(c)) {
		c = json_object();
		(void)json_object_set_new(root, "config", c);
	}
	build_config_set_text(c, "User", s->user);
	build_config_set_text(c, "WorkingDir", s->workdir);
	build_config_set_text(c, "StopSignal", s->stop_signal);
	build_config_set_list(c, "Env", s->env);
	build_config_set_list(c, "Shell", s->shell);
	build_config_set_list(c, "Cmd", s->cmd);
	build_config_set_list(c, "Entrypoint", s->entrypoint);
	build_config_set_keys(c, "Labels", s->labels, true);
	build_config_set_keys(c, "ExposedPorts", s->exposed, false);
	build_config_set_keys(c, "Volumes", s->volumes, false);
	build_config_set_health(c, &s->health);
	if (s->maintainer)
		build_config_set_text(root, "author", s->maintainer);
	/* These describe the container that the base was built in. */
	(void)json_object_del(root, "container");
	(void)json_object_del(root, "container_config");
	rootfs = json_pack("{s:s}", "type", "layers");
	(void)json_object_set_new(rootfs, "diff_ids", build_config_array(layers));
	(void)json_object_set_new(root, "rootfs", rootfs);
	text = json_dumps(root, JSON_COMPACT);
	json_decref(root);
	return text;
}

char *build_config_layers(const char *created, const struct store_image *parent,
			  const char *diff_id)
{
	json_t *root = build_config_empty(), *rootfs,
	       *ids = build_config_array(parent->layers);
	char *text;

	rootfs = json_object_get(root, "rootfs");
	(void)json_array_append_new(ids, json_string(diff_id));
	(void)json_object_set_new(rootfs, "diff_ids", ids);
	(void)json_object_set_new(root, "created", json_string(created));
	if (parent->base && parent->base[0])
		(void)json_object_set_new(root, "warren.base", json_string(parent->base));
	text = json_dumps(root, JSON_COMPACT);
	json_decref(root);
	return text;
}
