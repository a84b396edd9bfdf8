/* SPDX-License-Identifier: Apache-2.0 */
/* test-share.c - nobody can take so much that others get nothing */
#include "service/share.h"

#include <errno.h>

#include "tap.h"

static uint64_t take_all(struct share *s, const char *tenant)
{
	uint64_t used, maximum;
	int r;

	do
		r = share_take(s, tenant);
	while (r == 0);
	EQ(r, -EDQUOT);
	share_look(s, tenant, &used, &maximum);
	OK(used >= maximum);
	return used;
}

TEST(one_alone_has_half)
{
	struct share s = { .limit = 128 };
	uint64_t used, maximum;

	share_look(&s, "a", &used, &maximum);
	EQ(used, 0U);
	EQ(maximum, 64U);
	EQ(take_all(&s, "a"), 64U);
	share_give(&s, "a", 64);
	EQ(s.used, 0U);
	OK(!s.holders);
}

TEST(who_comes_next_finds_some)
{
	struct share s = { .limit = 128 };
	char name[] = "a";

	for (; name[0] < 'a' + 6; name[0]++) /* a half, a quarter, ... */
		OK(take_all(&s, name) > 0);
	EQ(take_all(&s, "z"), 1U);
	for (name[0] = 'a'; name[0] < 'a' + 6; name[0]++)
		share_give(&s, name, 128);
	share_give(&s, "z", 1);
	EQ(s.used, 0U);
	OK(!s.holders);
}

TEST(what_is_given_back_is_for_all)
{
	struct share s = { .limit = 9 };

	EQ(take_all(&s, "a"), 5U);
	EQ(take_all(&s, "b"), 2U);
	EQ(share_take(&s, "a"), -EDQUOT);
	share_give(&s, "a", 4);
	EQ(share_take(&s, "b"), 0);
	EQ(share_take(&s, "a"), 0);
	share_give(&s, "nobody", 3);
	EQ(s.used, 5U);
	share_give(&s, "a", 2);
	share_give(&s, "b", 3);
	OK(!s.holders);
}

TEST(the_smallest_limits)
{
	struct share s = { .limit = 1 };

	EQ(take_all(&s, "a"), 1U);
	EQ(share_take(&s, "b"), -EDQUOT);
	share_give(&s, "a", 1);
	s.limit = 0;
	EQ(share_take(&s, "a"), -EDQUOT);
	OK(!s.holders);
}

TEST_MAIN()
