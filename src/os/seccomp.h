/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seccomp.h - the system calls that a sandbox may make
 *
 * There is one filter, the same for every sandbox: an allowlist for the native ABI,
 * compiled to BPF when Warren is built. The policy, with its reasons, is
 * tools/gen/seccomp-policy.h; doc/seccomp.md explains it.
 *
 * A thread loads it last of all that it does before init: it refuses mount, setns and
 * most of what the isolation steps do. Every later child and every exec inherits it, pid
 * 1 of the sandbox included, and no one can take it off.
 */
#ifndef OS_SECCOMP_H
#define OS_SECCOMP_H

#include <stdbool.h>

#include "base/error.h"

struct sock_fprog;

/*
 * Whether this kernel has filters that can kill a whole process (4.14,
 * CONFIG_SECCOMP_FILTER).
 */
bool seccomp_available(void);

/*
 * Put the calling thread under the filter, for good. Expects no_new_privs to be set;
 * leaves errno alone.
 */
int seccomp_load(struct warren_error *err) MUST_CHECK;

/* The filter itself, for reports and tests. */
const struct sock_fprog *seccomp_program(void);

#endif /* OS_SECCOMP_H */
