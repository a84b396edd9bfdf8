/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_procs.c - the processes of an exec: list and signal them
 *
 * The processes of an exec are those in its cgroup. Without a cgroup, they are those in
 * its session: a process that creates its own session escapes signals to the exec, but
 * not the end of the sandbox.
 *
 * SIGKILL needs several passes over the list, because processes may have forked in the
 * meantime (exec_cgroup.c). Any other signal is sent in one pass, so that no process gets
 * it twice.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include "agent/core/agent.h"

#define PASSES 16

/* The processes of a list that get a signal. */
struct choice {
	int sig;
	int only; /* only this process; 0: any */
	int but;  /* not this process; 0: no exception */
	bool new; /* only those that are younger than `mark` */
	int mark, newest;
	unsigned count; /* number of processes that got the signal */
	int file;       /* write the processes to this file; 0: signal them */
	int first;      /* the exec's first process, if it is in the list */
	bool met_first;
};

/* The kernel assigns numbers in ascending order, and starts again after the largest. */
static bool exec_procs_is_new(const struct choice *ch, int pid)
{
	if (ch->mark <= ch->newest)
		return pid > ch->mark && pid <= ch->newest;
	return pid > ch->mark || pid <= ch->newest;
}

/* Read "/proc/<pid>/<file>" as NUL-terminated text; return its length or -errno. */
static long read_proc(int pid, const char *file, char *text, size_t size)
{
	char path[64] = "/proc/", digits[12];
	size_t at = 6;
	int n = 0;
	long fd, len;

	do
		digits[n++] = (char)('0' + pid % 10);
	while ((pid /= 10) > 0);
	while (n > 0)
		path[at++] = digits[--n];
	path[at++] = '/';
	while (*file)
		path[at++] = *file++;
	path[at] = '\0';
	fd = sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	len = sys_read(fd, text, size - 1);
	sys_close(fd);
	if (len >= 0)
		text[len] = '\0';
	return len;
}

/*
 * Return word @number (from 1) of a process's stat; 0 if it is missing. The second word
 * is "(comm)".
 */
static uint64_t exec_procs_stat_word(const char *text, int number)
{
	const char *p = text, *close = NULL;
	uint64_t v = 0;

	for (; *p; p++)
		if (*p == ')')
			close = p;
	if (!close)
		return 0;
	p = close + 1;
	for (int word = 3;; word++) {
		while (*p == ' ')
			p++;
		if (word == number || !*p)
			break;
		while (*p && *p != ' ')
			p++;
	}
	while (*p >= '0' && *p <= '9')
		v = v * 10 + (uint64_t)(*p++ - '0');
	return v;
}

/* Is @sig in the set named @key in @status? */
static bool exec_procs_has_signal(const char *status, const char *key, int sig)
{
	uint64_t v = 0;

	for (const char *p = status; *p; p++) {
		size_t i = 0;

		while (key[i] && p[i] == key[i])
			i++;
		if (key[i])
			continue;
		for (p += i; (*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'f'); p++)
			v = v << 4 | (uint64_t)(*p <= '9' ? *p - '0' : *p - 'a' + 10);
		break;
	}
	return v & (1ULL << (sig - 1));
}

static void exec_procs_list_one(struct choice *ch, int pid)
{
	struct proto_process out = { .pid = pid };
	char text[4096];

	if (ch->count >= PROTO_PROCESSES_MAX ||
	    read_proc(pid, "stat", text, sizeof(text)) <= 0)
		return;
	out.ppid = (int32_t)exec_procs_stat_word(text, 4);
	out.start = exec_procs_stat_word(text, 22);
	if (pid == ch->first)
		out.flags |= PROTO_PROCESS_FIRST;
	if (read_proc(pid, "status", text, sizeof(text)) > 0 &&
	    exec_procs_has_signal(text, "SigIgn:\t", SIGINT))
		out.flags |= PROTO_PROCESS_IGNORES_INT;
	if (sys_pwrite(ch->file, &out, sizeof(out), ch->count * sizeof(out)) ==
	    sizeof(out))
		ch->count++;
}

static void exec_procs_visit(struct choice *ch, int pid)
{
	ch->met_first |= pid == ch->first;
	if (pid <= 1 || pid == ch->but || (ch->only && pid != ch->only) ||
	    (ch->new && !exec_procs_is_new(ch, pid)))
		return;
	if (ch->file)
		exec_procs_list_one(ch, pid);
	else
		ch->count += sys_kill(pid, ch->sig) == 0;
}

int tree_first(const struct exec *ex)
{
	return ex->pid;
}

int tree_newest(void)
{
	char text[128];
	long fd = sys_openat(AT_FDCWD, "/proc/loadavg", O_RDONLY | O_CLOEXEC, 0);
	long n = fd < 0 ? fd : sys_read(fd, text, sizeof(text));
	int pid = 0;

	if (fd >= 0)
		sys_close(fd);
	/* "0.00 0.01 0.05 1/123 4567\n": the last word is the last pid that was assigned
	 */
	for (long i = 0; i < n; i++) {
		if (text[i] == ' ')
			pid = 0;
		else if (text[i] >= '0' && text[i] <= '9')
			pid = pid * 10 + (text[i] - '0');
	}
	return pid;
}

struct dirent64 {
	uint64_t ino;
	int64_t off;
	unsigned short reclen;
	unsigned char type;
	char name[];
};

static bool is_in_session(int pid, int leader)
{
	char text[512];

	return read_proc(pid, "stat", text, sizeof(text)) > 0 &&
	       exec_procs_stat_word(text, 6) == (uint64_t)leader;
}

/*
 * Call @fn for each process except this one, until it returns true; return whether it
 * did.
 */
static bool visit_all(bool (*fn)(void *ctx, int pid), void *ctx)
{
	static _Alignas(8) char list[8192];
	long fd = sys_openat(AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	bool found = false;
	long n;

	while (fd >= 0 && !found &&
	       (n = SYS_3(SYS_getdents64, fd, list, sizeof(list))) > 0) {
		for (long at = 0; at < n && !found;) {
			const struct dirent64 *d = (const void *)(list + at);
			long pid = 0;

			at += d->reclen;
			for (const char *c = d->name; *c >= '0' && *c <= '9'; c++)
				pid = pid * 10 + (*c - '0');
			found = pid > 1 && fn(ctx, (int)pid);
		}
	}
	if (fd >= 0)
		sys_close(fd);
	return found;
}

struct session_visit {
	int leader;
	struct choice *choice;
};

static bool visit_if_in_session(void *ctx, int pid)
{
	const struct session_visit *v = ctx;

	if (is_in_session(pid, v->leader))
		exec_procs_visit(v->choice, pid);
	return false;
}

static void visit_session(int leader, struct choice *ch)
{
	struct session_visit v = { leader, ch };

	(void)visit_all(visit_if_in_session, &v);
}

static bool exec_procs_catches(void *ctx, int pid)
{
	char text[4096];

	return read_proc(pid, "status", text, sizeof(text)) > 0 &&
	       exec_procs_has_signal(text, "SigCgt:\t", *(int *)ctx);
}

bool tree_any_catches(int sig)
{
	return visit_all(exec_procs_catches, &sig);
}

static void visit_listed(long fd, struct choice *ch)
{
	char text[4096];
	int pid = 0;
	long n;

	while ((n = sys_read(fd, text, sizeof(text))) > 0) {
		for (long i = 0; i < n; i++) {
			if (text[i] >= '0' && text[i] <= '9') {
				pid = pid * 10 + (text[i] - '0');
				continue;
			}
			exec_procs_visit(ch, pid);
			pid = 0;
		}
	}
}

static void visit_tree(const struct exec *ex, struct choice *ch)
{
	long fd = group_list(ex);

	ch->first = ex->pid;
	ch->met_first = false;
	if (fd >= 0) {
		visit_listed(fd, ch);
		sys_close(fd);
	} else if (ex->pid > 0) {
		visit_session(ex->pid, ch);
	}
	if (!ch->met_first) /* it may not have joined its cgroup yet */
		exec_procs_visit(ch, ex->pid);
}

static void exec_procs_kill_session(int leader)
{
	struct choice all = { .sig = SIGKILL, .count = 1 };

	(void)sys_kill(-leader, SIGKILL);
	for (int pass = 0; pass < PASSES && all.count > 0; pass++) {
		all.count = 0;
		visit_session(leader, &all);
	}
}

/*
 * The first process joins its cgroup and creates its session itself. Until then it is in
 * no list, so it is killed by its pid.
 */
void tree_kill(struct exec *ex)
{
	if (ex->accounts_sandbox) {
		(void)sys_kill(
			-1, SIGKILL); /* all processes of the namespace except this one */
		return;
	}
	if (ex->pid > 0)
		(void)sys_kill(ex->pid, SIGKILL);
	if (!group_kill(ex) && ex->pid > 0)
		exec_procs_kill_session(ex->pid);
}

static long exec_procs_list_all(const struct exec *ex, int file)
{
	struct choice ch = { .file = file };

	visit_tree(ex, &ch);
	return (long)ch.count;
}

void tree_list(int c, const struct proto_list *msg, const int *fds, size_t n_fds)
{
	struct exec *ex = exec_find(msg->exec);
	long r = -EPROTO;

	if (!ex)
		r = -ESRCH;
	else if (n_fds > 0)
		r = exec_procs_list_all(ex, fds[0]);
	conn_reply(c, msg->h.seq, r, PROTO_STAGE_NONE, -1);
}

long tree_signal(struct exec *ex, const struct proto_signal *msg)
{
	struct choice ch = { .sig = msg->sig };
	int passes = msg->sig == SIGKILL ? PASSES : 1;
	bool any = false;

	switch ((enum proto_whom)msg->whom) {
	case PROTO_WHOM_FIRST:
		if (msg->sig != SIGKILL)
			return ex->pid > 0 ? sys_kill(ex->pid, msg->sig) : -ESRCH;
		tree_kill(ex);
		exec_deadlines();
		return 0;
	case PROTO_WHOM_TREE:
		if (msg->sig != SIGKILL)
			break;
		tree_kill(ex);
		exec_deadlines();
		return 0;
	case PROTO_WHOM_REST:
		ch.but = ex->pid;
		break;
	case PROTO_WHOM_NEW:
		ch.but = ex->pid;
		ch.new = true;
		ch.mark = ex->mark;
		ch.newest = tree_newest();
		break;
	case PROTO_WHOM_ONE:
		if (msg->pid <= 1)
			return -EINVAL;
		ch.only = msg->pid;
		passes = 1;
		break;
	case PROTO_WHOM_ALL:
	case PROTO_WHOM_MAX:
	default:
		return -EPROTO;
	}
	/*
	 * If processes must be killed, repeat for those that were forked in the meantime.
	 */
	for (int pass = 0; pass < passes && (pass == 0 || ch.count); pass++) {
		ch.count = 0;
		visit_tree(ex, &ch);
		any |= ch.count > 0;
	}
	return any ? 0 : -ESRCH;
}
