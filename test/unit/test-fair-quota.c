/* SPDX-License-Identifier: Apache-2.0 */
/* test-fair-quota.c - no tenant can take so much that others get nothing */
#include "service/core/fair_quota.h"

#include <errno.h>

#include "lib/tap.h"

static uint64_t take_all(struct fair_quota *s, const char *tenant)
{
	uint64_t used, maximum;
	int r;

	do
		r = fair_quota_take(s, tenant);
	while (r == 0);
	EQ(r, -EDQUOT);
	fair_quota_look(s, tenant, &used, &maximum);
	OK(used >= maximum);
	return used;
}

TEST(a_single_tenant_gets_half)
{
	struct fair_quota s = { .limit = 128 };
	uint64_t used, maximum;

	fair_quota_look(&s, "a", &used, &maximum);
	EQ(used, 0U);
	EQ(maximum, 64U);
	EQ(take_all(&s, "a"), 64U);
	fair_quota_give(&s, "a", 64);
	EQ(s.used, 0U);
	OK(!s.holders);
}

TEST(a_share_is_left_for_the_next_tenant)
{
	struct fair_quota s = { .limit = 128 };
	char name[] = "a";

	for (; name[0] < 'a' + 6; name[0]++) /* the tenants get a half, a quarter, ... */
		OK(take_all(&s, name) > 0);
	EQ(take_all(&s, "z"), 1U);
	for (name[0] = 'a'; name[0] < 'a' + 6; name[0]++)
		fair_quota_give(&s, name, 128);
	fair_quota_give(&s, "z", 1);
	EQ(s.used, 0U);
	OK(!s.holders);
}

TEST(returned_resources_are_available_to_all_tenants)
{
	struct fair_quota s = { .limit = 9 };

	EQ(take_all(&s, "a"), 5U);
	EQ(take_all(&s, "b"), 2U);
	EQ(fair_quota_take(&s, "a"), -EDQUOT);
	fair_quota_give(&s, "a", 4);
	EQ(fair_quota_take(&s, "b"), 0);
	EQ(fair_quota_take(&s, "a"), 0);
	fair_quota_give(&s, "nobody", 3);
	EQ(s.used, 5U);
	fair_quota_give(&s, "a", 2);
	fair_quota_give(&s, "b", 3);
	OK(!s.holders);
}

TEST(limits_of_one_and_zero_are_enforced)
{
	struct fair_quota s = { .limit = 1 };

	EQ(take_all(&s, "a"), 1U);
	EQ(fair_quota_take(&s, "b"), -EDQUOT);
	fair_quota_give(&s, "a", 1);
	s.limit = 0;
	EQ(fair_quota_take(&s, "a"), -EDQUOT);
	OK(!s.holders);
}

TEST(a_lease_is_all_or_nothing)
{
	struct fair_quota s = { .limit = 100 };
	struct fair_quota_lease a = { 0 }, b = { 0 };

	EQ(fair_quota_lease(&s, "a", 51, &a), -EDQUOT);
	EQ(fair_quota_lease(&s, "a", 50, &a), 0);
	EQ(s.used, 50U);
	/* Only the difference of an increase is checked; a decrease always succeeds. */
	EQ(fair_quota_lease(&s, "a", 51, &a), -EDQUOT);
	EQ(a.n, 50U);
	EQ(fair_quota_lease(&s, "a", 20, &a), 0);
	EQ(fair_quota_lease(&s, "b", 40, &b), 0);
	EQ(s.used, 60U);
	/* Existing use above the limit is counted, and leaves nothing for others. */
	EQ(fair_quota_force(&s, "b", 200, &b), 0);
	EQ(fair_quota_take(&s, "c"), -EDQUOT);
	fair_quota_end(&s, &b);
	fair_quota_end(&s, &b);
	EQ(fair_quota_take(&s, "c"), 0);
	fair_quota_give(&s, "c", 1);
	fair_quota_end(&s, &a);
	EQ(s.used, 0U);
	OK(!s.holders);
}

TEST(a_greater_weight_gets_a_greater_share)
{
	struct fair_quota s = { .limit = 100, .weight = 3 };

	EQ(take_all(&s, "a"), 75U);
	EQ(take_all(&s, "b"), 19U);
	OK(take_all(&s, "c") > 0);
	fair_quota_give(&s, "a", 100);
	fair_quota_give(&s, "b", 100);
	fair_quota_give(&s, "c", 100);
	OK(!s.holders);
}

TEST_MAIN()
