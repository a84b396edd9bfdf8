/* SPDX-License-Identifier: Apache-2.0 */
/* test-validate.c - bodies and queries: valid ones pass, and errors name the field */
#include "api/validate.h"

#include <errno.h>

#include "api/body.h"
#include "api/format.h"
#include "api/query.h"
#include "api/v1/ops.h"
#include "lib/tap.h"

static struct api_error error;

static const struct api_op *op(enum v1_op id)
{
	return &v1_face.ops[id];
}

/* Return NULL if the body was accepted, otherwise the message. */
static const char *judge(enum v1_op id, const char *text)
{
	AUTO_BODY struct body body = { 0 };

	error = (struct api_error){ 0 };
	return body_read(op(id), text, strlen(text), &body, &error) < 0 ? error.message
									: NULL;
}

static const char *pointer(void)
{
	for (size_t i = 0; i < error.n_details; i++)
		if (strcmp(error.details[i].key, "pointer") == 0)
			return error.details[i].text;
	return NULL;
}

#define ACCEPTED(id, text)                                         \
	do {                                                       \
		const char *why_ = judge(id, text);                \
		if (why_)                                          \
			TAP_FAIL("%s is refused: %s", text, why_); \
	} while (0)
#define REFUSED(id, text, why)               \
	do {                                 \
		STREQ(judge(id, text), why); \
	} while (0)

TEST(valid_values_pass)
{
	ACCEPTED(V1_CREATE_SANDBOX, "");
	ACCEPTED(V1_CREATE_SANDBOX, "{}");
	ACCEPTED(V1_CREATE_SANDBOX, " {\"limits\":{\"memory\":\"512m\"}} \n");
	ACCEPTED(V1_CREATE_SANDBOX, "{\"limits\":{\"memory\":1048576,\"pids\":1}}");
	ACCEPTED(V1_CREATE_SANDBOX, "{\"env\":{\"A\":\"\",\"_b.C-1\":\"\\u00e9\\n\"}}");
	ACCEPTED(V1_CREATE_SANDBOX, "{\"mounts\":[{\"target\":\"/x\",\"size\":4096}]}");
	ACCEPTED(V1_START_EXEC, "{\"argv\":[\"true\"]}");
	ACCEPTED(V1_START_EXEC, "{\"command\":\"true\"}");
	ACCEPTED(V1_UPDATE_SANDBOX,
		 "{\"labels\":{\"a\":null,\"b\":\"c\"},\"ttl_ms\":null}");
	ACCEPTED(V1_RESUME_SANDBOX, "");
	ACCEPTED(V1_RESUME_SANDBOX, "{}");
}

TEST(values_outside_their_bounds_are_refused)
{
	REFUSED(V1_CREATE_SANDBOX, "{\"limits\":{\"memory\":5}}",
		"/limits/memory: must be at least 1048576, is 5");
	STREQ(pointer(), "/limits/memory");
	EQ(error.code, API_ERR_INVALID_REQUEST);
	REFUSED(V1_CREATE_SANDBOX, "{\"limits\":{\"memory\":\"5k\"}}",
		"/limits/memory: must be at least 1048576, is 5120");
	REFUSED(V1_CREATE_SANDBOX, "{\"limits\":{\"memory\":9007199254740992}}",
		"/limits/memory: must be at most 9007199254740991, is 9007199254740992");
	REFUSED(V1_CREATE_SANDBOX, "{\"limits\":{\"memory\":\"9000t\"}}",
		"/limits/memory: must be at most 9007199254740991, is 9895604649984000");
	REFUSED(V1_CREATE_SANDBOX, "{\"limits\":{\"memory\":\"much\"}}",
		"/limits/memory: 'much' is not a size: use a number with k, m, g or t");
	REFUSED(V1_CREATE_SANDBOX, "{\"limits\":{\"pids\":0}}",
		"/limits/pids: must be at least 1, is 0");
	REFUSED(V1_CREATE_SANDBOX, "{\"limits\":{\"pids\":-1}}",
		"/limits/pids: must be at least 1, is -1");
	REFUSED(V1_CREATE_SANDBOX, "{\"ttl_ms\":31536000001}",
		"/ttl_ms: must be at most 31536000000, is 31536000001");
	REFUSED(V1_START_EXEC, "{\"argv\":[]}", "/argv: must not be empty");
	REFUSED(V1_UPDATE_SANDBOX, "{}", "the body: must not be empty");
}

TEST(values_of_a_wrong_type_are_refused)
{
	REFUSED(V1_CREATE_SANDBOX, "{\"limits\":{\"pids\":\"7\"}}",
		"/limits/pids: must be an integer, is '7'");
	REFUSED(V1_CREATE_SANDBOX, "{\"limits\":{\"pids\":7.0}}",
		"/limits/pids: must be an integer, is 7");
	REFUSED(V1_CREATE_SANDBOX, "{\"limits\":{\"memory\":true}}",
		"/limits/memory: must be an integer or a string, is true");
	REFUSED(V1_CREATE_SANDBOX, "{\"limits\":null}",
		"/limits: must be an object, is null");
	REFUSED(V1_CREATE_SANDBOX, "{\"limits\":[]}",
		"/limits: must be an object, is an array");
	REFUSED(V1_CREATE_SANDBOX, "{\"read_only\":1}",
		"/read_only: must be true or false, is 1");
	REFUSED(V1_CREATE_SANDBOX, "{\"env\":{\"A\":1}}",
		"/env/A: must be a string, is 1");
	REFUSED(V1_UPDATE_SANDBOX, "{\"ttl_ms\":\"1\"}",
		"/ttl_ms: must be an integer or null, is '1'");
	REFUSED(V1_START_EXEC, "{\"argv\":[\"a\",null]}",
		"/argv/1: must be a string, is null");
	REFUSED(V1_START_EXEC, "{\"argv\":\"true\"}",
		"/argv: must be an array, is 'true'");
	REFUSED(V1_CREATE_SANDBOX, "[]", "the body: must be an object, is an array");
}

TEST(unknown_fields_are_refused)
{
	REFUSED(V1_RESIZE_EXEC, "{\"rows\":1,\"cols\":1,\"colour\":1}",
		"/colour: is not a known field; known: cols, rows");
	REFUSED(V1_RESIZE_EXEC, "{\"rows\":1,\"cols\":1,\"Rows\":1}",
		"/Rows: is not a known field; known: cols, rows");
	REFUSED(V1_RESUME_SANDBOX, "{\"memory\":false}",
		"/memory: is not a known field; this object has no fields");
	REFUSED(V1_CREATE_SANDBOX, "{\"mounts\":[{\"target\":\"/a\"},{\"dst\":\"/b\"}]}",
		"/mounts/1/dst: is not a known field; known: read_only, size, source, "
		"target, volume");
	OK(judge(V1_RESIZE_EXEC, "{\"a/b~c\":1}") != NULL);
	STREQ(pointer(), "/a~1b~0c");
}

TEST(missing_required_fields_are_refused)
{
	REFUSED(V1_RESIZE_EXEC, "{\"rows\":1}", "/cols: is missing");
	REFUSED(V1_RESIZE_EXEC, "", "this operation needs a body of application/json");
	REFUSED(V1_CREATE_SANDBOX, "{\"mounts\":[{}]}", "/mounts/0/target: is missing");
	REFUSED(V1_START_EXEC, "{}",
		"the body: must have exactly one of argv and command");
	REFUSED(V1_START_EXEC, "{\"argv\":[\"a\"],\"command\":\"b\"}",
		"the body: must have exactly one of argv and command");
}

TEST(only_listed_words_are_accepted)
{
	ACCEPTED(V1_CREATE_SANDBOX, "{\"on_idle\":\"delete\"}");
	REFUSED(V1_CREATE_SANDBOX, "{\"on_idle\":\"host\"}",
		"/on_idle: must be one of pause, hibernate, delete; is 'host'");
	REFUSED(V1_CREATE_SANDBOX, "{\"on_idle\":\"None\"}",
		"/on_idle: must be one of pause, hibernate, delete; is 'None'");
	REFUSED(V1_CREATE_SANDBOX, "{\"on_idle\":\"\"}",
		"/on_idle: must be one of pause, hibernate, delete; is ''");
}

TEST(lengths_count_characters)
{
	char text[4096];

	/*
	 * 63 characters of two bytes each are refused only because of the characters, not
	 * because of the length.
	 */
	(void)snprintf(text, sizeof(text), "{\"name\":\"%0*d\"}", 63, 0);
	ACCEPTED(V1_CREATE_SANDBOX, text);
	(void)snprintf(text, sizeof(text), "{\"name\":\"%0*d\"}", 64, 0);
	REFUSED(V1_CREATE_SANDBOX, text,
		"/name: must have at most 63 characters, has 64");
	(void)strcpy(text, "{\"labels\":{\"a\":\"");
	for (int i = 0; i < 256; i++)
		(void)strcat(text, "\xc3\xa9");
	(void)strcat(text, "\"}}");
	ACCEPTED(V1_CREATE_SANDBOX, text);
	(void)strcpy(strrchr(text, '"'), "\xc3\xa9\"}}");
	REFUSED(V1_CREATE_SANDBOX, text,
		"/labels/a: must have at most 256 characters, has 257");
}

TEST(names_in_maps_are_checked)
{
	REFUSED(V1_CREATE_SANDBOX, "{\"env\":{\"\":\"x\"}}", "/env/: must not be empty");
	OK(judge(V1_CREATE_SANDBOX, "{\"env\":{\"A=B\":\"x\"}}") != NULL);
	STREQ(pointer(), "/env/A=B");
	OK(judge(V1_CREATE_SANDBOX, "{\"env\":{\"1\":\"x\"}}") != NULL);
	OK(judge(V1_CREATE_SANDBOX, "{\"labels\":{\"-a\":\"x\"}}") != NULL);
	OK(judge(V1_CREATE_SANDBOX, "{\"labels\":{\"a\":\"x\\u001b[2J\"}}") != NULL);
	OK(judge(V1_CREATE_SANDBOX, "{\"labels\":{\"a\":\"x\\u009b2J\"}}") != NULL);
	ACCEPTED(V1_CREATE_SANDBOX, "{\"labels\":{\"a\":\"x\\u00a0[2J\"}}");
}

static const struct {
	enum api_format format;
	const char *good[4], *bad[7];
} format_cases[] = {
	{ API_FORMAT_ID, { "k3f9x2m7qd1w" }, { "k3f9x2m7qd1", "k3f9x2m7qd1a", "" } },
	{ API_FORMAT_PATH,
	  { "/", "/a/b", "/a//b/", "/..a/.b/c.." },
	  { "", "a", "./a", "/.", "/a/..", "/../a", "/a/./b" } },
	{ API_FORMAT_USER,
	  { "root", "1000", "65535:0", "_x.y-z" },
	  { "", "65536", "0:65536", "-x", "a b", "1:2:3", "a:b" } },
	{ API_FORMAT_MODE,
	  { "644", "0644", "4755", "01777" },
	  { "", "64", "0888", "10644", "u+x", "+755", "000644" } },
	{ API_FORMAT_NAME, { "a", "a-1", "1" }, { "", "-a", "a-", "A", "a_b", "a.b" } },
	{ API_FORMAT_HOSTNAME,
	  { "a", "a-b.c", "A1" },
	  { "", "-a", "a-", "a..b", ".a", "a.", "a_b" } },
	{ API_FORMAT_IMAGE,
	  { "host", "python:3.12", "registry.example:5000/a/b@sha256:00" },
	  { "", "dir:/etc", "/etc", "-x", "a b", "a;b", "a\nb" } },
	{ API_FORMAT_PLATFORM,
	  { "linux/arm64", "linux/arm/v7" },
	  { "", "linux", "linux/", "/linux", "a/b/c/d", "Linux/x" } },
	{ API_FORMAT_SHELL,
	  { "bash", "/bin/sh", "/usr/bin/zsh-5.9" },
	  { "", "-i", "a b", "./sh", "/bin/../sh", "sh;id", "/a\nb" } },
	{ API_FORMAT_SIGNAL,
	  { "TERM", "SIGTERM", "KILL", "USR1" },
	  { "", "SIG", "term", "9", "SIGSIGTERM", "NOPE", "EXIT" } },
	{ API_FORMAT_BASE64,
	  { "", "AA==", "AAE=", "AAEC" },
	  { "A", "AA", "AAA", "A===", "AA=A", "AA-_", "====" } },
	{ API_FORMAT_KEY, { "a-b:c/~", "x" }, { "a b", "a\tb", "\xc3\xa9" } },
	{ API_FORMAT_ENV_NAME, { "A", "_a1", "a.b-c" }, { "", "1a", "A=B", "a b" } },
	{ API_FORMAT_LABEL_KEY, { "a", "a/b.c_d-1" }, { "", "/a", "a=b", "a b" } },
	{ API_FORMAT_LABEL_FILTER,
	  { "a", "a=", "a=b=c", "a/b=c d" },
	  { "", "=b", "a b=c", "a=\n", "-a=b" } },
	{ API_FORMAT_PAGE_CURSOR, { "MTIz_-" }, { "", "a=b", "a+b", "a/b" } },
	{ API_FORMAT_DATE_TIME,
	  { "2025-01-20T15:04:05Z", "2025-01-20T15:04:05.123Z" },
	  { "", "2025-01-20", "2025-01-20 15:04:05Z", "2025-01-20T15:04:05",
	    "2025-01-20T15:04:05+01:00" } },
	{ API_FORMAT_SANDBOX_NAME,
	  { "a", "My_box.1-x", "1" },
	  { "", "_a", "a b", "a/b", "batch", "\xc3\xa9" } },
	{ API_FORMAT_SECRET_NAME, { "A", "_a1" }, { "", "1A", "a-b", "a b" } },
	{ API_FORMAT_SNAPSHOT_NAME,
	  { "a", "a_.-1:v1", "k3f9x2m7qd1w" },
	  { "", "a/b", "A", "a:", "a:b:c", "host" } },
	{ API_FORMAT_WORK_NAME, { "a", "batch", "1_.-" }, { "", "-a", "..", "a/b" } },
	{ API_FORMAT_VOLUME_NAME, { "a", "1_.-" }, { "", "_a", "..", "a/b" } },
	{ API_FORMAT_LINE, { "", "a b", "\xc3\xa9" }, { "\n", "\x7f", "\xc2\x9b" } },
};

TEST(formats_are_checked)
{
	bool seen[API_FORMAT_COUNT] = {
		[API_FORMAT_NONE] = true, [API_FORMAT_SIZE] = true
	};

	for (size_t i = 0; i < ARRAY_SIZE(format_cases); i++) {
		seen[format_cases[i].format] = true;
		for (size_t k = 0; k < 4 && format_cases[i].good[k]; k++)
			if (format_check(format_cases[i].format, format_cases[i].good[k]))
				TAP_FAIL("'%s' %s", format_cases[i].good[k],
					 format_check(format_cases[i].format,
						      format_cases[i].good[k]));
		for (size_t k = 0; k < 7 && format_cases[i].bad[k]; k++)
			if (!format_check(format_cases[i].format, format_cases[i].bad[k]))
				TAP_FAIL("format %d accepts '%s'",
					 (int)format_cases[i].format,
					 format_cases[i].bad[k]);
	}
	for (size_t i = 0; i < API_FORMAT_COUNT; i++)
		if (!seen[i])
			TAP_FAIL("format %zu is not tested", i);
	EQ(format_signal("SIGKILL"), 9);
}

/* ------------------------------------------------------------------ strict JSON */

TEST(invalid_json_is_refused)
{
	static const char *const bad[] = {
		"{",
		"{}{}",
		"{} x",
		"nothing",
		"\"text\"",
		"7",
		"null",
		"{\"a\":1,}",
		"{'a':1}",
		"{\"image\":\"host\",\"image\":\"host\"}",
		"{\"limits\":{\"pids\":1,\"pids\":2}}",
		"{\"image\":\"\xff\"}",
		"{\"image\":\"\xc0\xaf\"}",
		"{\"image\":\"\\ud800\"}",
		"{\"image\":\"a\\u0000b\"}",
		"{\"im\\u0000age\":\"a\"}",
		"{\"image\":\"a\nb\"}",
		"{\"ttl_ms\":99999999999999999999}",
		"{\"ttl_ms\":1e999}",
		"{\"ttl_ms\":0x10}",
		"{\"ttl_ms\":01}",
		"{\"ttl_ms\":NaN}",
		"\xef\xbb\xbf{}",
		"// comment\n{}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (!judge(V1_CREATE_SANDBOX, bad[i]))
			TAP_FAIL("%s is accepted", bad[i]);
		EQ(error.code, API_ERR_INVALID_JSON);
		EQ(api_code_status(error.code), 400);
	}
	ACCEPTED(V1_CREATE_SANDBOX, "{\"ttl_ms\":1000}");
}

TEST(a_nul_after_the_body_is_refused)
{
	struct body body;

	EQ(body_read(op(V1_CREATE_SANDBOX), "{}\0{}", 5, &body, &error), -EBADMSG);
	EQ(error.code, API_ERR_INVALID_JSON);
}

/* Nest @n levels in the field "env", with @open before each level and @close after it. */
static const char *nested(size_t n, const char *open, const char *close)
{
	AUTO_BUF struct buf text = BUF_INIT(16U << 20);

	buf_puts(&text, "{\"env\":");
	for (size_t i = 0; i < n; i++)
		buf_puts(&text, open);
	buf_puts(&text, "1");
	for (size_t i = 0; i < n; i++)
		buf_puts(&text, close);
	buf_puts(&text, "}");
	OK(!text.failed);
	return judge(V1_CREATE_SANDBOXES, text.data);
}

TEST(nesting_is_limited)
{
	OK(nested(10, "[", "]") != NULL);
	EQ(error.code, API_ERR_INVALID_REQUEST);
	OK(nested(BODY_DEPTH_MAX - 1, "[", "]") != NULL);
	EQ(error.code, API_ERR_INVALID_REQUEST);
	OK(nested(BODY_DEPTH_MAX, "[", "]") != NULL);
	EQ(error.code, API_ERR_INVALID_JSON);
	OK(nested(100000, "[", "]") != NULL);
	EQ(error.code, API_ERR_INVALID_JSON);
	OK(nested(100000, "{\"a\":", "}") != NULL);
	EQ(error.code, API_ERR_INVALID_JSON);
	OK(nested(100000, "[", "") != NULL);
	EQ(error.code, API_ERR_INVALID_JSON);
}

/* Small as text but large in memory: refused before parsing. */
TEST(a_body_with_too_many_values_is_refused)
{
	AUTO_BUF struct buf text = BUF_INIT(4U << 20);

	buf_puts(&text, "{\"argv\":[\"a,[{\\\",[\"");
	for (int i = 0; i < 65535; i++)
		buf_puts(&text, ",\"\"");
	buf_puts(&text, "]}");
	ACCEPTED(V1_START_EXEC, text.data);
	text.len = 0;
	buf_puts(&text, "{\"argv\":[[]");
	for (int i = 0; i < 500000; i++)
		buf_puts(&text, ",[]");
	buf_puts(&text, "]}");
	OK(judge(V1_START_EXEC, text.data) != NULL);
	EQ(error.code, API_ERR_INVALID_JSON);
	STREQ(error.message, "the body has more than 100000 values");
}

TEST(a_body_that_is_too_large_is_refused)
{
	struct body body;
	size_t size = op(V1_CREATE_SANDBOX)->max_body + 1;
	AUTO_FREE char *text = malloc(size);

	OK(text);
	(void)memset(text, ' ', size);
	text[0] = '{';
	text[1] = '}';
	EQ(body_read(op(V1_CREATE_SANDBOX), text, size, &body, &error), -EBADMSG);
	EQ(error.code, API_ERR_BODY_TOO_LARGE);
	EQ(api_code_status(error.code), 413);
	EQ(body_read(op(V1_CREATE_SANDBOX), text, size - 1, &body, &error), 0);
	body_done(&body);
}

TEST(a_long_field_name_is_shortened_in_the_message)
{
	AUTO_BUF struct buf text = BUF_INIT(1 << 20), out = BUF_INIT(1 << 20);

	buf_puts(&text, "{\"");
	for (size_t i = 0; i < 500000; i++)
		buf_puts(&text, "~");
	buf_puts(&text, "\":1}");
	OK(judge(V1_CREATE_SANDBOX, text.data) != NULL);
	EQ(error.code, API_ERR_INVALID_REQUEST);
	api_error_write(&error, "v8s4k2n6p3lw", &out);
	OK(out.len < 4096);
}

/* ------------------------------------------------------------------ values */

TEST(values_and_defaults_are_read)
{
	static const char text[] =
		"{\"argv\":[\"a\"],\"timeout_ms\":5,\"pty\":true,\"output_limit\":\"4m\","
		"\"limits\":{\"memory\":1048576}}";
	AUTO_BODY struct body b = { 0 };
	struct body limits;

	EQ(body_read(op(V1_RUN_EXEC), text, strlen(text), &b, &error), 0);
	EQ(body_int(&b, "timeout_ms"), 5);
	EQ(body_int(&b, "rows"), 24);
	EQ(body_bool(&b, "pty"), true);
	EQ(body_bool(&b, "stdin"), false);
	EQ(body_size(&b, "output_limit"), 4 << 20);
	EQ(body_word(&b, "encoding"), V1_ENCODING_TEXT);
	STREQ(body_text(&b, "encoding"), "text");
	OK(body_text(&b, "user") == NULL);
	OK(!body_has(&b, "user"));
	OK(body_has(&b, "argv"));
	EQ(json_array_size(body_json(&b, "argv")), 1);
	limits = body_object(&b, "limits");
	EQ(body_size(&limits, "memory"), 1 << 20);
	OK(!body_has(&limits, "pids"));
}

TEST(omitted_objects_have_defaults)
{
	AUTO_BODY struct body b = { 0 };
	struct body limits;

	EQ(body_read(op(V1_CREATE_SANDBOX), "", 0, &b, &error), 0);
	limits = body_object(&b, "limits");
	OK(!body_has(&limits, "memory"));
	EQ(body_size(&limits, "memory"), 0);
	EQ(body_word(&b, "on_idle"), V1_ON_IDLE_PAUSE);
	EQ(body_bool(&b, "wake_on_use"), true);
	OK(body_json(&b, "mounts") == NULL);
}

TEST(null_and_omitted_differ)
{
	AUTO_BODY struct body b = { 0 };
	static const char text[] = "{\"ttl_ms\":null}";

	EQ(body_read(op(V1_UPDATE_SANDBOX), text, strlen(text), &b, &error), 0);
	OK(body_is_null(&b, "ttl_ms"));
	OK(!body_has(&b, "ttl_ms"));
	OK(!body_is_null(&b, "idle_timeout_ms"));
}

TEST(elements_of_arrays_are_read)
{
	AUTO_BODY struct body b = { 0 };
	static const char text[] = "{\"mounts\":[{\"target\":\"/a\"},{\"target\":\"/b\","
				   "\"size\":\"1m\"}]}";
	struct body first, second;

	EQ(body_read(op(V1_CREATE_SANDBOX), text, strlen(text), &b, &error), 0);
	first = body_element(&b, "mounts", 0);
	second = body_element(&b, "mounts", 1);
	STREQ(body_text(&first, "target"), "/a");
	EQ(body_size(&first, "size"), 0); /* the largest value that fits */
	STREQ(body_text(&second, "target"), "/b");
	EQ(body_size(&second, "size"), 1 << 20);
}

/* ---------------------------------------------------------------------- queries */

static struct api_query query;

static const char *ask(enum v1_op id, const char *text)
{
	static void *room;
	size_t len = strlen(text);

	free(room);
	room = malloc(query_room(
		len)); /* no spare byte, so that sanitizers detect reading the next one */
	error = (struct api_error){ 0 };
	return query_read(op(id), text, len, room, &query, &error) < 0 ? error.message
								       : NULL;
}

TEST(a_query_has_defaults)
{
	OK(ask(V1_LIST_SANDBOXES, "") == NULL);
	EQ(query.v[V1_LIST_SANDBOXES_QUERY_LIMIT].number, 100);
	EQ(query.v[V1_LIST_SANDBOXES_QUERY_LIMIT].given, false);
	EQ(query.v[V1_LIST_SANDBOXES_QUERY_LABEL].n, 0);
	OK(query.v[V1_LIST_SANDBOXES_QUERY_CURSOR].text == NULL);
	OK(ask(V1_LIST_SANDBOXES,
	       "label=a%3Db&state=running&limit=7&label=c+d&&state=failed") != NULL);
	STREQ(error.message, "label: must be key=value, or a key; is 'c d'");
	OK(ask(V1_LIST_SANDBOXES,
	       "label=a%3Db&state=running&limit=7&label=c%3Dd+e&&state=failed") == NULL);
	EQ(query.v[V1_LIST_SANDBOXES_QUERY_LIMIT].number, 7);
	EQ(query.v[V1_LIST_SANDBOXES_QUERY_LABEL].n, 2);
	STREQ(query.v[V1_LIST_SANDBOXES_QUERY_LABEL].items[0].text, "a=b");
	STREQ(query.v[V1_LIST_SANDBOXES_QUERY_LABEL].items[1].text, "c=d e");
	EQ(query.v[V1_LIST_SANDBOXES_QUERY_STATE].n, 2);
	EQ(query.v[V1_LIST_SANDBOXES_QUERY_STATE].items[1].number,
	   V1_SANDBOX_STATE_FAILED);
}

TEST(paths_in_queries_are_checked)
{
	OK(ask(V1_READ_FILE, "path=/work/a%20b%2Bc+d") == NULL);
	STREQ(query.v[V1_READ_FILE_QUERY_PATH].text, "/work/a b+c d");
	OK(ask(V1_READ_FILE, "path=%2Fetc%2F..%2Fshadow") != NULL);
	OK(ask(V1_READ_FILE, "path=%252e") != NULL);
	OK(ask(V1_READ_FILE, "path=/%252e%252e") == NULL);
	STREQ(query.v[V1_READ_FILE_QUERY_PATH].text, "/%2e%2e");
}

TEST(invalid_queries_are_refused)
{
	static const struct {
		enum v1_op op;
		const char *query, *why;
	} cases[] = {
		{ V1_LIST_SANDBOXES, "limit=0", "limit: must be at least 1, is 0" },
		{ V1_LIST_SANDBOXES, "limit=1001",
		  "limit: must be at most 1000, is 1001" },
		{ V1_LIST_SANDBOXES, "limit=x",
		  "limit: must be an integer from 1 to 1000, is 'x'" },
		{ V1_LIST_SANDBOXES, "limit=-1",
		  "limit: must be an integer from 1 to 1000, is '-1'" },
		{ V1_LIST_SANDBOXES, "limit=%31%30%",
		  "limit: is not percent-encoded UTF-8" },
		{ V1_LIST_SANDBOXES, "limit",
		  "limit: must be an integer from 1 to 1000, is ''" },
		{ V1_LIST_SANDBOXES, "limit=1&limit=1", "limit: is given twice" },
		{ V1_LIST_SANDBOXES, "state=up",
		  "state: must be one of creating, running, paused, stopped, hibernated, deleting, "
		  "failed, gone, lost; is 'up'" },
		{ V1_GET_SANDBOX, "x=1",
		  "x: is not a parameter of this operation; it has none" },
		{ V1_GET_EXEC, "wait=1",
		  "wait: is not a parameter of this operation; known: wait_ms" },
		{ V1_READ_FILE, "", "path: is missing" },
		{ V1_WAIT_SANDBOX, "timeout_ms=5", "state: is missing" },
		{ V1_READ_FILE, "path=/%00", "path: is not percent-encoded UTF-8" },
		{ V1_READ_FILE, "path=/%ff", "path: is not percent-encoded UTF-8" },
		{ V1_READ_FILE, "pa%zzth=/", "the query is not percent-encoded UTF-8" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		STREQ(ask(cases[i].op, cases[i].query), cases[i].why);
		EQ(error.code, API_ERR_INVALID_REQUEST);
	}
}

TEST(queries_that_are_too_long_are_refused)
{
	AUTO_BUF struct buf text = BUF_INIT(1 << 20);

	for (int i = 0; i < 16; i++)
		buf_puts(&text, "label=a&");
	OK(ask(V1_LIST_SANDBOXES, text.data) == NULL);
	EQ(query.v[V1_LIST_SANDBOXES_QUERY_LABEL].n, 16);
	buf_puts(&text, "label=a");
	STREQ(ask(V1_LIST_SANDBOXES, text.data), "label: is given too many times");
	text.len = 0;
	buf_puts(&text, "path=/");
	for (int i = 0; i < 10000; i++)
		buf_puts(&text, "a");
	STREQ(ask(V1_READ_FILE, text.data), "path: the query is too long");
	text.len = 0;
	for (int i = 0; i < 10000; i++)
		buf_puts(&text, "a");
	OK(ask(V1_READ_FILE, text.data) != NULL);
}

TEST_MAIN()
