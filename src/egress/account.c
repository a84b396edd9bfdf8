/* SPDX-License-Identifier: Apache-2.0 */
/* account.c - a bucket of tokens, and counters */
#include "egress/account.h"

static uint64_t account_burst(const struct account *a)
{
	uint64_t burst = a->limits.bytes_per_second / 1000 * ACCOUNT_BURST_MS;

	return burst > ACCOUNT_BURST_MIN ? burst : ACCOUNT_BURST_MIN;
}

static void account_fill(struct account *a, uint64_t now)
{
	uint64_t rate = a->limits.bytes_per_second, ms = now - a->filled, more;

	if (now <= a->filled)
		return;
	ms = ms < 1000 ? ms : 1000; /* after one second, the bucket is full anyway */
	more = rate / 1000 * ms + rate % 1000 * ms / 1000;
	if (more == 0)
		return; /* otherwise a small rate would be rounded to nothing */
	a->filled = now;
	a->tokens += more;
	if (a->tokens > account_burst(a))
		a->tokens = account_burst(a);
}

void account_set_limits(struct account *a, const struct policy_limits *limits,
			uint64_t now)
{
	a->limits = *limits;
	a->tokens = account_burst(a);
	a->filled = now;
}

static uint64_t account_total(const struct account *a)
{
	return a->usage.bytes_in + a->usage.bytes_out + a->lost;
}

bool account_is_exhausted(const struct account *a)
{
	return a->limits.total_bytes && account_total(a) >= a->limits.total_bytes;
}

/* Return the size of a lease: a part of what is left, so that little can be lost. */
static uint64_t account_slice(const struct account *a)
{
	uint64_t left = a->limits.total_bytes - account_total(a), slice = left / 16;

	if (slice < ACCOUNT_LEASE_MIN)
		return left / 4 < ACCOUNT_LEASE_MIN ? left / 4 + 1 : ACCOUNT_LEASE_MIN;
	return slice < ACCOUNT_LEASE_MAX ? slice : ACCOUNT_LEASE_MAX;
}

bool account_wants_lease(const struct account *a, uint64_t want)
{
	return a->limits.total_bytes && !account_is_exhausted(a) &&
	       a->leased < a->limits.total_bytes &&
	       (a->leased <= account_total(a) + account_slice(a) / 2 ||
		a->leased < account_total(a) + want);
}

uint64_t account_next_lease(const struct account *a, uint64_t want)
{
	uint64_t slice = account_slice(a);
	uint64_t end = account_total(a) + (slice > want ? slice : want);

	return end < a->limits.total_bytes ? end : a->limits.total_bytes;
}

/* Return how many of @want bytes are within the lease. */
static uint64_t account_leased(const struct account *a, uint64_t want)
{
	uint64_t end, left;

	if (!a->limits.total_bytes)
		return want;
	end = a->leased < a->limits.total_bytes ? a->leased : a->limits.total_bytes;
	left = end > account_total(a) ? end - account_total(a) : 0;
	return want < left ? want : left;
}

struct egress_usage account_usage(const struct account *a, uint64_t leased)
{
	struct egress_usage usage = a->usage;

	usage.reserved = a->lost;
	if (a->limits.total_bytes && leased > account_total(a))
		usage.reserved += leased - account_total(a);
	return usage;
}

void account_restore(struct account *a, const struct egress_usage *usage)
{
	a->usage = *usage;
	a->lost = usage->reserved;
	a->usage.reserved = 0;
}

uint64_t account_allowance(struct account *a, uint64_t want, uint64_t now)
{
	want = account_leased(a, want);
	if (!a->limits.bytes_per_second)
		return want;
	account_fill(a, now);
	return want < a->tokens ? want : a->tokens;
}

void account_add(struct account *a, uint64_t in, uint64_t out)
{
	uint64_t all = in + out;

	a->usage.bytes_in += in;
	a->usage.bytes_out += out;
	a->tokens = a->tokens > all ? a->tokens - all : 0;
}

bool account_add_message(struct account *a, uint64_t in, uint64_t out)
{
	if (account_leased(a, in + out) < in + out)
		return false;
	account_add(a, in, out);
	return true;
}
