/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_budget.h - how many bytes of files may be copied at once, by one sandbox and by
 * all
 *
 * Files being copied (file_copy.h) are on the service's own disk, outside of the sandbox.
 * So a sandbox may have at most as many bytes of them as its own disk may hold
 * (ROOM_DEFAULT without such a limit), and all sandboxes together at most three quarters
 * of the space that is free without them. Of that, one sandbox may have at most three
 * times what it leaves for others, so that some is left for the next.
 *
 * The kernel keeps the sum, as locks on a file that all shims open: a shim that copies N
 * MiB holds a lock on N bytes of it, at its own offset, and another one for the part that
 * is already on the disk. So the sum stays correct when a shim dies.
 */
#ifndef SHIM_CORE_COPY_BUDGET_H
#define SHIM_CORE_COPY_BUDGET_H

#include <stdint.h>

#include "base/error.h"

#define ROOM_DEFAULT (2ULL << 30)
#define ROOM_LEAST   (64ULL << 20)

/* What the sandbox's disk may hold; 0: there is no limit. */
void room_bound(uint64_t disk);
uint64_t room_limit(void);
/*
 * This shim now copies @bytes, of which @written are on the disk of @fd (any file on it).
 * -EFBIG: more than this sandbox may have; -ENOSPC: all together have too much. The claim
 * is recorded in any case: a caller that is refused calls again with what it has then.
 */
int room_claim(const char *dir, int fd, uint64_t bytes, uint64_t written,
	       struct warren_error *err);
/* In a child that must not hold these locks. */
void room_leave(void);

#endif /* SHIM_CORE_COPY_BUDGET_H */
