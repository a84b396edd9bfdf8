/* SPDX-License-Identifier: Apache-2.0 */
/* test-cgroup.c - cgroups of this machine: created, limited, read, frozen, removed */
#include "os/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/id.h"
#include "lib/tap.h"

#define MIB (1ULL << 20)

static struct cgroup_root root;
static char id[ID_LEN + 1];

/* Every test has its own cgroup name; its leftovers are removed at the end. */
static void remove_it(void)
{
	(void)cgroup_remove(&root, id);
}

static void begin(void)
{
	cgroup_root_open(&root);
	SKIP_UNLESS(root.mode != CGROUP_NONE, "no cgroups: %s", root.why);
	id_make(id);
	(void)atexit(remove_it);
	(void)alarm(30);
}

static void make(const struct cgroup_limits *limits)
{
	struct warren_error err = WARREN_ERROR_INIT;

	if (cgroup_make(&root, id, 0, limits, &err) < 0)
		TAP_FAIL("%s", err.msg);
}

/* The directory with the limits. */
static int sandbox_dir(enum cgroup_controller c)
{
	char path[64];
	int fd;

	(void)snprintf(path, sizeof(path), "%s%s", id,
		       root.mode == CGROUP_V2 ? "/box" : "");
	fd = openat(root.dir[c], path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OK(fd >= 0);
	return fd;
}

static bool exists(enum cgroup_controller c)
{
	return faccessat(root.dir[c], id, F_OK, 0) == 0;
}

/* Start a process in the cgroup, which does nothing. */
static pid_t occupy(int dir)
{
	bool v2 = root.mode == CGROUP_V2;
	char text[16];
	pid_t pid = fork();

	if (pid == 0) {
		for (;;)
			(void)pause();
	}
	OK(pid > 0);
	(void)snprintf(text, sizeof(text), "%d", (int)pid);
	EQ(fd_write_file_at(dir, v2 ? "cgroup.procs" : "tasks", text), 0);
	return pid;
}

static void end(pid_t pid)
{
	EQ(kill(pid, SIGKILL), 0);
	EQ(waitpid(pid, NULL, 0), pid);
}

TEST(the_available_controllers_are_listed)
{
	begin();
	OK(root.mode == CGROUP_V1 || root.mode == CGROUP_V2);
	STREQ(cgroup_mode_name(root.mode),
	      root.mode == CGROUP_V1 ? "cgroup v1" : "cgroup v2");
	STREQ(cgroup_controller_name(CGROUP_MEMORY), "memory");
	for (int c = 0; c < CGROUP_CONTROLLER_MAX; c++)
		EQ(cgroup_has(&root, c), root.dir[c] >= 0);
}

TEST(a_cgroup_is_created_and_removed_in_every_hierarchy)
{
	begin();
	make(&(struct cgroup_limits){ .cpu_millis = 1000 });
	for (int c = 0; c < CGROUP_CONTROLLER_MAX; c++)
		OK(!cgroup_has(&root, c) || exists(c));
	EQ(cgroup_remove(&root, id), 0);
	for (int c = 0; c < CGROUP_CONTROLLER_MAX; c++)
		OK(!cgroup_has(&root, c) || !exists(c));
	EQ(cgroup_remove(&root, id), 0); /* a missing cgroup is not an error */
}

TEST(limits_are_written_to_the_cgroup_files)
{
	struct cgroup_limits limits = { .memory = 64 * MIB,
					.cpu_millis = 1500,
					.pids = 77 };
	bool v2;
	char text[64];
	uint64_t n = 0;

	begin();
	SKIP_UNLESS(cgroup_has(&root, CGROUP_MEMORY) && cgroup_has(&root, CGROUP_CPU) &&
			    cgroup_has(&root, CGROUP_PIDS),
		    "a controller is missing");
	v2 = root.mode == CGROUP_V2;
	make(&limits);
	EQ(fd_read_u64_at(sandbox_dir(CGROUP_MEMORY),
			  v2 ? "memory.max" : "memory.limit_in_bytes", &n),
	   0);
	EQ(n, 64 * MIB);
	/* Swap adds nothing. If the kernel does not count it, the file does not exist. */
	if (fd_read_u64_at(sandbox_dir(CGROUP_MEMORY),
			   v2 ? "memory.swap.max" : "memory.memsw.limit_in_bytes",
			   &n) == 0)
		EQ(n, v2 ? 0 : 64 * MIB);
	EQ(fd_read_u64_at(sandbox_dir(CGROUP_PIDS), "pids.max", &n), 0);
	EQ(n, 77);
	if (v2) {
		OK(fd_read_file_at(sandbox_dir(CGROUP_CPU), "cpu.max", text,
				   sizeof(text)) > 0);
		STREQ(text, "150000 100000\n");
	} else {
		EQ(fd_read_u64_at(sandbox_dir(CGROUP_CPU), "cpu.cfs_quota_us", &n), 0);
		EQ(n, 150000);
	}
}

TEST(a_cgroup_without_limits_is_unlimited)
{
	uint64_t n = 0;

	begin();
	make(&(struct cgroup_limits){ 0 });
	EQ(fd_read_u64_at(sandbox_dir(CGROUP_PIDS), "pids.max", &n), -EINVAL); /* "max" */
}

/* No process inside can lift a limit: it owns the directory, but not the files. */
TEST(the_limit_files_stay_owned_by_root)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct cgroup_limits limits = { .memory = 64 * MIB, .pids = 77 };
	struct stat st;

	begin();
	SKIP_UNLESS(geteuid() == 0, "needs root");
	EQ(cgroup_make(&root, id, 300000, &limits, &err), 0);
	EQ(fstat(sandbox_dir(CGROUP_PIDS), &st), 0);
	EQ(st.st_uid, 300000);
	EQ(fstatat(sandbox_dir(CGROUP_PIDS), "pids.max", &st, 0), 0);
	EQ(st.st_uid, 0);
	EQ(st.st_mode & 022, 0);
	EQ(fstatat(sandbox_dir(CGROUP_MEMORY),
		   root.mode == CGROUP_V2 ? "memory.max" : "memory.limit_in_bytes", &st,
		   0),
	   0);
	EQ(st.st_uid, 0);
	EQ(st.st_mode & 022, 0);
}

/* If the kernel refuses a limit, the error explains it, and no partial cgroup stays. */
TEST(a_refused_limit_leaves_no_cgroup_behind)
{
	struct warren_error err = WARREN_ERROR_INIT;

	begin();
	EQ(cgroup_make(&root, id, 0, &(struct cgroup_limits){ .cpu_millis = 1 }, &err),
	   -EINVAL);
	EQ(err.code, EINVAL);
	OK(strstr(err.msg, "cpu"));
	for (int c = 0; c < CGROUP_CONTROLLER_MAX; c++)
		OK(!cgroup_has(&root, c) || !exists(c));
}

/* An existing cgroup is not taken over and, above all, not removed after a failure. */
TEST(an_id_in_use_is_refused)
{
	struct warren_error err = WARREN_ERROR_INIT;
	uint64_t n = 0;

	begin();
	make(&(struct cgroup_limits){ .pids = 77 });
	EQ(cgroup_make(&root, id, 0, &(struct cgroup_limits){ .pids = 5 }, &err),
	   -EEXIST);
	EQ(fd_read_u64_at(sandbox_dir(CGROUP_PIDS), "pids.max", &n), 0);
	EQ(n, 77);
}

TEST(a_cgroup_is_removed_with_its_children)
{
	begin();
	make(&(struct cgroup_limits){ .cpu_millis = 1000 });
	for (int c = 0; c < CGROUP_CONTROLLER_MAX; c++) {
		if (!cgroup_has(&root, c) ||
		    (root.mode == CGROUP_V2 && c != CGROUP_FREEZER))
			continue;
		for (int i = 0; i < 20; i++) {
			char name[16];

			(void)snprintf(name, sizeof(name), "e%d", i);
			EQ(mkdirat(sandbox_dir(c), name, 0755), 0);
		}
		EQ(mkdirat(sandbox_dir(c), "e0/deeper", 0755), 0);
	}
	EQ(cgroup_remove(&root, id), 0);
	for (int c = 0; c < CGROUP_CONTROLLER_MAX; c++)
		OK(!cgroup_has(&root, c) || !exists(c));
}

TEST(removing_a_cgroup_with_a_process_fails)
{
	pid_t pid;

	begin();
	make(&(struct cgroup_limits){ 0 });
	pid = occupy(sandbox_dir(CGROUP_PIDS));
	EQ(cgroup_remove(&root, id), -EBUSY);
	OK(exists(CGROUP_PIDS));
	end(pid);
	EQ(cgroup_remove(&root, id), 0);
	OK(!exists(CGROUP_PIDS));
}

TEST(resource_usage_is_read)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct cgroup_usage usage;
	pid_t pid;

	begin();
	make(&(struct cgroup_limits){ 0 });
	EQ(cgroup_read_usage(&root, id, &usage, &err), 0);
	EQ(usage.pids, 0);
	EQ(usage.oom_kills, 0);
	pid = occupy(sandbox_dir(CGROUP_PIDS));
	EQ(cgroup_read_usage(&root, id, &usage, &err), 0);
	EQ(usage.pids, 1);
	end(pid);
	EQ(cgroup_remove(&root, id), 0);
	OK(cgroup_read_usage(&root, id, &usage, &err) < 0);
}

static char state_of(pid_t pid)
{
	char path[64], text[512];
	char *p;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	OK(fd_read_file_at(AT_FDCWD, path, text, sizeof(text)) > 0);
	p = strrchr(text, ')');
	OK(p && p[1] == ' ');
	return p[2];
}

/* A process that increments a counter is stopped, and continues. */
TEST(processes_are_frozen_and_thawed)
{
	struct warren_error err = WARREN_ERROR_INIT;
	volatile unsigned long *counter;
	unsigned long seen;
	char text[16];
	pid_t pid;

	begin();
	SKIP_UNLESS(cgroup_has(&root, CGROUP_FREEZER), "no freezer");
	counter = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		       0);
	OK(counter != MAP_FAILED);
	make(&(struct cgroup_limits){ 0 });
	pid = fork();
	if (pid == 0) {
		(void)alarm(30);
		for (;;) {
			(*counter)++;
			(void)usleep(100);
		}
	}
	(void)snprintf(text, sizeof(text), "%d", (int)pid);
	EQ(fd_write_file_at(sandbox_dir(CGROUP_FREEZER),
			    root.mode == CGROUP_V2 ? "cgroup.procs" : "tasks", text),
	   0);
	EQ(cgroup_freeze(&root, id, true, &err), 0);
	OK(strchr("DS", state_of(pid)));
	seen = *counter;
	(void)usleep(50000);
	EQ(*counter, seen);
	EQ(cgroup_freeze(&root, id, true, &err), 0); /* repeating it is allowed */
	EQ(cgroup_freeze(&root, id, false, &err), 0);
	for (int i = 0; i < 1000 && *counter == seen; i++)
		(void)usleep(10000);
	OK(*counter > seen);
	end(pid);
}

/* A missing cgroup is an error, because without it nothing would be limited. */
/* A process joins with all its children; a kill ends all of them, frozen or not. */
static void check_kill(bool frozen)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int pipe_ends[2], status = 0;
	pid_t pid;
	char c;

	begin();
	SKIP_UNLESS(cgroup_has(&root, CGROUP_FREEZER), "no freezer");
	make(&(struct cgroup_limits){ 0 });
	EQ(cgroup_kill(&root, id, &err), 0); /* nobody */
	EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		if (cgroup_join(&root, id, &err) < 0)
			_exit(1);
		(void)fork();
		(void)fd_write_all(pipe_ends[1], "x", 1);
		for (;;)
			(void)pause();
	}
	(void)close(pipe_ends[1]);
	EQ(fd_read_all(pipe_ends[0], (char[2]){ 0 }, 2), 2);
	EQ(cgroup_try_remove(&root, id), -EBUSY);
	if (frozen)
		EQ(cgroup_freeze(&root, id, true, &err), 0);
	EQ(cgroup_kill(&root, id, &err), 0);
	EQ(waitpid(pid, &status, 0), pid);
	EQ(WTERMSIG(status), SIGKILL);
	/* The other process also had the pipe open. */
	EQ(read(pipe_ends[0], &c, 1), 0);
	EQ(cgroup_remove(&root, id), 0);
	EQ(cgroup_kill(&root, id, &err), 0); /* nothing */
}

TEST(all_processes_of_a_cgroup_are_killed)
{
	check_kill(false);
}

TEST(frozen_processes_are_killed)
{
	check_kill(true);
}

TEST(handles_allow_joining_and_creating_cgroups)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct cgroup_handle h[CGROUP_HANDLES_MAX];
	size_t n = 0, dirs = 0;

	begin();
	make(&(struct cgroup_limits){ 0 });
	EQ(cgroup_open_handles(&root, id, true, h, &n, &err), 0);
	OK(n > 0 && n <= CGROUP_HANDLES_MAX);
	for (size_t i = 0; i < n; i++) {
		struct stat st, up;

		EQ(fstat(h[i].fd, &st), 0);
		EQ(fcntl(h[i].fd, F_GETFD), FD_CLOEXEC);
		EQ(S_ISDIR(st.st_mode), h[i].kind == CGROUP_HANDLE_DIR);
		dirs += S_ISDIR(st.st_mode);
		/*
		 * No directory above it can be reached, but a cgroup can be created below
		 * it.
		 */
		if (S_ISDIR(st.st_mode)) {
			EQ(fstatat(h[i].fd, "../../..", &up, 0), 0);
			OK(up.st_dev == st.st_dev && up.st_ino == st.st_ino);
			EQ(faccessat(h[i].fd, "../../../../../etc/passwd", F_OK, 0), -1);
			EQ(mkdirat(h[i].fd, "e7", 0755), 0);
			EQ(unlinkat(h[i].fd, "e7", AT_REMOVEDIR), 0);
		}
		(void)close(h[i].fd);
	}
	OK(dirs > 0);
	EQ(cgroup_open_handles(&root, id, false, h, &n, &err), 0);
	while (n > 0) {
		OK(h[--n].kind != CGROUP_HANDLE_DIR);
		(void)close(h[n].fd);
	}
	EQ(cgroup_remove(&root, id), 0);
	OK(cgroup_open_handles(&root, id, true, h, &n, &err) < 0);
}

TEST(a_copied_directory_handle_does_not_lead_outside)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct cgroup_handle h[CGROUP_HANDLES_MAX];
	size_t n = 0;

	begin();
	make(&(struct cgroup_limits){ 0 });
	EQ(cgroup_copy_dirs(&root, id, h, &n, &err), 0);
	OK(n > 0);
	while (n > 0) {
		struct stat st, up;

		EQ(fstat(h[--n].fd, &st), 0);
		EQ(fstatat(h[n].fd, "../../..", &up, 0), 0);
		OK(up.st_dev == st.st_dev && up.st_ino == st.st_ino);
		(void)close(h[n].fd);
	}
	EQ(cgroup_remove(&root, id), 0);
	OK(cgroup_copy_dirs(&root, id, h, &n, &err) < 0 || n == 0);
}

/* The users of a sandbox cannot enter the directory of all cgroups. */
TEST(only_the_owner_can_enter_the_parent_directory)
{
	begin();
	for (size_t c = 0; c < CGROUP_CONTROLLER_MAX; c++) {
		struct stat st;

		if (root.dir[c] < 0)
			continue;
		EQ(fstat(root.dir[c], &st), 0);
		EQ(st.st_mode & 07777, 0700);
	}
}

TEST(closing_a_cgroup_leaves_no_open_descriptor)
{
	size_t before = 0, after = 0;

	for (int fd = 0; fd < 1024; fd++)
		before += fcntl(fd, F_GETFD) >= 0;
	for (int i = 0; i < 10; i++) {
		cgroup_root_open(&root);
		cgroup_root_close(&root);
	}
	for (int fd = 0; fd < 1024; fd++)
		after += fcntl(fd, F_GETFD) >= 0;
	EQ(after, before);
}

TEST_MAIN()
