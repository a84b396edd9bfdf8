/* SPDX-License-Identifier: Apache-2.0 */
/*
 * world.h - a separate part of the machine for one test, where everything can be counted
 *
 * A test cannot count processes, mounts, namespaces and cgroups on a machine that others
 * use. So world_enter() continues in a child with its own pid and mount namespaces, a
 * matching /proc, and one directory of each hierarchy below /sys/fs/cgroup. The child is
 * pid 1 there: it adopts orphans, and nothing outlives it.
 */
#ifndef TEST_WORLD_H
#define TEST_WORLD_H

#include <sys/prctl.h>
#include <sys/statfs.h>

#include "lib/alone.h"
#include "lib/sandbox.h"
#include "os/cgroup.h"

#define WORLD_NAMES 4096

/* The counts at one time. */
struct counts {
	size_t processes, mounts, cgroups, namespaces, loops, fds, files;
};

/* ----------------------------------------------------------------- cgroups */

static const char *const world_hierarchies[] = { "cpu", "cpuacct", "memory", "pids",
						 "freezer" };

static inline bool world_is_v2(void)
{
	struct statfs fs;

	return statfs("/sys/fs/cgroup", &fs) == 0 && fs.f_type == 0x63677270;
}

static inline void world_cgroup(char *path, size_t size, size_t i, const char *name)
{
	if (world_is_v2())
		(void)snprintf(path, size, "/sys/fs/cgroup/%s", name);
	else
		(void)snprintf(path, size, "/sys/fs/cgroup/%s/%s", world_hierarchies[i],
			       name);
}

static inline size_t world_n_cgroups(void)
{
	return world_is_v2() ? 1 : ARRAY_SIZE(world_hierarchies);
}

/* In each hierarchy, mount a directory of this test over the hierarchy itself. */
static inline void world_take_cgroups(const char *name)
{
	for (size_t i = 0; i < world_n_cgroups(); i++) {
		char path[128], top[128];

		world_cgroup(path, sizeof(path), i, name);
		world_cgroup(top, sizeof(top), i, ".");
		if (access(top, F_OK) < 0)
			continue;
		if (mount(path, top, NULL, MS_BIND, NULL) < 0)
			TAP_FAIL("bind %s: %s", path, strerror(errno));
	}
}

/* On cgroup v1, frozen processes do not die, so thaw those of a failed test. */
static inline int world_thaw_one(const char *path, const struct stat *st UNUSED,
				 int type UNUSED, struct FTW *ftw)
{
	int fd = strcmp(path + ftw->base, "freezer.state") == 0
			 ? open(path, O_WRONLY | O_CLOEXEC)
			 : -1;

	if (fd >= 0) {
		(void)!write(fd, "THAWED", 6);
		(void)close(fd);
	}
	return 0;
}

static inline int world_remove_one(const char *path, const struct stat *st UNUSED,
				   int type, struct FTW *ftw UNUSED)
{
	for (int i = 0; type == FTW_DP && i < 100 && rmdir(path) < 0 && errno == EBUSY;
	     i++)
		sandbox_nap();
	return 0;
}

static inline void world_leave_cgroups(const char *name, bool remove)
{
	for (size_t i = 0; i < world_n_cgroups(); i++) {
		char path[128];

		world_cgroup(path, sizeof(path), i, name);
		(void)nftw(path, remove ? world_remove_one : world_thaw_one, 16,
			   FTW_DEPTH | FTW_PHYS);
	}
}

/* ---------------------------------------------------------------- start and end */

/* Has the process ended, so that its memory is already freed? */
static inline bool world_has_ended(pid_t pid)
{
	char path[64], text[8] = "";
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	(void)!read(fd, text, 2);
	(void)close(fd);
	return strcmp(text, "0 ") == 0;
}

__attribute__((noreturn)) static inline void world_watch(pid_t pid, const char *name)
{
	int status = 0;

	/* A process that has ended but still exists waits for a frozen one. */
	while (waitpid(pid, &status, WNOHANG) != pid) {
		if (world_has_ended(pid))
			world_leave_cgroups(name, false);
		sandbox_nap();
	}
	world_leave_cgroups(name, true);
	alone_end(status);
}

/* ------------------------------------------------------------------ mounts */

static uint64_t world_found_mounts[WORLD_NAMES]; /* mounts of the machine */
static size_t world_n_found_mounts;

static inline bool world_mount_is_new(uint64_t hash)
{
	for (size_t i = 0; i < world_n_found_mounts; i++)
		if (world_found_mounts[i] == hash)
			return false;
	return true;
}

/*
 * Count the mounts since world_enter(). Mounts of others may disappear at any time, even
 * here: the kernel removes a mount in every namespace when its directory is removed. A
 * mount is identified by its ids, device, root and directory. If @note is set, record the
 * current mounts as those of the machine.
 */
static inline size_t world_look_at_mounts(bool note)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	uint64_t hash = 14695981039346656037U; /* FNV-1a */
	size_t n = 0;
	int spaces = 0;

	OK(f);
	for (int c = getc(f); c != EOF; c = getc(f)) {
		spaces += c == ' ';
		if (spaces < 5)
			hash = (hash ^ (unsigned char)c) * 1099511628211U;
		if (c != '\n')
			continue;
		n += world_mount_is_new(hash);
		if (note) {
			OK(world_n_found_mounts < WORLD_NAMES);
			world_found_mounts[world_n_found_mounts++] = hash;
		}
		hash = 14695981039346656037U;
		spaces = 0;
	}
	(void)fclose(f);
	return n;
}

/* This returns in the child. @seconds is the time limit of the test. */
static inline void world_enter(unsigned seconds)
{
	char name[64];
	pid_t pid;

	SKIP_UNLESS(geteuid() == 0, "needs root");
	(void)snprintf(name, sizeof(name), "warren-test-%d", (int)getpid());
	for (size_t i = 0; i < world_n_cgroups(); i++) {
		char path[128];

		world_cgroup(path, sizeof(path), i, name);
		(void)mkdir(path, 0755);
	}
	pid = alone_fork();
	if (pid < 0)
		SKIP("no namespaces of our own: %s", strerror(-pid));
	if (pid > 0)
		world_watch(pid, name);
	(void)alarm(seconds);
	(void)signal(SIGPIPE, SIG_IGN);
	/*
	 * Also use separate directories, so that leftovers of other tests are not found.
	 */
	(void)snprintf(sandbox_dir + strlen(sandbox_dir),
		       sizeof(sandbox_dir) - strlen(sandbox_dir), "/%s", name + 12);
	EQ(mkdir(sandbox_dir, 0755), 0);
	world_take_cgroups(name);
	(void)world_look_at_mounts(true);
}

/* ---------------------------------------------------------------- counting */

static size_t world_found;

static inline int world_count_one(const char *path UNUSED, const struct stat *st UNUSED,
				  int type UNUSED, struct FTW *ftw UNUSED)
{
	world_found++;
	return 0;
}

static inline int world_count_dir(const char *path UNUSED, const struct stat *st UNUSED,
				  int type, struct FTW *ftw UNUSED)
{
	world_found += type == FTW_D;
	return 0;
}

static inline size_t world_count_cgroups(void)
{
	size_t n = 0;

	for (size_t i = 0; i < world_n_cgroups(); i++) {
		char path[128];

		world_cgroup(path, sizeof(path), i, "warren");
		world_found = 0;
		(void)nftw(path, world_count_dir, 16, FTW_PHYS);
		n += world_found;
	}
	return n;
}

static inline size_t world_count_loops(void)
{
	size_t n = 0;

	for (int i = 0; i < 256; i++) {
		char path[64], text[256] = "";
		int fd;

		(void)snprintf(path, sizeof(path), "/sys/block/loop%d/loop/backing_file",
			       i);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (read(fd, text, sizeof(text) - 1) > 0)
			n += strncmp(text, sandbox_dir, strlen(sandbox_dir)) == 0;
		(void)close(fd);
	}
	return n;
}

/* Is it a layer with the contents of /etc? Another one is created when /etc changes. */
static inline bool world_is_layer(const char *name)
{
	return strncmp(name, "host-", 5) == 0 || strncmp(name, "skel-", 5) == 0;
}

/* Count the entries of the state directory that are not layers. */
static inline size_t world_count_files(void)
{
	AUTO_FREE char *run = sandbox_path("run"), *state = sandbox_path("state");
	DIR *d = opendir(state);

	world_found = 0;
	(void)nftw(run, world_count_one, 16, FTW_PHYS);
	for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
		world_found += !world_is_layer(e->d_name);
	if (d)
		(void)closedir(d);
	return world_found;
}

/* Record the namespaces of all processes, each counted once. */
static inline void world_note_namespaces(const char *pid, char names[][32], size_t *n)
{
	static const char *const kinds[] = { "user", "mnt", "pid",   "net",
					     "ipc",  "uts", "cgroup" };

	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		char path[64], text[32];
		ssize_t len;
		size_t i = 0;

		(void)snprintf(path, sizeof(path), "/proc/%.20s/ns/%s", pid, kinds[k]);
		len = readlink(path, text, sizeof(text) - 1);
		if (len < 0)
			continue;
		text[len] = '\0';
		while (i < *n && strcmp(names[i], text) != 0)
			i++;
		if (i == *n && *n < WORLD_NAMES)
			(void)strcpy(names[(*n)++], text);
	}
}

static inline struct counts world_count(void)
{
	static char names[WORLD_NAMES][32];
	struct counts c = { 0 };
	DIR *d = opendir("/proc");

	OK(d);
	for (struct dirent *e = readdir(d); e; e = readdir(d)) {
		if (e->d_name[0] < '0' || e->d_name[0] > '9')
			continue;
		c.processes++;
		world_note_namespaces(e->d_name, names, &c.namespaces);
	}
	(void)closedir(d);
	c.mounts = world_look_at_mounts(false);
	c.cgroups = world_count_cgroups();
	c.loops = world_count_loops();
	c.fds = sandbox_count_fds();
	c.files = world_count_files();
	return c;
}

#define WORLD_SAME(what)                                                        \
	do {                                                                    \
		if (now.what != before->what)                                   \
			TAP_FAIL("%s: %zu " #what ", were %zu", when, now.what, \
				 before->what);                                 \
	} while (0)

/* Check that all counts are the same as before. */
static inline void world_check(const struct counts *before, const char *when)
{
	struct counts now = world_count();

	WORLD_SAME(processes);
	WORLD_SAME(mounts);
	WORLD_SAME(cgroups);
	WORLD_SAME(namespaces);
	WORLD_SAME(loops);
	WORLD_SAME(fds);
	WORLD_SAME(files);
}

/* For a failure message, print the remaining processes with parent, state and program. */
static inline void world_show_processes(void)
{
	DIR *d = opendir("/proc");

	for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
		char path[64], text[128] = "";
		int fd;

		if (e->d_name[0] < '0' || e->d_name[0] > '9')
			continue;
		(void)snprintf(path, sizeof(path), "/proc/%.20s/stat", e->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (read(fd, text, sizeof(text) - 1) > 0)
			(void)printf("# %.60s\n", text);
		(void)close(fd);
	}
	if (d)
		(void)closedir(d);
}

/* Reap children until the number of processes is the same as before; print them if that
 * fails. */
static inline void world_await_processes(size_t n, const char *when)
{
	size_t seen = 0;

	for (int i = 0; i < SANDBOX_TRIES; i++) {
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		seen = world_count().processes;
		if (seen == n)
			return;
		sandbox_nap();
	}
	world_show_processes();
	TAP_FAIL("%s: %zu processes are left, were %zu", when, seen, n);
}

#endif /* TEST_WORLD_H */
