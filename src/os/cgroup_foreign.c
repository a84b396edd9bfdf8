/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup_foreign.c - a cgroup of another engine: find it by a process in it, and read it
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "os/cgroup.h"

#define MOUNT_POINT "/sys/fs/cgroup"
#define TEXT_MAX    8192

/* Find the cgroup that counts memory in lines "N:controllers:/path" (v2: "0::/path"). */
static const char *find_memory(char *text, bool *ret_v1)
{
	const char *unified = NULL, *legacy = NULL;
	char *rest = text, *line;

	while ((line = strsep(&rest, "\n"))) {
		char *list = strchr(line, ':');
		char *path = list ? strchr(list + 1, ':') : NULL;

		if (!path)
			continue;
		*path++ = '\0';
		if (strcmp(list, ":") == 0)
			unified = path;
		else if (strcmp(list, ":memory") == 0)
			legacy = path;
	}
	*ret_v1 = legacy;
	return legacy ? legacy : unified;
}

int cgroup_memory_of(int proc)
{
	char text[TEXT_MAX], path[TEXT_MAX + 32];
	const char *group;
	bool v1;
	int fd;

	if (fd_read_file_at(proc, "cgroup", text, sizeof(text)) <= 0)
		return -ESRCH;
	group = find_memory(text, &v1);
	/* A cgroup outside of this process's cgroup namespace has no path here. */
	if (!group || group[0] != '/' || strncmp(group, "/..", 3) == 0)
		return -ENOENT;
	(void)snprintf(path, sizeof(path), MOUNT_POINT "%s%s", v1 ? "/memory" : "",
		       group);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int cgroup_kills(int dir, uint64_t *ret)
{
	int r = fd_read_key_at(dir, "memory.events", "oom_kill", ret);

	return r < 0 ? fd_read_key_at(dir, "memory.oom_control", "oom_kill", ret) : r;
}
