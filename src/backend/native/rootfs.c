/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rootfs.c - the mounts of a sandbox, which the child creates in its own mount namespace
 *
 * All mounts are below one filesystem of limited size, the scratch space (a tmpfs, or the
 * disk of scratch_disk.c), which contains the upper directories of the overlays. Names of
 * layers are relative to it ("l0", "u0"), so that mountinfo shows no path of the host.
 * Mount points in the root are opened without following links; in the topmost layer,
 * which is Warren's, they are directories, whatever the image contains.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

#include "backend/native/cow.h"
#include "backend/native/native.h"
#include "base/hosts.h"
#include "os/mount.h"
#include "os/tree_copy.h"

/*
 * A directory that exists in this copy of the host's mounts, and that all users may
 * enter.
 */
#define SCRATCH_AT "/tmp"

/*
 * The kernel allows 3072 for all sandboxes together (kernel.pty.max less
 * kernel.pty.reserve).
 */
#define PTYS_MAX "64"

#define PLAIN (MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID)

/* Open a directory directly below @at, which must not be a link or another mount. */
static int open_target(int at, const char *name, struct warren_error *err)
{
	int fd = mount_openat2(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0,
			       RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);

	if (fd < 0)
		return error_errno(err, -fd, "open '/%s'", name);
	return fd;
}

static int attach_at(int mount_fd, int at, const char *name, struct warren_error *err)
{
	AUTO_CLOSE int target = open_target(at, name, err);

	return target < 0 ? target : mount_attach(mount_fd, target, "", err);
}

/*
 * Copy @path, which must be the same file as @opened (0: any file). @opened belongs to
 * the creator's mount namespace, whose mounts cannot be copied here: so find the file
 * again in this namespace.
 */
int rootfs_copy_path(struct native_plan *p, const char *path, int opened, bool recursive,
		     uint64_t attr, struct warren_error *err)
{
	AUTO_CLOSE int at = open(path, O_PATH | O_CLOEXEC);
	struct stat found, wanted;
	int r;

	if (at < 0 || fstat(at, &found) < 0 || (opened && fstat(opened, &wanted) < 0))
		return error_errno(err, errno, "open '%s'", path);
	if (opened && (found.st_dev != wanted.st_dev || found.st_ino != wanted.st_ino))
		return error_set(err, ESTALE, "'%s' no longer refers to the same file",
				 path);
	r = mount_copy(at, "", recursive, attr, -1, &p->fds[p->n_fds], err);
	p->n_fds += r == 0;
	return r;
}

/*
 * Without privileges, no ids are mapped on mounts. The child itself makes the copies that
 * the parent would otherwise send, while paths still lead to the host.
 */
int rootfs_copies(struct native_plan *p, struct warren_error *err)
{
	int r = 0;

	if (p->engine->privileged)
		return 0;
	if (p->restores) {
		p->fds[p->n_fds] = fcntl(p->saved, F_DUPFD_CLOEXEC, 3);
		if (p->fds[p->n_fds++] < 0)
			return error_errno(err, errno, "keep the saved files");
	}
	for (size_t i = 0; r == 0 && i < p->image.n_mounts; i++) {
		const struct image_mount *l = &p->image.mounts[i];

		/* This copies a tree of the machine, including all mounts in it: see
		 * hide.c. */
		r = rootfs_copy_path(p, l->path, l->fd, l->at[0],
				     PLAIN | MOUNT_ATTR_RDONLY, err);
		if (r == -EINVAL && !l->at[0])
			r = error_set(
				err, EINVAL,
				"something is mounted below '%s', and only root can "
				"exclude it: unmount it, or copy the directory",
				l->path);
	}
	if (r == 0)
		r = cow_own_root(p, err);
	for (size_t i = 0; r == 0 && i < p->spec->n_mounts; i++) {
		const struct warren_mount *m = &p->spec->mounts[i];

		if (m->writes)
			r = cow_own_mount(p, m, err);
		else if (m->source)
			r = rootfs_copy_path(
				p, m->source, m->source_fd, true,
				PLAIN | (m->read_only ? MOUNT_ATTR_RDONLY : 0), err);
	}
	return r;
}

/* The options that limit a tmpfs; they can be changed later. */
struct bounds {
	char size[24], inodes[24];
	struct mount_option options[4];
};

static const struct mount_option *rootfs_bound(struct bounds *b, uint64_t disk,
					       const char *mode)
{
	(void)snprintf(b->size, sizeof(b->size), "%ju", (uintmax_t)disk);
	/*
	 * One inode for every 4 KiB, so that small files do not cost the host more than
	 * large ones.
	 */
	(void)snprintf(b->inodes, sizeof(b->inodes), "%ju",
		       (uintmax_t)(disk / 4096 + 1024));
	b->options[0] = (struct mount_option){ "size", b->size };
	b->options[1] = (struct mount_option){ "nr_inodes", b->inodes };
	b->options[2] = (struct mount_option){ "mode", mode };
	b->options[3] = (struct mount_option){ NULL, NULL };
	return b->options;
}

/* A directory of the scratch space, which a disk that is kept may already have. */
static int rootfs_mkdir(const char *name, mode_t mode)
{
	return mkdir(name, mode) < 0 && errno != EEXIST ? -1 : 0;
}

/* -ENOENT: it does not exist; another error: this is not known. */
static int rootfs_look(const char *name)
{
	return faccessat(AT_FDCWD, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int enter_scratch(struct native_plan *p, struct warren_error *err)
{
	int r = mount_attach(p->scratch, AT_FDCWD, SCRATCH_AT, err);

	if (r < 0)
		return r;
	if (fchdir(p->scratch) < 0)
		return error_errno(err, errno, "enter the scratch space");
	/*
	 * If the machine lost power before all directories reached the disk, it is new.
	 * But once an overlay was mounted, its work directory is not empty, and there
	 * were files.
	 */
	if (p->kept && rootfs_look("u") == -ENOENT && rootfs_look("w/work") == -ENOENT)
		p->kept = false;
	if (p->kept && rootfs_look("u") < 0)
		return error_set(err, EREMOTEIO,
				 "the disk of the sandbox is damaged: it has no files");
	/* For a part, in advance: the upper directory and the files in it. */
	if (rootfs_mkdir("r", 0755) < 0 || rootfs_mkdir("w", 0755) < 0 ||
	    (!p->kept && (mkdir("u", 0755) < 0 || mkdir("u/etc", 0755) < 0)))
		return error_errno(err, errno, "enter the scratch space");
	/* init keeps a descriptor of the directory, so that its files can be saved
	 * (save.c). It is a mount without a parent, so that nothing else can be
	 * reached through it. */
	return mount_copy(AT_FDCWD, "u", false, PLAIN, -1, &p->dirs[DIR_UPPER], err);
}

int rootfs_scratch(struct native_plan *p, struct warren_error *err)
{
	struct bounds b;
	int r = 0;

	if (p->on_disk && p->n_fds > 0)
		p->scratch = p->fds[0];
	else
		r = mount_new("tmpfs", rootfs_bound(&b, p->disk, "0755"), PLAIN,
			      &p->scratch, err);
	return r < 0 ? r : enter_scratch(p, err);
}

/*
 * Set the size of a prepared sandbox's scratch space, which had a default size until now.
 */
int rootfs_fit(struct native_plan *p, struct warren_error *err)
{
	struct bounds b;

	if (!p->on_disk)
		return mount_change(p->scratch, rootfs_bound(&b, p->disk, "0755"), err);
	if (p->n_fds == 0)
		return error_set(err, EPROTO, "the disk is missing");
	(void)close(p->scratch);
	p->scratch = p->fds[0];
	return enter_scratch(p, err);
}

/* Fill the upper directory with saved files, before it is mounted. */
int rootfs_restore(struct native_plan *p, struct warren_error *err)
{
	struct tree_copy copy = { 0 };

	if (!p->restores)
		return 0;
	if (p->n_fds <= p->on_disk)
		return error_set(err, EPROTO, "the saved files are missing");
	if (rmdir("u/etc") < 0)
		return error_errno(err, errno, "empty the upper directory");
	return tree_copy(p->fds[p->on_disk], p->dirs[DIR_UPPER], &copy, err);
}

/* Attach the layers at the names that the overlay's option uses. */
static int attach_stack(struct native_plan *p, size_t *next, struct warren_error *err)
{
	for (size_t i = 0; i < p->image.n_mounts && p->image.mounts[i].at[0] == '\0';
	     i++) {
		char name[] = { 'l', (char)('a' + i), '\0' };
		int r;

		if (*next >= p->n_fds)
			return error_set(err, EPROTO, "a layer is missing");
		if (rootfs_mkdir(name, 0755) < 0)
			return error_errno(err, errno, "create a mount point");
		r = mount_attach(p->fds[(*next)++], AT_FDCWD, name, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Use mount(2), because an option of fsconfig(2) can have at most 255 characters. */
static int mount_overlay_by_path(const struct native_plan *p, const char *at,
				 const char *more, struct warren_error *err)
{
	char options[4096];

	if (snprintf(options, sizeof(options), "lowerdir=%s,%suserxattr", p->lowers,
		     more) >= (int)sizeof(options))
		return error_errno(err, E2BIG, "list the layers");
	if (mount("none", at, "overlay", MS_NODEV | MS_NOSUID, options) < 0)
		return error_errno(err, errno, "mount overlay");
	return 0;
}

static int mount_long_overlay(struct native_plan *p, struct warren_error *err)
{
	char more[96];
	int r;

	(void)snprintf(more, sizeof(more), "upperdir=%s,workdir=%s,", p->upper, p->work);
	r = mount_overlay_by_path(p, "r", more, err);
	if (r < 0)
		return r;
	p->root = open("r", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return p->root < 0 ? error_errno(err, errno, "open the root") : 0;
}

static int rootfs_mount_overlay(struct native_plan *p, struct warren_error *err)
{
	struct mount_option options[] = { { "lowerdir", p->lowers },
					  { "upperdir", p->upper },
					  { "workdir", p->work },
					  { "userxattr", NULL },
					  { NULL, NULL } };
	int r = p->restores || p->kept || p->used ? 0
						  : hosts_write(p->upper, p->hostname);

	if (r < 0)
		return error_errno(err, -r, "write /etc/hosts");
	if (strlen(p->lowers) > 255)
		return mount_long_overlay(p, err);
	r = mount_new("overlay", options, PLAIN, &p->root, err);
	return r < 0 ? r : mount_attach(p->root, AT_FDCWD, "r", err);
}

/*
 * init also keeps a view of the layers without the upper directory, so that changes can
 * be found and undone (diff.c). A single layer needs no overlay; the kernel would not
 * permit an overlay of one layer without an upper directory.
 */
static int rootfs_keep_lower(struct native_plan *p, struct warren_error *err)
{
	const uint64_t attr = PLAIN | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY;
	struct mount_option options[] = { { "lowerdir", p->lowers },
					  { "userxattr", NULL },
					  { NULL, NULL } };
	const char *at = p->lowers;
	int r = 0;

	if (strchr(at, ':') && strlen(at) <= 255)
		return mount_new("overlay", options, attr, &p->dirs[DIR_LOWER], err);
	if (strchr(at, ':')) {
		at = "v";
		if (rootfs_mkdir(at, 0755) < 0)
			return error_errno(err, errno, "create a mount point");
		r = mount_overlay_by_path(p, at, "", err);
	}
	return r < 0 ? r
		     : mount_copy(AT_FDCWD, at, false, attr, -1, &p->dirs[DIR_LOWER],
				  err);
}

/* Mount the root as an overlay, and the other trees as they are. */
int rootfs_trees(struct native_plan *p, struct warren_error *err)
{
	size_t next = (size_t)p->on_disk + p->restores;
	size_t cow = next + p->image.n_mounts;
	int r = attach_stack(p, &next, err);

	(void)strcpy(p->upper, "u");
	(void)strcpy(p->work, "w");
	if (r == 0)
		r = cow_root(p, cow, err);
	if (r == 0)
		r = rootfs_keep_lower(p, err);
	if (r == 0)
		r = rootfs_mount_overlay(p, err);
	for (size_t i = 0; r == 0 && i < p->image.n_mounts; i++) {
		if (p->image.mounts[i].at[0] == '\0')
			continue;
		if (next >= p->n_fds)
			return error_set(err, EPROTO, "a tree is missing");
		r = attach_at(p->fds[next++], p->root, p->image.mounts[i].at, err);
	}
	return r < 0 ? r : cow_mounts(p, cow + cow_root_fds(p->spec), err);
}

/* ------------------------------------------------------------------- /proc */

/*
 * Paths of /proc that reveal something about the machine or give access to the kernel;
 * missing ones are skipped. The host's file modes protect many others, because root
 * inside is an unprivileged user on the host. SECURITY.md lists what programs need to
 * know about the machine (meminfo, stat, loadavg, ...); a test lists all names.
 */
static const char *const masked_files[] = {
	"kcore",     "keys",          "key-users",   "kallsyms",      "kmsg",
	"slabinfo",  "timer_list",    "timer_stats", "sched_debug",   "interrupts",
	"cmdline",   "config.gz",     "modules",     "sysrq-trigger", "iomem",
	"ioports",   "latency_stats", "locks",       "diskstats",     "partitions",
	"buddyinfo", "zoneinfo",      "softirqs",    "schedstat",
};

static const char *const masked_dirs[] = { "acpi", "scsi", "asound", "pressure",
					   "bus",  "irq",  "fs" };

static const char *const read_only[] = { "sys" };
static const char *const boot_id[] = { "sys/kernel/random/boot_id" };

static int make_read_only(int proc, const char *name, struct warren_error *err)
{
	AUTO_CLOSE int fd = -1;
	int r = mount_copy(proc, name, false,
			   MOUNT_ATTR_RDONLY | PLAIN | MOUNT_ATTR_NOEXEC, -1, &fd, err);

	if (r == -ENOENT)
		return 0;
	return r < 0 ? r : mount_attach(fd, proc, name, err);
}

/*
 * Each start of a sandbox is a boot with its own id: programs compare it to find out
 * whether their processes still exist, and the machine's id would identify the machine.
 */
static int write_boot_id(const char *path)
{
	/* On a disk that is kept and full, there is room only for what it replaces. */
	AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0444);
	unsigned char b[16];
	char text[64];
	int n;

	if (fd < 0 && errno == ENOSPC)
		return 0;
	if (fd < 0 || getrandom(b, sizeof(b), 0) != (ssize_t)sizeof(b))
		return -1;
	b[6] = (b[6] & 0x0f) | 0x40; /* a UUID of version 4 */
	b[8] = (b[8] & 0x3f) | 0x80;
	n = snprintf(
		text, sizeof(text),
		"%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x\n",
		b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11],
		b[12], b[13], b[14], b[15]);
	/* A kept disk that an earlier version filled has no room for the first one. */
	return write(fd, text, (size_t)n) == n || errno == ENOSPC ? 0 : -1;
}

/*
 * Create an empty file, an empty directory and the boot's id in a read-only mount; bind
 * mounts of them are read-only too.
 */
static int make_masks(struct warren_error *err)
{
	AUTO_CLOSE int fd = -1;
	int r;

	if (rootfs_mkdir("m", 0755) < 0 || rootfs_mkdir("m/d", 0555) < 0 ||
	    (mknod("m/f", S_IFREG | 0444, 0) < 0 && errno != EEXIST) ||
	    write_boot_id("m/b") < 0)
		return error_errno(err, errno, "create the masks");
	r = mount_copy(AT_FDCWD, "m", false,
		       MOUNT_ATTR_RDONLY | PLAIN | MOUNT_ATTR_NOEXEC, -1, &fd, err);
	return r < 0 ? r : mount_attach(fd, AT_FDCWD, "m", err);
}

/* The kernel creates the names below the root of procfs, so none of them is a link chosen
 * by the image. */
static int rootfs_mask(const char *from, const char *const *names, size_t n,
		       struct warren_error *err)
{
	for (size_t i = 0; i < n; i++)
		if (mount(from, names[i], NULL, MS_BIND, NULL) < 0 && errno != ENOENT)
			return error_errno(err, errno, "mask /proc/%s", names[i]);
	return 0;
}

static int mask_proc(const struct native_plan *p, struct warren_error *err)
{
	int r = make_masks(err);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(read_only); i++) {
		r = make_read_only(p->proc, read_only[i], err);
		if (r < 0)
			return error_wrap(err, "make /proc/%s read-only", read_only[i]);
	}
	if (r == 0 && fchdir(p->proc) < 0)
		r = error_errno(err, errno, "enter /proc");
	if (r == 0)
		r = rootfs_mask(SCRATCH_AT "/m/f", masked_files, ARRAY_SIZE(masked_files),
				err);
	if (r == 0)
		r = rootfs_mask(SCRATCH_AT "/m/d", masked_dirs, ARRAY_SIZE(masked_dirs),
				err);
	if (r == 0)
		r = rootfs_mask(access(SCRATCH_AT "/m/b", F_OK) == 0 ? SCRATCH_AT "/m/b"
								     : SCRATCH_AT "/m/f",
				boot_id, ARRAY_SIZE(boot_id), err);
	return r;
}

int rootfs_proc(struct native_plan *p, struct warren_error *err)
{
	int r = mount_new("proc", NULL, PLAIN | MOUNT_ATTR_NOEXEC, &p->proc, err);

	if (r == 0)
		r = attach_at(p->proc, p->root, "proc", err);
	return r < 0 ? r : mask_proc(p, err);
}

/* -------------------------------------------------------------------- /dev */

static int make_pts(struct native_plan *p, struct warren_error *err)
{
	/* Do not use the group tty: an ordinary user's sandbox may have no such id. */
	static const struct mount_option pts[] = { { "ptmxmode", "0666" },
						   { "mode", "0620" },
						   { "max", PTYS_MAX },
						   { NULL, NULL } };

	/*
	 * devpts consists of its own device nodes, so MOUNT_ATTR_NODEV would make it
	 * useless.
	 */
	return mount_new("devpts", pts, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, &p->pts,
			 err);
}

/* For a part: mount what does not depend on the image, so that it can be moved later. */
int rootfs_stage(struct native_plan *p, struct warren_error *err)
{
	int r = mount_new("proc", NULL, PLAIN | MOUNT_ATTR_NOEXEC, &p->proc, err);

	if (r == 0 && mkdir("proc", 0755) < 0)
		r = error_errno(err, errno, "create a mount point");
	if (r == 0)
		r = mount_attach(p->proc, AT_FDCWD, "proc", err);
	if (r == 0)
		r = mask_proc(p, err);
	if (r == 0)
		r = make_pts(p, err);
	if (r == 0 && fchdir(p->scratch) < 0)
		r = error_errno(err, errno, "enter the scratch space");
	return r;
}

int rootfs_place_proc(struct native_plan *p, struct warren_error *err)
{
	return attach_at(p->proc, p->root, "proc", err);
}

static const char *const nodes[] = { "null", "zero", "full", "random", "urandom", "tty" };

/*
 * Bind the host's nodes over the empty files of our layer, before any other process uses
 * it.
 */
static int bind_nodes(int dev, struct warren_error *err)
{
	struct mount_attr ro = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC };

	if (fchdir(dev) < 0)
		return error_errno(err, errno, "enter /dev");
	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		char host[16] = "/dev/";

		(void)strncat(host, nodes[i], sizeof(host) - 6);
		if (mount(host, nodes[i], NULL, MS_BIND, NULL) < 0)
			return error_errno(err, errno, "bind /dev/%s", nodes[i]);
		/*
		 * Programs can still read and write the devices, but must not change the
		 * owner and times of the host's nodes.
		 */
		if (mount_setattr(AT_FDCWD, nodes[i], 0, &ro, sizeof(ro)) < 0)
			return error_errno(err, errno, "restrict /dev/%s", nodes[i]);
	}
	return 0;
}

/* Shared memory is part of the scratch space if that is in memory. */
static int mount_shm(const struct native_plan *p, int dev, struct warren_error *err)
{
	AUTO_CLOSE int fd = -1;
	struct bounds b;
	int r;

	if (p->on_disk) {
		r = mount_new("tmpfs", rootfs_bound(&b, p->shm, "1777"), PLAIN, &fd, err);
	} else {
		if (mkdirat(p->scratch, "s", 01777) < 0)
			return error_errno(err, errno, "create /dev/shm");
		r = mount_copy(p->scratch, "s", false, PLAIN, -1, &fd, err);
	}
	return r < 0 ? r : attach_at(fd, dev, "shm", err);
}

int rootfs_dev(struct native_plan *p, struct warren_error *err)
{
	AUTO_CLOSE int dev = open_target(p->root, "dev", err);
	int r;

	if (dev < 0)
		return dev;
	r = mount_shm(p, dev, err);
	if (r == 0)
		r = bind_nodes(dev, err);
	if (r == 0 && p->pts < 0)
		r = make_pts(p, err);
	return r < 0 ? r : attach_at(p->pts, dev, "pts", err);
}

/* --------------------------------------------------- pivot and mounts in the new root */

static int rootfs_change_root(int root, struct warren_error *err)
{
	if (fchdir(root) < 0)
		return error_errno(err, errno, "enter the root");
	/*
	 * Mount the new root over the old one, then detach the old one, which is now
	 * below it.
	 */
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return error_errno(err, errno, "pivot_root");
	if (umount2(".", MNT_DETACH) < 0)
		return error_errno(err, errno, "detach the host's mounts");
	if (chdir("/") < 0)
		return error_errno(err, errno, "enter the new root");
	return 0;
}

int rootfs_pivot(struct native_plan *p, struct warren_error *err)
{
	return rootfs_change_root(p->root, err);
}

/*
 * For a part: while it waits, its root is the scratch space, with what the steps that
 * follow need of the machine. Otherwise it would keep a copy of each mount of the
 * machine, and with it the filesystems that are unmounted in the meantime.
 */
int rootfs_leave(struct native_plan *p, struct warren_error *err)
{
	AUTO_CLOSE int dev = -1;
	int r;

	if (mkdir(&SCRATCH_AT[1], 0755) < 0 || mkdir("dev", 0755) < 0)
		return error_errno(err, errno, "create a mount point");
	dev = open("dev", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dev < 0)
		return error_errno(err, errno, "open a mount point");
	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++)
		if (mknodat(dev, nodes[i], S_IFREG | 0444, 0) < 0)
			return error_errno(err, errno, "create a mount point");
	r = bind_nodes(dev, err);
	return r < 0 ? r : rootfs_change_root(p->scratch, err);
}

/* Directories that the image shares with the machine are read-only, for root as well. */
static int make_target_failed(const char *part, struct warren_error *err)
{
	int code = errno;

	(void)error_errno(err, code, "create the mount point '%s'", part);
	if (code == EROFS) {
		size_t n = strlen(err->msg);

		(void)snprintf(err->msg + n, sizeof(err->msg) - n,
			       "; choose a path outside of this directory, such as "
			       "/mnt/NAME");
	}
	/* The kernel creates nothing in a directory whose owner or group has no id. */
	if (code == EOVERFLOW) {
		size_t n = strlen(err->msg);

		(void)snprintf(err->msg + n, sizeof(err->msg) - n,
			       "; the owner or the group of the directory in the image "
			       "has no id in the sandbox: create the mount point in the "
			       "image, or change the owner and the group");
	}
	return -code;
}

/*
 * Open @path inside; create missing directories and, as the last component, a directory
 * or an empty file. Follow links (all paths end inside now) except those of /proc, which
 * could lead to one of our descriptors.
 */
static int make_target(const char *path, bool dir, struct warren_error *err)
{
	AUTO_CLOSE int at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char part[4096];
	size_t n = strlen(path), from = 1;

	if (n >= sizeof(part) || at < 0)
		return error_set(err, ENAMETOOLONG, "mount point '%.64s...' is too long",
				 path);
	for (size_t i = 1; i <= n; i++) {
		bool last = i == n;
		int fd;

		if (path[i] != '/' && !last)
			continue;
		(void)memcpy(part, path, i);
		part[i] = '\0';
		fd = mount_openat2(AT_FDCWD, part, O_PATH, 0, RESOLVE_NO_MAGICLINKS);
		if (fd == -ENOENT && part[from] != '\0') {
			int r = last && !dir ? mknodat(at, part + from, S_IFREG | 0644, 0)
					     : mkdirat(at, part + from, 0755);

			if (r < 0)
				return make_target_failed(part, err);
			fd = mount_openat2(AT_FDCWD, part, O_PATH, 0,
					   RESOLVE_NO_MAGICLINKS);
		}
		if (fd < 0)
			return error_errno(err, -fd, "open the mount point '%s'", part);
		(void)close(at);
		at = fd;
		from = i + 1;
	}
	return TAKE_FD(at);
}

static int mount_tmpfs(const struct native_plan *p, const struct warren_mount *m,
		       int *ret_fd, struct warren_error *err)
{
	struct bounds b;

	return mount_new("tmpfs", rootfs_bound(&b, m->size ? m->size : p->tmpfs, "1777"),
			 PLAIN | (m->read_only ? MOUNT_ATTR_RDONLY : 0), ret_fd, err);
}

static int mount_one(const struct native_plan *p, const struct warren_mount *m, int fd,
		     struct warren_error *err)
{
	AUTO_CLOSE int target = -1, made = -1;
	struct stat st = { .st_mode = S_IFDIR }, to;
	struct statfs fs;

	if (!m->source) {
		int r = mount_tmpfs(p, m, &made, err);

		if (r < 0)
			return r;
		fd = made;
	} else if (fstat(fd, &st) < 0) {
		return error_errno(err, errno, "inspect '%s'", m->source);
	}
	target = make_target(m->target, S_ISDIR(st.st_mode), err);
	if (target < 0)
		return target;
	if (fstat(target, &to) < 0 || fstatfs(target, &fs) < 0)
		return error_errno(err, errno, "inspect the mount point");
	if (S_ISDIR(st.st_mode) != S_ISDIR(to.st_mode))
		return error_set(err, ENOTDIR, "a %s cannot be mounted over a %s",
				 S_ISDIR(st.st_mode) ? "directory" : "file",
				 S_ISDIR(to.st_mode) ? "directory" : "file");
	/*
	 * This check applies to any name that was used: the masks in /proc are part of
	 * the isolation.
	 */
	if (fs.f_type == PROC_SUPER_MAGIC)
		return error_set(err, EPERM, "nothing can be mounted in /proc");
	return mount_attach(fd, target, "", err);
}

static int rootfs_mount_at_depth(struct native_plan *p, unsigned depth, size_t *left,
				 struct warren_error *err)
{
	for (size_t i = 0; i < p->spec->n_mounts; i++) {
		const struct warren_mount *m = &p->spec->mounts[i];
		int r;

		if (mount_depth(m->target) != depth)
			continue;
		r = mount_one(p, m, p->mount_fds[i], err);
		if (r < 0)
			return error_wrap(err, "mount at '%s'", m->target);
		(*left)--;
	}
	return 0;
}

/*
 * Bind a path that the image declares as a volume to itself, so that it is a separate
 * mount.
 */
static int rootfs_keep_writable(const char *path, struct warren_error *err)
{
	AUTO_CLOSE int target = make_target(path, true, err), fd = -1;
	int r;

	if (target < 0)
		return target;
	r = mount_copy(target, "", false, PLAIN, -1, &fd, err);
	return r < 0 ? r : mount_attach(fd, target, "", err);
}

/*
 * Volumes are mounted after the layers and after the volumes that the image declares,
 * because they may be below those. Mounts closer to the root come first, whatever their
 * order in the spec: otherwise a mount would hide those below it.
 */
int rootfs_mounts(struct native_plan *p, struct warren_error *err)
{
	size_t left = p->spec->n_mounts;
	int r = 0;

	for (const char *v = p->volumes; p->spec->read_only && *v; v += strlen(v) + 1)
		if (rootfs_keep_writable(v, err) < 0)
			return error_wrap(err, "keep '%s' writable", v);
	for (unsigned depth = 1; r == 0 && left > 0; depth++)
		r = rootfs_mount_at_depth(p, depth, &left, err);
	return r;
}

int rootfs_seal(struct native_plan *p, struct warren_error *err)
{
	struct mount_attr all = { .attr_set = MOUNT_ATTR_NOSUID };

	/* The copies of the host's device nodes have the host's mount flags. */
	if (mount_setattr(p->root, "", AT_EMPTY_PATH | AT_RECURSIVE, &all, sizeof(all)) <
	    0)
		return error_errno(err, errno, "make every mount nosuid");
	if (!p->spec->read_only)
		return 0;
	return mount_restrict(p->root, MOUNT_ATTR_RDONLY, err);
}
