/* SPDX-License-Identifier: Apache-2.0 */
/* pidfd.h - kill a process by its pidfd */
#ifndef OS_PIDFD_H
#define OS_PIDFD_H

#include <stdbool.h>

/*
 * Send SIGKILL repeatedly until the process has ended, because a single signal may not be
 * delivered (if memory runs out, or the process is frozen at that moment). 0; -EBUSY if
 * it still exists after @ms; -errno if it cannot be signalled at all. A child of this
 * process is reaped.
 */
int pidfd_end(int pidfd, unsigned ms);
/*
 * Return whether a process has begun to exit, or has ended. @dir is its directory in
 * /proc, or -1 if that no longer exists. A pidfd only becomes readable after the last
 * thread has ended, which may be much later.
 */
bool proc_is_ending(int dir);

#endif /* OS_PIDFD_H */
