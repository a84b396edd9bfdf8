/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seccomp_set_id.c - a filter without which files with set-id bits could appear on the
 * machine
 *
 * If a sandbox can write to a directory of the machine, the files that it creates there
 * belong to the directory's owner, often root. With the set-user-id bit, such a file is a
 * program that every user of the machine who can reach it runs as that owner. "nosuid" of
 * the sandbox's own mount does not help, because they reach it by another mount. Clearing
 * the bits afterwards does not help either: one moment is enough. So no process in such a
 * sandbox may set them, on any file, because a filter sees numbers and not files.
 *
 * The bits are in an argument of all calls but openat2(2), which has its mode in memory,
 * where a filter cannot read it. init and its file workers need that call, and set no
 * such bits with it (files_resolve()); for all other processes, init refuses it
 * (exec_child.c).
 * The other ways to a new file's mode are refused by the first filter (io_uring), or
 * ignore set-id bits (mkdir(2), ACLs). File capabilities need CAP_SETFCAP, which the
 * sandbox does not get (child.c).
 *
 * The first filter, which is always loaded, kills processes that use another ABI, so the
 * numbers of calls are not ambiguous here.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/macro.h"
#include "os/seccomp.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

#define SET_ID_BITS (S_ISUID | S_ISGID)
/* Without one of these flags, the argument for the mode can have any value. */
#define SET_ID_CREATES ((uint32_t)(O_CREAT | (O_TMPFILE & ~O_DIRECTORY)))

/* The lower half of an argument; all supported machines are little-endian. */
#define SET_ID_LOAD(n) \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[n]))
#define SET_ID_ALLOW  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define SET_ID_REFUSE BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

/* The call @nr has the mode in argument @mode. */
#define SET_ID_MODE(nr, mode)                                                          \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(nr), 0, 4), SET_ID_LOAD(mode),  \
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SET_ID_BITS, 1, 0), SET_ID_ALLOW, \
		SET_ID_REFUSE

/* The mode of the call @nr counts if argument @flags says that a file is created. */
#define SET_ID_OPEN(nr, flags, mode)                                                   \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(nr), 0, 6), SET_ID_LOAD(flags), \
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SET_ID_CREATES, 0, 2),            \
		SET_ID_LOAD(mode),                                                     \
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SET_ID_BITS, 1, 0), SET_ID_ALLOW, \
		SET_ID_REFUSE

static const struct sock_filter set_id_filter[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	SET_ID_OPEN(SYS_openat, 2, 3),
	SET_ID_MODE(SYS_fchmod, 1),
	SET_ID_MODE(SYS_fchmodat, 2),
	SET_ID_MODE(SYS_fchmodat2, 2),
	SET_ID_MODE(SYS_mknodat, 2),
#ifdef SYS_open
	SET_ID_OPEN(SYS_open, 1, 2),
	SET_ID_MODE(SYS_creat, 1),
	SET_ID_MODE(SYS_chmod, 1),
	SET_ID_MODE(SYS_mknod, 1),
#endif
	SET_ID_ALLOW,
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "the lower half of an argument is elsewhere");

int seccomp_load_no_set_id(struct warren_error *err)
{
	const struct sock_fprog prog = {
		.len = ARRAY_SIZE(set_id_filter),
		.filter = (struct sock_filter *)set_id_filter,
	};

	return seccomp_load_program(&prog, err);
}
