/* SPDX-License-Identifier: Apache-2.0 */
/* saved.c - checks before a copy of a sandbox's files, and changes after it */
#include "backend/saved.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/fd.h"
#include "base/hosts.h"

int saved_check_space(int from, int dir, struct warren_error *err)
{
	struct statvfs used, free;
	uint64_t need, have;

	if (fstatvfs(from, &used) < 0 || fstatvfs(dir, &free) < 0)
		return error_errno(err, errno, "find out how much space is free");
	need = (uint64_t)(used.f_blocks - used.f_bfree) * used.f_frsize;
	have = (uint64_t)free.f_bavail * free.f_frsize;
	if (need > have)
		return error_set(err, ENOSPC,
				 "its files need %ju bytes, and %ju bytes are free",
				 (uintmax_t)need, (uintmax_t)have);
	return 0;
}

void saved_drop_hosts(int dir, const char *hostname)
{
	char own[HOSTS_SIZE], found[HOSTS_SIZE];
	AUTO_CLOSE int etc =
		openat(dir, "etc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_CLOSE int fd =
		etc < 0 ? -1
			: openat(etc, "hosts",
				 O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	int n = hosts_text(own, hostname ? hostname : "");

	if (fd >= 0 && n > 0 && fd_read_all(fd, found, sizeof(found)) == n &&
	    memcmp(own, found, (size_t)n) == 0)
		(void)unlinkat(etc, "hosts", 0);
}
