/* SPDX-License-Identifier: Apache-2.0 */
/*
 * account.h - usage and limits of a sandbox: connections, bytes per second, total bytes
 *
 * All flows of a sandbox share one bucket of tokens. A token is a byte. The bucket fills
 * with `bytes_per_second`, and holds what fills in ACCOUNT_BURST_MS, or ACCOUNT_BURST_MIN
 * bytes if that is more. A flow asks before it reads, and waits while the bucket is
 * empty.
 *
 * Bytes that count against `total_bytes` are leased before they are used: the service
 * first records the lease. So if this process dies, a sandbox never gets more than its
 * limit. Bytes that were leased and not used are then lost.
 */
#ifndef EGRESS_ACCOUNT_H
#define EGRESS_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "network/policy.h"
#include "proto/egress_proto.h"

#define ACCOUNT_BURST_MS  100
#define ACCOUNT_BURST_MIN 16384U
#define ACCOUNT_LEASE_MIN (64U << 10)
#define ACCOUNT_LEASE_MAX (16U << 20)
#define ACCOUNT_REFILL_MS 20 /* interval at which waiting flows check again */

struct account {
	struct policy_limits limits;
	struct egress_usage usage;
	uint64_t lost;   /* leased by a process that died; they may have been used */
	uint64_t leased; /* total bytes that the service has recorded */
	uint64_t tokens;
	uint64_t filled; /* ms */
};

void account_set_limits(struct account *a, const struct policy_limits *limits,
			uint64_t now);
/* How many of @want bytes may be read now; 0: wait. */
uint64_t account_allowance(struct account *a, uint64_t want, uint64_t now);
/*
 * Is a new lease needed? True if fewer than @want bytes of the last lease remain, or so
 * few that flows would soon wait.
 */
bool account_wants_lease(const struct account *a, uint64_t want);
/*
 * Return the next value of @leased. It must not be set before account_usage() with this
 * value has been sent to the service.
 */
uint64_t account_next_lease(const struct account *a, uint64_t want);
/* Return the usage to report to the service if @leased is the lease. */
struct egress_usage account_usage(const struct account *a, uint64_t leased);
/* Continue with the usage that the service has recorded. */
void account_restore(struct account *a, const struct egress_usage *usage);
/* Count bytes that were read. */
void account_add(struct account *a, uint64_t in, uint64_t out);
/*
 * Like account_add(), for a whole message. False: too few bytes of the lease remain for
 * it.
 */
bool account_add_message(struct account *a, uint64_t in, uint64_t out);
/* Return whether the sandbox has used all of its bytes. */
bool account_is_exhausted(const struct account *a);

#endif /* EGRESS_ACCOUNT_H */
