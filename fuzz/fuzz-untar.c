/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-untar.c - any bytes as an archive: files are created in its directory only
 *
 * The bits of the first byte choose how it is read (1: whiteouts, 2: an outer archive, 4:
 * as an ordinary user). The archive is unpacked in a small tmpfs that is not mounted
 * anywhere and has a canary file next to the directory; for an ordinary user, in a user
 * namespace.
 */
#include <assert.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "image/unpack_internal.h"
#include "os/mount.h"

#define FUZZ_SKIP 77

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int make_place(int *ret_dir)
{
	static const struct mount_option small[] = { { "size", "4m" },
						     { "nr_inodes", "600" },
						     { NULL, NULL } };
	static bool unshared;
	struct warren_error err = WARREN_ERROR_INIT;
	int top = -1;

	if (!unshared && geteuid() != 0)
		(void)unshare(CLONE_NEWUSER | CLONE_NEWNS);
	unshared = true;
	if (mount_new("tmpfs", small, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID, &top, &err) <
	    0) {
		(void)printf("%s\n", err.msg);
		exit(FUZZ_SKIP);
	}
	assert(mkdirat(top, "in", 0755) == 0 &&
	       mknodat(top, "canary", S_IFREG | 0644, 0) == 0);
	*ret_dir = openat(top, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return top;
}

static void check_canary(int top, const struct stat *before)
{
	struct stat st;

	assert(fstatat(top, "canary", &st, AT_SYMLINK_NOFOLLOW) == 0);
	assert(st.st_mode == before->st_mode && st.st_nlink == 1 && st.st_size == 0 &&
	       st.st_uid == before->st_uid &&
	       st.st_mtim.tv_sec == before->st_mtim.tv_sec &&
	       st.st_ctim.tv_nsec == before->st_ctim.tv_nsec);
	/* Its links are its name, its ".", and the ".." of the only directory in it. */
	assert(fstat(top, &st) == 0 && st.st_nlink == 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_CLOSE int in = memfd_create("in", MFD_CLOEXEC), top = -1, dir = -1;
	struct warren_error err = WARREN_ERROR_INIT;
	struct unpack_report report = { 0 };
	struct unpack_rules rules = { .entries_max = 500 };
	struct stat before;
	int r;

	if (size == 0 || in < 0)
		return 0;
	rules.overlay = *data & 1;
	rules.spool = *data & 2;
	rules.own_ids = !(*data & 6) && geteuid() == 0;
	if (fd_write_all(in, data + 1, size - 1) < 0 || lseek(in, 0, SEEK_SET) < 0)
		return 0;
	top = make_place(&dir);
	assert(dir >= 0 && fstatat(top, "canary", &before, 0) == 0);
	r = unpack_untar(in, dir, &rules, &report, &err);
	assert(r == 0 || (r < 0 && err.code == -r && err.msg[0]));
	assert(report.entries <= rules.entries_max + 1);
	check_canary(top, &before);
	return 0;
}
