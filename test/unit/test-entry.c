/* SPDX-License-Identifier: Apache-2.0 */
/* test-entry.c - what is created is locked from the beginning, and what is left can be
 * locked */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "image/entry.h"

#include "lib/tap.h"

#define ROUNDS 3000

static int entry_test_dir(char path[64])
{
	int fd;

	(void)strcpy(path, "/tmp/warren-entry-XXXXXX");
	OK(mkdtemp(path) != NULL);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OK(fd >= 0);
	return fd;
}

/* Repeatedly remove everything that no process uses, like a garbage collection. */
__attribute__((noreturn)) static void clean_for_ever(const char *path)
{
	int at;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	at = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (;;) {
		DIR *d = opendir(path);
		struct dirent *e;

		while (d && (e = readdir(d))) {
			AUTO_CLOSE int fd = -1;

			if (strncmp(e->d_name, "new", 3) != 0)
				continue;
			fd = entry_lock_unused(at, e->d_name, 0);
			if (fd >= 0 && unlinkat(at, e->d_name, 0) < 0)
				(void)unlinkat(at, e->d_name, AT_REMOVEDIR);
		}
		if (d)
			(void)closedir(d);
	}
}

TEST(a_new_entry_is_not_removed_by_others)
{
	char path[64];
	AUTO_CLOSE int at = entry_test_dir(path);
	struct stat st;
	pid_t pid = fork();

	OK(pid >= 0);
	if (pid == 0)
		clean_for_ever(path);
	for (int i = 0; i < ROUNDS; i++) {
		AUTO_CLOSE int dir = entry_new_dir(at, "new-dir", 0700);
		AUTO_CLOSE int file = entry_new_file(at, "new-file", 0600);

		OK(dir >= 0 && file >= 0);
		EQ(mkdirat(at, "new-dir/x", 0700), 0);
		EQ(fstatat(at, "new-file", &st, 0), 0);
		EQ(renameat(at, "new-file", at, "kept"), 0);
		EQ(unlinkat(at, "new-dir/x", AT_REMOVEDIR), 0);
		EQ(unlinkat(at, "new-dir", AT_REMOVEDIR), 0);
	}
	/* Positive control: the other process removes what is not locked. */
	EQ(mkdirat(at, "new-left", 0700), 0);
	while (fstatat(at, "new-left", &st, 0) == 0)
		(void)usleep(1000);
	EQ(kill(pid, SIGKILL), 0);
	EQ(waitpid(pid, NULL, 0), pid);
	EQ(unlinkat(at, "kept", 0), 0);
	EQ(rmdir(path), 0);
}

TEST(what_is_used_cannot_be_locked)
{
	char path[64];
	AUTO_CLOSE int at = entry_test_dir(path);
	AUTO_CLOSE int dir = entry_new_dir(at, "new", 0755);
	AUTO_CLOSE int left = -1;

	OK(dir >= 0);
	EQ(entry_new_dir(at, "new", 0755), -EEXIST);
	EQ(entry_lock_unused(at, "new", 0), -EWOULDBLOCK);
	OK(entry_is_used(at, "new"));
	(void)close(TAKE_FD(dir));
	OK(!entry_is_used(at, "new"));
	left = entry_lock_unused(at, "new", O_DIRECTORY);
	OK(left >= 0);
	OK(entry_is_used(at, "new"));
	EQ(entry_lock_unused(at, "missing", 0), -ENOENT);
	OK(!entry_is_used(at, "missing"));
	EQ(unlinkat(at, "new", AT_REMOVEDIR), 0);
	EQ(mkfifoat(at, "pipe", 0600), 0);
	EQ(entry_lock_unused(at, "pipe", O_DIRECTORY), -ENOTDIR);
	EQ(unlinkat(at, "pipe", 0), 0);
	EQ(rmdir(path), 0);
}

TEST_MAIN()
