/* SPDX-License-Identifier: Apache-2.0 */
/* test-egress-account.c - limits: bytes per second, and total bytes */
#include "egress/account.h"

#include "lib/tap.h"

TEST(without_limits_everything_is_allowed)
{
	struct account a = { 0 };

	EQ(account_allowance(&a, 1 << 20, 1), 1 << 20);
	account_add(&a, 5, 7);
	EQ(a.usage.bytes_in, 5);
	EQ(a.usage.bytes_out, 7);
	OK(!account_is_exhausted(&a));
}

TEST(a_rate_is_kept_over_time)
{
	struct account a = { 0 };
	struct policy_limits limits = { .bytes_per_second = 1000000 };
	uint64_t sent = 0;

	account_set_limits(&a, &limits, 1000);
	for (uint64_t now = 1000; now <= 11000; now += 7) {
		uint64_t n = account_allowance(&a, 65536, now);

		account_add(&a, n / 2, n - n / 2);
		sent += n;
	}
	OK(sent <= 10 * 1000000 + 100000);
	OK(sent >= 9900000);
}

TEST(a_small_rate_is_not_rounded_to_nothing)
{
	struct account a = { 0 };
	struct policy_limits limits = { .bytes_per_second = 100 };
	uint64_t sent = 0;

	account_set_limits(&a, &limits, 0);
	for (uint64_t now = 0; now <= 100000; now++) {
		uint64_t n = account_allowance(&a, 65536, now);

		account_add(&a, n, 0);
		sent += n;
	}
	OK(sent >= ACCOUNT_BURST_MIN + 9900);
	OK(sent <= ACCOUNT_BURST_MIN + 10000);
}

TEST(an_idle_sandbox_does_not_accumulate_tokens)
{
	struct account a = { 0 };
	struct policy_limits limits = { .bytes_per_second = 1000000 };

	account_set_limits(&a, &limits, 0);
	EQ(account_allowance(&a, UINT64_MAX, 3600000), 100000);
}

TEST(total_bytes_include_earlier_usage)
{
	struct account a = { .usage = { .bytes_in = 60, .bytes_out = 30 } };
	struct policy_limits limits = { .total_bytes = 100 };

	account_set_limits(&a, &limits, 0);
	OK(!account_is_exhausted(&a));
	EQ(account_allowance(&a, 50, 0), 10);
	account_add(&a, 0, 10);
	OK(account_is_exhausted(&a));
	EQ(account_allowance(&a, 50, 0), 0);
}

TEST_MAIN()
