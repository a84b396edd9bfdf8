/* SPDX-License-Identifier: Apache-2.0 */
/* ext4.c - run mkfs.ext4 on a file, copy a file with its holes, and mount it */
#include "os/ext4.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "os/loopdev.h"
#include "os/mount.h"

__attribute__((noreturn)) static void ext4_exec_mkfs(const char *path, bool journal)
{
	static const char options[] =
		"lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0";
	const char *features =
		journal ? "has_journal,^resize_inode" : "^has_journal,^resize_inode";
	const char *argv[] = { "mkfs.ext4", "-q", "-F",    "-m", "0", "-O",
			       features,    "-E", options, path, NULL };
	static const char *const places[] = { "/usr/local/sbin/mkfs.ext4",
					      "/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4" };
	static char none[] = "PATH=/usr/sbin:/sbin:/usr/bin:/bin";
	char *const environment[] = { none, NULL };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = 0; i < 3; i++)
		(void)dup2(null, i);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		(void)execve(places[i], (char *const *)(uintptr_t)argv, environment);
	_exit(127);
}

/*
 * Run the machine's mkfs.ext4 on a private file. If SIGCHLD is ignored, as in the warden,
 * the exit status of a child that sends it is lost; so a process that does not send it is
 * put in between. Other threads of the caller may hold locks of the C library, so both
 * processes call only functions that need none.
 */
int ext4_create(const char *path, bool journal, struct warren_error *err)
{
	int status = 0;
	pid_t pid = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);

	if (pid == 0) {
		(void)signal(SIGCHLD, SIG_DFL);
		pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
		if (pid == 0)
			ext4_exec_mkfs(path, journal);
		if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
			_exit(1);
		_exit(WEXITSTATUS(status));
	}
	if (pid < 0)
		return error_errno(err, errno, "run mkfs.ext4");
	while (waitpid(pid, &status, __WALL) < 0)
		if (errno != EINTR)
			return error_errno(err, errno, "wait for mkfs.ext4");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return error_set(err, ENOENT,
				 "a separate disk needs mkfs.ext4: install e2fsprogs");
	return status ? error_set(err, EIO, "mkfs.ext4 failed on '%s'", path) : 0;
}

int ext4_copy(int from, int to, uint64_t size)
{
	off_t at = 0;

	if (ioctl(to, FICLONE, from) == 0)
		return 0;
	if (ftruncate(to, (off_t)size) < 0)
		return -errno;
	for (;;) {
		off_t end, out;

		at = lseek(from, at, SEEK_DATA);
		if (at < 0)
			return errno == ENXIO ? 0 : -errno;
		end = lseek(from, at, SEEK_HOLE);
		for (out = at; at < end;) {
			ssize_t k = copy_file_range(from, &at, to, &out,
						    (size_t)(end - at), 0);

			if (k <= 0)
				return k < 0 ? -errno : -EIO;
		}
	}
}

int ext4_mount(int file, int *ret_fd, struct warren_error *err)
{
	AUTO_CLOSE int loop = -1;
	char path[LOOP_PATH_MAX];
	/* A filesystem with errors must not stop the machine, whatever it says itself.
	 */
	const struct mount_option options[] = { { "source", path },
						{ "errors", "remount-ro" },
						{ "discard", NULL },
						{ NULL, NULL } };
	int r = loopdev_find(file, path, &loop, err);

	if (r == 0)
		r = loopdev_attach(file, path, &loop, err);
	if (r < 0)
		return r;
	r = mount_new("ext4", options, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID, ret_fd, err);
	/* EINVAL, EIO, EFSCORRUPTED, EFSBADCRC: what it finds is not its own. */
	if (r == -EINVAL || r == -EIO || r == -EUCLEAN || r == -EBADMSG) {
		struct warren_error why = *err;

		return error_set(err, EMEDIUMTYPE, "%s", why.msg);
	}
	return r;
}
