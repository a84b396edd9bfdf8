/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawn.c - from a message to an execve(2)
 *
 * The child is a fork: we are a few pages, and we must not wait for it, since
 * what runs inside can stop it before it execs, or hold up the execve itself
 * (a lease on the file). A pipe that closes on exec tells how it went, and the
 * request is answered then.
 *
 * Order in the child: join the cgroups while still init, take the terminal,
 * place stdio, make the directory as root, become the user, go to the directory
 * as that user, execute.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "init/init.h"

struct plan {
	const struct proto_spawn *msg;
	const char *cwd;
	char **argv;
	char **env;
	int stdio[3];
	int tty;                 /* slave of the pty, -1: none */
	int own[PROTO_ROLE_MAX]; /* where to join the exec's own cgroups */
	int n_own;
	int report; /* of the child: where it says what failed */
	enum proto_stage stage;
};

/* What goes through the pipe when something failed. */
struct failure {
	long error;
	enum proto_stage stage;
};

#define START_NS \
	5000000000ULL /* for the way to execve(2): microseconds, unless hindered */

static char *pointers[PROTO_POINTERS_MAX + 2];

/* Split the strings into the plan; anything that does not add up is refused. */
static long unpack(struct plan *p, char *strings, size_t size)
{
	const struct proto_spawn *msg = p->msg;
	size_t n = 0, want = 1 + (size_t)msg->argc + msg->envc;
	char *s = strings, *end = strings + size;

	if (msg->argc == 0 || want > PROTO_POINTERS_MAX)
		return -E2BIG;
	for (size_t i = 0; i < want; i++) {
		char *word = s;

		while (s < end && *s)
			s++;
		if (s == end)
			return -EPROTO;
		s++;
		if (i == 0) {
			p->cwd = word;
			continue;
		}
		pointers[n++] = word;
		if (i == msg->argc)
			pointers[n++] = NULL;
	}
	pointers[n] = NULL;
	p->argv = pointers;
	p->env = pointers + msg->argc + 1;
	return s == end ? 0 : -EPROTO;
}

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

/* execvp(3)'s search, without its fallback to a shell. */
static long execute(char **argv, char **env)
{
	static char path[4096];
	const char *dirs = env_get(env, "PATH");
	const char *name = argv[0];
	size_t len = strlen(name);
	long seen = -ENOENT;

	for (const char *c = name; *c; c++)
		if (*c == '/')
			return SYS_3(SYS_execve, name, argv, env);
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
			r = SYS_3(SYS_execve, path, argv, env);
			if (r == -EACCES)
				seen = r; /* remember it, but one further on may do */
			else if (r != -ENOENT && r != -ENOTDIR)
				return r;
		}
		dirs += n + (dirs[n] == ':');
	}
	return seen;
}

/* mkdir -p, as root: a sandbox's own working directory, which its user may not be able to make. */
static void make_cwd(const struct plan *p)
{
	static char path[4096];
	size_t len = strlen(p->cwd);

	if (!(p->msg->flags & PROTO_SPAWN_MKCWD) || len <= 1 || len >= sizeof(path) ||
	    SYS_4(SYS_faccessat, AT_FDCWD, p->cwd, 0, 0) == 0)
		return;
	(void)SYS_1(SYS_umask, 022);
	(void)SYS_1(SYS_setfsgid, 0);
	(void)SYS_1(SYS_setfsuid, 0);
	for (size_t i = 1; i <= len; i++) {
		if (p->cwd[i] != '/' && p->cwd[i] != '\0')
			continue;
		memcpy(path, p->cwd, i);
		path[i] = '\0';
		(void)SYS_3(SYS_mkdirat, AT_FDCWD, path, 0755);
	}
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
	/* An exec by another than root leaves none; they are not to help before it either. */
	if (r == 0 && msg->uid != 0) {
		init.caps = 0;
		take_caps(0);
	}
	return r;
}

static long set_limits(uint64_t nofile)
{
	struct rlimit lim = { .rlim_cur = nofile, .rlim_max = nofile };
	/* One byte: the value at which the kernel feeds no core dump to a program of the host's. */
	struct rlimit core = { .rlim_cur = 1, .rlim_max = 1 };

	(void)SYS_4(SYS_prlimit64, 0, RLIMIT_CORE, &core, NULL);
	return nofile ? SYS_4(SYS_prlimit64, 0, RLIMIT_NOFILE, &lim, NULL) : 0;
}

/* "0" is ourselves: one thread moves itself without the kernel's global lock. */
static long join(const int *fds, int n)
{
	for (int i = 0; i < n; i++) {
		long r = sys_write(fds[i], "0", 1);

		if (r < 0)
			return r;
	}
	return 0;
}

__attribute__((noreturn)) static void fail(const struct plan *p, enum proto_stage stage,
					   long error)
{
	struct failure f = { .error = error, .stage = stage };

	(void)sys_write(p->report, &f, sizeof(f));
	for (;;)
		sys_exit(127);
}

__attribute__((noreturn)) static void child(const struct plan *p)
{
	uint64_t none = 0;
	long r;

	r = join(init.join, init.n_join);
	if (r == 0)
		r = p->n_own ? join(p->own, p->n_own)
			     : join(init.join_box, init.n_join_box);
	if (r < 0)
		fail(p, PROTO_STAGE_CGROUP, r);
	(void)SYS_0(SYS_setsid);
	if (p->tty >= 0) {
		r = sys_ioctl(p->tty, TIOCSCTTY, 0);
		if (r < 0)
			fail(p, PROTO_STAGE_PTY, r);
	}
	for (int i = 0; i < 3; i++) {
		r = SYS_3(SYS_dup3, p->stdio[i], i, 0);
		/* The standard descriptors of init are /dev/null and already in place. */
		if (r < 0 && r != -EINVAL)
			fail(p, PROTO_STAGE_REQUEST, r);
	}
	r = set_limits(p->msg->nofile);
	if (r < 0)
		fail(p, PROTO_STAGE_IDS, r);
	make_cwd(p);
	r = become_user(p);
	if (r < 0)
		fail(p, PROTO_STAGE_IDS, r);
	(void)SYS_1(SYS_umask, 022);
	r = SYS_1(SYS_chdir, p->cwd);
	if (r < 0)
		fail(p, PROTO_STAGE_CWD, r);
	(void)SYS_4(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none));
	fail(p, PROTO_STAGE_EXEC, execute(p->argv, p->env));
}

static long open_pty(const struct proto_spawn *msg, int *ret_master, int *ret_slave)
{
	struct winsize ws = { .ws_row = msg->rows, .ws_col = msg->cols };
	int unlock = 0;
	long master, slave, r;

	master = sys_openat(AT_FDCWD, "/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC, 0);
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

/* The other ends of journalled streams go into the plan; our ends into the exec. */
static long open_journal(struct plan *p, struct exec *ex, int *last)
{
	static const uint32_t bit[] = { PROTO_SPAWN_OUT, PROTO_SPAWN_ERR };

	ex->journal = last[0];
	ex->notify = last[1];
	last[0] = last[1] = -1;
	for (unsigned i = 0; i < 2; i++) {
		int ends[2];
		long r;

		if (!(p->msg->flags & bit[i]))
			continue;
		r = SYS_2(SYS_pipe2, ends, O_CLOEXEC);
		if (r < 0)
			return r;
		(void)SYS_3(SYS_fcntl, ends[0], F_SETFL, O_NONBLOCK);
		ex->pipe[i] = ends[0];
		p->stdio[1 + i] = ends[1];
		r = watch_add(ends[0], WATCH_OUT, (unsigned)(ex - init.execs), i);
		if (r < 0)
			return r;
	}
	return drain_start(ex, p->msg->journal_limit);
}

static long place_stdio(struct plan *p, const int *fds, size_t n_fds)
{
	for (int i = 0; i < 3; i++) {
		uint8_t slot = p->msg->stdio[i];

		p->stdio[i] = init.null;
		if (slot == PROTO_STDIO_NULL)
			continue;
		if (slot >= n_fds || fds[slot] < 0)
			return -EPROTO;
		p->stdio[i] = fds[slot];
	}
	return 0;
}

static long start_child(struct plan *p, struct exec *ex)
{
	int ends[2];
	long r = SYS_2(SYS_pipe2, ends, O_CLOEXEC | O_NONBLOCK);

	if (r < 0)
		return r;
	ex->start = ends[0];
	ex->started = now();
	ex->start_by = ex->started + START_NS;
	r = watch_add(ends[0], WATCH_START, (unsigned)(ex - init.execs), 0);
	if (r == 0)
		r = SYS_2(SYS_clone, SIGCHLD, 0);
	if (r == 0) {
		p->report = ends[1];
		child(p);
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
	reply(ex->seq, f.error, f.stage, ex->failed ? -1 : ex->master);
	if (ex->master >= 0)
		sys_close(ex->master);
	ex->master = -1;
}

static long launch(struct plan *p, struct exec *ex, int *fds, size_t n_fds)
{
	const struct proto_spawn *msg = p->msg;
	long r = place_stdio(p, fds, n_fds);

	p->stage = PROTO_STAGE_REQUEST;
	if (r < 0)
		return r;
	if (msg->flags & PROTO_SPAWN_JOURNAL) {
		p->stage = PROTO_STAGE_JOURNAL;
		r = n_fds > 1 ? open_journal(p, ex, &fds[n_fds - 2]) : -EPROTO;
		if (r < 0)
			return r;
	}
	if (msg->flags & PROTO_SPAWN_PTY) {
		p->stage = PROTO_STAGE_PTY;
		r = open_pty(msg, &ex->master, &p->tty);
		if (r < 0)
			return r;
		for (int i = 0; i < 3; i++)
			p->stdio[i] = p->tty;
	}
	p->stage = PROTO_STAGE_CGROUP;
	ex->sole = msg->flags & PROTO_SPAWN_SOLE;
	r = group_make(ex, p->own, &p->n_own);
	if (r < 0)
		return r;
	p->stage = PROTO_STAGE_FORK;
	return start_child(p, ex);
}

static long map_strings(const struct proto_spawn *msg, int fd, char **ret)
{
	long r;

	if (msg->strings_size == 0 || msg->strings_size > PROTO_STRINGS_MAX)
		return -E2BIG;
	r = SYS_6(SYS_mmap, NULL, msg->strings_size, PROT_READ | PROT_WRITE, MAP_PRIVATE,
		  fd, 0);
	if (r < 0 && r > -4096)
		return r;
	*ret = (char *)r;
	return 0;
}

static long prepare(struct plan *p, size_t size, const int *fds, size_t n_fds,
		    char **mapped)
{
	const struct proto_spawn *msg = p->msg;
	char *strings = (char *)(uintptr_t)msg->strings;

	if (size < sizeof(*msg) || msg->n_groups > PROTO_GROUPS_MAX)
		return -EPROTO;
	if (msg->flags & PROTO_SPAWN_MEMFD) {
		long r = n_fds > 0 ? map_strings(msg, fds[0], mapped) : -EPROTO;

		if (r < 0)
			return r;
		strings = *mapped;
	} else if (msg->strings_size != size - sizeof(*msg)) {
		return -EPROTO;
	}
	return unpack(p, strings, msg->strings_size);
}

/* A plan's own descriptors: cgroups, the slave of the pty, the journal's write ends. */
static void close_plan(const struct plan *p)
{
	if (p->tty >= 0)
		sys_close(p->tty);
	if (p->msg->flags & PROTO_SPAWN_OUT && p->stdio[1] > 2)
		sys_close(p->stdio[1]);
	if (p->msg->flags & PROTO_SPAWN_ERR && p->stdio[2] > 2)
		sys_close(p->stdio[2]);
	for (int i = 0; i < p->n_own; i++)
		sys_close(p->own[i]);
}

void spawn(const struct proto_spawn *msg, size_t size, int *fds, size_t n_fds)
{
	struct plan p = {
		.msg = msg, .tty = -1, .report = -1, .stage = PROTO_STAGE_REQUEST
	};
	struct exec *ex = NULL;
	char *mapped = NULL;
	long r = prepare(&p, size, fds, n_fds, &mapped);

	if (r == 0) {
		ex = exec_new(msg->exec);
		r = ex ? launch(&p, ex, fds, n_fds) : -EAGAIN;
		close_plan(&p);
	}
	if (mapped)
		(void)SYS_2(SYS_munmap, mapped, msg->strings_size);
	if (r < 0) {
		if (ex)
			exec_release(ex);
		reply(msg->h.seq, r, p.stage, -1);
		return;
	}
	ex->seq = msg->h.seq;
	if (msg->timeout_ms > 0 && msg->timeout_ms < PROTO_TIMEOUT_MAX)
		ex->deadline = ex->started + msg->timeout_ms * 1000000;
	exec_deadlines();
}
