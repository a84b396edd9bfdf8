/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_budget.h - limit the bytes of files being copied at once, per sandbox and in total
 *
 * Files being copied (file_copy.h) are on the service's own disk, outside of the sandbox.
 * A sandbox may therefore copy at most as many bytes at once as its disk limit
 * (ROOM_DEFAULT without such a limit), and all sandboxes together at most three quarters
 * of the space that is free without these files. One sandbox may use at most three times
 * as much of that as it leaves for others, so that the next sandbox always gets some.
 *
 * The kernel keeps the sum, as locks on a file that all shims open. A shim that copies N
 * MiB locks N bytes of the file, at its own offset. It holds another lock for the part
 * that is already on the disk. The sum thus stays correct when a shim dies.
 */
#ifndef SHIM_CORE_COPY_BUDGET_H
#define SHIM_CORE_COPY_BUDGET_H

#include <stdint.h>

#include "base/error.h"

#define ROOM_DEFAULT (2ULL << 30)
#define ROOM_LEAST   (64ULL << 20)

/* Set the limit of the sandbox's disk; 0: none. */
void room_bound(uint64_t disk);
uint64_t room_limit(void);
/*
 * Record that this shim now copies @bytes, of which @written are on the disk of @fd (any
 * file on it). -EFBIG: more than this sandbox may copy; -ENOSPC: all sandboxes together
 * copy too much. The claim is recorded even then: the caller reduces its bytes and calls
 * again.
 */
int room_claim(const char *dir, int fd, uint64_t bytes, uint64_t written,
	       struct warren_error *err);
/*
 * For a child of the process that called room_claim(), which shares its locks: @written
 * bytes are on the disk by now. The next room_claim() sets the number again.
 */
void room_written(uint64_t written);
/* Close the file with the locks; for a child that must not hold them. */
void room_leave(void);

#endif /* SHIM_CORE_COPY_BUDGET_H */
