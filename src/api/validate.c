/* SPDX-License-Identifier: Apache-2.0 */
/*
 * validate.c - check a value against its schema, recursively
 *
 * The depth of the recursion is limited by the schema: a value that is nested more deeply
 * is refused, because its type is wrong. The location is a chain on the stack; it becomes
 * a JSON pointer only for an error.
 */
#include "api/validate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/format.h"
#include "base/parse.h"
#include "base/utf8.h"

#define SHOWN 64 /* maximum bytes of a value in a message */

struct json_location {
	const struct json_location *up;
	const char *key;       /* name of a field; NULL: this is an element */
	size_t index;          /* index of an element */
	const char *parameter; /* a parameter of the request, at the start of a chain */
};

/* ----------------------------------------------------------- texts for error messages */

static void put_pointer(struct buf *out, const struct json_location *at)
{
	if (!at || !at->up)
		return;
	put_pointer(out, at->up);
	buf_add(out, "/", 1);
	if (!at->key)
		buf_printf(out, "%zu", at->index);
	for (const char *s = at->key; s && *s; s++)
		if (*s == '~' || *s == '/')
			buf_puts(out, *s == '~' ? "~0" : "~1");
		else
			buf_add(out, s, 1);
}

static int validate_refuse(const struct json_location *at, struct api_error *err,
			   const char *fmt, ...) PRINTF_LIKE(3, 4);

static int validate_refuse(const struct json_location *at, struct api_error *err,
			   const char *fmt, ...)
{
	AUTO_BUF struct buf pointer = BUF_INIT(1024);
	char why[640];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	if (at->parameter) {
		(void)api_error_set(err, API_ERR_INVALID_REQUEST, "%s: %s", at->parameter,
				    why);
		api_error_text(err, "parameter", "%s", at->parameter);
		return -EBADMSG;
	}
	put_pointer(&pointer, at);
	(void)api_error_set(err, API_ERR_INVALID_REQUEST, "%.256s: %s",
			    pointer.len ? pointer.data : "the body", why);
	api_error_text(err, "pointer", "%s", pointer.len ? pointer.data : "");
	return -EBADMSG;
}

/* Write what @types allows, for example "an integer or null". */
static void type_words(uint8_t types, char *out, size_t size)
{
	static const char *const words[] = { "null",     "true or false", "an integer",
					     "a string", "an array",      "an object" };
	size_t n = 0;

	out[0] = '\0';
	/* null comes last */
	for (size_t i = 1; i <= ARRAY_SIZE(words) && n < size; i++) {
		size_t word = i % ARRAY_SIZE(words);

		if (types & 1U << word)
			n += (size_t)snprintf(out + n, size - n, "%s%s", n ? " or " : "",
					      words[word]);
	}
}

static void value_words(const json_t *value, char *out, size_t size)
{
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		(void)snprintf(out, size, "an object");
		break;
	case JSON_ARRAY:
		(void)snprintf(out, size, "an array");
		break;
	case JSON_STRING:
		(void)snprintf(out, size, "'%.*s'%s", SHOWN, json_string_value(value),
			       json_string_length(value) > SHOWN ? "..." : "");
		break;
	case JSON_INTEGER:
		(void)snprintf(out, size, "%" JSON_INTEGER_FORMAT,
			       json_integer_value(value));
		break;
	case JSON_REAL:
		(void)snprintf(out, size, "%g", json_real_value(value));
		break;
	case JSON_TRUE:
	case JSON_FALSE:
	case JSON_NULL:
		(void)snprintf(out, size, "%s",
			       json_is_null(value)   ? "null"
			       : json_is_true(value) ? "true"
						     : "false");
		break;
	}
}

/* -------------------------------------------------------------------- scalars */

static int check_bounds(const struct api_schema *s, int64_t n,
			const struct json_location *at, struct api_error *err)
{
	if (n < s->min)
		return validate_refuse(at, err, "must be at least %jd, is %jd",
				       (intmax_t)s->min, (intmax_t)n);
	if (n > s->max)
		return validate_refuse(at, err, "must be at most %jd, is %jd",
				       (intmax_t)s->max, (intmax_t)n);
	return 0;
}

static int check_count(const struct api_schema *s, size_t n, const char *what,
		       const struct json_location *at, struct api_error *err)
{
	if (n == 0 && s->min_len == 1)
		return validate_refuse(at, err, "must not be empty");
	if (n < s->min_len)
		return validate_refuse(at, err,
				       "must have at least %" PRIu32 " %s, has %zu",
				       s->min_len, what, n);
	if (n > s->max_len)
		return validate_refuse(at, err,
				       "must have at most %" PRIu32 " %s, has %zu",
				       s->max_len, what, n);
	return 0;
}

static int check_size(const struct api_schema *s, const char *text,
		      const struct json_location *at, int64_t *ret, struct api_error *err)
{
	struct warren_error why = WARREN_ERROR_INIT;
	uint64_t bytes;

	if (parse_size(text, &bytes, &why) < 0)
		return validate_refuse(at, err, "%s", why.msg);
	*ret = (int64_t)bytes;
	return check_bounds(s, *ret, at, err);
}

static int refuse_word(const struct api_schema *s, const char *text,
		       const struct json_location *at, struct api_error *err)
{
	AUTO_BUF struct buf list = BUF_INIT(4096);

	for (size_t i = 0; i < s->n_words; i++)
		buf_printf(&list, "%s%s", i ? ", " : "", s->words[i]);
	return validate_refuse(at, err, "must be one of %.400s; is '%.*s'", list.data,
			       SHOWN, text);
}

/* *@ret is set to the number that the string represents, if any. */
static int check_string(const struct api_schema *s, const char *text, size_t len,
			const struct json_location *at, int64_t *ret,
			struct api_error *err)
{
	const char *wanted;
	int r;

	if (s->n_words) {
		*ret = schema_word(s, text);
		return *ret < 0 ? refuse_word(s, text, at, err) : 0;
	}
	/* Count the characters only if the number of bytes does not settle the question.
	 */
	if (len > s->max_len || len < 4 * (size_t)s->min_len) {
		r = check_count(s, utf8_count(text, len), "characters", at, err);
		if (r < 0)
			return r;
	}
	if (s->format == API_FORMAT_SIZE)
		return check_size(s, text, at, ret, err);
	wanted = format_check(s->format, text);
	if (wanted)
		return validate_refuse(at, err, "%s; is '%.*s'%s", wanted, SHOWN, text,
				       len > SHOWN ? "..." : "");
	return 0;
}

int64_t schema_word(const struct api_schema *s, const char *text)
{
	for (size_t i = 0; i < s->n_words; i++)
		if (strcmp(s->words[i], text) == 0)
			return (int64_t)i;
	return -1;
}

/* ------------------------------------------------------------ arrays and objects */

static int validate_check(const struct api_schema *s, const json_t *value,
			  const struct json_location *at, struct api_error *err);

static int check_array(const struct api_schema *s, const json_t *value,
		       const struct json_location *at, struct api_error *err)
{
	size_t n = json_array_size(value);
	int r = check_count(s, n, "elements", at, err);

	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct json_location below = { .up = at, .index = i };

		r = validate_check(s->items, json_array_get(value, i), &below, err);
	}
	return r;
}

/* Check a map: it may have any names, and its values have one type. */
static int check_map(const struct api_schema *s, json_t *value,
		     const struct json_location *at, struct api_error *err)
{
	const char *key;
	json_t *child;

	json_object_foreach(value, key, child)
	{
		const struct json_location below = { .up = at, .key = key };
		int64_t unused;
		int r = check_string(s->names, key, strlen(key), &below, &unused, err);

		if (r == 0)
			r = validate_check(s->items, child, &below, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Return the index of a field of @s; -1: there is no such field. */
static int find_field(const struct api_schema *s, const char *name)
{
	size_t low = 0, high = s->n_fields;

	while (low < high) {
		size_t middle = (low + high) / 2;
		int c = strcmp(name, s->fields[middle].name);

		if (c == 0)
			return (int)middle;
		if (c < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return -1;
}

const struct api_schema *schema_field(const struct api_schema *s, const char *name)
{
	int i = find_field(s, name);

	return i < 0 ? NULL : s->fields[i].schema;
}

/* Write the names of the fields in @mask, separated by @between. */
static void field_words(const struct api_schema *s, uint64_t mask, const char *between,
			struct buf *out)
{
	for (size_t i = 0; i < s->n_fields; i++)
		if (mask >> i & 1)
			buf_printf(out, "%s%s", out->len ? between : "",
				   s->fields[i].name);
}

static int validate_refuse_unknown(const struct api_schema *s,
				   const struct json_location *at, struct api_error *err)
{
	AUTO_BUF struct buf list = BUF_INIT(4096);

	field_words(s, UINT64_MAX, ", ", &list);
	return validate_refuse(at, err, "is not a known field; %s%.500s",
			       list.len ? "known: " : "this object has no fields",
			       list.len ? list.data : "");
}

/* Check that all required fields are among those in @seen. */
static int check_presence(const struct api_schema *s, uint64_t seen,
			  const struct json_location *at, struct api_error *err)
{
	uint64_t missing = s->required & ~seen;
	AUTO_BUF struct buf list = BUF_INIT(4096);

	if (missing) {
		const struct json_location below = {
			.up = at, .key = s->fields[__builtin_ctzll(missing)].name
		};

		return validate_refuse(&below, err, "is missing");
	}
	if (!s->exactly_one || __builtin_popcountll(seen & s->exactly_one) == 1)
		return 0;
	field_words(s, s->exactly_one, " and ", &list);
	return validate_refuse(at, err, "must have exactly one of %s", list.data);
}

static int check_object(const struct api_schema *s, json_t *value,
			const struct json_location *at, struct api_error *err)
{
	int r = check_count(s, json_object_size(value), "fields", at, err);
	uint64_t seen = 0;
	const char *key;
	json_t *child;

	if (r < 0 || s->names)
		return r < 0 ? r : check_map(s, value, at, err);
	json_object_foreach(value, key, child)
	{
		const struct json_location below = { .up = at, .key = key };
		int i = find_field(s, key);

		if (i < 0)
			return validate_refuse_unknown(s, &below, err);
		r = validate_check(s->fields[i].schema, child, &below, err);
		if (r < 0)
			return r;
		seen |= 1ULL << i;
	}
	return check_presence(s, seen, at, err);
}

/* ----------------------------------------------------------------- values of any type */

static int refuse_type(const struct api_schema *s, const json_t *value,
		       const struct json_location *at, struct api_error *err)
{
	char wanted[80], is[SHOWN + 16];

	type_words(s->types, wanted, sizeof(wanted));
	if (s->hidden)
		return validate_refuse(at, err, "must be %s", wanted);
	value_words(value, is, sizeof(is));
	return validate_refuse(at, err, "must be %s, is %s", wanted, is);
}

static int validate_check(const struct api_schema *s, const json_t *value,
			  const struct json_location *at, struct api_error *err)
{
	static const uint8_t types[] = {
		[JSON_OBJECT] = API_OBJECT,
		[JSON_ARRAY] = API_ARRAY,
		[JSON_STRING] = API_STRING,
		[JSON_INTEGER] = API_INTEGER,
		[JSON_REAL] = 0,
		[JSON_TRUE] = API_BOOLEAN,
		[JSON_FALSE] = API_BOOLEAN,
		[JSON_NULL] = API_NULL,
	};
	uint8_t type = types[json_typeof(value)];
	int64_t unused;

	if (!(s->types & type))
		return refuse_type(s, value, at, err);
	if (type == API_INTEGER)
		return check_bounds(s, json_integer_value(value), at, err);
	if (type == API_STRING)
		return check_string(s, json_string_value(value),
				    json_string_length(value), at, &unused, err);
	if (type == API_ARRAY)
		return check_array(s, value, at, err);
	if (type == API_OBJECT)
		/* Iterating requires a mutable object, but does not change it. */
		return check_object(s, (json_t *)(uintptr_t)value, at, err);
	return 0;
}

int validate_json(const struct api_schema *schema, const json_t *value,
		  struct api_error *err)
{
	const struct json_location top = { 0 };

	return validate_check(schema, value, &top, err);
}

int validate_text(const struct api_schema *s, const char *name, const char *text,
		  int64_t *ret, struct api_error *err)
{
	const struct json_location at = { .parameter = name };
	struct warren_error why = WARREN_ERROR_INIT;
	uint64_t n;

	*ret = 0;
	if (s->types & API_STRING)
		return check_string(s, text, strlen(text), &at, ret, err);
	if (s->types & API_BOOLEAN) {
		*ret = strcmp(text, "true") == 0;
		if (!*ret && strcmp(text, "false") != 0)
			return validate_refuse(&at, err,
					       "must be true or false, is '%.*s'", SHOWN,
					       text);
		return 0;
	}
	if (parse_u64(text, INT64_MAX, &n, &why) < 0)
		return validate_refuse(&at, err,
				       "must be an integer from %jd to %jd, is '%.*s'",
				       (intmax_t)s->min, (intmax_t)s->max, SHOWN, text);
	*ret = (int64_t)n;
	return check_bounds(s, *ret, &at, err);
}
