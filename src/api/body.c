/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body.c - parse a body with jansson, check it with its schema, and get its values
 *
 * jansson may need fifty times the memory of a body ("[[],[],..."), so the structure is
 * checked before parsing: no request can make the service allocate more than some tens of
 * megabytes, no matter how large its body is.
 */
#include "api/body.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "api/validate.h"
#include "base/parse.h"
#include "spec/spec.h"

/* The schema of an operation without a body. */
static const struct api_schema nothing = { .types = API_OBJECT, .max_len = UINT32_MAX };

/* Check the depth and the number of values, without looking at the values. */
static int body_scan(const char *data, size_t size, struct api_error *err)
{
	size_t depth = 0, values = 1;
	bool quoted = false;

	for (size_t i = 0; i < size; i++) {
		char c = data[i];

		if (quoted) {
			i += c == '\\';
			quoted = c != '"';
		} else if (c == '"') {
			quoted = true;
		} else if (c == '[' || c == '{') {
			depth++;
			values++;
		} else if ((c == ']' || c == '}') && depth > 0) {
			depth--;
		} else if (c == ',') {
			values++;
		}
		if (depth > BODY_DEPTH_MAX)
			return api_error_set(err, API_ERR_INVALID_JSON,
					     "the body is nested deeper than %d levels",
					     BODY_DEPTH_MAX);
		if (values > BODY_VALUES_MAX)
			return api_error_set(err, API_ERR_INVALID_JSON,
					     "the body has more than %d values",
					     BODY_VALUES_MAX);
	}
	return 0;
}

/*
 * If memory runs out, jansson drops a byte of a string and continues: a command would run
 * that the client did not send. So the service records whether an allocation failed, and
 * then discards the result. A large body is parsed on its own thread, so each thread has
 * its own flag.
 */
static _Thread_local bool memory_failed;

static void *watched_malloc(size_t n)
{
	void *p = malloc(n);

	memory_failed = memory_failed || !p;
	return p;
}

static void watch_memory(void)
{
	json_set_alloc_funcs(watched_malloc, free);
}

json_t *body_load(const char *data, size_t size, size_t flags, struct api_error *err)
{
	static pthread_once_t watched = PTHREAD_ONCE_INIT;
	json_error_t why;
	json_t *json;
	char *near;

	(void)pthread_once(&watched, watch_memory);
	memory_failed = false;

	if (body_scan(data, size, err) < 0)
		return NULL;
	json = json_loadb(data, size, JSON_REJECT_DUPLICATES | flags, &why);
	if (memory_failed) {
		json_decref(json);
		(void)api_error_set(err, API_ERR_OVERLOADED, "out of memory");
		return NULL;
	}
	near = json ? NULL : strstr(why.text, " near ");
	if (near)
		*near = '\0'; /* a part of the body follows, which may be a secret */
	if (!json)
		(void)api_error_set(err, API_ERR_INVALID_JSON,
				    "the body is not JSON: %.160s (line %d, column %d)",
				    why.text, why.line, why.column);
	return json;
}

static void drop_nulls(json_t *json)
{
	json_t *value;
	const char *name;
	void *next;
	size_t i;

	json_object_foreach_safe(json, next, name, value)
	{
		if (json_is_null(value))
			(void)json_object_del(json, name);
		else
			drop_nulls(value);
	}
	json_array_foreach(json, i, value) drop_nulls(value);
}

int body_read(const struct api_op *op, const char *data, size_t size, struct body *ret,
	      struct api_error *err)
{
	const struct api_schema *schema =
		op->body == API_BODY_JSON ? op->schema : &nothing;
	json_t *json;
	int r;

	if (op->max_body && size > op->max_body)
		return api_error_set(err, API_ERR_BODY_TOO_LARGE,
				     "the body has %zu bytes; the maximum is %ju", size,
				     (uintmax_t)op->max_body);
	if (size == 0 && op->body_required)
		return api_error_set(err, API_ERR_INVALID_REQUEST,
				     "this operation needs a body of %s", op->body_type);
	/* If a body may be omitted, none of its fields is required. */
	if (size == 0) {
		*ret = (struct body){ .schema = schema };
		return 0;
	}
	json = body_load(data, size, 0, err);
	if (!json)
		return -EBADMSG;
	if (op->nulls)
		drop_nulls(json);
	r = validate_json(schema, json, err);
	if (r < 0) {
		json_decref(json);
		return r;
	}
	*ret = (struct body){ .schema = schema, .json = json, .owned = true };
	return 0;
}

void body_done(struct body *b)
{
	if (b->owned)
		json_decref(b->json);
	*b = (struct body){ 0 };
}

static const struct api_schema *schema_of(const struct body *b, const char *field)
{
	const struct api_schema *s = schema_field(b->schema, field);

	assert(s);
	return s;
}

/* Return the value of a field; NULL: it is omitted, or null. */
static json_t *body_get(const struct body *b, const char *field)
{
	json_t *j = json_object_get(b->json, field);

	return json_is_null(j) ? NULL : j;
}

bool body_has(const struct body *b, const char *field)
{
	(void)schema_of(b, field);
	return body_get(b, field) != NULL;
}

bool body_is_null(const struct body *b, const char *field)
{
	(void)schema_of(b, field);
	return json_is_null(json_object_get(b->json, field));
}

const char *body_text(const struct body *b, const char *field)
{
	const struct api_schema *s = schema_of(b, field);
	const json_t *j = body_get(b, field);

	assert(s->types & API_STRING);
	return j ? json_string_value(j) : s->fallback_text;
}

int64_t body_int(const struct body *b, const char *field)
{
	const struct api_schema *s = schema_of(b, field);
	const json_t *j = body_get(b, field);

	assert(s->types & API_INTEGER && s->format != API_FORMAT_SIZE);
	return j ? json_integer_value(j) : s->fallback;
}

bool body_bool(const struct body *b, const char *field)
{
	const struct api_schema *s = schema_of(b, field);
	const json_t *j = body_get(b, field);

	assert(s->types & API_BOOLEAN);
	return j ? json_is_true(j) : s->fallback != 0;
}

uint64_t body_size(const struct body *b, const char *field)
{
	const struct api_schema *s = schema_of(b, field);
	const json_t *j = body_get(b, field);
	struct warren_error err = WARREN_ERROR_INIT;
	uint64_t bytes = 0;

	assert(s->format == API_FORMAT_SIZE);
	if (!j)
		return (uint64_t)s->fallback;
	if (json_is_integer(j))
		return (uint64_t)json_integer_value(j);
	/* The value has been checked. */
	(void)!parse_size(json_string_value(j), &bytes, &err);
	return bytes;
}

uint64_t body_limit(const struct body *limits, size_t id)
{
	const struct spec_limit *l = &spec_limits[id];

	return l->unit == SPEC_BYTES ? body_size(limits, l->name)
				     : (uint64_t)body_int(limits, l->name);
}

void body_live_limits(const struct body *limits, struct warren_limits *ret)
{
	for (size_t i = 0; i < SPEC_LIVE_MAX; i++)
		spec_live_set(ret, i, body_limit(limits, i));
}

int64_t body_word(const struct body *b, const char *field)
{
	const struct api_schema *s = schema_of(b, field);
	const json_t *j = body_get(b, field);

	assert(s->n_words > 0);
	return j ? schema_word(s, json_string_value(j)) : s->fallback;
}

struct body body_object(const struct body *b, const char *field)
{
	const struct api_schema *s = schema_of(b, field);

	assert(s->types & API_OBJECT);
	return (struct body){ .schema = s, .json = body_get(b, field) };
}

json_t *body_json(const struct body *b, const char *field)
{
	(void)schema_of(b, field);
	return body_get(b, field);
}

struct body body_element(const struct body *b, const char *field, size_t i)
{
	const struct api_schema *s = schema_of(b, field);

	assert(s->items);
	return (struct body){ .schema = s->items,
			      .json = json_array_get(body_get(b, field), i) };
}
