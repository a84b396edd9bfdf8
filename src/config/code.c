/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code.c - the section `code`: languages of code runs, and their images
 *
 *	code:
 *	  languages:
 *	    awk: { file: main.awk, run: [awk, -f, '{file}'], image: 'alpine:3' }
 *
 * A row replaces the built-in row with the same name (code/language.h). The rows contain
 * pointers to the values that were read.
 */
#include <errno.h>
#include <string.h>

#include "code/plan.h"
#include "config/config_internal.h"
#include "config/yaml.h"

void config_code_clear(struct config *c)
{
	for (size_t i = 0; i < c->n_code_rows; i++) {
		free((void *)(uintptr_t)c->code_rows[i].aliases);
		free((void *)(uintptr_t)c->code_rows[i].compile);
		free((void *)(uintptr_t)c->code_rows[i].run);
	}
	free(c->code_rows);
	json_decref(c->code_languages);
	c->code_rows = NULL;
	c->n_code_rows = 0;
	c->code_languages = NULL;
}

/* Read a list of strings; NULL: it is not one, or memory ran out. */
static const char *const *config_code_words(const json_t *list)
{
	size_t n = json_array_size(list);
	const char **words = json_is_array(list) ? calloc(n + 1, sizeof(*words)) : NULL;

	for (size_t i = 0; words && i < n; i++) {
		words[i] = json_string_value(json_array_get(list, i));
		if (!words[i]) {
			free((void *)words);
			return NULL;
		}
	}
	return words;
}

static int config_code_field(struct code_language *row, const char *name,
			     const json_t *value, struct warren_error *err)
{
	const struct {
		const char *name;
		const char **text;
		const char *const **words;
	} fields[] = {
		{ "file", &row->file, NULL },       { "image", &row->image, NULL },
		{ "package", &row->package, NULL }, { "aliases", NULL, &row->aliases },
		{ "compile", NULL, &row->compile }, { "run", NULL, &row->run },
	};

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		if (strcmp(fields[i].name, name) != 0)
			continue;
		if (fields[i].text)
			*fields[i].text = json_string_value(value);
		else
			*fields[i].words = config_code_words(value);
		if (fields[i].text ? *fields[i].text != NULL : *fields[i].words != NULL)
			return 0;
		return error_set(err, EINVAL, "%s: must be %s", name,
				 fields[i].text ? "a text" : "a list of texts");
	}
	return error_set(
		err, EINVAL,
		"'%.40s' is not a key; known: file, run, compile, image, aliases, "
		"package",
		name);
}

static int config_code_row(struct code_language *row, const char *name, json_t *in,
			   struct warren_error *err)
{
	const char *field;
	json_t *value;
	int r = 0;

	row->name = name;
	if (!json_is_object(in))
		return error_set(
			err, EINVAL,
			"must be a mapping, such as { file: main.awk, run: [awk, "
			"-f, '{file}'] }");
	json_object_foreach(in, field, value)
	{
		r = config_code_field(row, field, value, err);
		if (r < 0)
			return r;
	}
	return code_language_check(row, err);
}

int config_read_languages(struct config *c, const struct yaml *y, const json_t *in,
			  struct warren_error *err)
{
	json_t *all = json_object_get(in, "languages"), *value;
	struct warren_error why = WARREN_ERROR_INIT;
	const char *name;

	if (json_is_null(all))
		return 0;
	if (!json_is_object(all) || json_object_size(all) > CODE_LANGUAGES_MAX)
		return yaml_error(y, in, "languages", 0, err,
				  "code.languages: must be a mapping of at most %d names "
				  "to languages",
				  CODE_LANGUAGES_MAX);
	config_code_clear(c);
	c->code_languages = json_deep_copy(all);
	c->code_rows = calloc(json_object_size(all) + 1, sizeof(*c->code_rows));
	if (!c->code_languages || !c->code_rows)
		return error_errno(err, ENOMEM, "read the languages");
	json_object_foreach(c->code_languages, name, value)
	{
		if (config_code_row(&c->code_rows[c->n_code_rows++], name, value, &why) <
		    0)
			return yaml_error(y, all, name, 0, err,
					  "code.languages.%.40s: %s", name, why.msg);
	}
	return 0;
}

int check_code_image(const char *text, struct warren_error *err)
{
	const char *equals = strchr(text, '=');

	if (!equals || equals == text || !equals[1])
		return error_set(err, EINVAL,
				 "'%.80s' is not LANGUAGE=IMAGE, such as "
				 "python=python:3.11-alpine",
				 text);
	return 0;
}

/* The output is JSON, which is also YAML. */
void config_show_languages(const struct config *c, struct buf *out)
{
	char *text =
		c->code_languages ? json_dumps(c->code_languages, JSON_COMPACT) : NULL;

	if (text)
		buf_printf(out, "  languages: %s\n", text);
	free(text);
}

void config_example_languages(struct buf *out)
{
	buf_puts(
		out,
		"\n"
		"  # Additional languages by name; they can also replace built-in ones.\n"
		"  #languages:\n"
		"  #  awk: { file: main.awk, run: [awk, -f, '{file}'] }\n");
}

void config_manual_languages(struct buf *out)
{
	buf_puts(
		out,
		".Ss Languages\n"
		"The key\n"
		".Cm code.languages\n"
		"defines additional languages by name.\n"
		"A language with the name of a built-in one replaces it.\n"
		"A language has\n"
		".Cm file\n"
		"(the name of the program's file) and\n"
		".Cm run\n"
		"(the command that runs the program; {file} stands for the name of the file).\n"
		"It may also have\n"
		".Cm compile\n"
		"(a command that runs first, to compile the program),\n"
		".Cm image ,\n"
		".Cm aliases\n"
		"and\n"
		".Cm package\n"
		"(the Debian package that an error recommends).\n"
		"The first word of a command may list several programs, such as gcc|cc.\n"
		"The first one that exists in the image is used.\n"
		".Bd -literal -offset indent\n"
		"code:\n"
		"  languages:\n"
		"    awk: { file: main.awk, run: [awk, -f, '{file}'] }\n"
		".Ed\n");
}
