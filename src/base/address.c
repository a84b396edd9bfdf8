/* SPDX-License-Identifier: Apache-2.0 */
/*
 * address.c - distinguish public addresses from those that only this machine or its
 * network should reach
 */
#include "base/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>

#include "base/macro.h"

/* Blocks of IPv4 are mapped into IPv6, like all addresses in this file. */
#define V4(a, b, c, d, n)                                           \
	{                                                           \
		{ [10] = 0xff, 0xff, (a), (b), (c), (d) }, 96 + (n) \
	}
#define V6(n, ...)                   \
	{                            \
		{ __VA_ARGS__ }, (n) \
	}

/*
 * Blocks that the registry of special-purpose addresses (RFC 6890) does not list as
 * globally reachable, and metadata servers of clouds. An address is named after the first
 * block that contains it.
 */
static const struct {
	struct address_net net;
	const char *name;
} specials[] = {
	{ V4(0, 0, 0, 0, 32), "unspecified" },
	{ V4(0, 0, 0, 0, 8), "this network" },
	{ V4(10, 0, 0, 0, 8), "private" },
	{ V4(100, 100, 100, 200, 32), "metadata" },
	{ V4(100, 64, 0, 0, 10), "shared (carrier-grade NAT)" },
	{ V4(127, 0, 0, 0, 8), "loopback" },
	{ V4(168, 63, 129, 16, 32), "metadata" }, /* a public address */
	{ V4(169, 254, 169, 254, 32), "metadata" },
	{ V4(169, 254, 0, 0, 16), "link-local" },
	{ V4(172, 16, 0, 0, 12), "private" },
	{ V4(192, 0, 0, 192, 32), "metadata" },
	{ V4(192, 0, 0, 0, 24), "protocol assignments" },
	{ V4(192, 0, 2, 0, 24), "documentation" },
	{ V4(192, 31, 196, 0, 24), "AS112" },
	{ V4(192, 52, 193, 0, 24), "AMT" },
	{ V4(192, 88, 99, 0, 24), "6to4 relays" },
	{ V4(192, 168, 0, 0, 16), "private" },
	{ V4(192, 175, 48, 0, 24), "AS112" },
	{ V4(198, 18, 0, 0, 15), "benchmarks" },
	{ V4(198, 51, 100, 0, 24), "documentation" },
	{ V4(203, 0, 113, 0, 24), "documentation" },
	{ V4(224, 0, 0, 0, 4), "multicast" },
	{ V4(255, 255, 255, 255, 32), "broadcast" },
	{ V4(240, 0, 0, 0, 4), "reserved" },

	{ V6(32, 0x20, 0x01, 0x00, 0x00), "Teredo" },
	{ V6(23, 0x20, 0x01, 0x00), "protocol assignments" },
	{ V6(32, 0x20, 0x01, 0x0d, 0xb8), "documentation" },
	{ V6(16, 0x20, 0x02), "6to4" },
	{ V6(48, 0x26, 0x20, 0x00, 0x4f, 0x80), "AS112" },
	{ V6(16, 0x3f, 0xfe), "6bone" },
	{ V6(20, 0x3f, 0xff, 0x00), "documentation" },
	/* Only 2000::/3 is global unicast: all other addresses are special. */
	{ V6(128, 0), "unspecified" },
	{ V6(128, [15] = 1), "loopback" },
	{ V6(48, 0x00, 0x64, 0xff, 0x9b, 0x00, 0x01), "NAT64" },
	{ V6(3, 0x00), "reserved" },
	{ V6(2, 0x40), "reserved" },
	{ V6(128, 0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, 0x54), "metadata" },
	{ V6(7, 0xfc), "private" },
	{ V6(10, 0xfe, 0x80), "link-local" },
	{ V6(10, 0xfe, 0xc0), "private" },
	{ V6(8, 0xff), "multicast" },
	{ V6(1, 0x80), "reserved" },
};

#undef V4
#undef V6

static const uint8_t mapped_prefix[12] = { [10] = 0xff, [11] = 0xff };

bool address_net_is_v4(const struct address_net *n)
{
	return n->bits >= 96 && memcmp(n->bytes, mapped_prefix, 12) == 0;
}

bool address_net_has(const struct address_net *net, const struct address_net *inner)
{
	unsigned bytes = net->bits / 8, rest = net->bits % 8;

	return net->bits <= inner->bits && memcmp(inner->bytes, net->bytes, bytes) == 0 &&
	       (rest == 0 ||
		(inner->bytes[bytes] ^ net->bytes[bytes]) >> (8 - rest) == 0) &&
	       address_net_is_v4(net) == address_net_is_v4(inner);
}

const char *address_net_special(const struct address_net *net)
{
	for (size_t i = 0; i < ARRAY_SIZE(specials); i++)
		if (address_net_has(&specials[i].net, net))
			return specials[i].name;
	return NULL;
}

/* Does the address map or translate an IPv4 address in its last four bytes? */
static bool address_embeds4(const uint8_t *a)
{
	static const uint8_t nat64[12] = { 0x00, 0x64, 0xff, 0x9b };

	return memcmp(a, mapped_prefix, 12) == 0 || memcmp(a, nat64, 12) == 0;
}

void address_net_widen(int family, const void *bytes, unsigned bits,
		       struct address_net *ret)
{
	*ret = (struct address_net){ .bits = (uint8_t)(family == AF_INET ? 96 + bits
									 : bits) };
	if (family == AF_INET)
		(void)memcpy(ret->bytes + 12, bytes, 4);
	else
		(void)memcpy(ret->bytes, bytes, 16);
	if (family == AF_INET || (bits >= 96 && address_embeds4(ret->bytes)))
		(void)memcpy(ret->bytes, mapped_prefix, 12);
}

bool address_widen(const struct sockaddr *a, struct address_net *ret)
{
	struct sockaddr_in in;
	struct sockaddr_in6 in6;

	if (a->sa_family == AF_INET) {
		(void)memcpy(&in, a, sizeof(in));
		address_net_widen(AF_INET, &in.sin_addr, 32, ret);
	} else if (a->sa_family == AF_INET6) {
		(void)memcpy(&in6, a, sizeof(in6));
		address_net_widen(AF_INET6, &in6.sin6_addr, 128, ret);
	} else {
		return false;
	}
	return true;
}

bool address_is_public(const struct sockaddr *a)
{
	struct address_net net;

	return address_widen(a, &net) && !address_net_special(&net);
}

bool address_is_own(const struct sockaddr *a)
{
	struct ifaddrs *all = NULL;
	struct address_net wanted, one;
	bool found = false;

	if (!address_widen(a, &wanted) || getifaddrs(&all) < 0)
		return true;
	for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next)
		found = i->ifa_addr && address_widen(i->ifa_addr, &one) &&
			memcmp(&one, &wanted, sizeof(one)) == 0;
	freeifaddrs(all);
	return found;
}

bool address_parse(const char *host, struct sockaddr_storage *ret)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	char text[INET6_ADDRSTRLEN + IF_NAMESIZE + 3];
	size_t n = strlen(host);

	if (n == 0 || n >= sizeof(text))
		return false;
	(void)memcpy(text, host, n + 1);
	if (text[0] == '[' && text[n - 1] == ']') {
		text[n - 1] = '\0';
		(void)memmove(text, text + 1, n - 1);
	}
	text[strcspn(text, "%")] = '\0';
	*ret = (struct sockaddr_storage){ 0 };
	if (inet_pton(AF_INET6, text, &in6.sin6_addr) == 1) {
		(void)memcpy(ret, &in6, sizeof(in6));
		return true;
	}
	n = strlen(text);
	if (n > 0 && text[n - 1] == '.') /* the dot ends a complete name */
		text[n - 1] = '\0';
	/* inet_aton(3) ignores text after whitespace, which a host must not contain. */
	if (strpbrk(text, " \t\n\v\f\r") || inet_aton(text, &in.sin_addr) == 0)
		return false;
	(void)memcpy(ret, &in, sizeof(in));
	return true;
}
