/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read.c - read the configuration from its file and from options; every error names the
 * line or the option
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/did_you_mean.h"
#include "config/config_internal.h"
#include "config/yaml.h"

#define QUOTE_MAX 100

/* ----------------------------------------------------------------- configuration file */

struct reader {
	struct config *c;
	const struct yaml *y;
};

/* Is @name a section: are there keys that begin with it and a dot? */
static bool is_section(const char *name)
{
	for (size_t i = 0; i < config_n_sections; i++)
		if (config_sections[i].name[0] &&
		    strcmp(config_sections[i].name, name) == 0)
			return true;
	return false;
}

/* Find the most similar word in section @section. */
static const char *read_nearest(const char *section, const char *name)
{
	struct suggestion s = { .word = name };
	size_t len = strlen(section);

	for (size_t i = 0; i < config_n_keys; i++) {
		size_t at;
		const char *leaf = config_leaf(&config_keys[i], &at);

		if (at == len && strncmp(config_keys[i].name, section, len) == 0)
			suggest_consider(&s, leaf);
	}
	for (size_t i = 1; len == 0 && i < config_n_sections; i++)
		suggest_consider(&s, config_sections[i].name);
	if (len == 0)
		suggest_consider(&s, "backends");
	return s.best;
}

static int unknown_key(const struct reader *rd, const json_t *in, const char *section,
		       const char *name, struct warren_error *err)
{
	const char *near = read_nearest(section, name);

	if (!near)
		return yaml_error(rd->y, in, name, 0, err,
				  "'%.*s' is not a key; see warren.yaml(5) for the list",
				  QUOTE_MAX, name);
	return yaml_error(rd->y, in, name, 0, err,
			  "'%.*s' is not a key, did you mean '%s'?", QUOTE_MAX, name,
			  near);
}

/* Convert a scalar to a word, if keys of @type may have it. */
static int scalar_word(const json_t *value, enum config_type type, char *out, size_t size)
{
	bool number = type == TYPE_NUMBER || type == TYPE_SIZE || type == TYPE_CPUS;
	bool text = type != TYPE_BOOL && type != TYPE_NUMBER;
	int n = -1;

	if (json_is_boolean(value) && type == TYPE_BOOL)
		n = snprintf(out, size, "%s", json_is_true(value) ? "true" : "false");
	else if (json_is_integer(value) && number)
		n = snprintf(out, size, "%lld", (long long)json_integer_value(value));
	else if (json_is_real(value) && type == TYPE_CPUS)
		n = snprintf(out, size, "%.9g", json_real_value(value));
	else if (json_is_string(value) && text)
		n = snprintf(out, size, "%s", json_string_value(value));
	return n < 0 || (size_t)n >= size ? -EINVAL : 0;
}

/* Describe the form of a key's values, for error messages. */
static const char *form_of(const struct config_key *key)
{
	return config_type_form(key->type == TYPE_LIST ? TYPE_TEXT : key->type);
}

/* @value is in @in, with the name @name or the number @index. */
static int read_scalar(struct reader *rd, const struct config_key *key, const json_t *in,
		       const char *name, size_t index, struct warren_error *err)
{
	const json_t *value =
		name ? json_object_get(in, name) : json_array_get(in, index);
	struct warren_error inner = WARREN_ERROR_INIT;
	enum config_type type = key->type == TYPE_LIST ? TYPE_TEXT : key->type;
	char word[4096];
	bool none = key->none && json_is_string(value) &&
		    strcmp(json_string_value(value), "none") == 0;

	if (!none && scalar_word(value, type, word, sizeof(word)) < 0)
		return yaml_error(rd->y, in, name, index, err, "%s: must be %s",
				  key->name, form_of(key));
	if (config_set(rd->c, key, none ? "none" : word, &inner) < 0)
		return yaml_error(rd->y, in, name, index, err, "%s: %.*s", key->name, 360,
				  inner.msg);
	return 0;
}

static int read_key(struct reader *rd, const struct config_key *key, const json_t *in,
		    const char *name, struct warren_error *err)
{
	const json_t *value = json_object_get(in, name);
	int r = 0;

	rd->c->given[key - config_keys] = true;
	if (key->type != TYPE_LIST)
		return read_scalar(rd, key, in, name, 0, err);
	if (!json_is_array(value))
		return yaml_error(rd->y, in, name, 0, err, "%s: must be %s", key->name,
				  config_type_form(TYPE_LIST));
	config_list_clear(config_field(rd->c, key));
	for (size_t i = 0; r == 0 && i < json_array_size(value); i++)
		r = read_scalar(rd, key, value, NULL, i, err);
	return r;
}

/* Read the mapping of a section; "": the top of the file. */
static int read_mapping(struct reader *rd, const json_t *in, const char *section,
			struct warren_error *err)
{
	json_t *object = (json_t *)in, *value;
	const char *name;
	int r = 0;

	json_object_foreach(object, name, value)
	{
		char path[128];
		const struct config_key *key;

		(void)snprintf(path, sizeof(path), "%s%s%.80s", section,
			       section[0] ? "." : "", name);
		key = strchr(name, '.') ? NULL : config_find(path, strlen(path));
		if (key)
			r = read_key(rd, key, in, name, err);
		else if (strcmp(path, "backends") == 0)
			r = config_read_backends(rd->c, rd->y, in, err);
		else if (strcmp(path, "templates") == 0)
			r = config_read_templates(rd->c, rd->y, in, err);
		else if (strcmp(path, "network") == 0)
			r = config_read_network(rd->c, rd->y, in, err);
		else if (strcmp(path, "code.languages") == 0)
			r = config_read_languages(rd->c, rd->y, in, err);
		else if (section[0] || !is_section(name))
			r = unknown_key(rd, in, section, name, err);
		else if (json_is_object(value))
			r = read_mapping(rd, value, name, err);
		/* A section whose keys are all commented out is null. */
		else if (!json_is_null(value))
			r = yaml_error(rd->y, in, name, 0, err,
				       "%s: must be a section of keys", name);
		if (r < 0)
			break;
	}
	return r;
}

static int read_document(struct config *c, const struct yaml *y, struct warren_error *err)
{
	struct reader rd = { .c = c, .y = y };

	return read_mapping(&rd, yaml_root(y), "", err);
}

int config_read_file(struct config *c, const char *path, struct warren_error *err)
{
	AUTO_YAML struct yaml *y = NULL;
	int r = yaml_load_file(path, &y, err);

	return r < 0 ? r : read_document(c, y, err);
}

int config_read_text(struct config *c, const char *name, const char *text, size_t size,
		     struct warren_error *err)
{
	AUTO_YAML struct yaml *y = NULL;
	int r = yaml_load(name, text, size, &y, err);

	return r < 0 ? r : read_document(c, y, err);
}

/* -------------------------------------------------------- options of the command line */

static const struct config_key *find_flag(const char *name, size_t len)
{
	for (size_t i = 0; i < config_n_keys; i++) {
		char flag[CONFIG_FLAG_SIZE];

		config_flag_name(&config_keys[i], flag);
		if (strlen(flag) == len && strncmp(flag, name, len) == 0)
			return &config_keys[i];
	}
	return NULL;
}

static int read_flag(struct config *c, const struct config_key *key, const char *word,
		     bool seen[CONFIG_KEYS_MAX], struct warren_error *err)
{
	struct warren_error inner = WARREN_ERROR_INIT;
	const size_t at = (size_t)(key - config_keys);
	char flag[CONFIG_FLAG_SIZE];

	/* The first item of a list replaces the list of the file. */
	if (key->type == TYPE_LIST && !seen[at])
		config_list_clear(config_field(c, key));
	seen[at] = true;
	c->given[at] = true;
	if (config_set(c, key, word, &inner) == 0)
		return 0;
	config_flag_name(key, flag);
	return error_set(err, inner.code, "--%s: %.*s", flag, 360, inner.msg);
}

int config_read_flags(struct config *c, int argc, char *const *argv, int *ret_first,
		      struct warren_error *err)
{
	bool seen[CONFIG_KEYS_MAX] = { 0 };
	int i = 1;

	while (i < argc && strncmp(argv[i], "--", 2) == 0 && argv[i][2]) {
		const char *name = argv[i] + 2;
		const char *equals = strchr(name, '=');
		size_t len = equals ? (size_t)(equals - name) : strlen(name);
		const struct config_key *key = find_flag(name, len);
		int r;

		if (!key)
			break;
		if (!equals && i + 1 == argc)
			return error_set(err, EINVAL, "%s needs a value: %s", argv[i],
					 form_of(key));
		r = read_flag(c, key, equals ? equals + 1 : argv[i + 1], seen, err);
		if (r < 0)
			return r;
		i += equals ? 1 : 2;
	}
	*ret_first = i;
	return 0;
}

int config_unknown_flag(const char *word, struct warren_error *err)
{
	char names[CONFIG_KEYS_MAX][CONFIG_FLAG_SIZE];
	char name[CONFIG_FLAG_SIZE] = "";
	struct suggestion s = { .word = name };

	if (strncmp(word, "--", 2) == 0)
		(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="),
			       word + 2);
	for (size_t i = 0; i < config_n_keys; i++) {
		config_flag_name(&config_keys[i], names[i]);
		suggest_consider(&s, names[i]);
	}
	if (s.best)
		return error_set(err, EINVAL, "unknown option '%.*s', did you mean --%s?",
				 QUOTE_MAX, word, s.best);
	return error_set(err, EINVAL,
			 "unknown option '%.*s' (see --help; example: warren serve "
			 "--listen unix:/run/warren/warren.sock)",
			 QUOTE_MAX, word);
}
