/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree_copy.c - copy a tree depth first, with one open directory on each side
 *
 * Each directory is read once: its files are copied immediately, and the names of its
 * subdirectories are pushed on a stack. To go back up, the copy opens ".." and checks
 * that it is the directory from which it came. When a file with several names is copied
 * for the first time, it is also linked into a temporary directory, under its inode
 * number. Its other names are created as links to that.
 */
#include "os/tree_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/macro.h"

#define ENTRIES_SIZE (64U << 10)
#define VALUE_SIZE   (64U << 10) /* XATTR_SIZE_MAX */
#define LIST_SIZE    (64U << 10) /* XATTR_LIST_MAX */
#define SEND_SIZE    (16UL << 20)
#define NAMES_MAX    (256UL << 20) /* maximum size of the names of directories */
/* With tree_copy.keep_free: */
#define SEND_KEEP  (4UL << 20) /* bytes that are copied between two checks */
#define KEEP_EVERY 64          /* files that are copied between two checks */

struct copy_entry {
	uint64_t ino;
	int64_t off;
	uint16_t size;
	uint8_t type;
	char name[];
};

struct copy_level {
	ino_t from, to;     /* inode numbers */
	size_t names;       /* where the names of its subdirectories begin */
	size_t path_length; /* length of its path, for messages */
};

/* The state of a copy, in one mapping. */
struct copy_state {
	struct tree_copy *c;
	struct warren_error *err;
	int from, to; /* the current directories */
	int links;    /* the directory of links; -1: none yet */
	char links_name[32];
	int depth;
	struct copy_level levels[TREE_COPY_DEPTH_MAX + 1];
	char path[4096]; /* of the current directory, "/..." */
	_Alignas(8) char entries[ENTRIES_SIZE];
	char list[LIST_SIZE];
	char value[VALUE_SIZE];
	char target[4096];
	char *names; /* directories that are still to be copied: "a\0b\0" */
	size_t names_used, names_size;
};

static int copy_failed(const struct copy_state *s, int code, const char *what,
		       const char *name)
{
	return error_errno(s->err, code, "%s '%.400s%s%.100s'", what, s->path,
			   s->path[0] && name[0] ? "/" : "", name);
}

/* ------------------------------------------------------------------ attributes */

/* Return whether an attribute belongs to the file, and not to overlayfs. */
static bool keeps_attribute(const char *name)
{
	static const char *const marks[] = { "user.overlay.opaque",
					     "user.overlay.whiteout" };

	if (strncmp(name, "user.overlay.", 13) != 0)
		return strncmp(name, "trusted.", 8) != 0;
	/* The sandbox itself set such an attribute, and overlayfs escaped its name. */
	if (strncmp(name, "user.overlay.overlay.", 21) == 0)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (strcmp(name, marks[i]) == 0)
			return true;
	return false;
}

/*
 * Replace the prefix @from of @name by @to: 1; 0: it begins with something else;
 * -ENAMETOOLONG.
 */
static int attribute_prefix(char name[XATTR_NAME_MAX + 1], const char *from,
			    const char *to)
{
	size_t n = strlen(from), m = strlen(to), size;

	if (strncmp(name, from, n) != 0)
		return 0;
	size = strlen(name + n) + 1;
	if (m + size > XATTR_NAME_MAX + 1)
		return -ENAMETOOLONG;
	(void)memmove(name + m, name + n, size);
	(void)memcpy(name, to, m);
	return 1;
}

static int attribute_to_trusted(char name[XATTR_NAME_MAX + 1])
{
	if (!keeps_attribute(name))
		return 0;
	if (attribute_prefix(name, "user.overlay.overlay.", "user.overlay."))
		return 1;
	return attribute_prefix(name, "user.overlay.", "trusted.overlay.") < 0
		       ? -ENAMETOOLONG
		       : 1;
}

static int attribute_from_trusted(char name[XATTR_NAME_MAX + 1])
{
	/* A file with one of these is incomplete without the layers below it. */
	static const char *const incomplete[] = { "trusted.overlay.redirect",
						  "trusted.overlay.metacopy" };
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(incomplete); i++)
		if (strcmp(name, incomplete[i]) == 0)
			return -EOPNOTSUPP;
	if (strncmp(name, "trusted.overlay.overlay.", 24) == 0)
		return 0;
	r = attribute_prefix(name, "user.overlay.", "user.overlay.overlay.");
	if (r != 0)
		return r;
	r = attribute_prefix(name, "trusted.overlay.", "user.overlay.");
	return r < 0 ? r : keeps_attribute(name);
}

/* Get the name of an attribute in the copy: 1; 0: it is dropped; -errno. */
static int attribute_name(enum tree_copy_marks marks, char name[XATTR_NAME_MAX + 1])
{
	return marks == TREE_COPY_TO_TRUSTED     ? attribute_to_trusted(name)
	       : marks == TREE_COPY_FROM_TRUSTED ? attribute_from_trusted(name)
						 : keeps_attribute(name);
}

static int copy_attributes(struct copy_state *s, int from, int to)
{
	ssize_t n = flistxattr(from, s->list, sizeof(s->list));

	if (n < 0)
		return errno == EOPNOTSUPP ? 0 : -errno;
	for (const char *name = s->list; name < s->list + n; name += strlen(name) + 1) {
		char kept[XATTR_NAME_MAX + 1] = "";
		ssize_t size;
		int r;

		(void)snprintf(kept, sizeof(kept), "%.*s", XATTR_NAME_MAX, name);
		r = attribute_name(s->c->marks, kept);
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		size = fgetxattr(from, name, s->value, sizeof(s->value));
		if (size < 0 || fsetxattr(to, kept, s->value, (size_t)size, 0) < 0)
			return -errno;
	}
	return 0;
}

static void copy_times(const struct stat *st, struct timespec times[2])
{
	times[0] = st->st_atim;
	times[1] = st->st_mtim;
}

/* Set the owner first, because changing it clears set-id bits and file capabilities. */
static int copy_meta(struct copy_state *s, int from, int to, const struct stat *st)
{
	struct timespec times[2];
	int r;

	if ((st->st_uid || st->st_gid) && fchown(to, st->st_uid, st->st_gid) < 0)
		return -errno;
	r = copy_attributes(s, from, to);
	if (r < 0)
		return r;
	if (fchmod(to, st->st_mode & 07777) < 0)
		return -errno;
	copy_times(st, times);
	return futimens(to, times) < 0 ? -errno : 0;
}

/* For a file that cannot be opened: a link or a named pipe. */
static int copy_meta_at(struct copy_state *s, const char *name, const struct stat *st)
{
	struct timespec times[2];

	if ((st->st_uid || st->st_gid) &&
	    fchownat(s->to, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISLNK(st->st_mode) && fchmodat(s->to, name, st->st_mode & 07777, 0) < 0)
		return -errno;
	copy_times(st, times);
	return utimensat(s->to, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* -------------------------------------------------------------------- contents */

static int copy_check_free(const struct tree_copy *c, int to, uint64_t more)
{
	struct statvfs fs;

	if (!c->keep_free)
		return 0;
	if (fstatvfs(to, &fs) < 0)
		return -errno;
	if (fs.f_blocks && (uint64_t)fs.f_bavail * fs.f_frsize < c->keep_free + more)
		return -ENOSPC;
	return fs.f_files && fs.f_favail < TREE_COPY_KEEP_INODES ? -ENOSPC : 0;
}

static int copy_range(struct tree_copy *c, int from, int to, off_t at, off_t end)
{
	const size_t most = c->keep_free ? SEND_KEEP : SEND_SIZE;
	uint64_t max = c->max_bytes;

	if (max && (uint64_t)(end - at) > max - c->bytes)
		return -EFBIG;
	if (lseek(to, at, SEEK_SET) < 0)
		return -errno;
	while (at < end) {
		size_t want = (size_t)(end - at) < most ? (size_t)(end - at) : most;
		int r = copy_check_free(c, to, want);
		ssize_t n;

		if (r < 0)
			return r;
		n = sendfile(to, from, &at, want);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ESTALE; /* the file became shorter */
		c->bytes += (uint64_t)n;
	}
	return 0;
}

int tree_copy_contents(struct tree_copy *c, int from, int to, const struct stat *st)
{
	off_t at = 0;

	if ((uint64_t)st->st_blocks * 512 >= (uint64_t)st->st_size)
		return copy_range(c, from, to, 0, st->st_size);
	if (ftruncate(to, st->st_size) < 0)
		return -errno;
	for (;;) {
		off_t end;
		int r;

		at = lseek(from, at, SEEK_DATA);
		if (at < 0)
			return errno == ENXIO ? 0 : -errno;
		end = lseek(from, at, SEEK_HOLE);
		if (end < 0)
			return -errno;
		r = copy_range(c, from, to, at, end < st->st_size ? end : st->st_size);
		if (r < 0)
			return r;
		at = end;
	}
}

static int copy_regular(struct copy_state *s, const char *name, const struct stat *st)
{
	AUTO_CLOSE int from =
		openat(s->from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	AUTO_CLOSE int to = -1;
	struct stat now;
	int r;

	if (from < 0 || fstat(from, &now) < 0)
		return -errno;
	if (!S_ISREG(now.st_mode) || now.st_ino != st->st_ino)
		return -ESTALE;
	to = openat(s->to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	if (to < 0)
		return -errno;
	r = st->st_size > 0 ? tree_copy_contents(s->c, from, to, st) : 0;
	return r < 0 ? r : copy_meta(s, from, to, st);
}

static int copy_symlink(struct copy_state *s, const char *name, const struct stat *st)
{
	ssize_t n = readlinkat(s->from, name, s->target, sizeof(s->target) - 1);

	if (n < 0)
		return -errno;
	s->target[n] = '\0';
	if (symlinkat(s->target, s->to, name) < 0)
		return -errno;
	return copy_meta_at(s, name, st);
}

/* A named pipe or a whiteout, which is a device of number 0. */
static int copy_node(struct copy_state *s, const char *name, const struct stat *st)
{
	if (mknodat(s->to, name, st->st_mode & (S_IFMT | 0777), 0) < 0)
		return -errno;
	return S_ISFIFO(st->st_mode) ? copy_meta_at(s, name, st) : 0;
}

/* ------------------------------------------------------------------ hard links */

/* Create the directory of links in the current directory of the copy. */
static int copy_make_links(struct copy_state *s)
{
	uint64_t number = 0;

	if (getrandom(&number, sizeof(number), 0) < 0)
		return -errno;
	(void)snprintf(s->links_name, sizeof(s->links_name), ".links-%016jx",
		       (uintmax_t)number);
	if (mkdirat(s->to, s->links_name, 0700) < 0)
		return -errno;
	s->links = openat(s->to, s->links_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return s->links < 0 ? -errno : 0;
}

/* If another name of the file was copied, link to it: 1; otherwise 0, or -errno. */
static int link_copied(struct copy_state *s, const char *name, const struct stat *st)
{
	char number[24];

	(void)snprintf(number, sizeof(number), "%ju", (uintmax_t)st->st_ino);
	if (linkat(s->links, number, s->to, name, 0) == 0)
		return 1;
	return errno == ENOENT ? 0 : -errno;
}

static int note_copied(struct copy_state *s, const char *name, const struct stat *st)
{
	struct tree_copy *c = s->c;
	char number[24];

	c->linked++;
	c->linked_paths += strlen(s->path) + strlen(name) + 2;
	if (c->max_linked &&
	    (c->linked > c->max_linked || c->linked_paths > c->max_linked_paths))
		return -E2BIG;
	(void)snprintf(number, sizeof(number), "%ju", (uintmax_t)st->st_ino);
	return linkat(s->to, name, s->links, number, 0) < 0 ? -errno : 0;
}

/* Remove the directory of links, which is at the top of the copy. */
static int remove_links(struct copy_state *s)
{
	AUTO_CLOSE int dir = openat(s->links, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long n;

	if (dir < 0)
		return -errno;
	/* Removing entries while reading may skip others, so read again. */
	while ((n = syscall(SYS_getdents64, dir, s->entries, sizeof(s->entries))) > 0) {
		bool any = false;

		for (long at = 0; at < n;) {
			const struct copy_entry *e = (const void *)(s->entries + at);

			at += e->size;
			if (e->name[0] == '.')
				continue;
			if (unlinkat(dir, e->name, 0) < 0)
				return -errno;
			any = true;
		}
		if (any && lseek(dir, 0, SEEK_SET) < 0)
			return -errno;
	}
	if (n < 0 || unlinkat(s->to, s->links_name, AT_REMOVEDIR) < 0)
		return -errno;
	return 0;
}

/* ----------------------------------------------------------------- directories */

static int push_name(struct copy_state *s, const char *name)
{
	size_t size = strlen(name) + 1;

	if (s->names_size - s->names_used < size) {
		size_t new_size = s->names_size * 2;
		char *grown = new_size > NAMES_MAX ? MAP_FAILED
						   : mremap(s->names, s->names_size,
							    new_size, MREMAP_MAYMOVE);

		if (grown == MAP_FAILED)
			return -ENOMEM;
		s->names = grown;
		s->names_size = new_size;
	}
	(void)memcpy(s->names + s->names_used, name, size);
	s->names_used += size;
	return 0;
}

/* The name stays valid until the next one is pushed. */
static const char *pop_name(struct copy_state *s)
{
	const char *end = memrchr(s->names, '\0', s->names_used - 1);

	s->names_used = end ? (size_t)(end - s->names) + 1 : 0;
	return s->names + s->names_used;
}

static int copy_file(struct copy_state *s, const char *name, const struct stat *st)
{
	bool many = st->st_nlink > 1;
	int r = 0;

	if (many)
		r = link_copied(s, name, st);
	if (r != 0)
		return r < 0 ? r : 0;
	if (S_ISREG(st->st_mode))
		r = copy_regular(s, name, st);
	else if (S_ISLNK(st->st_mode))
		r = copy_symlink(s, name, st);
	else
		r = copy_node(s, name, st);
	return r == 0 && many ? note_copied(s, name, st) : r;
}

static int copy_one(struct copy_state *s, const char *name)
{
	struct stat st;
	int r;

	if (fstatat(s->from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return copy_failed(s, errno, "read", name);
	if (S_ISSOCK(st.st_mode)) {
		s->c->sockets++;
		return 0;
	}
	r = s->c->files++ % KEEP_EVERY ? 0 : copy_check_free(s->c, s->to, 0);
	if (r < 0)
		return copy_failed(s, -r, "copy", name);
	if (s->c->only_root && (st.st_uid || st.st_gid))
		return error_set(s->err, EOPNOTSUPP,
				 "'%.400s/%.100s' belongs to %s %u: only root can save "
				 "files of users and groups other than root",
				 s->path, name, st.st_uid ? "user" : "group",
				 (unsigned)(st.st_uid ? st.st_uid : st.st_gid));
	if (S_ISDIR(st.st_mode)) {
		r = push_name(s, name);
		return r < 0 ? copy_failed(s, -r, "copy", name) : 0;
	}
	if (S_ISBLK(st.st_mode) || (S_ISCHR(st.st_mode) && st.st_rdev != 0))
		return error_set(s->err, EPERM,
				 "'%.400s/%.100s' is a device, which cannot be copied",
				 s->path, name);
	r = copy_file(s, name, &st);
	if (r == -E2BIG)
		return error_set(s->err, E2BIG,
				 "it has too many files with several names (hard links): "
				 "more than %ju, or their paths are too long",
				 (uintmax_t)s->c->max_linked);
	return r < 0 ? copy_failed(s, -r, "copy", name) : 0;
}

static int copy_entries(struct copy_state *s)
{
	long n;

	while ((n = syscall(SYS_getdents64, s->from, s->entries, sizeof(s->entries))) > 0)
		for (long at = 0; at < n;) {
			const struct copy_entry *e = (const void *)(s->entries + at);
			int r;

			at += e->size;
			if (strcmp(e->name, ".") == 0 || strcmp(e->name, "..") == 0)
				continue;
			r = copy_one(s, e->name);
			if (r < 0)
				return r;
		}
	return n < 0 ? copy_failed(s, errno, "read", "") : 0;
}

static void replace_fd(int *fd, int new)
{
	(void)close(*fd);
	*fd = new;
}

static int enter_level(struct copy_state *s)
{
	struct copy_level *l = &s->levels[s->depth];
	struct stat from, to;

	if (fstat(s->from, &from) < 0 || fstat(s->to, &to) < 0)
		return copy_failed(s, errno, "read", "");
	*l = (struct copy_level){ .from = from.st_ino,
				  .to = to.st_ino,
				  .names = s->names_used,
				  .path_length = strlen(s->path) };
	return copy_entries(s);
}

static int copy_go_down(struct copy_state *s)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	const char *name = pop_name(s);
	size_t length = strlen(s->path);
	int from, to;

	if (s->depth == TREE_COPY_DEPTH_MAX)
		return error_set(s->err, ELOOP,
				 "directories are nested more than %d levels deep",
				 TREE_COPY_DEPTH_MAX);
	from = openat(s->from, name, flags);
	if (from < 0)
		return copy_failed(s, errno, "read", name);
	replace_fd(&s->from, from);
	if (mkdirat(s->to, name, 0700) < 0)
		return copy_failed(s, errno, "create", name);
	to = openat(s->to, name, flags);
	if (to < 0)
		return copy_failed(s, errno, "open", name);
	replace_fd(&s->to, to);
	(void)snprintf(s->path + length, sizeof(s->path) - length, "/%s", name);
	s->depth++;
	return enter_level(s);
}

/* The attributes of a directory come last, because its entries change its times. */
static int finish_dir(struct copy_state *s)
{
	struct stat st;
	int r;

	if (fstat(s->from, &st) < 0)
		return copy_failed(s, errno, "read", "");
	r = copy_meta(s, s->from, s->to, &st);
	return r < 0 ? copy_failed(s, -r, "copy", "") : 0;
}

static int copy_go_back(int *fd, ino_t expected)
{
	int up = openat(*fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (up < 0)
		return -errno;
	replace_fd(fd, up);
	if (fstat(up, &st) < 0)
		return -errno;
	return st.st_ino == expected ? 0 : -ESTALE;
}

static int copy_go_up(struct copy_state *s)
{
	int r = finish_dir(s);

	if (r < 0)
		return r;
	s->depth--;
	r = copy_go_back(&s->from, s->levels[s->depth].from);
	if (r == 0)
		r = copy_go_back(&s->to, s->levels[s->depth].to);
	if (r < 0)
		return copy_failed(s, -r, "leave", "");
	s->path[s->levels[s->depth].path_length] = '\0';
	return 0;
}

static int copy_levels(struct copy_state *s)
{
	int r = copy_make_links(s);

	if (r < 0)
		return copy_failed(s, -r, "write to the copy", "");
	r = enter_level(s);
	while (r == 0) {
		if (s->names_used > s->levels[s->depth].names)
			r = copy_go_down(s);
		else if (s->depth > 0)
			r = copy_go_up(s);
		else
			break;
	}
	return r;
}

static int copy_state_run(struct copy_state *s)
{
	int r = copy_levels(s);

	if (r < 0)
		return r;
	r = remove_links(s);
	return r < 0 ? copy_failed(s, -r, "remove the links of the copy", "")
		     : finish_dir(s);
}

int tree_copy(int from, int to, struct tree_copy *c, struct warren_error *err)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
	struct copy_state *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int r = 0;

	if (s == MAP_FAILED)
		return error_errno(err, ENOMEM, "copy a directory");
	s->c = c;
	s->err = err;
	s->names_size = 1U << 20;
	s->names = mmap(NULL, s->names_size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	s->from = openat(from, ".", flags);
	s->to = openat(to, ".", flags);
	s->links = -1;
	if (s->from < 0 || s->to < 0 || s->names == MAP_FAILED)
		r = error_errno(err, errno, "open the directories of a copy");
	c->files = c->bytes = c->sockets = 0;
	if (r == 0)
		r = copy_state_run(s);
	if (s->from >= 0)
		(void)close(s->from);
	if (s->to >= 0)
		(void)close(s->to);
	if (s->links >= 0)
		(void)close(s->links);
	if (s->names != MAP_FAILED)
		(void)munmap(s->names, s->names_size);
	(void)munmap(s, sizeof(*s));
	return r;
}
