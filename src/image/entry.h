/* SPDX-License-Identifier: Apache-2.0 */
/*
 * entry.h - new directories and files that a clean-up of another process must not remove
 *
 * Whatever a process creates under a temporary name is locked from its creation until the
 * process has closed it. A clean-up locks it first, and removes it while it holds the
 * lock. No call creates and locks at once, so a clean-up may come between the two:
 * entry_new_dir() and entry_new_file() notice that, and create it again.
 */
#ifndef IMAGE_ENTRY_H
#define IMAGE_ENTRY_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/macro.h"

/* Return a descriptor that keeps the lock, or -errno. */
int entry_new_dir(int at, const char *name, mode_t mode) MUST_CHECK;
/* The same for a file, which is open for writing. */
int entry_new_file(int at, const char *name, mode_t mode) MUST_CHECK;

/*
 * Lock an entry that a process may have left when it ended, so that the caller can remove
 * it before it closes the descriptor. -EWOULDBLOCK: a process still uses it. @flags is 0,
 * or O_DIRECTORY to accept only a directory.
 */
int entry_lock_unused(int at, const char *name, int flags) MUST_CHECK;
/* Does a process still use it? */
bool entry_is_used(int at, const char *name);

#endif /* IMAGE_ENTRY_H */
