/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body.h - the body of a request: parsed strictly, checked, and read
 *
 *	AUTO_BODY struct body body = { 0 };
 *
 *	r = body_read(op, data, size, &body, err);
 *	...
 *	memory = body_size(&limits, "memory");
 *
 * After body_read() every value is of its type and within its bounds. A field that a
 * request leaves out has its default from the description, or without one 0, false or
 * NULL; body_has() tells whether it was given. Reading a field that the description does
 * not have is a bug, and ends the program.
 */
#ifndef API_BODY_H
#define API_BODY_H

#include <jansson.h>

#include "api/api.h"
#include "api/errors.h"

#define BODY_DEPTH_MAX  32
#define BODY_VALUES_MAX 100000

struct body {
	const struct api_schema *schema;
	json_t *json; /* NULL: an object that was left out */
	bool owned;
};

/*
 * What any face reads a body by: no key twice, UTF-8, nothing behind it, neither deeper
 * nor of more values than the above, and no string that want of memory has shortened.
 * @flags are jansson's: JSON_ALLOW_NUL, JSON_DECODE_ANY. NULL: API_ERR_INVALID_JSON or
 * API_ERR_OVERLOADED.
 */
json_t *body_load(const char *data, size_t size, size_t flags,
		  struct api_error *err) MUST_CHECK;

/*
 * Strict: one object, no key twice, UTF-8, no NUL, nothing behind it, neither deeper nor
 * of more values than the above. For an operation without a body, nothing or an empty
 * object.
 */
int body_read(const struct api_op *op, const char *data, size_t size, struct body *ret,
	      struct api_error *err) MUST_CHECK;
void body_done(struct body *b);

#define AUTO_BODY CLEANUP(body_done)

/* Whether the field is present, and not null. */
bool body_has(const struct body *b, const char *field);
/* Whether the field is present, and null. */
bool body_is_null(const struct body *b, const char *field);
const char *body_text(const struct body *b, const char *field);
int64_t body_int(const struct body *b, const char *field);
bool body_bool(const struct body *b, const char *field);
/* Bytes, whichever way they were written. */
uint64_t body_size(const struct body *b, const char *field);
/* A limit of an object `limits`, by its row in spec/limits.h. */
uint64_t body_limit(const struct body *limits, size_t id);
/* All limits that can be set for a live sandbox or for one exec. */
void body_live_limits(const struct body *limits, struct warren_limits *ret);
/* Which of the words of the schema. */
int64_t body_word(const struct body *b, const char *field);
/*
 * An object within; borrowed from @b. All its fields read as left out if it is not there.
 */
struct body body_object(const struct body *b, const char *field);
/* An array or a map; borrowed. NULL: it is not there. */
json_t *body_json(const struct body *b, const char *field);
/* An element of an array of objects. */
struct body body_element(const struct body *b, const char *field, size_t i);

#endif /* API_BODY_H */
