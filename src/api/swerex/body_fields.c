/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body_fields.c - the fields of a body
 *
 * Errors about a field have the format of FastAPI. An unknown field is refused, because
 * it would be ignored otherwise.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/swerex/internal.h"

static bool all_texts(const json_t *array)
{
	for (size_t i = 0; i < json_array_size(array); i++)
		if (!json_is_string(json_array_get(array, i)))
			return false;
	return json_is_array(array);
}

static bool is_text(const json_t *v)
{
	return json_is_string(v);
}

static bool is_command(const json_t *v)
{
	return json_is_string(v) || all_texts(v);
}

static bool is_number(const json_t *v)
{
	return json_is_number(v) && isfinite(json_number_value(v)) &&
	       fabs(json_number_value(v)) < 1e12;
}

static bool is_maybe_number(const json_t *v)
{
	return json_is_null(v) || is_number(v);
}

static bool is_count(const json_t *v)
{
	return json_is_integer(v) && json_integer_value(v) >= 0 &&
	       json_integer_value(v) <= 1000;
}

static bool is_bool(const json_t *v)
{
	return json_is_boolean(v);
}

static bool is_maybe_text(const json_t *v)
{
	return json_is_null(v) || json_is_string(v);
}

static bool is_maybe_map(const json_t *v)
{
	const char *key;
	json_t *value;

	if (json_is_null(v))
		return true;
	json_object_foreach((json_t *)v, key, value)
	{
		if (!json_is_string(value))
			return false;
	}
	return json_is_object(v);
}

static const struct {
	bool (*is)(const json_t *v);
	const char *type, *what;
} types[] = {
	[FIELD_TEXT] = { is_text, "string_type", "Input should be a valid string" },
	[FIELD_TEXTS] = { all_texts, "list_type",
			  "Input should be a valid list of strings" },
	[FIELD_COMMAND] = { is_command, "string_type",
			    "Input should be a valid string or list of strings" },
	[FIELD_NUMBER] = { is_number, "float_type", "Input should be a valid number" },
	[FIELD_MAYBE_NUMBER] = { is_maybe_number, "float_type",
				 "Input should be a valid number" },
	[FIELD_COUNT] = { is_count, "int_type",
			  "Input should be a valid integer from 0 to 1000" },
	[FIELD_BOOL] = { is_bool, "bool_type", "Input should be a valid boolean" },
	[FIELD_MAYBE_MAP] = { is_maybe_map, "dict_type",
			      "Input should be a valid dictionary of strings" },
	[FIELD_MAYBE_TEXT] = { is_maybe_text, "string_type",
			       "Input should be a valid string" },
};

_Static_assert(ARRAY_SIZE(types) == FIELD_TYPE_MAX, "a type has no check");

static void body_fields_complain(struct buf *out, const char *name, const char *type,
				 const char *what)
{
	struct json j = { .out = out, .comma = out->len > 1 };

	json_open(&j, NULL, '{');
	json_str(&j, "type", type);
	json_open(&j, "loc", '[');
	json_str(&j, NULL, "body");
	if (name)
		json_str(&j, NULL, name);
	json_close(&j, ']');
	json_str(&j, "msg", what);
	json_close(&j, '}');
}

bool field_is_word(const char *words, const char *text, size_t n)
{
	const char *end;

	for (const char *at = words + 1; (end = strchr(at, ' ')); at = end + 1)
		if ((size_t)(end - at) == n && memcmp(at, text, n) == 0)
			return true;
	return false;
}

/* Does a string, or one of several strings, contain a NUL character? */
static bool has_nul(const json_t *v)
{
	if (json_is_string(v))
		return strlen(json_string_value(v)) != json_string_length(v);
	for (size_t i = 0; i < json_array_size(v); i++)
		if (has_nul(json_array_get(v, i)))
			return true;
	return false;
}

static void check_one(const json_t *body, const struct field *f, struct buf *detail)
{
	const json_t *v = json_object_get(body, f->name);

	if (!v && f->required)
		body_fields_complain(detail, f->name, "missing", "Field required");
	else if (v && !types[f->type].is(v))
		body_fields_complain(detail, f->name, types[f->type].type,
				     types[f->type].what);
	else if (!f->nul && has_nul(v))
		body_fields_complain(detail, f->name, "value_error",
				     "Input has a null character");
	else if (v && f->words &&
		 !field_is_word(f->words, json_string_value(v), json_string_length(v)))
		body_fields_complain(detail, f->name, "literal_error",
				     "Input is not one of the allowed words");
}

bool fields_check(const json_t *body, const struct field *fields, size_t n,
		  struct buf *detail)
{
	const char *key;
	json_t *value;

	buf_puts(detail, "[");
	if (!json_is_object(body))
		body_fields_complain(detail, NULL, "model_attributes_type",
				     "Input should be a valid dictionary");
	for (size_t i = 0; json_is_object(body) && i < n; i++)
		check_one(body, &fields[i], detail);
	json_object_foreach((json_t *)body, key, value)
	{
		bool known = false;

		for (size_t i = 0; i < n && !known; i++)
			known = strcmp(fields[i].name, key) == 0;
		if (!known)
			body_fields_complain(detail, key, "extra_forbidden",
					     "Extra inputs are not permitted");
	}
	buf_puts(detail, "]");
	return detail->len == 2;
}

const char *field_text(const json_t *body, const char *name, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(body, name));

	return text ? text : otherwise;
}

size_t field_size(const json_t *body, const char *name)
{
	return json_string_length(json_object_get(body, name));
}

bool field_bool(const json_t *body, const char *name)
{
	return json_is_true(json_object_get(body, name));
}

int64_t field_ms(const json_t *body, const char *name)
{
	const json_t *v = json_object_get(body, name);
	double ms = json_number_value(v) * 1000;

	if (!json_is_number(v))
		return -1;
	/* Round up. */
	return ms < 0 ? 0 : (int64_t)ms + (ms > (double)(int64_t)ms);
}

const char **field_texts(const json_t *array, size_t *ret_n)
{
	size_t n = json_array_size(array);
	const char **list = calloc(n + 1, sizeof(*list));

	for (size_t i = 0; list && i < n; i++)
		list[i] = json_string_value(json_array_get(array, i));
	*ret_n = n;
	return list;
}
