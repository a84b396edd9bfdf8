/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inside.c - the child that becomes init: the isolation of a sandbox, as one table
 *
 * The child starts in user, mount and pid namespaces of its own with all
 * capabilities in them and none on the host. Every step narrows what it can
 * do; the last one replaces it by init. Until the root is pivoted, the host's
 * mounts are in sight (and needed); nothing of the image runs before the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "backend/native/native.h"
#include "base/clock.h"
#include "base/fd.h"
#include "os/caps.h"
#include "os/seccomp.h"
#include "os/sig.h"

static struct ns_net net; /* the child is a process of its own: this is its copy */

static int make_namespaces(struct native_plan *p UNUSED, struct warren_error *err)
{
	if (unshare(CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP) < 0)
		return error_errno(err, errno, "unshare");
	return ns_net_start(&net, err);
}

/* The engine's session, handlers and umask are its own business. */
static int leave_session(struct native_plan *p UNUSED, struct warren_error *err UNUSED)
{
	(void)setsid();
	(void)umask(0);
	(void)personality(
		PER_LINUX); /* a debugger's caller has no randomised addresses */
	sig_reset();
	return 0;
}

/* The descriptors of layers and volumes; their coming means that our ids are mapped. */
static int await_mounts(struct native_plan *p, struct warren_error *err)
{
	struct proto_header h;
	bool more = true;

	while (more) {
		size_t n = ARRAY_SIZE(p->fds) - p->n_fds;
		ssize_t r = fd_recv(p->control, &h, sizeof(h), p->fds + p->n_fds, &n, 0);

		if (r == 0)
			_exit(0); /* nobody is there to whom a failure would matter */
		if (r < 0)
			return error_errno(err, (int)-r, "receive the mounts");
		p->n_fds += n;
		more = h.seq != 0;
	}
	return 0;
}

static int become_root(struct native_plan *p UNUSED, struct warren_error *err)
{
	/*
	 * By system call: the C library would first tell all threads of the process
	 * it believes it is in. -EPERM: the one-id map of an ordinary user forbids
	 * it, and his groups are not mapped anyway.
	 */
	if (syscall(SYS_setgroups, 0, NULL) < 0 && errno != EPERM)
		return error_errno(err, errno, "setgroups");
	if (syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
		return error_errno(err, errno, "become root of the user namespace");
	return 0;
}

static int set_network(struct native_plan *p, struct warren_error *err)
{
	int r = ns_net_join(&net, err);

	if (r < 0)
		return r;
	if (p->spec->network == WARREN_NETWORK_LOOPBACK)
		return ns_loopback_up(err);
	return 0;
}

static int set_hostname(struct native_plan *p, struct warren_error *err)
{
	if (sethostname(p->hostname, strlen(p->hostname)) < 0)
		return error_errno(err, errno, "sethostname");
	return 0;
}

/* Exactly /dev/null three times, the connection, and all else closed by the exec. */
static int tidy_descriptors(struct native_plan *p, struct warren_error *err)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	/* Out of the way of the four: the engine may hold it on any number. */
	p->init = fcntl(p->engine->init_fd, F_DUPFD_CLOEXEC, 4);
	if (p->init < 0)
		return error_errno(err, errno, "keep init's program");
	if (null < 0)
		return error_errno(err, errno, "open /dev/null inside");
	if (dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
		return error_errno(err, errno, "place /dev/null");
	if (p->control != 3 && dup2(p->control, 3) < 0)
		return error_errno(err, errno, "place the connection");
	if (p->control == 3 && fcntl(3, F_SETFD, 0) < 0)
		return error_errno(err, errno, "keep the connection");
	if (p->control != 3) {
		(void)close(p->control);
		p->control = 3;
	}
	if (close_range(4, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
		return error_errno(err, errno, "close_range");
	return 0;
}

static int drop_capabilities(struct native_plan *p UNUSED, struct warren_error *err)
{
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return error_errno(err, errno, "prctl");
	return caps_reduce(caps_kept, err);
}

static int load_filter(struct native_plan *p UNUSED, struct warren_error *err)
{
	return seccomp_load(err);
}

static int start_init(struct native_plan *p, struct warren_error *err)
{
	char *argv[] = { (char *)(uintptr_t) "init", NULL };
	char *env[] = { NULL };

	(void)syscall(SYS_execveat, p->init, "", argv, env, AT_EMPTY_PATH);
	return error_errno(err, errno, "execute init");
}

static const struct {
	const char *name;
	int (*run)(struct native_plan *p, struct warren_error *err);
} steps[] = {
	{ "leave the session", leave_session },
	{ "make the namespaces",
	  make_namespaces }, /* the network's by a thread of its own */
	{ "wait for the id maps", await_mounts }, /* from here on we are somebody */
	{ "become root inside", become_root },    /* so that what we make is root's */
	{ "set the host name", set_hostname },
	{ "copy the layers", rootfs_copies }, /* without privileges; hides nothing yet */
	{ "mount the scratch space",
	  rootfs_scratch }, /* bounds what the root may grow to */
	{ "mount the root", rootfs_trees },
	{ "mount /proc", rootfs_proc }, /* needs the host's in sight: before the pivot */
	{ "mount /dev", rootfs_dev },   /* copies the host's nodes: before the pivot */
	{ "set up the network", set_network }, /* here, since it took its time */
	{ "change the root", rootfs_pivot },   /* from here on every path ends inside */
	{ "mount the volumes",
	  rootfs_mounts }, /* whose targets are the image's to name */
	{ "seal the root",
	  rootfs_seal }, /* read-only, once nothing is to be made in it */
	{ "tidy the descriptors", tidy_descriptors },
	{ "drop the capabilities", drop_capabilities }, /* nothing below may need them */
	{ "load the filter", load_filter },             /* it forbids most of the above */
	{ "start init", start_init },
};

_Static_assert(ARRAY_SIZE(steps) <= NATIVE_STEPS_MAX, "native_plan.times is too small");

size_t inside_n_steps(void)
{
	return ARRAY_SIZE(steps);
}

const char *inside_step_name(size_t i)
{
	return steps[i].name;
}

static void report(const struct native_plan *p, const struct warren_error *err)
{
	struct {
		struct proto_header h;
		struct warren_error err;
	} msg = { .h = { .version = PROTO_VERSION, .type = PROTO_FAILED }, .err = *err };

	(void)fd_send(p->control, &msg, sizeof(msg), NULL, 0);
}

void inside_main(struct native_plan *p)
{
	struct warren_error err = WARREN_ERROR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		int r = 0;

		if (p->inject == (int)i + 1 && p->crash)
			_exit(1);
		if (p->inject == (int)i + 1)
			r = error_errno(&err, EIO, "injected");
		if (r == 0)
			r = steps[i].run(p, &err);
		if (r < 0) {
			(void)error_wrap(&err, "%s", steps[i].name);
			report(p, &err);
			_exit(1);
		}
		if (p->engine->trace)
			p->times[i] = clock_now();
	}
	_exit(1);
}
