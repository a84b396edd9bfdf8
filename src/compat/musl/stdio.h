/* SPDX-License-Identifier: Apache-2.0 */
/* stdio.h - renameat2(2), for which musl has no wrapper */
#ifndef COMPAT_STDIO_H
#define COMPAT_STDIO_H

#include_next <stdio.h>

#include <sys/syscall.h>
#include <unistd.h>

#define RENAME_NOREPLACE (1 << 0)
#define RENAME_EXCHANGE  (1 << 1)

static inline int renameat2(int from_at, const char *from, int to_at, const char *to,
			    unsigned flags)
{
	return (int)syscall(SYS_renameat2, from_at, from, to_at, to, flags);
}

#endif
