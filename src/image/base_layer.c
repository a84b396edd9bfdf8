/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base_layer.c - the layer that Warren adds to every image: tables of its contents;
 * build, find and remove it
 */
#include "image/base_layer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/boot.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/id.h"
#include "image/copy.h"
#include "image/entry.h"

#define SKEL_VERSION 9 /* version of the tables below; a change creates a new layer */

struct entry {
	const char *path;
	mode_t mode;      /* includes S_IFDIR, S_IFREG or S_IFLNK */
	const char *text; /* content of a file, or target of a link */
};

static const struct entry common[] = {
	{ "proc", S_IFDIR | 0755, NULL },
	/*
	 * The device nodes of the machine are bound over these; pts and shm are mounts.
	 */
	{ "dev", S_IFDIR | 0755, NULL },
	{ "dev/null", S_IFREG | 0666, "" },
	{ "dev/zero", S_IFREG | 0666, "" },
	{ "dev/full", S_IFREG | 0666, "" },
	{ "dev/random", S_IFREG | 0666, "" },
	{ "dev/urandom", S_IFREG | 0666, "" },
	{ "dev/tty", S_IFREG | 0666, "" },
	{ "dev/pts", S_IFDIR | 0755, NULL },
	{ "dev/shm", S_IFDIR | 01777, NULL },
	{ "dev/fd", S_IFLNK, "/proc/self/fd" },
	{ "dev/stdin", S_IFLNK, "/proc/self/fd/0" },
	{ "dev/stdout", S_IFLNK, "/proc/self/fd/1" },
	{ "dev/stderr", S_IFLNK, "/proc/self/fd/2" },
	{ "dev/ptmx", S_IFLNK, "pts/ptmx" },
	{ "tmp", S_IFDIR | 01777, NULL },
	{ "run", S_IFDIR | 0755, NULL },
	{ "etc", S_IFDIR | 0755, NULL },
	{ "etc/hosts", S_IFREG | 0644,
	  "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n" },
	{ "etc/resolv.conf", S_IFREG | 0644, "" },
	/* os/ca_mount.h mounts certificates here. */
	{ "etc/warren", S_IFDIR | 0755, NULL },
	/* This replaces sysfs, and contains only what C libraries, JVMs and allocators
	 * read. */
	{ "sys", S_IFDIR | 0755, NULL },
	{ "sys/fs", S_IFDIR | 0755, NULL },
	{ "sys/fs/cgroup", S_IFDIR | 0755, NULL },
	{ "sys/devices", S_IFDIR | 0755, NULL },
	{ "sys/devices/system", S_IFDIR | 0755, NULL },
	{ "sys/devices/system/cpu", S_IFDIR | 0755, NULL },
	{ "sys/kernel", S_IFDIR | 0755, NULL },
	{ "sys/kernel/mm", S_IFDIR | 0755, NULL },
	{ "sys/kernel/mm/transparent_hugepage", S_IFDIR | 0755, NULL },
};

static const struct entry host[] = {
	{ "home", S_IFDIR | 0755, NULL },
	{ "root", S_IFDIR | 0700, NULL },
	{ "srv", S_IFDIR | 0755, NULL },
	{ "mnt", S_IFDIR | 0755, NULL },
	{ "media", S_IFDIR | 0755, NULL },
	{ "var", S_IFDIR | 0755, NULL },
	{ "var/cache", S_IFDIR | 0755, NULL },
	{ "var/lib", S_IFDIR | 0755, NULL },
	{ "var/log", S_IFDIR | 0755, NULL },
	{ "var/tmp", S_IFDIR | 01777, NULL },
	{ "var/spool", S_IFDIR | 0755, NULL },
	{ "var/run", S_IFLNK, "/run" },
	{ "var/lock", S_IFLNK, "/run/lock" },
	{ "run/lock", S_IFDIR | 01777, NULL },
	{ "etc/mtab", S_IFLNK, "/proc/self/mounts" },
	{ "etc/ssl", S_IFDIR | 0755, NULL },
};

/* The image's contents of these directories are not shown. */
static const char *const opaque[] = { "dev", "proc", "sys" };

/* Small files that are copied from the machine. */
static const char *const common_copies[] = {
	"sys/devices/system/cpu/online",
	"sys/devices/system/cpu/possible",
	"sys/devices/system/cpu/present",
	"sys/kernel/mm/transparent_hugepage/enabled",
	"sys/kernel/mm/transparent_hugepage/hpage_pmd_size",
};

/*
 * Files of the machine's /etc, by name, with which compilers, interpreters and shells are
 * configured. There is no file with a key, password, token, address or person's name;
 * files that are not world-readable are never copied.
 */
static const char *const host_copies[] = {
	/* Renviron.site and Rprofile.site are not included, because users keep tokens
	 * there. */
	"etc/R/Makeconf",
	"etc/R/Renviron",
	"etc/R/ldpaths",
	"etc/R/repositories",
	"etc/alternatives",
	"etc/bash.bashrc",
	"etc/ca-certificates.conf",
	"etc/debian_version",
	"etc/default/locale",
	"etc/ethertypes",
	"etc/fonts",
	"etc/gai.conf",
	"etc/gdb",
	"etc/host.conf",
	"etc/inputrc",
	"etc/issue",
	"etc/java-11-openjdk",
	"etc/java-17-openjdk",
	"etc/java-21-openjdk",
	"etc/ld.so.cache",
	"etc/ld.so.conf",
	"etc/ld.so.conf.d",
	"etc/localtime",
	"etc/locale.alias",
	"etc/login.defs",
	"etc/lsb-release",
	"etc/magic",
	"etc/magic.mime",
	"etc/mime.types",
	"etc/networks",
	"etc/nsswitch.conf",
	"etc/os-release",
	"etc/pam.conf",
	"etc/pam.d",
	"etc/perl",
	"etc/profile",
	"etc/security",
	"etc/protocols",
	"etc/python3",
	"etc/python3.11",
	"etc/redhat-release",
	"etc/rpc",
	"etc/services",
	"etc/shells",
	"etc/ssl/certs",
	"etc/ssl/openssl.cnf",
	"etc/pki/ca-trust",
	"etc/pki/tls/certs",
	"etc/terminfo",
	"etc/timezone",
	"etc/vim",
	"etc/xattr.conf",
};

/* These are links on a machine with a merged /usr. If they are directories, they become
 * trees of the image. */
static const char *const host_links[] = {
	"bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "opt",
};

static const char *const kind_names[] = {
	[SKEL_COMMON] = "skel",
	[SKEL_HOST] = "host",
};

/* ------------------------------------------------------------- fingerprint */

static void base_layer_mix(uint64_t *h, const void *data, size_t n)
{
	const unsigned char *p = data;

	for (; n > 0; n--, p++)
		*h = (*h ^ *p) * 0x100000001b3ULL; /* FNV-1a is sufficient, because the
						      result is only a name */
}

static void mix_stat(uint64_t *h, const char *path)
{
	char abs[128];
	struct stat st = { 0 };

	(void)snprintf(abs, sizeof(abs), "/%s", path);
	if (lstat(abs, &st) < 0)
		return;
	base_layer_mix(h, &st.st_ino, sizeof(st.st_ino));
	base_layer_mix(h, &st.st_mtim, sizeof(st.st_mtim));
	base_layer_mix(h, &st.st_size, sizeof(st.st_size));
}

static uint64_t base_layer_fingerprint(enum skel_kind kind)
{
	uint64_t h = 0xcbf29ce484222325ULL + SKEL_VERSION;

	if (kind != SKEL_HOST)
		return h;
	for (size_t i = 0; i < ARRAY_SIZE(host_copies); i++)
		mix_stat(&h, host_copies[i]);
	for (size_t i = 0; i < ARRAY_SIZE(host_links); i++)
		mix_stat(&h, host_links[i]);
	mix_stat(&h, "etc/passwd");
	mix_stat(&h, "etc/group");
	return h;
}

/* ---------------------------------------------------------------- building */

static int base_layer_make_entry(int root, const struct entry *e)
{
	AUTO_CLOSE int fd = -1;
	mode_t mode = e->mode & 07777;

	if (S_ISLNK(e->mode))
		return symlinkat(e->text, root, e->path) < 0 ? -errno : 0;
	if (S_ISDIR(e->mode)) {
		if (mkdirat(root, e->path, 0755) < 0 && errno != EEXIST)
			return -errno;
		return fchmodat(root, e->path, mode, 0) < 0 ? -errno : 0;
	}
	fd = openat(root, e->path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
		    mode);
	if (fd < 0 || fchmod(fd, mode) < 0)
		return -errno;
	return fd_write_all(fd, e->text, strlen(e->text));
}

static int make_entries(int root, const struct entry *e, size_t n,
			struct warren_error *err)
{
	for (; n > 0; n--, e++) {
		int r = base_layer_make_entry(root, e);

		if (r < 0)
			return error_errno(err, -r, "make '%s'", e->path);
	}
	return 0;
}

/*
 * Copy the system accounts of the machine (ids below 1,000, and `nobody`), because
 * packages expect them. People, their names and homes, and the members of groups are not
 * shown. One account is added for programs that should not run as root: `user`.
 */
static int make_accounts(int root, const char *path, bool passwd,
			 struct warren_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);
	char text[65536], abs[32], *save = NULL;
	ssize_t n;

	(void)snprintf(abs, sizeof(abs), "/%s", path);
	n = fd_read_file_at(AT_FDCWD, abs, text, sizeof(text));
	if (n < 0)
		text[0] = '\0';
	for (char *line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		char *f[7] = { 0 }, *rest = line;
		size_t k = 0;
		unsigned long id;

		for (; rest && k < ARRAY_SIZE(f); k++)
			f[k] = strsep(&rest, ":");
		if (k < (passwd ? 7U : 3U))
			continue;
		id = strtoul(f[2], NULL, 10);
		if (id >= 1000 && id != 65534)
			continue;
		if (passwd)
			buf_printf(&out, "%s:x:%lu:%s:%s:%s:%s\n", f[0], id, f[3], f[0],
				   f[5], f[6]);
		else
			buf_printf(&out, "%s:x:%lu:\n", f[0], id);
	}
	if (out.len == 0)
		buf_puts(&out,
			 passwd ? "root:x:0:0:root:/root:/bin/sh\n" : "root:x:0:\n");
	buf_puts(&out, passwd ? "user:x:1000:1000:user:/home/user:/bin/bash\n"
			      : "user:x:1000:\n");
	if (out.failed)
		return error_errno(err, ENOMEM, "read '%s'", abs);
	return make_entries(root, &(struct entry){ path, S_IFREG | 0644, out.data }, 1,
			    err);
}

/* The home of the account `user`. An engine that is not root has no such account to map.
 */
static int make_home(int root, struct warren_error *err)
{
	static const struct entry homes[] = {
		{ "home/user", S_IFDIR | 0755, NULL },
	};
	int r = make_entries(root, homes, ARRAY_SIZE(homes), err);

	if (r == 0 && fchownat(root, "home/user", 1000, 1000, AT_SYMLINK_NOFOLLOW) < 0 &&
	    errno != EPERM && errno != EINVAL)
		r = error_errno(err, errno, "make 'home/user'");
	return r;
}

static int make_links(int root, struct warren_error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(host_links); i++) {
		char abs[16] = "/", to[256];
		struct entry e = { host_links[i], S_IFDIR | 0755, NULL };
		ssize_t n;
		int r;

		(void)strncat(abs, host_links[i], sizeof(abs) - 2);
		n = readlink(abs, to, sizeof(to) - 1);
		if (n < 0 && errno != EINVAL)
			continue; /* the file does not exist */
		if (n > 0) {
			to[n] = '\0';
			e = (struct entry){ host_links[i], S_IFLNK, to };
		}
		r = make_entries(root, &e, 1, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int base_layer_copy_list(int root, const char *const *list, size_t n,
				struct warren_error *err)
{
	for (size_t i = 0; i < n; i++) {
		int r = copy_from_host(root, list[i]);

		if (r < 0 && r != -ENOENT)
			return error_errno(err, -r, "copy '/%s'", list[i]);
	}
	return 0;
}

static int make_opaque(int root, struct warren_error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(opaque); i++) {
		AUTO_CLOSE int fd =
			openat(root, opaque[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		/*
		 * If the filesystem of the state directory has no attributes, the
		 * image's entries are shown next to Warren's.
		 */
		if (fd < 0 || (fsetxattr(fd, "user.overlay.opaque", "y", 1, 0) < 0 &&
			       errno != EOPNOTSUPP))
			return error_errno(err, errno, "make '%s' opaque", opaque[i]);
	}
	return 0;
}

static int base_layer_build(int root, enum skel_kind kind, struct warren_error *err)
{
	int r = make_entries(root, common, ARRAY_SIZE(common), err);

	if (r == 0)
		r = make_opaque(root, err);
	if (r == 0)
		r = base_layer_copy_list(root, common_copies, ARRAY_SIZE(common_copies),
					 err);
	if (r < 0 || kind != SKEL_HOST)
		return r;
	r = make_entries(root, host, ARRAY_SIZE(host), err);
	if (r == 0)
		r = make_links(root, err);
	if (r == 0)
		r = base_layer_copy_list(root, host_copies, ARRAY_SIZE(host_copies), err);
	if (r == 0)
		r = make_accounts(root, "etc/passwd", true, err);
	if (r == 0)
		r = make_accounts(root, "etc/group", false, err);
	if (r == 0)
		r = make_home(root, err);
	return r;
}

/* ----------------------------------------------------- search and removal */

#define NEW "-new-" /* in the name of a layer that is not complete */

/*
 * Sandboxes outlive the process that opened their layer, and nothing shows from outside
 * which layers are part of their root. But none outlives the machine: next to a layer is
 * the id of the boot in which it was used last, and only layers of earlier boots are
 * removed.
 */
static void mark_name(const char *name, char ret[64])
{
	(void)snprintf(ret, 64, "%.40s.boot", name);
}

/* A layer without a mark is never removed, but one with an old mark is. */
static int base_layer_mark(int dir, const char *name)
{
	char now[BOOT_ID_SIZE], before[BOOT_ID_SIZE] = "", mark[64];
	AUTO_CLOSE int fd = -1;

	boot_id_read(now);
	mark_name(name, mark);
	(void)fd_read_file_at(dir, mark, before, sizeof(before));
	if (strcmp(now, before) == 0)
		return 0;
	if (unlinkat(dir, mark, 0) < 0 && errno != ENOENT)
		return -errno;
	fd = openat(dir, mark, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd >= 0)
		(void)fd_write_all(fd, now, strlen(now));
	return 0;
}

/* Is it certain that no sandbox uses the layer, which this process has locked? */
static bool base_layer_is_unused(int dir, const char *name, enum skel_kind kind)
{
	char now[BOOT_ID_SIZE], used[BOOT_ID_SIZE] = "", mark[64];
	size_t n = strlen(kind_names[kind]);

	if (strncmp(name + n, NEW, strlen(NEW)) == 0)
		return true; /* it was never complete */
	boot_id_read(now);
	mark_name(name, mark);
	(void)fd_read_file_at(dir, mark, used, sizeof(used));
	if (now[0] && strlen(used) == strlen(now))
		return strcmp(used, now) != 0;
	/* A version that wrote no mark created it, and its sandboxes may still live. */
	(void)base_layer_mark(dir, name);
	return false;
}

/* Remove layers of this kind that are not in use, including incomplete ones. */
static void discard_old(int dir, enum skel_kind kind, const char *current)
{
	size_t n = strlen(kind_names[kind]);
	char mark[64];
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		AUTO_CLOSE int fd = -1;

		if (strncmp(e->d_name, kind_names[kind], n) != 0 || e->d_name[n] != '-' ||
		    strcmp(e->d_name, current) == 0)
			continue;
		fd = entry_lock_unused(dir, e->d_name, O_DIRECTORY);
		if (fd >= 0 && base_layer_is_unused(dir, e->d_name, kind)) {
			copy_remove_tree(dir, e->d_name);
			mark_name(e->d_name, mark);
			(void)unlinkat(dir, mark, 0);
		}
	}
	if (d)
		(void)closedir(d);
}

static int base_layer_open_locked(int dir, const char *name)
{
	AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	int r;

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_SH) < 0)
		return -errno;
	/* It was discarded between the two calls. */
	if (fstatat(dir, name, &st, 0) < 0)
		return -ENOENT;
	r = base_layer_mark(dir, name);
	return r < 0 ? r : TAKE_FD(fd);
}

static int make_layer(int dir, const char *name, enum skel_kind kind,
		      struct warren_error *err)
{
	AUTO_CLOSE int fd = -1;
	char temp[64], id[ID_LEN + 1];
	int r;

	id_make(id);
	(void)snprintf(temp, sizeof(temp), "%s" NEW "%s", kind_names[kind], id);
	fd = entry_new_dir(dir, temp, 0755);
	if (fd < 0)
		return error_errno(err, -fd, "create a layer");
	if (fchmod(fd, 0755) < 0)
		r = error_errno(err, errno, "open a new layer");
	else
		r = base_layer_build(fd, kind, err);
	/* If another process was faster, its layer is the same. */
	if (r == 0 && renameat2(dir, temp, dir, name, RENAME_NOREPLACE) < 0 &&
	    errno != EEXIST)
		r = error_errno(err, errno, "move a new layer into place");
	copy_remove_tree(dir, temp);
	return r;
}

static int open_state_dir(const char *path, struct warren_error *err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;

	if (fd >= 0)
		return fd;
	r = fd_make_dirs(path, 0755);
	if (r < 0)
		return error_errno(err, -r, "create the state directory '%s'", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? error_errno(err, errno, "open the state directory '%s'", path)
		      : fd;
}

int skel_open(enum skel_kind kind, const char *state_dir, int *ret_fd, char **ret_path,
	      struct warren_error *err)
{
	AUTO_CLOSE int dir = open_state_dir(state_dir, err);
	char name[40];
	int fd;

	if (dir < 0)
		return dir;
	(void)snprintf(name, sizeof(name), "%s-%016jx", kind_names[kind],
		       (uintmax_t)base_layer_fingerprint(kind));
	fd = base_layer_open_locked(dir, name);
	for (int tries = 0; fd == -ENOENT && tries < 3; tries++) {
		int r = make_layer(dir, name, kind, err);

		if (r < 0)
			return r;
		discard_old(dir, kind, name);
		fd = base_layer_open_locked(dir, name);
	}
	if (fd < 0)
		return error_errno(err, -fd, "open '%s/%s'", state_dir, name);
	if (asprintf(ret_path, "%s/%s", state_dir, name) < 0) {
		(void)close(fd);
		return error_errno(err, ENOMEM, "open '%s/%s'", state_dir, name);
	}
	*ret_fd = fd;
	return 0;
}
