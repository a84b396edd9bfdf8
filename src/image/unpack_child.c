/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack_child.c - the confinement of processes that parse untrusted bytes, as one table
 *
 * A child is forked and executes no other program; the libraries that it needs are
 * already loaded. It starts in its own user and pid namespaces. The parent maps its ids;
 * at the same time, the child creates its other namespaces. Its root is the directory to
 * fill (or an empty one), through a mount that follows no links, executes no programs and
 * opens no devices. In the end it has one or two streams, a connection for its report,
 * and almost no capabilities. Only then does it begin to read.
 *
 * After the root has changed, the C library must not read any file, because that file
 * would come from the archive.
 */
#include <linux/sched.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "image/unpack_internal.h"
#include "os/caps.h"
#include "os/mount.h"
#include "os/ns.h"
#include "os/seccomp.h"

#define CAP_BIT(cap) (1ULL << (cap))
#define PLAIN                                                       \
	(MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC | \
	 MOUNT_ATTR_NOSYMFOLLOW)

/* The descriptors of a child; 2 is /dev/null, and so is 1 if there is no output. */
enum {
	FD_IN = 0,
	FD_OUT = 1,
	FD_NULL = 2,
	FD_CONTROL = 3,
	FD_DIR = 4, /* closed once it is mounted */
	FD_KEPT = 5,
};

struct setup {
	const struct unpack_job *job;
	int control;
	int root; /* the mount that becomes the root */
};

bool unpack_own_ids(void)
{
	return geteuid() == 0 && caps_have(CAP_SYS_ADMIN);
}

/* ------------------------------------------------------------ steps of the child */

static int unpack_child_leave_session(struct setup *s, struct warren_error *err)
{
	sigset_t none;

	(void)s;
	(void)setsid();
	(void)umask(0);
	(void)sigemptyset(&none);
	if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
		return error_errno(err, errno, "sigprocmask");
	(void)signal(SIGCHLD, SIG_DFL);
	/* Ignore SIGPIPE, because the error of write(2) is more precise. */
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGXFSZ, SIG_IGN);
	return 0;
}

/* Move the descriptors away from the new numbers first, then to these numbers. */
static int unpack_child_dup_fds(struct setup *s, struct warren_error *err)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int from[FD_KEPT] = {
		[FD_IN] = s->job->in,   [FD_OUT] = s->job->out < 0 ? null : s->job->out,
		[FD_NULL] = null,       [FD_CONTROL] = s->control,
		[FD_DIR] = s->job->dir,
	};

	for (int i = 0; i < FD_KEPT; i++) {
		if (i == FD_DIR && s->job->dir < 0)
			continue;
		from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, FD_KEPT);
		if (from[i] < 0)
			return error_errno(err, errno, "keep descriptor %d", i);
	}
	for (int i = 0; i < FD_KEPT; i++) {
		int r = from[i] < 0 ? close(i) : dup2(from[i], i);

		if (r < 0 && from[i] >= 0)
			return error_errno(err, errno, "place descriptor %d", i);
	}
	if (close_range(FD_KEPT, ~0U, 0) < 0)
		return error_errno(err, errno, "close_range");
	s->control = FD_CONTROL;
	return 0;
}

static int unpack_child_make_namespaces(struct setup *s, struct warren_error *err)
{
	/*
	 * In the copied mount namespace, the directory is found through the working
	 * directory.
	 */
	if (s->job->dir >= 0 && fchdir(FD_DIR) < 0)
		return error_errno(err, errno, "enter the directory");
	if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
		    CLONE_NEWCGROUP) < 0)
		return error_errno(err, errno, "unshare");
	return 0;
}

/* One byte means that the ids are mapped. The mount arrives with it, if there is one. */
static int await_maps(struct setup *s, struct warren_error *err)
{
	char byte;
	size_t n = 1;
	ssize_t r = fd_recv(FD_CONTROL, &byte, 1, &s->root, &n, 0);

	if (r == 0)
		_exit(0); /* no process waits for the exit status */
	if (r < 0)
		return error_errno(err, (int)-r, "receive the mount");
	if (n == 0)
		s->root = -1;
	return 0;
}

static int unpack_child_become_root(struct setup *s, struct warren_error *err)
{
	(void)s;
	/* -EPERM: the one-id map of an ordinary user forbids it. */
	if (syscall(SYS_setgroups, 0, NULL) < 0 && errno != EPERM)
		return error_errno(err, errno, "setgroups");
	if (syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
		return error_errno(err, errno, "become root of the user namespace");
	return 0;
}

static int mount_root(struct setup *s, struct warren_error *err)
{
	static const struct mount_option nothing[] = { { "mode", "0555" },
						       { "size", "4096" },
						       { "nr_inodes", "1" },
						       { NULL, NULL } };
	int r = 0;

	if (s->job->dir < 0)
		r = mount_new("tmpfs", nothing, PLAIN | MOUNT_ATTR_RDONLY, &s->root, err);
	else if (s->root < 0)
		r = mount_copy(AT_FDCWD, "", false, PLAIN, -1, &s->root, err);
	/* Mount it over the copied root, which always exists. */
	return r < 0 ? r : mount_attach(s->root, AT_FDCWD, "/", err);
}

static int change_root(struct setup *s, struct warren_error *err)
{
	if (fchdir(s->root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
		return error_errno(err, errno, "pivot_root");
	if (umount2(".", MNT_DETACH) < 0)
		return error_errno(err, errno, "detach the machine's mounts");
	if (chdir("/") < 0)
		return error_errno(err, errno, "enter the new root");
	if (close_range(FD_DIR, ~0U, 0) < 0)
		return error_errno(err, errno, "close_range");
	return 0;
}

static int unpack_child_set_limits(struct setup *s, struct warren_error *err)
{
	const struct {
		int what;
		rlim_t value;
	} limits[] = {
		{ RLIMIT_CORE, 0 },
		{ RLIMIT_NPROC, 1 }, /* itself */
		{ RLIMIT_NOFILE, 32 },
		/* A sanitizer's shadow memory is larger than any limit. */
		{ RLIMIT_AS, SANITIZED ? RLIM_INFINITY : 2UL << 30 },
		{ RLIMIT_FSIZE, s->job->dir < 0 ? 0 : 1UL << 40 }, /* holes included */
	};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct rlimit old, new = { limits[i].value, limits[i].value };

		if (getrlimit((__rlimit_resource_t)limits[i].what, &old) < 0)
			return error_errno(err, errno, "getrlimit");
		if (new.rlim_max > old.rlim_max)
			new.rlim_cur = new.rlim_max = old.rlim_max;
		if (setrlimit((__rlimit_resource_t)limits[i].what, &new) < 0)
			return error_errno(err, errno, "setrlimit");
	}
	return 0;
}

static int unpack_child_drop_capabilities(struct setup *s, struct warren_error *err)
{
	uint64_t keep = 0;

	/*
	 * These capabilities are needed to write into read-only directories, and to set
	 * their modes at the end.
	 */
	if (s->job->dir >= 0)
		keep = CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_FOWNER);
	if (s->job->dir >= 0 && s->job->rules->own_ids)
		keep |= CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_FSETID) | CAP_BIT(CAP_SETFCAP);
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return error_errno(err, errno, "prctl");
	return caps_reduce(keep, err);
}

static int unpack_child_load_filter(struct setup *s, struct warren_error *err)
{
	(void)s;
	return seccomp_load(err);
}

static const struct {
	const char *name;
	int (*run)(struct setup *s, struct warren_error *err);
} steps[] = {
	{ "leave the session", unpack_child_leave_session },
	{ "place the descriptors", unpack_child_dup_fds }, /* all others are closed */
	{ "create the namespaces", unpack_child_make_namespaces },
	{ "wait for the id maps", await_maps },
	{ "become root inside",
	  unpack_child_become_root }, /* so that created files belong to root */
	{ "mount the root", mount_root },
	{ "change the root", change_root }, /* from here on, every path leads inside */
	{ "set the limits", unpack_child_set_limits },
	{ "drop the capabilities",
	  unpack_child_drop_capabilities }, /* no later step needs capabilities */
	{ "load the filter",
	  unpack_child_load_filter }, /* the filter forbids most of the steps above */
};

static int do_job(const struct unpack_job *job, struct unpack_report *ret,
		  struct warren_error *err)
{
	AUTO_CLOSE int root = -1;

	if (job->dir < 0)
		return unpack_inflate(FD_IN, FD_OUT, err);
	root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return error_errno(err, errno, "open the root");
	return unpack_untar(FD_IN, root, job->rules, ret, err);
}

/* The environment may contain passwords. This process has its own copy. */
static void forget_environment(void)
{
	for (char **e = environ; e && *e; e++)
		explicit_bzero(*e, strlen(*e));
	(void)clearenv();
}

_Noreturn static void unpack_child_main(const struct unpack_job *job, int control)
{
	struct setup s = { .job = job, .control = control, .root = -1 };
	struct unpack_report report = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	int r = 0;

	forget_environment();
	unpack_warm_up();
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(steps); i++) {
		r = steps[i].run(&s, &err);
		if (r < 0)
			(void)error_wrap(&err, "%s", steps[i].name);
	}
	if (r == 0)
		r = do_job(job, &report, &err);
	if (r < 0)
		report.err = err;
	(void)fd_send(s.control, &report, sizeof(report), NULL, 0);
	_exit(r < 0);
}

/* --------------------------------------------------------------- steps of the parent */

static void map_ids(bool privileged, struct ns_maps *ret)
{
	*ret = (struct ns_maps){ .n_uid = 1, .n_gid = 1 };
	if (privileged) {
		ret->uid[0] = ret->gid[0] =
			(struct ns_map){ 0, UNPACK_ID_BASE, UNPACK_IDS };
		return;
	}
	ret->uid[0] = (struct ns_map){ 0, geteuid(), 1 };
	ret->gid[0] = (struct ns_map){ 0, getegid(), 1 };
}

/* Map the ids of the new process, and those of its view of the directory, to the ids on
 * disk. */
static int unpack_child_admit(const struct unpack_job *job, pid_t pid, int control,
			      bool privileged, struct warren_error *err)
{
	AUTO_CLOSE int userns = -1, mount = -1;
	struct ns_maps maps;
	int r;

	map_ids(privileged, &maps);
	r = ns_write_maps(pid, &maps, privileged, err);
	if (r < 0)
		return r;
	if (privileged && job->dir >= 0) {
		userns = ns_open(pid, "user");
		if (userns < 0)
			return error_errno(err, -userns, "open the user namespace");
		r = mount_copy(job->dir, "", false, PLAIN, userns, &mount, err);
		if (r < 0)
			return r;
	}
	r = fd_send(control, "", 1, &mount, mount >= 0);
	return r < 0 ? error_errno(err, -r, "send the mount") : 0;
}

int unpack_child_start(const struct unpack_job *job, struct unpack_child *ret,
		       struct warren_error *err)
{
	bool privileged = unpack_own_ids();
	int pair[2], pidfd = -1, r;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_errno(err, errno, "create a connection");
	pid = ns_clone(CLONE_NEWUSER | CLONE_NEWPID | CLONE_CLEAR_SIGHAND, NS_CGROUP_SAME,
		       &pidfd);
	if (pid == 0) {
		(void)close(pair[0]);
		unpack_child_main(job, pair[1]);
	}
	(void)close(pair[1]);
	if (pid < 0) {
		(void)close(pair[0]);
		return error_errno(err, -pid, "start a confined process");
	}
	*ret = (struct unpack_child){
		.name = job->name, .pid = pid, .pidfd = pidfd, .control = pair[0]
	};
	r = unpack_child_admit(job, pid, pair[0], privileged, err);
	if (r < 0)
		unpack_child_done(ret);
	return r;
}

/* Explain the end of a child that reported nothing. */
static int unpack_child_died(struct unpack_child *c, struct warren_error *err)
{
	siginfo_t info = { 0 };

	(void)waitid(P_PIDFD, (id_t)c->pidfd, &info, WEXITED | WNOWAIT);
	if (info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED)
		return error_set(err, EPIPE, "%s: the process was killed by signal %d",
				 c->name, info.si_status);
	return error_set(err, EPIPE, "%s: the process ended without a message", c->name);
}

/* Make a message printable, because the process may be compromised. */
static int unpack_child_pass_on(const struct unpack_child *c,
				struct unpack_report *report, struct warren_error *err)
{
	char *msg = report->err.msg;

	msg[sizeof(report->err.msg) - 1] = '\0';
	for (; *msg; msg++)
		if (*msg < 0x20 || *msg > 0x7e)
			*msg = '?';
	if (report->err.code < 0 || report->err.code > 4095)
		report->err.code = EPROTO;
	if (report->err.code == 0)
		return 0;
	*err = report->err;
	return error_wrap(err, "%s", c->name);
}

int unpack_child_finish(struct unpack_child *c, const struct unpack_watch *watch,
			struct unpack_report *ret, struct warren_error *err)
{
	struct pollfd p = { .fd = c->control, .events = POLLIN };
	struct unpack_report report;
	size_t n_fds = 0;
	ssize_t n;
	int r;

	r = unpack_poll(&p, 1, UNPACK_STALL, watch, err);
	if (r < 0)
		return r;
	if (r == 0)
		return error_set(err, ETIMEDOUT, "%s: the process hangs", c->name);
	n = fd_recv(c->control, &report, sizeof(report), NULL, &n_fds, 0);
	if (n != (ssize_t)sizeof(report))
		return unpack_child_died(c, err);
	r = unpack_child_pass_on(c, &report, err);
	if (r == 0)
		*ret = report;
	return r;
}

void unpack_child_done(struct unpack_child *c)
{
	siginfo_t info;

	if (c->pid > 0) {
		(void)syscall(SYS_pidfd_send_signal, c->pidfd, SIGKILL, NULL, 0);
		while (waitid(P_PIDFD, (id_t)c->pidfd, &info, WEXITED) < 0 &&
		       errno == EINTR)
			;
	}
	if (c->pidfd >= 0)
		(void)close(c->pidfd);
	if (c->control >= 0)
		(void)close(c->control);
	*c = (struct unpack_child)UNPACK_CHILD_INIT;
}
