/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hide_shared.c - files that the user may write, although they belong to others
 *
 * In the sandbox, only the owner and the group of the project have an id. A file with
 * another owner or group cannot be copied up by an overlay: the kernel has no id for the
 * copy, and returns EOVERFLOW. That concerns the directories of a group on a shared
 * machine, whose files belong to several users. So the layer above the project gets such
 * directories, and copies of such files, with the owner of the project. Only those which
 * the user may write get one; all others keep their protection.
 *
 * Without root, the kernel says what the user may write. If root runs Warren, the user is
 * the owner of the project, with its group.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "work/files_internal.h"
#include "work/hide_internal.h"

#define SHARED_BYTES_MAX ((uint64_t)256 << 20) /* of all copies together */
#define SHARED_FILES_MAX ((size_t)20000)
#define SHARED_TEMPORARY ".warren-shared"

struct hide_shared {
	const struct work *w;
	struct work_hidden *h;
	int layer;
	uid_t uid; /* the only ids that the sandbox has for the project */
	gid_t gid;
	uint64_t bytes;
	size_t files;
};

bool hide_is_shared(const struct stat *st, const struct stat *own)
{
	/* In a directory with this bit, others may have files. */
	return (st->st_mode & S_ISGID) || st->st_uid != own->st_uid ||
	       st->st_gid != own->st_gid;
}

static bool shared_is_own(const struct hide_shared *s, const struct stat *st)
{
	return st->st_uid == s->uid && st->st_gid == s->gid;
}

static bool shared_may_write(const struct hide_shared *s, int dir, const char *name,
			     const struct stat *st)
{
	mode_t need = S_ISDIR(st->st_mode) ? 7 : 6,
	       mode = st->st_uid == s->uid   ? st->st_mode >> 6
		      : st->st_gid == s->gid ? st->st_mode >> 3
					     : st->st_mode;

	/* Only the owners of files may remove or replace them. */
	if (S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX) && st->st_uid != s->uid)
		return false;
	if (geteuid() == 0)
		return (mode & need) == need;
	return faccessat(dir, name, (int)need, AT_EACCESS | AT_SYMLINK_NOFOLLOW) == 0;
}

static int shared_own(const struct hide_shared *s, int fd, const struct stat *st)
{
	const struct timespec times[2] = { st->st_atim, st->st_mtim };
	struct stat now;

	if (fstat(fd, &now) < 0)
		return -errno;
	if (!shared_is_own(s, &now) && fchown(fd, s->uid, s->gid) < 0)
		return -errno;
	if (fchmod(fd, st->st_mode & (S_ISDIR(st->st_mode) ? 03777 : 01777)) < 0 ||
	    futimens(fd, times) < 0)
		return -errno;
	return 0;
}

static int shared_copy_data(int from, int to, off_t size)
{
	while (size > 0) {
		ssize_t n = copy_file_range(from, NULL, to, NULL, (size_t)size, 0);
		char room[65536];

		if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP ||
			      errno == ENOSYS)) {
			n = read(from, room, sizeof(room));
			if (n > 0 && fd_write_all(to, room, (size_t)n) < 0)
				return -errno;
		}
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			break;
		size -= n > 0 ? n : 0;
	}
	return 0;
}

/* A file whose credentials were removed has its copy already. */
static bool shared_is_cleaned(const struct hide_shared *s, const char *dir,
			      const char *name)
{
	size_t n = strlen(dir);

	for (size_t i = 0; i < s->h->n_cleaned; i++) {
		const char *path = s->h->cleaned[i];

		if (strncmp(path, dir, n) == 0 && (n == 0 || path[n] == '/') &&
		    strcmp(path + n + (n > 0), name) == 0)
			return true;
	}
	return false;
}

static int shared_copy(struct hide_shared *s, int from, int to, const char *name)
{
	struct stat st;
	AUTO_CLOSE int in = beneath_file(from, name, &st), out = -1;
	int r;

	if (in < 0)
		return in;
	/* Another file may have the name now. */
	if (!shared_may_write(s, from, name, &st))
		return 0;
	s->bytes += (uint64_t)st.st_size;
	if (s->bytes > SHARED_BYTES_MAX || ++s->files > SHARED_FILES_MAX)
		return -EFBIG;
	(void)unlinkat(to, SHARED_TEMPORARY, 0);
	out = openat(to, SHARED_TEMPORARY,
		     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		return -errno;
	r = shared_copy_data(in, out, st.st_size);
	r = r < 0 ? r : shared_own(s, out, &st);
	if (r == 0 && renameat(to, SHARED_TEMPORARY, to, name) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(to, SHARED_TEMPORARY, 0);
	return r;
}

static int shared_file(struct hide_shared *s, const char *path, int from, int to,
		       const char *name)
{
	struct stat st, copy;
	bool exists = fstatat(to, name, &copy, AT_SYMLINK_NOFOLLOW) == 0;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
	    shared_is_own(s, &st) || !shared_may_write(s, from, name, &st))
		return 0;
	if (exists && stat_is_whiteout(&copy))
		return 0;
	if (exists && shared_is_cleaned(s, path, name))
		return shared_is_own(s, &copy) ? 0
		       : fchownat(to, name, s->uid, s->gid, AT_SYMLINK_NOFOLLOW) < 0
			       ? -errno
			       : 0;
	if (exists && copy.st_size == st.st_size && copy.st_mode == st.st_mode &&
	    copy.st_mtim.tv_sec == st.st_mtim.tv_sec &&
	    copy.st_mtim.tv_nsec == st.st_mtim.tv_nsec)
		return 0;
	return shared_copy(s, from, to, name);
}

/* 1: some of its files were left. */
static int shared_dir(struct hide_shared *s, const char *path)
{
	AUTO_FREE struct dir_reader *reader = calloc(1, sizeof(*reader));
	AUTO_CLOSE int from = beneath_dir(s->w->project_fd, path, O_RDONLY), to = -1;
	const struct dir_entry *e;
	bool left = false;
	struct stat st;
	mode_t mode;
	int r;

	if (!reader)
		return -ENOMEM;
	if (from < 0 || fstat(from, &st) < 0 || !shared_may_write(s, from, ".", &st))
		return 0;
	to = hide_layer_dir(s->layer, s->w->project_fd, path);
	r = to < 0 ? to : *path ? shared_own(s, to, &st) : 0;
	if (r < 0)
		return r;
	mode = hide_open_up(to);
	reader->fd = from;
	while ((r = dir_next(reader, &e)) > 0) {
		r = e->type == DT_REG ? shared_file(s, path, from, to, e->name) : 0;
		left |= r == -EFBIG;
		if (r < 0 && r != -EFBIG && r != -ENOENT && r != -EMEDIUMTYPE)
			break;
	}
	hide_close_up(to, mode);
	/* The copies changed its times. */
	r = r < 0 || !*path ? r : shared_own(s, to, &st);
	return r < 0 ? r : left;
}

int hide_share(const struct work *w, int layer, struct work_hidden *h,
	       struct warren_error *err)
{
	struct hide_shared s = { .w = w, .h = h, .layer = layer };
	struct stat st;
	size_t n = 0;
	int r = 0;

	if (fstat(w->project_fd, &st) < 0)
		return error_errno(err, errno, "inspect '%s'", w->project);
	s.uid = geteuid() == 0 ? st.st_uid : geteuid();
	s.gid = geteuid() == 0 ? st.st_gid : getegid();
	for (size_t i = 0; i < h->n_shared; i++) {
		if (r >= 0) {
			r = shared_dir(&s, h->shared[i]);
			if (r < 0)
				(void)error_errno(err, -r,
						  "prepare the shared directory '%s'",
						  h->shared[i]);
		}
		if (r > 0)
			h->shared[n++] = h->shared[i];
		else
			free(h->shared[i]);
	}
	h->n_shared = n;
	return r < 0 ? r : 0;
}
