/* SPDX-License-Identifier: Apache-2.0 */
/* yaml.c - warren.yaml of a project, by a table of strict keys */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/did_you_mean.h"
#include "base/strv.h"
#include "config/yaml.h"
#include "setup/steps.h"
#include "setup/tree.h"

#define YAML_NAME "warren.yaml"

struct setup_yaml {
	struct yaml *y;
	struct setup_plan *plan;
};

struct yaml_key {
	const char *name;
	int (*read)(struct setup_yaml *s, const json_t *parent, const char *key,
		    void *into, struct warren_error *err);
	size_t offset; /* in the struct that .read gets */
};

/* ------------------------------------------------------------------ values */

static int yaml_memory(struct warren_error *err)
{
	return error_errno(err, ENOMEM, "read %s", YAML_NAME);
}

/* What is set already stays. */
static int yaml_text(struct setup_yaml *s, const json_t *parent, const char *key,
		     void *into, struct warren_error *err)
{
	const char *text = json_string_value(json_object_get(parent, key));
	char **ret = into;

	if (!text || !text[0])
		return yaml_error(s->y, parent, key, 0, err, "'%s' must be a string",
				  key);
	if (*ret)
		return 0;
	*ret = strdup(text);
	return *ret ? 0 : yaml_memory(err);
}

static int yaml_path(struct setup_yaml *s, const json_t *parent, const char *key,
		     void *into, struct warren_error *err)
{
	const char *text = json_string_value(json_object_get(parent, key));

	if (!text || text[0] != '/' || strstr(text, "/../") || strstr(text, "//"))
		return yaml_error(s->y, parent, key, 0, err,
				  "'%s' must be an absolute path", key);
	return yaml_text(s, parent, key, into, err);
}

static int yaml_list(struct setup_yaml *s, const json_t *parent, const char *key,
		     void *into, struct warren_error *err)
{
	const json_t *value = json_object_get(parent, key), *one;
	char ***list = into;
	size_t i;

	if (!json_is_array(value))
		return yaml_error(s->y, parent, key, 0, err,
				  "'%s' must be a list of strings", key);
	json_array_foreach(value, i, one)
	{
		const char *text = json_string_value(one);

		if (!text || !text[0])
			return yaml_error(s->y, value, NULL, i, err, "must be a string");
		if (strv_add(list, text) < 0)
			return yaml_memory(err);
	}
	return 0;
}

/* A project may hide more files; only the user may show some. */
static int yaml_hide(struct setup_yaml *s, const json_t *parent, const char *key,
		     void *into, struct warren_error *err)
{
	const json_t *value = json_object_get(parent, key), *one;
	size_t i;

	json_array_foreach(value, i, one)
	{
		const char *text = json_string_value(one);

		if (text && text[0] == '!')
			return yaml_error(
				s->y, value, NULL, i, err,
				"'%s' would show files; only --hide can do that", text);
	}
	return yaml_list(s, parent, key, into, err);
}

static bool yaml_env_has(char *const *env, const char *name)
{
	size_t n = strlen(name);

	for (; env && *env; env++)
		if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
			return true;
	return false;
}

static int yaml_env(struct setup_yaml *s, const json_t *parent, const char *key,
		    void *into, struct warren_error *err)
{
	const json_t *value = json_object_get(parent, key);
	char ***env = into;
	const char *name;
	json_t *one;

	if (!json_is_object(value))
		return yaml_error(s->y, parent, key, 0, err,
				  "'%s' must be a mapping of names to strings", key);
	json_object_foreach((json_t *)value, name, one)
	{
		AUTO_FREE char *text = NULL;

		if (!json_is_string(one) || !name[0] || strchr(name, '='))
			return yaml_error(s->y, value, name, 0, err,
					  "'%s' must be a string (write it in quotes)",
					  name);
		if (yaml_env_has(*env, name))
			continue;
		if (asprintf(&text, "%s=%s", name, json_string_value(one)) < 0) {
			text = NULL;
			return yaml_memory(err);
		}
		if (strv_add(env, text) < 0)
			return yaml_memory(err);
	}
	return 0;
}

/* -------------------------------------------------------------------- keys */

/* Read all members of @parent by a table; unknown ones are refused with a suggestion. */
static int yaml_members(struct setup_yaml *s, const json_t *parent,
			const struct yaml_key *keys, size_t n, void *into,
			struct warren_error *err)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)parent, name, value)
	{
		struct suggestion near = { .word = name };
		const struct yaml_key *key = NULL;
		int r;

		for (size_t i = 0; i < n && !key; i++) {
			suggest_consider(&near, keys[i].name);
			if (strcmp(keys[i].name, name) == 0)
				key = &keys[i];
		}
		if (!key)
			return yaml_error(s->y, parent, name, 0, err,
					  near.best
						  ? "unknown key '%s'; did you mean '%s'?"
						  : "unknown key '%s'",
					  name, near.best);
		r = key->read(s, parent, name, (char *)into + key->offset, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int yaml_dir(struct setup_yaml *s, const json_t *parent, const char *key,
		    void *into, struct warren_error *err)
{
	const char *text = json_string_value(json_object_get(parent, key));
	char **ret = into;

	*ret = text ? setup_path_below("", text) : NULL;
	return *ret ? 0
		    : yaml_error(s->y, parent, key, 0, err,
				 "'%s' must be a directory inside the project", key);
}

static const struct yaml_key yaml_step_keys[] = {
	{ "run", yaml_text, offsetof(struct setup_step, run) },
	{ "dir", yaml_dir, offsetof(struct setup_step, dir) },
	{ "files", yaml_list, offsetof(struct setup_step, files) },
	{ "verify", yaml_text, offsetof(struct setup_step, verify) },
};

/* The files of a step are relative to its directory. */
static int yaml_step_files(struct setup_yaml *s, const json_t *step,
			   struct setup_step *into, struct warren_error *err)
{
	for (char **v = into->files; v && *v; v++) {
		char *path = setup_path_below(into->dir, *v);

		if (!path || !path[0]) {
			free(path);
			return yaml_error(s->y, step, "files", 0, err,
					  "'%s' must be a file inside the project", *v);
		}
		free(*v);
		*v = path;
	}
	return 0;
}

static int yaml_step(struct setup_yaml *s, const json_t *list, size_t i,
		     struct warren_error *err)
{
	const json_t *value = json_array_get(list, i);
	struct setup_step *step;
	int r;

	if (!json_is_object(value) || !json_object_get(value, "run"))
		return yaml_error(s->y, list, NULL, i, err,
				  "a step must have the key 'run'");
	step = setup_steps_add(&s->plan->steps, err);
	if (!step)
		return -err->code;
	r = yaml_members(s, value, yaml_step_keys, ARRAY_SIZE(yaml_step_keys), step, err);
	if (r < 0)
		return r;
	step->title = strndup(step->run, strcspn(step->run, "\n"));
	step->why = strdup(YAML_NAME);
	if (!step->dir)
		step->dir = strdup("");
	if (!step->title || !step->why || !step->dir)
		return yaml_memory(err);
	return yaml_step_files(s, value, step, err);
}

static int yaml_steps(struct setup_yaml *s, const json_t *parent, const char *key,
		      void *into, struct warren_error *err)
{
	const json_t *value = json_object_get(parent, key);
	struct setup_plan *p = into;
	int r = 0;

	if (!json_is_array(value))
		return yaml_error(s->y, parent, key, 0, err, "'%s' must be a list", key);
	if (p->source != SETUP_NONE) {
		setup_plan_note(p, "%s: 'steps' are not used, because %s has commands",
				YAML_NAME, p->config);
		return 0;
	}
	p->source = SETUP_YAML; /* an empty list: nothing has to be done */
	for (size_t i = 0; r == 0 && i < json_array_size(value); i++)
		r = yaml_step(s, value, i, err);
	return r;
}

static const struct yaml_key yaml_keys[] = {
	{ "image", yaml_text, offsetof(struct setup_plan, image) },
	{ "env", yaml_env, offsetof(struct setup_plan, env) },
	{ "user", yaml_text, offsetof(struct setup_plan, user) },
	{ "workdir", yaml_path, offsetof(struct setup_plan, workdir) },
	{ "steps", yaml_steps, 0 },
	{ "allow", yaml_list, offsetof(struct setup_plan, allow) },
	{ "hide", yaml_hide, offsetof(struct setup_plan, hide) },
};

int setup_yaml(int project_fd, struct setup_plan *p, struct warren_error *err)
{
	struct setup_yaml s = { .plan = p };
	AUTO_FREE char *text = NULL;
	const json_t *root;
	size_t n = 0;
	bool built = p->build.dockerfile != NULL;
	int r = setup_tree_read(project_fd, YAML_NAME, &text, &n, err);

	if (r == -ENOENT)
		return 0;
	if (r == 0)
		r = yaml_load(YAML_NAME, text, n, &s.y, err);
	if (r < 0)
		return r;
	root = yaml_root(s.y);
	if (!json_is_object(root))
		r = error_set(err, EINVAL, "%s must be a mapping", YAML_NAME);
	else
		r = yaml_members(&s, root, yaml_keys, ARRAY_SIZE(yaml_keys), p, err);
	s.y = yaml_free(s.y);
	if (r < 0)
		return r;
	if (built) {
		free(p->image);
		p->image = NULL;
	}
	if (!p->config)
		p->config = strdup(YAML_NAME);
	return p->config ? 1 : yaml_memory(err);
}

int setup_plan_hide(int project_fd, char ***ret, struct warren_error *err)
{
	AUTO_SETUP_PLAN struct setup_plan p = { 0 };
	int r = setup_yaml(project_fd, &p, err);

	if (r < 0)
		return r;
	*ret = TAKE_PTR(p.hide);
	return 0;
}
