/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api.c - the cost of checking a request (route, path, query and body), without a server
 *
 *	warren-bench-api [ROUNDS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/body.h"
#include "api/query.h"
#include "api/route.h"
#include "api/v1/ops.h"
#include "base/json.h"

#define SANDBOX "/v1/sandboxes/k3f9x2m7qd1w"

static const struct request {
	const char *name, *method, *path, *query, *body;
} requests[] = {
	{ "get a sandbox", "GET", SANDBOX, "", "" },
	{ "list with filters", "GET", "/v1/sandboxes",
	  "label=run%3D42&state=running&limit=50&order=oldest", "" },
	{ "read a file", "GET", SANDBOX "/files", "path=%2Fwork%2Fmain.py", "" },
	{ "run a command", "POST", SANDBOX "/run", "",
	  "{\"argv\":[\"python3\",\"-c\",\"print(1)\"],\"timeout_ms\":30000}" },
	{ "run in a session", "POST", SANDBOX "/sessions/m4c7r9t2b5xz/run", "",
	  "{\"command\":\"cd /work && make test\",\"timeout_ms\":60000}" },
	{ "create a sandbox", "POST", "/v1/sandboxes", "",
	  "{\"image\":\"python:3.12\",\"env\":{\"DEBUG\":\"1\"},\"labels\":{\"run\":\"42\"},"
	  "\"limits\":{\"memory\":\"512m\",\"pids\":256},\"ttl_ms\":3600000}" },
	{ "a field refused", "POST", "/v1/sandboxes", "", "{\"limits\":{\"memory\":5}}" },
};

static int judge(const struct request *q)
{
	AUTO_BODY struct body body = { 0 };
	struct api_error err;
	AUTO_FREE void *room = malloc(query_room(strlen(q->query)));
	struct api_query query;
	struct route route;
	int r = route_find(&v1_face, q->method, q->path, strlen(q->path), &route, &err);

	if (r == 0)
		r = route_check(&route, &err);
	if (r == 0)
		r = query_read(route.op, q->query, strlen(q->query), room, &query, &err);
	if (r == 0 && route.op->body != API_BODY_STREAM)
		r = body_read(route.op, q->body, strlen(q->body), &body, &err);
	return r;
}

/* Write a sandbox, nearly as `GET /v1/sandboxes/{id}` answers it. */
static void answer(struct buf *out)
{
	static const char enforced[] =
		"[{\"name\":\"memory\",\"enforced\":true,\"detail\":"
		"\"536870912 bytes by cgroup v2\"}]";
	struct json j = { .out = out };

	out->len = 0;
	json_open(&j, NULL, '{');
	json_str(&j, "id", "k3f9x2m7qd1w");
	json_str(&j, "state", "running");
	json_nil(&j, "error");
	json_str(&j, "owner", "research");
	json_str(&j, "image", "python:3.12");
	json_open(&j, "labels", '{');
	json_str(&j, "run", "42");
	json_close(&j, '}');
	json_open(&j, "limits", '{');
	json_u64(&j, "memory", 536870912);
	json_u64(&j, "cpu_millis", 2000);
	json_u64(&j, "pids", 256);
	json_close(&j, '}');
	json_str(&j, "created_at", "2025-01-20T15:04:05.123Z");
	json_raw(&j, "enforced", enforced, sizeof(enforced) - 1);
	json_close(&j, '}');
}

/* Use processor time, so that other processes on the machine do not matter. */
static double now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 200000;
	AUTO_BUF struct buf out = BUF_INIT(1 << 16);
	double from;

	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		from = now_ns();
		for (long n = 0; n < rounds; n++)
			(void)judge(&requests[i]);
		(void)printf("%-20s %6.2f us  %s\n", requests[i].name,
			     (now_ns() - from) / (double)rounds / 1000,
			     judge(&requests[i]) < 0 ? "(refused)" : "");
	}
	from = now_ns();
	for (long n = 0; n < rounds; n++)
		answer(&out);
	(void)printf("%-20s %6.2f us  %zu bytes\n", "write a sandbox",
		     (now_ns() - from) / (double)rounds / 1000, out.len);
	return 0;
}
