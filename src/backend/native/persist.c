/* SPDX-License-Identifier: Apache-2.0 */
/* persist.c - create, mount and remove the disks of sandboxes that persist */
#include "backend/native/persist.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "backend/native/create_op.h"
#include "backend/native/undo.h"
#include "initclient/sandbox_socket.h"
#include "os/ext4.h"
#include "os/mount.h"

#define PERSIST_NEW ".new-"
/* A smaller filesystem has no journal. */
#define PERSIST_MIN (UINT64_C(16) << 20)

typedef char persist_name[sizeof(PERSIST_NEW) + ID_LEN];

int persist_check(const struct create_op *m, struct warren_error *err)
{
	if (!m->spec->persist)
		return 0;
	if (!m->spec->durable)
		return error_set(err, EINVAL,
				 "persist: only a durable sandbox can persist");
	if (!m->engine->privileged)
		return error_set(err, EOPNOTSUPP,
				 "persist: without root, the files of a sandbox are in "
				 "memory");
	if (m->disk < PERSIST_MIN)
		return error_set(err, EINVAL,
				 "persist: the disk must have at least 16m (%ju bytes)",
				 (uintmax_t)PERSIST_MIN);
	return 0;
}

void persist_path(const struct native *n, const char *id,
		  char path[sizeof(n->name) + ID_LEN + 16])
{
	(void)snprintf(path, sizeof(n->name) + ID_LEN + 16, "disks.%s/%s", n->name, id);
}

/* -ENOENT, without a message in @err: the directory does not exist. */
static int persist_open_dir(const struct native *n, struct warren_error *err)
{
	char path[4096 + sizeof(n->name) + 32];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/saved/disks.%s", n->state_dir, n->name);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	return errno == ENOENT ? -ENOENT : error_errno(err, errno, "open '%s'", path);
}

static int persist_make_dir(const struct native *n, struct warren_error *err)
{
	char path[4096 + sizeof(n->name) + 32];
	size_t top = (size_t)snprintf(path, sizeof(path), "%s/saved", n->state_dir);
	int r;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return error_errno(err, errno, "create '%s'", path);
	(void)snprintf(path + top, sizeof(path) - top, "/disks.%s", n->name);
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return error_errno(err, errno, "create '%s'", path);
	r = persist_open_dir(n, err);
	return r == -ENOENT ? error_errno(err, ENOENT, "open '%s'", path) : r;
}

int persist_number(const struct native *n, const char *id, uint64_t *ret,
		   struct warren_error *err)
{
	AUTO_CLOSE int dir = persist_open_dir(n, err);
	struct stat st;

	*ret = 0;
	if (dir < 0)
		return dir == -ENOENT ? 0 : dir;
	if (fstatat(dir, id, &st, AT_SYMLINK_NOFOLLOW) == 0)
		*ret = (uint64_t)st.st_ino;
	else if (errno != ENOENT)
		return error_errno(err, errno, "look for its disk");
	return 0;
}

int persist_has(const struct native *n, const char *id, struct warren_error *err)
{
	uint64_t number;
	int r = persist_number(n, id, &number, err);

	return r < 0 ? r : number > 0;
}

/* Each engine has its own directory; if one cannot be read, assume that it has it. */
bool persist_has_any(int saved, const char *id)
{
	int fd = openat(saved, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	bool has = !d;

	while (d && !has && (e = readdir(d))) {
		char path[sizeof(e->d_name) + ID_LEN + 2];

		if (strncmp(e->d_name, "disks.", 6) != 0)
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s", e->d_name, id);
		has = faccessat(saved, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
		      errno != ENOENT;
	}
	if (d)
		(void)closedir(d);
	else if (fd >= 0)
		(void)close(fd);
	return has;
}

int persist_remove(const struct native *n, const char *id, struct warren_error *err)
{
	AUTO_CLOSE int dir = persist_open_dir(n, err);
	persist_name name;

	if (dir < 0)
		return dir == -ENOENT ? 0 : dir;
	(void)snprintf(name, sizeof(name), PERSIST_NEW "%s", id);
	(void)unlinkat(dir, name, 0);
	if (unlinkat(dir, id, 0) < 0 && errno != ENOENT)
		return error_errno(err, errno, "remove its disk");
	return 0;
}

/* ------------------------------------------------------------------- creation */

int persist_open(struct create_op *m, bool empty, bool exists, struct warren_error *err)
{
	if (empty)
		return 0;
	if (!exists)
		return error_set(err, EREMOTEIO, "the disk of the sandbox is missing");
	m->plan->kept = true;
	return 0;
}

/* Bytes that the files in one directory may still take. @except: a file that goes. */
static int persist_rest_of(int saved, const char *name, const char *except,
			   uint64_t *rest)
{
	int fd = openat(saved, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d) {
		int r = fd < 0 ? -errno : -ENOMEM;

		if (fd >= 0)
			(void)close(fd);
		return r;
	}
	while ((e = readdir(d))) {
		struct stat st;

		if (strcmp(e->d_name, except) != 0 &&
		    fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISREG(st.st_mode) && st.st_size > st.st_blocks * 512)
			*rest += (uint64_t)(st.st_size - st.st_blocks * 512);
	}
	(void)closedir(d);
	return 0;
}

/*
 * The files have holes, and grow. If they could outgrow the disk, then one tenant's data
 * would make the writes of others fail, which their programs believe to be on disk. The
 * new file counts already; creations at the same time count each other's.
 */
static int persist_check_space(const struct native *n, int dir, const char *replaced,
			       struct warren_error *err)
{
	AUTO_CLOSE int saved = openat(dir, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int copy = openat(saved, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	uint64_t rest = 0, have;
	struct statvfs fs;
	struct dirent *e;

	if (!d) {
		if (copy >= 0)
			(void)close(copy);
		return error_errno(err, ENOMEM, "find out how much space is free");
	}
	while (r == 0 && (e = readdir(d)))
		if (strncmp(e->d_name, "disks.", 6) == 0)
			r = persist_rest_of(saved, e->d_name, replaced, &rest);
	(void)closedir(d);
	if (r < 0)
		return error_errno(err, -r, "find out how much space is free");
	if (fstatvfs(dir, &fs) < 0)
		return error_errno(err, errno, "find out how much space is free");
	have = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (rest <= have)
		return 0;
	return error_set(err, ENOSPC,
			 "'%s' has %ju bytes free, and the disks of all sandboxes that "
			 "persist may need %ju",
			 n->state_dir, (uintmax_t)have, (uintmax_t)rest);
}

/* The file and its name are on disk before the sandbox uses it. */
static int persist_create(struct create_op *m, int dir, int *ret_fd,
			  struct warren_error *err)
{
	const char *id = m->sandbox->base.id;
	AUTO_CLOSE int template = scratch_disk_template(m->engine, m->disk, true, err);
	AUTO_CLOSE int file = -1;
	persist_name name;
	int r;

	if (template <0)
		return template;
	(void)snprintf(name, sizeof(name), PERSIST_NEW "%s", id);
	(void)unlinkat(dir, name, 0);
	file = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		      0600);
	r = file < 0 ? -errno : ext4_copy(template, file, m->disk);
	if (r == 0 && persist_check_space(m->engine, dir, id, err) < 0) {
		(void)unlinkat(dir, name, 0);
		return -err->code;
	}
	if (r == 0 && fsync(file) < 0)
		r = -errno;
	if (r == 0 && renameat(dir, name, dir, id) < 0)
		r = -errno;
	m->made_disk = r == 0;
	if (r == 0 && fsync(dir) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlinkat(dir, name, 0);
		return error_errno(err, -r, "create its disk");
	}
	*ret_fd = TAKE_FD(file);
	return 0;
}

void persist_undo(const struct create_op *m)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (m->made_disk && !m->spec->restore)
		(void)persist_remove(m->engine, m->sandbox->base.id, &ignored);
}

int persist_mount(struct create_op *m, int *ret_fd, struct warren_error *err)
{
	AUTO_CLOSE int dir = persist_make_dir(m->engine, err), file = -1, fd = -1;
	int r = dir < 0 ? dir : 0;

	if (r == 0 && !m->plan->kept)
		r = persist_create(m, dir, &file, err);
	if (r < 0)
		return r;
	if (file < 0)
		file = openat(dir, m->sandbox->base.id, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (file < 0)
		return error_errno(err, errno, "open its disk");
	r = ext4_mount(file, &fd, err);
	if (r == -EOPNOTSUPP)
		return error_set(err, EOPNOTSUPP,
				 "persist: the files of a sandbox can be on disk only "
				 "with loop devices, and this machine has none "
				 "(/dev/loop-control)");
	if (r == -EMEDIUMTYPE) {
		struct warren_error why = *err;

		return error_set(err, EREMOTEIO,
				 "the disk of the sandbox is damaged (%s)", why.msg);
	}
	if (r == 0)
		r = mount_idmap(fd, m->userns, err);
	if (r < 0)
		return r;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* ---------------------------------------------------------------- hibernating */

/*
 * The processes stay frozen until their end, so that they write nothing after their files
 * were synchronized; where they cannot be frozen, the upper directory keeps the
 * filesystem until they have ended. If init does not have the directory, because it was
 * compromised, all filesystems are synchronized.
 */
int persist_hibernate(struct native *n, struct native_sandbox *sandbox,
		      struct warren_error *err)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	AUTO_CLOSE int upper = -1, files = -1;
	int r = native_root_dir(sandbox, PROTO_ROLE_UPPER, &upper, &ignored);
	bool froze = !sandbox->paused && save_freeze(sandbox, &ignored) == 0;
	char id[ID_LEN + 1];

	if (r == 0)
		files = openat(upper, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = files >= 0 && syncfs(files) < 0
		    ? error_errno(err, errno, "write its files to disk")
		    : 0;
	if (r < 0) {
		if (froze)
			(void)save_thaw(sandbox, &ignored);
		return r;
	}
	/* If this leaves anything behind, the engine removes it later. */
	(void)memcpy(id, sandbox->base.id, sizeof(id));
	saved_keep_disk(n, id);
	(void)native_undo(n, sandbox, &ignored);
	save_forget_freeze(n, id);
	if (files < 0 || syncfs(files) < 0)
		sync();
	return 0;
}

/* --------------------------------------------------------------- sweep and list */

void persist_sweep(const struct native *n)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	int fd = persist_open_dir(n, &ignored);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (strncmp(e->d_name, PERSIST_NEW, strlen(PERSIST_NEW)) == 0)
			(void)unlinkat(fd, e->d_name, 0);
	if (d)
		(void)closedir(d);
	else if (fd >= 0)
		(void)close(fd);
}

int persist_list(void *state, char ***ret_ids, struct warren_error *err)
{
	AUTO_BUF struct buf ids = BUF_INIT(1U << 20);
	int fd = persist_open_dir(state, err);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (fd < 0 && fd != -ENOENT)
		return fd;
	if (!d && fd >= 0) {
		(void)close(fd);
		return error_errno(err, ENOMEM, "list the disks of sandboxes");
	}
	while (d && (e = readdir(d)))
		if (id_valid(e->d_name))
			buf_add(&ids, e->d_name, ID_LEN + 1);
	if (d)
		(void)closedir(d);
	return sandbox_socket_pack_ids(&ids, ret_ids, err);
}
