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
	EQ(account_allowance(&a, 50, 0), 0); /* not leased */
	OK(account_wants_lease(&a, 0));
	a.leased = account_next_lease(&a, 0);
	EQ(a.leased, 93); /* a part of what is left */
	OK(!account_wants_lease(&a, 0));
	EQ(account_allowance(&a, 50, 0), 3);
	a.leased = 100;
	EQ(account_allowance(&a, 50, 0), 10);
	account_add(&a, 0, 10);
	OK(account_is_exhausted(&a));
	EQ(account_allowance(&a, 50, 0), 0);
}

TEST(all_bytes_can_be_leased)
{
	for (uint64_t total = 1; total < 3000000; total = total * 3 + 1) {
		struct account a = { .limits = { .total_bytes = total } };

		while (!account_is_exhausted(&a)) {
			uint64_t n;

			if (account_wants_lease(&a, 0))
				a.leased = account_next_lease(&a, 0);
			n = account_allowance(&a, 65536, 0);
			OK(n > 0);
			account_add(&a, n, 0);
		}
		EQ(a.usage.bytes_in, total);
	}
}

TEST(a_message_is_counted_whole_or_not_at_all)
{
	struct account a = { 0 };
	struct policy_limits limits = { .total_bytes = 100 };

	OK(account_add_message(&a, 1, 2)); /* no limit */
	account_set_limits(&a, &limits, 0);
	OK(!account_add_message(&a, 0, 50)); /* not leased */
	OK(account_wants_lease(&a, 50));
	a.leased = account_next_lease(&a, 50);
	EQ(a.leased, 53);
	OK(!account_wants_lease(&a, 50));
	OK(account_add_message(&a, 0, 50));
	a.leased = account_next_lease(&a, 60);
	EQ(a.leased, 100);
	OK(!account_add_message(&a, 48, 0)); /* there are 47 left */
	EQ(a.usage.bytes_in, 1);
	OK(account_add_message(&a, 47, 0));
	OK(account_is_exhausted(&a));
	EQ(a.usage.bytes_in + a.usage.bytes_out, 100);
}

TEST(a_lease_is_never_used_twice)
{
	enum {
		TOTAL = 100 << 20
	};
	struct policy_limits limits = { .total_bytes = TOTAL };
	uint64_t used = 0;
	struct egress_usage known = { 0 };

	/* Each process dies after some bytes that it did not report. */
	for (int process = 0; process < 20; process++) {
		struct account a = { 0 };

		account_restore(&a, &known);
		account_set_limits(&a, &limits, 0);
		for (int i = 0; i < 10 + process; i++) {
			uint64_t n;

			if (account_wants_lease(&a, 0)) {
				a.leased = account_next_lease(&a, 0);
				known = account_usage(&a, a.leased);
			}
			n = account_allowance(&a, 300000, 0);
			account_add(&a, n, 0);
			used += n;
			OK(known.bytes_in + known.bytes_out + known.reserved >= used);
		}
	}
	OK(used <= TOTAL);
	OK(used > TOTAL / 4);
}

TEST_MAIN()
