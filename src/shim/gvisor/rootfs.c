/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rootfs.c - the root of a sandbox and the mounts in it
 *
 * The directory `scratch` of the sandbox, which only runsc and its gofer see, contains:
 *
 *	la, lb ...	the layers of the image, read-only
 *	u, w		upper and work directory of the overlay
 *	r		the overlay: the root
 *	v0, v1 ...	volumes
 *	t		the root's /tmp, so that runsc does not mount its own tmpfs there,
 *			which the disk limit would not bound
 *
 * The gofer is root, so it can open every file that root can open. Two kinds of mounts
 * therefore have other ids. The machine's own directories in the image `host` have ids
 * that do not exist inside: only world-readable files can be read there. In a volume,
 * only the user and the group of its owner are mapped, to the sandbox's user: other files
 * can be accessed only as far as their mode permits, and no set-id program of another
 * user can be created.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/hosts.h"
#include "os/mount.h"
#include "os/ns.h"
#include "os/tree_copy.h"
#include "shim/gvisor/gvisor.h"

#define PLAIN (MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID)
/* An id without a user, for trees whose owners must not exist inside. */
#define UNUSED_ID 0xfffffffdU

/* ----------------------------------------------------- outside the mount namespace */

static int make_map(uint32_t on_disk_uid, uint32_t shown_uid, uint32_t on_disk_gid,
		    uint32_t shown_gid, int *ret, struct warren_error *err)
{
	struct ns_maps maps = {
		.n_uid = 1,
		.n_gid = 1,
		.uid = { { on_disk_uid, shown_uid, 1 } },
		.gid = { { on_disk_gid, shown_gid, 1 } },
	};

	return ns_make_userns(&maps, ret, err);
}

static int copy_layers(struct gvisor_making *m, struct warren_error *err)
{
	AUTO_CLOSE int nobody = -1;

	for (size_t i = 0; i < m->image.n_mounts; i++) {
		const struct image_mount *l = &m->image.mounts[i];
		int r = 0;

		if (l->at[0] && nobody < 0)
			r = make_map(UNUSED_ID, UNUSED_ID, UNUSED_ID, UNUSED_ID, &nobody,
				     err);
		if (r == 0)
			r = mount_copy(l->fd, "", false, PLAIN | MOUNT_ATTR_RDONLY,
				       l->at[0] ? nobody : -1, &m->copies[m->n_copies],
				       err);
		if (r < 0)
			return error_wrap(err, "layer '%s'", l->path);
		m->n_copies++;
	}
	return 0;
}

static int rootfs_copy_volume(struct gvisor_making *m, const struct warren_mount *v,
			      struct warren_error *err)
{
	/*
	 * The source is opened only once, here or by the process that checked it, so the
	 * checked file is the mounted one.
	 */
	AUTO_CLOSE int at = v->source_fd ? fcntl(v->source_fd, F_DUPFD_CLOEXEC, 3)
					 : open(v->source, O_PATH | O_CLOEXEC),
		       map = -1;
	struct stat st;
	int r;

	if (at < 0 || fstat(at, &st) < 0)
		return error_errno(err, errno, "open it");
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return error_set(err, EOPNOTSUPP,
				 "it is neither a directory nor a regular file");
	r = make_map(st.st_uid, m->user.uid, st.st_gid, m->user.gid, &map, err);
	if (r == 0)
		r = mount_copy(at, "", true,
			       PLAIN | (v->read_only ? MOUNT_ATTR_RDONLY : 0), map,
			       &m->copies[m->n_copies], err);
	m->n_copies += r == 0;
	return r;
}

/*
 * The mount of a volume is for this sandbox alone, so it needs no copy. Its ids are those
 * of the sandbox, as in the layers of an image.
 */
static int rootfs_take_volume(struct gvisor_making *m, const struct warren_mount *v,
			      struct warren_error *err)
{
	AUTO_CLOSE int fd = fcntl(v->source_fd, F_DUPFD_CLOEXEC, 3);
	int r = fd < 0 ? error_errno(err, errno, "copy a descriptor")
		       : mount_restrict(
				 fd, PLAIN | (v->read_only ? MOUNT_ATTR_RDONLY : 0), err);

	if (r == 0)
		m->copies[m->n_copies++] = TAKE_FD(fd);
	return r;
}

int root_copy(struct gvisor_making *m, struct warren_error *err)
{
	int r;

	if (m->spec->n_mounts > GVISOR_MOUNTS_MAX)
		return error_set(err, E2BIG, "there are more than %d mounts",
				 GVISOR_MOUNTS_MAX);
	r = copy_layers(m, err);
	for (size_t i = 0; r == 0 && i < m->spec->n_mounts; i++) {
		const struct warren_mount *v = &m->spec->mounts[i];

		if (!v->source)
			continue;
		r = v->volume ? rootfs_take_volume(m, v, err)
			      : rootfs_copy_volume(m, v, err);
		if (r < 0)
			return error_wrap(err, "volume '%s'", v->source);
	}
	return r;
}

/* --------------------------------------------------------- inside the mount namespace */

static int mount_scratch(const struct gvisor_making *m, struct warren_error *err)
{
	char size[24], inodes[24], path[GVISOR_PATH_MAX];
	struct mount_option options[] = { { "mode", "0755" },
					  { "size", size },
					  { "nr_inodes", inodes },
					  { NULL, NULL } };
	AUTO_CLOSE int fd = -1;
	int r;

	gvisor_path(m->sandbox, "scratch", path);
	(void)snprintf(size, sizeof(size), "%ju", (uintmax_t)m->disk);
	/*
	 * One inode for every 4 KiB, so that small files do not cost the host more than
	 * large ones.
	 */
	(void)snprintf(inodes, sizeof(inodes), "%ju", (uintmax_t)(m->disk / 4096 + 1024));
	r = mount_new("tmpfs", options, PLAIN, &fd, err);
	if (r == 0)
		r = mount_attach(fd, AT_FDCWD, path, err);
	if (r == 0 && fchdir(fd) < 0)
		r = error_errno(err, errno, "enter the scratch space");
	return r;
}

/* Attach the mount @fd at @name, which is created as a directory or a file, like @fd. */
static int attach_copy(int fd, const char *name, struct warren_error *err)
{
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return error_errno(err, errno, "inspect what to mount");
	r = S_ISDIR(st.st_mode) ? mkdir(name, 0755) : mknod(name, S_IFREG | 0444, 0);
	if (r < 0)
		return error_errno(err, errno, "create a mount point");
	return mount_attach(fd, AT_FDCWD, name, err);
}

/*
 * Create the upper directory, with the files of a sandbox that hibernated. The mount that
 * the shim keeps of it has no parent, so that nothing else can be reached through it.
 */
static int rootfs_fill_upper(struct gvisor_making *m, struct warren_error *err)
{
	struct tree_copy copy = { 0 };
	int r;

	if (mkdir("u", 0755) < 0)
		return error_errno(err, errno, "create an upper directory");
	r = mount_copy(AT_FDCWD, "u", false, PLAIN, -1, &m->upper, err);
	if (r < 0)
		return r;
	if (m->files >= 0)
		return tree_copy(m->files, m->upper, &copy, err);
	r = mkdir("u/etc", 0755) < 0 ? -errno : hosts_write("u", gvisor_hostname(m));
	return r < 0 ? error_errno(err, -r, "write /etc/hosts") : 0;
}

/* Use mount(2), because an option of fsconfig(2) can have at most 255 characters. */
static int gvisor_rootfs_mount_overlay(struct gvisor_making *m, struct warren_error *err)
{
	char options[IMAGE_LOWERS_MAX + 64];
	int r;

	(void)snprintf(options, sizeof(options),
		       "lowerdir=%s,upperdir=u,workdir=w,userxattr", m->image.lowers);
	if (mkdir("w", 0755) < 0 || mkdir("r", 0755) < 0)
		return error_errno(err, errno, "create a directory");
	r = rootfs_fill_upper(m, err);
	if (r < 0)
		return r;
	if (mount("none", "r", "overlay", MS_NODEV | MS_NOSUID, options) < 0)
		return error_errno(err, errno, "mount overlay");
	return 0;
}

static int open_beneath(int root, const char *name)
{
	return mount_openat2(root, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0,
			     RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

static int mount_layers(struct gvisor_making *m, struct warren_error *err)
{
	AUTO_CLOSE int root = -1;
	size_t i = 0;
	int r = 0;

	for (; r == 0 && i < m->image.n_mounts && !m->image.mounts[i].at[0]; i++) {
		char name[] = { 'l', (char)('a' + i), '\0' };

		r = attach_copy(m->copies[i], name, err);
	}
	if (r == 0)
		r = gvisor_rootfs_mount_overlay(m, err);
	if (r < 0)
		return r;
	root = open("r", O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (; r == 0 && i < m->image.n_mounts; i++) {
		AUTO_CLOSE int at = open_beneath(root, m->image.mounts[i].at);

		r = at < 0 ? error_errno(err, -at, "open '/%s'", m->image.mounts[i].at)
			   : mount_attach(m->copies[i], at, "", err);
	}
	return r;
}

static int rootfs_add_mount(struct gvisor_making *m, const char *target, const char *name,
			    bool read_only, uint64_t size, struct warren_error *err)
{
	struct gvisor_mount *to = &m->mounts[m->n_mounts];

	if (m->n_mounts == ARRAY_SIZE(m->mounts))
		return error_set(err, E2BIG, "there are more than %d mounts",
				 GVISOR_MOUNTS_MAX);
	m->n_mounts++;
	to->target = target;
	to->read_only = read_only;
	to->size = size;
	if (name) {
		char below[32];

		(void)snprintf(below, sizeof(below), "scratch/%s", name);
		gvisor_path(m->sandbox, below, to->source);
	}
	return 0;
}

/*
 * Create @target in the root, with its parent directories. runsc creates missing ones,
 * but not below /tmp of a read-only root. Links end inside the root, no matter which user
 * created them.
 */
static int make_point(const char *target, bool dir, struct warren_error *err)
{
	AUTO_CLOSE int root = open("r", O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSE int at = fcntl(root, F_DUPFD_CLOEXEC, 3);
	AUTO_FREE char *path = strdup(target);
	const char *name = path;

	for (char *p = path; p; p = p ? p + 1 : NULL) {
		int r = 0, fd;

		p = strchr(p, '/');
		if (p)
			*p = '\0';
		if (*name && strcmp(name + strspn(name, "."), "") != 0)
			r = p || dir ? mkdirat(at, name, 0755)
				     : mknodat(at, name, S_IFREG | 0644, 0);
		if (r < 0 && errno != EEXIST)
			return error_errno(err, errno, "create the mount point '%s'",
					   target);
		fd = mount_openat2(root, path[0] ? path : "/", O_PATH, 0,
				   RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
		if (fd < 0)
			return error_errno(err, -fd, "open the mount point '%s'", target);
		(void)close(at);
		at = fd;
		if (p) {
			*p = '/';
			name = p + 1;
		}
	}
	return path ? 0 : error_errno(err, ENOMEM, "create the mount point '%s'", target);
}

static int make_points(const struct gvisor_making *m, struct warren_error *err)
{
	size_t next = m->image.n_mounts;

	for (size_t i = 0; i < m->spec->n_mounts; i++) {
		const struct warren_mount *v = &m->spec->mounts[i];
		struct stat st = { .st_mode = S_IFDIR };
		int r = 0;

		if (v->source && fstat(m->copies[next++], &st) < 0)
			r = error_errno(err, errno, "inspect what to mount");
		if (r == 0)
			r = make_point(v->target, S_ISDIR(st.st_mode), err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int gvisor_rootfs_mount_at_depth(struct gvisor_making *m, unsigned depth,
					size_t *left, struct warren_error *err)
{
	size_t next = m->image.n_mounts;

	for (size_t i = 0; i < m->spec->n_mounts; i++) {
		const struct warren_mount *v = &m->spec->mounts[i];
		int copy = v->source ? m->copies[next++] : -1, r = 0;
		char name[24];

		if (mount_depth(v->target) != depth)
			continue;
		(*left)--;
		(void)snprintf(name, sizeof(name), "v%zu", i);
		if (v->source)
			r = attach_copy(copy, name, err);
		if (r == 0)
			r = rootfs_add_mount(m, v->target, v->source ? name : NULL,
					     v->read_only, v->size, err);
		if (r < 0)
			return error_wrap(err, "mount at '%s'", v->target);
	}
	return 0;
}

/* Mounts closer to the root come first, whatever their order in the spec. */
static int mount_volumes(struct gvisor_making *m, struct warren_error *err)
{
	size_t left = m->spec->n_mounts;
	int r = 0;

	for (unsigned depth = 1; r == 0 && left > 0; depth++)
		r = gvisor_rootfs_mount_at_depth(m, depth, &left, err);
	return r;
}

static bool is_target(const struct gvisor_making *m, const char *path)
{
	for (size_t i = 0; i < m->spec->n_mounts; i++)
		if (strcmp(m->spec->mounts[i].target, path) == 0)
			return true;
	return false;
}

/*
 * Make a directory of the root a separate mount, @name. This is needed if the root is
 * read-only and the directory is not, or if runsc would mount something else there. A
 * path that is not a directory is skipped.
 */
static int set_apart(struct gvisor_making *m, const char *path, const char *name,
		     bool read_only, struct warren_error *err)
{
	AUTO_CLOSE int root = open("r", O_PATH | O_DIRECTORY | O_CLOEXEC), copy = -1;
	AUTO_CLOSE int at = mount_openat2(root, path, O_PATH | O_DIRECTORY, 0,
					  RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
	int r;

	if (at < 0 || is_target(m, path))
		return 0;
	r = mount_copy(at, "", false, PLAIN | (read_only ? MOUNT_ATTR_RDONLY : 0), -1,
		       &copy, err);
	if (r == 0)
		r = attach_copy(copy, name, err);
	return r < 0 ? r : rootfs_add_mount(m, path, name, read_only, 0, err);
}

/* Keep the paths writable that the image declares as volumes. */
static int gvisor_rootfs_keep_writable(struct gvisor_making *m, struct warren_error *err)
{
	size_t i = 0;
	int r = 0;

	if (!m->spec->read_only || !m->image.has_config)
		return 0;
	for (char **v = m->image.config.volumes; r == 0 && *v; v++, i++) {
		char name[24];

		(void)snprintf(name, sizeof(name), "w%zu", i);
		r = set_apart(m, *v, name, false, err);
	}
	return r;
}

int root_mount(struct gvisor_making *m, struct warren_error *err)
{
	int r;

	if (unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return error_errno(err, errno, "create a mount namespace");
	/* runsc looks up its children in /proc by their ids in this pid namespace. */
	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return error_errno(err, errno, "mount /proc");
	r = mount_scratch(m, err);
	if (r == 0)
		r = mount_layers(m, err);
	if (r == 0 && m->spec->read_only)
		r = make_points(m, err);
	/*
	 * Mount the parts of the root before the requested mounts, which may be below
	 * them and must be on top.
	 */
	if (r == 0)
		r = set_apart(m, "/tmp", "t", m->spec->read_only, err);
	if (r == 0)
		r = gvisor_rootfs_keep_writable(m, err);
	return r < 0 ? r : mount_volumes(m, err);
}
