/* SPDX-License-Identifier: Apache-2.0 */
/*
 * landlock.h - restrict a process to a few directories, and separate it from other
 * processes
 */
#ifndef OS_LANDLOCK_H
#define OS_LANDLOCK_H

#include "base/error.h"

/* From which version on the kernel can keep a process from what. */
#define LANDLOCK_HAS_NET   4U
#define LANDLOCK_HAS_SCOPE 6U

/* Of the kernel's interface; 0: it has none. */
unsigned landlock_version(void);

/*
 * From here on the calling thread and what it starts can open what is below @dirs
 * (NULL-terminated), for reading and writing, and nothing else; files that are open stay
 * so. As far as the kernel can, it also binds and connects no TCP socket (those that it
 * has stay as they are), and neither sends signals nor connects by abstract unix sockets
 * to anybody but those whom it starts. Needs no_new_privs. 0; 1: this kernel cannot;
 * -errno.
 */
int landlock_restrict(const char *const *dirs, struct warren_error *err);

#endif /* OS_LANDLOCK_H */
