/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network.c - the section `network`: what policies of sandboxes may allow
 *
 *	network:
 *	  permit: { allow: [{ public: true }, { host: 10.1.0.0/16 }] }
 *	  capabilities:
 *	    mirror: { allow: [{ host: mirror.example.com, ports: [443] }] }
 *	  dns_servers: 192.0.2.53
 *	  lookups_per_second: 200
 *
 * The API checks these policies, because it also reads the policies of requests.
 */
#include <errno.h>
#include <string.h>

#include "config/config_internal.h"
#include "config/yaml.h"

#define NETWORK_NUMBER_MAX 1000000

static bool network_is_text(const json_t *value)
{
	return json_is_string(value);
}

static bool network_is_mapping(const json_t *value)
{
	return json_is_object(value);
}

static bool network_is_number(const json_t *value)
{
	return json_is_integer(value) && json_integer_value(value) >= 1 &&
	       json_integer_value(value) <= NETWORK_NUMBER_MAX;
}

static const struct network_kind {
	bool (*is_valid)(const json_t *value);
	const char *what;
} network_text = { network_is_text, "text" },
  network_mapping = { network_is_mapping, "a mapping" },
  network_count = { network_is_number, "a number from 1 to 1000000" };

static const struct {
	const char *name;
	const struct network_kind *kind;
} network_keys[] = {
	{ "permit", &network_mapping },           { "capabilities", &network_mapping },
	{ "dns_servers", &network_text },         { "ca_file", &network_text },
	{ "lookups_per_second", &network_count },
};

static const struct network_kind *network_kind_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(network_keys); i++)
		if (strcmp(name, network_keys[i].name) == 0)
			return network_keys[i].kind;
	return NULL;
}

int config_read_network(struct config *c, const struct yaml *y, const json_t *in,
			struct warren_error *err)
{
	json_t *all = json_object_get(in, "network"), *value;
	const char *name;

	if (json_is_null(all))
		return 0;
	if (!json_is_object(all))
		return yaml_error(y, in, "network", 0, err, "network: must be a mapping");
	json_object_foreach(all, name, value)
	{
		const struct network_kind *kind = network_kind_of(name);

		if (!kind)
			return yaml_error(y, all, name, 0, err,
					  "network: there is no key '%.60s'; available: "
					  "permit, capabilities, dns_servers, ca_file, "
					  "lookups_per_second",
					  name);
		if (!kind->is_valid(value))
			return yaml_error(y, all, name, 0, err, "network.%s: must be %s",
					  name, kind->what);
	}
	json_decref(c->network);
	c->network = json_deep_copy(all);
	return c->network ? 0 : error_errno(err, ENOMEM, "read the section 'network'");
}

void config_network_clear(struct config *c)
{
	json_decref(c->network);
	c->network = NULL;
}

const char *config_network_text(const struct config *c, const char *name)
{
	return json_string_value(json_object_get(c->network, name));
}

uint64_t config_network_number(const struct config *c, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(c->network, name));
}

void config_show_network(const struct config *c, struct buf *out)
{
	char *text = c->network ? json_dumps(c->network, JSON_COMPACT) : NULL;

	if (text)
		buf_printf(out, "network: %s\n", text);
	free(text);
}

void config_example_network(struct buf *out)
{
	buf_puts(
		out,
		"\n"
		"# The network of sandboxes. A policy of a sandbox must not allow more than 'permit';\n"
		"# the default is every public address, on every port. Addresses that are not public\n"
		"# must be listed here. What 'permit' denies, and its limits, are added to every policy.\n"
		"# 'capabilities' are named policies, next to the built-in\n"
		"# packages, git, web and none. 'dns_servers' are used instead of the machine's. Servers\n"
		"# whose TLS is terminated, to add headers, may also have certificates from 'ca_file'.\n"
		"# 'lookups_per_second' is how many names a sandbox may have resolved in a second.\n"
		"network:\n"
		"  #permit: { allow: [{ public: true }, { host: 10.1.0.0/16 }] }\n"
		"  #capabilities:\n"
		"  #  mirror: { allow: [{ host: mirror.example.com, ports: [443] }] }\n"
		"  #dns_servers: '192.0.2.53'\n"
		"  #ca_file: /etc/warren/authorities.pem\n"
		"  #lookups_per_second: 200\n");
}

void config_manual_network(struct buf *out)
{
	buf_puts(
		out,
		".Ss Network\n"
		"The section\n"
		".Cm network\n"
		"restricts the network policies of sandboxes.\n"
		"A policy has the fields\n"
		".Cm allow\n"
		"and\n"
		".Cm deny ,\n"
		"which are lists of rules;\n"
		"the description of the API,\n"
		".Pa /docs ,\n"
		"lists the fields of a rule.\n"
		".Bl -tag -width Ds\n"
		".It Cm permit\n"
		"A policy.\n"
		"The policy of a sandbox must not allow more than this.\n"
		"What it denies, and its limits, are added to every policy.\n"
		"The default allows every public address, on every port.\n"
		"Loopback, link-local, private and metadata addresses must be listed here before a\n"
		"sandbox can use them.\n"
		"Public addresses of this machine itself are public; deny them here if sandboxes must\n"
		"not reach its services.\n"
		".It Cm capabilities\n"
		"Named policies, which requests can use by name, like the built-in\n"
		".Cm packages ,\n"
		".Cm git ,\n"
		".Cm web\n"
		"and\n"
		".Cm none .\n"
		".It Cm dns_servers\n"
		"The DNS servers that resolve names for sandboxes, separated by commas.\n"
		"By default, the DNS servers of this machine are used.\n"
		".It Cm ca_file\n"
		"A file with certificates of authorities, in addition to those of this machine.\n"
		"Servers whose TLS is terminated, so that headers can be added to requests, must have a\n"
		"certificate from one of them.\n"
		".It Cm lookups_per_second\n"
		"How many names each sandbox may have resolved in a second, after a burst of five\n"
		"times this number; from 1 to 1000000, by default 200.\n"
		"Connections to more names wait, and more DNS queries fail with SERVFAIL.\n"
		"The policy of a sandbox can lower this with its limit\n"
		".Cm lookups_per_second .\n"
		".El\n"
		".Bd -literal -offset indent\n"
		"network:\n"
		"  permit: { allow: [{ public: true }, { host: 10.1.0.0/16 }] }\n"
		"  capabilities:\n"
		"    mirror: { allow: [{ host: mirror.example.com, ports: [443] }] }\n"
		".Ed\n");
}
