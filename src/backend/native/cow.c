/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cow.c - directories of the host that a sandbox sees through an overlay
 *
 * A mount with .writes is an overlay: at the bottom the layers .below; above them the
 * source, read-only; above it the layers; on top the directory `upper` of .writes, which
 * gets the changes. The root gets layers and an upper directory of the host in the same
 * way. The parent opens the directories, creates `upper` and `work` the first time, and
 * holds a lock, because two overlays with one upper directory would damage it. The child
 * mounts the overlays in its scratch space, where the directories have short names,
 * before it leaves the host's mounts.
 *
 * Ids, if root creates the sandbox: in the source, only the owner of the directory is
 * mapped, as for a volume, so that files of other users of the host keep their
 * protection. In upper directories and layers, the owner of the directory is the
 * sandbox's user, too, and the other ids are those inside: a file of user 33 inside
 * belongs to user 33 on disk. Files there may have set-id bits. So .writes must be in a
 * directory that only root (or the ordinary user who creates the sandbox) can enter.
 */
#include "backend/native/cow.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#include "os/mount.h"

#ifndef OVERLAYFS_SUPER_MAGIC
#define OVERLAYFS_SUPER_MAGIC 0x794c7630
#endif

#define COW_PLAIN     (MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID)
#define COW_READ_ONLY (COW_PLAIN | MOUNT_ATTR_RDONLY)
#define COW_XATTR     "user.overlay.warren"

static size_t cow_n_layers(const char *const *layers)
{
	size_t n = 0;

	while (layers && layers[n])
		n++;
	return n;
}

size_t cow_root_fds(const struct warren_spec *spec)
{
	return cow_n_layers(spec->layers) + (spec->writes != NULL);
}

/* ------------------------------------------------------------------- in the parent */

static int cow_check(const struct warren_spec *s, struct warren_error *err)
{
	size_t dirs = cow_root_fds(s), writes = s->writes != NULL;

	for (size_t i = 0; i < s->n_mounts; i++) {
		dirs += cow_n_layers(s->mounts[i].layers);
		dirs += cow_n_layers(s->mounts[i].below);
		dirs += s->mounts[i].writes != NULL;
		writes += s->mounts[i].writes != NULL;
	}
	if (dirs > COW_DIRS_MAX || writes > COW_WRITES_MAX)
		return error_set(err, E2BIG,
				 "a sandbox may have at most %d layers and %d "
				 "directories for changes",
				 COW_DIRS_MAX - COW_WRITES_MAX, COW_WRITES_MAX);
	return 0;
}

/* An overlay keeps its notes in extended attributes of the upper directory. */
static int cow_check_upper(int fd, const char *writes, struct warren_error *err)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return error_errno(err, errno, "inspect '%s'", writes);
	if (fs.f_type == OVERLAYFS_SUPER_MAGIC)
		return error_set(err, EOPNOTSUPP,
				 "'%s' is on an overlay filesystem, which cannot hold "
				 "the changes of another one",
				 writes);
	if (fsetxattr(fd, COW_XATTR, "", 0, 0) < 0)
		return error_set(err, errno == ENOTSUP ? EOPNOTSUPP : errno,
				 "'%s' cannot hold changes: set an extended attribute: "
				 "%s",
				 writes, strerrordesc_np(errno));
	(void)fremovexattr(fd, COW_XATTR);
	return 0;
}

/* Create a directory with the owner and mode of @like, unless it exists. */
static int cow_mkdir(int dir, const char *name, const struct stat *like, bool chowns,
		     int *ret_fd)
{
	bool created = mkdirat(dir, name, 0700) == 0;
	AUTO_CLOSE int fd = -1;

	if (!created && errno != EEXIST)
		return -errno;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (created && ((chowns && fchown(fd, like->st_uid, like->st_gid) < 0) ||
			fchmod(fd, like->st_mode & 01777) < 0))
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/*
 * Create the parts of @writes, and lock it. The directory that was judged is also the one
 * that is mounted: as root by its descriptor; the child of an ordinary user must open the
 * path again, and checks that it leads to the same directory.
 */
static int cow_prepare(struct create_op *m, const char *writes, const struct stat *like,
		       struct warren_error *err)
{
	AUTO_CLOSE int dir =
		open(writes, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_CLOSE int lock = -1, upper = -1, work = -1;
	struct native_sandbox *sandbox = m->sandbox;
	struct stat judged;
	int r;

	if (dir < 0)
		return error_errno(err, errno, "open '%s'", writes);
	lock = openat(dir, "lock", O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (lock < 0)
		return error_errno(err, errno, "lock '%s'", writes);
	if (flock(lock, LOCK_EX | LOCK_NB) < 0)
		return error_set(err, EBUSY, "another sandbox writes to '%s'", writes);
	r = cow_mkdir(dir, "upper", like, m->engine->privileged, &upper);
	if (r == 0)
		r = cow_mkdir(dir, "work", like, m->engine->privileged, &work);
	if (r < 0)
		return error_errno(err, -r, "create directories in '%s'", writes);
	r = cow_check_upper(upper, writes, err);
	if (r == 0 && fstat(dir, &judged) < 0)
		r = error_errno(err, errno, "inspect '%s'", writes);
	if (r < 0)
		return r;
	m->plan->writes[sandbox->n_writes].dev = judged.st_dev;
	m->plan->writes[sandbox->n_writes].ino = judged.st_ino;
	m->writes_dirs[m->n_writes_dirs++] = TAKE_FD(dir);
	sandbox->writes_locks[sandbox->n_writes++] = TAKE_FD(lock);
	return 0;
}

void cow_close_dirs(struct create_op *m)
{
	while (m->n_writes_dirs > 0)
		(void)close(m->writes_dirs[--m->n_writes_dirs]);
}

/* Which of the directories for changes is that of @v, or (NULL) of the root? */
static size_t cow_index(const struct warren_spec *s, const struct warren_mount *v)
{
	size_t n = v && s->writes;

	for (size_t i = 0; v && &s->mounts[i] < v; i++)
		n += s->mounts[i].writes != NULL;
	return n;
}

int cow_open(struct create_op *m, struct warren_error *err)
{
	const struct warren_spec *s = m->spec;
	struct stat like = { .st_mode = S_IFDIR | 0755 };
	int r = cow_check(s, err);

	if (r == 0 && s->writes)
		r = cow_prepare(m, s->writes, &like, err);
	for (size_t i = 0; r == 0 && i < s->n_mounts; i++) {
		const struct warren_mount *v = &s->mounts[i];

		if (!v->writes)
			continue;
		if ((v->source_fd ? fstat(v->source_fd, &like) : stat(v->source, &like)) <
		    0)
			return error_errno(err, errno, "open '%s'", v->source);
		if (!S_ISDIR(like.st_mode))
			return error_errno(err, ENOTDIR, "'%s'", v->source);
		r = cow_prepare(m, v->writes, &like, err);
	}
	return r;
}

void cow_close(struct native_sandbox *sandbox)
{
	while (sandbox->n_writes > 0)
		(void)close(sandbox->writes_locks[--sandbox->n_writes]);
}

/* What a directory is to the sandbox, which determines its ids. */
enum cow_role {
	COW_SOURCE, /* only its owner has an id inside */
	COW_LAYER,  /* an upper directory of an earlier sandbox, or like one */
	COW_WRITES, /* its directory `upper` has the owner */
	COW_ROOT,   /* a layer or .writes of the root: its ids are those inside */
};

static int cow_map(struct create_op *m, enum cow_role role, const struct stat *st,
		   int *ret_fd, struct warren_error *err)
{
	const struct initclient_user *user = &m->sandbox->user;
	struct ns_maps maps;

	/* Often, the namespace of the sandbox has the same map. */
	if (role == COW_ROOT ||
	    (role != COW_SOURCE && st->st_uid == user->uid && st->st_gid == user->gid)) {
		*ret_fd = fcntl(m->userns, F_DUPFD_CLOEXEC, 0);
		return *ret_fd < 0 ? error_errno(err, errno, "copy a descriptor") : 0;
	}
	if (role == COW_SOURCE)
		idmap_volume(m->sandbox, st->st_uid, st->st_gid, &maps);
	else
		idmap_layer(m->sandbox, st->st_uid, st->st_gid, &maps);
	return ns_make_userns(&maps, ret_fd, err);
}

static int cow_copy(struct create_op *m, enum cow_role role, bool writable,
		    const char *path, int opened, int *ret_fd, struct warren_error *err)
{
	AUTO_CLOSE int at = opened ? fcntl(opened, F_DUPFD_CLOEXEC, 0)
				   : open(path, O_PATH | O_DIRECTORY | O_CLOEXEC),
		       map = -1;
	struct stat st;
	int r;

	if (at < 0 || fstatat(at, role == COW_WRITES ? "upper" : "", &st,
			      AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
		return error_errno(err, errno, "open '%s'", path);
	r = cow_map(m, role, &st, &map, err);
	if (r == 0)
		r = mount_copy(at, "", false, writable ? COW_PLAIN : COW_READ_ONLY, map,
			       ret_fd, err);
	/* The kernel has no id maps for this filesystem. */
	if (r == -EINVAL || r == -EOPNOTSUPP)
		return error_set(err, EOPNOTSUPP,
				 "the filesystem of '%s' cannot be a layer: its files "
				 "cannot get the ids of a sandbox",
				 path);
	return r < 0 ? error_wrap(err, "layer '%s'", path) : 0;
}

static int cow_copy_layers(struct create_op *m, enum cow_role role,
			   const char *const *layers, int *fds, size_t *n,
			   struct warren_error *err)
{
	int r = 0;

	for (; r == 0 && layers && *layers; layers++) {
		r = cow_copy(m, role, false, *layers, 0, &fds[*n], err);
		*n += r == 0;
	}
	return r;
}

/* @v is NULL for the root. */
static int cow_copy_stack(struct create_op *m, const struct warren_mount *v, int *fds,
			  size_t *n, struct warren_error *err)
{
	const char *const *layers = v ? v->layers : m->spec->layers;
	const char *writes = v ? v->writes : m->spec->writes;
	bool root = !v;
	int r = cow_copy_layers(m, root ? COW_ROOT : COW_LAYER, layers, fds, n, err);

	if (r == 0 && v)
		r = cow_copy_layers(m, COW_LAYER, v->below, fds, n, err);
	if (r == 0 && writes) {
		r = cow_copy(m, root ? COW_ROOT : COW_WRITES, true, writes,
			     m->writes_dirs[cow_index(m->spec, v)], &fds[*n], err);
		*n += r == 0;
	}
	return r;
}

int cow_copy_root(struct create_op *m, int *fds, size_t *n, struct warren_error *err)
{
	return cow_copy_stack(m, NULL, fds, n, err);
}

int cow_copy_mount(struct create_op *m, const struct warren_mount *v, int *fds, size_t *n,
		   struct warren_error *err)
{
	int r = cow_copy(m, COW_SOURCE, false, v->source, v->source_fd, &fds[*n], err);

	*n += r == 0;
	return r < 0 ? r : cow_copy_stack(m, v, fds, n, err);
}

/* -------------------------------------------------------------------- in the child */

static int cow_own_writes(struct native_plan *p, const struct warren_mount *v,
			  const char *writes, struct warren_error *err)
{
	size_t i = cow_index(p->spec, v);
	int r = rootfs_copy_path(p, writes, 0, false, COW_PLAIN, err);
	struct stat st;

	if (r < 0)
		return r;
	if (fstat(p->fds[p->n_fds - 1], &st) < 0)
		return error_errno(err, errno, "inspect '%s'", writes);
	if (st.st_dev != p->writes[i].dev || st.st_ino != p->writes[i].ino)
		return error_set(err, ESTALE,
				 "'%s' no longer refers to the same directory", writes);
	return 0;
}

/* @v is NULL for the root. */
static int cow_own_stack(struct native_plan *p, const struct warren_mount *v,
			 struct warren_error *err)
{
	const char *const *layers = v ? v->layers : p->spec->layers;
	const char *writes = v ? v->writes : p->spec->writes;
	int r = 0;

	for (; r == 0 && layers && *layers; layers++)
		r = rootfs_copy_path(p, *layers, 0, false, COW_READ_ONLY, err);
	for (layers = v ? v->below : NULL; r == 0 && layers && *layers; layers++)
		r = rootfs_copy_path(p, *layers, 0, false, COW_READ_ONLY, err);
	if (r == 0 && writes)
		r = cow_own_writes(p, v, writes, err);
	return r;
}

int cow_own_root(struct native_plan *p, struct warren_error *err)
{
	return cow_own_stack(p, NULL, err);
}

int cow_own_mount(struct native_plan *p, const struct warren_mount *v,
		  struct warren_error *err)
{
	int r = rootfs_copy_path(p, v->source, v->source_fd, false, COW_READ_ONLY, err);

	if (r == -EINVAL)
		return error_set(err, EOPNOTSUPP,
				 "something is mounted below '%s', and only root can "
				 "exclude it",
				 v->source);
	return r < 0 ? r : cow_own_stack(p, v, err);
}

/* Attach the next descriptor in the scratch space; @ret_name is the name it gets. */
static int cow_attach(struct native_plan *p, size_t *next, char ret_name[16],
		      struct warren_error *err)
{
	if (*next >= p->n_fds)
		return error_set(err, EPROTO, "a layer is missing");
	(void)snprintf(ret_name, 16, "c%u", (unsigned)*next);
	if (mkdir(ret_name, 0755) < 0)
		return error_errno(err, errno, "create a mount point");
	return mount_attach(p->fds[(*next)++], AT_FDCWD, ret_name, err);
}

static int cow_attach_layers(struct native_plan *p, const char *const *layers,
			     size_t *next, char *lowers, size_t size,
			     struct warren_error *err)
{
	size_t len = strlen(lowers);

	for (; layers && *layers; layers++) {
		char name[16];
		int r = cow_attach(p, next, name, err), n;

		if (r < 0)
			return r;
		n = snprintf(lowers + len, size - len, "%s:", name);
		if (n >= (int)(size - len))
			return error_errno(err, E2BIG, "list the layers");
		len += (size_t)n;
	}
	return 0;
}

int cow_root(struct native_plan *p, size_t next, struct warren_error *err)
{
	const struct warren_spec *s = p->spec;
	char name[16], etc[32];
	size_t len;
	int r = cow_attach_layers(p, s->layers, &next, p->lowers, sizeof(p->lowers), err);

	if (r < 0)
		return r;
	len = strlen(p->lowers);
	if (len + strlen(p->image.lowers) >= sizeof(p->lowers))
		return error_errno(err, E2BIG, "list the layers");
	(void)strcpy(p->lowers + len, p->image.lowers);
	if (!s->writes)
		return 0;
	r = cow_attach(p, &next, name, err);
	if (r < 0)
		return r;
	(void)snprintf(p->upper, sizeof(p->upper), "%s/upper", name);
	(void)snprintf(p->work, sizeof(p->work), "%s/work", name);
	/*
	 * If something has this name, a sandbox used the directory before, and may have
	 * left a link: nothing is written there.
	 */
	(void)snprintf(etc, sizeof(etc), "%s/upper/etc", name);
	p->used = mkdir(etc, 0755) < 0;
	if (p->used && errno != EEXIST)
		return error_errno(err, errno, "create /etc");
	(void)close(p->dirs[DIR_UPPER]);
	return mount_copy(AT_FDCWD, p->upper, false, COW_PLAIN, -1, &p->dirs[DIR_UPPER],
			  err);
}

/*
 * Mount the overlay in the scratch space, and keep a copy that can be attached in the new
 * root.
 */
static int cow_mount(struct native_plan *p, const struct warren_mount *v, size_t *next,
		     int *ret_fd, struct warren_error *err)
{
	char options[4096], lowers[2048] = "", below[2048] = "";
	char source[16], writes[16], at[16];
	int r = cow_attach(p, next, source, err);

	if (r == 0)
		r = cow_attach_layers(p, v->layers, next, lowers, sizeof(lowers), err);
	if (r == 0)
		r = cow_attach_layers(p, v->below, next, below, sizeof(below), err);
	if (r == 0)
		r = cow_attach(p, next, writes, err);
	if (r < 0)
		return r;
	if (below[0]) /* each of them ends in ":" */
		below[strlen(below) - 1] = '\0';
	(void)snprintf(at, sizeof(at), "o%u", (unsigned)*next);
	if (snprintf(options, sizeof(options),
		     "lowerdir=%s%s%s%s,upperdir=%s/upper,workdir=%s/work,userxattr",
		     lowers, source, below[0] ? ":" : "", below, writes,
		     writes) >= (int)sizeof(options))
		return error_errno(err, E2BIG, "list the layers");
	if (mkdir(at, 0755) < 0)
		return error_errno(err, errno, "create a mount point");
	if (mount("none", at, "overlay", MS_NODEV | MS_NOSUID, options) < 0)
		return error_set(err, errno == EINVAL ? EOPNOTSUPP : errno,
				 "the kernel cannot mount '%s' with changes in '%s': %s",
				 v->source, v->writes, strerrordesc_np(errno));
	return mount_copy(AT_FDCWD, at, false, COW_PLAIN, -1, ret_fd, err);
}

int cow_mounts(struct native_plan *p, size_t next, struct warren_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < p->spec->n_mounts; i++) {
		const struct warren_mount *v = &p->spec->mounts[i];

		p->mount_fds[i] = -1;
		if (!v->source)
			continue;
		if (v->writes)
			r = cow_mount(p, v, &next, &p->mount_fds[i], err);
		else if (next >= p->n_fds)
			r = error_set(err, EPROTO, "a volume is missing");
		else
			p->mount_fds[i] = p->fds[next++];
	}
	return r;
}
