/* SPDX-License-Identifier: Apache-2.0 */
/* ns.c - clone3(2), user namespace maps, the loopback interface */
#include "os/ns.h"

/* This must precede <sched.h>, which defines some of the same names. */
#include <linux/sched.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/parse.h"
#include "base/passwd.h"
#include "nolibc/sys.h"

pid_t ns_clone(uint64_t flags, int cgroup, int *ret_pidfd)
{
	struct ns_child child = { .pid = 0, .pidfd = -1 };
	int r = ns_clone_as(geteuid(), flags, cgroup, &child);

	if (r == 0 && child.pid > 0)
		*ret_pidfd = child.pidfd;
	return r < 0 ? r : child.pid;
}

/* Return 0 in both processes, with the pid in the parent; or -errno. */
static int ns_start(struct ns_child *child, uint64_t flags, int cgroup)
{
	struct clone_args args = {
		.flags = flags | CLONE_PIDFD | CLONE_PARENT_SETTID,
		.pidfd = (uint64_t)(uintptr_t)&child->pidfd,
		.parent_tid = (uint64_t)(uintptr_t)&child->pid,
		.exit_signal = SIGCHLD,
	};
	long pid;

	if (cgroup >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup;
	}
	if (child->run)
		args.flags |= CLONE_VM | CLONE_VFORK;
	pid = SYS_2(SYS_clone3, &args, sizeof(args));
	if (pid == 0 && child->run)
		child->run(child->ctx); /* does not return: the stack frame belongs to the
					   parent */
	if (pid == 0)
		child->pid = 0;
	return pid < 0 ? (int)pid : 0;
}

int ns_clone_as(uid_t uid, uint64_t flags, int cgroup, struct ns_child *child)
{
	int bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);
	int r;

	if (geteuid() == uid || bits < 0)
		return ns_start(child, flags, cgroup);
	/*
	 * Use the system call, which affects only this thread. Disable the fixup, so that
	 * the capabilities stay. In its new namespace, the child has all capabilities and
	 * the default securebits.
	 */
	if (prctl(PR_SET_SECUREBITS, bits | SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
		return -errno;
	if (syscall(SYS_setresuid, -1, uid, -1) < 0) {
		(void)prctl(PR_SET_SECUREBITS, bits, 0, 0, 0);
		return -errno;
	}
	r = ns_start(child, flags, cgroup);
	if (r < 0 || child->pid != 0) {
		(void)syscall(SYS_setresuid, -1, 0, -1);
		(void)prctl(PR_SET_SECUREBITS, bits, 0, 0, 0);
	}
	return r;
}

static int write_proc(pid_t pid, const char *name, const char *text,
		      struct warren_error *err)
{
	char path[64];
	int r;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	r = fd_write_file_at(AT_FDCWD, path, text);
	if (r < 0)
		return error_errno(err, -r, "write the %s of the user namespace", name);
	return 0;
}

static int write_map(pid_t pid, const char *name, const struct ns_map *map, size_t n,
		     struct warren_error *err)
{
	char text[NS_MAPS_MAX * 40];
	size_t len = 0;

	for (size_t i = 0; i < n; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%u %u %u\n",
					map[i].inside, map[i].outside, map[i].count);
	return write_proc(pid, name, text, err);
}

/*
 * Run a program to its end; the status is that of waitpid(2). If SIGCHLD is ignored, as
 * in the warden, the exit status of a child that sends SIGCHLD is lost: so the program is
 * started by a process that does not send SIGCHLD and waits for it.
 */
static int run_program(char *const argv[], int *ret_status)
{
	int status = 0;
	pid_t pid = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);

	if (pid == 0) {
		(void)signal(SIGCHLD, SIG_DFL);
		/*
		 * fork(3) would take locks of the allocator, which another thread may
		 * have held.
		 */
		pid = _Fork();
		if (pid == 0) {
			(void)execvp(argv[0], argv);
			_exit(127);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
			_exit(126);
		_exit(WEXITSTATUS(status));
	}
	if (pid < 0)
		return -errno;
	while (waitpid(pid, ret_status, __WALL) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

/*
 * Run newuidmap(1) or newgidmap(1), which are set-id programs that check /etc/subuid and
 * /etc/subgid.
 */
static int run_helper(const char *helper, pid_t pid, const struct ns_map *map, size_t n,
		      struct warren_error *err)
{
	char words[1 + NS_MAPS_MAX * 3][16];
	char *argv[2 + ARRAY_SIZE(words)] = { (char *)(uintptr_t)helper };
	size_t w = 0;
	int status = 0, r;

	(void)snprintf(words[w++], sizeof(words[0]), "%d", (int)pid);
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(words[w++], sizeof(words[0]), "%u", map[i].inside);
		(void)snprintf(words[w++], sizeof(words[0]), "%u", map[i].outside);
		(void)snprintf(words[w++], sizeof(words[0]), "%u", map[i].count);
	}
	for (size_t i = 0; i < w; i++)
		argv[1 + i] = words[i];
	r = run_program(argv, &status);
	if (r < 0)
		return error_errno(err, -r, "run %s", helper);
	if (status != 0)
		return error_set(
			err, EPERM,
			"%s refused the id map; are the ranges in /etc/subuid and "
			"/etc/subgid right?",
			helper);
	return 0;
}

int ns_write_maps(pid_t pid, const struct ns_maps *maps, bool privileged,
		  struct warren_error *err)
{
	int r;

	if (!privileged && maps->n_uid > 1) {
		r = run_helper("newuidmap", pid, maps->uid, maps->n_uid, err);
		return r < 0 ? r
			     : run_helper("newgidmap", pid, maps->gid, maps->n_gid, err);
	}
	/*
	 * The kernel lets an ordinary user map a group only after setgroups(2) is
	 * disabled.
	 */
	if (!privileged) {
		r = write_proc(pid, "setgroups", "deny", err);
		if (r < 0)
			return r;
	}
	r = write_map(pid, "uid_map", maps->uid, maps->n_uid, err);
	return r < 0 ? r : write_map(pid, "gid_map", maps->gid, maps->n_gid, err);
}

int ns_open(pid_t pid, const char *name)
{
	char path[64];
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int ns_make_userns(const struct ns_maps *maps, int *ret_fd, struct warren_error *err)
{
	AUTO_CLOSE int pidfd = -1, hold = -1;
	siginfo_t info;
	int ends[2], fd = -1, r;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_errno(err, errno, "create a user namespace");
	hold = ends[1];
	pid = ns_clone(CLONE_NEWUSER, NS_CGROUP_SAME, &pidfd);
	if (pid == 0) {
		char c;

		/* Keep only the pipe: its end shows that the creator has ended. */
		(void)dup2(ends[0], 0);
		(void)close_range(1, ~0U, 0);
		(void)!read(0, &c, 1);
		_exit(0);
	}
	(void)close(ends[0]);
	if (pid < 0)
		return error_errno(err, -pid, "create a user namespace");
	r = ns_write_maps(pid, maps, true, err);
	if (r == 0) {
		fd = ns_open(pid, "user");
		if (fd < 0)
			r = error_errno(err, -fd, "open a user namespace");
	}
	(void)kill(pid, SIGKILL); /* not reaped yet, so the pid is still valid */
	(void)waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED);
	if (r == 0)
		*ret_fd = fd;
	return r;
}

int ns_subids(const char *file, uid_t uid, struct ns_map *ret)
{
	char text[65536], number[16], *save = NULL;
	struct passwd_entry user = { .name = "" };
	ssize_t n = fd_read_file_at(AT_FDCWD, "/etc/passwd", text, sizeof(text));

	if (n > 0)
		(void)passwd_find(text, (size_t)n, NULL, uid, &user);
	n = fd_read_file_at(AT_FDCWD, file, text, sizeof(text));
	if (n < 0)
		return (int)n;
	(void)snprintf(number, sizeof(number), "%u", uid);
	for (char *line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		char *colon = strchr(line, ':'), *second;
		struct warren_error ignored = WARREN_ERROR_INIT;
		uint64_t start = 0, count = 0;

		if (!colon)
			continue;
		*colon = '\0';
		if (strcmp(line, number) != 0 &&
		    (!user.name[0] || strcmp(line, user.name) != 0))
			continue;
		second = strchr(colon + 1, ':');
		if (!second)
			continue;
		*second = '\0';
		if (parse_u64(colon + 1, UINT32_MAX, &start, &ignored) < 0 ||
		    parse_u64(second + 1, UINT32_MAX, &count, &ignored) < 0 || count == 0)
			continue;
		*ret = (struct ns_map){ .outside = (uint32_t)start,
					.count = (uint32_t)count };
		return 0;
	}
	return -ENOENT;
}

enum {
	ASIDE_BEGUN,
	ASIDE_TOLD,
	ASIDE_DONE
};

void ns_reach(uint32_t *state, uint32_t to)
{
	__atomic_store_n(state, to, __ATOMIC_RELEASE);
	(void)SYS_3(SYS_futex, state, FUTEX_WAKE_PRIVATE, 1);
}

uint32_t ns_await(uint32_t *state, uint32_t at_least)
{
	uint32_t now;

	while ((now = __atomic_load_n(state, __ATOMIC_ACQUIRE)) < at_least)
		(void)SYS_4(SYS_futex, state, FUTEX_WAIT_PRIVATE, now, NULL);
	return now;
}

/* The stack is not known to sanitizers. */
__attribute__((no_sanitize("address", "undefined"))) static int aside_main(void *arg)
{
	struct ns_aside *a = arg;

	a->result = a->run(a->ctx);
	ns_reach(&a->state, ASIDE_DONE);
	(void)SYS_1(SYS_exit,
		    0); /* ends only this thread; exit_group would also end its creator */
	return 0;
}

int ns_aside_start(struct ns_aside *a, struct warren_error *err)
{
	int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
		    CLONE_SYSVSEM;

	a->state = ASIDE_BEGUN;
	if (clone(aside_main, a->stack + sizeof(a->stack), flags, a) < 0)
		return error_errno(err, errno, "start a thread");
	return 0;
}

int ns_aside_join(struct ns_aside *a)
{
	(void)ns_await(&a->state, ASIDE_DONE);
	return a->result;
}

void ns_aside_tell(struct ns_aside *a)
{
	ns_reach(&a->state, ASIDE_TOLD);
}

void ns_aside_listen(struct ns_aside *a)
{
	(void)ns_await(&a->state, ASIDE_TOLD);
}

int ns_loopback(bool up, struct warren_error *err)
{
	long fd = SYS_3(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = { .ifr_name = "lo" };
	long r = fd;

	if (up) {
		ifr.ifr_flags = IFF_UP | IFF_RUNNING;
	} else {
		/*
		 * Remove the address. Otherwise, it would stay after the interface is
		 * down, without a route.
		 */
		struct ifreq none = { .ifr_name = "lo", .ifr_addr.sa_family = AF_INET };

		if (r >= 0)
			r = sys_ioctl(fd, SIOCSIFADDR, &none);
	}
	if (r >= 0)
		r = sys_ioctl(fd, SIOCSIFFLAGS, &ifr);
	if (fd >= 0)
		sys_close(fd);
	return r < 0 ? error_errno(err, (int)-r, "bring the loopback interface %s",
				   up ? "up" : "down")
		     : 0;
}

void ns_limit_sockets(int sysctls)
{
	static const struct {
		const char *name, *value;
	} limits[] = {
		/*
		 * Memory for options of a socket, such as multicast groups, which is
		 * charged to no cgroup.
		 */
		{ "net/core/optmem_max", "8192" },
		/*
		 * A closed connection exists until its data is read, or until the time
		 * between two probes reaches this value. The number of such connections
		 * is limited neither by descriptors nor by processes.
		 */
		{ "net/ipv4/tcp_rto_max_ms", "10000" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		long fd = SYS_4(SYS_openat, sysctls, limits[i].name, O_WRONLY | O_CLOEXEC,
				0);

		if (fd < 0)
			continue;
		(void)sys_write((int)fd, limits[i].value, strlen(limits[i].value));
		sys_close((int)fd);
	}
}
