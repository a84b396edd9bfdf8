/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.c - the lifecycle of a shim: create a pid namespace and the sandbox, run the loop,
 * end
 *
 * Until KEEP, the sandbox is destroyed when the creator's connection ends. The same rule
 * applies to init (proto/init_proto.h). An init only has to exit, but a shim must destroy
 * the sandbox.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "shim/core/copy_budget.h"
#include "shim/core/shim.h"
#include "shim/core/streams.h"
#include "shim/core/workers.h"
#include "spec/spec.h"

#define SPEC_MAX (16U << 20)

#define ENDED_INSIDE 1 /* the sandbox was ended from inside */

struct init init;
_Alignas(16) char inbox[PROTO_MESSAGE_MAX];

static pid_t watcher;    /* process that waits for the sandbox to end; 0: none */
static bool ended_away;  /* the sandbox ended while save_is_away() */
static bool killed;      /* a process of platform->has_process() was killed */
static uint64_t over_by; /* the sandbox is dead, and this process exits at this time, in
			    ns; 0: it is alive */
static struct warren_error over_why; /* the reason to report at that time */

uint64_t agent_now(void)
{
	struct timespec ts = { 0 };

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

int watch_add(int fd, enum watch what, unsigned slot, unsigned which)
{
	struct epoll_event ev = { .events = EPOLLIN };

	ev.data.u64 = (uint64_t)what << 32 | slot << 2 | which;
	return epoll_ctl(init.epoll, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

void watch_drop(int fd)
{
	struct epoll_event none = { 0 };

	(void)epoll_ctl(init.epoll, EPOLL_CTL_DEL, fd, &none);
}

/* ----------------------------------------------------------------------- requests */

static void run_handle_signal(int c, const struct proto_signal *msg)
{
	const struct exec *ex = exec_find(msg->exec);

	if (msg->whom == PROTO_WHOM_ALL && msg->sig >= 0 && msg->sig <= 64)
		work_signal_everyone(c, msg);
	else if (!ex || ex->pid == 0)
		conn_reply(c, msg->h.seq, -ESRCH, PROTO_STAGE_NONE, -1);
	else if (msg->sig < 1 || msg->sig > 64 || msg->whom >= PROTO_WHOM_MAX ||
		 (msg->whom == PROTO_WHOM_ONE && msg->pid <= 1))
		conn_reply(c, msg->h.seq, -EINVAL, PROTO_STAGE_NONE, -1);
	else
		work_signal(c, ex, msg);
}

static void handle_list(int c, const struct proto_list *msg, int *fds, size_t n_fds)
{
	const struct exec *ex = exec_find(msg->exec);

	if (!ex || n_fds == 0)
		conn_reply(c, msg->h.seq, ex ? -EPROTO : -ESRCH, PROTO_STAGE_NONE, -1);
	else
		work_list(c, ex, msg, fds, n_fds);
}

static void handle_spawn(int c, const struct proto_spawn *msg, size_t size, int *fds,
			 size_t n_fds)
{
	/* This shim supports only the three standard streams. */
	if (size >= sizeof(*msg) &&
	    (msg->control[0] || msg->control[1] || msg->control[2]))
		conn_reply(c, msg->h.seq, -EOPNOTSUPP, PROTO_STAGE_REQUEST, -1);
	else
		spawn_exec(c, msg, size, fds, n_fds);
}

/*
 * Does the request need a running sandbox? Requests about the connection or about past
 * execs do not.
 */
static bool needs_life(unsigned type)
{
	return type == PROTO_SPAWN || type == PROTO_SIGNAL || type == PROTO_OPEN ||
	       type == PROTO_SCAN || type == PROTO_CHANGE || type == PROTO_WATCH ||
	       type == PROTO_CONNECT || type == PROTO_LIST;
}

void init_dispatch(int c, size_t size, int *fds, size_t n_fds)
{
	const struct proto_header *h = (const void *)inbox;
	const void *msg = inbox;

	if (!request_is_sound(c, size))
		return;
	if (streams_check(msg, size, fds, n_fds) < 0) {
		reply_why = "a stream must be a pipe, a regular file or an eventfd";
		conn_reply(c, h->seq, -EPROTO, PROTO_STAGE_REQUEST, -1);
		reply_why = NULL;
		return;
	}
	if (save_is_away() && needs_life(h->type)) {
		reply_why = "the sandbox is paused: resume it first";
		conn_reply(c, h->seq, -EBUSY, PROTO_STAGE_REQUEST, -1);
		reply_why = NULL;
		return;
	}
	switch (h->type) {
	case PROTO_SPAWN:
		handle_spawn(c, msg, size, fds, n_fds);
		return;
	case PROTO_SIGNAL:
		run_handle_signal(c, msg);
		return;
	case PROTO_OPEN:
	case PROTO_SCAN:
	case PROTO_CHANGE:
	case PROTO_WATCH:
	case PROTO_CONNECT:
		work_request(c, msg, size, fds, n_fds);
		return;
	case PROTO_LIST:
		handle_list(c, msg, fds, n_fds);
		return;
	case PROTO_SAVE:
	case PROTO_RESTORE:
		save_request(c, msg);
		return;
	case PROTO_UPPER:
		reply_why = this_sandbox.no_upper[0] ? this_sandbox.no_upper : NULL;
		conn_reply(c, h->seq, this_sandbox.upper < 0 ? -EOPNOTSUPP : 0,
			   PROTO_STAGE_NONE, this_sandbox.upper);
		reply_why = NULL;
		return;
	case PROTO_NAME_MEMORY:
		conn_reply(c, h->seq, save_name_memory(), PROTO_STAGE_NONE, -1);
		return;
	default:
		if (!attach_dispatch(c, msg, fds, n_fds))
			conn_reply(c, h->seq, -ENOSYS, PROTO_STAGE_REQUEST, -1);
	}
}

/* ----------------------------------------------------------------- end of the sandbox */

/*
 * Fork into a pid namespace for all child processes, with a matching /proc. If this
 * process may not create a namespace, or the platform cannot use one, PDEATHSIG ends the
 * children.
 */
static pid_t fork_apart(void)
{
	bool apart = !this_sandbox.driver->host_pids &&
		     !json_is_true(json_object_get(this_sandbox.config, "host_pids")) &&
		     unshare(CLONE_NEWPID | CLONE_NEWNS) == 0;
	pid_t pid = fork();

	if (pid == 0 && apart &&
	    (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0 ||
	     mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0))
		_exit(1);
	return pid;
}

static void end_apart(void) __attribute__((noreturn));
static void end_apart(void)
{
	pid_t pid;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	pid = fork_apart();
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		tree_end();
		_exit(0);
	}
	(void)waitpid(pid, NULL, 0);
	_exit(0);
}

/* Kill all processes of the sandbox, because the tool may leave some behind. */
static void run_end_all(void)
{
	int patience = shim_sandbox_patience();
	pid_t pid = fork();
	AUTO_CLOSE int fd = pid > 0 ? pidfd_open(pid, 0) : -1;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (pid == 0)
		end_apart();
	if (fd >= 0)
		(void)poll(&p, 1, (patience < END_SECS ? patience : END_SECS) * 1000);
	if (pid > 0 && kill(pid, SIGKILL) == 0)
		(void)waitpid(pid, NULL, 0);
}

/*
 * Was the sandbox completed? If it was not, nothing runs in it, and an exec in it may be
 * the cause of the failure.
 */
static bool was_made(void)
{
	char path[sizeof(this_sandbox.dir) + 8];

	(void)snprintf(path, sizeof(path), "%s/made", this_sandbox.dir);
	return access(path, F_OK) == 0;
}

int shim_sandbox_unmake(struct warren_error *err)
{
	if (this_sandbox.driver->outlived && was_made())
		run_end_all();
	return this_sandbox.driver->destroy(&this_sandbox, err);
}

void init_end(void)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	(void)shim_sandbox_unmake(&ignored);
	_exit(0);
}

/*
 * The sandbox is gone: its execs have a short time to report their ends, then the shim
 * exits.
 */
void sandbox_died(const struct warren_error *why)
{
	if (over_by)
		return; /* only the first reason is reported */
	over_by = agent_now() + 2 * GRACE_NS;
	(void)error_set(&over_why, EOWNERDEAD, "%s: the sandbox was ended from outside",
			this_sandbox.name);
	if (why)
		over_why = *why;
	else if (this_sandbox.driver->explain)
		this_sandbox.driver->explain(&this_sandbox, &over_why);
	for (unsigned i = 0; i < init.n_execs; i++)
		if (init.execs[i].used && init.execs[i].pid > 0)
			child_end(&init.execs[i]);
}

/* The sandbox was ended from inside: if the first process inside is not protected, root
 * inside can kill it. */
static void ended_inside(void)
{
	struct warren_error why = WARREN_ERROR_INIT;

	(void)error_set(&why, EOWNERDEAD,
			"%s: the sandbox's first process was killed from inside, and "
			"the sandbox ended with it",
			this_sandbox.name);
	sandbox_died(&why);
}

bool sandbox_is_dead(void)
{
	return over_by != 0;
}

void exec_stranger(int pid, int status)
{
	if (pid != watcher) {
		if (!work_reaped(pid) && WIFSIGNALED(status) &&
		    WTERMSIG(status) == SIGKILL && this_sandbox.driver->has_process &&
		    this_sandbox.driver->has_process(&this_sandbox, pid))
			killed = true;
		return;
	}
	watcher = 0;
	ended_away = save_is_away();
	if (!ended_away && WIFEXITED(status) && WEXITSTATUS(status) == ENDED_INSIDE &&
	    !killed)
		ended_inside();
	else if (!ended_away)
		sandbox_died(NULL);
}

bool watch_has_ended(void)
{
	return ended_away;
}

void watch_start(void)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	int r;

	if (!this_sandbox.driver->wait)
		return;
	ended_away = killed = false;
	watcher = fork();
	if (watcher != 0)
		return;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)prctl(PR_SET_NAME, "warren-watch");
	(void)close_range(3, ~0U, 0);
	/* An error does not mean that the sandbox has ended. */
	while ((r = this_sandbox.driver->wait(&this_sandbox, &ignored)) < 0)
		(void)sleep(1);
	_exit(r > 0 ? ENDED_INSIDE : 0);
}

/* ------------------------------------------------------------------------ event loop */

static bool is_idle(void)
{
	for (unsigned i = 0; i < init.n_execs; i++)
		if (init.execs[i].used)
			return false;
	return true;
}

static void hear_from(int c)
{
	uint64_t which = work_connection(c);

	conn_receive(c);
	if (init.conns[c].fd < 0)
		work_gone(which);
}

static void run_handle_event(uint64_t data)
{
	unsigned slot = (unsigned)(data & 0xffffffff) >> 2;
	unsigned what = (unsigned)(data >> 32);

	if (what == WATCH_WORK)
		work_heard(slot);
	else if (what == WATCH_CONN && slot < PROTO_CONNECTIONS_MAX)
		hear_from((int)slot);
	else
		exec_event(what, slot, (unsigned)data & 3);
}

/* Send a last message to all connections, which is not an answer (proto/init_proto.h). */
static void end_over(void) __attribute__((noreturn));
static void end_over(void)
{
	reply_why = over_why.msg;
	for (int c = 0; c < PROTO_CONNECTIONS_MAX; c++)
		conn_reply(c, 0, -over_why.code, PROTO_STAGE_NONE, -1);
	_exit(0);
}

static int time_left(void)
{
	uint64_t next = child_next(), t = agent_now();
	const uint64_t others[] = { work_next(), kill_next() };

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (others[i] && (next == 0 || others[i] < next))
			next = others[i];
	if (over_by && (next == 0 || over_by < next))
		next = over_by;
	if (next == 0)
		return -1;
	return next <= t ? 0 : (int)((next - t) / 1000000) + 1;
}

static void run_loop(void) __attribute__((noreturn));
static void run_loop(void)
{
	for (;;) {
		struct epoll_event ev[16];
		int n = epoll_wait(init.epoll, ev, ARRAY_SIZE(ev), time_left());

		for (int i = 0; i < n; i++)
			run_handle_event(ev[i].data.u64);
		kill_deadlines();
		child_deadlines();
		work_deadlines();
		/*
		 * A process that notices the end of the shim removes what is left on the
		 * platform.
		 */
		if (over_by && (is_idle() || agent_now() >= over_by))
			end_over();
	}
}

/* --------------------------------------------------------------- start of the sandbox */

static void say_failed(const struct warren_error *err)
{
	struct {
		struct proto_header h;
		struct warren_error err;
	} m = { .h = { .version = PROTO_VERSION, .type = PROTO_FAILED }, .err = *err };

	(void)fd_send(PROTO_FD_MAKER, &m, sizeof(m), NULL, 0);
}

static int read_spec(json_t **ret_doc, struct warren_spec *ret, struct warren_error *err)
{
	AUTO_FREE char *text = malloc(SPEC_MAX);
	ssize_t n = text ? pread(FD_SPEC, text, SPEC_MAX, 0) : -1;
	json_error_t why;

	if (n < 0)
		return error_errno(err, errno, "read the spec");
	(void)close(FD_SPEC);
	*ret_doc = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, &why);
	if (!*ret_doc)
		return error_set(err, EINVAL, "read the spec: %s", why.text);
	return spec_read(*ret_doc, ret, err);
}

/* Remove the file: without it, there is nothing to destroy (backend/shimmed). */
static void run_disown(void)
{
	char path[sizeof(this_sandbox.dir) + 16];

	(void)snprintf(path, sizeof(path), "%s/place", this_sandbox.dir);
	(void)unlink(path);
}

/* Is the disk limit enforced? A soft limit may be dropped. */
static bool disk_is_kept(void)
{
	for (size_t i = 0; i < this_sandbox.n_enforced; i++)
		if (strcmp(this_sandbox.enforced[i].name, "disk") == 0)
			return this_sandbox.enforced[i].enforced;
	return false;
}

/*
 * Refuse a limit that is not in the driver's description, or report it as not enforced.
 */
static int run_check_limits(const struct warren_spec *spec, struct warren_error *err)
{
	const struct backend_kind *kind = this_sandbox.driver->kind;

	for (size_t i = 0;
	     (i = spec_limit_beyond(spec, kind->limits, i)) < SPEC_LIMIT_MAX; i++) {
		if (spec_insists(spec, i))
			return error_set(err, EOPNOTSUPP,
					 "%s: %s: kind %s cannot enforce this limit",
					 this_sandbox.name, spec_limits[i].word,
					 kind->name);
		shim_sandbox_enforce(&this_sandbox, spec_limits[i].word, false,
				     "kind %s cannot", kind->name);
	}
	return 0;
}

static int shim_run_make_sandbox(struct warren_error *err)
{
	struct warren_spec spec = { 0 };
	json_t *spec_doc = NULL;
	int r = read_spec(&spec_doc, &spec, err);

	if (r == 0)
		r = run_check_limits(&spec, err);
	if (r == 0)
		r = this_sandbox.driver->create(&this_sandbox, &spec, err);
	room_bound(disk_is_kept() ? spec.disk : 0);
	if (r < 0 && this_sandbox.clean)
		run_disown();
	if (r == 0) {
		shim_sandbox_enforce(&this_sandbox, "exec_accounting", false,
				     "the platform does not report it");
		r = inspect_sandbox(err);
		if (r == 0)
			r = learn_note(&spec, err);
		if (r < 0) {
			struct warren_error second = WARREN_ERROR_INIT;

			(void)this_sandbox.driver->destroy(&this_sandbox, &second);
		}
	}
	spec_done(&spec);
	json_decref(spec_doc);
	return r;
}

static int open_loop(struct warren_error *err)
{
	sigset_t all;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, NULL);
	(void)sigemptyset(&all);
	(void)sigaddset(&all, SIGCHLD);
	conn_start();
	for (int i = 0; i < PROTO_ROLE_MAX; i++)
		init.dir[i] = -1;
	init.signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	init.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	init.epoll = epoll_create1(EPOLL_CLOEXEC);
	init.null = 0;
	if (init.signals < 0 || init.timer < 0 || init.epoll < 0 ||
	    watch_add(init.conns[0].fd, WATCH_CONN, 0, 0) < 0 ||
	    (init.listener >= 0 && watch_add(init.listener, WATCH_LISTEN, 0, 0) < 0) ||
	    watch_add(init.signals, WATCH_SIGNAL, 0, 0) < 0 ||
	    watch_add(init.timer, WATCH_TIMER, 0, 0) < 0)
		return error_errno(err, errno, "create the event loop");
	return 0;
}

static void leave_maker(void)
{
	pid_t pid = fork_apart();

	if (pid != 0)
		_exit(pid < 0);
	(void)setsid();
	if (chdir("/") < 0)
		_exit(1);
	(void)umask(022);
	(void)signal(SIGCHLD, SIG_DFL);
	(void)prctl(PR_SET_NAME, "warren-shim");
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/*
 * Lock the file as long as this process lives: so another process finds it, even before
 * it listens (backend/shimmed). Closing the file would end the lock.
 */
static void run_lock(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char path[sizeof(this_sandbox.dir) + 16];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/place", this_sandbox.dir);
	fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		(void)fcntl(fd, F_SETLK, &lock);
}

int shim_run(const char *dir, struct warren_error *err)
{
	struct proto_ready ready = {
		.h = { .version = PROTO_VERSION, .type = PROTO_READY },
	};
	json_t *doc = NULL;
	int r = shim_sandbox_load(dir, &doc, err);

	(void)close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
	if (r == 0) {
		leave_maker();
		run_lock();
		r = shim_run_make_sandbox(err);
	}
	if (r == 0)
		r = open_loop(err);
	if (r < 0) {
		say_failed(err);
		return r;
	}
	watch_start();
	conn_send(0, &ready, sizeof(ready), NULL, 0);
	run_loop();
}
