/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child.c - the child that becomes init: the isolation of a sandbox, as one table
 *
 * The child starts in new user, mount and pid namespaces, with all capabilities in them
 * and none on the host. Every step reduces its rights; the last one replaces it by init.
 * Until the root is pivoted, the host's mounts are visible (and needed). No code of the
 * image runs before the last step.
 *
 * Creating a network namespace takes as long as all the mounts, in one system call.
 * During that call, a second thread of the child mounts. The child itself does what
 * concerns the process that becomes init (its namespaces, ids, capabilities, filter). The
 * kernel keeps all of these per thread, so that the child can already be confined while
 * its thread still mounts. Both share one errno, so the child uses nolibc/sys.h during
 * that time.
 *
 * For a sandbox that is prepared in advance (prepared.c), the spec is not known yet. The
 * child becomes init at once, and leaves a process in the same namespaces that mounts
 * when the spec arrives. Its calls of pivot_root(2), out of the host's mounts before it
 * waits and then into the image, also change init's root: the kernel moves all processes
 * that have the old one. That process has finished before any code of the image runs.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "backend/native/create_op.h"
#include "base/clock.h"
#include "base/fd.h"
#include "nolibc/sys.h"
#include "os/caps.h"
#include "os/seccomp.h"
#include "os/sig.h"

static int child_make_namespaces(struct native_plan *p, struct warren_error *err)
{
	p->sysctls = open("/proc/sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (unshare(CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP) < 0)
		return error_errno(err, errno, "unshare");
	return 0;
}

static int make_network(struct native_plan *p, struct warren_error *err)
{
	long r = SYS_1(SYS_unshare, CLONE_NEWNET);

	if (r < 0)
		return error_errno(err, (int)-r, "unshare");
	if (p->sysctls >= 0) {
		ns_limit_sockets(p->sysctls);
		sys_close(p->sysctls);
	}
	p->sysctls = -1;
	return 0;
}

/* The engine's session, signal handlers and umask do not apply to the sandbox. */
static int child_leave_session(struct native_plan *p UNUSED,
			       struct warren_error *err UNUSED)
{
	(void)setsid();
	(void)umask(0);
	(void)personality(PER_LINUX); /* a caller under a debugger has address
					 randomisation disabled */
	sig_reset();
	return 0;
}

/*
 * Wait until the creator sends something. The end of the connection alone does not show
 * that the creator is gone: if several of its threads create sandboxes at the same time,
 * a sandbox may have inherited the creator's end of another sandbox's connection.
 */
static void await_maker(const struct native_plan *p, int sock)
{
	struct pollfd fds[] = { { .fd = sock, .events = POLLIN },
				{ .fd = p->maker, .events = POLLIN } };

	while (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno == EINTR)
		;
	if (!fds[0].revents && fds[1].revents)
		_exit(0);
}

/* Receive messages with descriptors until the last one. */
static int child_receive(struct native_plan *p, int sock, struct warren_error *err)
{
	struct proto_header h;
	bool more = true;

	while (more) {
		size_t n = ARRAY_SIZE(p->fds) - p->n_fds;
		ssize_t r;

		await_maker(p, sock);
		r = fd_recv(sock, &h, sizeof(h), p->fds + p->n_fds, &n, 0);
		if (r == 0)
			_exit(0); /* no process waits for the exit status */
		if (r < 0)
			return error_errno(err, (int)-r, "receive the mounts");
		p->n_fds += n;
		more = h.seq != 0;
	}
	return 0;
}

/*
 * Receive the descriptors of layers and volumes. Once they have arrived, this process's
 * ids are mapped.
 */
static int child_await_mounts(struct native_plan *p, struct warren_error *err)
{
	return child_receive(p, p->control, err);
}

/*
 * As above, for the second process of a part. With these descriptors, the plan is
 * complete.
 */
static int await_spec(struct native_plan *p, struct warren_error *err)
{
	int r = child_receive(p, p->stage, err);

	p->has_spec = r == 0;
	return r;
}

static int child_become_root(struct native_plan *p UNUSED, struct warren_error *err)
{
	/*
	 * A raw system call: the C library would first notify all threads of the process
	 * that it believes it is in. -EPERM: the one-id map of an ordinary user forbids
	 * it; the groups are not mapped anyway.
	 */
	long r = SYS_2(SYS_setgroups, 0, NULL);

	if (r < 0 && r != -EPERM)
		return error_errno(err, (int)-r, "setgroups");
	r = SYS_3(SYS_setresgid, 0, 0, 0);
	if (r == 0)
		r = SYS_3(SYS_setresuid, 0, 0, 0);
	if (r < 0)
		return error_errno(err, (int)-r, "become root of the user namespace");
	return 0;
}

static int set_network(struct native_plan *p, struct warren_error *err)
{
	return p->spec->network == WARREN_NETWORK_NONE ? 0 : ns_loopback(true, err);
}

static int start_network(struct native_plan *p UNUSED, struct warren_error *err)
{
	return ns_loopback(true, err);
}

static int stop_network(struct native_plan *p, struct warren_error *err)
{
	return p->spec->network == WARREN_NETWORK_NONE ? ns_loopback(false, err) : 0;
}

static int set_hostname(struct native_plan *p, struct warren_error *err)
{
	if (sethostname(p->hostname, strlen(p->hostname)) < 0)
		return error_errno(err, errno, "sethostname");
	return 0;
}

/*
 * For an ordinary user, whose engine may not create mounts: copy the cgroup's directories
 * for init before the root changes, because their paths then disappear.
 */
static int copy_cgroups(struct native_plan *p, struct warren_error *err)
{
	struct cgroup_handle handles[CGROUP_HANDLES_MAX];
	size_t n = 0;
	int r;

	for (size_t i = 0; i < PROTO_DIRS; i++)
		p->dirs[i] = -1;
	if (!p->cgroup)
		return 0;
	r = cgroup_copy_dirs(&p->engine->cgroups, p->cgroup, handles, &n, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		p->dirs[create_cgroup_role(&p->engine->cgroups, &handles[i]) -
			PROTO_ROLE_DIRS] = handles[i].fd;
	return 0;
}

/* Move @fd above the numbers that init uses. */
static int move_away(int *fd)
{
	*fd = fcntl(*fd, F_DUPFD_CLOEXEC, PROTO_FD_DIRS + PROTO_DIRS);
	return *fd < 0 ? -errno : 0;
}

/* Give @fd, which may be -1, the number that init expects. */
static int child_dup_fd(int fd, int number)
{
	if (fd < 0)
		return close(number) < 0 && errno != EBADF ? -errno : 0;
	return dup2(fd, number) < 0 ? -errno : 0;
}

/*
 * Leave exactly these descriptors for init: /dev/null three times, the connection, the
 * socket of a durable sandbox and its cgroup's directories (init_proto.h has the
 * numbers); the exec closes all others.
 */
static int tidy_descriptors(struct native_plan *p, struct warren_error *err)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), r = 0;
	int *moved[3 + PROTO_DIRS] = { &null, &p->control, &p->listener };

	p->init = fcntl(p->engine->init_fd, F_DUPFD_CLOEXEC, PROTO_FD_DIRS + PROTO_DIRS);
	if (p->init < 0)
		return error_errno(err, errno, "keep init's program");
	if (null < 0)
		return error_errno(err, errno, "open /dev/null inside");
	for (size_t i = 0; i < PROTO_DIRS; i++)
		moved[3 + i] = &p->dirs[i];
	for (size_t i = 0; i < ARRAY_SIZE(moved) && r == 0; i++)
		if (*moved[i] >= 0)
			r = move_away(moved[i]);
	for (int i = 0; i < 3 && r == 0; i++)
		r = child_dup_fd(null, i);
	if (r == 0)
		r = child_dup_fd(p->control, PROTO_FD_MAKER);
	if (r == 0)
		r = child_dup_fd(p->listener, PROTO_FD_LISTEN);
	for (int i = 0; i < PROTO_DIRS && r == 0; i++)
		r = child_dup_fd(p->dirs[i], PROTO_FD_DIRS + i);
	if (r < 0)
		return error_errno(err, -r, "place init's descriptors");
	p->control = PROTO_FD_MAKER;
	if (close_range(PROTO_FD_DIRS + PROTO_DIRS, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
		return error_errno(err, errno, "close_range");
	return 0;
}

/*
 * A part waits for a long time, and inherits all descriptors of its creator, including
 * connections to other sandboxes. Those sandboxes wait for the end of their connections,
 * so a part must not keep copies.
 */
static int keep_few(struct native_plan *p, struct warren_error *err)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int init = p->engine->init_fd;
	int *kept[] = { &null, &p->control, &p->listener, &p->stage, &p->maker, &init };
	static const int at[] = { 2, PROTO_FD_MAKER, PROTO_FD_LISTEN, 5, 6, 7 };

	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		*kept[i] = fcntl(*kept[i], F_DUPFD_CLOEXEC, 8);
		if (*kept[i] < 0)
			return error_errno(err, errno, "keep a descriptor");
	}
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		if (dup2(*kept[i], at[i]) < 0)
			return error_errno(err, errno, "place a descriptor");
		*kept[i] = at[i];
	}
	p->init = init;
	if (dup2(null, 0) < 0 || dup2(null, 1) < 0 || close_range(8, ~0U, 0) < 0 ||
	    close_range(5, 7, CLOSE_RANGE_CLOEXEC) < 0)
		return error_errno(err, errno, "close other descriptors");
	/*
	 * The current directory changes with the root only if it is the root; otherwise
	 * it would stay on the host.
	 */
	if (chdir("/") < 0)
		return error_errno(err, errno, "leave the creator's directory");
	/* No process inside may inspect the process that creates the mounts. */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return error_errno(err, errno, "prctl");
	return 0;
}

__attribute__((noreturn)) static void mounter_main(struct native_plan *p);

static int start_mounter(struct native_plan *p, struct warren_error *err)
{
	AUTO_CLOSE int pidfd = -1;
	pid_t pid = ns_clone(0, NS_CGROUP_SAME, &pidfd);

	if (pid == 0)
		mounter_main(p);
	return pid < 0 ? error_errno(err, -pid, "start a process for the mounts") : 0;
}

/*
 * A file with capabilities is as dangerous on the machine as one with set-id bits, and
 * the kernel translates them into those of the owner of an id-mapped directory.
 */
static uint64_t child_caps(const struct native_plan *p)
{
	return p->no_set_id ? caps_kept & ~(1ULL << CAP_SETFCAP) : caps_kept;
}

static int child_drop_capabilities(struct native_plan *p, struct warren_error *err)
{
	long r = SYS_2(SYS_prctl, PR_SET_DUMPABLE, 0);

	if (r == 0)
		r = SYS_2(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1);
	return r < 0 ? error_errno(err, (int)-r, "prctl")
		     : caps_reduce(child_caps(p), err);
}

/*
 * Become init's user, before the filter denies that id to all. The capabilities are
 * ambient, so that they survive the exec; init then drops them from that set. -EINVAL: an
 * ordinary user has no such id, and init stays root.
 */
static int become_init_user(struct native_plan *p, struct warren_error *err)
{
	long r = SYS_2(SYS_prctl, PR_SET_KEEPCAPS, 1);

	if (r == 0)
		r = SYS_3(SYS_setresgid, INIT_ID, INIT_ID, INIT_ID);
	if (r == -EINVAL)
		return 0;
	if (r == 0)
		r = SYS_3(SYS_setresuid, INIT_ID, INIT_ID, INIT_ID);
	if (r == -EINVAL)
		return SYS_3(SYS_setresgid, 0, 0, 0) == 0
			       ? 0
			       : error_errno(err, EPERM, "stay root");
	return r < 0 ? error_errno(err, (int)-r, "become init's user")
		     : caps_hand_down(child_caps(p), err);
}

static int tell_of_maps(struct native_plan *p, struct warren_error *err UNUSED)
{
	ns_aside_tell(&p->aside);
	return 0;
}

/*
 * The id maps are written by now, unless the thread failed. In that case this process
 * fails too, and the thread's error is reported.
 */
static int hear_of_maps(struct native_plan *p, struct warren_error *err UNUSED)
{
	ns_aside_listen(&p->aside);
	return 0;
}

static int child_load_filter(struct native_plan *p, struct warren_error *err)
{
	int r = p->no_set_id ? seccomp_load_no_set_id(err) : 0;

	return r < 0 ? r : seccomp_load(err);
}

static int start_init(struct native_plan *p, struct warren_error *err)
{
	char *argv[] = { (char *)(uintptr_t) "init", NULL };
	char *env[] = { NULL };

	(void)syscall(SYS_execveat, p->init, "", argv, env, AT_EMPTY_PATH);
	return error_errno(err, errno, "execute init");
}

enum phase {
	BEFORE,    /* run by the child, before the thread starts */
	MEANWHILE, /* run by the child, while the thread works */
	ASIDE,     /* run by the second thread */
	AFTER,     /* run by the child, after the thread */
	PART,      /* run by the child of a part */
	MOUNTER,   /* run by the process that a part leaves behind */
};

struct inside_row {
	const char *name;
	enum phase phase;
	int (*run)(struct native_plan *p, struct warren_error *err);
};

static const struct inside_row steps[] = {
	{ "leave the session", BEFORE, child_leave_session },
	{ "create the other namespaces", BEFORE, child_make_namespaces },
	{ "set the host name", BEFORE, set_hostname },
	{ "create the network", MEANWHILE,
	  make_network }, /* takes as long as all mounts */
	{ "set up the network", MEANWHILE, set_network },
	{ "receive the id maps", MEANWHILE, hear_of_maps },
	{ "become root inside", MEANWHILE, child_become_root },
	{ "drop the capabilities", MEANWHILE,
	  child_drop_capabilities }, /* no later step needs capabilities */
	{ "become init's user", MEANWHILE,
	  become_init_user }, /* the filter would refuse this */
	{ "load the filter", MEANWHILE,
	  child_load_filter }, /* the filter forbids most of the steps above */
	{ "wait for the id maps", ASIDE,
	  child_await_mounts }, /* from here on, this process has its mapped ids */
	{ "pass on the id maps", ASIDE, tell_of_maps },
	{ "become root to create mounts", ASIDE,
	  child_become_root }, /* so that files it creates belong to root */
	{ "copy the layers", ASIDE,
	  rootfs_copies }, /* needs no privileges; hides nothing */
	{ "copy the cgroup's directories", ASIDE,
	  copy_cgroups }, /* before their paths on the host disappear */
	{ "mount the scratch space", ASIDE,
	  rootfs_scratch }, /* limits the size of the root */
	{ "restore saved files", ASIDE, rootfs_restore },
	{ "mount the root", ASIDE, rootfs_trees },
	{ "mount /proc", ASIDE,
	  rootfs_proc }, /* before the pivot: needs the host's /proc */
	{ "hide mounts below the root", ASIDE, rootfs_hide },
	{ "mount /dev", ASIDE,
	  rootfs_dev }, /* before the pivot: copies the host's device nodes */
	{ "change the root", ASIDE,
	  rootfs_pivot }, /* from here on, every path leads inside */
	{ "mount the volumes", ASIDE,
	  rootfs_mounts }, /* the image chooses their targets */
	{ "seal the root", ASIDE,
	  rootfs_seal }, /* read-only, after everything in it has been created */
	{ "arrange the descriptors", AFTER,
	  tidy_descriptors }, /* last, because the steps above use descriptors too */
	{ "start init", AFTER, start_init },
};

/* The same steps, split where the spec must be known. */
static const struct inside_row part_steps[] = {
	{ "leave the session", PART, child_leave_session },
	{ "close the creator's descriptors", PART, keep_few },
	{ "create the other namespaces", PART, child_make_namespaces },
	{ "wait for the id maps", PART, child_await_mounts },
	{ "become root inside", PART, child_become_root },
	{ "create the network", PART, make_network },
	{ "set up the network", PART, start_network },
	{ "start the process for the mounts", PART, start_mounter },
	{ "drop the capabilities", PART, child_drop_capabilities },
	{ "become init's user", PART, become_init_user },
	{ "load the filter", PART, child_load_filter },
	{ "start init", PART, start_init },

	{ "mount the scratch space", MOUNTER, rootfs_scratch },
	{ "mount the common filesystems", MOUNTER, rootfs_stage },
	{ "leave the host's mounts", MOUNTER,
	  rootfs_leave }, /* a part may wait for days */
	{ "wait for the spec", MOUNTER, await_spec },
	{ "set the host name", MOUNTER, set_hostname },
	{ "take down the network", MOUNTER, stop_network },
	{ "resize the scratch space", MOUNTER, rootfs_fit },
	{ "restore saved files", MOUNTER, rootfs_restore },
	{ "mount the root", MOUNTER, rootfs_trees },
	{ "move /proc", MOUNTER, rootfs_place_proc },
	{ "mount /dev", MOUNTER, rootfs_dev },
	{ "change the root", MOUNTER, rootfs_pivot },
	{ "mount the volumes", MOUNTER, rootfs_mounts },
	{ "seal the root", MOUNTER, rootfs_seal },
};

_Static_assert(ARRAY_SIZE(steps) <= NATIVE_STEPS_MAX &&
		       ARRAY_SIZE(part_steps) <= NATIVE_STEPS_MAX,
	       "native_plan.times is too small");

size_t inside_n_steps(void)
{
	return ARRAY_SIZE(steps);
}

size_t inside_n_part_steps(void)
{
	return ARRAY_SIZE(part_steps);
}

struct warren_step inside_step(const struct native_plan *p, size_t i)
{
	const struct inside_row *row = p->part ? &part_steps[i] : &steps[i];
	bool thread = row->phase == ASIDE || row->phase == MOUNTER;

	return (struct warren_step){ row->name, p->times[i], thread ? 2 : 1 };
}

static int run_phase(struct native_plan *p, enum phase phase, struct warren_error *err)
{
	const struct inside_row *rows = p->part ? part_steps : steps;
	size_t n = p->part ? ARRAY_SIZE(part_steps) : ARRAY_SIZE(steps);

	for (size_t i = 0; i < n; i++) {
		int r = 0;

		if (rows[i].phase != phase)
			continue;
		if (p->inject == (int)i + 1 && p->crash)
			_exit(1);
		if (p->inject == (int)i + 1)
			r = error_errno(err, EIO, "injected");
		if (r == 0)
			r = rows[i].run(p, err);
		if (r < 0)
			return error_wrap(err, "%s", rows[i].name);
		if (p->engine->trace)
			p->times[i] = clock_now();
	}
	return 0;
}

static int run_aside(void *ctx)
{
	struct native_plan *p = ctx;

	return run_phase(p, ASIDE, &p->aside_err);
}

static int run_both(struct native_plan *p, struct warren_error *err)
{
	int r, r2;

	p->aside.run = run_aside;
	p->aside.ctx = p;
	r = ns_aside_start(&p->aside, err);
	if (r < 0)
		return r;
	r = run_phase(p, MEANWHILE, err);
	r2 = ns_aside_join(&p->aside);
	if (r2 < 0)
		*err = p->aside_err;
	return r2 < 0 ? r2 : r;
}

static void child_report(int sock, const struct warren_error *err)
{
	struct {
		struct proto_header h;
		struct warren_error err;
	} msg = { .h = { .version = PROTO_VERSION, .type = PROTO_FAILED }, .err = *err };

	(void)fd_send(sock, &msg, sizeof(msg), NULL, 0);
}

void inside_take_descriptors(struct native_plan *p)
{
	struct warren_error err = WARREN_ERROR_INIT;

	if (!p->shares_fds || close_range(NATIVE_FDS_KEPT, ~0U, CLOSE_RANGE_UNSHARE) == 0)
		return;
	(void)error_errno(&err, errno, "copy the descriptors");
	child_report(p->control, &err);
	_exit(1);
}

static void mounter_main(struct native_plan *p)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct proto_ready ready = { .h = { PROTO_VERSION, PROTO_READY, 0 } };

	/* Only init needs these. */
	(void)close(PROTO_FD_MAKER);
	(void)close(PROTO_FD_LISTEN);
	if (run_phase(p, MOUNTER, &err) < 0)
		child_report(p->stage, &err);
	else
		(void)fd_send(p->stage, &ready, sizeof(ready), p->dirs + DIR_UPPER,
			      DIRS_OF_ROOT);
	_exit(0);
}

void inside_main(struct native_plan *p)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int r = run_phase(p, p->part ? PART : BEFORE, &err);

	if (r == 0)
		r = run_both(p, &err);
	if (r == 0)
		(void)run_phase(p, AFTER, &err);
	child_report(p->control, &err);
	_exit(1);
}
