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
	int tty;                      /* slave of the pty, -1: none */
	int extra[PROTO_CONTROL_MAX]; /* -1: none */
	int theirs[6];                /* ends of pipes that are the child's alone */
	int n_theirs;
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

static bool has_control(const struct proto_spawn *msg)
{
	return msg->control[0] || msg->control[1] || msg->control[2];
}

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

/* Where no number of a control descriptor can take its place. */
static int out_of_the_way(int fd)
{
	const int beyond = UINT8_MAX + 1;

	return fd >= beyond ? fd : (int)SYS_3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, beyond);
}

static long place_extra(struct plan *p)
{
	long r = 0;

	if (!has_control(p->msg))
		return 0;
	p->report = out_of_the_way(p->report);
	for (int i = 0; i < PROTO_CONTROL_MAX; i++)
		if (p->extra[i] >= 0)
			p->extra[i] = out_of_the_way(p->extra[i]);
	for (int i = 0; i < PROTO_CONTROL_MAX && r >= 0; i++)
		if (p->msg->control[i])
			r = SYS_3(SYS_dup3, p->extra[i], p->msg->control[i], 0);
	return r;
}

__attribute__((noreturn)) static void child(struct plan *p)
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
	r = place_extra(p);
	if (r < 0)
		fail(p, PROTO_STAGE_REQUEST, r);
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

/* A pipe: one end is the child's, the other is returned. */
static long open_pipe(struct plan *p, bool child_reads, int *ret_child)
{
	int ends[2];
	long r = SYS_2(SYS_pipe2, ends, O_CLOEXEC);

	if (r < 0)
		return r;
	*ret_child = ends[!child_reads];
	p->theirs[p->n_theirs++] = *ret_child;
	return ends[child_reads];
}

/* A pipe that is drained into the journal as stream @which + 1. */
static long open_stream(struct plan *p, struct exec *ex, unsigned which, int *ret_child)
{
	long fd = open_pipe(p, false, ret_child);

	return fd < 0 ? fd : drain_watch(ex, which, (int)fd);
}

static long open_journal(struct plan *p, struct exec *ex, int c, int *last)
{
	static const uint32_t bit[] = { PROTO_SPAWN_OUT, PROTO_SPAWN_ERR };
	long r = 0;

	ex->journal = last[0];
	ex->notify[c] = last[1];
	last[0] = last[1] = -1;
	if (p->msg->flags & PROTO_SPAWN_HOLD)
		ex->holds = 1U << c;
	for (unsigned i = 0; i < 2 && r == 0; i++)
		if (p->msg->flags & bit[i] && !(p->msg->flags & PROTO_SPAWN_PTY))
			r = open_stream(p, ex, i, &p->stdio[1 + i]);
	return r < 0 ? r : drain_start(ex, p->msg->journal_limit);
}

static long check_control(const struct proto_spawn *msg, size_t n_fds)
{
	const uint8_t *at = msg->control;

	for (int i = 0; i < PROTO_CONTROL_MAX; i++) {
		if (at[i] == 0)
			continue;
		if (at[i] < 3 || at[i] == at[(i + 1) % PROTO_CONTROL_MAX])
			return -EINVAL;
		if (msg->nofile && at[i] >= msg->nofile)
			return -EMFILE;
	}
	if (!(msg->flags & PROTO_SPAWN_JOURNAL) ||
	    (at[PROTO_CONTROL_COMMAND] && n_fds < 3))
		return -EPROTO;
	return 0;
}

/* The pipes of a session and the file that came for it, before the journal. */
static long open_control(struct plan *p, struct exec *ex, int *fds, size_t n_fds)
{
	const uint8_t *at = p->msg->control;
	long r = has_control(p->msg) ? check_control(p->msg, n_fds) : 0;

	if (r == 0 && at[PROTO_CONTROL_COMMAND]) {
		ex->command = p->extra[PROTO_CONTROL_COMMAND] = fds[n_fds - 3];
		fds[n_fds - 3] = -1;
	}
	if (r == 0 && at[PROTO_CONTROL_RESULT])
		r = open_stream(p, ex, STREAMS - 1, &p->extra[PROTO_CONTROL_RESULT]);
	if (r < 0 || !at[PROTO_CONTROL_POKE])
		return r;
	r = open_pipe(p, true, &p->extra[PROTO_CONTROL_POKE]);
	if (r < 0)
		return r;
	ex->poke = (int)r;
	/* It is ours, and the exec's user another. */
	return SYS_2(SYS_fchmod, ex->poke, 0444);
}

static long open_input(struct plan *p, struct exec *ex)
{
	long r = open_pipe(p, true, &p->stdio[0]);

	if (r < 0)
		return r;
	ex->input = (int)r;
	return 0;
}

/* Kept and drained where there is a journal; else it is the requester's alone. */
static long open_terminal(struct plan *p, struct exec *ex)
{
	long r = open_pty(p->msg, &ex->input, &p->tty);

	if (r < 0)
		return r;
	ex->tty = true;
	p->theirs[p->n_theirs++] = p->tty;
	for (int i = 0; i < 3; i++)
		p->stdio[i] = p->tty;
	if (ex->journal < 0)
		return 0;
	r = SYS_3(SYS_fcntl, ex->input, F_DUPFD_CLOEXEC, 0);
	return r < 0 ? r : drain_watch(ex, 0, (int)r);
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

/* To who asked and, should he be gone, to who has the journal. */
static void tell_failure(struct exec *ex, long error, enum proto_stage stage)
{
	const struct journal_result res = { .status = (int32_t)error, .stage = stage };

	drain_result(ex, JOURNAL_FAILED, &res);
	reply(ex->asker, ex->seq, error, stage, -1);
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
		tell_failure(ex, f.error, f.stage);
	else
		reply_with(ex->asker, ex->seq, ex, false);
	/* A terminal that nobody drains hangs up with whoever asked for it. */
	if (ex->tty && ex->journal < 0) {
		sys_close(ex->input);
		ex->input = -1;
	}
}

static long open_streams(struct plan *p, struct exec *ex, int *fds, size_t n_fds)
{
	const uint32_t flags = p->msg->flags;
	long r = place_stdio(p, fds, n_fds);

	p->stage = PROTO_STAGE_REQUEST;
	if (r == 0 && flags & PROTO_SPAWN_HOLD && !(flags & PROTO_SPAWN_JOURNAL))
		r = -EPROTO;
	if (r == 0 && flags & PROTO_SPAWN_INPUT)
		r = open_input(p, ex);
	if (r == 0 && flags & PROTO_SPAWN_JOURNAL) {
		p->stage = PROTO_STAGE_JOURNAL;
		r = n_fds > 1 ? open_journal(p, ex, ex->asker, &fds[n_fds - 2]) : -EPROTO;
	}
	if (r == 0) {
		p->stage = PROTO_STAGE_REQUEST;
		r = open_control(p, ex, fds, n_fds);
	}
	if (r == 0 && flags & PROTO_SPAWN_PTY) {
		p->stage = PROTO_STAGE_PTY;
		r = flags & PROTO_SPAWN_INPUT ? -EPROTO : open_terminal(p, ex);
	}
	return r;
}

static long launch(struct plan *p, struct exec *ex, int *fds, size_t n_fds)
{
	const struct proto_spawn *msg = p->msg;
	long r = open_streams(p, ex, fds, n_fds);

	if (r < 0)
		return r;
	p->stage = PROTO_STAGE_CGROUP;
	ex->sole = msg->flags & PROTO_SPAWN_SOLE;
	r = group_make(ex, p->own, &p->n_own);
	if (r == 0)
		r = group_limit(ex, msg);
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

/* A plan's own descriptors: cgroups, the slave of the pty, the child's ends of pipes. */
static void close_plan(const struct plan *p)
{
	for (int i = 0; i < p->n_theirs; i++)
		sys_close(p->theirs[i]);
	for (int i = 0; i < p->n_own; i++)
		sys_close(p->own[i]);
}

void spawn(int c, const struct proto_spawn *msg, size_t size, int *fds, size_t n_fds)
{
	struct plan p = {
		.msg = msg,
		.tty = -1,
		.extra = { -1, -1, -1 },
		.report = -1,
		.stage = PROTO_STAGE_REQUEST,
	};
	struct exec *ex = NULL;
	char *mapped = NULL;
	long r = prepare(&p, size, fds, n_fds, &mapped);

	if (r == 0 && exec_find(msg->exec))
		r = -EEXIST;
	if (r == 0) {
		ex = exec_new(msg->exec);
		r = ex ? 0 : -EAGAIN;
	}
	if (ex) {
		ex->asker = c;
		ex->seq = msg->h.seq;
		ex->hears = 1U << c;
		r = launch(&p, ex, fds, n_fds);
		close_plan(&p);
	}
	if (mapped)
		(void)SYS_2(SYS_munmap, mapped, msg->strings_size);
	if (r < 0) {
		if (!ex) {
			reply(c, msg->h.seq, r, p.stage, -1);
			return;
		}
		ex->failed = true;
		tell_failure(ex, r, p.stage);
		exec_release(ex);
		return;
	}
	if (msg->timeout_ms > 0 && msg->timeout_ms < PROTO_TIMEOUT_MAX)
		ex->deadline = ex->started + msg->timeout_ms * 1000000;
	exec_deadlines();
}
