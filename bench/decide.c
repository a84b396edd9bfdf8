/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decide.c - how long a decision takes among many rules
 *
 *	warren-bench-decide [DECISIONS]
 *
 * Prints a JSON object on each line: the name of the policy, and percentiles in
 * microseconds. Allowed and denied requests alternate.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "network/decide.h"
#include "network/policy_json.h"

#define RULES 10000

/* Each format gets the number of a rule. */
static const struct decide_case {
	const char *name;
	const char *rule; /* as JSON */
	const char *host, *path;
} decide_cases[] = {
	{ "decision among 10,000 names",
	  "{\"host\":\"host%u.example.com\",\"ports\":[443]}", "host%u.example.com",
	  "/" },
	{ "decision among 10,000 suffixes",
	  "{\"host\":\"*.zone%u.example.com\",\"ports\":[443]}", "a.b.zone%u.example.com",
	  "/" },
	{ "decision among 10,000 paths of a host",
	  "{\"host\":\"one.example.com\",\"protocols\":[\"https\"],\"paths\":[\"/v1/%u/*\"]}",
	  "one.example.com", "/v1/%u/item" },
	{ "decision among 10,000 ports of a host",
	  "{\"host\":\"two.example.com\",\"ports\":[%u]}", "two.example.com", "/" },
};

/* The formats of a case are constants of this file. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void decide_text(char *out, size_t size, const char *format, unsigned i)
{
	(void)snprintf(out, size, format, i);
}
#pragma GCC diagnostic pop

static int decide_policy(const struct decide_case *c, struct policy *ret,
			 struct warren_error *err)
{
	AUTO_BUF struct buf text = BUF_INIT(16U << 20);
	json_t *in;
	int r;

	buf_puts(&text, "{\"allow\":[");
	for (unsigned i = 0; i < RULES; i++) {
		char rule[256];

		decide_text(rule, sizeof(rule), c->rule, i + 1);
		buf_printf(&text, "%s%s", i ? "," : "", rule);
	}
	buf_puts(&text, "]}");
	in = text.failed ? NULL : json_loads(text.data, 0, NULL);
	r = policy_read(in, "", ret, err);
	json_decref(in);
	return r;
}

static int decide_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t decide_one(const struct policy_index *x, const struct decide_case *c,
			   unsigned i, bool *ret_allowed)
{
	char host[256], path[256], name[HOST_TEXT_SIZE];
	struct warren_error err = WARREN_ERROR_INIT;
	struct request q = { .port = 443, .protocol = RULE_HTTPS, .method = "GET" };
	struct decision d;
	uint64_t start;

	decide_text(host, sizeof(host), c->host, i);
	decide_text(path, sizeof(path), c->path, i);
	q.path = path;
	if (strstr(c->rule, "\"ports\":[%u]"))
		q.port = (uint16_t)i;
	if (host_parse_single(host, strlen(host), name, &q.host, &err) < 0)
		exit(EXIT_FAILURE);
	start = clock_now();
	policy_decide(x, &q, &d);
	start = clock_now() - start;
	*ret_allowed = d.allowed;
	return start;
}

static void decide_run(const struct decide_case *c, size_t n)
{
	AUTO_POLICY struct policy p = { 0 };
	AUTO_POLICY_INDEX struct policy_index *x = NULL;
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_FREE uint64_t *took = calloc(n, sizeof(*took));

	if (!took || decide_policy(c, &p, &err) < 0 ||
	    policy_index_new(&p, &x, &err) < 0) {
		(void)fprintf(stderr, "warren-bench-decide: %s: %s\n", c->name, err.msg);
		exit(EXIT_FAILURE);
	}
	for (size_t i = 0; i < n; i++) {
		unsigned rule = (unsigned)(i * 7919 % RULES) + 1;
		bool allowed, should = i % 2 == 0;

		took[i] = decide_one(x, c, should ? rule : rule + RULES, &allowed);
		if (allowed != should) {
			(void)fprintf(stderr, "warren-bench-decide: %s: rule %u\n",
				      c->name, rule);
			exit(EXIT_FAILURE);
		}
	}
	qsort(took, n, sizeof(*took), decide_compare);
	(void)printf("{\"name\":\"%s\",\"p50\":%.3f,\"p99\":%.3f,\"n\":%zu}\n", c->name,
		     (double)took[n / 2] / 1000, (double)took[n * 99 / 100] / 1000, n);
}

int main(int argc, char **argv)
{
	size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 20000;

	for (size_t i = 0; i < ARRAY_SIZE(decide_cases); i++)
		decide_run(&decide_cases[i], n ? n : 1);
	return 0;
}
