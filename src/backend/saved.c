/* SPDX-License-Identifier: Apache-2.0 */
/* saved.c - checks before a copy of a sandbox's files, and changes after it */
#include "backend/saved.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/fd.h"
#include "base/hosts.h"

static int saved_no_space(uint64_t need, uint64_t have, struct warren_error *err)
{
	return error_set(err, ENOSPC, "its files need %ju bytes, and %ju bytes are free",
			 (uintmax_t)need, (uintmax_t)have);
}

int saved_check_space(int from, int dir, struct warren_error *err)
{
	struct statvfs used, free;
	uint64_t need, have;

	if (fstatvfs(from, &used) < 0 || fstatvfs(dir, &free) < 0)
		return error_errno(err, errno, "find out how much space is free");
	need = (uint64_t)(used.f_blocks - used.f_bfree) * used.f_frsize;
	have = (uint64_t)free.f_bavail * free.f_frsize;
	return need > have ? saved_no_space(need, have, err) : 0;
}

uint64_t saved_free_space(int dir)
{
	struct statvfs free;

	return fstatvfs(dir, &free) < 0 ? 0 : (uint64_t)free.f_bavail * free.f_frsize;
}

int saved_explain_space(int from, uint64_t have, struct warren_error *err)
{
	char path[40];
	char *const paths[] = { path, NULL };
	uint64_t need = 0;
	FTSENT *e;
	FTS *f;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/.", from);
	f = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
	while (f && (e = fts_read(f)))
		if (e->fts_info == FTS_F || e->fts_info == FTS_D)
			need += (uint64_t)e->fts_statp->st_blocks * 512;
	if (f)
		(void)fts_close(f);
	return saved_no_space(need, have, err);
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
	struct timespec times[2];
	struct stat st;

	if (fd < 0 || n <= 0 || fd_read_all(fd, found, sizeof(found)) != n ||
	    memcmp(own, found, (size_t)n) != 0 || fstat(etc, &st) < 0 ||
	    unlinkat(etc, "hosts", 0) < 0)
		return;
	/* The user has not changed the directory, and equal layers are stored once. */
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	(void)futimens(etc, times);
}
