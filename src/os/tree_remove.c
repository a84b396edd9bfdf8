/* SPDX-License-Identifier: Apache-2.0 */
/* tree_remove.c - remove a tree of any depth, with a limited number of descriptors */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/macro.h"
#include "os/mount.h"
#include "os/tree_restore_internal.h"

#define REMOVE_DEPTH_MAX    100
#define REMOVE_ENTRIES_SIZE (16U << 10)

struct remove_entry {
	uint64_t ino;
	int64_t off;
	uint16_t size;
	uint8_t type;
	char name[];
};

struct remove_state {
	int top;
	unsigned moved; /* number of directories that were moved to the top */
	struct {
		_Alignas(8) char entries[REMOVE_ENTRIES_SIZE];
	} levels[REMOVE_DEPTH_MAX];
};

int tree_open_root_dir(int dir, const char *name)
{
	return mount_openat2(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0,
			     RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS);
}

static void remove_moved_name(char name[48], unsigned number)
{
	(void)snprintf(name, 48, ".warren-removed-%u-%d", number, (int)getpid());
}

static int remove_one(struct remove_state *s, int dir, const char *name, unsigned depth);

/* Removing entries while a directory is read may skip other entries, so read it again. */
static int remove_entries(struct remove_state *s, int dir, unsigned depth)
{
	char *entries = s->levels[depth].entries;
	bool any = true;
	long n = 0;

	while (any) {
		any = false;
		if (lseek(dir, 0, SEEK_SET) < 0)
			return -errno;
		while ((n = syscall(SYS_getdents64, dir, entries, REMOVE_ENTRIES_SIZE)) >
		       0)
			for (long at = 0; at < n;) {
				const struct remove_entry *e =
					(const void *)(entries + at);
				int r;

				at += e->size;
				if (strcmp(e->name, ".") == 0 ||
				    strcmp(e->name, "..") == 0)
					continue;
				r = remove_one(s, dir, e->name, depth + 1);
				if (r < 0)
					return r;
				any = true;
			}
		if (n < 0)
			return errno == ENOENT ? 0 : -errno;
	}
	return 0;
}

/* A directory of this user that denies access, even to its owner. */
static int remove_open_denied(int dir, const char *name)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid())
		return -EACCES;
	if (fchmodat(dir, name, 0700, 0) < 0)
		return -errno;
	return tree_open_root_dir(dir, name);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as REMOVE_DEPTH_MAX */
static int remove_one(struct remove_state *s, int dir, const char *name, unsigned depth)
{
	AUTO_CLOSE int fd = -1;
	char moved[48];
	int r;

	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR)
		return -errno;
	if (depth >= REMOVE_DEPTH_MAX) {
		remove_moved_name(moved, s->moved);
		if (renameat(dir, name, s->top, moved) < 0)
			return -errno;
		s->moved++;
		return 0;
	}
	fd = tree_open_root_dir(dir, name);
	/* An overlay's directory for its own use denies everything, but is empty. */
	if (fd == -EACCES && unlinkat(dir, name, AT_REMOVEDIR) == 0)
		return 0;
	if (fd == -EACCES)
		fd = remove_open_denied(dir, name);
	/* Another process removes the same tree. */
	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return fd;
	/* Its owner may read it, but not remove its entries: only root always can. */
	if (geteuid() != 0)
		(void)fchmod(fd, 0700);
	r = remove_entries(s, fd, depth);
	if (r == 0 && unlinkat(dir, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		r = -errno;
	return r;
}

int tree_remove(int top, int dir, const char *name)
{
	struct remove_state *s;
	char moved[48];
	int r;

	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR)
		return -errno;
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (s == MAP_FAILED)
		return -ENOMEM;
	s->top = top;
	r = remove_one(s, dir, name, 0);
	for (unsigned i = 0; r == 0 && i < s->moved; i++) {
		remove_moved_name(moved, i);
		r = remove_one(s, top, moved, 0);
	}
	(void)munmap(s, sizeof(*s));
	return r;
}
