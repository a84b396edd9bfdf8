/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume.c - create, copy, delete and mount volumes
 *
 * A volume is created as <id>.new, synced, and then renamed, so that a file with the name
 * of an id is complete even after a power cut. A copy is made of a frozen filesystem,
 * which is as consistent as one after a power cut. The kernel does not end the freeze if
 * the warden is killed; volume_recover() of the next warden does.
 */
#include "warden/volume.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/fd.h"
#include "base/id.h"
#include "os/ext4.h"
#include "os/loopdev.h"
#include "os/mount.h"
#include "proto/warden_proto.h"

#define VOLUME_NEW  ".new"
#define VOLUME_PATH 4352

/* ------------------------------------------------------------------ the files */

static int volume_open_dir(const char *dir, struct warren_error *err)
{
	int fd, r;

	if (!dir)
		return error_set(err, EOPNOTSUPP,
				 "a private service has no volumes; start 'warren "
				 "serve'");
	if (geteuid() != 0)
		return error_set(err, EOPNOTSUPP,
				 "volumes need a service that root has started");
	r = fd_make_dirs(dir, 0700);
	if (r < 0)
		return error_errno(err, -r, "create '%s'", dir);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? error_errno(err, errno, "open '%s'", dir) : fd;
}

/* Lock the file of a volume until @ret_fd is closed. */
static int volume_lock(int dir, const char *id, int *ret_fd, struct warren_error *err)
{
	AUTO_CLOSE int fd = openat(dir, id, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (fd < 0 && errno == ENOENT)
		return error_set(err, EMEDIUMTYPE, "the file of the volume is missing");
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, errno, "open the file of the volume");
	if (!S_ISREG(st.st_mode))
		return error_set(err, EMEDIUMTYPE, "the volume is not a file");
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return error_errno(err, errno, "lock the volume");
	/* It may have been deleted in the meantime. */
	if (fstat(fd, &st) < 0 || st.st_nlink == 0)
		return error_set(err, EMEDIUMTYPE, "the file of the volume is missing");
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/*
 * Mount the locked volume. It is opened again, because the loop device keeps the open
 * file, and with it would keep the lock.
 */
static int volume_mount_locked(int dir, const char *id, int *ret_fd,
			       struct warren_error *err)
{
	AUTO_CLOSE int file = openat(dir, id, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	int r = file < 0 ? error_errno(err, errno, "open the file of the volume")
			 : ext4_mount(file, ret_fd, err);

	if (r == -EOPNOTSUPP)
		return error_set(err, EOPNOTSUPP,
				 "volumes need loop devices, and this machine has none "
				 "(/dev/loop-control)");
	if (r == -EMEDIUMTYPE) {
		struct warren_error why = *err;

		return error_set(err, EMEDIUMTYPE,
				 "the filesystem of the volume is damaged (%s)", why.msg);
	}
	return r;
}

int volume_mount(const char *dir, const char *id, int *ret_fd, struct warren_error *err)
{
	AUTO_CLOSE int at = volume_open_dir(dir, err), lock = -1;
	int r = at < 0 ? at : 0;

	if (r == 0 && !id_valid(id))
		r = error_set(err, EINVAL, "this is not the id of a volume");
	if (r == 0)
		r = volume_lock(at, id, &lock, err);
	return r < 0 ? r : volume_mount_locked(at, id, ret_fd, err);
}

/* ------------------------------------------------------------- create and copy */

/* Other users of the disk may still fill it; then writes to the volume fail. */
static int volume_check_space(int dir, uint64_t size, struct warren_error *err)
{
	struct statvfs fs;
	uint64_t left;

	if (fstatvfs(dir, &fs) < 0)
		return error_errno(err, errno, "inspect the disk");
	left = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (left >= size)
		return 0;
	return error_set(err, ENOSPC,
			 "the volume needs %ju bytes, and the disk of this machine has "
			 "%ju left",
			 (uintmax_t)size, (uintmax_t)left);
}

/* Make @fd, the file <id>.new, the volume @id. */
static int volume_finish(int dir, const char *id, int fd, struct warren_error *err)
{
	char temp[32];

	(void)snprintf(temp, sizeof(temp), "%.15s" VOLUME_NEW, id);
	if (fsync(fd) < 0)
		return error_errno(err, errno, "sync the volume");
	if (renameat2(dir, temp, dir, id, RENAME_NOREPLACE) < 0)
		return error_errno(err, errno, "name the volume");
	return fsync(dir) < 0 ? error_errno(err, errno, "sync the volume") : 0;
}

static int volume_fill_empty(const char *dir, const char *id, int fd, uint64_t size,
			     struct warren_error *err)
{
	char path[VOLUME_PATH];
	int r;

	if (snprintf(path, sizeof(path), "%s/%s" VOLUME_NEW, dir, id) >=
	    (int)sizeof(path))
		return error_errno(err, ENAMETOOLONG, "name the volume");
	if (ftruncate(fd, (off_t)size) < 0)
		return error_errno(err, errno, "create a file of %ju bytes",
				   (uintmax_t)size);
	r = ext4_create(path, true, err);
	/* For a sandbox, ENOENT means that its image is missing. */
	return r == -ENOENT ? error_set(err, EOPNOTSUPP,
					"a volume needs mkfs.ext4: install e2fsprogs")
			    : r;
}

/* Copy the file of the volume @from while no process changes it. */
static int volume_fill_copy(const char *dir, const char *from, int at, int fd,
			    struct warren_error *err)
{
	AUTO_CLOSE int file = openat(at, from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW),
		       root = -1, top = -1;
	struct stat st;
	int r = volume_mount(dir, from, &root, err);

	if (r < 0)
		return r;
	if (file < 0 || fstat(file, &st) < 0)
		return error_errno(err, errno, "open the file of the volume");
	r = volume_check_space(at, (uint64_t)st.st_blocks * 512, err);
	if (r < 0)
		return r;
	top = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (top < 0 || ioctl(top, FIFREEZE, 0) < 0)
		return errno == EBUSY
			       ? error_set(err, EBUSY,
					   "another copy of the volume is being made")
			       : error_errno(err, errno, "stop writes to the volume");
	r = ext4_copy(file, fd, (uint64_t)st.st_size);
	if (ioctl(top, FITHAW, 0) < 0 && r == 0)
		r = -errno;
	return r < 0 ? error_errno(err, -r, "copy the volume") : 0;
}

static int volume_create_file(const char *dir, const struct warden_proto_volume *m,
			      struct warren_error *err)
{
	AUTO_CLOSE int at = volume_open_dir(dir, err), fd = -1;
	char temp[32];
	bool copy = m->verb == WIRE_VOLUME_COPY;
	int r;

	if (at < 0)
		return at;
	if (!copy && (m->size < VOLUME_SIZE_MIN || m->size > VOLUME_SIZE_MAX))
		return error_set(err, EINVAL, "a volume has 16m to 16t");
	r = copy ? 0 : volume_check_space(at, m->size, err);
	if (r < 0)
		return r;
	(void)snprintf(temp, sizeof(temp), "%.15s" VOLUME_NEW, m->id);
	fd = openat(at, temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_errno(err, errno, "create the file of the volume");
	r = copy ? volume_fill_copy(dir, m->from, at, fd, err)
		 : volume_fill_empty(dir, m->id, fd, m->size, err);
	if (r == 0)
		r = volume_finish(at, m->id, fd, err);
	if (r < 0)
		(void)unlinkat(at, temp, 0);
	return r;
}

/* A volume that is already gone is no error. Its users keep it until they end. */
static int volume_delete_file(const char *dir, const char *id, struct warren_error *err)
{
	struct warren_error why = WARREN_ERROR_INIT;
	AUTO_CLOSE int at = -1, lock = -1;

	/* A service that cannot have volumes has none to delete. */
	if (!dir || geteuid() != 0)
		return 0;
	at = volume_open_dir(dir, err);
	if (at < 0)
		return at;
	/* A damaged volume, which cannot be locked, is deleted, too. */
	if (volume_lock(at, id, &lock, &why) < 0 && why.code != EMEDIUMTYPE) {
		*err = why;
		return -err->code;
	}
	if ((unlinkat(at, id, 0) < 0 && errno != ENOENT) || fsync(at) < 0)
		return error_errno(err, errno, "delete the volume");
	return 0;
}

static int volume_usage(const char *dir, const char *id, struct buf *reply,
			struct warren_error *err)
{
	AUTO_CLOSE int at = volume_open_dir(dir, err);
	struct warden_proto_volume_usage usage;
	struct stat st;

	if (at < 0)
		return at;
	if (fstatat(at, id, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? error_set(err, EMEDIUMTYPE,
						   "the file of the volume is missing")
				       : error_errno(err, errno, "inspect the volume");
	usage = (struct warden_proto_volume_usage){
		.size = (uint64_t)st.st_size,
		.disk = (uint64_t)st.st_blocks * 512,
	};
	buf_add(reply, &usage, sizeof(usage));
	return 0;
}

int volume_carry_out(const char *dir, const struct warden_proto_volume *m,
		     struct buf *reply, int *ret_fd, struct warren_error *err)
{
	AUTO_CLOSE int root = -1;
	int r;

	if (m->verb == WIRE_VOLUME_CREATE || m->verb == WIRE_VOLUME_COPY)
		return volume_create_file(dir, m, err);
	if (m->verb == WIRE_VOLUME_DELETE)
		return volume_delete_file(dir, m->id, err);
	if (m->verb == WIRE_VOLUME_USAGE)
		return volume_usage(dir, m->id, reply, err);
	r = volume_mount(dir, m->id, &root, err);
	return r < 0 ? r : volume_files(root, m, reply, ret_fd, err);
}

/* ------------------------------------------------------------- after a crash */

/* A volume that is not in use is not frozen. */
static void volume_thaw(int at, const char *id)
{
	AUTO_CLOSE int lock = -1, loop = -1, root = -1, top = -1;
	struct warren_error ignored = WARREN_ERROR_INIT;
	char path[LOOP_PATH_MAX];

	if (volume_lock(at, id, &lock, &ignored) < 0 ||
	    loopdev_find(lock, path, &loop, &ignored) <= 0 ||
	    volume_mount_locked(at, id, &root, &ignored) < 0)
		return;
	top = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (top >= 0)
		(void)ioctl(top, FITHAW, 0);
}

static bool volume_is_new(const char *name)
{
	return strlen(name) == ID_LEN + strlen(VOLUME_NEW) &&
	       strcmp(name + ID_LEN, VOLUME_NEW) == 0;
}

/* Remove the files of unfinished volumes; return whether there were any. */
static bool volume_remove_new(int at, DIR *d)
{
	struct dirent *e;
	bool found = false;

	while ((e = readdir(d)))
		if (volume_is_new(e->d_name)) {
			(void)unlinkat(at, e->d_name, 0);
			found = true;
		}
	return found;
}

/* While the source of a copy is frozen, the copy has an unfinished file. */
void volume_recover(const char *dir)
{
	AUTO_CLOSE int at =
		dir && geteuid() == 0
			? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
			: -1;
	int copy = at < 0 ? -1 : openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;

	if (!d)
		return;
	if (volume_remove_new(at, d)) {
		rewinddir(d);
		while ((e = readdir(d)))
			if (id_valid(e->d_name))
				volume_thaw(at, e->d_name);
	}
	(void)closedir(d);
}
