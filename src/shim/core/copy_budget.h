/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_budget.h - how many bytes of files may be copied at once, by one sandbox and by
 * all
 *
 * Files on their way (file_copy.h) are on the service's own disk, outside of the sandbox.
 * So a sandbox has no more of them than its own disk may hold (ROOM_DEFAULT where it has
 * no such limit), and all sandboxes together no more than three quarters of what is free
 * without them. Of that, one sandbox has at most three times what it leaves for others:
 * whoever comes finds some.
 *
 * The sum of all is kept by the kernel, as locks on a file that all shims open: whoever
 * has N MiB on their way holds a lock on N bytes of it, at its own place, and
 * another one for what of them is on the disk already. So it is true whoever dies.
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
 * We have @bytes on their way now, of which @written are on the disk that @fd (any file
 * on it) is of. -EFBIG: more than this sandbox may have; -ENOSPC: all have too much. It
 * is kept in any case: who is refused says what it has then.
 */
int room_claim(const char *dir, int fd, uint64_t bytes, uint64_t written,
	       struct warren_error *err);
/* In a child that is to hold nothing of it. */
void room_leave(void);

#endif /* SHIM_CORE_COPY_BUDGET_H */
