/* SPDX-License-Identifier: Apache-2.0 */
/* unistd.h - close_range(2), for which musl has no wrapper */
#ifndef COMPAT_UNISTD_H
#define COMPAT_UNISTD_H

#include_next <unistd.h>

#include <sys/syscall.h>

static inline int close_range(unsigned first, unsigned last, int flags)
{
	return (int)syscall(SYS_close_range, first, last, flags);
}

#endif
