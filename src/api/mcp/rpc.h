/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc.h - MCP messages: JSON-RPC 2.0, and the protocol era of each message
 *
 * Revisions up to 2025-11-25 belong to the legacy era: a client begins with `initialize`
 * and then has a session. Revisions from 2026-07-28 on belong to the modern era: each
 * request names its revision, and there are no sessions. The era is determined for each
 * message, so that clients of both eras can use the same address.
 *
 * All functions here are pure: they see only JSON and the values of headers.
 */
#ifndef API_MCP_RPC_H
#define API_MCP_RPC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/json.h"

#define RPC_META "io.modelcontextprotocol/" /* prefix of keys in _meta */

#define RPC_MODERN_VERSION "2026-07-28"
#define RPC_BATCH_MAX      100  /* maximum messages in an array */
#define RPC_ID_MAX         1024 /* maximum bytes in an id */

enum rpc_era {
	RPC_LEGACY = 1 << 0,
	RPC_MODERN = 1 << 1,
};

/* Error codes from section 8 of the specification and from JSON-RPC. */
enum rpc_code {
	RPC_PARSE_ERROR = -32700,
	RPC_INVALID_REQUEST = -32600,
	RPC_METHOD_NOT_FOUND = -32601,
	RPC_INVALID_PARAMS = -32602,
	RPC_INTERNAL_ERROR = -32603,
	RPC_CANCELLED = -32800,
	RPC_RESOURCE_NOT_FOUND = -32002, /* legacy only */
	RPC_HEADER_MISMATCH = -32020,
	RPC_VERSION_NOT_SUPPORTED = -32022,
};

struct rpc_error {
	int code; /* enum rpc_code */
	char message[512];
	char data[512]; /* JSON; "": none */
};

enum rpc_kind {
	RPC_REQUEST,
	RPC_NOTIFICATION,
	RPC_RESPONSE,
};

/* A message. Its fields point into the JSON that it was read from. */
struct rpc_message {
	enum rpc_kind kind;
	json_t *id;         /* id of a request or a response */
	const char *method; /* NULL: a response */
	json_t *params;     /* an object; NULL: none */
	json_t *meta;       /* the object _meta of the params; NULL: none */
};

/* The headers of a modern request; NULL: not sent. */
struct rpc_headers {
	const char *version; /* MCP-Protocol-Version */
	const char *method;  /* Mcp-Method */
	const char *name;    /* Mcp-Name */
	bool doubled;        /* one of these headers was sent twice */
};

int rpc_error_set(struct rpc_error *err, int code, const char *fmt, ...)
	PRINTF_LIKE(3, 4);
/* The HTTP status of a response with this error. */
int rpc_status(enum rpc_era era, int code);

/* The revisions of the legacy era, newest first; NULL-terminated. */
extern const char *const rpc_legacy_versions[];
bool rpc_is_legacy_version(const char *version);
/* The revision to answer `initialize` with, when a client offers @version. */
const char *rpc_negotiate(const char *version);

/* Check and parse a message. Returns -1 with an error in @err. */
int rpc_read(json_t *json, struct rpc_message *ret, struct rpc_error *err);
/* Determine the era of a body. @version is the value of MCP-Protocol-Version, or NULL. */
enum rpc_era rpc_era(const char *version, const json_t *body);
/* Check the headers and _meta of a modern request. Returns -1 with an error in @err. */
int rpc_check_modern(const struct rpc_message *m, const struct rpc_headers *h,
		     struct rpc_error *err);

/* Get the string value of a member. NULL: it is missing or contains a NUL. */
const char *rpc_text(const json_t *object, const char *key);

/* Write {"jsonrpc":"2.0","id":...,"result":@result}. */
void rpc_write_result(struct buf *out, const json_t *id, const char *result, size_t n);
/* Write an error response. If @id is NULL, the id is null. */
void rpc_write_error(struct buf *out, const json_t *id, const struct rpc_error *err);
/* Write an id or a progress token, which is a string or an integer. */
void rpc_write_id(struct json *j, const char *key, const json_t *id);

#endif /* API_MCP_RPC_H */
