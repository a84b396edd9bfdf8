/* SPDX-License-Identifier: Apache-2.0 */
/* test-egress-names.c - names and the addresses that stand for them */
#include <arpa/inet.h>
#include <errno.h>

#include "egress/names.h"

#include "lib/tap.h"

static void address_of(const char *text, struct address_net *ret)
{
	struct in6_addr a;

	if (inet_pton(AF_INET, text, &a) == 1)
		address_net_widen(AF_INET, &a, 32, ret);
	else if (inet_pton(AF_INET6, text, &a) == 1)
		address_net_widen(AF_INET6, &a, 128, ret);
}

TEST(a_name_keeps_its_number)
{
	struct names *t = NULL;
	uint32_t a = 0, b = 0, again = 0;

	EQ(names_new(&t), 0);
	EQ(names_put(t, "a.example", &a), 0);
	EQ(names_put(t, "b.example", &b), 0);
	EQ(names_put(t, "a.example", &again), 0);
	OK(a >= NAMES_FIRST && a < NAMES_FIRST + NAMES_SPACE);
	OK(a != b);
	EQ(again, a);
	STREQ(names_get(t, a), "a.example");
	STREQ(names_get(t, b), "b.example");
	OK(!names_get(t, NAMES_SELF));
	OK(!names_get(t, 0));
	t = names_free(t);
}

TEST(both_addresses_lead_back_to_the_number)
{
	static const uint32_t numbers[] = { 1, 2, 255, 256, 16385, 65535, 65536, 131071 };
	struct address_net a[2];
	uint32_t n;

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		names_addresses(numbers[i], a);
		OK(address_net_is_v4(&a[0]));
		OK(!address_net_is_v4(&a[1]));
		for (int k = 0; k < 2; k++) {
			n = 0;
			OK(names_number(&a[k], &n));
			EQ(n, numbers[i]);
		}
	}
}

TEST(addresses_are_those_of_the_documentation)
{
	struct address_net a[2], want;
	uint32_t n;

	names_addresses(NAMES_SELF, a);
	address_of("198.18.0.1", &want);
	EQ(memcmp(&a[0], &want, sizeof(want)), 0);
	address_of("fd77:6172:7265:6e::1", &want);
	EQ(memcmp(&a[1], &want, sizeof(want)), 0);
	address_of("198.17.255.255", &want);
	OK(!names_number(&want, &n));
	address_of("198.20.0.0", &want);
	OK(!names_number(&want, &n));
	address_of("198.19.255.255", &want);
	OK(names_number(&want, &n));
	address_of("fd77:6172:7265:6f::1", &want);
	OK(!names_number(&want, &n));
	address_of("fd77:6172:7265:6e:1::1", &want);
	OK(!names_number(&want, &n));
}

static uint32_t numbers[NAMES_MAX];

static struct names *full_table(void)
{
	struct names *t = NULL;
	char text[32];

	EQ(names_new(&t), 0);
	for (unsigned i = 0; i < NAMES_MAX; i++) {
		(void)snprintf(text, sizeof(text), "n%u.example", i);
		EQ(names_put(t, text, &numbers[i]), 0);
	}
	return t;
}

TEST(each_name_has_its_number)
{
	struct names *t = full_table();
	char text[32];

	for (unsigned i = 0; i < NAMES_MAX; i++) {
		(void)snprintf(text, sizeof(text), "n%u.example", i);
		STREQ(names_get(t, numbers[i]), text);
	}
	t = names_free(t);
}

TEST(the_least_recently_used_name_is_replaced)
{
	struct names *t = full_table();
	uint32_t n = 0, new = 0;

	/* This is now the most recently used name. */
	EQ(names_put(t, "n0.example", &n), 0);
	EQ(n, numbers[0]);
	OK(names_get(t, numbers[1]));
	names_hold(t, numbers[2]); /* this name has a connection */
	EQ(names_put(t, "new.example", &new), 0);
	STREQ(names_get(t, numbers[0]), "n0.example");
	STREQ(names_get(t, numbers[1]), "n1.example");
	STREQ(names_get(t, numbers[2]), "n2.example");
	OK(!names_get(t, numbers[3]));
	STREQ(names_get(t, new), "new.example");
	t = names_free(t);
}

TEST(a_number_is_not_reused_soon)
{
	struct names *t = full_table();
	char text[32];
	uint32_t n = 0;

	for (unsigned i = 0; i < 6 * NAMES_MAX; i++) {
		(void)snprintf(text, sizeof(text), "m%u.example", i);
		EQ(names_put(t, text, &n), 0);
		OK(!names_get(t, numbers[i % NAMES_MAX]));
	}
	t = names_free(t);
}

TEST(names_with_connections_are_not_replaced)
{
	struct names *t = full_table();
	uint32_t n = 0;

	for (unsigned i = 0; i < NAMES_MAX; i++)
		names_hold(t, numbers[i]);
	EQ(names_put(t, "new.example", &n), -EBUSY);
	names_release(t, numbers[77]);
	EQ(names_put(t, "new.example", &n), 0);
	OK(!names_get(t, numbers[77]));
	t = names_free(t);
}

TEST_MAIN()
