/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api.h - the tables generated from an API description: operations, parameters, schemas,
 * paths
 *
 * Theory of operation
 *
 * Tables describe each API of the service. tools/gen/gen-api generates those of v1 from
 * v1/openapi.yaml when Warren is built. A request passes through pure functions that do
 * no I/O and see only bytes:
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
	API_BODY_NONE,   /* no body, or an empty object */
	API_BODY_JSON,   /* one object, read whole */
	API_BODY_STREAM, /* bytes, forwarded as they arrive */
};

enum api_upgrade {
	API_UPGRADE_NONE,
	API_UPGRADE_OPTIONAL, /* a WebSocket, if the client requests it */
	API_UPGRADE_REQUIRED,
	API_UPGRADE_TCP, /* bytes in both directions, unchanged */
};

/* The types of a value; a schema may allow several. */
enum api_type {
	API_NULL = 1 << 0,
	API_BOOLEAN = 1 << 1,
	API_INTEGER = 1 << 2,
	API_STRING = 1 << 3,
	API_ARRAY = 1 << 4,
	API_OBJECT = 1 << 5,
};

/* The format of a string; format.c checks it. */
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
	API_FORMAT_SECRET_NAME,
	API_FORMAT_SHELL,
	API_FORMAT_SIGNAL,
	/*
	 * Together with API_INTEGER: a number and a string both mean bytes, and the
	 * bounds apply to both.
	 */
	API_FORMAT_SIZE,
	API_FORMAT_USER,
	API_FORMAT_VOLUME_NAME,
	API_FORMAT_SNAPSHOT_NAME,
	API_FORMAT_WORK_NAME,
	API_FORMAT_COUNT,
};

struct api_schema;

struct api_field {
	const char *name;
	const struct api_schema *schema;
};

struct api_schema {
	uint8_t types; /* bits of enum api_type */
	enum api_format format;
	bool hidden;               /* errors must not repeat the value */
	int64_t min, max;          /* bounds of an integer, or of a size in bytes */
	uint32_t min_len, max_len; /* number of characters, elements or fields */

	const char *const *words; /* if not NULL, the string must be one of these */
	size_t n_words;

	const struct api_schema *items; /* elements of an array, values of a map */
	/* Schema of the keys of a map, an object with arbitrary keys. */
	const struct api_schema *names;

	/* Fields of any other object: sorted by name, at most 64. */
	const struct api_field *fields;
	size_t n_fields;
	uint64_t required;    /* a bit per field */
	uint64_t exactly_one; /* a bit per field; exactly one of them must be present */

	bool has_fallback; /* there is a default for a missing value */
	/* The default: a number, a boolean as 0 or 1, or the index of a word. */
	int64_t fallback;
	const char *fallback_text;
};

struct api_param {
	const char *name;
	/* If this is an array, the parameter may be repeated. */
	const struct api_schema *schema;
	bool required;
};

struct api_op {
	const char *id;   /* "create_sandbox" */
	const char *path; /* "/v1/sandboxes/{sandbox_id}" */
	enum api_method method;
	bool any_method;
	uint32_t scope; /* bit of the scope that a token must have; 0: no scope */
	enum api_upgrade upgrade;

	enum api_body body;
	bool body_required;
	const char *body_type; /* "application/json" */
	uint64_t max_body;     /* bytes; 0: no limit */
	bool nulls;            /* a field with null is a field that is omitted */
	const struct api_schema *schema;

	const struct api_param *path_params; /* in the order of the path */
	size_t n_path_params;
	const struct api_param *query_params;
	size_t n_query_params;
};

/*
 * A segment of one or more paths. Its children are adjacent in the table: first the fixed
 * words, sorted, then the parameter.
 */
struct api_node {
	const char *word;
	uint8_t len;
	uint16_t first, n; /* children that are words */
	uint16_t param;    /* the child that matches any segment; 0: none */
	bool rest;         /* the node matches all remaining segments, or none */
	bool any_method;
	uint16_t op[API_METHOD_COUNT]; /* index of the operation + 1; 0: none */
	const char *allow;             /* "GET, HEAD" */
};

struct api_face {
	const struct api_op *ops;
	size_t n_ops;
	const struct api_node *nodes; /* the first node is the root */
};

#endif /* API_API_H */
