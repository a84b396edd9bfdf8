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

#define V4(a, b, c, d) \
	((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))

/*
 * What the registry of special-purpose addresses (RFC 6890) does not call globally
 * reachable.
 */
static const struct {
	uint32_t net;
	unsigned bits;
} special4[] = {
	{ V4(0, 0, 0, 0), 8 },        /* this host */
	{ V4(10, 0, 0, 0), 8 },       /* private */
	{ V4(100, 64, 0, 0), 10 },    /* shared: carrier-grade NAT, a cloud's metadata */
	{ V4(127, 0, 0, 0), 8 },      /* loopback */
	{ V4(168, 63, 129, 16), 32 }, /* a cloud's metadata, at a public address */
	{ V4(169, 254, 0, 0), 16 },   /* link-local: metadata of most clouds */
	{ V4(172, 16, 0, 0), 12 },    /* private */
	{ V4(192, 0, 0, 0), 24 },     /* protocol assignments, metadata */
	{ V4(192, 0, 2, 0), 24 },     /* documentation */
	{ V4(192, 31, 196, 0), 24 },  /* AS112 */
	{ V4(192, 52, 193, 0), 24 },  /* AMT */
	{ V4(192, 88, 99, 0), 24 },   /* 6to4 relays */
	{ V4(192, 168, 0, 0), 16 },   /* private */
	{ V4(192, 175, 48, 0), 24 },  /* AS112 */
	{ V4(198, 18, 0, 0), 15 },    /* benchmarks */
	{ V4(198, 51, 100, 0), 24 },  /* documentation */
	{ V4(203, 0, 113, 0), 24 },   /* documentation */
	{ V4(224, 0, 0, 0), 4 },      /* multicast */
	{ V4(240, 0, 0, 0), 4 },      /* reserved, broadcast */
};

/* Of 2000::/3, which alone is global unicast, what is not. */
static const struct {
	uint8_t net[6];
	unsigned bits;
} special6[] = {
	{ { 0x20, 0x01, 0x00 }, 23 },       /* protocol assignments, Teredo, ORCHID */
	{ { 0x20, 0x01, 0x0d, 0xb8 }, 32 }, /* documentation */
	{ { 0x20, 0x02 }, 16 },             /* 6to4 */
	{ { 0x26, 0x20, 0x00, 0x4f, 0x80 }, 48 }, /* AS112 */
	{ { 0x3f, 0xfe }, 16 },                   /* 6bone */
	{ { 0x3f, 0xff, 0x00 }, 20 },             /* documentation */
};

static bool address_public4(uint32_t a)
{
	for (size_t i = 0; i < ARRAY_SIZE(special4); i++)
		if ((a ^ special4[i].net) >> (32 - special4[i].bits) == 0)
			return false;
	return true;
}

static bool address_begins_with(const uint8_t *a, const uint8_t *net, unsigned bits)
{
	unsigned bytes = bits / 8, rest = bits % 8;

	return memcmp(a, net, bytes) == 0 &&
	       (rest == 0 || (a[bytes] ^ net[bytes]) >> (8 - rest) == 0);
}

/* The address of version 4 in the last four bytes of one that maps or translates it. */
static bool address_embedded4(const uint8_t *a, uint32_t *ret)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	static const uint8_t nat64[12] = { 0x00, 0x64, 0xff, 0x9b };

	if (memcmp(a, mapped, 12) != 0 && memcmp(a, nat64, 12) != 0)
		return false;
	*ret = V4(a[12], a[13], a[14], a[15]);
	return true;
}

static bool address_public6(const uint8_t *a)
{
	uint32_t v4;

	if (address_embedded4(a, &v4))
		return address_public4(v4);
	if (a[0] >> 5 != 1)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(special6); i++)
		if (address_begins_with(a, special6[i].net, special6[i].bits))
			return false;
	return true;
}

bool address_is_public(const struct sockaddr *a)
{
	struct sockaddr_in in;
	struct sockaddr_in6 in6;

	if (a->sa_family == AF_INET) {
		(void)memcpy(&in, a, sizeof(in));
		return address_public4(ntohl(in.sin_addr.s_addr));
	}
	if (a->sa_family == AF_INET6) {
		(void)memcpy(&in6, a, sizeof(in6));
		return address_public6(in6.sin6_addr.s6_addr);
	}
	return false;
}

/* As version 6, so that a mapped address is the same as what it maps. */
static bool address_widen(const struct sockaddr *a, uint8_t ret[16])
{
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	uint32_t v4;

	if (a->sa_family == AF_INET) {
		(void)memcpy(&in, a, sizeof(in));
		v4 = ntohl(in.sin_addr.s_addr);
	} else if (a->sa_family == AF_INET6) {
		(void)memcpy(&in6, a, sizeof(in6));
		(void)memcpy(ret, in6.sin6_addr.s6_addr, 16);
		if (!address_embedded4(ret, &v4))
			return true;
	} else {
		return false;
	}
	(void)memset(ret, 0, 10);
	ret[10] = ret[11] = 0xff;
	for (unsigned i = 0; i < 4; i++)
		ret[12 + i] = (uint8_t)(v4 >> (24 - 8 * i));
	return true;
}

bool address_is_own(const struct sockaddr *a)
{
	struct ifaddrs *all = NULL;
	uint8_t wanted[16], one[16];
	bool found = false;

	if (!address_widen(a, wanted) || getifaddrs(&all) < 0)
		return true;
	for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next)
		found = i->ifa_addr && address_widen(i->ifa_addr, one) &&
			memcmp(one, wanted, sizeof(one)) == 0;
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
	if (n > 0 && text[n - 1] == '.') /* of a name that is complete */
		text[n - 1] = '\0';
	/* inet_aton(3) passes over what is behind a blank: there is none in a host. */
	if (strpbrk(text, " \t\n\v\f\r") || inet_aton(text, &in.sin_addr) == 0)
		return false;
	(void)memcpy(ret, &in, sizeof(in));
	return true;
}
