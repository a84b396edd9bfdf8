/* SPDX-License-Identifier: Apache-2.0 */
/* landlock.h - a process of ours gives up all files but a few directories */
#ifndef OS_LANDLOCK_H
#define OS_LANDLOCK_H

#include "base/error.h"

/*
 * From here on the calling thread and what it starts can open what is below
 * @dirs (NULL-terminated), for reading and writing, and nothing else; files
 * that are open stay so. Needs no_new_privs. 0; 1: this kernel cannot; -errno.
 */
int landlock_restrict(const char *const *dirs, struct warren_error *err);

#endif /* OS_LANDLOCK_H */
