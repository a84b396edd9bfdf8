/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.c - an exec: a process in which the platform runs the command
 *
 * The platform can run a command, but only a process inside can report that it has
 * started, and with which pid. So the image's shell starts the command (scripts.h). Its
 * first output on stderr is a line that begins with an unpredictable mark. The shim reads
 * this line byte by byte, before anything else is read from stderr, and then answers the
 * request. Output before the line comes from the platform's tool.
 *
 * The same mark is in the environment of the command and of all processes that it starts.
 * Processes that have left their parents are found by it (exec_procs.c). If the image has
 * no shell, the platform starts the command directly.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "agent/core/spawn.h"
#include "base/fd.h"
#include "base/strv.h"
#include "os/cgroup.h"
#include "os/pidfd.h"
#include "shim/core/parse_ps.h"
#include "shim/core/scripts.h"
#include "shim/core/shim.h"
#include "shim/core/workers.h"

#define HEAD_MAX 600
#define HEAD_ALL (1U << 20) /* maximum number of bytes that a tool may print first */
/* Number of these bytes that are read before others have their turn. */
#define AT_ONCE       16384
#define TERMINALS_MAX 64 /* the same as in a native sandbox (backend/native/rootfs.c) */
#define SIGN_NS       (WORK_SIGN_MS * 1000000ULL)

/* State of a slot of init's table, in addition to the common one. */
static struct extra {
	struct target target;
	int outcome;      /* file in which the platform reports how it ended; -1: none */
	int aside;        /* the read end of a stderr that is discarded; -1: none */
	bool blocks;      /* make the terminal blocking again after the line was read */
	uint64_t end_by;  /* time at which its process is killed, in ns; 0: never */
	uint64_t sign_by; /* time at which to report that it is still starting, in ns */
	bool asked;       /* it was told to end */
	bool oom;         /* it was killed because memory ran out */
	bool shared;      /* another exec ran at the same time */
	uint64_t kills;   /* number of OOM kills before it started */
	char head[HEAD_MAX], why[HEAD_MAX];
	size_t head_len, head_read;
} extras[PROTO_EXECS_MAX];

struct rlimit child_nofile;
rlim_t child_most = RLIM_INFINITY;
bool child_apart;

/*
 * The environment variable that marks all processes of the sandbox; NULL: it is not
 * needed.
 */
static const char *mark_sandbox(void)
{
	static char text[sizeof(SANDBOX_NAME) + 1 + ID_LEN];

	if (!this_sandbox.driver->outlived || child_apart)
		return NULL;
	(void)snprintf(text, sizeof(text), SANDBOX_NAME "=%s", this_sandbox.id);
	return text;
}

static struct extra *extra_of(const struct exec *ex)
{
	return &extras[ex - init.execs];
}

void mark_make(char mark[MARK_LEN + 1])
{
	uint64_t bits[2];

	if (getrandom(bits, sizeof(bits), 0) != sizeof(bits))
		abort(); /* requests for so few bytes never fail once the kernel's
			    generator is ready */
	(void)snprintf(mark, MARK_LEN + 1, "%016" PRIx64 "%016" PRIx64, bits[0], bits[1]);
}

const struct target *child_target(const struct exec *ex)
{
	return &extra_of(ex)->target;
}

/* ------------------------------------------------------------- the process of an exec */

/*
 * From here on, this process works for the command only: keep only the command's streams.
 * @gate: see work_kill_gate().
 */
static void become_child(const int stdio[3], int outcome, int gate)
{
	sigset_t none;
	int from[3];

	(void)setsid();
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)prctl(PR_SET_NAME, "warren-exec");
	if (isatty(stdio[0]))
		(void)ioctl(stdio[0], TIOCSCTTY, 0);
	/*
	 * Move the descriptors above those that are replaced next, because /dev/null may
	 * be one of them.
	 */
	outcome = fcntl(outcome, F_DUPFD_CLOEXEC, 16);
	if (gate >= 0)
		gate = fcntl(gate, F_DUPFD_CLOEXEC, 16);
	for (int i = 0; i < 3; i++)
		from[i] = fcntl(stdio[i], F_DUPFD_CLOEXEC, 16);
	for (int i = 0; i < 3; i++)
		if (dup2(from[i], i) < 0)
			_exit(127);
	if (dup2(outcome, 3) < 0 || (gate >= 0 && dup2(gate, 4) < 0) ||
	    close_range(gate >= 0 ? 5 : 4, ~0U, 0) < 0)
		_exit(127);
	(void)setrlimit(RLIMIT_NOFILE, &child_nofile);
	/*
	 * Use the system call: posix_spawn(3) cannot reset two signals that the C library
	 * uses.
	 */
	for (int sig = 1; sig <= 64; sig++)
		(void)syscall(SYS_rt_sigaction, sig, &(uint64_t[4]){ 0 }, NULL, 8);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (gate >= 0) {
		(void)poll(&(struct pollfd){ .fd = 4, .events = POLLIN }, 1, -1);
		(void)close(4);
	}
}

static void run_platform(const struct shim_exec *e) __attribute__((noreturn));
static void run_platform(const struct shim_exec *e)
{
	struct shim_exec mine = *e;

	mine.outcome_fd = 3;
	this_sandbox.driver->exec(&this_sandbox, &mine);
}

/*
 * Is the command started without a shell, because there is none or the platform itself
 * reports everything?
 */
static bool is_bare(void)
{
	return !inside.shell[0] || this_sandbox.driver->tells_all;
}

static void exec_run_command(const struct plan *p, const struct extra *x, bool quiet)
	__attribute__((noreturn));
static void exec_run_command(const struct plan *p, const struct extra *x, bool quiet)
{
	size_t argc = strv_len(p->argv), envc = strv_len(p->env), n = 0;
	const char **argv = calloc(argc + 8, sizeof(*argv));
	const char **env = calloc(envc + 3, sizeof(*env));
	char mark[MARK_LEN + 16], options[4] = "-";
	struct shim_exec e = {
		.argv = argv,
		.env = env,
		.user = x->target.user[0] ? x->target.user : NULL,
		.pty = p->tty >= 0,
		.stdin_open = p->stdio[0] != init.null,
	};

	if (!argv || !env)
		_exit(127);
	(void)snprintf(mark, sizeof(mark), "WARREN_EXEC=%s", x->target.mark);
	(void)memcpy(env, p->env, envc * sizeof(*env));
	env[envc] = mark;
	env[envc + 1] = mark_sandbox();
	if (!is_bare()) {
		(void)snprintf(options, sizeof(options), "-%s%s",
			       p->msg->flags & PROTO_SPAWN_MKCWD ? "m" : "",
			       quiet ? "n" : "");
		argv[n++] = inside.shell;
		argv[n++] = "-c";
		argv[n++] = script_start;
		argv[n++] = "sh";
		argv[n++] = x->target.mark;
		argv[n++] = p->cwd;
		argv[n++] = options;
	} else {
		e.cwd = p->cwd;
		e.tell_start = true;
	}
	(void)memcpy(argv + n, p->argv, argc * sizeof(*argv));
	run_platform(&e);
}

pid_t child_start(const char *const *argv, const char *user, int in, int out, int errs,
		  int outcome)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	const int stdio[3] = { in < 0 ? null : in, out < 0 ? null : out,
			       errs < 0 ? null : errs };
	const char *const env[] = { mark_sandbox(), NULL };
	struct shim_exec e = {
		.argv = argv, .env = env, .user = user, .stdin_open = in >= 0
	};
	pid_t pid = fork();

	if (pid == 0) {
		become_child(stdio, outcome < 0 ? null : outcome, -1);
		if (child_most != RLIM_INFINITY) {
			(void)setrlimit(RLIMIT_FSIZE,
					&(struct rlimit){ child_most, child_most });
			(void)signal(SIGXFSZ, SIG_IGN); /* because it would dump core */
		}
		run_platform(&e);
	}
	if (null >= 0)
		(void)close(null);
	return pid < 0 ? -errno : pid;
}

/* ------------------------------------------------------------------- start of an exec */

static unsigned count_terminals(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < init.n_execs; i++)
		n += init.execs[i].used && init.execs[i].tty;
	return n;
}

/*
 * Open a terminal, like init does, but on the host, where the command's user has no
 * access to it. It is one of the machine's terminals, so their number is limited: the
 * maximum and the error are the same as for a native sandbox.
 */
long spawn_terminal(const struct proto_spawn *msg, int *ret_master, int *ret_slave)
{
	struct winsize ws = { .ws_row = msg->rows, .ws_col = msg->cols };
	AUTO_CLOSE int master = -1;
	int unlock = 0, slave;

	if (count_terminals() >= TERMINALS_MAX)
		return -ENOSPC;
	master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return -errno;
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return -errno;
	(void)ioctl(slave, TIOCSWINSZ, &ws);
	*ret_master = TAKE_FD(master);
	*ret_slave = slave;
	return 0;
}

/* Create a pipe for a stderr that is discarded. */
static int make_aside(struct plan *p, struct extra *x)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	(void)fcntl(ends[1], F_SETFL, O_WRONLY);
	p->stdio[2] = p->theirs[p->n_theirs++] = ends[1];
	x->aside = ends[0];
	return fcntl(ends[0], F_DUPFD_CLOEXEC, 3);
}

/* Open a separate descriptor of stderr, to read the first line. */
static int open_head(struct plan *p, const struct exec *ex, struct extra *x)
{
	char name[32];
	struct stat st;
	int fd;

	if (ex->tty) {
		int flags = fcntl(ex->input, F_GETFL);

		x->blocks = !(flags & O_NONBLOCK);
		(void)fcntl(ex->input, F_SETFL, flags | O_NONBLOCK);
		fd = fcntl(ex->input, F_DUPFD_CLOEXEC, 3);
	} else if (ex->pipe[1] >= 0) {
		fd = fcntl(ex->pipe[1], F_DUPFD_CLOEXEC, 3);
	} else if (p->stdio[2] == init.null) {
		return make_aside(p, x);
	} else {
		/*
		 * Open the other end of the pipe through /proc. The client does not read
		 * from it yet.
		 */
		if (fstat(p->stdio[2], &st) < 0 || !S_ISFIFO(st.st_mode))
			return -EOPNOTSUPP;
		(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", p->stdio[2]);
		fd = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	}
	return fd < 0 ? -errno : fd;
}

/*
 * Do not drain stderr before its first line is read. But drain stdout: a platform may
 * deliver the command's output before the line on stderr, and would otherwise block
 * forever.
 */
static void hold_streams(struct exec *ex)
{
	bool line = !is_bare() && !ex->tty;

	for (unsigned i = line ? 1 : 0; i < STREAMS; i++)
		if (ex->pipe[i] >= 0)
			watch_drop(ex->pipe[i]);
	ex->head_held = line;
	ex->held = !line;
}

static void exec_release_streams(struct exec *ex)
{
	if (ex->held) {
		drain_resume(ex);
		return;
	}
	ex->head_held = false;
	for (unsigned i = 1; i < STREAMS; i++)
		if (ex->pipe[i] >= 0)
			(void)watch_add(ex->pipe[i], WATCH_OUT,
					(unsigned)(ex - init.execs), i);
}

static void set_target(struct target *t, const struct proto_spawn *msg)
{
	*t = (struct target){ 0 };
	mark_make(t->mark);
	if (msg->uid != inside.uid || msg->gid != inside.gid)
		(void)snprintf(t->user, sizeof(t->user), "%u:%u", msg->uid, msg->gid);
}

/*
 * Mark execs that ran at the same time: the end of one must not be reported for another.
 */
static void note_company(const struct exec *ex)
{
	for (unsigned i = 0; i < init.n_execs; i++)
		if (init.execs[i].used && init.execs[i].pid > 0 && &init.execs[i] != ex)
			extras[i].shared = extra_of(ex)->shared = true;
}

/* The platform must have started a command by then. */
static uint64_t start_deadline(uint64_t since)
{
	return since + (uint64_t)shim_sandbox_patience() * 1000000000;
}

long spawn_child(struct plan *p, struct exec *ex)
{
	struct extra *x = extra_of(ex);
	bool quiet = p->stdio[2] == init.null && p->tty < 0;
	int ends[2], head;
	pid_t pid;

	*x = (struct extra){ .outcome = -1, .aside = -1 };
	if (this_sandbox.memory >= 0)
		(void)cgroup_kills(this_sandbox.memory, &x->kills);
	note_company(ex);
	set_target(&x->target, p->msg);
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	x->outcome = ends[0];
	ex->started = agent_now();
	ex->start_by = start_deadline(ex->started);
	head = is_bare() ? fcntl(ends[0], F_DUPFD_CLOEXEC, 3) : open_head(p, ex, x);
	pid = head < 0 ? head : fork();
	if (pid == 0) {
		become_child(p->stdio, ends[1], work_kill_gate());
		exec_run_command(p, x, quiet);
	}
	if (pid < 0) {
		long r = head < 0 ? head : -errno;

		if (head >= 0)
			(void)close(head);
		(void)close(ends[1]);
		(void)exec_status(ex, 0); /* closes the descriptors that are open */
		return r;
	}
	(void)close(ends[1]);
	ex->pid = pid;
	ex->start = head;
	x->sign_by = ex->started + SIGN_NS;
	hold_streams(ex);
	return watch_add(head, WATCH_START, (unsigned)(ex - init.execs), 0);
}

static void forget_head(struct exec *ex, const struct extra *x)
{
	watch_drop(ex->start);
	(void)close(ex->start);
	ex->start = -1;
	if (ex->tty && x->blocks)
		(void)fcntl(ex->input, F_SETFL, O_RDWR);
}

static void shim_exec_refuse(struct exec *ex, struct extra *x, int code,
			     enum proto_stage stage, const char *why)
{
	forget_head(ex, x);
	ex->failed = true;
	reply_why = why;
	spawn_failed(ex, -code, stage);
	reply_why = NULL;
}

static void accept_start(struct exec *ex, struct extra *x)
{
	forget_head(ex, x);
	reply_with(ex->asker, ex->seq, ex, false);
	if (ex->tty && ex->journal < 0) {
		(void)close(ex->input);
		ex->input = -1;
	}
	exec_release_streams(ex);
}

/* Handle the text after the mark. */
static void exec_judge(struct exec *ex, struct extra *x, const char *line)
{
	static const struct {
		const char *word;
		int code;
		enum proto_stage stage;
		const char *why;
	} noes[] = {
		{ "cwd", ENOENT, PROTO_STAGE_CWD, NULL },
		{ "mkdir", EOPNOTSUPP, PROTO_STAGE_CWD, SCRIPT_LACKS " mkdir" },
		{ "ENOENT", ENOENT, PROTO_STAGE_EXEC, NULL },
		{ "EACCES", EACCES, PROTO_STAGE_EXEC, NULL },
		{ "ENOEXEC", ENOEXEC, PROTO_STAGE_EXEC, NULL },
	};
	char *end;

	if (strncmp(line, " ok ", 4) == 0) {
		x->target.pid = (int)strtol(line + 4, &end, 10);
		x->target.start = procs_start(end);
		accept_start(ex, x);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(noes); i++) {
		if (strncmp(line, " no ", 4) == 0 &&
		    strcmp(line + 4, noes[i].word) == 0) {
			shim_exec_refuse(ex, x, noes[i].code, noes[i].stage, noes[i].why);
			return;
		}
	}
	shim_exec_refuse(ex, x, EPROTO, PROTO_STAGE_EXEC, NULL);
}

/* A line is complete: check whether it is the expected one. */
static void exec_take_line(struct exec *ex, struct extra *x)
{
	x->head[x->head_len] = '\0';
	if (x->head_len > 0 && x->head[x->head_len - 1] == '\r')
		x->head[x->head_len - 1] = '\0';
	if (strncmp(x->head, x->target.mark, MARK_LEN) == 0)
		exec_judge(ex, x, x->head + MARK_LEN);
	else if (x->head[0])
		(void)strcpy(x->why, x->head);
	x->head_len = 0;
}

/* Read the platform's own report, if there is one. */
static bool exec_read_outcome(struct extra *x, struct shim_outcome *o)
{
	return x->outcome >= 0 && read(x->outcome, o, sizeof(*o)) == sizeof(*o);
}

static void refuse_start(struct exec *ex, struct extra *x, struct shim_outcome *o)
{
	o->err.msg[sizeof(o->err.msg) - 1] = '\0';
	shim_exec_refuse(ex, x, o->code > 0 && o->code < 4096 ? o->code : EIO,
			 PROTO_STAGE_EXEC, o->err.msg[0] ? o->err.msg : NULL);
}

/* The process ended before any process inside reported. */
static void never_spoke(struct exec *ex, struct extra *x)
{
	struct shim_outcome o = { 0 };
	char why[PROTO_WHY_MAX];

	if (exec_read_outcome(x, &o) && o.verdict == SHIM_NOT_STARTED) {
		refuse_start(ex, x, &o);
		return;
	}
	if (x->head_len > 0)
		exec_take_line(ex, x);
	if (ex->start < 0)
		return;
	/* The exec has already timed out, so it no longer matters how long its start
	 * took. */
	if (ex->timed_out) {
		accept_start(ex, x);
		return;
	}
	(void)snprintf(why, sizeof(why), "%s: exec: %.400s", this_sandbox.name,
		       ex->start_by == 0 ? "the command did not start in time"
		       : x->why[0]       ? x->why
					 : "it ended before the command started");
	shim_exec_refuse(ex, x,
			 ex->start_by == 0 ? ETIMEDOUT
					   : script_errno(x->why, EREMOTEIO, NULL),
			 PROTO_STAGE_EXEC, why);
}

/* Without a shell, only the platform can report that the command has started. */
static void bare_started(struct exec *ex, struct extra *x, bool over)
{
	struct shim_outcome o = { 0 };

	if (!this_sandbox.driver->tells_start && !over) {
		accept_start(ex, x);
		return;
	}
	/* The command may have printed everything and ended; then it was started. */
	if (!exec_read_outcome(x, &o)) {
		if (over)
			never_spoke(ex, x);
	} else if (o.verdict == SHIM_NOT_STARTED) {
		refuse_start(ex, x, &o);
	} else {
		x->target.pid = o.verdict == SHIM_STARTED && o.code > 0 ? o.code : 0;
		accept_start(ex, x);
	}
}

/* Its output is not read any further; never_spoke() reports its end. */
static void said_too_much(struct exec *ex, struct extra *x, bool over)
{
	(void)strcpy(x->why, "the tool prints too much before the command starts");
	x->head_len = 0;
	x->end_by = agent_now();
	if (over)
		never_spoke(ex, x);
	else
		watch_drop(ex->start);
}

void spawn_started(struct exec *ex)
{
	struct extra *x = extra_of(ex);
	bool over;

	if (!ex->used || ex->start < 0)
		return;
	over = kill(ex->pid, 0) < 0; /* the process was reaped: this is the last call */
	if (is_bare()) {
		bare_started(ex, x, over);
		return;
	}
	for (unsigned i = 0; ex->start >= 0 && (i < AT_ONCE || over); i++) {
		char c;
		ssize_t n;

		if (x->head_read >= HEAD_ALL) {
			said_too_much(ex, x, over);
			return;
		}
		x->head_read++;
		n = read(ex->start, &c, 1);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN && !over)
			return;
		if (n <= 0) {
			/*
			 * The end of the process will be reported next, and determines
			 * the result.
			 */
			if (over)
				never_spoke(ex, x);
			else
				watch_drop(ex->start);
			return;
		}
		if (c == '\n' || x->head_len + 1 == sizeof(x->head))
			exec_take_line(ex, x);
		else
			x->head[x->head_len++] = c;
	}
}

/* --------------------------------------------------------------------- end of an exec */

/*
 * By convention, a shell reports signal N as exit status 128 + N; so do programs that
 * imitate one.
 */
static int by_convention(int status)
{
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;

	return code > 128 && code <= 128 + 31 ? code - 128 : status;
}

/*
 * Is the first process of the pid namespace exiting? While it exits, the kernel kills all
 * other processes. So in this case the sandbox is certainly ending, whatever the platform
 * reports about it.
 */
static bool is_ending(void)
{
	return this_sandbox.first >= 0 && proc_is_ending(this_sandbox.first);
}

/* Is it unknown how the exec would have ended? It is known if memory ran out. */
static bool exec_is_lost(const struct extra *x, const struct shim_outcome *o, bool told,
			 int status)
{
	bool killed = told ? o->verdict == SHIM_SIGNALED && o->code == SIGKILL
			   : WIFSIGNALED(status) || by_convention(status) == SIGKILL;
	uint64_t kills = 0;

	/*
	 * If there is no report, the shim killed the tool after the end of the sandbox.
	 */
	if (told ? o->verdict == SHIM_LOST : sandbox_is_dead())
		return true;
	if (!killed || (told && o->err.code == ENOMEM) ||
	    !(sandbox_is_dead() || is_ending()))
		return false;
	return this_sandbox.memory < 0 || cgroup_kills(this_sandbox.memory, &kills) < 0 ||
	       kills <= x->kills;
}

int exec_status(struct exec *ex, int status)
{
	struct extra *x = extra_of(ex);
	struct shim_outcome o = { 0 };
	bool told = false;

	while (exec_read_outcome(x, &o))
		told = o.verdict != SHIM_STARTED;
	if (x->outcome >= 0)
		(void)close(TAKE_FD(x->outcome));
	if (x->aside >= 0)
		(void)close(TAKE_FD(x->aside));
	x->end_by = 0;
	/* A timeout takes precedence over what the tool reports. */
	if (ex->timed_out)
		return SIGKILL;
	ex->gone = exec_is_lost(x, &o, told, status);
	if (told && o.verdict == SHIM_EXITED)
		return (o.code & 0xff) << 8;
	x->oom = told && o.verdict == SHIM_SIGNALED && o.err.code == ENOMEM;
	if (told && o.verdict == SHIM_SIGNALED)
		return o.code & 0x7f;
	return told ? 127 << 8 : by_convention(status);
}

/*
 * The tool ends by itself when the processes inside are dead. If they cannot be reached,
 * the shim ends the tool.
 */
void child_end(struct exec *ex)
{
	struct extra *x = extra_of(ex);

	if (x->end_by == 0 || x->end_by > agent_now() + GRACE_NS)
		x->end_by = agent_now() + GRACE_NS;
}

void child_spare(struct exec *ex)
{
	if (ex && ex->pid > 0)
		extra_of(ex)->end_by = agent_now() + SIGNAL_SECS * 1000000000ULL;
}

static uint64_t shim_exec_sooner(uint64_t a, uint64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

uint64_t child_next(void)
{
	uint64_t soonest = 0;

	for (unsigned i = 0; i < init.n_execs; i++) {
		const struct exec *ex = &init.execs[i];

		if (!ex->used)
			continue;
		soonest = shim_exec_sooner(soonest, extras[i].end_by);
		soonest =
			shim_exec_sooner(soonest, ex->start >= 0 ? extras[i].sign_by : 0);
	}
	return soonest;
}

static void exec_end_process(struct exec *ex, struct extra *x)
{
	(void)kill(-ex->pid, x->asked ? SIGKILL : SIGTERM);
	(void)kill(ex->pid, x->asked ? SIGKILL : SIGTERM);
	x->asked = true;
	x->end_by = agent_now() + GRACE_NS;
}

void child_deadlines(void)
{
	uint64_t t = agent_now();

	for (unsigned i = 0; i < init.n_execs; i++) {
		struct exec *ex = &init.execs[i];
		struct extra *x = &extras[i];

		if (!ex->used || ex->pid == 0)
			continue;
		if (x->end_by && x->end_by <= t)
			exec_end_process(ex, x);
		if (ex->start >= 0 && x->sign_by <= t) {
			conn_reply(ex->asker, ex->seq, -EINPROGRESS, PROTO_STAGE_NONE,
				   -1);
			x->sign_by = t + SIGN_NS;
			/* It starts when its files were copied. */
			if (ex->start_by && shim_sandbox_is_copied(&this_sandbox))
				ex->start_by = start_deadline(t);
		}
	}
}

/* ------------------------------------------------ functions that a shim does not need */

long group_make(struct exec *ex UNUSED, int *own UNUSED, int *n_own UNUSED)
{
	return 0;
}

long group_limit(struct exec *ex UNUSED, const struct proto_spawn *msg)
{
	return msg->memory || msg->cpu_millis || msg->pids ? -EOPNOTSUPP : 0;
}

void group_leave(struct exec *ex UNUSED)
{
}

/* Return the number of OOM kills of the exec. Even if the exec was not killed itself, it
 * may have lost a child, if no other exec ran. */
static uint32_t kills_since(const struct extra *x, int status)
{
	uint64_t n = 0;

	if (this_sandbox.memory < 0 || cgroup_kills(this_sandbox.memory, &n) < 0 ||
	    n <= x->kills ||
	    (x->shared && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)))
		return 0;
	return (uint32_t)(n - x->kills);
}

/*
 * Report no usage: the kernel counts only the process of the shim, and nothing is known
 * about processes inside.
 */
void group_account(const struct exec *ex, struct proto_exited *out)
{
	const struct extra *x = extra_of(ex);

	out->oom_kills = x->oom ? 1 : kills_since(x, out->status);
	out->user_usec = out->system_usec = out->max_memory = WARREN_UNKNOWN;
	out->read_bytes = out->written_bytes = WARREN_UNKNOWN;
}

int tree_first(const struct exec *ex)
{
	return child_target(ex)->pid;
}

int tree_newest(void)
{
	return 0;
}
