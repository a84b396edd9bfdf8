/* SPDX-License-Identifier: Apache-2.0 */
/* sig.h - reset all signals for a new process, including those of the C library */
#ifndef OS_SIG_H
#define OS_SIG_H

#include <sys/syscall.h>
#include <unistd.h>

#define SIG_COUNT 64

/*
 * Set every signal to its default action, because ignored signals stay ignored across an
 * exec. This uses the system call, because the C library refuses to change the two
 * signals that it uses itself, and a caller may ignore those.
 */
static inline void sig_reset(void)
{
	/* handler, flags, restorer, mask: all zero is the default action */
	static const unsigned long def[4];

	for (int sig = 1; sig <= SIG_COUNT; sig++)
		(void)syscall(SYS_rt_sigaction, sig, def, NULL, SIG_COUNT / 8);
}

#endif /* OS_SIG_H */
