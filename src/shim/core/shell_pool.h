/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shell_pool.h - persistent shells inside, which run one script after another
 *
 * Starting a command on a platform takes many times as long as running a script in an
 * existing shell. Each such shell belongs to one user; a few are kept. The
 * output of a script, on stdout or stderr, is returned unchanged, whatever bytes it
 * contains: an unpredictable mark ends it. Scripts have /dev/null for stdin.
 */
#ifndef SHIM_CORE_SHELL_POOL_H
#define SHIM_CORE_SHELL_POOL_H

#include "shim/core/shim.h"

/*
 * Run @script as @user ("": the sandbox's default user). Return its exit status, or
 * -errno: -EOPNOTSUPP: there is no shell; -ETIMEDOUT, -EREMOTEIO: the shell is gone, with
 * the script.
 */
int shell_pool_run(const char *user, const struct buf *script, struct buf *out, int secs,
		   struct warren_error *err);

/* End shells that were not used for a while; return the ms until the next call, or -1. */
int shell_pool_tick(void);
/* End all shells. */
void shell_pool_release(void);
/* Return whether @pid is the process of such a shell. */
bool shell_pool_has(pid_t pid);

#endif /* SHIM_CORE_SHELL_POOL_H */
