/* SPDX-License-Identifier: Apache-2.0 */
/* capability.c - the table of built-in capabilities, and the options that become rules */
#include "network/capability.h"

#include <errno.h>
#include <string.h>

#define HTTPS_ONLY { 443 }, RULE_HTTPS
#define HTTP_TOO   { 80, 443 }, RULE_HTTP | RULE_HTTPS
#define SSH        { 22 }, RULE_TCP

static const struct capability_rule packages[] = {
	/* pip */
	{ "pypi.org", HTTPS_ONLY },
	{ "files.pythonhosted.org", HTTPS_ONLY },
	/* npm, yarn */
	{ "registry.npmjs.org", HTTPS_ONLY },
	{ "registry.yarnpkg.com", HTTPS_ONLY },
	/* cargo */
	{ "crates.io", HTTPS_ONLY },
	{ "index.crates.io", HTTPS_ONLY },
	{ "static.crates.io", HTTPS_ONLY },
	/* go */
	{ "proxy.golang.org", HTTPS_ONLY },
	{ "sum.golang.org", HTTPS_ONLY },
	/* apt, which verifies signatures and uses plain HTTP by default */
	{ "deb.debian.org", HTTP_TOO },
	{ "security.debian.org", HTTP_TOO },
	{ "archive.ubuntu.com", HTTP_TOO },
	{ "*.archive.ubuntu.com", HTTP_TOO },
	{ "security.ubuntu.com", HTTP_TOO },
	{ "ports.ubuntu.com", HTTP_TOO },
	/* maven */
	{ "repo.maven.apache.org", HTTPS_ONLY },
	{ "repo1.maven.org", HTTPS_ONLY },
	/* gem */
	{ "rubygems.org", HTTPS_ONLY },
	{ "index.rubygems.org", HTTPS_ONLY },
};

static const struct capability_rule git[] = {
	{ "github.com", HTTPS_ONLY },
	{ "github.com", SSH },
	{ "ssh.github.com", { 443 }, RULE_TCP },
	{ "codeload.github.com", HTTPS_ONLY },
	{ "github-cloud.githubusercontent.com", HTTPS_ONLY },
	{ "objects.githubusercontent.com", HTTPS_ONLY },
	{ "gitlab.com", HTTPS_ONLY },
	{ "gitlab.com", SSH },
	{ "altssh.gitlab.com", { 443 }, RULE_TCP },
	{ "bitbucket.org", HTTPS_ONLY },
	{ "bitbucket.org", SSH },
	{ "altssh.bitbucket.org", { 443 }, RULE_TCP },
	{ "codeberg.org", HTTPS_ONLY },
	{ "codeberg.org", SSH },
};

static const struct capability_rule web[] = {
	{ NULL, { 0 }, RULE_HTTP | RULE_HTTPS },
};

const struct capability capabilities[] = {
	{ "none", "no network", NULL, 0 },
	{ "packages", "the registries of pip, npm, cargo, go, apt, maven and gem",
	  packages, ARRAY_SIZE(packages) },
	{ "git", "git over https and ssh at the large public hosts", git,
	  ARRAY_SIZE(git) },
	{ "web", "http and https to every public host", web, ARRAY_SIZE(web) },
};
const size_t n_capabilities = ARRAY_SIZE(capabilities);

static int capability_add_rule(struct policy *p, const struct capability_rule *row,
			       struct warren_error *err)
{
	struct host h = { .kind = HOST_PUBLIC };
	char name[HOST_TEXT_SIZE];
	struct rule *rule = NULL;
	int r = row->host ? host_parse(row->host, strlen(row->host), name, &h, err) : 0;

	if (r < 0)
		return r;
	r = policy_add(p, &p->allow, &h, &rule, err);
	if (r < 0)
		return r;
	rule->protocols = row->protocols;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(row->ports); i++)
		if (row->ports[i])
			r = rule_add_ports(rule, row->ports[i], row->ports[i], err);
	return r;
}

static int capability_add_policy(struct policy *p, const struct policy *from,
				 struct warren_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < from->allow.n; i++)
		r = policy_add_copy(p, &p->allow, &from->allow.list[i], err);
	for (size_t i = 0; r == 0 && i < from->deny.n; i++)
		r = policy_add_copy(p, &p->deny, &from->deny.list[i], err);
	return r;
}

static bool capability_is(const char *name, const char *word, size_t n)
{
	return strlen(name) == n && memcmp(name, word, n) == 0;
}

static int capability_unknown(const struct capability_table *more, const char *word,
			      size_t n, struct warren_error *err)
{
	AUTO_BUF struct buf known = BUF_INIT(1024);

	for (size_t i = 0; i < n_capabilities; i++)
		buf_printf(&known, "%s%s", i ? ", " : "", capabilities[i].name);
	for (size_t i = 0; more && i < more->n; i++)
		buf_printf(&known, ", %s", more->rows[i].name);
	return error_set(err, EINVAL, "'%.*s' is not a network capability; known: %.300s",
			 (int)(n < 64 ? n : 64), word, known.data ? known.data : "");
}

static int capability_add(struct policy *p, const struct capability_table *more,
			  const char *word, size_t n, struct warren_error *err)
{
	int r = 0;

	for (size_t i = 0; more && i < more->n; i++)
		if (capability_is(more->rows[i].name, word, n))
			return capability_add_policy(p, more->rows[i].policy, err);
	for (size_t i = 0; i < n_capabilities; i++) {
		if (!capability_is(capabilities[i].name, word, n))
			continue;
		for (size_t k = 0; r == 0 && k < capabilities[i].n_rules; k++)
			r = capability_add_rule(p, &capabilities[i].rules[k], err);
		return r;
	}
	return capability_unknown(more, word, n, err);
}

int policy_option_network(struct policy *p, const struct capability_table *more,
			  const char *list, struct warren_error *err)
{
	bool several = strchr(list, ',') != NULL;
	int r;

	for (const char *word = list;; word++) {
		size_t n = strcspn(word, ",");

		if (several && capability_is("none", word, n))
			return error_set(err, EINVAL,
					 "'none' cannot be combined with other network "
					 "capabilities");
		r = capability_add(p, more, word, n, err);
		word += n;
		if (r < 0 || !*word)
			return r;
	}
}

static int capability_add_host(struct policy *p, struct rules *to, const char *text,
			       struct warren_error *err)
{
	char name[HOST_TEXT_SIZE];
	struct rule *rule = NULL;
	uint16_t port = 0;
	struct host h;
	int r;

	if (strstr(text, "://"))
		r = error_set(err, EINVAL, "is a URL: give only its host");
	else if (strcmp(text, "*") == 0)
		r = error_set(err, EINVAL,
			      "is every host: use --network web for public websites");
	else
		r = host_parse_port(text, strlen(text), name, &h, &port, err);
	if (r < 0)
		return error_wrap(err, "'%.80s'", text);
	r = policy_add(p, to, &h, &rule, err);
	if (r < 0 || port == 0)
		return r;
	r = rule_add_ports(rule, port, port, err);
	if (r < 0)
		policy_drop_last(to);
	return r;
}

int policy_option_allow(struct policy *p, const char *text, struct warren_error *err)
{
	return capability_add_host(p, &p->allow, text, err);
}

int policy_option_deny(struct policy *p, const char *text, struct warren_error *err)
{
	return capability_add_host(p, &p->deny, text, err);
}
