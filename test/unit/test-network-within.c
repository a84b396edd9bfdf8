/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-network-within.c - the intersection of two policies, and which policy allows more:
 * examples, and random policies and requests with few hosts and paths
 */
#include <errno.h>

#include "lib/tap.h"
#include "network/decide.h"
#include "network/policy_json.h"
#include "network/within.h"

static struct warren_error err;

static void read_policy(const char *text, struct policy *p)
{
	json_t *in = json_loads(text, JSON_REJECT_DUPLICATES, NULL);

	if (!in || policy_read(in, "", p, &err) < 0)
		TAP_FAIL("%s: %s", text, err.msg);
	json_decref(in);
}

static char *policy_text(const struct policy *p)
{
	struct buf out = BUF_INIT(1U << 20);
	struct json j = { .out = &out };

	policy_write(p, &j, NULL);
	OK(!out.failed);
	return out.data;
}

/* --------------------------------------------------------------------- examples */

#define A(rule)     "{\"allow\":[" rule "]}"
#define AD(a, d)    "{\"allow\":[" a "],\"deny\":[" d "]}"
#define H(host)     "{\"host\":\"" host "\"}"
#define HX(host, x) "{\"host\":\"" host "\"," x "}"
#define PUBLIC      "{\"public\":true}"

static const struct {
	const char *parent, *child;
	int within;
} within_cases[] = {
	{ "{}", "{}", 1 },
	{ A(H("a")), "{}", 1 },
	{ "{}", A(H("a")), 0 },
	{ A(H("a")), A(H("a")), 1 },
	{ A(H("*.a")), A(H("b.a")), 1 },
	{ A(H("*.a")), A(H("*.b.a")), 1 },
	{ A(H("*.a")), A(H("a")), 0 },
	{ A(H("b.a")), A(H("*.a")), 0 },
	{ A(PUBLIC), A(H("a") "," H("8.0.0.0/8") "," H("*.b")), 1 },
	{ A(PUBLIC), A(H("10.0.0.0/8")), 0 },
	{ A(PUBLIC), A(H("0.0.0.0/0")), 1 },
	{ A(H("0.0.0.0/0")), A(PUBLIC), 0 },
	{ A(H("0.0.0.0/0")), A(H("10.0.0.0/8")), 0 },
	{ A(H("10.0.0.0/8")), A(H("10.1.0.0/16")), 1 },
	{ A(H("::/0")), A(H("8.8.8.8")), 0 },
	/* Rules of the parent are combined, except for different hosts. */
	{ A(HX("a", "\"ports\":[\"1-80\"]") "," HX("a", "\"ports\":[\"81-90\"]")),
	  A(HX("a", "\"ports\":[\"79-82\"]")), 1 },
	{ A(HX("a", "\"ports\":[\"1-80\"]") "," HX("*.b", "\"ports\":[\"81-90\"]")),
	  A(HX("a", "\"ports\":[\"79-82\"]")), 0 },
	{ A(HX("a", "\"protocols\":[\"http\"]") "," HX("a", "\"protocols\":[\"tls\"]")),
	  A(HX("a", "\"protocols\":[\"http\",\"https\"]")), 1 },
	{ A(HX("a", "\"protocols\":[\"http\"]") "," HX("a", "\"protocols\":[\"tls\"]")),
	  A(H("a")), 0 },
	{ A(HX("a", "\"methods\":[\"GET\"]") "," HX("a", "\"methods\":[\"PUT\"]")),
	  A(HX("a", "\"methods\":[\"GET\",\"PUT\"]")), 1 },
	{ A(HX("a", "\"methods\":[\"GET\"]")), A(HX("a", "\"protocols\":[\"http\"]")),
	  0 },
	{ A(HX("a", "\"paths\":[\"/x*\"]")),
	  A(HX("a", "\"paths\":[\"/x\",\"/xy\",\"/xz*\"]")), 1 },
	{ A(HX("a", "\"paths\":[\"/x\"]")), A(HX("a", "\"paths\":[\"/x*\"]")), 0 },
	/* The child must not allow what the parent denies, or must deny it as well. */
	{ AD(H("*.a"), H("x.a")), A(H("y.a")), 1 },
	{ AD(H("*.a"), H("x.a")), A(H("x.a")), 0 },
	{ AD(H("*.a"), H("x.a")), A(H("*.a")), 0 },
	{ AD(H("*.a"), H("x.a")), AD(H("*.a"), H("x.a")), 1 },
	{ AD(H("*.a"), H("x.a")), AD(H("*.a"), PUBLIC), 1 },
	{ AD(H("*.a"), HX("x.a", "\"ports\":[1]")), AD(H("*.a"), H("x.a")), 1 },
	{ AD(H("*.a"), H("x.a")), AD(H("*.a"), HX("x.a", "\"ports\":[1]")), 0 },
	{ AD(H("*.a"), H("x.a")),
	  AD(HX("*.a", "\"ports\":[1]"), HX("*.a", "\"ports\":[1]")), 1 },
	{ AD(H("*.a"), HX("x.a", "\"ports\":[1]")), A(HX("*.a", "\"ports\":[2]")), 1 },
	{ AD(H("*.a"), HX("x.a", "\"paths\":[\"/p*\"]")),
	  A(HX("*.a", "\"paths\":[\"/q\"]")), 1 },
	{ AD(H("*.a"), HX("x.a", "\"paths\":[\"/p*\"]")),
	  A(HX("*.a", "\"paths\":[\"/pq\"]")), 0 },
	/* A name may resolve to a denied address. */
	{ AD(H("a"), H("8.0.0.0/8")), A(H("a")), 0 },
	{ AD(H("a"), H("8.0.0.0/8")), AD(H("a"), H("8.0.0.0/7")), 1 },
	{ AD(H("a"), H("10.0.0.0/8")), A(H("a")), 1 },
	{ AD(H("a") "," H("10.0.0.0/8"), H("10.1.0.0/16")), A(H("a") "," H("10.0.0.0/8")),
	  0 },
	{ AD(H("8.0.0.0/8"), H("a")), A(H("8.0.0.0/8")), 1 },
	{ AD(H("10.0.0.0/8"), PUBLIC), A(H("10.0.0.0/8")), 1 },
	{ AD(H("0.0.0.0/0"), H("10.0.0.0/8")), A(H("0.0.0.0/0")), 1 },
	{ AD(H("0.0.0.0/0"), H("8.0.0.0/8")), A(H("0.0.0.0/0")), 0 },
	/* Denying public addresses does not deny special ones. */
	{ AD(H("10.0.0.0/8"), H("10.1.0.0/16")), AD(H("10.0.0.0/8"), PUBLIC), 0 },
	{ AD(H("10.0.0.0/8"), H("0.0.0.0/0")), AD(H("10.0.0.0/8"), PUBLIC), 0 },
	{ AD(H("8.0.0.0/8"), H("8.8.0.0/16")), AD(H("8.0.0.0/8"), PUBLIC), 1 },
	{ "{\"limits\":{\"connections\":5}}", "{\"limits\":{\"connections\":5}}", 1 },
	{ "{\"limits\":{\"connections\":5}}", "{\"limits\":{\"connections\":6}}", 0 },
	{ "{\"limits\":{\"connections\":5}}", "{}", 0 },
	{ "{}", "{\"limits\":{\"connections\":5}}", 1 },
};

TEST(containment_matches_the_examples)
{
	for (size_t i = 0; i < ARRAY_SIZE(within_cases); i++) {
		AUTO_POLICY struct policy p = { 0 }, c = { 0 };
		int r;

		read_policy(within_cases[i].parent, &p);
		read_policy(within_cases[i].child, &c);
		err = (struct warren_error)WARREN_ERROR_INIT;
		r = policy_within(&p, &c, &err);
		if (r != within_cases[i].within || (r == 0) != (err.code == EPERM))
			TAP_FAIL("%s, %s: %d %s", within_cases[i].parent,
				 within_cases[i].child, r, err.msg);
	}
}

TEST(intersections_match_the_examples)
{
	static const struct {
		const char *a, *b, *both;
	} cases[] = {
		{ A(H("a")), "{}", "" },
		{ A(H("*.a")), A(H("b.a") "," H("c")), H("b.a") },
		{ A(H("b.a")), A(H("*.a") "," PUBLIC), H("b.a") "," H("b.a") },
		{ A(PUBLIC), A(H("10.0.0.0/8") "," H("8.0.0.0/8")), H("8.0.0.0/8") },
		{ A(H("0.0.0.0/0")), A(H("10.0.0.0/8")), "" },
		{ A(H("10.0.0.0/8")), A(H("10.1.0.0/16") "," H("11.0.0.0/8")),
		  H("10.1.0.0/16") },
		{ A(HX("a", "\"ports\":[\"1-10\",\"20-30\"]")),
		  A(HX("a", "\"ports\":[\"5-25\",40]")),
		  HX("a", "\"ports\":[\"5-10\",\"20-25\"]") },
		{ A(HX("a", "\"ports\":[1]")), A(HX("a", "\"ports\":[2]")), "" },
		{ A(H("a")), A(HX("a", "\"protocols\":[\"tls\"]")),
		  HX("a", "\"protocols\":[\"tls\"]") },
		{ A(HX("a", "\"protocols\":[\"tls\",\"http\"]")),
		  A(HX("a", "\"protocols\":[\"https\"],\"methods\":[\"GET\",\"PUT\"]")),
		  HX("a", "\"protocols\":[\"https\"],\"methods\":[\"GET\",\"PUT\"]") },
		{ A(HX("a", "\"protocols\":[\"http\"],\"paths\":[\"/x*\",\"/y\"]")),
		  A(HX("a", "\"methods\":[\"GET\"],\"paths\":[\"/x/a\",\"/*\",\"/z\"]")),
		  HX("a", "\"protocols\":[\"http\"],\"methods\":[\"GET\"],"
			  "\"paths\":[\"/x/a\",\"/x*\",\"/y\"]") },
		{ A(HX("a", "\"paths\":[\"/x\"]")), A(HX("a", "\"paths\":[\"/y\"]")),
		  "" },
		{ A(HX("a", "\"methods\":[\"GET\"]")),
		  A(HX("a", "\"methods\":[\"PUT\"]")), "" },
		{ A(HX("a", "\"protocols\":[\"http\"]")),
		  A(HX("a", "\"protocols\":[\"tls\"]")), "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_POLICY struct policy a = { 0 }, b = { 0 }, both = { 0 };
		AUTO_FREE char *text = NULL;
		char want[600];

		read_policy(cases[i].a, &a);
		read_policy(cases[i].b, &b);
		EQ(policy_intersect(&a, &b, &both, &err), 0);
		text = policy_text(&both);
		(void)snprintf(want, sizeof(want),
			       "{\"allow\":[%s],\"deny\":[],\"limits\":{}}",
			       cases[i].both);
		STREQ(text, want);
	}
}

TEST(an_intersection_has_all_denials_and_the_smaller_limits)
{
	AUTO_POLICY struct policy a = { 0 }, b = { 0 }, both = { 0 };
	AUTO_FREE char *text = NULL;

	read_policy("{\"deny\":[{\"host\":\"x\"}],\"limits\":{\"connections\":5,"
		    "\"total_bytes\":7}}",
		    &a);
	read_policy("{\"deny\":[{\"host\":\"y\",\"ports\":[1],\"paths\":[\"/\"]}],"
		    "\"limits\":{\"connections\":3,\"bytes_per_second\":9}}",
		    &b);
	EQ(policy_intersect(&a, &b, &both, &err), 0);
	text = policy_text(&both);
	STREQ(text,
	      "{\"allow\":[],\"deny\":[{\"host\":\"x\"},{\"host\":\"y\",\"ports\":[1],"
	      "\"protocols\":[\"http\",\"https\"],\"paths\":[\"/\"]}],"
	      "\"limits\":{\"connections\":3,\"bytes_per_second\":9,\"total_bytes\":7}}");
}

TEST(a_restriction_adds_denials_and_limits_once)
{
	static const char by_text[] =
		"{\"allow\":[{\"host\":\"a\"}],\"deny\":[{\"host\":\"x\"},"
		"{\"host\":\"y\",\"ports\":[1]}],"
		"\"limits\":{\"connections\":5,\"total_bytes\":7}}";
	AUTO_POLICY struct policy p = { 0 }, by = { 0 };

	read_policy("{\"allow\":[{\"host\":\"b\"},{\"host\":\"a\"}],"
		    "\"deny\":[{\"host\":\"y\"},{\"host\":\"x\",\"ports\":[2]}],"
		    "\"limits\":{\"connections\":9,\"bytes_per_second\":3}}",
		    &p);
	read_policy(by_text, &by);
	for (unsigned i = 0; i < 3; i++) {
		AUTO_FREE char *text = NULL;

		EQ(policy_restrict(&p, &by, &err), 0);
		text = policy_text(&p);
		/* What it already denies or limits stays as it is. */
		STREQ(text, "{\"allow\":[{\"host\":\"b\"},{\"host\":\"a\"}],"
			    "\"deny\":[{\"host\":\"y\"},{\"host\":\"x\",\"ports\":[2]},"
			    "{\"host\":\"x\"}],\"limits\":{\"connections\":9,"
			    "\"bytes_per_second\":3,\"total_bytes\":7}}");
	}
	/* It still allows more, and says so. */
	EQ(policy_within(&by, &p, &err), 0);
}

TEST(an_intersection_has_a_maximum_size)
{
	AUTO_POLICY struct policy a = { 0 }, b = { 0 }, both = { 0 };
	struct host h = { .kind = HOST_PUBLIC };
	struct rule *r = NULL;

	for (unsigned i = 0; i < 101; i++) {
		EQ(policy_add(&a, &a.allow, &h, &r, &err), 0);
		EQ(policy_add(&b, &b.allow, &h, &r, &err), 0);
	}
	EQ(policy_intersect(&a, &b, &both, &err), -E2BIG);
	EQ(both.allow.n, 0);
	policy_drop_last(&a.allow);
	policy_drop_last(&b.allow);
	EQ(policy_intersect(&a, &b, &both, &err), 0);
	EQ(both.allow.n, 10000);
}

/* ------------------------------------------------------------------- properties */

static uint64_t seed = 20261117;

static unsigned pick(unsigned n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned)(seed >> 11) % n;
}

/* Hosts and paths that often overlap, and requests on both sides of every boundary. */
static const char *const rule_hosts[] = {
	"a",          "b.a",         "*.a",        "*.b.a",     "c.b.a",
	"*.c",        "8.0.0.0/8",   "8.8.0.0/16", "8.8.8.8",   "0.0.0.0/0",
	"10.0.0.0/8", "10.1.0.0/16", "10.1.1.1",   "0.0.0.0/1", "::/0",
	"2600::/16",  "2600:1::/32", "fc00::/7",   "fd00::/8"
};
static const char *const request_names[] = { "a",   "b.a", "c.b.a", "d.c.b.a",
					     "x.a", "x.c", "c",     "z" };
static const char *const request_addresses[] = { "8.8.8.8",   "8.8.9.9",   "8.9.9.9",
						 "9.9.9.9",   "10.1.1.1",  "10.1.2.2",
						 "10.2.2.2",  "127.0.0.1", "2600:1::1",
						 "2600:2::1", "2a00::1",   "fd00::1",
						 "fc00::1",   "::1" };
static const char *const rule_paths[] = { "/", "/x", "/x*", "/x/y", "/x/*", "/*", "/z" };
static const char *const request_paths[] = { "/",    "/x", "/xx", "/x/y",
					     "/x/z", "/z", "/zz", NULL };
static const char *const request_methods[] = { "GET", "PUT", "PROPFIND" };

#define ANY(list) list[pick(ARRAY_SIZE(list))]

static void random_rule(struct policy *p, struct rules *to)
{
	static const struct host everything = { .kind = HOST_PUBLIC };
	char name[HOST_TEXT_SIZE];
	const char *text = ANY(rule_hosts);
	struct rule *r = NULL;
	struct host h = everything;

	if (pick(8) > 0)
		EQ(host_parse(text, strlen(text), name, &h, &err), 0);
	EQ(policy_add(p, to, &h, &r, &err), 0);
	for (unsigned i = pick(3); i > 0; i--) {
		uint16_t low = (uint16_t)(1 + pick(6));

		EQ(rule_add_ports(r, low, (uint16_t)(low + pick(3)), &err), 0);
	}
	if (pick(4) == 0)
		for (unsigned i = 1 + pick(3); i > 0; i--) {
			const char *path = ANY(rule_paths);

			EQ(rule_add_path(r, path, strlen(path), &err), 0);
		}
	if (pick(4) == 0)
		r->methods = (uint16_t)(rule_method_bit("GET") |
					(pick(2) ? rule_method_bit("PUT") : 0));
	if (rule_is_limited(r))
		r->protocols = (uint8_t)pick(4);
	else if (pick(2))
		r->protocols = (uint8_t)pick(16);
	EQ(rule_finish(r, &err), 0);
}

static void random_policy(struct policy *p)
{
	for (unsigned i = pick(6); i > 0; i--)
		random_rule(p, &p->allow);
	for (unsigned i = pick(3); i > 0; i--)
		random_rule(p, &p->deny);
	p->limits.connections = pick(3);
	p->limits.total_bytes = pick(3);
}

/* Remove a rule that allows, restrict one, or deny something. */
static void random_narrowing(struct policy *p)
{
	if (p->allow.n > 0 && pick(2))
		policy_drop_last(&p->allow);
	if (p->allow.n > 0 && pick(2))
		p->allow.list[0].methods &=
			rule_method_bit("GET") | rule_method_bit("PUT");
	if (p->allow.n > 0 && rule_is_limited(&p->allow.list[0]))
		p->allow.list[0].protocols = RULE_HTTP;
	if (p->allow.n > 0 && !p->allow.list[0].methods)
		p->allow.list[0].methods = RULE_METHODS_ALL;
	if (pick(2))
		random_rule(p, &p->deny);
}

static void random_request(struct request *q, char *name, char *other)
{
	static const uint8_t protocols[] = { RULE_HTTP, RULE_HTTPS, RULE_TLS, RULE_TCP };
	const char *text = ANY(request_names), *address = ANY(request_addresses);

	*q = (struct request){ .port = (uint16_t)(1 + pick(8)),
			       .protocol = ANY(protocols) };
	if (pick(3) == 0)
		text = ANY(request_addresses);
	EQ(host_parse_single(text, strlen(text), name, &q->host, &err), 0);
	EQ(host_parse_single(address, strlen(address), other, &q->address, &err), 0);
	q->has_address = pick(2);
	if (pick(4) > 0) {
		q->method = ANY(request_methods);
		q->path = ANY(request_paths);
	}
}

/*
 * Make the same decision without an index, one rule and one bit at a time.
 * policy_decide() must agree with it.
 */
static bool plain_host(const struct rule *r, const struct host *h, bool deny)
{
	size_t n = strlen(h->name ? h->name : ""), k = strlen(r->name ? r->name : "");
	bool special = h->kind == HOST_NET && address_net_special(&h->net);

	if (r->host.kind == HOST_PUBLIC)
		return !special;
	if (h->kind != HOST_NET)
		return r->name &&
		       (r->name[0] == '.' ? n > k && strcmp(h->name + n - k, r->name) == 0
					  : strcmp(h->name, r->name) == 0);
	if (r->name || address_net_is_v4(&r->host.net) != address_net_is_v4(&h->net))
		return false;
	for (unsigned bit = 0; bit < r->host.net.bits; bit++)
		if ((r->host.net.bytes[bit / 8] ^ h->net.bytes[bit / 8]) >>
			    (7 - bit % 8) &
		    1)
			return false;
	return deny || !special || address_net_special(&r->host.net);
}

static bool plain_protocol(const struct rule *r, uint8_t protocol, bool deny)
{
	/*
	 * The bits are plain HTTP, TLS and other; each entry is the meaning of one
	 * protocol, in the order of their bits.
	 */
	static const uint8_t kinds[] = { 1, 2, 2, 7 };
	uint8_t means = r->protocols ? 0 : 7, is = 0;

	for (unsigned i = 0; i < 4; i++) {
		means |= r->protocols >> i & 1 ? kinds[i] : 0;
		is |= protocol >> i & 1 ? kinds[i] : 0;
	}
	return deny ? (means & is) != 0 : (is & ~means) == 0;
}

static bool plain_rule(const struct rule *r, const struct host *h,
		       const struct request *q, bool deny)
{
	bool seen = q->method && (q->protocol == RULE_HTTP || q->protocol == RULE_HTTPS);
	bool port = r->n_ports == 0, path = !r->paths;
	bool method = r->methods == RULE_METHODS_ALL ||
		      (seen ? (r->methods & rule_method_bit(q->method)) != 0 : deny);

	for (size_t i = 0; i < r->n_ports; i++)
		port |= r->ports[i].low <= q->port && q->port <= r->ports[i].high;
	for (size_t i = 0; r->paths && r->paths[i]; i++) {
		size_t n = strlen(r->paths[i]);

		if (!seen || !q->path)
			path |= deny;
		else if (r->paths[i][n - 1] == '*')
			path |= strncmp(q->path, r->paths[i], n - 1) == 0;
		else
			path |= strcmp(q->path, r->paths[i]) == 0;
	}
	return port && path && method && plain_host(r, h, deny) &&
	       plain_protocol(r, q->protocol, deny);
}

static bool plain_any(const struct rules *rules, const struct host *h,
		      const struct request *q, bool deny)
{
	for (size_t i = 0; i < rules->n; i++)
		if (plain_rule(&rules->list[i], h, q, deny))
			return true;
	return false;
}

static bool plain_allows(const struct policy *p, const struct request *q)
{
	if (plain_any(&p->deny, &q->host, q, true) ||
	    !plain_any(&p->allow, &q->host, q, false))
		return false;
	if (!q->has_address || q->host.kind == HOST_NET)
		return true;
	return !plain_any(&p->deny, &q->address, q, true) &&
	       (!address_net_special(&q->address.net) ||
		plain_any(&p->allow, &q->address, q, false));
}

static bool allows(const struct policy *p, const struct policy_index *x,
		   const struct request *q)
{
	struct decision d;
	struct request early = *q;
	struct decision first;

	policy_decide(x, q, &d);
	if (d.allowed != plain_allows(p, q)) {
		AUTO_FREE char *text = policy_text(p);
		AUTO_BUF struct buf why = BUF_INIT(4096);

		decision_text(q, &d, &why);
		TAP_FAIL("%s\n# %s", text, why.data);
	}
	/* A request that is allowed in the end was not refused while it was opening. */
	early.opening = true;
	early.protocol = 0;
	early.method = NULL;
	policy_decide(x, &early, &first);
	OK(!d.allowed || first.allowed);
	early.port = 0;
	policy_decide(x, &early, &first);
	OK(!d.allowed || first.allowed);
	return d.allowed;
}

struct counts {
	unsigned both, one, within, apart;
};

static void check_pair(const struct policy *a, const struct policy *b,
		       const struct policy *both, int within, struct counts *n)
{
	AUTO_POLICY_INDEX struct policy_index *x = NULL, *y = NULL, *z = NULL;

	EQ(policy_index_new(a, &x, &err), 0);
	EQ(policy_index_new(b, &y, &err), 0);
	EQ(policy_index_new(both, &z, &err), 0);
	for (unsigned i = 0; i < 60; i++) {
		char name[HOST_TEXT_SIZE], other[HOST_TEXT_SIZE];
		struct request q;
		bool in_a, in_b;

		random_request(&q, name, other);
		in_a = allows(a, x, &q);
		in_b = allows(b, y, &q);
		if (allows(both, z, &q) != (in_a && in_b) || (within && in_b && !in_a)) {
			AUTO_FREE char *s = policy_text(a), *t = policy_text(b),
				       *u = policy_text(both);

			host_text(&q.host, name);
			host_text(&q.address, other);
			TAP_FAIL("%s\n# %s\n# %s\n# %s=%s:%u %u %s %s: %d %d, within %d",
				 s, t, u, name, q.has_address ? other : "", q.port,
				 q.protocol, q.method ? q.method : "-",
				 q.path ? q.path : "-", in_a, in_b, within);
		}
		n->both += in_a && in_b;
		n->one += in_a != in_b;
	}
	n->within += within > 0;
	n->apart += within == 0;
}

TEST(random_policies_have_the_promised_properties)
{
	struct counts n = { 0 };

	for (unsigned i = 0; i < 10000; i++) {
		AUTO_POLICY struct policy a = { 0 }, b = { 0 }, both = { 0 };

		random_policy(&a);
		if (i % 2) {
			random_policy(&b);
		} else {
			/* The policy is similar to the first one, so that it is often
			 * within it. */
			for (size_t k = 0; k < a.allow.n; k++)
				EQ(policy_add_copy(&b, &b.allow, &a.allow.list[k], &err),
				   0);
			for (size_t k = 0; k < a.deny.n; k++)
				if (pick(4) > 0)
					EQ(policy_add_copy(&b, &b.deny, &a.deny.list[k],
							   &err),
					   0);
			b.limits = a.limits;
			random_narrowing(&b);
		}
		EQ(policy_intersect(&a, &b, &both, &err), 0);
		if (policy_within(&a, &both, &err) != 1 ||
		    policy_within(&b, &both, &err) != 1) {
			AUTO_FREE char *s = policy_text(&a), *t = policy_text(&b);

			TAP_FAIL("%s\n# %s\n# %s", s, t, err.msg);
		}
		EQ(policy_within(&a, &a, &err), 1);
		check_pair(&a, &b, &both, policy_within(&a, &b, &err), &n);
	}
	(void)printf("# allowed by both %u, by one %u; within %u, not %u\n", n.both,
		     n.one, n.within, n.apart);
	/* The random policies produce all cases. */
	OK(n.both > 1000 && n.one > 1000 && n.within > 1000 && n.apart > 1000);
}

TEST_MAIN()
