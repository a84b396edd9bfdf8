/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_cgroup.c - the cgroup of an exec: its accounting and the list of its processes
 *
 * The engine passes directories that belong to the sandbox's root. (Only the directories:
 * the limit files in them still belong to the host's root.) init can therefore create a
 * cgroup for an exec with one mkdir(2), without help from outside. On v1 there is one
 * each for memory, cpuacct and pids; on v2 there is only one.
 *
 * Creating and removing three cgroups takes a third of the time of a short exec. On v1,
 * where counters can be reset, empty cgroups are kept for the next exec.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "agent/core/agent.h"

static const struct {
	enum proto_role role;
	const char *procs; /* the file through which a process joins; v1: `tasks`, see
			      join() */
} hierarchies[] = {
	{ PROTO_ROLE_MEMORY, "tasks" },
	{ PROTO_ROLE_CPU, "tasks" },
	{ PROTO_ROLE_PIDS, "tasks" },
	{ PROTO_ROLE_UNIFIED, "cgroup.procs" },
};

/* Empty cgroups that already exist, and counters in them that cannot be reset. */
static struct {
	int number;
	uint64_t kills;
} idle[8];
static int n_idle;
static int n_made;

/*
 * The cgroup of file workers: it is below the limits and, on v1, only in the memory
 * hierarchy, so that files can be written even if the sandbox is frozen or has its
 * maximum of processes.
 */
#define FILES_GROUP "files"

/* Time until killed processes are killed again: the first and the longest interval. */
#define KILL_WAIT_NS     20000000ULL
#define KILL_WAIT_MAX_NS 1000000000ULL

#define N_HIERARCHIES (sizeof(hierarchies) / sizeof(hierarchies[0]))

/* "e<number>" or "e<number>/<file>" */
static void group_name(int number, const char *file, char *out)
{
	unsigned id = (unsigned)number;
	char digits[12];
	int n = 0;

	*out++ = 'e';
	do
		digits[n++] = (char)('0' + id % 10);
	while ((id /= 10) > 0);
	while (n > 0)
		*out++ = digits[--n];
	if (file) {
		*out++ = '/';
		while (*file)
			*out++ = *file++;
	}
	*out = '\0';
}

static long group_open(const struct exec *ex, enum proto_role role, const char *file,
		       int flags)
{
	char name[64];

	if (init.dir[role] < 0)
		return -ENOENT;
	if (ex->group >= 0)
		group_name(ex->group, file, name);
	return sys_openat(init.dir[role], ex->group >= 0 ? name : file, flags | O_CLOEXEC,
			  0);
}

static long exec_cgroup_read_text(const struct exec *ex, enum proto_role role,
				  const char *file, char *text, size_t size)
{
	long fd = group_open(ex, role, file, O_RDONLY);
	long n;

	if (fd < 0)
		return fd;
	n = sys_read(fd, text, size - 1);
	sys_close(fd);
	if (n >= 0)
		text[n] = '\0';
	return n;
}

/* Read the number after @key at the start of a line, or the only number if @key is "". */
static bool read_number(const struct exec *ex, enum proto_role role, const char *file,
			const char *key, uint64_t *ret)
{
	char text[1024];
	long n = exec_cgroup_read_text(ex, role, file, text, sizeof(text));

	for (const char *line = text; n > 0 && *line;) {
		const char *p = line, *k = key;

		while (*k && *p == *k)
			p++, k++;
		if (*k == '\0' && (*key == '\0' || *p == ' ')) {
			uint64_t v = 0;

			p += *key != '\0';
			if (*p < '0' || *p > '9')
				return false;
			while (*p >= '0' && *p <= '9')
				v = v * 10 + (uint64_t)(*p++ - '0');
			*ret = v;
			return true;
		}
		while (*line && *line != '\n')
			line++;
		line += *line == '\n';
	}
	return false;
}

/* The hierarchy that lists, counts and limits processes. */
static enum proto_role group_pids_role(void)
{
	return init.dir[PROTO_ROLE_PIDS] >= 0 ? PROTO_ROLE_PIDS : PROTO_ROLE_UNIFIED;
}

/* Does the sandbox have its maximum number of processes? */
static bool group_full(void)
{
	struct exec whole = { .group = -1 };
	enum proto_role role = group_pids_role();
	uint64_t now_there = 0, limit = 0;

	return read_number(&whole, role, "pids.current", "", &now_there) &&
	       read_number(&whole, role, "pids.max", "", &limit) && now_there >= limit;
}

/*
 * On v1, sockets of a cgroup are counted here and in its parents once the cgroup has a
 * limit: so set none. A kernel without this file counts sockets as memory.
 */
static long count_sockets(int number)
{
	char name[64];
	long fd, r;

	group_name(number, "memory.kmem.tcp.limit_in_bytes", name);
	fd = sys_openat(init.dir[PROTO_ROLE_MEMORY], name, O_WRONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	r = sys_write(fd, "-1", 2);
	sys_close(fd);
	return r < 0 ? r : 0;
}

/* Create cgroup @number in every hierarchy where it does not exist yet. */
static long exec_cgroup_make_dirs(int number)
{
	char name[64];

	group_name(number, NULL, name);
	for (size_t i = 0; i < N_HIERARCHIES; i++) {
		int dir = init.dir[hierarchies[i].role];
		long r = dir < 0 ? 0 : SYS_3(SYS_mkdirat, dir, name, 0755);

		if (r < 0 && r != -EEXIST)
			return r;
	}
	return init.dir[PROTO_ROLE_MEMORY] < 0 ? 0 : count_sockets(number);
}

void group_ahead(void)
{
	if (exec_cgroup_make_dirs(n_made) == 0)
		idle[n_idle++].number = n_made++;
}

long group_make(struct exec *ex, int *own, int *n_own)
{
	bool made = n_idle > 0;
	int number;
	long r;

	/*
	 * The kernel allows a process to be moved into a full cgroup, so init itself must
	 * enforce the limit for execs.
	 */
	if (group_full())
		return -EAGAIN;
	/*
	 * On v2, a cgroup with children has no processes, so even a single exec has its
	 * own cgroup.
	 */
	if (ex->accounts_sandbox && init.dir[PROTO_ROLE_UNIFIED] < 0)
		return 0;
	ex->old_kills = n_idle > 0 ? idle[n_idle - 1].kills : 0;
	number = n_idle > 0 ? idle[--n_idle].number : n_made++;
	r = made ? 0 : exec_cgroup_make_dirs(number);
	if (r < 0)
		return r;
	for (size_t i = 0; i < N_HIERARCHIES; i++) {
		if (init.dir[hierarchies[i].role] < 0)
			continue;
		ex->group = number;
		r = group_open(ex, hierarchies[i].role, hierarchies[i].procs, O_WRONLY);
		if (r < 0)
			return r;
		own[(*n_own)++] = (int)r;
	}
	return 0;
}

static void exec_cgroup_put_number(char **at, uint64_t n)
{
	char digits[24];
	int i = 0;

	do
		digits[i++] = (char)('0' + n % 10);
	while ((n /= 10) > 0);
	while (i > 0)
		*(*at)++ = digits[--i];
}

static long write_limit(const struct exec *ex, enum proto_role role, const char *file,
			uint64_t value, bool of_period)
{
	char text[48], *at = text;
	long fd = group_open(ex, role, file, O_WRONLY), n;

	if (fd < 0)
		return fd == -ENOENT ? -EOPNOTSUPP : fd;
	exec_cgroup_put_number(&at, value);
	for (const char *c = of_period ? " 100000" : ""; *c; c++)
		*at++ = *c;
	n = sys_write(fd, text, (size_t)(at - text));
	sys_close(fd);
	return n < 0 ? n : 0;
}

long group_limit(struct exec *ex, const struct proto_spawn *msg)
{
	bool v2 = init.dir[PROTO_ROLE_UNIFIED] >= 0;
	const struct {
		uint64_t value;
		enum proto_role role; /* on v1 only; v2 has a single hierarchy */
		const char *v1, *v2;
		bool of_period;
	} limits[] = {
		{ msg->memory, PROTO_ROLE_MEMORY, "memory.limit_in_bytes", "memory.max",
		  false },
		{ msg->pids, PROTO_ROLE_PIDS, "pids.max", "pids.max", false },
		/* v1 counts processor time in a different hierarchy than the one that
		 * limits it. */
		{ msg->cpu_millis * 100, PROTO_ROLE_CPU, NULL, "cpu.max", true },
	};

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		const char *file = v2 ? limits[i].v2 : limits[i].v1;
		long r;

		if (limits[i].value == 0)
			continue;
		ex->limited = true;
		if (ex->group < 0 || !file)
			return -EOPNOTSUPP;
		r = write_limit(ex, v2 ? PROTO_ROLE_UNIFIED : limits[i].role, file,
				limits[i].value, limits[i].of_period);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Write the single character @digit. */
static void group_write(const struct exec *ex, enum proto_role role, const char *file,
			char digit)
{
	long fd = group_open(ex, role, file, O_WRONLY);

	if (fd >= 0) {
		(void)sys_write(fd, &digit, 1);
		sys_close(fd);
	}
}

/* Is the cgroup empty, and are its counters zero again? Then the next exec can use it. */
static bool group_keep(const struct exec *ex)
{
	uint64_t n = 1, kills = 0;

	if (n_idle == sizeof(idle) / sizeof(idle[0]) || ex->killed || ex->failed ||
	    ex->limited || init.dir[PROTO_ROLE_UNIFIED] >= 0 ||
	    !read_number(ex, PROTO_ROLE_PIDS, "pids.current", "", &n) || n != 0)
		return false;
	group_write(ex, PROTO_ROLE_CPU, "cpuacct.usage", '0');
	group_write(ex, PROTO_ROLE_MEMORY, "memory.max_usage_in_bytes", '0');
	(void)read_number(ex, PROTO_ROLE_MEMORY, "memory.oom_control", "oom_kill",
			  &kills);
	idle[n_idle].number = ex->group;
	idle[n_idle++].kills = kills;
	return true;
}

void group_leave(struct exec *ex)
{
	char name[64];
	bool gone = true;

	if (ex->kill_at)
		(void)group_kill(ex);
	if (!group_keep(ex)) {
		group_name(ex->group, NULL, name);
		/*
		 * Processes that the exec left running still use the cgroup: it is
		 * removed with the sandbox.
		 */
		for (size_t i = 0; i < N_HIERARCHIES; i++)
			if (init.dir[hierarchies[i].role] >= 0)
				gone &= SYS_3(SYS_unlinkat, init.dir[hierarchies[i].role],
					      name, AT_REMOVEDIR) == 0;
		if (gone && n_made == ex->group + 1)
			n_made--;
	}
	ex->group = -1;
}

/* Kill all processes that are listed now; return their number. */
static unsigned kill_once(const struct exec *ex, enum proto_role role)
{
	long fd = group_open(ex, role, "cgroup.procs", O_RDONLY), n;
	unsigned count = 0;
	int pid = 0;

	while (fd >= 0) {
		char text[4096];

		n = sys_read(fd, text, sizeof(text));
		if (n <= 0)
			break;
		for (long i = 0; i < n; i++) {
			if (text[i] != '\n') {
				pid = pid * 10 + (text[i] - '0');
				continue;
			}
			count++;
			if (pid > 1)
				(void)sys_kill(pid, SIGKILL);
			pid = 0;
		}
	}
	if (fd >= 0)
		sys_close(fd);
	return count;
}

/*
 * A process that may not fork can still complete a fork that it began before. Processes
 * that are still listed, because they are dying or frozen, are therefore killed again
 * later, at growing intervals.
 */
static void exec_cgroup_kill_listed(struct exec *ex, enum proto_role role)
{
	int passes = ex->kill_wait ? 4 : 64;

	ex->kill_at = 0;
	for (int pass = 0; pass < passes; pass++)
		if (kill_once(ex, role) == 0)
			return;
	ex->kill_wait = ex->kill_wait ? ex->kill_wait * 2 : KILL_WAIT_NS;
	if (ex->kill_wait > KILL_WAIT_MAX_NS)
		ex->kill_wait = KILL_WAIT_MAX_NS;
	ex->kill_at = agent_now() + ex->kill_wait;
}

/*
 * cgroup.kill is not enough by itself: before Linux 6.14 it can miss a process that is
 * being forked, which then forks again.
 */
bool group_kill(struct exec *ex)
{
	enum proto_role role = group_pids_role();

	if (ex->group < 0 || init.dir[role] < 0)
		return false;
	ex->killed = true;
	group_write(ex, role, "pids.max", '0');
	group_write(ex, PROTO_ROLE_UNIFIED, "cgroup.kill", '1');
	exec_cgroup_kill_listed(ex, role);
	return true;
}

long group_files(int *own, int *n_own)
{
	enum proto_role role = init.dir[PROTO_ROLE_UNIFIED] >= 0 ? PROTO_ROLE_UNIFIED
								 : PROTO_ROLE_MEMORY;
	long r;

	if (init.dir[role] < 0)
		return 0;
	r = SYS_3(SYS_mkdirat, init.dir[role], FILES_GROUP, 0755);
	if (r < 0 && r != -EEXIST)
		return r;
	r = sys_openat(init.dir[role],
		       role == PROTO_ROLE_UNIFIED ? FILES_GROUP "/cgroup.procs"
						  : FILES_GROUP "/tasks",
		       O_WRONLY | O_CLOEXEC, 0);
	if (r < 0)
		return r;
	own[(*n_own)++] = (int)r;
	return 0;
}

uint64_t group_files_kills(void)
{
	struct exec whole = { .group = -1 };
	uint64_t n = 0;

	if (init.dir[PROTO_ROLE_UNIFIED] >= 0)
		(void)read_number(&whole, PROTO_ROLE_UNIFIED,
				  FILES_GROUP "/memory.events", "oom_kill", &n);
	else
		(void)read_number(&whole, PROTO_ROLE_MEMORY,
				  FILES_GROUP "/memory.oom_control", "oom_kill", &n);
	return n;
}

long group_list(const struct exec *ex)
{
	if (ex->group < 0 && !ex->accounts_sandbox)
		return -ENOENT;
	return group_open(ex, group_pids_role(), "cgroup.procs", O_RDONLY);
}

void group_account(const struct exec *ex, struct proto_exited *out)
{
	uint64_t user = 0, sys = 0, n = 0;

	if (ex->group < 0 && !ex->accounts_sandbox)
		return;
	if (init.dir[PROTO_ROLE_UNIFIED] >= 0) {
		if (read_number(ex, PROTO_ROLE_UNIFIED, "cpu.stat", "user_usec", &user) &&
		    read_number(ex, PROTO_ROLE_UNIFIED, "cpu.stat", "system_usec",
				&sys)) {
			out->user_usec = user;
			out->system_usec = sys;
		}
		if (read_number(ex, PROTO_ROLE_UNIFIED, "memory.peak", "", &n))
			out->max_memory = n;
		if (read_number(ex, PROTO_ROLE_UNIFIED, "memory.events", "oom_kill", &n))
			out->oom_kills = (uint32_t)n;
		return;
	}
	if (read_number(ex, PROTO_ROLE_CPU, "cpuacct.usage", "", &n)) {
		/*
		 * The sum is exact, but v1 reports user and system time in clock ticks.
		 * wait(2) reports both more exactly for the process tree: use their
		 * ratio.
		 */
		uint64_t all = out->user_usec + out->system_usec;

		user = all ? n / 1000 * out->user_usec / all : n / 1000;
		out->system_usec = n / 1000 - user;
		out->user_usec = user;
	}
	if (read_number(ex, PROTO_ROLE_MEMORY, "memory.max_usage_in_bytes", "", &n))
		out->max_memory = n;
	if (read_number(ex, PROTO_ROLE_MEMORY, "memory.oom_control", "oom_kill", &n))
		out->oom_kills = (uint32_t)(n - ex->old_kills);
}
