/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-network-header.c - headers that rules add, their secrets, and which policy may add
 * which headers
 */
#include <errno.h>

#include "base/strv.h"
#include "lib/tap.h"
#include "network/decide.h"
#include "network/header.h"
#include "network/policy_json.h"
#include "network/within.h"

static struct warren_error err;

static int try_policy(const char *text, struct policy *p)
{
	json_t *in = json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	int r;

	if (!in)
		TAP_FAIL("not JSON: %s", text);
	err = (struct warren_error)WARREN_ERROR_INIT;
	r = policy_read(in, "", p, &err);
	json_decref(in);
	return r;
}

static void read_policy(const char *text, struct policy *p)
{
	if (try_policy(text, p) < 0)
		TAP_FAIL("%s: %s", text, err.msg);
}

#define A(rules)    "{\"allow\":[" rules "]}"
#define HX(host, x) "{\"host\":\"" host "\"," x "}"
#define HEAD(n, v)  "\"headers\":{\"" n "\":\"" v "\"}"
#define KEY         HEAD("Authorization", "Bearer ${secret.KEY}")
#define OTHER       HEAD("Authorization", "Bearer ${secret.OTHER}")
#define PATHS(p)    "\"paths\":[\"" p "\"]"

/* ----------------------------------------------------------------------- reading */

TEST(headers_are_read_and_written)
{
	AUTO_POLICY struct policy p = { 0 };
	struct buf out = BUF_INIT(4096);
	struct json j = { .out = &out };

	read_policy(A(HX("api.example.com", "\"headers\":{\"Authorization\":\"Bearer "
					    "${secret.A_1}\",\"X-Plain\":\"$${a} $b\"}")),
		    &p);
	EQ(p.allow.n, 1);
	EQ(p.allow.list[0].n_headers, 2);
	EQ(p.allow.list[0].protocols, RULE_HTTPS);
	policy_write(&p, &j, NULL);
	STREQ(out.data,
	      "{\"allow\":[{\"host\":\"api.example.com\",\"protocols\":[\"https\"],"
	      "\"headers\":{\"Authorization\":\"Bearer ${secret.A_1}\",\"X-Plain\":\"$${a} "
	      "$b\"}}],\"deny\":[],\"limits\":{}}");
	buf_done(&out);
}

TEST(headers_that_rules_must_not_set_are_refused)
{
	static const struct {
		const char *policy, *where;
	} cases[] = {
		{ A(HX("*.a", KEY)), "one exact host name" },
		{ A(HX("192.0.2.1", KEY)), "one exact host name" },
		{ A("{\"public\":true," KEY "}"), "one exact host name" },
		{ A(HX("a", "\"protocols\":[\"tls\"]," KEY)), "http and https" },
		{ A(HX("a", "\"protocols\":[\"https\",\"tcp\"]," KEY)),
		  "http and https" },
		{ "{\"deny\":[" HX("a", KEY) "]}", "/deny/0/headers: are only allowed" },
		{ A(HX("a", "\"headers\":{}")), "/allow/0/headers: must be" },
		{ A(HX("a", "\"headers\":[\"x\"]")), "/allow/0/headers: must be" },
		{ A(HX("a", "\"headers\":{\"X\":1}")), "/allow/0/headers/X: must be a" },
		{ A(HX("a", HEAD("X", ""))), "must not be empty" },
		{ A(HX("a", HEAD("X", " a"))), "begin or end" },
		{ A(HX("a", HEAD("X", "a "))), "begin or end" },
		{ A(HX("a", HEAD("X", "a\\r\\nb: c"))), "line breaks" },
		{ A(HX("a", HEAD("X", "a\\u0000b"))), "NUL" },
		{ A(HX("a", HEAD("X", "a\\u007f"))), "control" },
		{ A(HX("a", HEAD("X", "${KEY}"))), "${secret.NAME}" },
		{ A(HX("a", HEAD("X", "${secret.}"))), "${secret.NAME}" },
		{ A(HX("a", HEAD("X", "${secret.9}"))), "${secret.NAME}" },
		{ A(HX("a", HEAD("X", "${secret.A"))), "${secret.NAME}" },
		{ A(HX("a", HEAD("X", "${secret.A-B}"))), "${secret.NAME}" },
		{ A(HX("a", HEAD("X", "${"))), "${secret.NAME}" },
		{ A(HX("a", HEAD("", "x"))), "not the name of a header" },
		{ A(HX("a", HEAD("X Y", "x"))), "not the name of a header" },
		{ A(HX("a", HEAD("X:", "x"))), "not the name of a header" },
		{ A(HX("a", HEAD("hOST", "x"))), "/allow/0/headers/hOST: cannot be set" },
		{ A(HX("a", HEAD("content-length", "1"))), "cannot be set" },
		{ A(HX("a", HEAD("Transfer-Encoding", "x"))), "cannot be set" },
		{ A(HX("a", HEAD("Connection", "x"))), "cannot be set" },
		{ A(HX("a", HEAD("upgrade", "x"))), "cannot be set" },
		{ A(HX("a", HEAD("TE", "x"))), "cannot be set" },
		{ A(HX("a", HEAD("Proxy-Authorization", "x"))), "cannot be set" },
		{ A(HX("a", "\"headers\":{\"X\":\"1\",\"x\":\"2\"}")), "twice" },
		{ A(HX("a", KEY) "," HX("a", OTHER)),
		  "/allow/1/headers: must be the same" },
		{ A(HX("a", PATHS("/x*") "," KEY) "," HX("a", PATHS("/xy") "," OTHER)),
		  "/allow/1/headers: must be the same" },
		{ "{\"secrets\":{\"KEY\":\"x\"}}", "/secrets: is not a known field" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_POLICY struct policy p = { 0 };

		if (try_policy(cases[i].policy, &p) == 0 ||
		    !strstr(err.msg, cases[i].where))
			TAP_FAIL("%s: %s", cases[i].policy, err.msg);
	}
}

TEST(headers_that_rules_may_set_are_accepted)
{
	static const char *const cases[] = {
		A(HX("a", "\"protocols\":[\"http\"]," KEY)),
		A(HX("a", "\"protocols\":[\"http\",\"https\"]," KEY)),
		A(HX("a", "\"methods\":[\"GET\"]," PATHS("/x*") "," KEY)),
		A(HX("a", KEY) "," HX("a", KEY)),
		A(HX("a", KEY) "," HX("b", OTHER)),
		A(HX("a", PATHS("/x*") "," KEY) "," HX("a", PATHS("/y*") "," OTHER)),
		A(HX("a", "\"ports\":[443]," KEY) "," HX("a", "\"ports\":[8443]," OTHER)),
		A(HX("a", HEAD("X", "$ $$ $${ ${secret.A}${secret.A} }"))),
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_POLICY struct policy p = { 0 };

		read_policy(cases[i], &p);
	}
}

TEST(a_policy_has_a_limited_number_of_headers)
{
	AUTO_POLICY struct policy p = { 0 };
	struct buf text = BUF_INIT(1U << 20);

	buf_puts(&text, "{\"allow\":[");
	for (int i = 0; i <= POLICY_HEADERS_MAX; i++)
		buf_printf(&text, "%s{\"host\":\"h%d\"," KEY "}", i ? "," : "", i);
	buf_puts(&text, "]}");
	EQ(try_policy(text.data, &p), -E2BIG);
	text.len = 0;
	buf_puts(&text, "{\"allow\":[{\"host\":\"a\",\"headers\":{");
	for (int i = 0; i <= RULE_HEADERS_MAX; i++)
		buf_printf(&text, "%s\"X-%d\":\"x\"", i ? "," : "", i);
	buf_puts(&text, "}}]}");
	EQ(try_policy(text.data, &p), -E2BIG);
	buf_done(&text);
}

TEST(the_rules_with_headers_have_a_limited_number_of_paths)
{
	/* One more than the limit, then the limit. */
	for (int more = 1; more >= 0; more--) {
		AUTO_POLICY struct policy p = { 0 };
		struct buf text = BUF_INIT(1U << 20);
		int n = 0;

		buf_puts(&text, "{\"allow\":[");
		for (int i = 0; n < POLICY_HEADER_PATHS + more; i++) {
			buf_printf(&text, "%s{\"host\":\"h\"," KEY ",\"paths\":[",
				   i ? "," : "");
			for (int k = 0; k < 32 && n < POLICY_HEADER_PATHS + more; k++)
				buf_printf(&text, "%s\"/%d\"", k ? "," : "", n++);
			buf_puts(&text, "]}");
		}
		buf_puts(&text, "]}");
		EQ(try_policy(text.data, &p), more ? -E2BIG : 0);
		buf_done(&text);
	}
}

/* ----------------------------------------------------------------------- secrets */

static int look_up(void *ctx, const char *name, char value[POLICY_SECRET_MAX + 1],
		   struct warren_error *e)
{
	(*(int *)ctx)++;
	if (strcmp(name, "MISSING") == 0)
		return error_set(e, ENOENT, "there is no secret '%s'", name);
	if (strcmp(name, "LONG") == 0) {
		(void)memset(value, 'x', POLICY_SECRET_MAX);
		value[POLICY_SECRET_MAX] = '\0';
		return 0;
	}
	(void)sprintf(value, "value-of-%s", name);
	return 0;
}

static char *expand(const struct policy *p, size_t rule, size_t header)
{
	struct buf out = BUF_INIT(1U << 20);

	EQ(rule_expand_header(p, &p->allow.list[rule].headers[header], &out), 0);
	return out.data;
}

TEST(secrets_are_resolved_each_once)
{
	AUTO_POLICY struct policy p = { 0 };
	AUTO_STRV char **names = NULL;
	AUTO_FREE char *one = NULL, *two = NULL;
	int n = 0;

	read_policy(A(HX("a", HEAD("X", "${secret.A}-${secret.B}-$${secret.C}")) "," HX(
			    "b", HEAD("Y", "a$${${secret.A}"))),
		    &p);
	EQ(policy_secret_names(&p, &names, &err), 0);
	EQ(strv_len(names), 2);
	STREQ(names[0], "A");
	STREQ(names[1], "B");
	EQ(policy_resolve_secrets(&p, look_up, &n, &err), 0);
	EQ(n, 2);
	one = expand(&p, 0, 0);
	two = expand(&p, 1, 0);
	STREQ(one, "value-of-A-value-of-B-${secret.C}");
	STREQ(two, "a${value-of-A");
}

TEST(a_missing_or_too_long_secret_is_reported_with_its_position)
{
	AUTO_POLICY struct policy p = { 0 }, q = { 0 };
	struct buf out = BUF_INIT(64);
	int n = 0;

	read_policy(A(HX("a", KEY) "," HX("b", HEAD("X-A", "${secret.MISSING}"))), &p);
	EQ(policy_resolve_secrets(&p, look_up, &n, &err), -ENOENT);
	STREQ(err.msg, "/allow/1/headers/X-A: there is no secret 'MISSING'");
	EQ(p.n_secrets, 0);
	EQ(rule_expand_header(&p, &p.allow.list[0].headers[0], &out), -ENOENT);
	buf_done(&out);

	read_policy(A(HX("a", HEAD("X-A", "${secret.LONG}${secret.LONG}"))), &q);
	EQ(policy_resolve_secrets(&q, look_up, &n, &err), -E2BIG);
	OK(strstr(err.msg, "/allow/0/headers/X-A") && !strstr(err.msg, "xxx"));
	policy_done(&q);
	q = (struct policy){ 0 };
	read_policy(A(HX("a", HEAD("X-A", "${secret.LONG}"))), &q);
	EQ(policy_resolve_secrets(&q, look_up, &n, &err), 0);
}

TEST(values_are_written_only_for_the_process_that_needs_them)
{
	AUTO_POLICY struct policy p = { 0 }, again = { 0 };
	struct buf plain = BUF_INIT(4096), full = BUF_INIT(4096);
	struct json j = { .out = &plain }, k = { .out = &full };
	AUTO_FREE char *value = NULL;
	json_t *in;
	int n = 0;

	read_policy(A(HX("a", KEY)), &p);
	EQ(policy_resolve_secrets(&p, look_up, &n, &err), 0);
	policy_write(&p, &j, NULL);
	OK(!strstr(plain.data, "value-of") && strstr(plain.data, "${secret.KEY}"));
	policy_write_secrets(&p, &k, NULL);
	OK(strstr(full.data, "\"secrets\":{\"KEY\":\"value-of-KEY\"}"));
	in = json_loads(full.data, 0, NULL);
	EQ(policy_read_secrets(in, "", &again, &err), 0);
	value = expand(&again, 0, 0);
	STREQ(value, "Bearer value-of-KEY");
	plain.len = 0;
	j = (struct json){ .out = &plain };
	policy_write(&again, &j, NULL);
	OK(!strstr(plain.data, "value-of"));

	policy_done(&again);
	again = (struct policy){ 0 };
	(void)json_object_clear(json_object_get(in, "secrets"));
	EQ(policy_read_secrets(in, "", &again, &err), -EINVAL);
	STREQ(err.msg, "/secrets/KEY: is missing");
	(void)json_object_set_new(json_object_get(in, "secrets"), "KEY",
				  json_string("a\nb"));
	EQ(policy_read_secrets(in, "", &again, &err), -EINVAL);
	OK(strstr(err.msg, "/secrets/KEY"));
	json_decref(in);
	buf_done(&plain);
	buf_done(&full);
}

/* --------------------------------------------------------------------- decisions */

static struct request a_request(const char *host, uint16_t port, uint8_t protocol,
				const char *method, const char *path)
{
	static char name[HOST_TEXT_SIZE];
	struct request q = {
		.port = port, .protocol = protocol, .method = method, .path = path
	};

	EQ(host_parse_single(host, strlen(host), name, &q.host, &err), 0);
	return q;
}

static bool allows(const struct policy_index *x, const struct request *q)
{
	struct decision d;

	policy_decide(x, q, &d);
	return d.allowed;
}

TEST(only_inspected_requests_get_headers)
{
	AUTO_POLICY struct policy p = { 0 };
	AUTO_POLICY_INDEX struct policy_index *x = NULL;
	struct request q;

	read_policy(A(HX("a", "\"methods\":[\"GET\"]," PATHS("/v1*") "," KEY) "," HX(
			    "a", "\"protocols\":[\"https\"],\"ports\":[443],"
				 "\"methods\":[\"POST\"]") "," HX("b", KEY)),
		    &p);
	EQ(policy_index_new(&p, &x, &err), 0);
	q = a_request("a", 443, RULE_HTTPS, "GET", "/v1/x");
	OK(allows(x, &q) && policy_headers(x, &q) == &p.allow.list[0]);
	q = a_request("a", 443, RULE_HTTPS, "POST", "/v1/x");
	OK(allows(x, &q) && !policy_headers(x, &q));
	q = a_request("a", 443, RULE_HTTPS, "GET", "/v2");
	OK(!allows(x, &q) && !policy_headers(x, &q));
	/* Servers could interpret such a path differently. */
	q = a_request("a", 443, RULE_HTTPS, "GET", NULL);
	OK(!allows(x, &q) && !policy_headers(x, &q));
	q = a_request("a", 80, RULE_HTTP, "GET", "/v1/x");
	OK(!allows(x, &q) && !policy_headers(x, &q));
	q = a_request("b", 443, RULE_HTTPS, "GET", "/");
	OK(allows(x, &q) && policy_headers(x, &q) == &p.allow.list[2]);
	q = a_request("b", 443, RULE_TLS, NULL, NULL);
	OK(!allows(x, &q) && !policy_headers(x, &q));
	q.opening = true;
	OK(allows(x, &q));
	q = a_request("c.b", 443, RULE_HTTPS, "GET", "/");
	OK(!policy_headers(x, &q));
}

TEST(tls_is_terminated_only_where_a_rule_needs_it)
{
	static const struct {
		const char *policy, *host;
		uint16_t port;
		bool terminates;
	} cases[] = {
		{ A(HX("a", KEY)), "a", 443, true },
		{ A(HX("a", KEY)), "b", 443, false },
		{ A(HX("a", KEY)), "x.a", 443, false },
		{ A(HX("a", "\"ports\":[443]," KEY)), "a", 8443, false },
		{ A(HX("a", "\"protocols\":[\"http\"]," KEY)), "a", 443, false },
		/*
		 * Another rule allows the whole request, but the headers must be added.
		 */
		{ A(HX("a", KEY) ",{\"host\":\"*.a\"},{\"public\":true}"), "a", 443,
		  true },
		{ A(HX("a", KEY) ",{\"public\":true}"), "b", 443, false },
		{ A("{\"host\":\"a\"}"), "a", 443, false },
		{ A(HX("*.a", "\"methods\":[\"GET\"]")), "x.a", 443, true },
		{ A(HX("a", PATHS("/x"))), "a", 443, true },
		{ A(HX("a", PATHS("/x")) ",{\"host\":\"a\"}"), "a", 443, false },
		{ A(HX("a", "\"protocols\":[\"http\"]," PATHS("/x"))), "a", 443, false },
		{ "{\"allow\":[{\"host\":\"a\"}],\"deny\":[" HX("a", PATHS("/x")) "]}",
		  "a", 443, true },
		{ "{\"allow\":[{\"host\":\"a\"}],\"deny\":[{\"host\":\"a\"}]}", "a", 443,
		  false },
		{ "{}", "a", 443, false },
		{ A(HX("192.0.2.1", PATHS("/x"))), "192.0.2.1", 443, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_POLICY struct policy p = { 0 };
		AUTO_POLICY_INDEX struct policy_index *x = NULL;
		struct request q = a_request(cases[i].host, 443, RULE_TLS, NULL, NULL);

		read_policy(cases[i].policy, &p);
		EQ(policy_index_new(&p, &x, &err), 0);
		if (policy_terminates(x, &q.host, cases[i].port) != cases[i].terminates)
			TAP_FAIL("%s: %s", cases[i].policy, cases[i].host);
	}
}

/* -------------------------------------------------------------------- delegation */

TEST(a_child_adds_the_headers_of_its_parent)
{
	static const struct {
		const char *parent, *child;
		int within;
	} cases[] = {
		{ A(HX("a", KEY)), A(HX("a", KEY)), 1 },
		{ A(HX("a", KEY)),
		  A(HX("a", HEAD("AUTHORIZATION", "Bearer ${secret.KEY}"))), 1 },
		{ A(HX("a", KEY)),
		  A(HX("a", PATHS("/x") ",\"protocols\":[\"https\"]," KEY)), 1 },
		{ A(HX("a", PATHS("/x") "," KEY)), A(HX("a", KEY)), 0 },
		/* The parent does not have the secret, or has it for another host. */
		{ A("{\"host\":\"a\"}"), A(HX("a", KEY)), 0 },
		{ A("{\"public\":true}"), A(HX("a", KEY)), 0 },
		{ A(HX("a", KEY)), A(HX("a", OTHER)), 0 },
		{ A(HX("a", KEY) ",{\"host\":\"b\"}"), A(HX("b", KEY)), 0 },
		{ A(HX("a", "\"protocols\":[\"https\",\"http\"]," KEY)), A(HX("a", KEY)),
		  1 },
		{ A(HX("a", KEY)), A(HX("a", "\"protocols\":[\"http\"]," KEY)), 0 },
		/* Without the header, a client could send one itself. */
		{ A(HX("a", KEY)), A(HX("a", "\"protocols\":[\"https\"]")), 0 },
		{ A(HX("a", KEY)),
		  A(HX("a", "\"protocols\":[\"https\"],\"methods\":[\"GET\"]")), 0 },
		{ A(HX("a", KEY) ",{\"host\":\"a\"}"), A("{\"host\":\"a\"}"), 0 },
		{ A(HX("a", KEY) ",{\"host\":\"a\"}"),
		  A("{\"host\":\"a\"}," HX("a", KEY)), 1 },
		{ A(HX("a", KEY) ",{\"public\":true}"), A("{\"public\":true}"), 0 },
		{ A(HX("a", KEY) ",{\"public\":true}"), A("{\"host\":\"b\"}"), 1 },
		{ A(HX("a", PATHS("/x") "," KEY) "," HX("a", PATHS("/y"))),
		  A(HX("a", PATHS("/y"))), 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_POLICY struct policy p = { 0 }, c = { 0 };
		int r;

		read_policy(cases[i].parent, &p);
		read_policy(cases[i].child, &c);
		err = (struct warren_error)WARREN_ERROR_INIT;
		r = policy_within(&p, &c, &err);
		if (r != cases[i].within || (r == 0) != (err.code == EPERM))
			TAP_FAIL("%s, %s: %d %s", cases[i].parent, cases[i].child, r,
				 err.msg);
	}
}

static uint32_t dice_state = 12345;

static unsigned dice(unsigned n)
{
	dice_state = dice_state * 1664525U + 1013904223U;
	return (dice_state >> 8) % n;
}

static void random_policy(struct policy *p)
{
	static const char *const hosts[] = { "a", "b", "x.a", "*.a" };
	static const char *const paths[] = { "", "\"paths\":[\"/x*\"],",
					     "\"paths\":[\"/y\"],",
					     "\"paths\":[\"/xy\",\"/y\"]," };
	static const char *const protocols[] = { "", "\"protocols\":[\"https\"],",
						 "\"protocols\":[\"http\",\"https\"]," };
	struct buf text = BUF_INIT(8192);

	do {
		unsigned n = dice(4);

		text.len = 0;
		buf_puts(&text, "{\"allow\":[");
		for (unsigned i = 0; i < n; i++) {
			unsigned host = dice(4), head = host == 3 ? 0 : dice(3);

			buf_printf(&text, "%s{%s%s%s\"host\":\"%s\"}", i ? "," : "",
				   paths[dice(4)], protocols[dice(3)],
				   head == 0   ? ""
				   : head == 1 ? KEY ","
					       : OTHER ",",
				   hosts[host]);
		}
		buf_puts(&text, "]}");
		policy_done(p);
		*p = (struct policy){ 0 };
	} while (try_policy(text.data, p) < 0); /* conflicting headers */
	buf_done(&text);
}

/* Return the outcome of a request: 0 if it is denied, otherwise the headers it gets. */
static int outcome(const struct policy *p, const struct request *q)
{
	AUTO_POLICY_INDEX struct policy_index *x = NULL;
	const struct rule *r;

	EQ(policy_index_new(p, &x, &err), 0);
	if (!allows(x, q))
		return 0;
	r = policy_headers(x, q);
	return !r ? 1 : strstr(r->headers[0].text, "KEY") ? 2 : 3;
}

TEST(random_policies_delegate_no_header)
{
	static const char *const hosts[] = { "a", "b", "x.a", "y.a" };
	static const char *const paths[] = { "/x", "/xy", "/y", "/z" };
	unsigned within = 0, kept = 0, dropped = 0;

	for (unsigned i = 0; i < 4000; i++) {
		AUTO_POLICY struct policy parent = { 0 }, child = { 0 }, both = { 0 };
		bool is_within;

		random_policy(&parent);
		random_policy(&child);
		if (i % 3 == 0)
			for (size_t k = 0; k < parent.allow.n; k++)
				EQ(policy_add_copy(&child, &child.allow,
						   &parent.allow.list[k], &err),
				   0);
		EQ(policy_intersect(&parent, &child, &both, &err), 0);
		is_within = policy_within(&parent, &child, &err) == 1;
		within += is_within;
		for (unsigned k = 0; k < 16; k++) {
			struct request q = a_request(hosts[dice(4)], 443,
						     dice(2) ? RULE_HTTP : RULE_HTTPS,
						     "GET", paths[dice(4)]);
			int of_parent, of_both;

			if (dice(4) == 0) {
				q.protocol = RULE_TLS;
				q.method = q.path = NULL;
			}
			of_parent = outcome(&parent, &q);
			of_both = outcome(&both, &q);
			OK(of_both == 0 || of_both == of_parent);
			OK(of_both == 0 || outcome(&child, &q) != 0);
			if (is_within && outcome(&child, &q) != 0)
				EQ(outcome(&child, &q), of_parent);
			kept += of_both > 1;
			dropped += of_parent > 1 && of_both == 0;
		}
	}
	(void)printf("# within %u, headers kept %u, dropped %u\n", within, kept, dropped);
	OK(within > 100 && kept > 100 && dropped > 100);
}

TEST(names_that_servers_confuse_are_alike)
{
	OK(header_names_alike("X-Key", "x-key"));
	OK(header_names_alike("X-Key", "X_KEY"));
	OK(header_names_alike("X-Key", "X.Key"));
	OK(!header_names_alike("X-Key", "XKey"));
	OK(!header_names_alike("X-Key", "X-Key1"));
	OK(!header_names_alike("X-Key1", "X-Key"));
	OK(!header_names_alike("X-Key", "XaKey"));
	OK(!header_names_alike("X-Kex", "X-Key"));
}

TEST_MAIN()
