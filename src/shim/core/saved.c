/* SPDX-License-Identifier: Apache-2.0 */
/* saved.c - find the saved files and memory of a sandbox that hibernates */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "proto/init_proto.h"
#include "shim/core/driver.h"

int shim_sandbox_saved(const struct shim_sandbox *p, const char *name, int flags)
{
	AUTO_CLOSE int dir =
		p->saved_dir ? open(p->saved_dir, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	char path[ID_LEN + 16];
	int fd;

	if (dir < 0)
		return p->saved_dir ? -errno : -ENOENT;
	(void)snprintf(path, sizeof(path), "%s%s%s", p->id, name[0] ? "/" : "", name);
	fd = openat(dir, path, flags | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

bool shim_sandbox_is_saved(const struct shim_sandbox *p)
{
	AUTO_CLOSE int fd = shim_sandbox_saved(p, "", O_PATH | O_DIRECTORY);

	return fd >= 0;
}

bool shim_sandbox_is_reset(const struct shim_sandbox *p)
{
	AUTO_CLOSE int fd = shim_sandbox_saved(p, SHIM_SAVED_RESET, O_PATH);

	return fd >= 0;
}

bool shim_sandbox_is_copied(const struct shim_sandbox *p)
{
	AUTO_CLOSE int dir =
		p->saved_dir ? open(p->saved_dir, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	char name[sizeof(PROTO_FROZEN_PREFIX) + ID_LEN];

	(void)snprintf(name, sizeof(name), PROTO_FROZEN_PREFIX "%s", p->id);
	return dir >= 0 && faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

ssize_t shim_sandbox_saved_image(const struct shim_sandbox *p, char *text, size_t size)
{
	AUTO_CLOSE int fd = shim_sandbox_saved(p, SHIM_SAVED_IMAGE, O_RDONLY);
	ssize_t n = fd < 0 ? fd : fd_read_all(fd, text, size - 1);

	text[n > 0 ? n : 0] = '\0';
	return n;
}
