/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.c - the operations of E2B's API, and what their requests may contain
 *
 * A field that is not listed is refused, so that no client believes that it has an
 * effect. A field with null counts as omitted.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/e2b/internal.h"
#include "base/percent.h"

/* -------------------------------------------------------------------------- schemas */

/* clang-format off */
#define SCHEMA(...) (&(const struct api_schema){ __VA_ARGS__ })
#define TEXT(max)   SCHEMA(.types = API_STRING, .max_len = (max))
#define WORDS(...)  SCHEMA(.types = API_STRING, .max_len = UINT32_MAX, \
			   .words = (const char *const[]){ __VA_ARGS__ }, \
			   .n_words = sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))
#define INTEGER(low, high) SCHEMA(.types = API_INTEGER, .min = (low), .max = (high))
#define BOOLEAN     SCHEMA(.types = API_BOOLEAN)
#define LIST(most, of) SCHEMA(.types = API_ARRAY, .max_len = (most), .items = (of))
#define MAP(most, of)  SCHEMA(.types = API_OBJECT, .max_len = (most), .items = (of), .names = TEXT(4096))
#define OBJECT_OF(list, ...) SCHEMA(.types = API_OBJECT, .max_len = UINT32_MAX, \
			   .fields = (list), .n_fields = sizeof(list) / sizeof((list)[0]), __VA_ARGS__)
#define EMPTY       SCHEMA(.types = API_OBJECT, .max_len = UINT32_MAX)
#define FIELDS(name) static const struct api_field name[]

#define ENVS     MAP(1024, TEXT(131072))
#define METADATA MAP(256, TEXT(4096))
#define PATH     TEXT(4095)
#define BASE64   SCHEMA(.types = API_STRING, .max_len = UINT32_MAX, .format = API_FORMAT_BASE64)
/* About 30 years, as many as other times of the service can hold. */
#define SECONDS  INTEGER(INT32_MIN, 946080000)

/* Fields are sorted by name: the first that is required has bit 0. */
FIELDS(auto_resume_fields) = { { "enabled", BOOLEAN } };
FIELDS(volume_mount_fields) = { { "name", TEXT(128) }, { "path", PATH } };
FIELDS(transform_fields) = { { "headers", MAP(20, TEXT(8192)) } };
FIELDS(rule_fields) = { { "transform", OBJECT_OF(transform_fields) } };
FIELDS(network_fields) = {
	{ "allowOut", LIST(256, TEXT(256)) },
	{ "allowPublicTraffic", BOOLEAN },
	{ "allow_internet_access", BOOLEAN },
	{ "denyOut", LIST(256, TEXT(256)) },
	{ "rules", MAP(10, LIST(1, OBJECT_OF(rule_fields))) },
};
FIELDS(network_update_fields) = {
	{ "allowOut", LIST(256, TEXT(256)) },
	{ "allow_internet_access", BOOLEAN },
	{ "denyOut", LIST(256, TEXT(256)) },
	{ "rules", MAP(10, LIST(1, OBJECT_OF(rule_fields))) },
};
/* Settings of the servers behind the program mcp-gateway, which the SDK starts itself. */
#define SCALAR        (API_STRING | API_INTEGER | API_BOOLEAN | API_NULL)
#define FREE(of)      SCHEMA(.types = SCALAR | API_ARRAY | API_OBJECT, .min = INT64_MIN, .max = INT64_MAX, \
			     .max_len = 65536, .items = (of), .names = TEXT(4096))
#define FREE_LAST     SCHEMA(.types = SCALAR, .min = INT64_MIN, .max = INT64_MAX, .max_len = 65536)
#define MCP_SERVERS   MAP(256, FREE(FREE(FREE(FREE_LAST))))
FIELDS(create_fields) = {
	{ "allow_internet_access", BOOLEAN },
	{ "autoPause", BOOLEAN },
	{ "autoPauseMemory", BOOLEAN },
	{ "autoResume", OBJECT_OF(auto_resume_fields) },
	{ "envVars", ENVS },
	{ "mcp", MCP_SERVERS },
	{ "metadata", METADATA },
	{ "network", OBJECT_OF(network_fields) },
	{ "secure", BOOLEAN }, /* false has no effect, as in E2B: all need their token */
	{ "templateID", TEXT(256) },
	{ "timeout", SECONDS },
	{ "volumeMounts", LIST(16, OBJECT_OF(volume_mount_fields, .required = 3)) },
};
FIELDS(timeout_fields) = { { "timeout", SECONDS } };
FIELDS(refresh_fields) = { { "duration", SECONDS } };
FIELDS(pause_fields) = { { "memory", BOOLEAN }, { "requireHealthyGuest", BOOLEAN } };
FIELDS(connect_fields) = { { "memory", BOOLEAN }, { "timeout", SECONDS } };
FIELDS(resume_fields) = {
	{ "autoPause", BOOLEAN }, { "memory", BOOLEAN }, { "timeout", SECONDS },
};

FIELDS(snapshot_fields) = { { "memory", BOOLEAN }, { "name", TEXT(256) } };
FIELDS(fork_fields) = {
	{ "count", SCHEMA(.types = API_INTEGER, .min = 1, .max = 20, .has_fallback = true, .fallback = 1) },
	{ "timeout", SECONDS },
};
/* The metadata of a secret is not kept, so only an empty one is accepted. */
#define NO_METADATA SCHEMA(.types = API_OBJECT, .max_len = UINT32_MAX)
#define SECRET_VALUE SCHEMA(.types = API_STRING, .max_len = 65536, .hidden = true)
FIELDS(secret_fields) = {
	{ "metadata", NO_METADATA }, { "name", TEXT(128) }, { "value", SECRET_VALUE },
};
FIELDS(secret_update_fields) = { { "metadata", NO_METADATA }, { "value", SECRET_VALUE } };

FIELDS(volume_fields) = { { "name", TEXT(128) } };
#define OWNER_ID INTEGER(0, UINT32_MAX - 1)
FIELDS(attribute_fields) = {
	{ "gid", OWNER_ID }, { "mode", INTEGER(0, 07777) }, { "uid", OWNER_ID },
};

FIELDS(selector_fields) = { { "pid", INTEGER(0, INT32_MAX) }, { "tag", TEXT(256) } };
#define SELECTOR OBJECT_OF(selector_fields)
FIELDS(config_fields) = {
	{ "args", LIST(16384, TEXT(131072)) },
	{ "cmd", TEXT(4096) },
	{ "cwd", PATH },
	{ "envs", ENVS },
};
FIELDS(size_fields) = { { "cols", INTEGER(0, 65535) }, { "rows", INTEGER(0, 65535) } };
FIELDS(pty_fields) = { { "size", OBJECT_OF(size_fields) } };
FIELDS(start_fields) = {
	{ "process", OBJECT_OF(config_fields, .required = 2) },
	{ "pty", OBJECT_OF(pty_fields) },
	{ "stdin", BOOLEAN },
	{ "tag", TEXT(256) },
};
FIELDS(process_fields) = { { "process", SELECTOR } };
FIELDS(input_fields) = { { "pty", BASE64 }, { "stdin", BASE64 } };
FIELDS(send_fields) = { { "input", OBJECT_OF(input_fields) }, { "process", SELECTOR } };
FIELDS(signal_fields) = {
	{ "process", SELECTOR },
	{ "signal", WORDS("SIGNAL_UNSPECIFIED", "SIGNAL_SIGTERM", "SIGNAL_SIGKILL") },
};
FIELDS(update_fields) = { { "process", SELECTOR }, { "pty", OBJECT_OF(pty_fields) } };
FIELDS(stream_start_fields) = { { "process", SELECTOR } };
FIELDS(stream_data_fields) = { { "input", OBJECT_OF(input_fields) } };
FIELDS(stream_input_fields) = {
	{ "data", OBJECT_OF(stream_data_fields) },
	{ "keepalive", EMPTY },
	{ "start", OBJECT_OF(stream_start_fields) },
};

FIELDS(path_fields) = { { "path", PATH } };
FIELDS(list_dir_fields) = { { "depth", INTEGER(0, 256) }, { "path", PATH } };
FIELDS(move_fields) = { { "destination", PATH }, { "source", PATH } };
FIELDS(watch_fields) = {
	{ "allowNetworkMounts", BOOLEAN }, { "includeEntry", BOOLEAN },
	{ "path", PATH }, { "recursive", BOOLEAN },
};
FIELDS(watcher_fields) = { { "watcherId", TEXT(64) } };

FIELDS(build_fields) = {
	{ "alias", TEXT(256) }, { "cpuCount", INTEGER(1, 1000) }, { "memoryMB", INTEGER(1, 1 << 30) },
	{ "minFreeDiskMb", INTEGER(0, 1 << 30) }, { "name", TEXT(256) },
	{ "tags", LIST(100, TEXT(128)) }, { "teamID", TEXT(128) },
};
/* The fields after filesHash matter to the SDK alone, before it sends the request. */
FIELDS(step_fields) = {
	{ "args", LIST(4096, SCHEMA(.types = API_STRING | API_NULL, .max_len = 1U << 20)) },
	{ "filesHash", TEXT(64) }, { "force", BOOLEAN },
	{ "forceUpload", BOOLEAN }, { "gzip", BOOLEAN }, { "resolveSymlinks", BOOLEAN },
	{ "type", TEXT(32) },
};
FIELDS(start_build_fields) = {
	{ "force", BOOLEAN }, { "fromImage", TEXT(512) },
	{ "fromImageRegistry", MAP(16, SCHEMA(.types = API_STRING, .max_len = 65536, .hidden = true)) },
	{ "fromTemplate", TEXT(256) }, { "readyCmd", TEXT(65536) }, { "startCmd", TEXT(65536) },
	{ "steps", LIST(1000, OBJECT_OF(step_fields, .required = 64)) },
};
FIELDS(publish_fields) = { { "public", BOOLEAN } };
FIELDS(assign_fields) = { { "tags", LIST(100, TEXT(128)) }, { "target", TEXT(256) } };
FIELDS(remove_fields) = { { "name", TEXT(256) }, { "tags", LIST(100, TEXT(128)) } };

FIELDS(execute_fields) = {
	{ "code", TEXT(4U << 20) }, { "context_id", TEXT(64) },
	{ "env_vars", ENVS }, { "language", TEXT(64) },
};
FIELDS(context_fields) = { { "cwd", PATH }, { "language", TEXT(64) } };

/* ------------------------------------------------------------------------ operations */

#define BODY(list, ...) .op.body = API_BODY_JSON, .op.body_type = "application/json", \
	.op.nulls = true, .op.max_body = 4U << 20, .op.schema = OBJECT_OF(list, __VA_ARGS__)
#define NO_FIELDS .op.body = API_BODY_JSON, .op.body_type = "application/json", \
	.op.nulls = true, .op.max_body = 4096, .op.schema = EMPTY
#define ON(m, p, what) .op.method = API_##m, .op.path = (p), .op.id = "e2b " #what, .handler = e2b_##what
#define MAY(s) .op.scope = V1_SCOPE_##s
#define OPENS  .opens = true

#define CONTENT "/volumecontent/{}/"

static const struct e2b_op control[] = {
	{ ON(POST, "/v2/sandboxes", create_v2), MAY(WRITE), OPENS, BODY(create_fields, .required = 512), .op.body_required = true },
	{ ON(POST, "/sandboxes", create_v1), MAY(WRITE), OPENS, BODY(create_fields, .required = 512), .op.body_required = true },
	{ ON(GET, "/v2/sandboxes", list), MAY(READ) },
	{ ON(GET, "/sandboxes", list_running), MAY(READ) },
	{ ON(GET, "/sandboxes/metrics", metrics_of_all), MAY(READ) },
	{ ON(GET, "/sandboxes/{}", get), MAY(READ) },
	{ ON(DELETE, "/sandboxes/{}", kill), MAY(WRITE) },
	{ ON(POST, "/sandboxes/{}/timeout", timeout), MAY(WRITE), BODY(timeout_fields, .required = 1), .op.body_required = true },
	{ ON(POST, "/sandboxes/{}/refreshes", refresh), MAY(WRITE), BODY(refresh_fields) },
	{ ON(POST, "/sandboxes/{}/pause", pause), MAY(WRITE), BODY(pause_fields) },
	{ ON(POST, "/v2/sandboxes/{}/connect", connect_v2), MAY(WRITE), OPENS, BODY(connect_fields) },
	{ ON(POST, "/sandboxes/{}/connect", connect_v1), MAY(WRITE), OPENS, BODY(connect_fields) },
	{ ON(POST, "/sandboxes/{}/resume", resume_old), MAY(WRITE), OPENS, BODY(resume_fields) },
	{ ON(GET, "/sandboxes/{}/metrics", metrics), MAY(READ) },
	{ ON(POST, "/sandboxes/{}/snapshots", create_snapshot), MAY(WRITE), BODY(snapshot_fields) },
	{ ON(POST, "/sandboxes/{}/fork", fork), MAY(WRITE), OPENS, BODY(fork_fields) },
	{ ON(PUT, "/sandboxes/{}/network", update_network), MAY(WRITE), BODY(network_update_fields) },
	{ ON(GET, "/sandboxes/{}/logs", logs), MAY(READ) },
	{ ON(GET, "/v2/sandboxes/{}/logs", logs_v2), MAY(READ) },
	{ ON(GET, "/snapshots", list_snapshots), MAY(READ) },
	{ ON(GET, "/templates", list_templates), MAY(READ) },
	{ ON(GET, "/v2/templates", list_templates), MAY(READ) },
	{ ON(POST, "/v3/templates", request_build), MAY(WRITE), BODY(build_fields), .op.body_required = true },
	{ ON(POST, "/v2/templates/{}/builds/{}", start_build), MAY(WRITE), BODY(start_build_fields), .op.body_required = true },
	{ ON(GET, "/templates/{}/builds/{}/status", build_status), MAY(READ) },
	{ ON(GET, "/templates/{}/builds/{}/logs", build_logs), MAY(READ) },
	{ ON(GET, "/templates/{}/files/{}", get_upload), MAY(WRITE) },
	/* The URL has a signature. */
	{ ON(PUT, "/templates/{}/files/{}", upload_archive), MAY(WRITE), .caller = e2b_upload_caller, .streams = true },
	{ ON(GET, "/templates/aliases/{}", get_alias), MAY(READ) },
	{ ON(POST, "/templates/tags", assign_tags), MAY(WRITE), BODY(assign_fields, .required = 3), .op.body_required = true },
	{ ON(DELETE, "/templates/tags", remove_tags), MAY(WRITE), BODY(remove_fields, .required = 3), .op.body_required = true },
	{ ON(GET, "/templates/{}/tags", list_tags), MAY(READ) },
	{ ON(PATCH, "/v2/templates/{}", publish_template), MAY(WRITE), BODY(publish_fields) },
	{ ON(PATCH, "/templates/{}", publish_template), MAY(WRITE), BODY(publish_fields) },
	{ ON(POST, "/templates", refuse_push), MAY(WRITE), .streams = true },
	{ ON(POST, "/v2/templates", refuse_push), MAY(WRITE), .streams = true },
	{ ON(POST, "/templates/{}", refuse_push), MAY(WRITE), .streams = true },
	{ ON(POST, "/templates/{}/builds/{}", refuse_push), MAY(WRITE), .streams = true },
	{ ON(GET, "/templates/{}", get_template), MAY(READ) },
	{ ON(DELETE, "/templates/{}", delete_template), MAY(WRITE) },
	{ ON(GET, "/secrets", list_secrets), MAY(SECRETS) },
	{ ON(POST, "/secrets", create_secret), MAY(SECRETS), BODY(secret_fields, .required = 6), .op.body_required = true },
	{ ON(GET, "/secrets/{}", get_secret), MAY(SECRETS) },
	{ ON(POST, "/secrets/{}", update_secret), MAY(SECRETS), BODY(secret_update_fields, .required = 2), .op.body_required = true },
	{ ON(DELETE, "/secrets/{}", delete_secret), MAY(SECRETS) },
	{ ON(GET, "/volumes", list_volumes), MAY(READ) },
	{ ON(POST, "/volumes", create_volume), MAY(WRITE), BODY(volume_fields, .required = 1), .op.body_required = true },
	{ ON(GET, "/volumes/{}", get_volume), MAY(READ) },
	{ ON(DELETE, "/volumes/{}", delete_volume), MAY(WRITE) },
	{ ON(GET, CONTENT "path", content_stat), MAY(FILES), .caller = e2b_volume_caller },
	{ ON(PATCH, CONTENT "path", content_change), MAY(FILES), .caller = e2b_volume_caller, BODY(attribute_fields), .op.body_required = true },
	{ ON(DELETE, CONTENT "path", content_remove), MAY(FILES), .caller = e2b_volume_caller },
	{ ON(GET, CONTENT "dir", content_list), MAY(FILES), .caller = e2b_volume_caller },
	{ ON(POST, CONTENT "dir", content_make_dir), MAY(FILES), .caller = e2b_volume_caller },
	{ ON(GET, CONTENT "file", content_read), MAY(FILES), .caller = e2b_volume_caller },
	{ ON(PUT, CONTENT "file", content_write), MAY(FILES), .caller = e2b_volume_caller, .streams = true },
	{ ON(GET, "/teams", teams), MAY(READ) },
	{ ON(GET, "/health", health) },
};

#define UNARY(p, what, list, ...) { ON(POST, p, what), .form = E2B_UNARY, BODY(list, __VA_ARGS__) }
#define STREAM(p, what, list, ...) { ON(POST, p, what), .form = E2B_STREAM, BODY(list, __VA_ARGS__) }
#define PROCESS    "/process.Process/"
#define FILESYSTEM "/filesystem.Filesystem/"

static const struct e2b_op data[] = {
	STREAM(PROCESS "Start", process_start, start_fields, .required = 1),
	STREAM(PROCESS "Connect", process_connect, process_fields, .required = 1),
	{ ON(POST, PROCESS "List", process_list), .form = E2B_UNARY, NO_FIELDS },
	UNARY(PROCESS "SendInput", process_send_input, send_fields, .required = 3),
	{ ON(POST, PROCESS "StreamInput", process_stream_input), .form = E2B_STREAM, BODY(stream_input_fields), .streams = true },
	UNARY(PROCESS "CloseStdin", process_close_stdin, process_fields, .required = 1),
	UNARY(PROCESS "SendSignal", process_send_signal, signal_fields, .required = 3),
	UNARY(PROCESS "Update", process_update, update_fields, .required = 1),
	UNARY(FILESYSTEM "Stat", fs_stat, path_fields),
	UNARY(FILESYSTEM "MakeDir", fs_make_dir, path_fields),
	UNARY(FILESYSTEM "Move", fs_move, move_fields),
	UNARY(FILESYSTEM "ListDir", fs_list_dir, list_dir_fields),
	UNARY(FILESYSTEM "Remove", fs_remove, path_fields),
	STREAM(FILESYSTEM "WatchDir", fs_watch_dir, watch_fields),
	UNARY(FILESYSTEM "CreateWatcher", fs_create_watcher, watch_fields),
	UNARY(FILESYSTEM "GetWatcherEvents", fs_get_watcher_events, watcher_fields, .required = 1),
	UNARY(FILESYSTEM "RemoveWatcher", fs_remove_watcher, watcher_fields, .required = 1),
	{ ON(GET, "/files", file_read), .public = true },
	{ ON(POST, "/files", file_write), .public = true, .streams = true },
	{ ON(GET, "/health", envd_health), .public = true },
	{ ON(GET, "/envs", envd_envs) },
	{ ON(GET, "/metrics", envd_metrics) },
};

/*
 * SDKs send the access token only with code. Everything else of the interpreter is as public
 * as any port of the sandbox.
 */
static const struct e2b_op interpreter[] = {
	{ ON(GET, "/health", interpreter_health), .public = true },
	{ ON(POST, "/execute", interpreter_execute), BODY(execute_fields, .required = 1), .op.body_required = true },
	{ ON(GET, "/contexts", contexts_list), .public = true },
	{ ON(POST, "/contexts", contexts_create), .public = true, BODY(context_fields) },
	{ ON(DELETE, "/contexts/{}", contexts_delete), .public = true },
	{ ON(POST, "/contexts/{}/restart", contexts_restart), .public = true },
};
/* clang-format on */

/* ------------------------------------------------------------------------- routes */

/*
 * Does the path match? A segment "{}" is decoded to the next parameter. One that is
 * longer than every name becomes TOO_LONG, so that the handler says that it does not
 * exist.
 */
#define TOO_LONG "..."
static bool table_matches(const char *pattern, const char *path, struct route *ret)
{
	size_t used = 0;

	ret->n_params = 0;
	while (*pattern || *path) {
		size_t n = strcspn(path + (*path == '/'), "/");
		size_t m = strcspn(pattern + (*pattern == '/'), "/");
		ssize_t len;

		if (*pattern != '/' || *path != '/')
			return false;
		pattern++;
		path++;
		if (m == 2 && memcmp(pattern, "{}", 2) == 0 && n > 0 &&
		    ret->n_params < ROUTE_PARAMS_MAX) {
			len = percent_decode(path, n, false, ret->text + used,
					     sizeof(ret->text) - used);
			if (len <= 0 && len != -ENOSPC)
				return false;
			ret->param[ret->n_params++] =
				len > 0 ? ret->text + used : TOO_LONG;
			used += len > 0 ? (size_t)len + 1 : 0;
		} else if (m != n || memcmp(pattern, path, n) != 0) {
			return false;
		}
		pattern += m;
		path += n;
	}
	return true;
}

static const struct e2b_op *table_find(const struct e2b_op *ops, size_t n,
				       const char *method, const char *path,
				       struct route *ret, bool *ret_other)
{
	static const char *const names[API_METHOD_COUNT] = {
		[API_GET] = "GET",     [API_POST] = "POST",     [API_PUT] = "PUT",
		[API_PATCH] = "PATCH", [API_DELETE] = "DELETE",
	};

	*ret_other = false;
	*ret = (struct route){ .head = strcmp(method, "HEAD") == 0 };
	for (size_t i = 0; i < n; i++) {
		if (!table_matches(ops[i].op.path, path, ret))
			continue;
		if (strcmp(names[ops[i].op.method], ret->head ? "GET" : method) == 0)
			return &ops[i];
		*ret_other = true;
	}
	return NULL;
}

const struct e2b_op *e2b_find_control(const char *method, const char *path,
				      struct route *ret, bool *ret_allow)
{
	return table_find(control, ARRAY_SIZE(control), method, path, ret, ret_allow);
}

bool e2b_is_rpc(const char *path, enum e2b_form *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(data); i++) {
		if (data[i].form == E2B_REST || strcmp(data[i].op.path, path) != 0)
			continue;
		*ret = data[i].form;
		return true;
	}
	return false;
}

const struct e2b_op *e2b_find_data(uint16_t port, const char *method, const char *path,
				   struct route *ret, bool *ret_allow)
{
	if (port == INTERPRETER_PORT)
		return table_find(interpreter, ARRAY_SIZE(interpreter), method, path, ret,
				  ret_allow);
	return table_find(data, ARRAY_SIZE(data), method, path, ret, ret_allow);
}
