/* SPDX-License-Identifier: Apache-2.0 */
/* saved.c - find the saved files and memory of a sandbox that hibernates */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/fd.h"
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
