/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_procs.c - list and signal the processes of an exec or of the sandbox, with a
 * script inside
 *
 * The processes of an exec are its first process, identified by its pid and start time;
 * those with the exec's mark in their environment; and all descendants of these. So a
 * process escapes only if it has left its parents and also changed its environment; but
 * even then, it does not outlive the sandbox. The script runs as the user of the exec,
 * because it cannot read the environment of another user's processes.
 *
 * Killing takes several passes, because processes may have forked since they were listed;
 * any other signal is sent in one pass, so that no process gets it twice. All passes for
 * one request share one deadline.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "shim/core/local_procs.h"
#include "shim/core/parse_ps.h"
#include "shim/core/scripts.h"
#include "shim/core/shell_pool.h"
#include "shim/core/shim.h"
#include "shim/core/workers.h"

#define PASSES      16
#define NEARBY_MS   5000
#define LISTING_MAX (16U << 20)

/* Deadline of the current request, in ns; there is only one request at a time. */
static uint64_t tree_until;

static void deadline_start(void)
{
	tree_until = clock_now() + SIGNAL_SECS * 1000000000ULL;
}

/* Run a script that may take only the rest of the request's time. */
static int run_script(const char *user, const struct buf *script, struct buf *out,
		      struct warren_error *err)
{
	uint64_t t = clock_now();

	if (t >= tree_until)
		return error_set(err, ETIMEDOUT,
				 "%s: exec: not all of its processes were found within "
				 "%d seconds",
				 this_sandbox.name, SIGNAL_SECS);
	return shell_pool_run(user, script, out, (int)((tree_until - t) / 1000000000) + 1,
			      err);
}

static int parse_listing(char *text, const struct target *targets, size_t n,
			 struct procs *l)
{
	AUTO_FREE struct proc *first = calloc(n + 1, sizeof(*first));

	for (size_t i = 0; first && i < n; i++)
		first[i] =
			(struct proc){ .pid = targets[i].pid, .start = targets[i].start };
	return first ? procs_parse(text, first, n, l) : -ENOMEM;
}

/*
 * List the processes inside, and mark those that belong to one of the @n execs, which all
 * have one user.
 */
static int exec_procs_look(const struct target *targets, size_t n, struct procs *l,
			   struct warren_error *err)
{
	AUTO_BUF struct buf script = BUF_INIT(65536), out = BUF_INIT(LISTING_MAX);
	int r;

	*l = (struct procs){ 0 };
	/* grep accepts several patterns, one on each line. */
	buf_puts(&script, "m='");
	for (size_t i = 0; i < n; i++)
		buf_printf(&script, "%s%s", i ? "\n" : "", targets[i].mark);
	buf_puts(&script, "'\n");
	buf_puts(&script, script_processes);
	r = run_script(targets[0].user, &script, &out, err);
	if (r < 0)
		return r;
	buf_add(&out, "", 1);
	r = out.failed ? -ENOMEM : parse_listing(out.data, targets, n, l);
	if (r == -E2BIG)
		return error_set(err, EREMOTEIO,
				 "%s: exec: the sandbox lists more than %d processes",
				 this_sandbox.name, PROCS_MAX);
	if (r < 0)
		return error_errno(err, -r, "list the processes");
	return 0;
}

/* -------------------------------------------------------------------- signalling */

static bool is_meant(const struct work *w, const struct proc *p)
{
	if (!p->ours || p->dead)
		return false;
	switch (w->whom) {
	case PROTO_WHOM_FIRST:
		return p->pid == w->target.pid || w->sig == SIGKILL;
	case PROTO_WHOM_REST:
	case PROTO_WHOM_NEW:
		return p->pid != w->target.pid;
	case PROTO_WHOM_ONE:
		return p->pid == w->pid;
	case PROTO_WHOM_ALL: /* except the shell that sends the signal, and its tools */
		return p->pid != w->pid && p->ppid != w->pid;
	case PROTO_WHOM_TREE:
	case PROTO_WHOM_MAX:
		break;
	}
	return true;
}

static int exec_procs_kill_listed(const struct work *w, const char *user,
				  const struct procs *l, struct warren_error *err)
{
	AUTO_BUF struct buf script = BUF_INIT(1U << 20), out = BUF_INIT(1U << 20);
	int n = 0, r;

	buf_printf(&script, "kill -%d", w->sig);
	for (size_t i = 0; i < l->n; i++) {
		if (!is_meant(w, &l->procs[i]))
			continue;
		buf_printf(&script, " %d", l->procs[i].pid);
		n++;
	}
	buf_puts(&script, " || :");
	if (n == 0)
		return 0;
	r = run_script(user, &script, &out, err);
	return r < 0 ? r : n;
}

/* If processes cannot be listed, signal the process group that the exec leads. */
static int kill_group(const struct work *w, const struct target *t,
		      struct warren_error *err)
{
	AUTO_BUF struct buf script = BUF_INIT(4096), out = BUF_INIT(1U << 20);
	bool whole = w->whom != PROTO_WHOM_FIRST || w->sig == SIGKILL;
	int r;

	if (t->pid == 0 || w->whom == PROTO_WHOM_ONE || w->whom == PROTO_WHOM_REST)
		return 0;
	buf_printf(&script, "kill -%d %s%d || kill -%d %d", w->sig, whole ? "-- -" : "",
		   t->pid, w->sig, t->pid);
	r = run_script(t->user, &script, &out, err);
	return r < 0 ? r : r == 0;
}

static int kill_groups(const struct work *w, const struct target *targets, size_t n,
		       struct warren_error *err)
{
	int any = 0, r;

	for (size_t i = 0; i < n; i++) {
		r = kill_group(w, &targets[i], err);
		if (r < 0)
			return r;
		any |= r;
	}
	return any;
}

/* Without a shell, use the platform, which can do less. */
static int send_bare(const struct work *w, const struct target *t,
		     struct warren_error *err)
{
	bool all = w->whom == PROTO_WHOM_TREE || w->sig == SIGKILL;

	if (w->whom != PROTO_WHOM_TREE && w->whom != PROTO_WHOM_FIRST)
		return error_set(
			err, EOPNOTSUPP,
			"%s: the image has no shell to find these processes with",
			this_sandbox.name);
	return this_sandbox.driver->signal(&this_sandbox, t->mark,
					   t->user[0] ? t->user : NULL, all, w->sig, err);
}

/* Signal each exec, even if another one failed; report the first error. */
static int send_all_bare(const struct work *w, const struct target *targets, size_t n,
			 struct warren_error *err)
{
	int r = 0;

	for (size_t i = 0; i < n; i++) {
		struct warren_error one = WARREN_ERROR_INIT;
		int s = send_bare(w, &targets[i], &one);

		if (s < 0 && r == 0) {
			r = s;
			*err = one;
		}
	}
	return r;
}

/* Signal the @n execs, which all have one user. */
static int send_signal(const struct work *w, const struct target *targets, size_t n,
		       struct warren_error *err)
{
	int passes = w->sig == SIGKILL && w->whom != PROTO_WHOM_ONE ? PASSES : 1;
	int any = 0;

	deadline_start();
	if (!inside.shell[0] && this_sandbox.driver->signal)
		return send_all_bare(w, targets, n, err);
	for (int i = 0; i < passes; i++) {
		struct procs l;
		int r = exec_procs_look(targets, n, &l, err);

		if (r == 0)
			r = l.n > 0 ? exec_procs_kill_listed(w, targets[0].user, &l, err)
				    : kill_groups(w, targets, n, err);
		free(l.procs);
		if (r < 0)
			return r;
		any |= r > 0;
		if (r == 0 || l.n == 0)
			break;
		if (i > 0)
			(void)nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
	}
	return any ? 0 : error_errno(err, ESRCH, "signal it");
}

/* ------------------------------------------------------ all processes of the sandbox */

/*
 * Select all processes: everything that was started in the sandbox has the sandbox's name
 * in its environment.
 */
static void target_everyone(struct work *w, const char *user)
{
	_Static_assert(sizeof(SANDBOX_NAME) + 1 + ID_LEN <= sizeof(w->target.mark),
		       "it is longer than a mark");
	w->whom = PROTO_WHOM_ALL;
	w->target = (struct target){ 0 };
	(void)snprintf(w->target.user, sizeof(w->target.user), "%s", user);
	(void)snprintf(w->target.mark, sizeof(w->target.mark), SANDBOX_NAME "=%s",
		       this_sandbox.id);
}

/* The guest agent sends the signal with one system call. */
static int everyone_by_guest(int sig, struct warren_error *err)
{
	char number[12];
	const char *const argv[] = { this_sandbox.driver->guest, "everyone", number,
				     NULL };
	AUTO_CLOSE int outcome = -1;
	struct shim_outcome o = { 0 };
	int ends[2], status;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return error_errno(err, errno, "create a pipe");
	outcome = ends[0];
	(void)snprintf(number, sizeof(number), "%d", sig);
	pid = child_start(argv, "0:0", -1, -1, -1, ends[1]);
	(void)close(ends[1]);
	if (pid < 0)
		return error_errno(err, -pid, "start a process");
	status = shim_sandbox_await(pid, SIGNAL_SECS, -1, NULL, -1, -1);
	if (status < 0)
		return error_errno(err, -status, "%s: signal all processes",
				   this_sandbox.name);
	if (WIFEXITED(status) && WEXITSTATUS(status) <= 1)
		return WEXITSTATUS(status) == 0 ? 0 : -ESRCH;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
		return error_set(err, EREMOTEIO,
				 "%s: signal all processes: some of them do not end",
				 this_sandbox.name);
	(void)!read(outcome, &o, sizeof(o));
	o.err.msg[sizeof(o.err.msg) - 1] = '\0';
	return error_set(err, EREMOTEIO,
			 "%s: signal all processes: nothing can be started in the "
			 "sandbox%s%.200s; if it has too many processes, raise its limit "
			 "'pids', or delete it",
			 this_sandbox.name, o.err.msg[0] ? ": " : "", o.err.msg);
}

static int everyone_ask_catches(const struct work *w, const struct procs *l,
				struct warren_error *err)
{
	AUTO_BUF struct buf script = BUF_INIT(1U << 20), out = BUF_INIT(1U << 20);
	int r;

	buf_puts(&script, "for p in");
	for (size_t i = 0; i < l->n; i++)
		if (is_meant(w, &l->procs[i]))
			buf_printf(&script, " %d", l->procs[i].pid);
	/* Take the hexadecimal digit for signals 13 to 16. */
	buf_puts(&script, "; do while read -r k v; do case $k in SigCgt:) "
			  "case $v in *[4567cdef]?"
			  "?"
			  "?) echo yes;; esac;; esac; "
			  "done <\"/proc/$p/status\"; done 2>/dev/null\n");
	r = run_script(w->target.user, &script, &out, err);
	return r < 0 ? r : out.len > 0 ? 0 : -ESRCH;
}

/* Make one pass; processes that are forked during it are found in the next one. */
static int everyone_pass(struct work *w, struct warren_error *err)
{
	int passes = w->sig == SIGKILL ? PASSES : 1, r = 1;

	for (int i = 0; r > 0 && i < passes; i++) {
		struct procs l;

		r = exec_procs_look(&w->target, 1, &l, err);
		if (r == 0)
			r = w->sig == 0
				    ? everyone_ask_catches(w, &l, err)
				    : exec_procs_kill_listed(w, w->target.user, &l, err);
		free(l.procs);
	}
	return r > 0 ? 0 : r;
}

static int everyone_by_script(const struct work *w, const char *user,
			      struct warren_error *err)
{
	AUTO_BUF struct buf script = BUF_INIT(64), out = BUF_INIT(1U << 20);
	struct work all = *w;
	int r;

	deadline_start();
	target_everyone(&all, user);
	buf_puts(&script, "echo $$");
	r = run_script(user, &script, &out, err);
	if (r < 0)
		return r;
	buf_add(&out, "", 1);
	all.pid = out.failed ? 0 : (int)strtol(out.data, NULL, 10);
	return everyone_pass(&all, err);
}

/*
 * A script is too slow for processes that fork and exit without a pause. If the tool runs
 * commands on this machine, they are in the shim's pid namespace.
 */
static int everyone_nearby(struct warren_error *err)
{
	char variable[sizeof(SANDBOX_NAME) + 1 + ID_LEN];

	(void)snprintf(variable, sizeof(variable), SANDBOX_NAME "=%s", this_sandbox.id);
	if (local_procs_kill(variable, NEARBY_MS) == 0)
		return 0;
	return error_set(err, EREMOTEIO,
			 "%s: signal all processes: some of them do not end",
			 this_sandbox.name);
}

void everyone_work(const struct work *w)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	if (this_sandbox.driver->guest)
		r = everyone_by_guest(w->sig, &err);
	else if (!this_sandbox.driver->outlived)
		r = -EOPNOTSUPP;
	else
		r = everyone_by_script(w, "0:0", &err);
	if (r < 0 && r != -ESRCH && r != -ETIMEDOUT && this_sandbox.driver->outlived)
		r = everyone_by_script(w, "", &err);
	if (w->sig == SIGKILL && this_sandbox.driver->outlived && (r == 0 || r == -ESRCH))
		r = everyone_nearby(&err);
	/* The shells of the shim may be among these processes, so close them. */
	if (w->sig == SIGKILL)
		shell_pool_release();
	/* It is not an error if no process is left. */
	if (r == -ESRCH && w->sig > 0)
		r = 0;
	work_reply(w, r, 0, -1, r < 0 && r != -ESRCH ? err.msg : NULL);
}

/*
 * The shim that knew the execs may be dead, so find processes by the name of the sandbox,
 * which is in the environment of all of them. Do it as root if possible, because the
 * environments of other users cannot be read. The platform ends processes that cannot be
 * reached.
 */
void tree_end(void)
{
	struct work all = { .kind = WORK_KILL, .conn = -1, .sig = SIGKILL };
	struct warren_error ignored = WARREN_ERROR_INIT;
	int r;

	child_apart = true;
	(void)strcpy(inside.shell, "/bin/sh");
	target_everyone(&all, "0:0");
	all.whom = PROTO_WHOM_TREE;
	r = send_signal(&all, &all.target, 1, &ignored);
	if (r < 0 && r != -ESRCH && r != -ETIMEDOUT) {
		all.target.user[0] = '\0';
		(void)send_signal(&all, &all.target, 1, &ignored);
	}
	shell_pool_release();
}

/* ------------------------------------------------------------------ list of processes */

/*
 * Get the numbers of the processes that ignore SIGINT, one on each line, and then the
 * uptime inside.
 */
static int ask_more(const struct target *t, const struct procs *l, struct buf *out,
		    struct warren_error *err)
{
	AUTO_BUF struct buf script = BUF_INIT(1U << 20);

	buf_puts(&script, "for p in");
	for (size_t i = 0; i < l->n; i++)
		if (l->procs[i].ours)
			buf_printf(&script, " %d", l->procs[i].pid);
	buf_puts(&script, "; do while read -r k v; do case $k in SigIgn:) "
			  "case $v in *[2367abef]) echo \"$p\";; esac;; esac; "
			  "done <\"/proc/$p/status\"; done 2>/dev/null\n"
			  "read -r u v </proc/uptime && echo \"up $u\"\n");
	return run_script(t->user, &script, out, err);
}

/*
 * Return the time on this machine's clock, in ticks, at which the clock inside was 0,
 * because a sandbox may have another kernel. Both clocks drop fractions of a tick, so the
 * result may be too low by one, and a process that a command has just started would seem
 * older than the command. So round the result up.
 */
static int64_t clock_offset(const char *text)
{
	const char *up = text ? strstr(text, "up ") : NULL;
	struct timespec ts;
	double theirs;

	if (!up)
		return 0;
	theirs = strtod(up + 3, NULL);
	(void)clock_gettime(CLOCK_BOOTTIME, &ts);
	return (int64_t)(((double)ts.tv_sec + (double)ts.tv_nsec / 1e9 - theirs) * 100) +
	       1;
}

/* Read the numbers that ask_more() printed. */
static void note_ignoring(const char *text, const struct procs *l)
{
	for (const char *at = text; at && *at; at = strchr(at, '\n')) {
		struct proc *p;

		at += *at == '\n';
		p = isdigit((unsigned char)*at) ? procs_find(l, (int)strtol(at, NULL, 10))
						: NULL;
		if (p)
			p->ignores_int = true;
	}
}

static long shim_exec_procs_list_all(const struct work *w, int file,
				     struct warren_error *err)
{
	AUTO_BUF struct buf more = BUF_INIT(1U << 20);
	struct procs l;
	int64_t offset;
	long count = 0;
	int r;

	deadline_start();
	r = exec_procs_look(&w->target, 1, &l, err);
	if (r == 0)
		r = ask_more(&w->target, &l, &more, err);
	buf_add(&more, "\n", 2);
	note_ignoring(more.data, &l);
	offset = clock_offset(more.data);
	/* If the difference is small, it is the duration of the query, and the kernel is
	 * the same. */
	if (offset > -100 && offset < 100)
		offset = 0;
	for (size_t i = 0; r >= 0 && i < l.n && count < PROTO_PROCESSES_MAX; i++) {
		const struct proc *p = &l.procs[i];
		struct proto_process out = { .pid = p->pid,
					     .ppid = p->ppid,
					     .start = p->start + (uint64_t)offset };

		if (!p->ours || p->dead)
			continue;
		if (p->pid == w->target.pid)
			out.flags |= PROTO_PROCESS_FIRST;
		if (p->ignores_int)
			out.flags |= PROTO_PROCESS_IGNORES_INT;
		if (pwrite(file, &out, sizeof(out),
			   (off_t)((size_t)count * sizeof(out))) == sizeof(out))
			count++;
	}
	free(l.procs);
	return r < 0 ? r : count;
}

static bool is_paused(void)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	return this_sandbox.driver->silent &&
	       this_sandbox.driver->silent(&this_sandbox, &ignored) == -EBUSY;
}

/*
 * An exec whose time ran out while the sandbox was paused is killed after the pause
 * (exec_kill.c): before that, no process inside can be reached. A pause in the meantime
 * may have used up all the time, so try a second time.
 */
static int kill_unless_paused(const struct work *w, const struct target *targets,
			      size_t n, struct warren_error *err)
{
	int r = -ETIMEDOUT;

	for (int i = 0; i < 2 && r == -ETIMEDOUT; i++) {
		if (is_paused())
			return -EBUSY;
		work_sign();
		r = send_signal(w, targets, n, err);
	}
	return r < 0 && r != -ESRCH && is_paused() ? -EBUSY : r;
}

void tree_kill_overdue(const struct work *w, const struct target *targets, size_t n)
{
	struct work all = *w;
	struct warren_error err = WARREN_ERROR_INIT;

	all.sig = SIGKILL;
	all.whom = PROTO_WHOM_TREE;
	work_reply(w, kill_unless_paused(&all, targets, n, &err), 0, -1, NULL);
}

void tree_work(const struct work *w, int file)
{
	struct warren_error err = WARREN_ERROR_INIT;
	long r;

	if (w->kind == WORK_LIST)
		r = file < 0 ? -EPROTO : shim_exec_procs_list_all(w, file, &err);
	else
		r = send_signal(w, &w->target, 1, &err);
	work_reply(w, r, 0, -1, r < 0 && r != -ESRCH ? err.msg : NULL);
}
