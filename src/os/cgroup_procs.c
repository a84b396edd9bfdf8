/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup_procs.c - the processes of a sandbox's cgroup */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"
#include "os/cgroup.h"

static int cgroup_procs_read(int dir, const char *path, bool (*fn)(void *ctx, pid_t pid),
			     void *ctx)
{
	AUTO_CLOSE int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	char *line = NULL;
	size_t size = 0;
	bool go_on = true;

	if (!f)
		return errno == ENOENT ? 0 : -errno;
	fd = -1; /* fclose() closes it */
	while (go_on && getline(&line, &size, f) > 0) {
		pid_t pid = (pid_t)strtol(line, NULL, 10);

		if (pid > 0) /* 0: of another pid namespace */
			go_on = fn(ctx, pid);
	}
	free(line);
	(void)fclose(f);
	return go_on ? 0 : 1;
}

int cgroup_processes(const struct cgroup_root *root, const char *id,
		     bool (*fn)(void *ctx, pid_t pid), void *ctx)
{
	static const char *const v1[] = { "", NULL };
	static const char *const v2[] = { "/box", "/box/e0", NULL };
	int r = root->dir[CGROUP_FREEZER] < 0 ? -EOPNOTSUPP : 0;
	char path[64];

	for (const char *const *p = root->mode == CGROUP_V2 ? v2 : v1; r == 0 && *p;
	     p++) {
		(void)snprintf(path, sizeof(path), "%s%s/cgroup.procs", id, *p);
		r = cgroup_procs_read(root->dir[CGROUP_FREEZER], path, fn, ctx);
	}
	return r < 0 ? r : 0;
}
