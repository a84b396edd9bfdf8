/* SPDX-License-Identifier: Apache-2.0 */
/* saved.c - checks before a copy of a sandbox's files, and changes after it */
#include "backend/saved.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/fd.h"
#include "base/hosts.h"
#include "os/tree_copy.h"
#include "os/tree_walk.h"

/* A part of a filesystem that stays free, and limits for it. */
#define KEEP_PART 64
#define KEEP_MIN  (8ULL << 20)
#define KEEP_MAX  (128ULL << 20)
#define COUNT_MAX 2000000 /* files that are counted */

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

/* ------------------------------------------------------ trees of a shared filesystem */

void saved_look_at_space(int dir, struct saved_space *ret)
{
	struct statvfs fs;
	uint64_t size, free;

	*ret = (struct saved_space){ .bytes = UINT64_MAX, .files = UINT64_MAX };
	if (fstatvfs(dir, &fs) < 0 || fs.f_blocks == 0)
		return;
	size = (uint64_t)fs.f_blocks * fs.f_frsize;
	free = (uint64_t)fs.f_bavail * fs.f_frsize;
	ret->keep = size / KEEP_PART < KEEP_MIN   ? KEEP_MIN
		    : size / KEEP_PART > KEEP_MAX ? KEEP_MAX
						  : size / KEEP_PART;
	ret->bytes = free > ret->keep ? free - ret->keep : 0;
	if (fs.f_files)
		ret->files = fs.f_favail > TREE_COPY_KEEP_INODES
				     ? fs.f_favail - TREE_COPY_KEEP_INODES
				     : 0;
}

static int saved_count_one(struct tree_walk *w, const struct tree_pair *pair)
{
	struct saved_space *need = w->ctx;
	const struct stat *st = &pair->new.st;

	if (need->files >= COUNT_MAX)
		return -E2BIG;
	need->files++;
	need->bytes += (uint64_t)st->st_blocks * 512 / (st->st_nlink ? st->st_nlink : 1);
	return S_ISDIR(st->st_mode);
}

/* Return whether the whole tree was counted. */
static bool saved_count(int from, struct saved_space *need)
{
	const struct tree_side none = tree_side(-1, -1), side = tree_side(from, -1);
	AUTO_FREE struct tree_walk *w = calloc(1, sizeof(*w));

	*need = (struct saved_space){ 0 };
	if (!w)
		return false;
	w->visit = saved_count_one;
	w->ctx = need;
	return tree_walk(w, &none, &side) == 0 && !w->too_deep;
}

static int saved_refuse_tree(const struct saved_space *need, bool all,
			     const struct saved_space *have, struct warren_error *err)
{
	const char *least = all ? "" : "at least ";

	if (need->bytes > have->bytes)
		return error_set(err, ENOSPC,
				 "its files need %s%ju bytes, and %ju bytes are free",
				 least, (uintmax_t)need->bytes, (uintmax_t)have->bytes);
	if (need->files > have->files)
		return error_set(err, ENOSPC,
				 "its files need %s%ju inodes, and %ju inodes are free",
				 least, (uintmax_t)need->files, (uintmax_t)have->files);
	return 0;
}

int saved_check_tree(int from, const struct saved_space *have, struct warren_error *err)
{
	struct saved_space need;
	bool all = saved_count(from, &need);

	return saved_refuse_tree(&need, all, have, err);
}

int saved_explain_space(int from, const struct saved_space *have,
			struct warren_error *err)
{
	struct saved_space need;
	bool all = saved_count(from, &need);

	if (saved_refuse_tree(&need, all, have, err) < 0)
		return -ENOSPC;
	return error_set(err, ENOSPC,
			 "its files need %s%ju bytes and %ju inodes, and others have "
			 "used up the free space",
			 all ? "" : "at least ", (uintmax_t)need.bytes,
			 (uintmax_t)need.files);
}

int saved_exists(int dir, const char *name, struct warren_error *err)
{
	if (faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 1;
	return errno == ENOENT ? 0 : error_errno(err, errno, "look for '%s'", name);
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
