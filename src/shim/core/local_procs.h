/* SPDX-License-Identifier: Apache-2.0 */
/* local_procs.h - kill processes in the shim's pid namespace by their environment */
#ifndef SHIM_CORE_LOCAL_PROCS_H
#define SHIM_CORE_LOCAL_PROCS_H

/*
 * Kill all processes that have @variable ("NAME=value") in their environment, and those
 * that they fork in the meantime, until none is left. -ETIMEDOUT: some are left after
 * @ms.
 */
int local_procs_kill(const char *variable, unsigned ms);

#endif /* SHIM_CORE_LOCAL_PROCS_H */
