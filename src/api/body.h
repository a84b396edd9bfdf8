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
 * After body_read(), every value has its type and is within its bounds. A field that the
 * request omits has the default of the description; if there is none, it is 0, false or
 * NULL. body_has() says whether the request has the field. Reading a field that the
 * description does not have is a bug and aborts the program.
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
	json_t *json; /* NULL: an object that the request omits */
	bool owned;
};

/*
 * Parse a body, for any API. Refuses duplicate keys, invalid UTF-8, trailing data, and
 * more levels or values than the limits above. Never returns a string that is cut for
 * lack of memory. @flags are flags of jansson: JSON_ALLOW_NUL, JSON_DECODE_ANY. NULL:
 * API_ERR_INVALID_JSON or API_ERR_OVERLOADED.
 */
json_t *body_load(const char *data, size_t size, size_t flags,
		  struct api_error *err) MUST_CHECK;

/*
 * Parse a body like body_load() and check it against the schema of @op. It must be one
 * object without NUL. An operation without a body accepts an empty body or an empty
 * object.
 */
int body_read(const struct api_op *op, const char *data, size_t size, struct body *ret,
	      struct api_error *err) MUST_CHECK;
void body_done(struct body *b);

#define AUTO_BODY CLEANUP(body_done)

/* Return whether the field is present, and not null. */
bool body_has(const struct body *b, const char *field);
/* Return whether the field is present, and null. */
bool body_is_null(const struct body *b, const char *field);
const char *body_text(const struct body *b, const char *field);
int64_t body_int(const struct body *b, const char *field);
bool body_bool(const struct body *b, const char *field);
/* Get a size in bytes, which the request gives as a number or as a string. */
uint64_t body_size(const struct body *b, const char *field);
/* Get a limit from the object `limits`, by its row in spec/limits.h. */
uint64_t body_limit(const struct body *limits, size_t id);
/* All limits that can be set for a live sandbox or for one exec. */
void body_live_limits(const struct body *limits, struct warren_limits *ret);
/* Get the index of the word in the schema. */
int64_t body_word(const struct body *b, const char *field);
/*
 * A nested object, borrowed from @b. If the request omits it, all its fields count as
 * omitted.
 */
struct body body_object(const struct body *b, const char *field);
/* An array or a map; borrowed. NULL: the request omits it. */
json_t *body_json(const struct body *b, const char *field);
/* Get an element of an array of objects. */
struct body body_element(const struct body *b, const char *field, size_t i);

#endif /* API_BODY_H */
