/* SPDX-License-Identifier: Apache-2.0 */
/* streams.c - check descriptors before they are used */
#include "shim/core/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/macro.h"
#include "proto/init_proto.h"
#include "shim/core/driver.h"

#define CONFIGFS_MAGIC 0x62656570 /* not in linux/magic.h */
#define FUSECTL_MAGIC  0x65735543
#define MQUEUE_MAGIC   0x19800202
#define NOBODY         65534

/* Filesystems whose regular files are interfaces of the kernel. */
static const long unsigned doors[] = {
	PROC_SUPER_MAGIC,     SYSFS_MAGIC,    CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
	DEBUGFS_MAGIC,        TRACEFS_MAGIC,  SECURITYFS_MAGIC,   SELINUX_MAGIC,
	SMACK_MAGIC,          BPF_FS_MAGIC,   BINFMTFS_MAGIC,     EFIVARFS_MAGIC,
	PSTOREFS_MAGIC,       CONFIGFS_MAGIC, FUSECTL_MAGIC,      MQUEUE_MAGIC,
	RDTGROUP_SUPER_MAGIC, NSFS_MAGIC,
};

static bool stream_is_kernel_file(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(doors); i++)
		if ((unsigned long)fs.f_type == doors[i])
			return true;
	return false;
}

/* An eventfd is recognised by its name in /proc. */
static bool is_eventfd(int fd)
{
	char link[32], name[64];
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, name, sizeof(name) - 1);
	name[n > 0 ? n : 0] = '\0';
	return strcmp(name, "anon_inode:[eventfd]") == 0;
}

bool stream_is(int fd, unsigned kinds)
{
	int flags = fcntl(fd, F_GETFL);
	struct stat st;

	if (flags < 0 || fstat(fd, &st) < 0)
		return false;
	/*
	 * An O_PATH descriptor cannot be read or written, but is sufficient for a
	 * directory.
	 */
	if (flags & O_PATH && !(kinds & STREAM_DIR))
		return false;
	if (S_ISFIFO(st.st_mode))
		return kinds & STREAM_PIPE;
	if (S_ISREG(st.st_mode))
		return kinds & STREAM_FILE && !stream_is_kernel_file(fd);
	if (S_ISDIR(st.st_mode))
		return kinds & STREAM_DIR && !stream_is_kernel_file(fd);
	return kinds & STREAM_EVENT && (st.st_mode & S_IFMT) == 0 && is_eventfd(fd);
}

static int check_all(const int *fds, size_t n, unsigned kinds)
{
	for (size_t i = 0; i < n; i++)
		if (!stream_is(fds[i], kinds))
			return -EPROTO;
	return 0;
}

/* Make it non-blocking, because a full counter must not make the shim wait. */
static void never_wait(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0 && !(flags & O_NONBLOCK))
		(void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

static int check_spawn(const struct proto_spawn *msg, size_t size, const int *fds,
		       size_t n)
{
	int r = check_all(fds, n, STREAM_PIPE | STREAM_FILE | STREAM_EVENT);

	if (r < 0 || size < sizeof(*msg) || !(msg->flags & PROTO_SPAWN_JOURNAL))
		return r;
	if (n < 2 || !stream_is(fds[n - 2], STREAM_FILE) ||
	    !stream_is(fds[n - 1], STREAM_EVENT))
		return -EPROTO;
	never_wait(fds[n - 1]);
	return 0;
}

int streams_check(const void *msg, size_t size, const int *fds, size_t n_fds)
{
	const struct proto_header *h = msg;
	int r;

	switch (h->type) {
	case PROTO_SPAWN:
		return check_spawn(msg, size, fds, n_fds);
	case PROTO_ATTACH:
		r = check_all(fds, n_fds, STREAM_EVENT);
		for (size_t i = 0; r == 0 && i < n_fds; i++)
			never_wait(fds[i]);
		return r;
	case PROTO_LIST:
		return check_all(fds, n_fds, STREAM_FILE);
	case PROTO_OPEN:
	case PROTO_SCAN:
	case PROTO_CHANGE:
		return check_all(fds, n_fds, STREAM_FILE | STREAM_DIR);
	case PROTO_WATCH: /* not supported: close the descriptors */
		return 0;
	default:
		return n_fds == 0 ? 0 : -EPROTO;
	}
}

void shim_sandbox_drop_rights(void)
{
	if (geteuid() == 0 &&
	    (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
	     setresuid(NOBODY, NOBODY, NOBODY) < 0))
		_exit(127);
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}
