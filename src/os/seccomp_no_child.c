/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seccomp_no_child.c - a filter for a program that must start no other program
 *
 * git runs commands that the configuration of a repository names: filters, hooks,
 * transports, monitors, and more with each version. Options that switch off those that
 * are known are not enough. A process with this filter can start threads, but no process,
 * so none of these commands can run, whatever names it.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "base/macro.h"
#include "os/seccomp.h"

#if defined(__x86_64__)
#define NO_CHILD_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NO_CHILD_ARCH AUDIT_ARCH_AARCH64
#else
#error "the numbers of this machine's system calls are not known"
#endif

#define NO_CHILD_LOAD(field) \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define NO_CHILD_REFUSE(error) \
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((error)&SECCOMP_RET_DATA))
#define NO_CHILD_CALL(nr, error) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(nr), 0, 1), NO_CHILD_REFUSE(error)

static const struct sock_filter no_child_filter[] = {
	/* The numbers of another ABI mean other calls. */
	NO_CHILD_LOAD(arch),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NO_CHILD_ARCH, 1, 0),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	NO_CHILD_LOAD(nr),
#if defined(__x86_64__)
	BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1), /* x32 */
	NO_CHILD_REFUSE(ENOSYS),
	NO_CHILD_CALL(SYS_fork, EPERM),
	NO_CHILD_CALL(SYS_vfork, EPERM),
#endif
	/* Its flags are in memory, which a filter cannot read; the C library then uses
	 * clone(2). */
	NO_CHILD_CALL(SYS_clone3, ENOSYS),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
	NO_CHILD_LOAD(args[0]),
	BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0),
	NO_CHILD_REFUSE(EPERM),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "the lower half of an argument is elsewhere");

int seccomp_load_no_child(struct warren_error *err)
{
	const struct sock_fprog prog = {
		.len = ARRAY_SIZE(no_child_filter),
		.filter = (struct sock_filter *)no_child_filter,
	};

	return seccomp_load_program(&prog, err);
}
