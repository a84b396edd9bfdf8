/* SPDX-License-Identifier: Apache-2.0 */
/*
 * floor.c - a sandbox with the same kernel objects as Warren's, and nothing else
 *
 * This measures how long the kernel needs on this machine, for comparison with Warren:
 * user, mount, pid, network, ipc, uts and cgroup namespaces, 65,536 ids, loopback up,
 * cgroups with limits, one overlay on one tmpfs over the layers of `host`, /proc with as
 * many masks, /dev with its nodes and devpts, the pivot, capabilities, Warren's filter,
 * and a tiny static program as pid 1. There is no registry, no spec, no useful error
 * message, no protection against a hostile image, no protocol, and no cleanup after a
 * crash.
 *
 *	the caller			the child, in the caller's memory (CLONE_VM)
 *	clones it			creates its namespaces
 *	writes its ids, copies layers	waits for that
 *	creates the cgroups		mounts, pivots, confines itself
 *	waits for a byte		executes idle.c, which sends one
 *
 * The two share descriptors until the child has what it needs. They also share errno, so
 * the child uses only return values.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/securebits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "bench.h"
#include "image/image.h"
#include "nolibc/sys.h"
#include "os/caps.h"
#include "os/cgroup.h"
#include "os/mount.h"
#include "os/ns.h"
#include "os/seccomp.h"

#define STATE_DIR "/var/lib/warren"
#define IDLE      "warren-bench-idle"
#define IDS       65537U
/* Multiples of IDS would share a bucket in the kernel's table of users. */
#define APART    65537U
#define FIRST_ID 0x70000000U /* above the ids of any engine */
#define RANGES   0xfffU
/* Descriptors of sandboxes have higher numbers, so that the child does not copy them. */
#define FDS_KEPT   512
#define STACK_SIZE (64U << 10)
#define PLAIN      (MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID)
#define LOOK_ONLY  (PLAIN | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY)

struct floor {
	struct cgroup_root cgroups;
	struct cgroup_limits limits;
	struct image image;
	int program; /* idle.c, sealed */
	unsigned made;

	/* The sandbox that is being created, which is shared with its child. */
	struct floor_sandbox *sandbox;
	int child_end;
	int layers[IMAGE_MOUNTS_MAX];
	uint32_t mapped; /* a futex: set when the ids are written and the layers exist */
	const char *doing;
	struct warren_error err;
	_Alignas(16) char stack[STACK_SIZE];
};

struct floor_sandbox {
	struct floor *floor;
	char id[32];
	pid_t pid;
	int pidfd, sock;
};

/* ---------------------------------------------------------------- steps of the child */

static int namespaces(struct floor *f)
{
	struct warren_error *err = &f->err;

	if (unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP) < 0 ||
	    ns_loopback(true, err) < 0)
		return -1;
	return sethostname("floor", 5);
}

static int identity(struct floor *f)
{
	(void)ns_await(&f->mapped, 1);
	if (SYS_0(SYS_setsid) < 0 || SYS_2(SYS_setgroups, 0, NULL) < 0 ||
	    SYS_3(SYS_setresgid, 0, 0, 0) < 0 || SYS_3(SYS_setresuid, 0, 0, 0) < 0)
		return -1;
	return close_range(FDS_KEPT, ~0U, CLOSE_RANGE_UNSHARE);
}

/* The id of the boot, which each sandbox has for itself. */
static bool write_id(const char *path)
{
	static const char text[] = "00000000-0000-4000-8000-000000000000\n";
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
	bool done = fd >= 0 && write(fd, text, sizeof(text) - 1) == sizeof(text) - 1;

	if (fd >= 0)
		(void)close(fd);
	return done;
}

static int root(struct floor *f)
{
	static const struct mount_option bounds[] = { { "size", "1g" },
						      { "nr_inodes", "100000" },
						      { "mode", "0755" },
						      { NULL, NULL } };
	const struct mount_option stack[] = { { "lowerdir", f->image.lowers },
					      { "upperdir", "u" },
					      { "workdir", "w" },
					      { "userxattr", NULL },
					      { NULL, NULL } };
	struct warren_error *err = &f->err;
	int scratch, top;

	if (mount_new("tmpfs", bounds, PLAIN, &scratch, err) < 0 ||
	    mount_attach(scratch, AT_FDCWD, "/tmp", err) < 0 || fchdir(scratch) < 0 ||
	    mkdir("r", 0755) < 0 || mkdir("u", 0755) < 0 || mkdir("w", 0755) < 0 ||
	    mkdir("la", 0755) < 0 || mkdir("s", 01777) < 0 || mkdir("m", 0755) < 0 ||
	    mkdir("m/d", 0555) < 0 || mknod("m/f", S_IFREG | 0444, 0) < 0 ||
	    !write_id("m/b") || mount_attach(f->layers[0], AT_FDCWD, "la", err) < 0 ||
	    mount_new("overlay", stack, PLAIN, &top, err) < 0 ||
	    mount_attach(top, AT_FDCWD, "r", err) < 0 || fchdir(top) < 0)
		return -1;
	for (size_t i = 1; i < f->image.n_mounts; i++)
		if (mount_attach(f->layers[i], AT_FDCWD, f->image.mounts[i].at, err) < 0)
			return -1;
	return 0;
}

/* A kernel has about a dozen of these paths; for the others, only the lookup costs
 * time. */
static const char *const masked[] = {
	"proc/kcore",         "proc/keys",       "proc/key-users",     "proc/kallsyms",
	"proc/kmsg",          "proc/slabinfo",   "proc/timer_list",    "proc/timer_stats",
	"proc/sched_debug",   "proc/interrupts", "proc/cmdline",       "proc/config.gz",
	"proc/modules",       "proc/iomem",      "proc/sysrq-trigger", "proc/ioports",
	"proc/latency_stats", "proc/locks",      "proc/diskstats",     "proc/partitions",
	"proc/buddyinfo",     "proc/zoneinfo",   "proc/softirqs",      "proc/schedstat",
};

static const char *const masked_dirs[] = { "proc/acpi",     "proc/scsi", "proc/asound",
					   "proc/pressure", "proc/bus",  "proc/irq",
					   "proc/fs" };

static const char *const read_only[] = { "proc/sys" };

static bool bind_over(const char *from, const char *to)
{
	long r = SYS_5(SYS_mount, from, to, NULL, MS_BIND, NULL);

	return r == 0 || r == -ENOENT;
}

static int proc(struct floor *f)
{
	struct warren_error *err = &f->err;
	int fd, copy;

	if (mount_new("proc", NULL, PLAIN | MOUNT_ATTR_NOEXEC, &fd, err) < 0 ||
	    mount_attach(fd, AT_FDCWD, "proc", err) < 0 ||
	    mount_copy(AT_FDCWD, "/tmp/m", false, LOOK_ONLY, -1, &copy, err) < 0 ||
	    mount_attach(copy, AT_FDCWD, "/tmp/m", err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(read_only); i++)
		if (mount_copy(AT_FDCWD, read_only[i], false, LOOK_ONLY, -1, &copy, err) <
			    0 ||
		    mount_attach(copy, AT_FDCWD, read_only[i], err) < 0)
			return -1;
	for (size_t i = 0; i < ARRAY_SIZE(masked); i++)
		if (!bind_over("/tmp/m/f", masked[i]))
			return -1;
	for (size_t i = 0; i < ARRAY_SIZE(masked_dirs); i++)
		if (!bind_over("/tmp/m/d", masked_dirs[i]))
			return -1;
	return bind_over("/tmp/m/b", "proc/sys/kernel/random/boot_id") ? 0 : -1;
}

static int dev(struct floor *f)
{
	static const char *const nodes[] = { "/dev/null",   "/dev/zero",    "/dev/full",
					     "/dev/random", "/dev/urandom", "/dev/tty" };
	static const struct mount_option options[] = { { "ptmxmode", "0666" },
						       { "mode", "0620" },
						       { "max", "256" },
						       { NULL, NULL } };
	struct mount_attr ro = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
					     MOUNT_ATTR_NOEXEC };
	struct warren_error *err = &f->err;
	int fd;

	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++)
		if (!bind_over(nodes[i], nodes[i] + 1) ||
		    mount_setattr(AT_FDCWD, nodes[i] + 1, 0, &ro, sizeof(ro)) < 0)
			return -1;
	if (!bind_over("/tmp/s", "dev/shm") ||
	    mount_new("devpts", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, &fd,
		      err) < 0)
		return -1;
	return mount_attach(fd, AT_FDCWD, "dev/pts", err);
}

static int pivot(struct floor *f UNUSED)
{
	return syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0
		       ? -1
		       : chdir("/");
}

static int confine(struct floor *f)
{
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return caps_reduce(caps_kept, &f->err) < 0 ? -1 : seccomp_load(&f->err);
}

static int execute(struct floor *f)
{
	char *argv[] = { (char *)(uintptr_t) "idle", NULL }, *env[] = { NULL };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int program = fcntl(f->program, F_DUPFD_CLOEXEC, 4);
	int sock = fcntl(f->child_end, F_DUPFD_CLOEXEC, 4);

	if (null < 0 || program < 0 || sock < 0 || dup2(null, 0) < 0 ||
	    dup2(null, 1) < 0 || dup2(null, 2) < 0 || dup2(sock, 3) < 0 ||
	    close_range(4, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
		return -1;
	return (int)syscall(SYS_execveat, program, "", argv, env, AT_EMPTY_PATH);
}

static const struct {
	const char *name;
	int (*run)(struct floor *f);
} steps[] = {
	{ "make the namespaces", namespaces },
	{ "take the ids", identity },
	{ "mount the root", root },
	{ "mount /proc", proc },
	{ "mount /dev", dev },
	{ "change the root", pivot },
	{ "confine it", confine },
	{ "execute the program", execute },
};

/* The stack is not known to sanitizers. */
__attribute__((no_sanitize("address", "undefined"))) static int child_main(void *arg)
{
	struct floor *f = arg;

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		f->doing = steps[i].name;
		if (steps[i].run(f) < 0)
			break;
	}
	(void)SYS_1(SYS_exit_group, 1);
	return 1;
}

/* ---------------------------------------------------------------- steps of the caller */

/* Start the child as a separate user, as Warren does, so that counters of the kernel for
 * each user are not shared. */
static int start_child(struct floor *f, uid_t base, struct warren_error *err)
{
	int flags = CLONE_VM | CLONE_FILES | CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID |
		    CLONE_PIDFD | SIGCHLD;
	int bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);
	int pid = -1;

	if (prctl(PR_SET_SECUREBITS, bits | SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
		return error_errno(err, errno, "keep the capabilities");
	if (syscall(SYS_setresuid, -1, base, -1) == 0)
		pid = clone(child_main, f->stack + sizeof(f->stack), flags, f,
			    &f->sandbox->pidfd);
	f->sandbox->pid = pid;
	if (pid < 0)
		(void)error_errno(err, errno, "clone");
	(void)syscall(SYS_setresuid, -1, 0, -1);
	(void)prctl(PR_SET_SECUREBITS, bits, 0, 0, 0);
	return pid < 0 ? -err->code : 0;
}

static int give(struct floor *f, uid_t base, struct warren_error *err)
{
	const struct ns_maps maps = { .n_uid = 1,
				      .n_gid = 1,
				      .uid = { { 0, base, IDS } },
				      .gid = { { 0, base, IDS } } };
	int r = ns_write_maps(f->sandbox->pid, &maps, true, err);
	AUTO_CLOSE int userns = r < 0 ? -1 : ns_open(f->sandbox->pid, "user");

	for (size_t i = 0; r == 0 && i < f->image.n_mounts; i++)
		r = mount_copy(
			f->image.mounts[i].fd, "", false, PLAIN | MOUNT_ATTR_RDONLY,
			f->image.mounts[i].at[0] ? -1 : userns, &f->layers[i], err);
	/* Wake the child even after an error: it waits for this, and fails by itself. */
	ns_reach(&f->mapped, 1);
	return r;
}

static int await_idle(struct floor *f, struct warren_error *err)
{
	struct pollfd p[] = { { .fd = f->sandbox->sock, .events = POLLIN },
			      { .fd = f->sandbox->pidfd, .events = POLLIN } };
	char word;

	while (poll(p, ARRAY_SIZE(p), -1) < 0 && errno == EINTR)
		;
	if ((p[0].revents & POLLIN) && read(f->sandbox->sock, &word, 1) == 1)
		return 0;
	return error_set(err, EIO, "%s: %s", f->doing,
			 f->err.msg[0] ? f->err.msg : "it ended");
}

static int floor_unmake(void *thing, struct warren_error *err)
{
	struct floor_sandbox *sandbox = thing;
	struct floor *f = sandbox->floor;
	siginfo_t info = { 0 };
	int r = 0;

	if (sandbox->pidfd >= 0) {
		(void)pidfd_send_signal(sandbox->pidfd, SIGKILL, NULL, 0);
		r = cgroup_try_remove(&f->cgroups, sandbox->id);
		while (waitid(P_PIDFD, (id_t)sandbox->pidfd, &info, WEXITED) < 0 &&
		       errno == EINTR)
			;
		(void)close(sandbox->pidfd);
	}
	if (sandbox->sock >= 0)
		(void)close(sandbox->sock);
	free(sandbox);
	return r < 0 ? error_errno(err, -r, "remove the cgroup") : 0;
}

static int keep_high(int fd)
{
	int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FDS_KEPT);

	if (high < 0)
		return fd;
	(void)close(fd);
	return high;
}

static int make(struct floor *f, struct warren_error *err)
{
	uid_t base =
		FIRST_ID + (((unsigned)getpid() * 911U + f->made++) & RANGES) * APART;
	int ends[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return error_errno(err, errno, "create a connection");
	f->sandbox->sock = ends[0];
	f->child_end = ends[1];
	for (size_t i = 0; i < ARRAY_SIZE(f->layers); i++)
		f->layers[i] = -1;
	r = start_child(f, base, err);
	if (r == 0)
		r = give(f, base, err);
	if (r == 0)
		r = cgroup_make(&f->cgroups, f->sandbox->id, base, &f->limits, err);
	if (r == 0)
		r = await_idle(f, err);
	(void)close(f->child_end);
	f->sandbox->sock = keep_high(f->sandbox->sock);
	f->sandbox->pidfd = keep_high(f->sandbox->pidfd);
	for (size_t i = 0; i < ARRAY_SIZE(f->layers); i++)
		if (f->layers[i] >= 0)
			(void)close(f->layers[i]);
	return r;
}

static int floor_make(void *state, void **ret, struct warren_error *err)
{
	struct floor *f = state;
	struct warren_error second = WARREN_ERROR_INIT;
	int r;

	f->sandbox = calloc(1, sizeof(*f->sandbox));
	if (!f->sandbox)
		return error_errno(err, ENOMEM, "make a box");
	f->sandbox->floor = f;
	f->sandbox->pidfd = f->sandbox->sock = -1;
	(void)snprintf(f->sandbox->id, sizeof(f->sandbox->id), "floor%d-%u", getpid(),
		       f->made);
	f->mapped = 0;
	f->err = (struct warren_error)WARREN_ERROR_INIT;
	r = make(f, err);
	if (r < 0)
		(void)floor_unmake(f->sandbox, &second);
	else
		*ret = f->sandbox;
	return r;
}

/* Open the program idle, which is in the same directory as this program, as a sealed
 * memfd. */
static int open_program(struct warren_error *err)
{
	char path[4096], *slash, data[8192];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof(IDLE) - 1);
	AUTO_CLOSE int from = -1,
		       fd = memfd_create(IDLE, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r;

	path[n > 0 ? n : 0] = '\0';
	slash = strrchr(path, '/');
	(void)strcpy(slash ? slash + 1 : path, IDLE);
	from = open(path, O_RDONLY | O_CLOEXEC);
	if (from < 0 || fd < 0)
		return error_errno(err, errno, "open '%s'", path);
	n = fd_read_all(from, data, sizeof(data));
	r = n < 0 ? (int)n : fd_write_all(fd, data, (size_t)n);
	if (r == 0 && fcntl(fd, F_ADD_SEALS,
			    F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		r = -errno;
	return r < 0 ? error_errno(err, -r, "copy '%s'", path) : TAKE_FD(fd);
}

static void floor_close(void *state)
{
	struct floor *f = state;

	if (f && f->program >= 0)
		(void)close(f->program);
	if (f) {
		image_close(&f->image);
		cgroup_root_close(&f->cgroups);
	}
	free(f);
}

static int floor_open(const struct bench *b UNUSED, void **ret, struct warren_error *err)
{
	struct floor *f = calloc(1, sizeof(*f));
	struct sysinfo info;
	int r;

	if (!f || sysinfo(&info) < 0)
		return error_errno(err, ENOMEM, "open the floor");
	f->limits = (struct cgroup_limits){
		.memory = (uint64_t)info.totalram * info.mem_unit / 2, .pids = 1024
	};
	cgroup_root_open(&f->cgroups);
	f->program = open_program(err);
	r = f->program < 0 ? f->program : image_open("host", STATE_DIR, &f->image, err);
	if (r < 0)
		floor_close(f);
	else
		*ret = f;
	return r < 0 ? error_wrap(err, "the kernel's floor") : 0;
}

const struct maker maker_floor = {
	.prefix = "floor: ",
	.open = floor_open,
	.close = floor_close,
	.make = floor_make,
	.unmake = floor_unmake,
};
