/* SPDX-License-Identifier: Apache-2.0 */
/* test-address.c - public addresses and all others, in every notation */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <string.h>

#include "base/address.h"
#include "base/macro.h"
#include "lib/tap.h"

static bool is_public(const char *text)
{
	struct sockaddr_storage a;

	return address_parse(text, &a) && address_is_public((struct sockaddr *)&a);
}

TEST(addresses_are_classified)
{
	/* Each address is listed with its neighbour, just outside of the block. */
	static const struct {
		const char *inside, *outside;
	} blocks[] = {
		{ "0.1.2.3", "1.0.0.0" },
		{ "10.255.255.255", "11.0.0.0" },
		{ "10.0.0.0", "9.255.255.255" },
		{ "100.64.0.0", "100.63.255.255" },
		{ "100.127.255.255", "100.128.0.0" },
		{ "127.0.0.1", "126.255.255.255" },
		{ "127.255.255.254", "128.0.0.1" },
		{ "168.63.129.16", "168.63.129.17" },
		{ "169.254.169.254", "169.253.255.255" },
		{ "169.254.0.0", "169.255.0.0" },
		{ "172.16.0.0", "172.15.255.255" },
		{ "172.31.255.255", "172.32.0.0" },
		{ "192.0.0.192", "192.0.1.0" },
		{ "192.0.2.1", "192.0.3.0" },
		{ "192.168.0.0", "192.167.255.255" },
		{ "192.168.255.255", "192.169.0.0" },
		{ "198.18.0.1", "198.17.255.255" },
		{ "198.19.255.255", "198.20.0.0" },
		{ "224.0.0.1", "223.255.255.255" },
		{ "255.255.255.255", "8.8.8.8" },
		{ "::", "2000::1" },
		{ "::1", "2a00::1" },
		{ "fe80::1", "2600::" },
		{ "fc00::1", "2606:4700::1111" },
		{ "fd00:ec2::254", "2620:fe::fe" },
		{ "ff02::1", "2001:4860:4860::8888" },
		{ "2001::1", "2001:200::1" },
		{ "2001:db8::1", "2001:db9::1" },
		{ "2002:7f00:1::", "2003::1" },
		{ "2002:808:808::", "2003::1" },
		{ "::ffff:127.0.0.1", "::ffff:8.8.8.8" },
		{ "::ffff:a9fe:a9fe", "::ffff:808:808" },
		{ "64:ff9b::10.0.0.1", "64:ff9b::8.8.8.8" },
		{ "64:ff9b:1::808:808", "64:ff9b::808:808" },
		{ "::127.0.0.1", "2001:4860::" },
		{ "fec0::1", "3fff:1000::1" },
		{ "3fff::1", "3ffd::1" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(blocks); i++) {
		if (is_public(blocks[i].inside) || !is_public(blocks[i].outside))
			(void)printf("# %s, %s\n", blocks[i].inside, blocks[i].outside);
		EQ(is_public(blocks[i].inside), false);
		EQ(is_public(blocks[i].outside), true);
	}
}

TEST(addresses_are_accepted_in_every_notation)
{
	static const char *const loopback[] = {
		"127.0.0.1",    "127.1",
		"127.0.1",      "2130706433",
		"0x7f000001",   "0x7f.1",
		"017700000001", "0177.0.0.1",
		"0x7F.0.0x1",   "127.0.0.1.",
		"[::1]",        "::1",
		"[::1%lo]",     "[::ffff:127.0.0.1]",
		"0x7f.0x0.1",   "[0:0:0:0:0:0:0:1]",
	};
	static const char *const names[] = {
		"localhost", "a.example", "127.0.0.1.example",
		"",          "1.2.3.4.5", "256.1.1.1",
		"0x",        "[]",        "127.0.0.1 x",
		"1.2.3.4x",  "[::1",      "12345::1"
	};
	struct sockaddr_storage a;

	for (size_t i = 0; i < ARRAY_SIZE(loopback); i++) {
		EQ(address_parse(loopback[i], &a), true);
		EQ(address_is_public((struct sockaddr *)&a), false);
	}
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (address_parse(names[i], &a))
			(void)printf("# '%s'\n", names[i]);
		EQ(address_parse(names[i], &a), false);
	}
	EQ(is_public("134744072"), true); /* 8.8.8.8 */
}

/* A network is in a block, contains one, or is separate. */
TEST(a_network_is_special_if_all_its_addresses_are)
{
	static const struct {
		const char *address;
		unsigned bits;
		const char *special;
	} nets[] = {
		{ "10.0.0.0", 8, "private" },
		{ "10.0.0.0", 7, NULL },
		{ "10.1.0.0", 16, "private" },
		{ "0.0.0.0", 0, NULL },
		{ "11.0.0.0", 8, NULL },
		{ "169.254.0.0", 16, "link-local" },
		{ "2000::", 3, NULL },
		{ "2000::", 2, NULL },
		{ "::", 0, NULL },
		{ "fc00::", 7, "private" },
		{ "fd00:ec2::", 32, "private" },
		{ "2001::", 32, "Teredo" },
		{ "2001::", 16, NULL },
		{ "::ffff:127.0.0.0", 104, "loopback" },
		{ "64:ff9b::10.0.0.0", 104, "private" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(nets); i++) {
		int family = strchr(nets[i].address, ':') ? AF_INET6 : AF_INET;
		struct address_net net;
		uint8_t bytes[16];
		const char *got;

		EQ(inet_pton(family, nets[i].address, bytes), 1);
		address_net_widen(family, bytes, nets[i].bits, &net);
		got = address_net_special(&net);
		STREQ(got ? got : "-", nets[i].special ? nets[i].special : "-");
	}
}

TEST(a_network_contains_only_addresses_of_its_family)
{
	struct address_net all4, all6, one4, one6;
	uint8_t zero[16] = { 0 }, one[16] = { 8, 8, 8, 8 };

	address_net_widen(AF_INET, zero, 0, &all4);
	address_net_widen(AF_INET6, zero, 0, &all6);
	address_net_widen(AF_INET, one, 32, &one4);
	address_net_widen(AF_INET6, one, 128, &one6);
	EQ(address_net_has(&all4, &one4), true);
	EQ(address_net_has(&all6, &one6), true);
	EQ(address_net_has(&all6, &one4), false);
	EQ(address_net_has(&all6, &all4), false);
	EQ(address_net_has(&all4, &one6), false);
	EQ(address_net_has(&one4, &all4), false);
	EQ(address_net_has(&one4, &one4), true);
}

TEST(an_invalid_address_is_not_public)
{
	struct sockaddr_storage a = { .ss_family = AF_UNIX };

	EQ(address_is_public((struct sockaddr *)&a), false);
	EQ(address_is_own((struct sockaddr *)&a), true);
}

TEST(local_addresses_are_recognised)
{
	struct ifaddrs *all = NULL;
	struct sockaddr_storage a;
	unsigned n = 0;

	EQ(getifaddrs(&all), 0);
	for (struct ifaddrs *i = all; i; i = i->ifa_next) {
		if (!i->ifa_addr || (i->ifa_addr->sa_family != AF_INET &&
				     i->ifa_addr->sa_family != AF_INET6))
			continue;
		EQ(address_is_own(i->ifa_addr), true);
		n++;
	}
	freeifaddrs(all);
	(void)printf("# %u addresses\n", n);
	EQ(address_parse("192.0.2.77", &a), true);
	EQ(address_is_own((struct sockaddr *)&a), false);
}

TEST_MAIN()
