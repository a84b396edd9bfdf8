/* SPDX-License-Identifier: Apache-2.0 */
/* test-route.c - every path leads to its operation, and no other path leads anywhere */
#include "api/route.h"

#include <errno.h>

#include "api/v1/ops.h"
#include "base/macro.h"
#include "lib/tap.h"

#define ID  "k3f9x2m7qd1w"
#define ID2 "t7v2x9c4m1kd"

static const char *const method_names[] = {
	[API_GET] = "GET",     [API_POST] = "POST",     [API_PUT] = "PUT",
	[API_PATCH] = "PATCH", [API_DELETE] = "DELETE",
};

static struct route route;
static struct api_error error;

static int find(const char *method, const char *path)
{
	return route_find(&v1_face, method, path, strlen(path), &route, &error);
}

/* Return the code of a refusal; API_ERR_COUNT: it was not refused. */
static enum api_code refused(const char *method, const char *path)
{
	return find(method, path) < 0 ? error.code : API_ERR_COUNT;
}

/* Write the path of @op with a valid value for each parameter. */
static void fill(const struct api_op *op, char *out, size_t size)
{
	size_t n = 0;

	for (const char *s = op->path; *s && n + 20 < size; s++) {
		if (*s != '{') {
			out[n++] = *s;
			continue;
		}
		n += (size_t)snprintf(out + n, size - n, "%s",
				      strncmp(s, "{port}", 6) == 0   ? "8080"
				      : strncmp(s, "{path}", 6) == 0 ? "a/b"
								     : ID);
		s = strchr(s, '}');
	}
	out[n] = '\0';
}

TEST(every_operation_is_found)
{
	for (size_t i = 0; i < v1_face.n_ops; i++) {
		const struct api_op *op = &v1_face.ops[i];
		char path[256];

		fill(op, path, sizeof(path));
		if (find(method_names[op->method], path) < 0)
			TAP_FAIL("%s: %s", op->id, error.message);
		STREQ(route.op->id, op->id);
		EQ(route_check(&route, &error), 0);
		EQ(route.head, false);
	}
}

TEST(path_parameters_are_extracted)
{
	EQ(find("GET", "/v1/sandboxes/" ID "/execs/" ID2), 0);
	STREQ(route.op->id, "get_exec");
	EQ(route.n_params, 2);
	STREQ(route.param[0], ID);
	STREQ(route.param[1], ID2);
}

TEST(a_head_request_is_routed_like_get)
{
	EQ(find("HEAD", "/v1/sandboxes/" ID), 0);
	STREQ(route.op->id, "get_sandbox");
	EQ(route.head, true);
	EQ(refused("HEAD", "/v1/sandboxes/" ID "/pause"), API_ERR_METHOD_NOT_ALLOWED);
}

TEST(a_literal_segment_is_preferred_to_a_parameter)
{
	EQ(find("POST", "/v1/sandboxes/batch"), 0);
	STREQ(route.op->id, "create_sandboxes");
	EQ(refused("GET", "/v1/sandboxes/batch"), API_ERR_METHOD_NOT_ALLOWED);
}

TEST(an_unknown_method_is_refused)
{
	EQ(refused("DELETE", "/v1/sandboxes"), API_ERR_METHOD_NOT_ALLOWED);
	EQ(api_code_status(error.code), 405);
	STREQ(error.details[0].key, "allow");
	STREQ(error.details[0].text, "GET, HEAD, POST");
	EQ(refused("BREW", "/v1/sandboxes"), API_ERR_METHOD_NOT_ALLOWED);
	EQ(refused("get", "/v1/sandboxes"), API_ERR_METHOD_NOT_ALLOWED);
	EQ(refused("", "/v1/sandboxes"), API_ERR_METHOD_NOT_ALLOWED);
	EQ(find("GET", "/v1/sandboxes"), 0);
}

TEST(unknown_paths_are_not_found)
{
	static const char *const paths[] = {
		"/",
		"/v1",
		"/v1/",
		"/v2/sandboxes",
		"/v1/sandbox",
		"/v1/sandboxesx",
		"/v1/sandboxes/",
		"/v1//sandboxes",
		"//v1/sandboxes",
		"/v1/sandboxes/" ID "/",
		"/v1/sandboxes/" ID "/nothing",
		"/v1/sandboxes/" ID "/ports",
		"/v1/sandboxes/" ID "/pause/more",
		"/v1/./sandboxes",
		"/v1/sandboxes/../sandboxes",
		"/v1%2Fsandboxes",
		"/V1/sandboxes",
		"/healthz/",
	};

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		if (refused("GET", paths[i]) != API_ERR_NOT_FOUND)
			TAP_FAIL("%s is not refused", paths[i]);
	EQ(find("GET", "/healthz"), 0);
}

TEST(invalid_paths_are_refused)
{
	EQ(refused("GET", ""), API_ERR_INVALID_REQUEST);
	EQ(refused("GET", "v1/sandboxes"), API_ERR_INVALID_REQUEST);
	EQ(refused("GET", "*"), API_ERR_INVALID_REQUEST);
	EQ(refused("GET", "/v1/sandboxes/%"), API_ERR_INVALID_REQUEST);
	EQ(refused("GET", "/v1/sandboxes/%0"), API_ERR_INVALID_REQUEST);
	EQ(refused("GET", "/v1/sandboxes/%zz"), API_ERR_INVALID_REQUEST);
	EQ(refused("GET", "/v1/sandboxes/%00"), API_ERR_INVALID_REQUEST);
	EQ(refused("GET", "/v1/sandboxes/a%00b"), API_ERR_INVALID_REQUEST);
	EQ(refused("GET", "/v1/sandboxes/%ff"), API_ERR_INVALID_REQUEST);
	EQ(refused("GET", "/v1/sandboxes/%c0%af"), API_ERR_INVALID_REQUEST);
}

TEST(escapes_are_decoded_once)
{
	EQ(find("GET", "/v1/%73andboxes/k3f9x2m7qd1%77"), 0);
	STREQ(route.op->id, "get_sandbox");
	STREQ(route.param[0], ID);
	EQ(find("GET", "/v1/sandboxes/%2577"), 0);
	STREQ(route.param[0], "%77");
	EQ(find("GET", "/v1/sandboxes/a%2Fb"), 0);
	STREQ(route.param[0], "a/b");
	EQ(find("GET", "/v1/sandboxes/a+b"), 0);
	STREQ(route.param[0], "a+b");
}

TEST(parameters_are_checked)
{
	static const char *const bad[] = { "/v1/sandboxes/-short",
					   "/v1/sandboxes/.",
					   "/v1/sandboxes/" ID ID ID ID ID "0123",
					   "/v1/sandboxes/..%2f..%2fetc%2f",
					   "/v1/sandboxes/" ID "/ports/0/x",
					   "/v1/sandboxes/" ID "/ports/65536/x",
					   "/v1/sandboxes/" ID "/ports/-1/x",
					   "/v1/sandboxes/" ID "/ports/80x/x" };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		EQ(find("GET", bad[i]), 0);
		EQ(route_check(&route, &error), -EBADMSG);
		EQ(error.code, API_ERR_NOT_FOUND);
	}
	EQ(find("GET", "/v1/sandboxes/" ID ID ID ID ID "012"), 0);
	EQ(route_check(&route, &error), 0);
	EQ(find("GET", "/v1/sandboxes/My_app.1"), 0);
	EQ(route_check(&route, &error), 0);
	EQ(find("GET", "/v1/sandboxes/" ID "/ports/65535/x"), 0);
	EQ(route_check(&route, &error), 0);
	EQ(route.number[1], 65535);
}

TEST(a_proxy_passes_everything_else_unchanged)
{
	static const struct {
		const char *path, *rest;
	} cases[] = {
		{ "/v1/sandboxes/" ID "/ports/80", "" },
		{ "/v1/sandboxes/" ID "/ports/80/", "" },
		{ "/v1/sandboxes/" ID "/ports/80/a", "a" },
		{ "/v1/sandboxes/" ID "/ports/80/a/b/", "a/b/" },
		{ "/v1/sandboxes/" ID "/ports/80//x", "/x" },
		{ "/v1/sandboxes/" ID "/ports/80/%2F%zz/../..", "%2F%zz/../.." },
	};
	static const char *const methods[] = { "GET",   "HEAD",   "POST",   "PUT",
					       "PATCH", "DELETE", "OPTIONS" };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		EQ(find(methods[i], cases[i].path), 0);
		STREQ(route.op->id, "proxy_port");
		STREQ(route.rest, cases[i].rest);
		EQ(route.rest_len, strlen(cases[i].rest));
	}
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		EQ(find(methods[i], cases[0].path), 0);
	EQ(refused("CONNECT", cases[0].path), API_ERR_METHOD_NOT_ALLOWED);
	EQ(refused("TRACE", cases[0].path), API_ERR_METHOD_NOT_ALLOWED);
}

TEST(the_path_need_not_end_in_a_nul)
{
	EQ(route_find(&v1_face, "GET", "/v1/sandboxes?limit=1", 13, &route, &error), 0);
	STREQ(route.op->id, "list_sandboxes");
}

TEST(a_segment_that_is_too_long_is_not_found)
{
	char path[65536];

	(void)memset(path, 'a', sizeof(path));
	(void)memcpy(path, "/v1/sandboxes/", 14);
	EQ(route_find(&v1_face, "GET", path, sizeof(path), &route, &error), -EBADMSG);
	EQ(error.code, API_ERR_NOT_FOUND);
	(void)memset(path, '/', sizeof(path));
	EQ(route_find(&v1_face, "GET", path, sizeof(path), &route, &error), -EBADMSG);
	EQ(error.code, API_ERR_NOT_FOUND);
}

TEST_MAIN()
