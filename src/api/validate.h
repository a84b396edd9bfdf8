/* SPDX-License-Identifier: Apache-2.0 */
/*
 * validate.h - check a value against its schema
 *
 * A refusal is API_ERR_INVALID_REQUEST; its message begins with the location:
 *
 *	/limits/memory: must be at least 1048576, is 5
 *
 * The detail also has the location: "pointer" (a JSON pointer) for a field of a body,
 * "parameter" for a parameter.
 */
#ifndef API_VALIDATE_H
#define API_VALIDATE_H

#include <jansson.h>

#include "api/api.h"
#include "api/errors.h"

int validate_json(const struct api_schema *schema, const json_t *value,
		  struct api_error *err) MUST_CHECK;

/*
 * Check @text, a parameter of a path or a query. @ret is its value: an integer, a size in
 * bytes, a boolean as 0 or 1, or the index of the word.
 */
int validate_text(const struct api_schema *schema, const char *name, const char *text,
		  int64_t *ret, struct api_error *err) MUST_CHECK;

/* Get the schema of a field; NULL: an object of @schema has no such field. */
const struct api_schema *schema_field(const struct api_schema *schema, const char *name);
/* Get the index of @text in the words of @schema; -1: none. */
int64_t schema_word(const struct api_schema *schema, const char *text);

#endif /* API_VALIDATE_H */
