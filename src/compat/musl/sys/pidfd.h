/* SPDX-License-Identifier: Apache-2.0 */
/* pidfd.h - pidfd_open(2) and pidfd_send_signal(2), for which musl has no wrappers */
#ifndef COMPAT_SYS_PIDFD_H
#define COMPAT_SYS_PIDFD_H

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline int pidfd_send_signal(int fd, int sig, siginfo_t *info, unsigned flags)
{
	return (int)syscall(SYS_pidfd_send_signal, fd, sig, info, flags);
}

static inline int pidfd_open(pid_t pid, unsigned flags)
{
	return (int)syscall(SYS_pidfd_open, pid, flags);
}

#endif
