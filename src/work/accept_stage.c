/* SPDX-License-Identifier: Apache-2.0 */
/* accept_stage.c - write new files to a directory of the project's filesystem */
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "os/tree_remove.h"
#include "work/accept_internal.h"
#include "work/files_internal.h"

#define STAGE_SYNC_EACH                                                \
	16 /* with more files, the whole filesystem is written to disk \
	    */

void stage_name(const char *id, char ret[ID_LEN + 16])
{
	(void)snprintf(ret, ID_LEN + 16, ".warren-%s", id);
}

int stage_remove(struct work *w)
{
	char name[ID_LEN + 16];
	struct stat st;

	stage_name(w->id, name);
	if (w->project_fd < 0 ||
	    fstatat(w->project_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return tree_remove(w->project_fd, w->project_fd, name);
}

int stage_open(struct work *w)
{
	char name[ID_LEN + 16];
	AUTO_CLOSE int fd = -1;
	struct stat st;

	stage_name(w->id, name);
	fd = beneath_dir(w->project_fd, name, O_RDONLY);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	/* If root works in a user's project, the user may have put another one there. */
	/* The project may give it the set-group-id bit. */
	return st.st_uid == geteuid() && (st.st_mode & 07777 & ~S_ISGID) == 0700
		       ? TAKE_FD(fd)
		       : -EPERM;
}

int stage_begin(struct accept *a, struct warren_error *err)
{
	int r = stage_remove(a->w);

	stage_name(a->w->id, a->staging_name);
	if (r == 0 && mkdirat(a->w->project_fd, a->staging_name, 0700) < 0)
		r = -errno;
	accept_step("staging");
	if (r == 0)
		a->staging = stage_open(a->w);
	if (r == 0 && a->staging < 0)
		r = a->staging;
	return r < 0 ? error_errno(err, -r, "create a directory in the project '%s'",
				   a->w->project)
		     : 0;
}

/* ------------------------------------------------------------------- contents */

static int stage_copy_range(int from, int to, off_t at, off_t end)
{
	static char room[256 << 10];

	while (at < end) {
		size_t want = (size_t)(end - at) < sizeof(room) ? (size_t)(end - at)
								: sizeof(room);
		ssize_t n = pread(from, room, want, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ESTALE;
		for (ssize_t done = 0; done < n;) {
			ssize_t m =
				pwrite(to, room + done, (size_t)(n - done), at + done);

			if (m < 0 && errno != EINTR)
				return -errno;
			done += m > 0 ? m : 0;
		}
		at += n;
	}
	return 0;
}

/* Holes stay holes, so that a huge sparse file does not fill the disk. */
static int stage_copy(int from, int to, off_t size)
{
	off_t at = 0;
	int r = 0;

	if (size <= 1 << 20)
		return stage_copy_range(from, to, 0, size);
	if (ftruncate(to, size) < 0)
		return -errno;
	while (r == 0 && at < size) {
		off_t data = lseek(from, at, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO)
			break;
		hole = data < 0 ? size : lseek(from, data, SEEK_HOLE);
		at = data < 0 ? at : data;
		r = stage_copy_range(from, to, at, hole < 0 || hole > size ? size : hole);
		at = hole < 0 ? size : hole;
	}
	return r;
}

static bool stage_is_kept(const char *name)
{
	return strncmp(name, "user.", 5) == 0 ||
	       strcmp(name, "system.posix_acl_access") == 0;
}

/*
 * Attributes that the user gave the file: an ACL, and user.*. Others are not kept, nor
 * are those that the sandbox gave it.
 */
static int stage_attributes(const struct stage_source *from, int to)
{
	static char names[XATTR_LIST_MAX], value[XATTR_SIZE_MAX];
	struct stat st;
	AUTO_CLOSE int old = beneath_file(from->old_dir, from->old_name, &st);
	ssize_t n;

	/* A link has none. */
	if (old < 0)
		return old == -EMEDIUMTYPE ? 0 : old;
	n = flistxattr(old, names, sizeof(names));
	if (n < 0)
		return errno == EOPNOTSUPP ? 0 : -errno;
	for (const char *name = names; name < names + n; name += strlen(name) + 1) {
		ssize_t size = stage_is_kept(name)
				       ? fgetxattr(old, name, value, sizeof(value))
				       : -1;

		if (size < 0 && stage_is_kept(name) && errno != ENODATA)
			return -errno;
		if (size >= 0 && fsetxattr(to, name, value, (size_t)size, 0) < 0)
			return -errno;
	}
	return 0;
}

mode_t stage_inherit(const struct accept *a, const char *path, gid_t *ret_gid)
{
	AUTO_FREE char *copy = strdup(path);
	struct stat st;
	int r = -ENOENT;

	while (copy && *copy && r < 0) {
		char *slash = strrchr(copy, '/');

		copy[slash ? slash - copy : 0] = '\0';
		r = *copy ? beneath_stat(a->w->project_fd, copy, &st)
			  : fstat(a->w->project_fd, &st);
	}
	if (ret_gid)
		*ret_gid = r == 0 && (st.st_mode & S_ISGID) ? st.st_gid : a->gid;
	return r == 0 ? st.st_mode & S_ISGID : 0;
}

static int stage_owner(const struct accept *a, const struct op *op,
		       const struct stage_source *from, int fd, const char *name)
{
	uid_t uid = from && from->old ? from->old->st_uid : a->uid;
	struct stat st;
	gid_t gid;

	if (from && from->old)
		gid = from->old->st_gid;
	else
		(void)stage_inherit(a, op->path, &gid);
	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0)
		return -errno;
	if (st.st_uid == uid && st.st_gid == gid)
		return 0;
	if (fchownat(fd, name, uid, gid, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) == 0)
		return 0;
	if (geteuid() == 0)
		return -errno;
	/* An ordinary user cannot give files away, but can share them with a group. */
	return fchownat(fd, name, (uid_t)-1, gid, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) <
				       0 &&
			       errno != EPERM
		       ? -errno
		       : 0;
}

static int stage_regular(struct accept *a, const struct op *op, const char *name,
			 const struct stage_source *from)
{
	AUTO_CLOSE int fd =
		openat(a->staging, name,
		       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r = 0;

	if (fd < 0)
		return -errno;
	if (from->text) {
		r = fd_write_all(fd, from->text->data, from->text->len);
	} else {
		struct stat st;
		AUTO_CLOSE int source =
			beneath_file(from->file->dir, from->file->name, &st);

		r = source < 0 ? source : stage_copy(source, fd, st.st_size);
	}
	r = r < 0 ? r : stage_owner(a, op, from, fd, "");
	if (r == 0 && from->old)
		r = stage_attributes(from, fd);
	if (r == 0 && fchmod(fd, from->mode & 07777) < 0)
		r = -errno;
	/* Begin to write, so that there is less to wait for later. */
	if (r == 0)
		(void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
	return r;
}

static int stage_link(struct accept *a, const struct op *op, const char *name,
		      const struct stage_source *from)
{
	AUTO_FREE char *target = NULL;
	size_t n;
	int r = link_read(from->file->dir, from->file->name, &target, &n);

	if (r == 0 && symlinkat(target, a->staging, name) < 0)
		r = -errno;
	return r < 0 ? r : stage_owner(a, op, from, a->staging, name);
}

static int stage_note(const struct accept *a, struct op *op, const char *name)
{
	struct stat st;

	if (fstatat(a->staging, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	op->new = op_file_of(&st);
	return 0;
}

int stage_file(struct accept *a, struct op *op, const struct stage_source *from)
{
	char name[32];
	int r;

	accept_step("stage");
	(void)snprintf(name, sizeof(name), "n%llu", (unsigned long long)op->number);
	r = S_ISLNK(from->mode) ? stage_link(a, op, name, from)
				: stage_regular(a, op, name, from);
	return r < 0 ? r : stage_note(a, op, name);
}

int stage_dir(struct accept *a, struct op *op, mode_t mode)
{
	AUTO_CLOSE int fd = -1;
	char name[32];
	int r;

	accept_step("stage");
	(void)snprintf(name, sizeof(name), "n%llu", (unsigned long long)op->number);
	if (mkdirat(a->staging, name, 0700) < 0)
		return -errno;
	fd = openat(a->staging, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = stage_owner(a, op, NULL, fd, "");
	if (r == 0 && fchmod(fd, mode & 07777) < 0)
		r = -errno;
	return r < 0 ? r : stage_note(a, op, name);
}

int stage_sync(const struct accept *a)
{
	size_t n = 0;

	accept_step("sync");
	for (size_t i = 0; i < a->ops.n; i++)
		n += a->ops.v[i].kind == OP_PUT;
	if (n > STAGE_SYNC_EACH)
		return syncfs(a->staging) < 0 ? -errno : 0;
	for (size_t i = 0; i < a->ops.n; i++) {
		AUTO_CLOSE int fd = -1;
		char name[32];

		(void)snprintf(name, sizeof(name), "n%llu",
			       (unsigned long long)a->ops.v[i].number);
		if (a->ops.v[i].kind != OP_PUT)
			continue;
		fd = openat(a->staging, name,
			    O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0 && errno != ELOOP) /* a link has no contents */
			return errno == EACCES ? (syncfs(a->staging) < 0 ? -errno : 0)
					       : -errno;
		if (fd >= 0 && fsync(fd) < 0)
			return -errno;
	}
	return fsync(a->staging) < 0 ? -errno : 0;
}
