/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shell_pool.h - a persistent shell inside, which runs one script after another
 *
 * What a platform takes to run something is many times what a shell takes that is there
 * already. A hand belongs to a user; a few are kept. What a script writes, to stdout or
 * stderr, comes back as it is, whatever bytes it has: its end is a mark that could not be
 * foreseen. Scripts have /dev/null for stdin.
 */
#ifndef SHIM_CORE_SHELL_POOL_H
#define SHIM_CORE_SHELL_POOL_H

#include "shim/core/shim.h"

/*
 * Run @script as @user ("": the sandbox's). Its exit status, or -errno: -EOPNOTSUPP,
 * there is no shell; -ETIMEDOUT, -EREMOTEIO: the shell is gone, as is what it was doing.
 */
int hand_run(const char *user, const struct buf *script, struct buf *out, int secs,
	     struct warren_error *err);

/* Lets go of those that were not needed for long; ms until the next of them, or -1. */
int hand_rest(void);
/* Lets go of all of them. */
void hand_release(void);
/* Is it one of the processes that have a hand? */
bool hand_is(pid_t pid);

#endif /* SHIM_CORE_SHELL_POOL_H */
