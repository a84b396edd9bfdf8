/* SPDX-License-Identifier: Apache-2.0 */
/*
 * first.c - pid 1 of a sandbox of gVisor's: it is there, and buries the dead
 *
 * A container of runsc's lives as long as its first process. An image may have nothing
 * that waits (not even a shell), so this comes from us: a few hundred bytes without a C library,
 * shown read-only at GVISOR_FIRST. Everything else is started by the sentry, as
 * children of nobody; whom they leave behind becomes a child of this, which ignores their
 * end, so that none stays as a zombie.
 */
#include <linux/signal.h>

#include "init/sys.h"

__attribute__((noreturn, used)) void _start(void);

void _start(void)
{
	/* handler, flags, restorer, mask; static: the stack here is not as C expects it */
	static const unsigned long ignore[4] = { (unsigned long)SIG_IGN };

	(void)SYS_4(SYS_rt_sigaction, SIGCHLD, ignore, 0, sizeof(unsigned long));
	for (int fd = 0; fd < 3; fd++)
		sys_close(fd);
	for (;;)
		(void)SYS_5(SYS_ppoll, 0, 0, 0, 0, 0);
}
