/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reach.c - let an ordinary user read the changes of a sandbox
 *
 * Files that other users of the sandbox created belong to subordinate ids of the user,
 * who may not be able to read or remove them; and a file may deny access to its owner. So
 * a child enters a user namespace in which the user is root and the subordinate ids are
 * mapped, and gives all these files to the user. It has no other privileges. It works on
 * changes that no sandbox uses at the time. Each removal of files that a sandbox made can
 * need the same rights.
 *
 * The directory of changes itself is what the sandbox sees as the project's directory, so
 * its owner and mode are the sandbox's choice, too.
 *
 * A file that denied access to its owner gets another mode. The attribute REACH_MODE says
 * what it was, and which mode it got; if it has another one now, a sandbox has changed it
 * since then. A sandbox may forge the attribute, but can just as well change the mode.
 */
#include "work/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macro.h"
#include "os/ns.h"
#include "os/tree_remove.h"
#include "work/changes_internal.h"
#include "work/files_internal.h"
#include "work/work_internal.h"

#define REACH_MODE     "user.warren.mode"
#define REACH_OPEN_MAX 256       /* in a process: each takes a millisecond */
#define REACH_MARK     "reached" /* in the work's directory: files may have REACH_MODE */

/* NOLINTNEXTLINE(misc-no-recursion): as deep as CHANGES_DEPTH_MAX */
static void reach_dir(int parent, const char *name, unsigned depth);

/* fchmod(2) refuses a descriptor with O_PATH, and others cannot be opened yet. */
static int reach_chmod(int file, mode_t old, mode_t mode)
{
	char path[64], modes[16];
	int n = snprintf(modes, sizeof(modes), "%04o %04o", old & 0777, mode & 0777);

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	if ((old ^ mode) & 0777 && setxattr(path, REACH_MODE, modes, (size_t)n, 0) < 0)
		return -1;
	return chmod(path, mode);
}

void reach_mode(const struct work *w, int dir, const char *name, struct stat *st)
{
	char path[NAME_MAX + 64], modes[10] = "", *end;
	mode_t old, new;

	if (geteuid() == 0 || (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode)) ||
	    faccessat(w->dir_fd, REACH_MARK, F_OK, 0) < 0)
		return;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir, name);
	if (lgetxattr(path, REACH_MODE, modes, sizeof(modes) - 1) != 9)
		return;
	old = (mode_t)strtoul(modes, &end, 8);
	new = *end == ' ' ? (mode_t)strtoul(end + 1, &end, 8) : 01000;
	if (!*end && new == (st->st_mode & 0777))
		st->st_mode = (st->st_mode & ~(mode_t)0777) | (old & 0777);
}

/*
 * Failures are noticed later, when the file cannot be read. All calls are about the file
 * that was inspected, even if a link takes its place.
 */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as CHANGES_DEPTH_MAX */
static void reach_one(int dir, const char *name, unsigned depth)
{
	AUTO_CLOSE int file = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	mode_t need;
	struct stat st;

	if (file < 0 || fstat(file, &st) < 0)
		return;
	need = S_ISDIR(st.st_mode)   ? S_IRWXU
	       : S_ISREG(st.st_mode) ? S_IRUSR | S_IWUSR
				     : 0;
	/* A change of the owner also removes the set-id bits. */
	if ((st.st_uid != 0 || st.st_gid != 0) &&
	    fchownat(file, "", 0, 0, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
		return;
	if (need && (st.st_uid != 0 || st.st_gid != 0 || (st.st_mode & need) != need) &&
	    reach_chmod(file, st.st_mode, (st.st_mode & 07777) | need) < 0)
		return;
	close_p(&file); /* directories may be deep */
	if (S_ISDIR(st.st_mode) && depth < CHANGES_DEPTH_MAX)
		reach_dir(dir, name, depth + 1);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as CHANGES_DEPTH_MAX */
static void reach_dir(int parent, const char *name, unsigned depth)
{
	AUTO_FREE struct dir_reader *reader = calloc(1, sizeof(*reader));
	AUTO_CLOSE int dir = beneath_dir(parent, name, O_RDONLY);
	const struct dir_entry *e;

	if (!reader || dir < 0)
		return;
	reader->fd = dir;
	while (dir_next(reader, &e) > 0)
		reach_one(dir, e->name, depth);
}

/* ------------------------------------------------------------- the user namespace */

/* What the child does with @name in @dir, with a socket or -1: 0 or -errno. */
typedef int reach_run(int dir, const char *name, int sock);

static int reach_changes(int writes, const char *name, int sock UNUSED)
{
	reach_one(writes, name, 0);
	return 0;
}

static int reach_tree_remove(int dir, const char *name, int sock UNUSED)
{
	return tree_remove(dir, dir, name);
}

static int reach_send(int dir, const char *name, int sock)
{
	int fd = openat(dir, name,
			O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	return fd < 0 ? -errno : fd_send(sock, "", 1, &fd, 1);
}

_Noreturn static void reach_child(int begin, reach_run *run, int dir, const char *name,
				  int sock)
{
	char byte;

	if (read(begin, &byte, 1) != 1 || setresgid(0, 0, 0) < 0 ||
	    setresuid(0, 0, 0) < 0)
		_exit(1);
	_exit(run(dir, name, sock) < 0);
}

static size_t reach_map(struct ns_map *map, const char *file, uint32_t own)
{
	struct ns_map sub;

	map[0] = (struct ns_map){ 0, own, 1 };
	if (ns_subids(file, geteuid(), &sub) < 0 || sub.count == 0)
		return 1;
	map[1] = (struct ns_map){ 1, sub.outside, sub.count };
	return 2;
}

/* Call @run as root of a user namespace: 0, or -EACCES if it failed. */
static int reach_inside(reach_run *run, int dir, const char *name, int sock,
			struct warren_error *err)
{
	struct ns_maps maps = { 0 };
	AUTO_CLOSE int pidfd = -1;
	int begin[2], status = 1, r;
	pid_t pid;

	maps.n_uid = reach_map(maps.uid, "/etc/subuid", geteuid());
	maps.n_gid = reach_map(maps.gid, "/etc/subgid", getegid());
	/* To open a file of the user, only the user must be mapped, which is faster. */
	if (maps.n_uid != maps.n_gid || sock >= 0)
		maps.n_uid = maps.n_gid = 1;
	if (pipe2(begin, O_CLOEXEC) < 0)
		return error_errno(err, errno, "create a pipe");
	pid = ns_clone(CLONE_NEWUSER, NS_CGROUP_SAME, &pidfd);
	if (pid == 0) {
		(void)close(begin[1]);
		reach_child(begin[0], run, dir, name, sock);
	}
	(void)close(begin[0]);
	r = pid < 0 ? error_errno(err, -pid, "create a user namespace")
		    : ns_write_maps(pid, &maps, false, err);
	if (r == 0 && write(begin[1], "", 1) != 1)
		r = error_errno(err, errno, "start a process");
	(void)close(begin[1]);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return r == 0 && status != 0 ? error_set(err, EACCES, "access was denied") : r;
}

static int reach_locked(struct work *w, struct warren_error *err)
{
	AUTO_CLOSE int writes = beneath_dir(w->dir_fd, "writes", O_RDONLY);
	int r = work_file_replace(w->dir_fd, REACH_MARK, "", 0, false);

	if (r < 0)
		return error_errno(err, -r, "create '%s/%s'", w->dir, REACH_MARK);
	if (writes < 0)
		return error_errno(err, -writes, "open the changes");
	r = reach_inside(reach_changes, writes, "upper", -1, err);
	return r < 0 ? error_wrap(err, "the changes of work '%s' cannot be read", w->id)
		     : 0;
}

int work_reach(struct work *w, struct warren_error *err)
{
	struct warren_error busy = WARREN_ERROR_INIT;
	bool locked = w->lock_fd >= 0;
	int r;

	if (geteuid() == 0)
		return -EACCES;
	/* No sandbox starts before the end. */
	r = locked ? 0 : work_lock(w, 0, &busy);
	if (r < 0)
		r = error_set(
			err, EBUSY,
			"some changes of work '%s' can be read only when its sandbox "
			"has ended",
			w->id);
	else
		r = reach_locked(w, err);
	if (!locked)
		close_p(&w->lock_fd);
	return r;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as CHANGES_DEPTH_MAX */
static bool reach_is_denied(int dir, const char *name, unsigned depth)
{
	AUTO_FREE struct dir_reader *reader = NULL;
	const struct dir_entry *e;
	AUTO_CLOSE int fd = -1;
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno != ENOENT;
	if (S_ISREG(st.st_mode))
		return st.st_uid == geteuid()
			       ? !(st.st_mode & S_IRUSR)
			       : faccessat(dir, name, R_OK,
					   AT_EACCESS | AT_SYMLINK_NOFOLLOW) < 0;
	if (!S_ISDIR(st.st_mode))
		return false;
	/* The owner may change what is in it, even if it is sticky. */
	if (st.st_uid != geteuid() || (st.st_mode & S_IRWXU) != S_IRWXU)
		return true;
	fd = beneath_dir(dir, name, O_RDONLY);
	reader = depth < CHANGES_DEPTH_MAX ? calloc(1, sizeof(*reader)) : NULL;
	if (fd < 0 || !reader)
		return false;
	reader->fd = fd;
	while (dir_next(reader, &e) > 0)
		if (reach_is_denied(fd, e->name, depth + 1))
			return true;
	return false;
}

int reach_all(struct work *w, struct warren_error *err)
{
	AUTO_CLOSE int writes = -1;

	if (geteuid() == 0)
		return 0;
	writes = beneath_dir(w->dir_fd, "writes", O_PATH);
	return writes >= 0 && reach_is_denied(writes, "upper", 0) ? work_reach(w, err)
								  : 0;
}

int reach_top(struct work *w, struct warren_error *err)
{
	struct stat st;

	return geteuid() == 0 || w->mode == WORK_BIND ||
			       fstatat(w->dir_fd, "writes/upper", &st,
				       AT_SYMLINK_NOFOLLOW) < 0 ||
			       (st.st_uid == geteuid() &&
				(st.st_mode & S_IRWXU) == S_IRWXU)
		       ? 0
		       : work_reach(w, err);
}

int reach_remove(int dir, const char *name)
{
	struct warren_error ignored;
	int r = tree_remove(dir, dir, name);

	return (r == -EACCES || r == -EPERM) && geteuid() != 0
		       ? reach_inside(reach_tree_remove, dir, name, -1, &ignored)
		       : r;
}

int reach_own_file(int dir, const char *name)
{
	static unsigned opened;
	struct warren_error ignored;
	int ends[2], fd = -1, r;
	size_t n = 1;
	struct stat st;
	char byte;

	if (geteuid() == 0 || opened >= REACH_OPEN_MAX ||
	    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
	    st.st_uid != geteuid() || (st.st_mode & S_IRUSR))
		return -EACCES;
	opened++;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	r = reach_inside(reach_send, dir, name, ends[1], &ignored);
	(void)close(ends[1]);
	if (r == 0 && (fd_recv(ends[0], &byte, 1, &fd, &n, 0) != 1 || n != 1))
		r = -EACCES;
	(void)close(ends[0]);
	return r < 0 ? -EACCES : fd;
}
