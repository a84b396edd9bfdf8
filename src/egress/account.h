/* SPDX-License-Identifier: Apache-2.0 */
/*
 * account.h - usage and limits of a sandbox: connections, bytes per second, total bytes
 *
 * All flows of a sandbox share one bucket of tokens. A token is a byte. The bucket fills
 * with `bytes_per_second`, and holds what fills in ACCOUNT_BURST_MS, or ACCOUNT_BURST_MIN
 * bytes if that is more. A flow asks before it reads, and waits while the bucket is
 * empty.
 */
#ifndef EGRESS_ACCOUNT_H
#define EGRESS_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "network/policy.h"
#include "proto/egress_proto.h"

#define ACCOUNT_BURST_MS  100
#define ACCOUNT_BURST_MIN 16384U
#define ACCOUNT_REFILL_MS 20 /* interval at which waiting flows check again */

struct account {
	struct policy_limits limits;
	struct egress_usage usage;
	uint64_t tokens;
	uint64_t filled; /* ms */
};

void account_set_limits(struct account *a, const struct policy_limits *limits,
			uint64_t now);
/* How many of @want bytes may be read now; 0: wait. */
uint64_t account_allowance(struct account *a, uint64_t want, uint64_t now);
/* Count bytes that were read. */
void account_add(struct account *a, uint64_t in, uint64_t out);
/* Return whether the sandbox has used all of its bytes. */
bool account_is_exhausted(const struct account *a);

#endif /* EGRESS_ACCOUNT_H */
