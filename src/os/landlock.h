/* SPDX-License-Identifier: Apache-2.0 */
/*
 * landlock.h - restrict a process to a few directories, and separate it from other
 * processes
 */
#ifndef OS_LANDLOCK_H
#define OS_LANDLOCK_H

#include "base/error.h"

/*
 * The first version of Landlock that can restrict TCP, and the first for signals and
 * abstract sockets.
 */
#define LANDLOCK_HAS_NET   4U
#define LANDLOCK_HAS_SCOPE 6U

/* The kernel's Landlock version; 0: it has none. */
unsigned landlock_version(void);

/*
 * Restrict the calling thread and its future children to files below @dirs
 * (NULL-terminated), for reading and writing. Files that are already open stay open. If
 * the kernel supports it, they also cannot bind or connect TCP sockets (existing ones
 * still work), and can send signals and connect through abstract unix sockets only to
 * processes that they start. Needs no_new_privs. 0; 1: this kernel has no Landlock;
 * -errno.
 */
int landlock_restrict(const char *const *dirs, struct warren_error *err);

/*
 * Like landlock_restrict(), for a process that may connect by TCP, but only reads files:
 * @paths are files and directories. One that does not exist, or that this process cannot
 * open, is skipped.
 */
int landlock_restrict_files(const char *const *paths, struct warren_error *err);

/*
 * Make rules for a process that may read everything, but write, create, remove, rename
 * and truncate files only below the directory @dir (-1: nowhere), and write to /dev/null.
 * TCP, signals and abstract sockets are restricted as with landlock_restrict(). The rules
 * apply to the directory itself, even if it is renamed. The kernel does not restrict
 * changes of modes, owners, times and attributes. Before version 2, nothing can be
 * renamed to another directory, and before version 3, all existing files can be
 * truncated. Returns a descriptor for landlock_enter(); -ENOSYS: this kernel has no
 * Landlock; or -errno.
 */
int landlock_rules_to_write(int dir, struct warren_error *err);

/* Restrict the calling thread and its future children by @rules. Needs no_new_privs. */
int landlock_enter(int rules, struct warren_error *err);

#endif /* OS_LANDLOCK_H */
