/* SPDX-License-Identifier: Apache-2.0 */
/* ca_mount.c - add trusted certificates to a running sandbox, without changing its files
 */
#include "os/ca_mount.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "os/mount.h"

#define CERT_BEGIN   "-----BEGIN CERTIFICATE-----"
#define CA_MOUNT_MS  10000
#define PLAIN        (MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)
#define TMPFS_SIZE   "4m"
#define TMPFS_INODES "16"

/* NOLINTBEGIN(misc-redundant-expression): equal is what they must be */
_Static_assert(sizeof(CA_MOUNT_FILE) == sizeof(WARREN_TRUST_FILE),
	       "both are names of the same file");
_Static_assert(CA_MOUNT_MAX == 2U << 20, "TMPFS_SIZE is twice this size");
/* NOLINTEND(misc-redundant-expression) */

/* Where distributions keep the certificates of all authorities in one file. Several of
 * these names may lead to the same file. */
static const char *const image_files[] = {
	"/etc/ssl/certs/ca-certificates.crt",                /* Debian, Alpine, Arch */
	"/etc/pki/tls/certs/ca-bundle.crt",                  /* Fedora, RHEL */
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* the same, newer */
	"/etc/ca-certificates/extracted/tls-ca-bundle.pem",  /* Arch */
	"/etc/ssl/ca-bundle.pem",                            /* SUSE */
	"/var/lib/ca-certificates/ca-bundle.pem",            /* the same, newer */
	"/etc/ssl/cert.pem",                                 /* Alpine, BSD tools */
	"/usr/lib/ssl/cert.pem",                             /* OpenSSL of Debian */
	"/usr/local/share/certs/ca-root-nss.crt",
};

/* The state of the child. */
struct ca_mounter {
	int self;  /* /proc/self/fd, with which a descriptor is opened again */
	int tmpfs; /* the new mount */
	const char *bundle, *last; /* all certificates; the last one begins at `last` */
	size_t bundle_len, last_len;
	char *text;                           /* CA_MOUNT_MAX bytes */
	int targets[ARRAY_SIZE(image_files)]; /* files to hide; -1: none */
};

struct ca_mount_report {
	int result;
	struct warren_error err;
};

/* ------------------------------------------------------------------------ certificates
 */

/* Read a file of at most CA_MOUNT_MAX bytes; return its size or -errno. */
static ssize_t ca_mount_read(int fd, char *text)
{
	size_t n = 0;

	while (n < CA_MOUNT_MAX) {
		ssize_t r = pread(fd, text + n, CA_MOUNT_MAX - n, (off_t)n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			return (ssize_t)n;
		n += (size_t)r;
	}
	return -EFBIG;
}

static int ca_mount_fail(const char *what, ssize_t r, struct warren_error *err)
{
	if (r == -EFBIG)
		return error_set(err, EINVAL, "%s is larger than %u MiB", what,
				 CA_MOUNT_MAX >> 20);
	return error_errno(err, (int)-r, "read %s", what);
}

/* Is there a certificate after @at in the text? Return it; NULL: no. */
static const char *ca_mount_next(const char *text, size_t n, const char *at)
{
	return memmem(at, n - (size_t)(at - text), CERT_BEGIN, strlen(CERT_BEGIN));
}

static int ca_mount_take_bundle(struct ca_mounter *m, int fd, struct warren_error *err)
{
	/* No malloc(3): another thread may have held its lock during the fork. */
	char *texts = mmap(NULL, 2UL * CA_MOUNT_MAX, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ssize_t n;

	if (texts == MAP_FAILED)
		return error_errno(err, errno, "read the certificates");
	n = ca_mount_read(fd, texts);
	if (n < 0)
		return ca_mount_fail("the bundle", n, err);
	m->bundle = texts;
	m->bundle_len = (size_t)n;
	m->text = texts + CA_MOUNT_MAX;
	for (const char *at = ca_mount_next(texts, (size_t)n, texts); at;
	     at = ca_mount_next(texts, (size_t)n, at + 1))
		m->last = at;
	if (!m->last)
		return error_set(err, EINVAL, "there is no certificate to add");
	m->last_len = (size_t)(texts + n - m->last);
	return 0;
}

static bool ca_mount_trusts(const struct ca_mounter *m, size_t n)
{
	return memmem(m->text, n, m->last, m->last_len) != NULL;
}

/* ------------------------------------------------------------------ files of the image
 */

/*
 * Read the file that @path names inside, into m->text; return its size, or -errno if it
 * cannot be replaced. It is opened without effects first, because the image may have put
 * a device or a pipe there.
 */
static ssize_t ca_mount_read_inside(struct ca_mounter *m, const char *path, int *ret_fd)
{
	AUTO_CLOSE int at =
		mount_openat2(AT_FDCWD, path, O_PATH, 0, RESOLVE_NO_MAGICLINKS);
	AUTO_CLOSE int fd = -1;
	char name[16];
	struct stat st;
	struct statfs fs;
	ssize_t n;

	if (at < 0)
		return at;
	if (fstat(at, &st) < 0 || fstatfs(at, &fs) < 0)
		return -errno;
	/* In /proc and /sys, the contents depend on the process that reads them. */
	if (!S_ISREG(st.st_mode) || fs.f_type == PROC_SUPER_MAGIC ||
	    fs.f_type == SYSFS_MAGIC)
		return -ENOENT;
	(void)snprintf(name, sizeof(name), "%d", at);
	fd = openat(m->self, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = ca_mount_read(fd, m->text);
	if (n >= 0)
		*ret_fd = TAKE_FD(at);
	return n;
}

static bool ca_mount_is_missing(ssize_t r)
{
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP;
}

static int ca_mount_write(const struct ca_mounter *m, const char *name, size_t n,
			  const char *text, struct warren_error *err)
{
	AUTO_CLOSE int fd =
		openat(m->tmpfs, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	int r = fd < 0 ? -errno : fd_write_all(fd, text, n);

	/* All files except the bundle itself need the certificate. */
	if (r == 0 && text != m->bundle)
		r = fd_write_all(fd, "\n", 1);
	if (r == 0 && text != m->bundle)
		r = fd_write_all(fd, m->last, m->last_len);
	if (r == 0 && fchmod(fd, 0644) < 0)
		r = -errno;
	return r < 0 ? error_errno(err, -r, "write '%s'", name) : 0;
}

static void ca_mount_name(size_t i, char ret[16])
{
	(void)snprintf(ret, 16, "image-%zu.crt", i);
}

/* Write the new content of each file of the image. */
static int ca_mount_fill(struct ca_mounter *m, struct warren_error *err)
{
	int r = ca_mount_write(m, CA_MOUNT_NAME, m->bundle_len, m->bundle, err);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(image_files); i++) {
		ssize_t n = ca_mount_read_inside(m, image_files[i], &m->targets[i]);
		struct stat st, other;
		char name[16];

		if (ca_mount_is_missing(n))
			continue;
		if (n < 0)
			return ca_mount_fail(image_files[i], n, err);
		/* Another name of a file that is already in the list. */
		for (size_t k = 0; k < i && m->targets[i] >= 0; k++)
			if (m->targets[k] >= 0 && fstat(m->targets[k], &other) == 0 &&
			    fstat(m->targets[i], &st) == 0 && st.st_ino == other.st_ino &&
			    st.st_dev == other.st_dev)
				(void)close(TAKE_FD(m->targets[i]));
		if (m->targets[i] >= 0 && ca_mount_trusts(m, (size_t)n))
			(void)close(TAKE_FD(m->targets[i]));
		if (m->targets[i] < 0)
			continue;
		ca_mount_name(i, name);
		r = ca_mount_write(m, name, (size_t)n, m->text, err);
	}
	return r;
}

/* ------------------------------------------------------------------------------ mounts
 */

static int ca_mount_make_tmpfs(struct ca_mounter *m, struct warren_error *err)
{
	static const struct mount_option options[] = { { "size", TMPFS_SIZE },
						       { "nr_inodes", TMPFS_INODES },
						       { "mode", "0755" },
						       { NULL, NULL } };

	return mount_new("tmpfs", options, PLAIN, &m->tmpfs, err);
}

/*
 * Create the directory. If the root is read-only, create it through a copy of that mount
 * which is not attached anywhere, so that nothing inside can write in the meantime.
 */
static int ca_mount_create_dir(void)
{
	struct mount_attr writable = { .attr_clr = MOUNT_ATTR_RDONLY };
	AUTO_CLOSE int root = -1;

	if ((mkdir("/etc", 0755) == 0 || errno == EEXIST) &&
	    mkdir(CA_MOUNT_DIR, 0755) == 0)
		return 0;
	if (errno != EROFS)
		return -errno;
	root = open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (root < 0 ||
	    mount_setattr(root, "", AT_EMPTY_PATH, &writable, sizeof(writable)) < 0 ||
	    (mkdirat(root, "etc", 0755) < 0 && errno != EEXIST) ||
	    mkdirat(root, &CA_MOUNT_DIR[1], 0755) < 0)
		return -errno;
	return 0;
}

/* Sandboxes whose layer has no such directory get one. */
static int ca_mount_open_dir(struct warren_error *err)
{
	int fd = mount_openat2(AT_FDCWD, CA_MOUNT_DIR, O_PATH | O_DIRECTORY | O_NOFOLLOW,
			       0, RESOLVE_NO_MAGICLINKS);

	if (fd == -ENOENT) {
		fd = ca_mount_create_dir();
		if (fd < 0)
			return error_errno(err, -fd, "create '%s'", CA_MOUNT_DIR);
		fd = mount_openat2(AT_FDCWD, CA_MOUNT_DIR,
				   O_PATH | O_DIRECTORY | O_NOFOLLOW, 0,
				   RESOLVE_NO_MAGICLINKS);
	}
	return fd < 0 ? error_errno(err, -fd, "open '%s'", CA_MOUNT_DIR) : fd;
}

static int ca_mount_attach(const struct ca_mounter *m, struct warren_error *err)
{
	AUTO_CLOSE int dir = ca_mount_open_dir(err);
	int r = dir < 0 ? dir : mount_restrict(m->tmpfs, MOUNT_ATTR_RDONLY, err);

	if (r == 0)
		r = mount_attach(m->tmpfs, dir, "", err);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(image_files); i++) {
		AUTO_CLOSE int copy = -1;
		char name[16];

		if (m->targets[i] < 0)
			continue;
		ca_mount_name(i, name);
		r = mount_copy(m->tmpfs, name, false, MOUNT_ATTR_RDONLY | PLAIN, -1,
			       &copy, err);
		if (r == 0)
			r = mount_attach(copy, m->targets[i], "", err);
		if (r < 0)
			(void)umount2(CA_MOUNT_DIR, MNT_DETACH);
	}
	return r;
}

/* ----------------------------------------------------------------------- the two sides
 */

static int ca_mount_enter(int ns, int flags, struct warren_error *err)
{
	if (setns(ns, flags) < 0)
		return error_errno(err, errno, "enter the sandbox");
	if (!(flags & CLONE_NEWUSER))
		return 0;
	/* -EPERM: the one-id map of an ordinary user forbids it. */
	if (syscall(SYS_setgroups, 0, NULL) < 0 && errno != EPERM)
		return error_errno(err, errno, "setgroups");
	if (syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
		return error_errno(err, errno, "become root of the user namespace");
	return 0;
}

/* Tell a failure of the machine from one that the files of the sandbox cause. */
static int ca_mount_blame(int r, struct warren_error *err)
{
	if (r >= 0 || r == -ENOMEM || r == -EMFILE || r == -ENFILE)
		return r;
	err->code = CA_MOUNT_INSIDE;
	return -CA_MOUNT_INSIDE;
}

static int ca_mount_files(struct ca_mounter *m, struct warren_error *err)
{
	int seen = -1, r;
	ssize_t n = ca_mount_read_inside(m, CA_MOUNT_FILE, &seen);

	if (n >= 0 && ca_mount_trusts(m, (size_t)n))
		return 0;
	if (n < 0 && n != -EFBIG && !ca_mount_is_missing(n))
		return ca_mount_fail(CA_MOUNT_FILE, n, err);
	r = ca_mount_make_tmpfs(m, err);
	if (r == 0)
		r = ca_mount_fill(m, err);
	return r < 0 ? r : ca_mount_attach(m, err);
}

static int ca_mount_inside(int ns, int flags, int bundle, struct warren_error *err)
{
	struct ca_mounter m = { .tmpfs = -1 };
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(image_files); i++)
		m.targets[i] = -1;
	m.self = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (m.self < 0)
		return error_errno(err, errno, "open '/proc/self/fd'");
	r = ca_mount_take_bundle(&m, bundle, err);
	if (r == 0)
		r = ca_mount_enter(ns, flags, err);
	return r < 0 ? r : ca_mount_blame(ca_mount_files(&m, err), err);
}

/* Leave the caller's descriptors outside; @fds are those that are needed. */
static int ca_mount_keep(int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3 + (int)n);
		if (fds[i] < 0)
			return -errno;
	}
	for (size_t i = 0; i < n; i++) {
		if (dup2(fds[i], 3 + (int)i) < 0)
			return -errno;
		fds[i] = 3 + (int)i;
	}
	return close_range(3 + (unsigned)n, ~0U, 0) < 0 ? -errno : 0;
}

_Noreturn static void ca_mount_child(int ns, int flags, int bundle, int sock)
{
	struct ca_mount_report report = { .err = WARREN_ERROR_INIT };
	int fds[] = { ns, bundle, sock };
	int r = ca_mount_keep(fds, ARRAY_SIZE(fds));

	(void)umask(022);
	report.result = r < 0 ? error_errno(&report.err, -r, "place the descriptors")
			      : ca_mount_inside(fds[0], flags, fds[1], &report.err);
	(void)fd_send(r < 0 ? sock : fds[2], &report, sizeof(report), NULL, 0);
	_exit(0);
}

int ca_mount(int ns, int flags, int bundle, struct warren_error *err)
{
	struct ca_mount_report report = { .result = -EIO, .err = WARREN_ERROR_INIT };
	struct pollfd p = { .events = POLLIN };
	int pair[2], ready;
	ssize_t n = 0;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_errno(err, errno, "socketpair");
	pid = fork();
	if (pid == 0)
		ca_mount_child(ns, flags, bundle, pair[1]);
	n = pid < 0 ? -errno : 0;
	(void)close(pair[1]);
	p.fd = pair[0];
	while ((ready = pid < 0 ? 0 : poll(&p, 1, CA_MOUNT_MS)) < 0 && errno == EINTR)
		;
	if (ready > 0)
		n = recv(pair[0], &report, sizeof(report), 0);
	else if (pid > 0)
		(void)kill(pid, SIGKILL);
	(void)close(pair[0]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (pid > 0 && ready == 0)
		return error_set(err, CA_MOUNT_INSIDE,
				 "mount the certificates: the filesystem of the sandbox "
				 "does not answer");
	if (n != (ssize_t)sizeof(report))
		return error_errno(err, pid < 0 ? (int)-n : EIO,
				   "mount the certificates");
	if (report.result < 0)
		*err = report.err;
	return report.result < 0 ? error_wrap(err, "mount the certificates") : 0;
}
