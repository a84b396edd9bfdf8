/* SPDX-License-Identifier: Apache-2.0 */
/* pidfd.h - end a process that is known by a descriptor */
#ifndef OS_PIDFD_H
#define OS_PIDFD_H

#include <stdbool.h>

/*
 * SIGKILL, again and again until it is gone, since one may not be delivered (a want of
 * memory, a process that is frozen at that moment). 0, -EBUSY when it is there after @ms,
 * or -errno when it cannot be signalled at all. A child of ours is reaped.
 */
int pidfd_end(int pidfd, unsigned ms);
/*
 * Has the end of a process begun, or is it over? @dir is its directory in /proc, -1 for
 * one that is gone. A pidfd tells only when it is over, for all threads: others may have
 * noticed long before.
 */
bool proc_is_ending(int dir);

#endif /* OS_PIDFD_H */
