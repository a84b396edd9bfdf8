/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api.h - the tables generated from an API description: operations, parameters, schemas,
 * paths
 *
 * Theory of operation
 *
 * Tables describe each API of the service (v1, and any with another protocol).
 * tools/gen/gen-api generates those of v1 from v1/openapi.yaml when Warren is built. A
 * request passes through pure functions that do no I/O and see only bytes:
 *
 *	route_find()		method and path -> the operation, its path parameters
 *	route_check()		whether those match their schemas
 *	query_read()		the query string -> values, with defaults filled in
 *	body_read()		the body -> JSON that was checked against its schema
 *
 * Each of them refuses with a struct api_error (errors.h). Then the handler of the
 * operation is called. It gets values with query.h and body.h, and need not check any
 * type, bound or name again.
 *
 * An API adds only the table of its handlers. V1_OPS of v1/ops.h creates it, so that an
 * operation without a handler does not compile:
 *
 *	#define X(ID, id) [V1_##ID] = v1_##id,
 *	const v1_handler v1_handlers[V1_OP_COUNT] = { V1_OPS(X) };
 */
#ifndef API_API_H
#define API_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* HEAD is routed as GET. */
enum api_method {
	API_GET,
	API_POST,
	API_PUT,
	API_PATCH,
	API_DELETE,
	API_METHOD_COUNT,
};

enum api_body {
	API_BODY_NONE,   /* nothing, or an empty object */
	API_BODY_JSON,   /* one object, read whole */
	API_BODY_STREAM, /* bytes, passed on as they come */
};

enum api_upgrade {
	API_UPGRADE_NONE,
	API_UPGRADE_OPTIONAL, /* a WebSocket, if the request asks for one */
	API_UPGRADE_REQUIRED,
	API_UPGRADE_TCP, /* bytes as they are, both ways */
};

/* What a value may be; several may be allowed. */
enum api_type {
	API_NULL = 1 << 0,
	API_BOOLEAN = 1 << 1,
	API_INTEGER = 1 << 2,
	API_STRING = 1 << 3,
	API_ARRAY = 1 << 4,
	API_OBJECT = 1 << 5,
};

/* What a string must look like; format.c has the checkers. */
enum api_format {
	API_FORMAT_NONE,
	API_FORMAT_BASE64,
	API_FORMAT_DATE_TIME,
	API_FORMAT_ENV_NAME,
	API_FORMAT_HOSTNAME,
	API_FORMAT_ID,
	API_FORMAT_IMAGE,
	API_FORMAT_KEY,
	API_FORMAT_LABEL_FILTER,
	API_FORMAT_LABEL_KEY,
	API_FORMAT_LINE,
	API_FORMAT_MODE,
	API_FORMAT_NAME,
	API_FORMAT_PAGE_CURSOR,
	API_FORMAT_PATH,
	API_FORMAT_PLATFORM,
	API_FORMAT_SANDBOX_NAME,
	API_FORMAT_SHELL,
	API_FORMAT_SIGNAL,
	API_FORMAT_SIZE, /* with API_INTEGER: both are bytes, and the bounds hold for both
			  */
	API_FORMAT_USER,
	API_FORMAT_COUNT,
};

struct api_schema;

struct api_field {
	const char *name;
	const struct api_schema *schema;
};

struct api_schema {
	uint8_t types; /* of enum api_type */
	enum api_format format;
	int64_t min, max;          /* of an integer, or of a size in bytes */
	uint32_t min_len, max_len; /* characters, elements or fields */

	const char *const *words; /* the only ones that a string may be */
	size_t n_words;

	const struct api_schema *items; /* elements of an array, values of a map */
	const struct api_schema *names; /* of a map, an object with names of all kinds */

	const struct api_field
		*fields; /* of any other object, sorted by name, at most 64 */
	size_t n_fields;
	uint64_t required;    /* a bit per field */
	uint64_t exactly_one; /* of these fields */

	bool has_fallback; /* what is meant when it is left out */
	int64_t fallback;  /* a number, 0 and 1, or which of the words */
	const char *fallback_text;
};

struct api_param {
	const char *name;
	const struct api_schema
		*schema; /* an array: the parameter may be given several times */
	bool required;
};

struct api_op {
	const char *id;   /* "create_sandbox" */
	const char *path; /* "/v1/sandboxes/{sandbox_id}" */
	enum api_method method;
	bool any_method;
	uint32_t scope; /* a bit that a token must have; 0: none is needed */
	enum api_upgrade upgrade;

	enum api_body body;
	bool body_required;
	const char *body_type; /* "application/json" */
	uint64_t max_body;     /* bytes; 0: without a limit */
	const struct api_schema *schema;

	const struct api_param *path_params; /* in the order of the path */
	size_t n_path_params;
	const struct api_param *query_params;
	size_t n_query_params;
};

/*
 * A segment of paths. Its children are neighbours in the table, sorted, a parameter's
 * last.
 */
struct api_node {
	const char *word;
	uint8_t len;
	uint16_t first, n; /* children that are words */
	uint16_t param;    /* the child that takes any segment; 0: none */
	bool rest;         /* it takes all segments that are left, or none */
	bool any_method;
	uint16_t op[API_METHOD_COUNT]; /* and one; 0: none */
	const char *allow;             /* "GET, HEAD" */
};

struct api_face {
	const struct api_op *ops;
	size_t n_ops;
	const struct api_node *nodes; /* the first is the root */
};

#endif /* API_API_H */
