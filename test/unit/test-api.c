/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-api.c - the description is consistent: every example matches its own schema
 *
 * tools/gen/gen-api has checked during the build that the description is well-formed, and
 * that everything in it has a type, bounds, a description and an example.
 */
#include <errno.h>
#include <stdio.h>

#include "api/body.h"
#include "api/errors.h"
#include "api/query.h"
#include "api/route.h"
#include "api/v1/docs.h"
#include "api/v1/ops.h"
#include "api/validate.h"
#include "lib/tap.h"

static struct api_error error;

/* Walk from a schema down to a field: "limits/memory/". */
static const struct api_schema *descend(const char *root, const char *steps)
{
	const struct api_schema *s = v1_schema(root);

	while (s && *steps) {
		char name[64];
		size_t n = strcspn(steps, "/");

		(void)snprintf(name, sizeof(name), "%.*s", (int)n, steps);
		s = schema_field(s, name);
		steps += n + 1;
	}
	return s;
}

static void check_example(const char *where, const char *root, const char *steps,
			  const char *text)
{
	const struct api_schema *s = descend(root, steps);
	json_error_t why;
	json_t *json = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &why);

	if (!s || !json)
		TAP_FAIL("%s: has no schema, or its example is not JSON", where);
	if (validate_json(s, json, &error) < 0)
		TAP_FAIL("%s: the example %s is refused: %s", where, text, error.message);
	json_decref(json);
}

static void check_parameter(enum v1_op id, const char *in, const char *name,
			    const char *text)
{
	const struct api_op *op = &v1_face.ops[id];
	bool path = strcmp(in, "path") == 0;
	const struct api_param *params = path ? op->path_params : op->query_params;
	size_t n = path ? op->n_path_params : op->n_query_params;
	int64_t number;

	for (size_t i = 0; i < n; i++) {
		const struct api_schema *s = params[i].schema;

		if (strcmp(params[i].name, name) != 0)
			continue;
		s = s->types & API_ARRAY ? s->items : s;
		if (validate_text(s, name, text, &number, &error) < 0)
			TAP_FAIL("%s: %s", op->id, error.message);
		return;
	}
	TAP_FAIL("%s: has no parameter %s", op->id, name);
}

TEST(every_example_is_valid)
{
#define EXAMPLE(where, root, steps, text) check_example(where, root, steps, text);
#define PARAMETER(...)
#include "api/v1/examples.h"
#undef EXAMPLE
#undef PARAMETER
}

TEST(every_example_of_a_parameter_is_valid)
{
#define EXAMPLE(...)
#define PARAMETER(op, in, name, text) check_parameter(op, in, name, text);
#include "api/v1/examples.h"
#undef EXAMPLE
#undef PARAMETER
}

/* This is the control of the two tests above: an invalid example is refused. */
TEST(a_wrong_example_is_noticed)
{
	json_t *json = json_loads("{\"memory\":1}", 0, NULL);

	OK(validate_json(descend("CreateSandbox", "limits/"), json, &error) < 0);
	OK(descend("CreateSandbox", "nothing/") == NULL);
	json_decref(json);
}

TEST(the_tables_fit_the_structs)
{
	for (size_t i = 0; i < v1_face.n_ops; i++) {
		const struct api_op *op = &v1_face.ops[i];

		OK(op->id && op->path);
		OK(op->n_path_params <= ROUTE_PARAMS_MAX);
		OK(op->n_query_params <= QUERY_PARAMS_MAX);
		OK((op->body == API_BODY_JSON) == (op->schema != NULL));
		OK(op->body != API_BODY_JSON || op->max_body > 0);
		/* Every operation that changes something needs a token. */
		OK(op->method == API_GET || op->scope);
		OK(op->scope || strncmp(op->path, "/v1/", 4) != 0);
	}
}

/* The macro for tables of handlers names every operation, in its place. */
TEST(the_generated_list_names_every_operation)
{
#define X(ID, id) [V1_##ID] = #id,
	static const char *const ids[] = { V1_OPS(X) };
#undef X

	_Static_assert(ARRAY_SIZE(ids) == V1_OP_COUNT, "an operation is not listed");
	for (size_t i = 0; i < v1_face.n_ops; i++)
		STREQ(ids[i], v1_face.ops[i].id);
}

TEST(values_of_enumerations_have_names)
{
	STREQ(v1_sandbox_state_names[V1_SANDBOX_STATE_PAUSED], "paused");
	STREQ(v1_event_type_names[V1_EVENT_TYPE_EXEC_FINISHED], "exec.finished");
	OK(v1_sandbox_state_names[V1_SANDBOX_STATE_COUNT] == NULL);
	STREQ(v1_scope_names[0], "read");
}

static bool holds(const char *from, const char *end, const char *word)
{
	return memmem(from, (size_t)(end - from), word, strlen(word)) != NULL;
}

TEST(the_documents_are_embedded)
{
	json_t *json =
		json_loadb(v1_openapi, (size_t)(v1_openapi_end - v1_openapi), 0, NULL);

	STREQ(json_string_value(json_object_get(json, "openapi")), "3.1.0");
	json_decref(json);
	EQ(strncmp(v1_docs, "<!DOCTYPE html>", 15), 0);
	OK(holds(v1_docs, v1_docs_end, "/v1/sandboxes/{sandbox_id}"));
	OK(!holds(v1_docs, v1_docs_end, "<script"));
	OK(strstr(V1_DOCS_CSP, "default-src 'none'"));
	OK(V1_DOCS_ETAG[0] == '"' && strcmp(V1_DOCS_ETAG, V1_OPENAPI_ETAG) != 0);
}

/* ----------------------------------------------------------------------- errors */

TEST(every_code_has_a_name_and_a_status)
{
	for (int i = 0; i < API_ERR_COUNT; i++) {
		OK(api_code_name((enum api_code)i)[0]);
		OK(api_code_status((enum api_code)i) >= 400 &&
		   api_code_status((enum api_code)i) < 600);
	}
	EQ(api_code_status(API_ERR_QUOTA_EXCEEDED), 429);
	STREQ(api_code_name(API_ERR_QUOTA_EXCEEDED), "quota_exceeded");
}

TEST(a_refused_request_has_the_matching_error_code)
{
	static const int statuses[] = { 400, 408, 413, 417, 426, 431,
					500, 501, 502, 503, 504, 505 };

	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++)
		EQ(api_code_status(api_code_refused(statuses[i])), statuses[i]);
	EQ(api_code_refused(400), API_ERR_MALFORMED_REQUEST);
	EQ(api_code_refused(299), API_ERR_INTERNAL);
}

TEST(an_error_body_has_the_documented_shape)
{
	AUTO_BUF struct buf out = BUF_INIT(8192);

	EQ(api_error_set(&error, API_ERR_QUOTA_EXCEEDED, "no more %s", "sandboxes"),
	   -EBADMSG);
	api_error_text(&error, "quota", "sandboxes");
	api_error_number(&error, "maximum", 100);
	api_error_number(&error, "retry_after_ms", 1001);
	EQ(api_error_retry_after(&error), 2);
	api_error_write(&error, "v8s4k2n6p3lw", &out);
	STREQ(out.data,
	      "{\"code\":\"quota_exceeded\",\"message\":\"no more sandboxes\",\"detail\":"
	      "{\"quota\":\"sandboxes\",\"maximum\":100,\"retry_after_ms\":1001},"
	      "\"request_id\":\"v8s4k2n6p3lw\"}");
}

TEST(temporary_errors_say_when_to_retry)
{
	AUTO_BUF struct buf out = BUF_INIT(8192);

	(void)api_error_set(&error, API_ERR_SHUTTING_DOWN, "not now");
	EQ(api_error_retry_after(&error), 1);
	api_error_write(&error, "v8s4k2n6p3lw", &out);
	STREQ(out.data, "{\"code\":\"shutting_down\",\"message\":\"not now\",\"detail\":"
			"{\"retry_after_ms\":1000},\"request_id\":\"v8s4k2n6p3lw\"}");
}

TEST(errors_match_their_description)
{
	AUTO_BUF struct buf out = BUF_INIT(8192);
	json_t *json;

	(void)api_error_set(&error, API_ERR_INTERNAL, "\"\xff\x01%s", "\n");
	EQ(api_error_retry_after(&error), 0);
	for (int i = 0; i < 2 * API_DETAILS_MAX; i++)
		api_error_text(&error, i % 2 ? "state" : "quota", "\xc3");
	error.n_details = 2;
	api_error_write(&error, "v8s4k2n6p3lw", &out);
	json = json_loads(out.data, JSON_REJECT_DUPLICATES, NULL);
	OK(json);
	EQ(validate_json(v1_schema("Error"), json, &error), 0);
	json_decref(json);
}

TEST(details_beyond_the_maximum_are_omitted)
{
	(void)api_error_set(&error, API_ERR_INTERNAL, "x");
	for (int i = 0; i < 100; i++)
		api_error_number(&error, "used", 1);
	EQ(error.n_details, API_DETAILS_MAX);
}

TEST(engine_errors_are_mapped_to_api_errors)
{
	static const struct {
		int code;
		enum api_code is;
	} cases[] = {
		{ EINVAL, API_ERR_INVALID_REQUEST }, { ENOENT, API_ERR_NOT_FOUND },
		{ EDQUOT, API_ERR_QUOTA_EXCEEDED },  { ENOSPC, API_ERR_DISK_FULL },
		{ ENOTSUP, API_ERR_NOT_SUPPORTED },  { EMFILE, API_ERR_OVERLOADED },
		{ EIO, API_ERR_INTERNAL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct warren_error engine = WARREN_ERROR_INIT;

		(void)error_set(&engine, cases[i].code, "what was tried");
		EQ(api_error_from(&error, &engine), -EBADMSG);
		EQ(error.code, cases[i].is);
		STREQ(error.message, "what was tried");
		STREQ(error.details[0].key, "errno");
	}
}

TEST(paths_of_the_service_are_hidden)
{
	static const struct {
		const char *text, *shown;
	} cases[] = {
		{ "create '/srv/w/serve/secrets.key': full",
		  "create 'serve/secrets.key': full" },
		{ "/srv/w/a and /srv/w//b, /srv/w", "a and b, " },
		{ "'/srv/warren/a', '/srv/w-2/a', '/old/srv/w/a'",
		  "'/srv/warren/a', '/srv/w-2/a', '/old/srv/w/a'" },
		{ "no path", "no path" },
		{ "", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[128];

		(void)snprintf(text, sizeof(text), "%s", cases[i].text);
		error_hide_dir(text, "/srv/w");
		STREQ(text, cases[i].shown);
		(void)snprintf(text, sizeof(text), "%s", cases[i].text);
		error_hide_dir(text, "");
		error_hide_dir(text, "/");
		STREQ(text, cases[i].text);
	}
}

TEST_MAIN()
