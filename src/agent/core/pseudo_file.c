/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pseudo_file.c - files whose contents the kernel makes up: /proc, /sys, cgroups
 *
 * Such a file has no size, or a wrong one, and what it says depends on the process that
 * reads it. So a file worker reads it, and its client gets a copy.
 *
 * In /proc, the files of a process show its memory and its descriptors, and a worker
 * would find its own there, which code in the sandbox must not see. So only some of them
 * are read (proc_path.h). Their path is that of the descriptor: no link can hide it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <linux/stat.h>
#include <sys/statfs.h>

#include "agent/core/agent.h"
#include "agent/core/proc_path.h"

#define COPY_MAX (1U << 20)

/* Return whether the open file is one of /proc that may be read. */
static bool pseudo_file_may_read(int fd)
{
	static char path[4096];
	long n = SYS_4(SYS_readlinkat, AT_FDCWD, files_name_of(fd), path, sizeof(path));
	int own = (int)SYS_0(SYS_getpid);

	if (n <= 0 || n == (long)sizeof(path))
		return false;
	path[n] = '\0';
	/* The guest agent may be pid 1, which every process in the sandbox can see. */
	return proc_path_may_read(path, own == 1 ? 0 : own);
}

static long pseudo_file_write(int fd, const char *data, size_t n)
{
	while (n > 0) {
		long r = sys_write(fd, data, n);

		if (r <= 0)
			return r < 0 ? r : -EIO;
		data += r;
		n -= (size_t)r;
	}
	return 0;
}

/* Copy what can be read from @fd to a new file. */
static long pseudo_file_copy(int fd)
{
	static char piece[16384];
	long copy = SYS_2(SYS_memfd_create, "copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	size_t whole = 0;
	long n = copy;

	while (copy >= 0 && (n = sys_read(fd, piece, sizeof(piece))) > 0) {
		whole += (size_t)n;
		n = whole > COPY_MAX ? -EFBIG
				     : pseudo_file_write((int)copy, piece, (size_t)n);
		if (n < 0)
			break;
	}
	if (copy >= 0 && n < 0)
		sys_close(copy);
	else if (copy >= 0)
		(void)SYS_3(SYS_fcntl, copy, F_ADD_SEALS,
			    F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
	return n < 0 ? n : copy;
}

static bool pseudo_file_is(long type)
{
	return type == SYSFS_MAGIC || type == CGROUP_SUPER_MAGIC ||
	       type == CGROUP2_SUPER_MAGIC;
}

long pseudo_file_replace(int fd, int flags)
{
	struct statfs fs = { 0 };
	struct statx stx = { 0 };
	bool unknown = SYS_2(SYS_fstatfs, fd, &fs) < 0 ||
		       SYS_5(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE, &stx) < 0;
	bool proc = unknown || fs.f_type == PROC_SUPER_MAGIC;
	bool reads = init.is_worker && !(flags & (O_ACCMODE | O_PATH)) &&
		     (stx.stx_mode & S_IFMT) == S_IFREG;
	long r = -EACCES;

	if (!proc && !(reads && pseudo_file_is(fs.f_type)))
		return fd;
	if (!unknown && reads && (!proc || pseudo_file_may_read(fd)))
		r = pseudo_file_copy(fd);
	sys_close(fd);
	return r;
}
