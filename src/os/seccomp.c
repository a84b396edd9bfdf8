/* SPDX-License-Identifier: Apache-2.0 */
/* seccomp.c - load the filter that gen-seccomp generated */
#include "os/seccomp.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <unistd.h>

#include "nolibc/sys.h"
#include "os/seccomp_filter.h"

_Static_assert(ARRAY_SIZE(seccomp_filter) <= BPF_MAXINSNS,
	       "the kernel takes 4,096 at most");

/* The kernel only reads the program, although its type is not const. */
static const struct sock_fprog program = {
	.len = ARRAY_SIZE(seccomp_filter),
	.filter = (struct sock_filter *)seccomp_filter,
};

bool seccomp_available(void)
{
	uint32_t action = SECCOMP_RET_KILL_PROCESS;

	return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

int seccomp_load_program(const struct sock_fprog *prog, struct warren_error *err)
{
	long r = SYS_3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, prog);

	switch (-r) {
	case 0:
		return 0;
	case EACCES:
		return error_set(
			err, EACCES,
			"load the syscall filter: no_new_privs must be set first");
	case ENOSYS:
	case EINVAL:
		return error_set(
			err, ENOSYS,
			"load the syscall filter: this kernel has no seccomp filters "
			"(CONFIG_SECCOMP_FILTER)");
	default:
		return error_errno(err, (int)-r, "load the syscall filter");
	}
}

int seccomp_load(struct warren_error *err)
{
	return seccomp_load_program(&program, err);
}

const struct sock_fprog *seccomp_program(void)
{
	return &program;
}
