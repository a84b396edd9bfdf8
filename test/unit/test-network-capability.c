/* SPDX-License-Identifier: Apache-2.0 */
/* test-network-capability.c - options and capabilities become rules, or are refused */
#include <errno.h>

#include "lib/tap.h"
#include "network/capability.h"
#include "network/decide.h"

static struct warren_error err;

static bool allowed(const struct policy *p, const char *host, unsigned port,
		    unsigned protocol)
{
	AUTO_POLICY_INDEX struct policy_index *x = NULL;
	char name[HOST_TEXT_SIZE];
	struct request q = { .port = (uint16_t)port, .protocol = (uint8_t)protocol };
	struct decision d;

	EQ(policy_index_new(p, &x, &err), 0);
	EQ(host_parse_single(host, strlen(host), name, &q.host, &err), 0);
	policy_decide(x, &q, &d);
	return d.allowed;
}

static void text_of(const struct policy *p, struct buf *out)
{
	struct json j = { .out = out };

	policy_write(p, &j, NULL);
}

TEST(built_in_capabilities_allow_what_they_list)
{
	static const struct {
		const char *names, *host;
		unsigned port, protocol;
		bool allowed;
	} cases[] = {
		{ "none", "pypi.org", 443, RULE_TLS, false },
		{ "packages", "pypi.org", 443, RULE_TLS, true },
		{ "packages", "pypi.org", 80, RULE_HTTP, false },
		{ "packages", "pypi.org", 22, RULE_TCP, false },
		{ "packages", "files.pythonhosted.org", 443, RULE_TLS, true },
		{ "packages", "registry.npmjs.org", 443, RULE_TLS, true },
		{ "packages", "static.crates.io", 443, RULE_TLS, true },
		{ "packages", "proxy.golang.org", 443, RULE_TLS, true },
		{ "packages", "deb.debian.org", 80, RULE_HTTP, true },
		{ "packages", "de.archive.ubuntu.com", 80, RULE_HTTP, true },
		{ "packages", "repo.maven.apache.org", 443, RULE_TLS, true },
		{ "packages", "rubygems.org", 443, RULE_TLS, true },
		{ "packages", "github.com", 443, RULE_TLS, false },
		{ "git", "github.com", 443, RULE_TLS, true },
		{ "git", "github.com", 22, RULE_TCP, true },
		{ "git", "github.com", 80, RULE_HTTP, false },
		{ "git", "ssh.github.com", 443, RULE_TCP, true },
		{ "git", "pypi.org", 443, RULE_TLS, false },
		{ "packages,git", "pypi.org", 443, RULE_TLS, true },
		{ "packages,git", "gitlab.com", 443, RULE_TLS, true },
		{ "web", "any.example", 8080, RULE_HTTP, true },
		{ "web", "any.example", 443, RULE_TLS, true },
		{ "web", "any.example", 22, RULE_TCP, false },
		{ "web", "8.8.8.8", 443, RULE_TLS, true },
		{ "web", "127.0.0.1", 80, RULE_HTTP, false },
		{ "web", "169.254.169.254", 80, RULE_HTTP, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_POLICY struct policy p = { 0 };

		EQ(policy_option_network(&p, NULL, cases[i].names, &err), 0);
		if (allowed(&p, cases[i].host, cases[i].port, cases[i].protocol) !=
		    cases[i].allowed)
			TAP_FAIL("%s: %s:%u", cases[i].names, cases[i].host,
				 cases[i].port);
	}
}

TEST(each_capability_is_valid_and_described)
{
	for (size_t i = 0; i < n_capabilities; i++) {
		AUTO_POLICY struct policy p = { 0 };

		OK(capabilities[i].help[0]);
		if (policy_option_network(&p, NULL, capabilities[i].name, &err) < 0)
			TAP_FAIL("%s: %s", capabilities[i].name, err.msg);
		EQ(p.allow.n, capabilities[i].n_rules);
		EQ(p.deny.n, 0);
	}
}

TEST(unknown_capabilities_are_refused)
{
	static const struct {
		const char *list, *why;
	} cases[] = {
		{ "",
		  "'' is not a network capability; known: none, packages, git, web, mine" },
		{ "all", "'all' is not a network capability" },
		{ "Packages", "'Packages' is not" },
		{ "packages,", "'' is not" },
		{ ",packages", "'' is not" },
		{ "packages, git", "' git' is not" },
		{ "none,packages", "'none' cannot be combined" },
		{ "packages,none", "'none' cannot be combined" },
	};
	static const struct policy empty = { 0 };
	const struct capability_row row = { "mine", &empty };
	const struct capability_table more = { &row, 1 };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_POLICY struct policy p = { 0 };

		EQ(policy_option_network(&p, &more, cases[i].list, &err), -EINVAL);
		if (strncmp(err.msg, cases[i].why, strlen(cases[i].why)) != 0)
			TAP_FAIL("'%s': %s", cases[i].list, err.msg);
	}
}

TEST(a_configuration_adds_and_replaces_capabilities)
{
	AUTO_POLICY struct policy mine = { 0 }, p = { 0 };
	AUTO_BUF struct buf text = BUF_INIT(4096);
	const struct capability_row rows[] = { { "mine", &mine }, { "git", &mine } };
	const struct capability_table more = { rows, 2 };

	EQ(policy_option_allow(&mine, "git.example:443", &err), 0);
	EQ(policy_option_deny(&mine, "*.bad", &err), 0);
	EQ(policy_option_network(&p, &more, "git,mine", &err), 0);
	text_of(&p, &text);
	STREQ(text.data,
	      "{\"allow\":[{\"host\":\"git.example\",\"ports\":[443]},"
	      "{\"host\":\"git.example\",\"ports\":[443]}],"
	      "\"deny\":[{\"host\":\"*.bad\"},{\"host\":\"*.bad\"}],\"limits\":{}}");
}

TEST(options_become_rules)
{
	static const struct {
		const char *text, *rule; /* the expected rule, or the expected error */
	} cases[] = {
		{ "pypi.org", "{\"host\":\"pypi.org\"}" },
		{ "PyPI.org:443", "{\"host\":\"pypi.org\",\"ports\":[443]}" },
		{ "*.example.com:8080", "{\"host\":\"*.example.com\",\"ports\":[8080]}" },
		{ "10.0.0.1", "{\"host\":\"10.0.0.1\"}" },
		{ "10.0.0.0/8:5432", "{\"host\":\"10.0.0.0/8\",\"ports\":[5432]}" },
		{ "2001:db8::1", "{\"host\":\"2001:db8::1\"}" },
		{ "[2001:db8::1]", "{\"host\":\"2001:db8::1\"}" },
		{ "[2001:db8::1]:22", "{\"host\":\"2001:db8::1\",\"ports\":[22]}" },
		{ "[2001:db8::/32]:22", "{\"host\":\"2001:db8::/32\",\"ports\":[22]}" },
		{ "", "'': must not be empty" },
		{ "*", "'*': is every host" },
		{ ":443", "':443': must not be empty" },
		{ "a:", "'a:': '' is not a port from 1 to 65535" },
		{ "a:0", "'a:0': '0' is not a port" },
		{ "https://a.com/x", "'https://a.com/x': is a URL: give only its host" },
		{ "a:080", "'a:080': '080' is not a port" },
		{ "a:65536", "'a:65536': '65536' is not a port" },
		{ "a:-1", "'a:-1': '-1' is not a port" },
		{ "a:99999999999999999999",
		  "'a:99999999999999999999': '99999999999999999999' is" },
		{ "a:1:2", "'a:1:2': 'a:1:2' is not an IPv6 address" },
		{ "[a]:1", "'[a]:1': only an IPv6 address is in brackets" },
		{ "[::1", "'[::1': must be an address in brackets" },
		{ "[::1]1", "'[::1]1': must be an address in brackets" },
		{ "[::1]:", "'[::1]:': '' is not a port" },
		{ "user@a:1", "'user@a:1': must not contain a user" },
		{ "http://a", "'http://a': " },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_POLICY struct policy p = { 0 };
		AUTO_BUF struct buf text = BUF_INIT(4096);
		struct json j = { .out = &text };
		int r = policy_option_allow(&p, cases[i].text, &err);

		EQ(policy_option_deny(&p, cases[i].text, &err), r);
		EQ(p.allow.n, p.deny.n);
		if (cases[i].rule[0] != '{') {
			EQ(r, -EINVAL);
			EQ(p.allow.n, 0);
			if (strncmp(err.msg, cases[i].rule, strlen(cases[i].rule)) != 0)
				TAP_FAIL("%s: %s", cases[i].text, err.msg);
			continue;
		}
		if (r < 0)
			TAP_FAIL("%s: %s", cases[i].text, err.msg);
		rule_write(&p.deny.list[0], &j, NULL);
		STREQ(text.data, cases[i].rule);
	}
}

TEST_MAIN()
