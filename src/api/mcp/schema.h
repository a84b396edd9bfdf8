/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema.h - the arguments and results of tools, as tables
 *
 * One table describes an object. The JSON Schema that clients see and the check of
 * arguments both use this table. Pure functions.
 */
#ifndef API_MCP_SCHEMA_H
#define API_MCP_SCHEMA_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/json.h"

enum mcp_type {
	MCP_STRING,
	MCP_INTEGER,
	MCP_BOOLEAN,
	MCP_STRING_MAP, /* an object whose values are strings */
	MCP_VALUE_MAP,  /* an object whose values are strings and integers */
	MCP_LIST,       /* an array of the objects that `items` describes */
	MCP_STRING_LIST,
};

struct mcp_field {
	const char *name;
	enum mcp_type type;
	bool required;
	bool nul; /* an argument: the string may contain U+0000 */
	/*
	 * Bounds of an integer, of the bytes in a string, or of the members in a map;
	 * both 0: any.
	 */
	int64_t min, max;
	int64_t fallback;  /* default of a missing integer argument; 0: none */
	const char *words; /* the allowed strings, separated by spaces; NULL: any */
	const char *about;
	const struct mcp_field *items;
	size_t n_items;
};

struct mcp_object {
	const struct mcp_field *fields;
	size_t n;
};

#define MCP_OBJECT(table)                                  \
	{                                                  \
		.fields = (table), .n = ARRAY_SIZE(table), \
	}

/* Write the JSON Schema; @closed: other members are refused. */
void schema_write(struct json *j, const char *key, const struct mcp_object *object,
		  bool closed);
/* Check whether @args (NULL: none) matches. If not, @why is a sentence for the client. */
bool schema_check(const struct mcp_object *object, const json_t *args, struct buf *why);
const struct mcp_field *schema_find(const struct mcp_object *object, const char *name);

#endif /* API_MCP_SCHEMA_H */
