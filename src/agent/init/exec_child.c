/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_child.c - create the process of an exec: from a plan to an execve(2)
 *
 * The child is forked, which is cheap because init has only a few pages. init must not
 * wait for it, because processes inside can stop it before the execve, or delay the
 * execve itself (with a lease on the file). A pipe that closes on exec reports the
 * result, and init answers the request then.
 *
 * Order in the child: join the cgroups while still init, take the terminal, place stdio,
 * close everything else, create the directory as root, become the user, change to the
 * directory as that user, write the file that came with the request, wait for the gate,
 * execute.
 *
 * The working directory, the program's name and PATH come from outside and are resolved
 * here, before the exec: /proc/self/fd, /dev/fd, or a link to either that a process
 * inside created, would lead through any descriptor that init has open, even with
 * close-on-exec. The child therefore closes all of init's descriptors before the first
 * lookup, and no lookup follows a magic link of /proc. Both are needed: a new descriptor
 * could be forgotten, and execve(2) resolves the path again by itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "agent/core/agent.h"
#include "agent/core/spawn.h"

/* The report that the child sends through the pipe after a failure. */
struct failure {
	long error;
	enum proto_stage stage;
};

/*
 * Time for the child to reach execve(2): microseconds normally, seconds if the sandbox
 * has very little processor time. Less than the service gives init for an answer
 * (ANSWER_MS).
 */
#define START_NS 15000000000ULL

static const char *env_get(char **env, const char *name)
{
	for (; *env; env++) {
		const char *e = *env, *n = name;

		while (*n && *e == *n)
			e++, n++;
		if (*n == '\0' && *e == '=')
			return e + 1;
	}
	return NULL;
}

/*
 * In a sandbox whose files may not get set-id bits (os/seccomp_set_id.c), make openat2(2)
 * fail as on a kernel without it: it has its mode in memory, where a filter cannot read
 * it.
 */
static long exec_child_forbid_set_id(void)
{
	static bool done;
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog prog = {
		.len = sizeof(filter) / sizeof(*filter),
		.filter = filter,
	};
	long r = 0;

	/* Once: the search in PATH comes here for each directory. */
	if (!done && files_forbid_set_id())
		r = SYS_3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
	done = done || r == 0;
	return r;
}

/*
 * execve(2), unless the path leads through a magic link: /proc/self is this process,
 * which still runs init's program. Only -ELOOP counts here; execve(2) itself reports
 * other errors.
 */
static long execute_file(const char *path, char **argv, char **env)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC,
				.resolve = RESOLVE_NO_MAGICLINKS };
	long fd = SYS_4(SYS_openat2, AT_FDCWD, path, &how, sizeof(how)), r;

	if (fd == -ELOOP)
		return fd;
	if (fd >= 0)
		sys_close(fd);
	r = exec_child_forbid_set_id();
	return r < 0 ? r : SYS_3(SYS_execve, path, argv, env);
}

/* The search of execvp(3), without its fallback to a shell. */
static long exec_child_execute(char **argv, char **env)
{
	static char path[4096];
	const char *dirs = env_get(env, "PATH");
	const char *name = argv[0];
	size_t len = strlen(name);
	long seen = -ENOENT;

	for (const char *c = name; *c; c++)
		if (*c == '/')
			return execute_file(name, argv, env);
	if (len == 0 || !dirs)
		return -ENOENT;
	while (*dirs) {
		size_t n = 0;
		long r;

		while (dirs[n] && dirs[n] != ':')
			n++;
		if (n > 0 && n + len + 2 <= sizeof(path)) {
			memcpy(path, dirs, n);
			path[n] = '/';
			memcpy(path + n + 1, name, len + 1);
			r = execute_file(path, argv, env);
			if (r == -EACCES)
				seen = r; /* a later directory may contain the program */
			else if (r != -ENOENT && r != -ENOTDIR)
				return r;
		}
		dirs += n + (dirs[n] == ':');
	}
	return seen;
}

/*
 * mkdir -p as root, for the working directory of a sandbox, which its user may not be
 * able to create.
 */
static void make_cwd(const struct plan *p)
{
	static char path[4096];
	size_t len = strlen(p->cwd);
	long fd;

	if (!(p->msg->flags & PROTO_SPAWN_MKCWD) || len <= 1 || len >= sizeof(path))
		return;
	fd = files_resolve(AT_FDCWD, p->cwd, O_PATH, 0);
	if (fd >= 0) {
		sys_close(fd);
		return;
	}
	(void)SYS_1(SYS_umask, 022);
	(void)SYS_1(SYS_setfsgid, 0);
	(void)SYS_1(SYS_setfsuid, 0);
	for (size_t i = 1; i <= len; i++) {
		struct parent_dir at;

		if (p->cwd[i] != '/' && p->cwd[i] != '\0')
			continue;
		memcpy(path, p->cwd, i);
		path[i] = '\0';
		if (parent_dir_find(AT_FDCWD, path, &at) == 0)
			(void)SYS_3(SYS_mkdirat, at.fd, at.name, 0755);
		parent_dir_done(&at, AT_FDCWD);
	}
}

/* If a directory is not below the root, the kernel's name for it has no leading slash. */
static long enter_cwd(const struct plan *p)
{
	static char name[4096];
	long fd = files_resolve(AT_FDCWD, p->cwd, O_PATH | O_DIRECTORY, 0), r;

	if (fd < 0)
		return fd;
	r = SYS_1(SYS_fchdir, fd);
	sys_close(fd);
	if (r == 0)
		r = SYS_2(SYS_getcwd, name, sizeof(name));
	if (r < 0)
		return r;
	return name[0] == '/' ? 0 : -EXDEV;
}

/* The file is charged to the exec, like everything that the program writes. */
static long write_file(const struct plan *p)
{
	struct open_how how = {
		.flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		.mode = 0644,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
	};
	const char *s = p->content;
	size_t left = p->content_size;
	long fd, r = 0;

	if (!p->file)
		return 0;
	fd = SYS_4(SYS_openat2, AT_FDCWD, p->file, &how, sizeof(how));
	if (fd < 0)
		return fd;
	while (left > 0 && r >= 0) {
		r = sys_write((int)fd, s, left);
		if (r == -EINTR)
			r = 0;
		if (r > 0) {
			s += r;
			left -= (size_t)r;
		}
	}
	sys_close((int)fd);
	return r < 0 ? r : 0;
}

static long become_user(const struct plan *p)
{
	const struct proto_spawn *msg = p->msg;
	long r = 0;

	if (msg->flags & PROTO_SPAWN_GROUPS)
		r = SYS_2(SYS_setgroups, msg->n_groups, msg->groups);
	if (r == 0)
		r = SYS_3(SYS_setresgid, msg->gid, msg->gid, msg->gid);
	if (r == 0)
		r = SYS_3(SYS_setresuid, msg->uid, msg->uid, msg->uid);
	/* The user is not root: drop all capabilities before the next steps. */
	if (r == 0 && msg->uid != 0) {
		init.caps = 0;
		take_caps(0);
	}
	return r;
}

static long exec_child_set_limits(uint64_t nofile)
{
	struct rlimit lim = { .rlim_cur = nofile, .rlim_max = nofile };
	/*
	 * With a limit of one byte, the kernel does not pipe a core dump to a program on
	 * the host.
	 */
	struct rlimit core = { .rlim_cur = 1, .rlim_max = 1 };

	(void)SYS_4(SYS_prlimit64, 0, RLIMIT_CORE, &core, NULL);
	return nofile ? SYS_4(SYS_prlimit64, 0, RLIMIT_NOFILE, &lim, NULL) : 0;
}

long spawn_join(const int *fds, int n)
{
	for (int i = 0; i < n; i++) {
		long r = sys_write(fds[i], "0", 1);

		if (r < 0)
			return r;
	}
	return 0;
}

__attribute__((noreturn)) static void exec_child_fail(const struct plan *p,
						      enum proto_stage stage, long error)
{
	struct failure f = { .error = error, .stage = stage };

	(void)sys_write(p->report, &f, sizeof(f));
	for (;;)
		sys_exit(127);
}

/* Move @fd to a number that no control descriptor can have. */
static int out_of_the_way(int fd)
{
	const int beyond = UINT8_MAX + 1;

	return fd >= beyond ? fd : (int)SYS_3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, beyond);
}

static long exec_child_dup_extra(struct plan *p)
{
	long r = 0;

	if (!spawn_has_control(p->msg))
		return 0;
	p->report = out_of_the_way(p->report);
	if (p->report < 0)
		sys_exit(127); /* the end of the pipe reports this */
	if (p->gate >= 0) {
		p->gate = out_of_the_way(p->gate);
		if (p->gate < 0)
			return p->gate;
	}
	for (int i = 0; i < PROTO_CONTROL_MAX; i++)
		if (p->extra[i] >= 0)
			p->extra[i] = out_of_the_way(p->extra[i]);
	for (int i = 0; i < PROTO_CONTROL_MAX && r >= 0; i++)
		if (p->msg->control[i])
			r = SYS_3(SYS_dup3, p->extra[i], p->msg->control[i], 0);
	return r;
}

long spawn_close_others(int *keep, int n)
{
	unsigned from = 0;
	long r = 0;

	for (int i = 1; i < n; i++)
		for (int k = i; k > 0 && keep[k] < keep[k - 1]; k--) {
			int fd = keep[k];

			keep[k] = keep[k - 1];
			keep[k - 1] = fd;
		}
	for (int i = 0; i < n && r == 0; i++) {
		if (keep[i] < 0)
			continue;
		if ((unsigned)keep[i] > from)
			r = SYS_3(SYS_close_range, from, keep[i] - 1, 0);
		from = (unsigned)keep[i] + 1;
	}
	return r < 0 ? r : SYS_3(SYS_close_range, from, ~0U, 0);
}

static long keep_own(const struct plan *p)
{
	int keep[5 + PROTO_CONTROL_MAX] = { 0, 1, 2, p->report, p->gate };

	for (int i = 0; i < PROTO_CONTROL_MAX; i++)
		keep[5 + i] = p->msg->control[i] ? p->msg->control[i] : -1;
	return spawn_close_others(keep, 5 + PROTO_CONTROL_MAX);
}

/* Wait until the client has done what must precede the exec. */
static long await_gate(const struct plan *p)
{
	char word;
	long r;

	if (p->gate < 0)
		return 0;
	do
		r = sys_read(p->gate, &word, sizeof(word));
	while (r == -EINTR);
	return r == 0 ? -ECANCELED : r;
}

__attribute__((noreturn)) static void exec_child(struct plan *p)
{
	uint64_t none = 0;
	long r;

	r = spawn_join(init.join, init.n_join);
	if (r == 0)
		r = p->n_own ? spawn_join(p->own, p->n_own)
			     : spawn_join(init.join_sandbox, init.n_join_sandbox);
	if (r < 0)
		exec_child_fail(p, PROTO_STAGE_CGROUP, r);
	(void)SYS_0(SYS_setsid);
	if (p->tty >= 0) {
		r = sys_ioctl(p->tty, TIOCSCTTY, 0);
		if (r < 0)
			exec_child_fail(p, PROTO_STAGE_PTY, r);
	}
	for (int i = 0; i < 3; i++) {
		r = SYS_3(SYS_dup3, p->stdio[i], i, 0);
		/* The standard descriptors of init are /dev/null and already in place. */
		if (r < 0 && r != -EINVAL)
			exec_child_fail(p, PROTO_STAGE_REQUEST, r);
	}
	r = exec_child_dup_extra(p);
	if (r < 0)
		exec_child_fail(p, PROTO_STAGE_REQUEST, r);
	/* From here on, every open descriptor belongs to the exec or is a pipe. */
	r = keep_own(p);
	if (r < 0)
		exec_child_fail(p, PROTO_STAGE_REQUEST, r);
	r = exec_child_set_limits(p->msg->nofile);
	if (r < 0)
		exec_child_fail(p, PROTO_STAGE_IDS, r);
	make_cwd(p);
	r = become_user(p);
	if (r < 0)
		exec_child_fail(p, PROTO_STAGE_IDS, r);
	(void)SYS_1(SYS_umask, 022);
	r = enter_cwd(p);
	if (r < 0)
		exec_child_fail(p, PROTO_STAGE_CWD, r);
	r = write_file(p);
	if (r < 0)
		exec_child_fail(p, PROTO_STAGE_FILE, r);
	r = await_gate(p);
	if (r < 0)
		exec_child_fail(p, PROTO_STAGE_REQUEST, r);
	(void)SYS_4(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none));
	exec_child_fail(p, PROTO_STAGE_EXEC, exec_child_execute(p->argv, p->env));
}

/*
 * The sandbox's own /dev/ptmx. Root inside may rename /dev and put a link in its place.
 * The link can only lead to a file inside, and the file is used only if it is a terminal.
 */
static long open_ptmx(void)
{
	long fd = files_resolve(AT_FDCWD, "/dev/pts/ptmx", O_RDWR, 0), r;
	struct statfs fs = { 0 };

	if (fd < 0)
		return fd;
	r = SYS_2(SYS_fstatfs, fd, &fs);
	if (r == 0 && fs.f_type != DEVPTS_SUPER_MAGIC)
		r = -ENODEV;
	/* The terminal was opened non-blocking; its user decides whether it blocks. */
	if (r == 0)
		r = SYS_3(SYS_fcntl, fd, F_SETFL, O_RDWR);
	if (r == 0)
		return fd;
	sys_close(fd);
	return r;
}

long spawn_terminal(const struct proto_spawn *msg, int *ret_master, int *ret_slave)
{
	struct winsize ws = { .ws_row = msg->rows, .ws_col = msg->cols };
	int unlock = 0;
	long master = open_ptmx(), slave, r;

	if (master < 0)
		return master;
	r = sys_ioctl(master, TIOCSPTLCK, &unlock);
	slave = r < 0 ? r : sys_ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0) {
		sys_close(master);
		return slave;
	}
	(void)sys_ioctl(slave, TIOCSWINSZ, &ws);
	(void)SYS_3(SYS_fchown, slave, msg->uid, -1);
	*ret_master = (int)master;
	*ret_slave = (int)slave;
	return 0;
}

long spawn_child(struct plan *p, struct exec *ex)
{
	int ends[2];
	long r = SYS_2(SYS_pipe2, ends, O_CLOEXEC | O_NONBLOCK);

	if (r < 0)
		return r;
	ex->start = ends[0];
	ex->started = agent_now();
	ex->start_by = ex->started + START_NS;
	r = watch_add(ends[0], WATCH_START, (unsigned)(ex - init.execs), 0);
	if (r == 0)
		r = SYS_2(SYS_clone, SIGCHLD, 0);
	if (r == 0) {
		p->report = ends[1];
		exec_child(p);
	}
	sys_close(ends[1]);
	if (r < 0)
		return r;
	ex->pid = (int)r;
	return 0;
}

void spawn_started(struct exec *ex)
{
	struct failure f = { 0 };
	long n;

	if (!ex->used || ex->start < 0)
		return;
	n = sys_read(ex->start, &f, sizeof(f));
	if (n == -EAGAIN || n == -EINTR)
		return;
	sys_close(ex->start);
	ex->start = -1;
	if (n == 0 && ex->start_by == 0)
		f = (struct failure){ .error = -ETIMEDOUT, .stage = PROTO_STAGE_EXEC };
	ex->failed = f.error < 0;
	if (ex->failed)
		spawn_failed(ex, f.error, f.stage);
	else
		reply_with(ex->asker, ex->seq, ex, false);
	/* A terminal without a journal hangs up when its client disconnects. */
	if (ex->tty && ex->journal < 0) {
		sys_close(ex->input);
		ex->input = -1;
	}
}
