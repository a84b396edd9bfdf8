/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-network-decide.c - which requests a network policy allows, by which rule, and how
 * long a decision takes
 */
#include <errno.h>
#include <time.h>

#include "lib/tap.h"
#include "network/decide.h"
#include "network/policy_json.h"

static struct warren_error err;

/* ---------------------------------------------------------------------- helpers */

struct world {
	struct policy policy;
	struct policy_index *index;
};

static void world_open(struct world *w, const char *text)
{
	json_t *in = json_loads(text, JSON_REJECT_DUPLICATES, NULL);

	*w = (struct world){ 0 };
	if (!in || policy_read(in, "", &w->policy, &err) < 0)
		TAP_FAIL("%s: %s", text, err.msg);
	json_decref(in);
	EQ(policy_index_new(&w->policy, &w->index, &err), 0);
}

static void world_close(struct world *w)
{
	w->index = policy_index_free(w->index);
	policy_done(&w->policy);
}

/*
 * Parse "HOST:PORT PROTOCOL [METHOD PATH]"; HOST may be "NAME=ADDRESS". Port 0 and the
 * protocol "?" stand for a value that is not known yet, because the connection is being
 * opened.
 */
static void request_of(const char *text, struct request *q, char *name, char *path)
{
	char host[300] = "", protocol[8] = "", target[300] = "", address[64] = "",
	     *equals;
	static char method[16], other[HOST_TEXT_SIZE];
	unsigned port = 0;
	int n = sscanf(text, "%299[^ ] %u %7s %15s %299s", host, &port, protocol, method,
		       target);

	*q = (struct request){ .port = (uint16_t)port,
			       .protocol = (uint8_t)rule_protocol_bit(protocol),
			       .method = n > 3 ? method : NULL };
	q->opening = port == 0 || protocol[0] == '?';
	equals = strchr(host, '=');
	if (equals) {
		(void)snprintf(address, sizeof(address), "%s", equals + 1);
		*equals = '\0';
		EQ(host_parse_single(address, strlen(address), other, &q->address, &err),
		   0);
		q->has_address = true;
	}
	if (host_parse_single(host, strlen(host), name, &q->host, &err) < 0)
		TAP_FAIL("%s: %s", text, err.msg);
	if (n > 4 && rule_path(target, path, 300))
		q->path = path;
}

static struct decision decide(const struct world *w, const char *text)
{
	char name[HOST_TEXT_SIZE], path[300];
	struct request q;
	struct decision d;

	request_of(text, &q, name, path);
	policy_decide(w->index, &q, &d);
	return d;
}

/* Check requests. Each line has '+' or '-', a space, and a request. */
static void check(const char *policy, const char *const *requests, size_t n)
{
	struct world w;

	world_open(&w, policy);
	for (size_t i = 0; i < n; i++)
		if (decide(&w, requests[i] + 2).allowed != (requests[i][0] == '+'))
			TAP_FAIL("%s: %s", policy, requests[i]);
	world_close(&w);
}

#define CHECK(policy, ...)                                       \
	do {                                                     \
		static const char *const r_[] = { __VA_ARGS__ }; \
		check(policy, r_, ARRAY_SIZE(r_));               \
	} while (0)

/* -------------------------------------------------------------------- decisions */

TEST(nothing_is_allowed_by_default)
{
	CHECK("{}", "- a.b 443 tls", "- 8.8.8.8 443 tls", "- a.b 0 ?");
	CHECK("{\"allow\":[],\"deny\":[{\"host\":\"x\"}]}", "- a.b 443 tls", "- x 1 tcp");
}

TEST(names_and_suffixes_are_matched)
{
	CHECK("{\"allow\":[{\"host\":\"pypi.org\"},{\"host\":\"*.example.com\"}]}",
	      "+ pypi.org 443 tls", "+ PyPI.ORG 443 tls", "- a.pypi.org 443 tls",
	      "- xpypi.org 443 tls", "- pypi.org.evil 443 tls", "- org 443 tls",
	      "+ a.example.com 1 tcp", "+ a.b.example.com 1 tcp", "- example.com 1 tcp",
	      "- aexample.com 1 tcp", "- example.com.a 1 tcp", "+ pypi.org 0 ?",
	      "- 151.101.0.223 443 tls");
}

TEST(deny_takes_precedence)
{
	CHECK("{\"allow\":[{\"host\":\"*.a\"},{\"host\":\"x.y.a\"},{\"public\":true}],"
	      "\"deny\":[{\"host\":\"*.y.a\"},{\"host\":\"b\",\"ports\":[\"20-30\"]},"
	      "{\"host\":\"8.0.0.0/8\"}]}",
	      "+ k.a 1 tcp", "- x.y.a 1 tcp", "- z.y.a 0 ?", "+ y.a 1 tcp", "- b 20 tcp",
	      "- b 30 tls", "+ b 31 tcp", "+ b 0 ?", "- 8.8.8.8 1 tcp", "+ 9.9.9.9 1 tcp",
	      "- k.a=8.8.8.8 1 tcp", "+ k.a=9.9.9.9 1 tcp");
	CHECK("{\"allow\":[{\"host\":\"10.0.0.0/8\"}],\"deny\":[{\"host\":\"0.0.0.0/0\"}]}",
	      "- 10.0.0.1 1 tcp");
	CHECK("{\"allow\":[{\"host\":\"10.0.0.0/8\"},{\"host\":\"a\"}],"
	      "\"deny\":[{\"public\":true}]}",
	      "+ 10.0.0.1 1 tcp", "- a 1 tcp");
}

TEST(ports_and_protocols_are_matched)
{
	CHECK("{\"allow\":[{\"host\":\"a\",\"ports\":[80,\"90-99\"],\"protocols\":[\"http\"]},"
	      "{\"host\":\"b\",\"protocols\":[\"https\"]},{\"host\":\"c\",\"protocols\":[\"tls\"]},"
	      "{\"host\":\"d\",\"protocols\":[\"tcp\"]}]}",
	      "+ a 80 http GET /", "- a 81 http GET /", "+ a 90 http", "+ a 99 http",
	      "- a 100 http", "- a 80 tls", "- a 80 tcp", "- a 80 https GET /",
	      "+ b 443 https GET /", "+ b 443 tls", "- b 443 http", "- b 443 tcp",
	      "+ c 443 https GET /", "+ c 443 tls", "- c 443 tcp", "+ d 1 tcp",
	      "+ d 1 http GET /", "+ d 1 tls", "+ d 1 https GET /",
	      /*
	       * During the opening, a request is allowed if it can still become allowed.
	       */
	      "+ a 80 ?", "- a 81 ?", "+ a 0 ?", "+ b 443 ?", "- e 443 ?");
	/* Traffic that is not inspected could be the denied kind. */
	CHECK("{\"allow\":[{\"host\":\"a\"}],\"deny\":[{\"host\":\"a\",\"protocols\":[\"http\"]}]}",
	      "- a 80 http GET /", "- a 22 tcp", "+ a 443 tls", "+ a 22 ?");
}

TEST(methods_and_paths_are_matched)
{
	CHECK("{\"allow\":[{\"host\":\"a\",\"methods\":[\"GET\"],\"paths\":[\"/x\",\"/p/*\"]}]}",
	      "+ a 80 http GET /x", "+ a 80 https GET /p/", "+ a 80 http GET /p/q",
	      "+ a 80 http GET /x?q", "- a 80 http HEAD /x", "- a 80 http get /x",
	      "- a 80 http PROPFIND /x", "- a 80 http GET /xy", "- a 80 http GET /x/",
	      "- a 80 http GET /p", "- a 80 http GET /", "+ a 80 http GET /%78",
	      "- a 80 http GET /p/../secret", "- a 80 http GET /p/%2e%2e/secret",
	      "- a 80 http GET /p/%2fq", "- a 80 http GET //x",
	      /* TLS that is not terminated shows no path. */
	      "- a 443 tls", "- a 443 https", "- a 80 http", "- a 80 tcp", "+ a 443 ?");
	CHECK("{\"allow\":[{\"host\":\"a\"}],\"deny\":[{\"host\":\"a\",\"paths\":[\"/admin*\"]}]}",
	      "- a 80 http GET /admin", "- a 80 http GET /adminx", "+ a 80 http GET /x",
	      "- a 80 http GET /x/../admin", "- a 80 http GET /x;y", "- a 443 tls",
	      "- a 22 tcp", "- a 80 http GET //admin");
	CHECK("{\"allow\":[{\"host\":\"a\"}],\"deny\":[{\"host\":\"a\",\"methods\":[\"POST\"]}]}",
	      "- a 80 http POST /", "+ a 80 http GET /", "+ a 80 http PROPFIND /",
	      "- a 443 tls", "+ a 443 https GET /");
}

TEST(addresses_need_separate_rules)
{
	CHECK("{\"allow\":[{\"host\":\"198.35.26.0/24\"},{\"host\":\"2600::/16\"},"
	      "{\"host\":\"10.1.0.0/16\",\"ports\":[5432]},{\"host\":\"db.example\"},"
	      "{\"host\":\"::1\"}]}",
	      "+ 198.35.26.9 1 tcp", "- 198.35.27.9 1 tcp", "+ 2600::5 1 tcp",
	      "- 2601::5 1 tcp", "+ 10.1.2.3 5432 tcp", "- 10.1.2.3 22 tcp",
	      "- 10.2.0.0 5432 tcp", "+ ::ffff:10.1.2.3 5432 tcp",
	      "+ 64:ff9b::10.1.2.3 5432 tcp", "+ ::1 1 tcp", "- ::2 1 tcp",
	      "- 127.0.0.1 1 tcp",
	      /* If a name is allowed, a public address needs no rule, but a special one
	       * does. */
	      "+ db.example=8.8.8.8 1 tcp", "+ db.example=2a00::1 1 tcp",
	      "- db.example=127.0.0.1 1 tcp", "+ db.example=10.1.2.3 5432 tcp",
	      "- db.example=10.1.2.3 22 tcp", "- db.example=169.254.169.254 80 http",
	      "- db.example=::ffff:169.254.169.254 80 http",
	      "- db.example=fe80::1 80 http", "+ db.example=::1 80 http",
	      "- db.example=:: 80 http", "- x=198.35.26.9 1 tcp");
}

/* Every class of addresses that is denied unless it is listed, and how to list it. */
TEST(special_addresses_are_denied_unless_listed)
{
	static const struct {
		const char *address, *block, *name;
	} all[] = {
		{ "127.0.0.1", "127.0.0.0/8", "loopback" },
		{ "::1", "::1", "loopback" },
		{ "169.254.1.1", "169.254.0.0/16", "link-local" },
		{ "fe80::1", "fe80::/10", "link-local" },
		{ "10.0.0.1", "10.0.0.0/8", "private" },
		{ "172.16.0.1", "172.16.0.0/12", "private" },
		{ "192.168.0.1", "192.168.0.0/16", "private" },
		{ "fd00::1", "fc00::/7", "private" },
		{ "100.64.0.1", "100.64.0.0/10", "shared (carrier-grade NAT)" },
		{ "169.254.169.254", "169.254.169.254", "metadata" },
		{ "fd00:ec2::254", "fd00:ec2::/32", "metadata" },
		{ "168.63.129.16", "168.63.129.16", "metadata" },
		{ "100.100.100.200", "100.100.100.200", "metadata" },
		{ "224.0.0.1", "224.0.0.0/4", "multicast" },
		{ "ff02::1", "ff00::/8", "multicast" },
		{ "0.0.0.0", "0.0.0.0", "unspecified" },
		{ "::", "::", "unspecified" },
		{ "::ffff:127.0.0.1", "127.0.0.0/8", "loopback" },
		{ "::127.0.0.1", "::/8", "reserved" },
		{ "64:ff9b::127.0.0.1", "127.0.0.0/8", "loopback" },
		{ "64:ff9b:1::7f00:1", "64:ff9b:1::/48", "NAT64" },
		{ "2002:7f00:1::1", "2002::/16", "6to4" },
		{ "2001:0:808:808::1", "2001::/32", "Teredo" },
		{ "255.255.255.255", "255.255.255.255", "broadcast" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		char policy[300], request[200];
		struct world open, listed;
		struct decision d;

		world_open(&open,
			   "{\"allow\":[{\"public\":true},{\"host\":\"0.0.0.0/0\"},"
			   "{\"host\":\"::/0\"}]}");
		(void)snprintf(policy, sizeof(policy),
			       "{\"allow\":[{\"public\":true},{\"host\":\"%s\"}]}",
			       all[i].block);
		world_open(&listed, policy);
		for (int by_name = 0; by_name < 2; by_name++) {
			(void)snprintf(request, sizeof(request), "%s%s 80 http",
				       by_name ? "a=" : "", all[i].address);
			d = decide(&open, request);
			if (d.allowed || d.why != DECISION_SPECIAL)
				TAP_FAIL("%s is allowed", request);
			if (!decide(&listed, request).allowed)
				TAP_FAIL("%s is not allowed by %s", request, policy);
		}
		OK(decide(&open, "8.8.8.8 1 tcp").allowed);
		OK(decide(&open, "a=2a00::1 1 tcp").allowed);
		{
			char name[HOST_TEXT_SIZE];
			struct host h;

			EQ(host_parse_single(all[i].address, strlen(all[i].address), name,
					     &h, &err),
			   0);
			STREQ(address_net_special(&h.net), all[i].name);
		}
		world_close(&open);
		world_close(&listed);
	}
}

TEST(invalid_requests_are_denied)
{
	struct world w;
	struct decision d;
	struct request q = { .port = 80, .protocol = RULE_HTTP };
	char name[HOST_TEXT_SIZE];

	world_open(&w, "{\"allow\":[{\"public\":true},{\"host\":\"*.a\"}]}");
	EQ(host_parse("*.a", 3, name, &q.host, &err), 0);
	policy_decide(w.index, &q, &d);
	EQ(d.allowed, false);
	EQ(d.why, DECISION_INVALID);
	EQ(host_parse("8.0.0.0/8", 9, name, &q.host, &err), 0);
	policy_decide(w.index, &q, &d);
	EQ(d.why, DECISION_INVALID);
	EQ(host_parse_single("8.0.0.0/8", 9, name, &q.host, &err), -EINVAL);
	EQ(host_parse_single("*.a", 3, name, &q.host, &err), -EINVAL);
	EQ(host_parse_single("b.a", 3, name, &q.host, &err), 0);
	q.port = 0;
	policy_decide(w.index, &q, &d);
	EQ(d.why, DECISION_INVALID);
	q.port = 80;
	q.protocol = 0;
	policy_decide(w.index, &q, &d);
	EQ(d.why, DECISION_INVALID);
	q.protocol = RULE_HTTP | RULE_TCP;
	policy_decide(w.index, &q, &d);
	EQ(d.why, DECISION_INVALID);
	q.protocol = RULE_HTTP;
	policy_decide(w.index, &q, &d);
	EQ(d.allowed, true);
	world_close(&w);
}

TEST(the_rule_is_named)
{
	struct world w;
	struct decision d;

	world_open(&w,
		   "{\"allow\":[{\"public\":true},{\"host\":\"*.b\",\"ports\":[1]},"
		   "{\"host\":\"*.b\",\"ports\":[2]},{\"host\":\"a.b\",\"ports\":[3]}],"
		   "\"deny\":[{\"host\":\"9.0.0.0/8\"},{\"host\":\"9.9.0.0/16\"}]}");
	/* The most specific host wins, then the first rule in the list. */
	EQ(decide(&w, "a.b 3 tcp").rule - w.policy.allow.list, 3);
	EQ(decide(&w, "a.b 2 tcp").rule - w.policy.allow.list, 2);
	EQ(decide(&w, "a.b 1 tcp").rule - w.policy.allow.list, 1);
	EQ(decide(&w, "a.b 4 tcp").rule - w.policy.allow.list, 0);
	EQ(decide(&w, "b 4 tcp").rule - w.policy.allow.list, 0);
	d = decide(&w, "a.b=9.9.1.1 1 tcp");
	EQ(d.allowed, false);
	EQ(d.by_address, true);
	EQ(d.rule - w.policy.deny.list, 1);
	EQ(decide(&w, "9.1.1.1 1 tcp").rule - w.policy.deny.list, 0);
	world_close(&w);
}

/* The denied request, the rule that would allow it, and the message about it. */
TEST(a_denial_says_what_would_allow_it)
{
	static const struct {
		const char *request, *rule, *text;
	} cases[] = {
		{ "a.c 443 tls",
		  "{\"host\":\"a.c\",\"ports\":[443],\"protocols\":[\"tls\"]}",
		  "no rule allows a.c:443 (tls)" },
		{ "a.c 22 tcp",
		  "{\"host\":\"a.c\",\"ports\":[22],\"protocols\":[\"tcp\"]}",
		  "no rule allows a.c:22 (tcp)" },
		{ "a.c 80 http GET /x/y?z",
		  "{\"host\":\"a.c\",\"ports\":[80],\"protocols\":[\"http\"],"
		  "\"methods\":[\"GET\"],\"paths\":[\"/x/y\"]}",
		  "no rule allows a.c:80 (http) GET /x/y" },
		{ "a.c 443 https PROPFIND /x",
		  "{\"host\":\"a.c\",\"ports\":[443],\"protocols\":[\"https\"],"
		  "\"paths\":[\"/x\"]}",
		  "no rule allows a.c:443 (https) PROPFIND /x" },
		{ "a.c 80 http GET /x/../y",
		  "{\"host\":\"a.c\",\"ports\":[80],\"protocols\":[\"http\"],"
		  "\"methods\":[\"GET\"]}",
		  "no rule allows a.c:80 (http) GET (a path that servers read in "
		  "different ways)" },
		{ "2a00::1 443 tls",
		  "{\"host\":\"2a00::1\",\"ports\":[443],\"protocols\":[\"tls\"]}",
		  "no rule allows [2a00::1]:443 (tls)" },
		{ "127.0.0.1 1 tcp",
		  "{\"host\":\"127.0.0.1\",\"ports\":[1],\"protocols\":[\"tcp\"]}",
		  "no rule allows 127.0.0.1:1 (tcp): 127.0.0.1 is a special-purpose address "
		  "(loopback)" },
		{ "ok=10.0.0.1 1 tcp",
		  "{\"host\":\"10.0.0.1\",\"ports\":[1],\"protocols\":[\"tcp\"]}",
		  "no rule allows ok:1 (tcp), which is at 10.0.0.1: 10.0.0.1 is a "
		  "special-purpose address (private)" },
		{ "a.c 0 ?", "{\"host\":\"a.c\"}", "no rule allows a.c" },
		/* No rule overrides one that denies. */
		{ "x 1 tcp", "", "the rule for x denies x:1 (tcp)" },
		{ "ok=9.9.9.9 1 tcp", "",
		  "the rule for 9.9.9.9 denies ok:1 (tcp), which is at 9.9.9.9" },
		{ "ok 1 tcp", "", "the rule for ok allows ok:1 (tcp)" },
	};
	struct world w;

	world_open(&w, "{\"allow\":[{\"host\":\"ok\"}],\"deny\":[{\"host\":\"x\"},"
		       "{\"host\":\"9.9.9.9\"}]}");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_BUF struct buf text = BUF_INIT(4096), json = BUF_INIT(4096);
		AUTO_POLICY struct policy more = { 0 };
		AUTO_POLICY_INDEX struct policy_index *index = NULL;
		char name[HOST_TEXT_SIZE], path[300];
		struct json j = { .out = &json };
		struct request q;
		struct decision d;

		request_of(cases[i].request, &q, name, path);
		policy_decide(w.index, &q, &d);
		decision_text(&q, &d, &text);
		STREQ(text.data, cases[i].text);
		for (size_t k = 0; k < w.policy.allow.n; k++)
			EQ(policy_add_copy(&more, &more.allow, &w.policy.allow.list[k],
					   &err),
			   0);
		EQ(decision_suggest(&q, &d, &more, &err), cases[i].rule[0] ? 1 : 0);
		EQ(more.allow.n, w.policy.allow.n + (cases[i].rule[0] ? 1 : 0));
		if (!cases[i].rule[0])
			continue;
		rule_write(&more.allow.list[more.allow.n - 1], &j, NULL);
		STREQ(json.data, cases[i].rule);
		/* With this rule, the request is allowed. */
		EQ(policy_index_new(&more, &index, &err), 0);
		policy_decide(index, &q, &d);
		EQ(d.allowed, true);
	}
	world_close(&w);
}

/* ------------------------------------------------------------------------- speed */

/* Use processor time, because other processes use the machine as well. */
static uint64_t cpu_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void add_host(struct policy *p, struct rules *to, const char *text)
{
	char name[HOST_TEXT_SIZE];
	struct rule *r = NULL;
	struct host h;

	EQ(host_parse(text, strlen(text), name, &h, &err), 0);
	EQ(policy_add(p, to, &h, &r, &err), 0);
	EQ(rule_add_ports(r, 443, 443, &err), 0);
}

enum {
	SETS = 2500,
	FORMS = 4
};

/* Each set has a rule of each form. If @request is set, write a request that matches the
 * rule. */
static void name_rule(unsigned set, unsigned form, bool request, char out[64])
{
	if (form == 0)
		(void)snprintf(out, 64, "host-%u.team-%u.example.com", set, set % 50);
	else if (form == 1)
		(void)snprintf(out, 64, "%s.zone-%u.example.org", request ? "a.b.c" : "*",
			       set);
	else if (form == 2)
		(void)snprintf(out, 64, "11.%u.%u.%s", set / 250, set % 250,
			       request ? "7" : "0/24");
	else
		(void)snprintf(out, 64, "%s.bad-%u.zone-%u.example.org",
			       request ? "x" : "*", set, set);
}

/* Among 10,000 rules of all kinds, each request finds its rule. The time is printed. */
TEST(ten_thousand_rules_are_searched)
{
	AUTO_POLICY struct policy p = { 0 };
	AUTO_POLICY_INDEX struct policy_index *x = NULL;
	static char texts[SETS * FORMS][64];
	unsigned allowed = 0;
	uint64_t start, spent;

	for (unsigned i = 0; i < SETS * FORMS; i++) {
		name_rule(i / FORMS, i % FORMS, false, texts[i]);
		add_host(&p, i % FORMS == 3 ? &p.deny : &p.allow, texts[i]);
		/*
		 * The requests have another order than the rules, so that caches do not
		 * help.
		 */
		name_rule(i * 7919 / FORMS % SETS, i % FORMS, true, texts[i]);
	}
	EQ(p.allow.n + p.deny.n, POLICY_RULES_MAX);
	EQ(policy_index_new(&p, &x, &err), 0);
	start = cpu_ns();
	for (unsigned i = 0; i < SETS * FORMS; i++) {
		struct request q = { .port = 443, .protocol = RULE_TLS };
		char name[HOST_TEXT_SIZE];
		struct decision d;

		EQ(host_parse_single(texts[i], strlen(texts[i]), name, &q.host, &err), 0);
		policy_decide(x, &q, &d);
		allowed += d.allowed;
		OK(d.allowed == (i % FORMS != 3) && d.why == DECISION_RULE);
	}
	spent = cpu_ns() - start;
	(void)printf("# a decision among %d rules: %.0f ns\n", POLICY_RULES_MAX,
		     (double)spent / (SETS * FORMS));
	EQ(allowed, SETS * (FORMS - 1));
}

/* The slowest host has the maximum number of labels, and a rule for each suffix. */
TEST(the_deepest_name_is_found)
{
	AUTO_POLICY struct policy p = { 0 };
	AUTO_POLICY_INDEX struct policy_index *x = NULL;
	enum {
		ROUNDS = 2000,
		LABELS = 127
	};
	char text[HOST_TEXT_SIZE] = "", name[HOST_TEXT_SIZE];
	struct request q = { .port = 80, .protocol = RULE_TLS };
	struct decision d = { 0 };
	uint64_t start;

	for (unsigned i = 0; i < LABELS; i++)
		(void)strcat(text, i ? ".a" : "a");
	for (unsigned i = 1; i < LABELS; i++) {
		char suffix[HOST_TEXT_SIZE + 2];

		(void)snprintf(suffix, sizeof(suffix), "*%s", text + 2 * i - 1);
		add_host(&p, &p.allow, suffix);
	}
	EQ(policy_index_new(&p, &x, &err), 0);
	EQ(host_parse_single(text, strlen(text), name, &q.host, &err), 0);
	start = cpu_ns();
	for (unsigned i = 0; i < ROUNDS; i++)
		policy_decide(x, &q, &d);
	(void)printf("# a name of %d labels, all %d rules tried: %.0f ns\n", LABELS,
		     LABELS - 1, (double)(cpu_ns() - start) / ROUNDS);
	EQ(d.allowed, false);
	q.port = 443;
	policy_decide(x, &q, &d);
	EQ(d.allowed, true);
}

/* Rules for the same host are tried one by one: this measures the cost. */
TEST(ten_thousand_rules_for_one_host_are_searched)
{
	AUTO_POLICY struct policy p = { 0 };
	AUTO_POLICY_INDEX struct policy_index *x = NULL;
	enum {
		ROUNDS = 200
	};
	char name[HOST_TEXT_SIZE];
	struct request q = { .protocol = RULE_TLS };
	struct decision d = { 0 };
	uint64_t start;

	for (unsigned i = 1; i <= POLICY_RULES_MAX; i++) {
		struct rule *r = NULL;
		struct host h;

		EQ(host_parse("a", 1, name, &h, &err), 0);
		EQ(policy_add(&p, &p.allow, &h, &r, &err), 0);
		EQ(rule_add_ports(r, (uint16_t)i, (uint16_t)i, &err), 0);
	}
	EQ(policy_index_new(&p, &x, &err), 0);
	EQ(host_parse_single("a", 1, name, &q.host, &err), 0);
	start = cpu_ns();
	for (unsigned i = 0; i < ROUNDS; i++) {
		q.port = (uint16_t)(POLICY_RULES_MAX - i);
		policy_decide(x, &q, &d);
		EQ(d.allowed, true);
		EQ(d.rule - p.allow.list, q.port - 1);
	}
	(void)printf("# a decision among %d rules for one host: %.0f ns\n",
		     POLICY_RULES_MAX, (double)(cpu_ns() - start) / ROUNDS);
	q.port = POLICY_RULES_MAX + 1;
	policy_decide(x, &q, &d);
	EQ(d.allowed, false);
}

/* Each rule has 2 paths, exact ones and prefixes, and the same host and ports. */
TEST(ten_thousand_rules_with_paths_for_one_host_are_searched)
{
	AUTO_POLICY struct policy p = { 0 };
	AUTO_POLICY_INDEX struct policy_index *x = NULL;
	enum {
		ROUNDS = 200
	};
	char name[HOST_TEXT_SIZE], path[64];
	struct request q = { .port = 80, .protocol = RULE_HTTP, .method = "GET" };
	struct decision d = { 0 };
	uint64_t start;

	EQ(host_parse_single("a", 1, name, &q.host, &err), 0);
	for (unsigned i = 0; i < POLICY_RULES_MAX; i++) {
		struct rule *r = NULL;

		EQ(policy_add(&p, i % 2 ? &p.deny : &p.allow, &q.host, &r, &err), 0);
		(void)snprintf(path, sizeof(path), "/v1/items/%u/x-*", i);
		EQ(rule_add_path(r, path, strlen(path), &err), 0);
		(void)snprintf(path, sizeof(path), "/v1/items/%u", i);
		EQ(rule_add_path(r, path, strlen(path), &err), 0);
		EQ(rule_finish(r, &err), 0);
	}
	EQ(policy_index_new(&p, &x, &err), 0);
	q.path = path;
	start = cpu_ns();
	for (unsigned i = 0; i < ROUNDS; i++) {
		unsigned rule = i * 49;

		(void)snprintf(path, sizeof(path), "/v1/items/%u%s", rule,
			       i % 3 ? "" : "/x-y");
		policy_decide(x, &q, &d);
		EQ(d.allowed, rule % 2 == 0);
		EQ(d.rule - (rule % 2 ? p.deny.list : p.allow.list), rule / 2);
	}
	(void)printf("# a decision among %d rules with paths for one host: %.0f ns\n",
		     POLICY_RULES_MAX, (double)(cpu_ns() - start) / ROUNDS);
	(void)snprintf(path, sizeof(path), "/v1/items/4/y");
	policy_decide(x, &q, &d);
	EQ(d.why, DECISION_NO_RULE);
}

/* The first rule of the list is the one that is named, whichever way it was found. */
TEST(rules_for_one_host_are_found_in_the_order_of_the_list)
{
	static const struct {
		const char *path;
		int rule;
	} cases[] = {
		{ "/a/b", 0 }, { "/a/c", 1 }, { "/a", 3 }, { "/", -1 }, { "/d/e", 4 }
	};
	static const char *const paths[] = { "/a/b", "/a/*", "/a/b*",
					     "/a*",  "/d/*", "/d/e" };
	AUTO_POLICY struct policy p = { 0 };
	AUTO_POLICY_INDEX struct policy_index *x = NULL;
	char name[HOST_TEXT_SIZE];
	struct request q = { .port = 80, .protocol = RULE_HTTP, .method = "GET" };

	EQ(host_parse_single("a", 1, name, &q.host, &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct rule *r = NULL;

		EQ(policy_add(&p, &p.allow, &q.host, &r, &err), 0);
		EQ(rule_add_path(r, paths[i], strlen(paths[i]), &err), 0);
		EQ(rule_finish(r, &err), 0);
	}
	EQ(policy_index_new(&p, &x, &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct decision d = { 0 };

		q.path = cases[i].path;
		policy_decide(x, &q, &d);
		EQ(d.allowed ? d.rule - p.allow.list : -1, cases[i].rule);
	}
}

TEST_MAIN()
