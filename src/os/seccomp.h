/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seccomp.h - the filter for the system calls that processes in a sandbox may make
 *
 * There is one filter, the same for every sandbox: an allowlist for the native ABI,
 * compiled to BPF when Warren is built. The policy, with its reasons, is
 * tools/gen/seccomp-policy.h; doc/seccomp.md explains it.
 *
 * A thread loads it as its last step before it becomes init, because the filter refuses
 * mount, setns and most other calls of the isolation steps. Every later child and every
 * exec inherits it, including pid 1 of the sandbox, and no process can remove it.
 */
#ifndef OS_SECCOMP_H
#define OS_SECCOMP_H

#include <stdbool.h>

#include "base/error.h"

struct sock_fprog;

/*
 * Return whether this kernel has filters that can kill a whole process (4.14,
 * CONFIG_SECCOMP_FILTER).
 */
bool seccomp_available(void);

/*
 * Put the calling thread under the filter permanently. no_new_privs must be set. Does not
 * change errno.
 */
int seccomp_load(struct warren_error *err) MUST_CHECK;

/*
 * Put the calling thread under a second filter, which refuses to create files with
 * set-id bits or to set these bits: for sandboxes that can write to directories of the
 * machine (seccomp_set_id.c). Call this before seccomp_load().
 */
int seccomp_load_no_set_id(struct warren_error *err) MUST_CHECK;

/*
 * Put the calling thread under a filter with which it can start threads and execute a
 * program, but start no process (seccomp_no_child.c).
 */
int seccomp_load_no_child(struct warren_error *err) MUST_CHECK;

/* Put the calling thread under any filter; for the functions above. */
int seccomp_load_program(const struct sock_fprog *prog,
			 struct warren_error *err) MUST_CHECK;

/* The filter itself, for reports and tests. */
const struct sock_fprog *seccomp_program(void);

#endif /* OS_SECCOMP_H */
