/* SPDX-License-Identifier: Apache-2.0 */
/* schema.c - the arguments and results of tools, as tables */
#include "api/mcp/schema.h"

#include <inttypes.h>
#include <string.h>

static const char *const type_names[] = {
	[MCP_STRING] = "string",     [MCP_INTEGER] = "integer",
	[MCP_BOOLEAN] = "boolean",   [MCP_STRING_MAP] = "object",
	[MCP_VALUE_MAP] = "object",  [MCP_LIST] = "array",
	[MCP_STRING_LIST] = "array",
};

static void schema_write_words(struct json *j, const char *words)
{
	json_open(j, "enum", '[');
	while (*words) {
		size_t n = strcspn(words, " ");

		json_strn(j, NULL, words, n);
		words += n + (words[n] == ' ');
	}
	json_close(j, ']');
}

static void schema_write_bounds(struct json *j, const struct mcp_field *f)
{
	if (f->min == 0 && f->max == 0)
		return;
	if (f->type == MCP_INTEGER) {
		json_int(j, "minimum", f->min);
		json_int(j, "maximum", f->max);
	} else if (f->type == MCP_STRING && f->min > 0) {
		/* Counts characters; Warren's minimum counts bytes. */
		json_int(j, "minLength", 1);
	} else if (f->type == MCP_STRING_MAP || f->type == MCP_VALUE_MAP) {
		json_int(j, "maxProperties", f->max);
	} else if (f->type == MCP_STRING_LIST) {
		json_int(j, "maxItems", f->max);
	}
}

static void schema_write_values(struct json *j, bool integers)
{
	static const char *const types[] = { "string", "integer" };

	json_open(j, "additionalProperties", '{');
	if (!integers) {
		json_str(j, "type", "string");
	} else {
		/*
		 * Do not write a list of types: some clients support only one type at a
		 * time.
		 */
		json_open(j, "anyOf", '[');
		for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
			json_open(j, NULL, '{');
			json_str(j, "type", types[i]);
			json_close(j, '}');
		}
		json_close(j, ']');
	}
	json_close(j, '}');
}

static void schema_write_field(struct json *j, const struct mcp_field *f)
{
	json_open(j, f->name, '{');
	json_str(j, "type", type_names[f->type]);
	json_str(j, "description", f->about);
	if (f->words)
		schema_write_words(j, f->words);
	schema_write_bounds(j, f);
	if (f->type == MCP_INTEGER && f->fallback)
		json_int(j, "default", f->fallback);
	if (f->type == MCP_STRING_MAP || f->type == MCP_VALUE_MAP)
		schema_write_values(j, f->type == MCP_VALUE_MAP);
	if (f->type == MCP_LIST)
		schema_write(j, "items", &(struct mcp_object){ f->items, f->n_items },
			     false);
	if (f->type == MCP_STRING_LIST) {
		json_open(j, "items", '{');
		json_str(j, "type", "string");
		json_close(j, '}');
	}
	json_close(j, '}');
}

void schema_write(struct json *j, const char *key, const struct mcp_object *object,
		  bool closed)
{
	bool any = false;

	json_open(j, key, '{');
	json_str(j, "type", "object");
	json_open(j, "properties", '{');
	for (size_t i = 0; i < object->n; i++) {
		schema_write_field(j, &object->fields[i]);
		any = any || object->fields[i].required;
	}
	json_close(j, '}');
	if (any) {
		json_open(j, "required", '[');
		for (size_t i = 0; i < object->n; i++)
			if (object->fields[i].required)
				json_str(j, NULL, object->fields[i].name);
		json_close(j, ']');
	}
	if (closed)
		json_bool(j, "additionalProperties", false);
	json_close(j, '}');
}

const struct mcp_field *schema_find(const struct mcp_object *object, const char *name)
{
	for (size_t i = 0; i < object->n; i++)
		if (strcmp(object->fields[i].name, name) == 0)
			return &object->fields[i];
	return NULL;
}

static bool schema_has_word(const char *words, const char *text)
{
	size_t n = strlen(text);

	while (*words) {
		size_t word = strcspn(words, " ");

		if (word == n && memcmp(words, text, n) == 0)
			return true;
		words += word + (words[word] == ' ');
	}
	return false;
}

static bool schema_is_plain(const json_t *value)
{
	return json_is_string(value) &&
	       strlen(json_string_value(value)) == json_string_length(value);
}

static bool schema_check_string(const struct mcp_field *f, const json_t *value,
				struct buf *why)
{
	size_t n = json_string_length(value);

	if (!f->nul && !schema_is_plain(value))
		buf_printf(why, "%s: must not contain U+0000", f->name);
	else if (f->words && !schema_has_word(f->words, json_string_value(value)))
		buf_printf(why, "%s: must be one of: %s", f->name, f->words);
	else if (f->max && n > (size_t)f->max)
		buf_printf(why, "%s: has %zu bytes; the maximum is %" PRId64, f->name, n,
			   f->max);
	else if (n < (size_t)f->min)
		buf_printf(why, "%s: must not be empty", f->name);
	else
		return true;
	return false;
}

static bool schema_check_values(const struct mcp_field *f, const json_t *value,
				struct buf *why)
{
	const char *key;
	json_t *item;

	json_object_foreach((json_t *)(uintptr_t)value, key, item)
	{
		if (schema_is_plain(item) ||
		    (f->type == MCP_VALUE_MAP && json_is_integer(item)))
			continue;
		buf_printf(why, "%s: the value of '%.64s' must be a string%s", f->name,
			   key, f->type == MCP_VALUE_MAP ? " or an integer" : "");
		return false;
	}
	return true;
}

static bool schema_check_list(const struct mcp_field *f, const json_t *value,
			      struct buf *why)
{
	for (size_t i = 0; i < json_array_size(value); i++)
		if (!schema_is_plain(json_array_get(value, i))) {
			buf_printf(why, "%s: element %zu must be a string", f->name, i);
			return false;
		}
	return true;
}

static bool schema_check_field(const struct mcp_field *f, const json_t *value,
			       struct buf *why)
{
	static const json_type types[] = {
		[MCP_STRING] = JSON_STRING,     [MCP_INTEGER] = JSON_INTEGER,
		[MCP_BOOLEAN] = JSON_TRUE,      [MCP_STRING_MAP] = JSON_OBJECT,
		[MCP_VALUE_MAP] = JSON_OBJECT,  [MCP_LIST] = JSON_ARRAY,
		[MCP_STRING_LIST] = JSON_ARRAY,
	};
	json_type type = json_is_false(value) ? JSON_TRUE : json_typeof(value);
	int64_t number = json_integer_value(value);

	if (type != types[f->type]) {
		buf_printf(why, "%s: must be %s %s", f->name,
			   strchr("aio", type_names[f->type][0]) ? "an" : "a",
			   type_names[f->type]);
		return false;
	}
	/* At least one of these sizes is 0. Check the size first, because the following
	 * checks take time for each member. */
	if (f->max && json_object_size(value) + json_array_size(value) > (size_t)f->max) {
		buf_printf(why, "%s: has %zu members; the maximum is %" PRId64, f->name,
			   json_object_size(value) + json_array_size(value), f->max);
		return false;
	}
	if (type == JSON_STRING)
		return schema_check_string(f, value, why);
	if (type == JSON_OBJECT)
		return schema_check_values(f, value, why);
	if (type == JSON_ARRAY)
		return schema_check_list(f, value, why);
	if (type == JSON_INTEGER && (f->min || f->max) &&
	    (number < f->min || number > f->max)) {
		buf_printf(why,
			   "%s: must be from %" PRId64 " to %" PRId64 ", is %" PRId64,
			   f->name, f->min, f->max, number);
		return false;
	}
	return true;
}

bool schema_check(const struct mcp_object *object, const json_t *args, struct buf *why)
{
	const char *key;
	json_t *value;

	for (size_t i = 0; i < object->n; i++)
		if (object->fields[i].required &&
		    !json_object_get(args, object->fields[i].name)) {
			buf_printf(why, "%s: this argument is required",
				   object->fields[i].name);
			return false;
		}
	json_object_foreach((json_t *)(uintptr_t)args, key, value)
	{
		const struct mcp_field *f = schema_find(object, key);

		if (f && schema_check_field(f, value, why))
			continue;
		if (f)
			return false;
		buf_printf(why,
			   "%.64s: there is no such argument; known arguments:", key);
		for (size_t i = 0; i < object->n; i++)
			buf_printf(why, "%s %s", i ? "," : "", object->fields[i].name);
		return false;
	}
	return true;
}
