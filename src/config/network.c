/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network.c - the section `network`: what policies of sandboxes may allow
 *
 *	network:
 *	  permit: { allow: [{ public: true }, { host: 10.1.0.0/16 }] }
 *	  capabilities:
 *	    mirror: { allow: [{ host: mirror.example.com, ports: [443] }] }
 *	  dns_servers: 192.0.2.53
 *
 * The API checks these policies, because it also reads the policies of requests.
 */
#include <errno.h>
#include <string.h>

#include "config/config_internal.h"
#include "config/yaml.h"

/* These keys have a text as their value; the others have mappings. */
static const char *const texts[] = { "dns_servers", "ca_file" };
static const char *const mappings[] = { "permit", "capabilities" };

static bool network_lists(const char *const *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(name, list[i]) == 0)
			return true;
	return false;
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
		bool text = network_lists(texts, ARRAY_SIZE(texts), name);

		if (!text && !network_lists(mappings, ARRAY_SIZE(mappings), name))
			return yaml_error(y, all, name, 0, err,
					  "network: there is no key '%.60s'; available: "
					  "permit, capabilities, dns_servers, ca_file",
					  name);
		if (text ? !json_is_string(value) : !json_is_object(value))
			return yaml_error(y, all, name, 0, err, "network.%s: must be %s",
					  name, text ? "text" : "a mapping");
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
		"# must be listed here. 'capabilities' are named policies, next to the built-in\n"
		"# packages, git, web and none. 'dns_servers' are used instead of the machine's. Servers\n"
		"# whose TLS is terminated, to add headers, may also have certificates from 'ca_file'.\n"
		"network:\n"
		"  #permit: { allow: [{ public: true }, { host: 10.1.0.0/16 }] }\n"
		"  #capabilities:\n"
		"  #  mirror: { allow: [{ host: mirror.example.com, ports: [443] }] }\n"
		"  #dns_servers: '192.0.2.53'\n"
		"  #ca_file: /etc/warren/authorities.pem\n");
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
		"The default allows every public address, on every port.\n"
		"Loopback, link-local, private and metadata addresses must be listed here before a\n"
		"sandbox can use them.\n"
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
		".El\n"
		".Bd -literal -offset indent\n"
		"network:\n"
		"  permit: { allow: [{ public: true }, { host: 10.1.0.0/16 }] }\n"
		"  capabilities:\n"
		"    mirror: { allow: [{ host: mirror.example.com, ports: [443] }] }\n"
		".Ed\n");
}
