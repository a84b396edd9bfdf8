/* SPDX-License-Identifier: Apache-2.0 */
/* rpc.c - messages of MCP: JSON-RPC 2.0, and the era that a message belongs to */
#include "api/mcp/rpc.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"

#define NAME_MAX_BYTES 8192 /* maximum size of Mcp-Name, encoded */

const char *const rpc_legacy_versions[] = { "2025-11-25", "2025-06-18", "2025-03-26",
					    "2024-11-05", NULL };

int rpc_error_set(struct rpc_error *err, int code, const char *fmt, ...)
{
	va_list ap;

	err->code = code;
	err->data[0] = '\0';
	va_start(ap, fmt);
	(void)vsnprintf(err->message, sizeof(err->message), fmt, ap);
	va_end(ap);
	return -1;
}

int rpc_status(enum rpc_era era, int code)
{
	static const struct {
		int code, legacy, modern;
	} table[] = {
		{ RPC_PARSE_ERROR, 400, 400 },
		{ RPC_INVALID_REQUEST, 400, 400 },
		{ RPC_METHOD_NOT_FOUND, 200, 404 },
		{ RPC_INVALID_PARAMS, 200, 400 },
		{ RPC_HEADER_MISMATCH, 400, 400 },
		{ RPC_VERSION_NOT_SUPPORTED, 400, 400 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].code == code)
			return era == RPC_MODERN ? table[i].modern : table[i].legacy;
	return 200;
}

bool rpc_is_legacy_version(const char *version)
{
	for (size_t i = 0; rpc_legacy_versions[i]; i++)
		if (strcmp(rpc_legacy_versions[i], version) == 0)
			return true;
	return false;
}

const char *rpc_negotiate(const char *version)
{
	for (size_t i = 0; version && rpc_legacy_versions[i]; i++)
		if (strcmp(rpc_legacy_versions[i], version) == 0)
			return rpc_legacy_versions[i];
	return rpc_legacy_versions[0];
}

const char *rpc_text(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);
	const char *text = json_string_value(value);

	return text && strlen(text) == json_string_length(value) ? text : NULL;
}

static bool rpc_is_id(const json_t *id)
{
	return json_is_integer(id) ||
	       (json_is_string(id) && json_string_length(id) <= RPC_ID_MAX);
}

int rpc_read(json_t *json, struct rpc_message *ret, struct rpc_error *err)
{
	const json_t *method = json_object_get(json, "method");
	const char *version = rpc_text(json, "jsonrpc");
	json_t *id = json_object_get(json, "id");
	bool answer = json_object_get(json, "result") || json_object_get(json, "error");

	*ret = (struct rpc_message){ 0 };
	if (!json_is_object(json))
		return rpc_error_set(err, RPC_INVALID_REQUEST,
				     "a message must be a JSON object");
	if (!version || strcmp(version, "2.0") != 0)
		return rpc_error_set(err, RPC_INVALID_REQUEST,
				     "jsonrpc: must be \"2.0\"");
	if (id && !rpc_is_id(id))
		return rpc_error_set(err, RPC_INVALID_REQUEST,
				     "id: must be a string of at most %d bytes or an "
				     "integer",
				     RPC_ID_MAX);
	ret->id = id;
	if (!method && answer && id) {
		ret->kind = RPC_RESPONSE;
		return 0;
	}
	ret->method = rpc_text(json, "method");
	if (!ret->method || answer)
		return rpc_error_set(
			err, RPC_INVALID_REQUEST,
			answer ? "a message cannot have a method and a result"
			       : "method: must be a string");
	ret->kind = id ? RPC_REQUEST : RPC_NOTIFICATION;
	ret->params = json_object_get(json, "params");
	if (ret->params && !json_is_object(ret->params))
		return rpc_error_set(err, RPC_INVALID_PARAMS,
				     "params: must be an object");
	ret->meta = json_object_get(ret->params, "_meta");
	if (ret->meta && !json_is_object(ret->meta))
		return rpc_error_set(err, RPC_INVALID_PARAMS,
				     "params._meta: must be an object");
	return 0;
}

enum rpc_era rpc_era(const char *version, const json_t *body)
{
	const json_t *meta = json_object_get(json_object_get(body, "params"), "_meta");

	if (version && !rpc_is_legacy_version(version))
		return RPC_MODERN;
	return json_object_get(meta, RPC_META "protocolVersion") ? RPC_MODERN
								 : RPC_LEGACY;
}

/* Is the header, which may be encoded, equal to @text? */
static bool rpc_name_is(const char *header, const char *text)
{
	static const char begin[] = "=?base64?", end[] = "?=";
	size_t n = strlen(header), b = strlen(begin), e = strlen(end);
	char name[NAME_MAX_BYTES];
	ssize_t size;

	if (n < b + e || strncmp(header, begin, b) != 0 ||
	    strcmp(header + n - e, end) != 0)
		return strcmp(header, text) == 0;
	if (n > sizeof(name))
		return false;
	size = base64_decode(header + b, n - b - e, name);
	return size >= 0 && (size_t)size == strlen(text) &&
	       memcmp(name, text, (size_t)size) == 0;
}

/* Return the member of the params that Mcp-Name repeats; NULL: none. */
static const char *rpc_name_member(const char *method)
{
	static const struct {
		const char *method, *member;
	} table[] = {
		{ "tools/call", "name" },
		{ "prompts/get", "name" },
		{ "resources/read", "uri" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (strcmp(table[i].method, method) == 0)
			return table[i].member;
	return NULL;
}

static int rpc_check_headers(const struct rpc_message *m, const struct rpc_headers *h,
			     const char *version, struct rpc_error *err)
{
	const char *member = rpc_name_member(m->method);
	const char *name = member ? rpc_text(m->params, member) : NULL;

	if (!h->version || strcmp(h->version, version) != 0)
		return rpc_error_set(err, RPC_HEADER_MISMATCH,
				     "the header MCP-Protocol-Version must be equal to "
				     "params._meta." RPC_META "protocolVersion");
	if (!h->method || strcmp(h->method, m->method) != 0)
		return rpc_error_set(err, RPC_HEADER_MISMATCH,
				     "the header Mcp-Method must be equal to method");
	if (name && (!h->name || !rpc_name_is(h->name, name)))
		return rpc_error_set(err, RPC_HEADER_MISMATCH,
				     "the header Mcp-Name must be equal to params.%s",
				     member);
	return 0;
}

static int rpc_refuse_version(const char *version, struct rpc_error *err)
{
	struct buf data = BUF_IN(err->data);
	struct json j = { .out = &data };
	int r = rpc_error_set(err, RPC_VERSION_NOT_SUPPORTED,
			      "the version '%.32s' is not supported; use '%s', or begin "
			      "with 'initialize'",
			      version, RPC_MODERN_VERSION);

	json_open(&j, NULL, '{');
	json_open(&j, "supported", '[');
	json_str(&j, NULL, RPC_MODERN_VERSION);
	json_close(&j, ']');
	json_strn(&j, "requested", version, strnlen(version, 64));
	json_close(&j, '}');
	if (data.failed)
		err->data[0] = '\0';
	return r;
}

int rpc_check_modern(const struct rpc_message *m, const struct rpc_headers *h,
		     struct rpc_error *err)
{
	const char *version = rpc_text(m->meta, RPC_META "protocolVersion");
	const json_t *token = json_object_get(m->meta, "progressToken");

	if (h->doubled)
		return rpc_error_set(err, RPC_HEADER_MISMATCH,
				     "MCP-Protocol-Version, Mcp-Method and Mcp-Name can "
				     "be sent only once");
	if (!version)
		return rpc_error_set(err, RPC_INVALID_PARAMS,
				     "params._meta." RPC_META
				     "protocolVersion: must be a string");
	if (!json_is_object(json_object_get(m->meta, RPC_META "clientCapabilities")))
		return rpc_error_set(err, RPC_INVALID_PARAMS,
				     "params._meta." RPC_META
				     "clientCapabilities: must be an object");
	if (rpc_check_headers(m, h, version, err) < 0)
		return -1;
	if (strcmp(version, RPC_MODERN_VERSION) != 0)
		return rpc_refuse_version(version, err);
	if (token && !rpc_is_id(token))
		return rpc_error_set(err, RPC_INVALID_PARAMS,
				     "params._meta.progressToken: must be a string or an "
				     "integer");
	return 0;
}

/* ------------------------------------------------------------------- writing */

void rpc_write_id(struct json *j, const char *key, const json_t *id)
{
	if (json_is_integer(id))
		json_int(j, key, json_integer_value(id));
	else if (json_is_string(id))
		json_strn(j, key, json_string_value(id), json_string_length(id));
	else
		json_nil(j, key);
}

void rpc_write_result(struct buf *out, const json_t *id, const char *result, size_t n)
{
	struct json j = { .out = out };

	json_open(&j, NULL, '{');
	json_str(&j, "jsonrpc", "2.0");
	rpc_write_id(&j, "id", id);
	json_raw(&j, "result", result, n);
	json_close(&j, '}');
}

void rpc_write_error(struct buf *out, const json_t *id, const struct rpc_error *err)
{
	struct json j = { .out = out };

	json_open(&j, NULL, '{');
	json_str(&j, "jsonrpc", "2.0");
	rpc_write_id(&j, "id", id);
	json_open(&j, "error", '{');
	json_int(&j, "code", err->code);
	json_str(&j, "message", err->message);
	if (err->data[0])
		json_raw(&j, "data", err->data, strlen(err->data));
	json_close(&j, '}');
	json_close(&j, '}');
}
