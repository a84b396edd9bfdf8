/* SPDX-License-Identifier: Apache-2.0 */
/* mount.h - the mount API of Linux 5.2, for which musl has no wrappers */
#ifndef COMPAT_SYS_MOUNT_H
#define COMPAT_SYS_MOUNT_H

#include_next <sys/mount.h>

#include <linux/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline int fsopen(const char *type, unsigned flags)
{
	return (int)syscall(SYS_fsopen, type, flags);
}

static inline int fspick(int at, const char *path, unsigned flags)
{
	return (int)syscall(SYS_fspick, at, path, flags);
}

static inline int fsconfig(int fd, unsigned cmd, const char *key, const void *value,
			   int aux)
{
	return (int)syscall(SYS_fsconfig, fd, cmd, key, value, aux);
}

static inline int fsmount(int fd, unsigned flags, unsigned attr)
{
	return (int)syscall(SYS_fsmount, fd, flags, attr);
}

static inline int open_tree(int at, const char *path, unsigned flags)
{
	return (int)syscall(SYS_open_tree, at, path, flags);
}

static inline int move_mount(int from_at, const char *from, int to_at, const char *to,
			     unsigned flags)
{
	return (int)syscall(SYS_move_mount, from_at, from, to_at, to, flags);
}

static inline int mount_setattr(int at, const char *path, unsigned flags,
				struct mount_attr *attr, size_t size)
{
	return (int)syscall(SYS_mount_setattr, at, path, flags, attr, size);
}

#endif
