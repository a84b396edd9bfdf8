/* SPDX-License-Identifier: Apache-2.0 */
/* mount.c - fsopen, fsmount, open_tree, move_mount, mount_setattr, openat2 */
#include "os/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#define OPENAT2_TRIES 256

/*
 * Read the kernel's explanation for a refused option from the descriptor of the
 * filesystem.
 */
static int mount_explain(int fs, const char *type, const char *what, int code,
			 struct warren_error *err)
{
	char words[200];
	ssize_t n = read(fs, words, sizeof(words) - 1);

	if (n <= 2)
		return error_errno(err, code, "mount %s: %s", type, what);
	words[n] = '\0';
	words[strcspn(words, "\n")] = '\0';
	return error_errno(err, code, "mount %s: %s (%s)", type, what, words + 2);
}

static int mount_set_options(int fs, const char *type, const struct mount_option *options,
			     struct warren_error *err)
{
	for (; options && options->key; options++) {
		unsigned cmd = options->value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;

		if (fsconfig(fs, cmd, options->key, options->value, 0) < 0)
			return mount_explain(fs, type, options->key, errno, err);
	}
	return 0;
}

int mount_change(int fd, const struct mount_option *options, struct warren_error *err)
{
	AUTO_CLOSE int fs = fspick(fd, "", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH);
	int r;

	if (fs < 0)
		return error_errno(err, errno, "open a filesystem");
	r = mount_set_options(fs, "again", options, err);
	if (r == 0 && fsconfig(fs, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0)
		r = mount_explain(fs, "again", "change", errno, err);
	return r;
}

int mount_new(const char *type, const struct mount_option *options, uint64_t attr,
	      int *ret_fd, struct warren_error *err)
{
	AUTO_CLOSE int fs = fsopen(type, FSOPEN_CLOEXEC);
	int fd, r;

	if (fs < 0)
		return error_errno(err, errno, "mount %s", type);
	r = mount_set_options(fs, type, options, err);
	if (r < 0)
		return r;
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return mount_explain(fs, type, "create", errno, err);
	fd = fsmount(fs, FSMOUNT_CLOEXEC, (unsigned)attr);
	if (fd < 0)
		return mount_explain(fs, type, "mount", errno, err);
	*ret_fd = fd;
	return 0;
}

/* Return " of '/path'" for messages, or an empty string if there is no path. */
static const char *mount_of(const char *path, char *out, size_t size)
{
	out[0] = '\0';
	if (*path)
		(void)snprintf(out, size, " of '%s'", path);
	return out;
}

/* Add @attr to the mount of @fd, and its id map if @userns >= 0. */
static int set_attr(int fd, const char *path, unsigned flags, uint64_t attr, int userns,
		    struct warren_error *err)
{
	struct mount_attr set = { .attr_set = attr };
	char of[256];

	if (userns >= 0) {
		set.attr_set |= MOUNT_ATTR_IDMAP;
		set.userns_fd = (uint64_t)userns;
	}
	if (!set.attr_set ||
	    mount_setattr(fd, "", AT_EMPTY_PATH | flags, &set, sizeof(set)) == 0)
		return 0;
	if (userns >= 0 && errno == EINVAL)
		return error_set(
			err, EOPNOTSUPP,
			"the filesystem%s (or one mounted below it) does not support "
			"id-mapped mounts",
			mount_of(path, of, sizeof(of)));
	return error_errno(err, errno, "set the attributes of the mount%s",
			   mount_of(path, of, sizeof(of)));
}

int mount_copy(int dirfd, const char *path, bool recursive, uint64_t attr, int userns,
	       int *ret_fd, struct warren_error *err)
{
	unsigned flags = recursive ? AT_RECURSIVE : 0;
	AUTO_CLOSE int fd = open_tree(
		dirfd, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | flags);
	char of[256];
	int r;

	if (fd < 0)
		return error_errno(err, errno, "copy the mount%s",
				   mount_of(path, of, sizeof(of)));
	r = set_attr(fd, path, flags, attr, userns, err);
	if (r < 0)
		return r;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int mount_idmap(int fd, int userns, struct warren_error *err)
{
	return set_attr(fd, "", 0, 0, userns, err);
}

unsigned mount_depth(const char *path)
{
	unsigned n = 0;

	for (; *path; path++)
		n += path[0] == '/' && path[1] != '/' && path[1] != '\0';
	return n;
}

int mount_attach(int mount_fd, int dirfd, const char *path, struct warren_error *err)
{
	unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | (*path ? 0 : MOVE_MOUNT_T_EMPTY_PATH);

	if (move_mount(mount_fd, "", dirfd, path, flags) < 0)
		return error_errno(err, errno, "attach a mount at '%s'", path);
	return 0;
}

int mount_restrict(int fd, uint64_t attr, struct warren_error *err)
{
	return set_attr(fd, "", 0, attr, -1, err);
}

int mount_openat2(int dirfd, const char *path, uint64_t flags, uint64_t mode,
		  uint64_t resolve)
{
	struct open_how how = { .flags = flags | O_CLOEXEC,
				.mode = mode,
				.resolve = resolve };
	long fd = -1;

	/* EAGAIN: a rename or a mount kept the kernel from checking a "..". */
	for (int tries = 0; tries < OPENAT2_TRIES; tries++) {
		fd = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
		if (fd >= 0 || errno != EAGAIN)
			break;
	}
	return fd < 0 ? -errno : (int)fd;
}
