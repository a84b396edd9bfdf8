/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.c - find out what this machine can enforce, by trying it in a child
 *
 * Configuration files and version numbers can be wrong, so each probe tries the system
 * call itself. Each probe reports a sentence about its result.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "backend/native/native.h"
#include "base/fd.h"
#include "os/caps.h"
#include "os/mount.h"
#include "os/seccomp.h"

struct probe {
	const char *name;
	bool required;
	bool (*run)(const struct native *n, struct warren_feature *f);
	const char *effect, *fix;
};

PRINTF_LIKE(2, 3) static bool probe_found(struct warren_feature *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(f->detail, sizeof(f->detail), fmt, ap);
	va_end(ap);
	return true;
}

#define missing(...) (!probe_found(__VA_ARGS__))

/* In the child: wait until the maps are written, become root in the namespace, and call
 * @fn. */
static int try_there(int sock, int (*fn)(void))
{
	char c;

	if (read(sock, &c, 1) != 1)
		return EPERM;
	if (syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
		return errno;
	return fn ? fn() : 0;
}

/*
 * Run @fn in a new user namespace (mapped) with @flags; return its errno, or 0. The
 * result arrives over a socket, because there is no exit status if SIGCHLD is ignored.
 */
static int try_inside(const struct native *n, uint64_t flags, int (*fn)(void))
{
	AUTO_CLOSE int pidfd = -1, ours = -1;
	int ends[2];
	unsigned char code = EINTR;
	siginfo_t info = { 0 };
	struct ns_maps maps = { .n_uid = 1, .n_gid = 1 };
	struct warren_error err = WARREN_ERROR_INIT;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return errno;
	ours = ends[0];
	maps.uid[0] = (struct ns_map){ 0, n->privileged ? 100000 : geteuid(), 1 };
	maps.gid[0] = (struct ns_map){ 0, n->privileged ? 100000 : getegid(), 1 };
	pid = ns_clone(CLONE_NEWUSER | flags, NS_CGROUP_SAME, &pidfd);
	if (pid == 0) {
		(void)close(ends[0]);
		code = (unsigned char)try_there(ends[1], fn);
		_exit(write(ends[1], &code, 1) != 1);
	}
	(void)close(ends[1]);
	if (pid < 0)
		return -pid;
	if (ns_write_maps(pid, &maps, n->privileged, &err) == 0)
		(void)fd_write_all(ours, "g", 1);
	(void)shutdown(ours, SHUT_WR);
	(void)fd_read_all(ours, &code, 1);
	(void)waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED);
	return err.code ? err.code : code;
}

static bool probe_kernel(const struct native *n UNUSED, struct warren_feature *f)
{
	struct utsname u;

	if (uname(&u) < 0)
		return missing(f, "its version cannot be read");
	(void)probe_found(f, "%s on %s", u.release, u.machine);
	return native_kernel_since(5, 15);
}

static bool probe_userns(const struct native *n, struct warren_feature *f)
{
	int code = try_inside(n,
			      CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
				      CLONE_NEWUTS | CLONE_NEWCGROUP,
			      NULL);

	return code ? missing(f, "cannot be created: %s", strerrordesc_np(code))
		    : probe_found(f, "user, mount, pid, net, ipc, uts, cgroup");
}

static int overlay_inside(void)
{
	static const struct mount_option tmp[] = { { "mode", "0755" }, { NULL, NULL } };
	static const struct mount_option ovl[] = { { "lowerdir", "l" },
						   { "upperdir", "u" },
						   { "workdir", "w" },
						   { "userxattr", NULL },
						   { NULL, NULL } };
	struct warren_error err = WARREN_ERROR_INIT;
	int fd = -1, top = -1;

	if (mount_new("tmpfs", tmp, 0, &fd, &err) < 0 ||
	    mount_attach(fd, AT_FDCWD, "/tmp", &err) < 0)
		return err.code;
	if (fchdir(fd) < 0 || mkdir("l", 0755) < 0 || mkdir("u", 0755) < 0 ||
	    mkdir("w", 0755) < 0)
		return errno;
	return mount_new("overlay", ovl, 0, &top, &err) < 0 ? err.code : 0;
}

static bool probe_overlay(const struct native *n, struct warren_feature *f)
{
	int code = try_inside(n, CLONE_NEWNS, overlay_inside);

	return code ? missing(f, "cannot be mounted in a user namespace: %s",
			      strerrordesc_np(code))
		    : probe_found(f, "mounts in a user namespace");
}

static bool probe_seccomp(const struct native *n UNUSED, struct warren_feature *f)
{
	return seccomp_available() ? probe_found(f, "filters can kill a process")
				   : missing(f, "the kernel has no seccomp filters");
}

static bool probe_idmap(const struct native *n, struct warren_feature *f)
{
	AUTO_CLOSE int userns = -1, fd = -1, dir = -1;
	struct warren_error err = WARREN_ERROR_INIT;
	struct ns_maps maps = { .n_uid = 1, .n_gid = 1 };

	if (!n->privileged)
		return missing(f, "needs root");
	maps.uid[0] = maps.gid[0] = (struct ns_map){ 0, 100000, 65536 };
	dir = open("/usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ns_make_userns(&maps, &userns, &err) < 0 ||
	    mount_copy(dir, "", false, MOUNT_ATTR_RDONLY, userns, &fd, &err) < 0)
		return missing(f, "%.150s", err.msg);
	return probe_found(f, "work on the filesystem of /usr");
}

static bool native_probe_cgroups(const struct native *n, struct warren_feature *f)
{
	static const enum cgroup_controller c[] = { CGROUP_MEMORY, CGROUP_CPU,
						    CGROUP_PIDS, CGROUP_FREEZER };
	char list[80] = "";
	bool all = true;

	if (n->cgroups.mode == CGROUP_NONE)
		return missing(f, "%s", n->cgroups.why);
	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		if (!cgroup_has(&n->cgroups, c[i])) {
			all = false;
			continue;
		}
		(void)strncat(list, list[0] ? ", " : "", sizeof(list) - strlen(list) - 1);
		(void)strncat(list, cgroup_controller_name(c[i]),
			      sizeof(list) - strlen(list) - 1);
	}
	(void)probe_found(f, "%s: %s", cgroup_mode_name(n->cgroups.mode), list);
	return all;
}

static bool probe_landlock(const struct native *n UNUSED, struct warren_feature *f)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0,
			   LANDLOCK_CREATE_RULESET_VERSION);

	return abi > 0 ? probe_found(f, "ABI %ld", abi)
		       : missing(f, "not available: %s", strerrordesc_np(errno));
}

static bool probe_loop(const struct native *n UNUSED, struct warren_feature *f)
{
	AUTO_CLOSE int fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

	f->fix = fd < 0 && errno == EACCES ? "run as root" : NULL;
	return fd >= 0 ? probe_found(f, "/dev/loop-control opens")
		       : missing(f, "/dev/loop-control: %s", strerrordesc_np(errno));
}

static bool probe_kvm(const struct native *n UNUSED, struct warren_feature *f)
{
	AUTO_CLOSE int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	f->fix = fd < 0 && errno == EACCES
			 ? "run as root, or as a member of the group that owns it"
			 : NULL;
	return fd >= 0 ? probe_found(f, "/dev/kvm opens")
		       : missing(f, "/dev/kvm: %s", strerrordesc_np(errno));
}

static bool find_program(struct warren_feature *f, const char *name)
{
	static const char *const dirs[] = { "/usr/local/sbin", "/usr/local/bin",
					    "/usr/sbin",       "/usr/bin",
					    "/sbin",           "/bin" };

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		char path[64];

		(void)snprintf(path, sizeof(path), "%s/%s", dirs[i], name);
		if (access(path, X_OK) == 0)
			return probe_found(f, "%s", path);
	}
	return missing(f, "%s is not installed", name);
}

static bool probe_criu(const struct native *n UNUSED, struct warren_feature *f)
{
	return find_program(f, "criu");
}

static bool native_probe_runsc(const struct native *n UNUSED, struct warren_feature *f)
{
	return find_program(f, "runsc");
}

static bool probe_rootless(const struct native *n, struct warren_feature *f)
{
	char text[32] = "";

	if (n->privileged)
		return probe_found(f, "not needed: this is root");
	if (fd_read_file_at(AT_FDCWD, "/proc/sys/kernel/unprivileged_userns_clone", text,
			    sizeof(text)) > 0 &&
	    text[0] == '0')
		return missing(f, "unprivileged user namespaces are disabled");
	if (n->subuid.count == 0)
		return missing(
			f, "no range in /etc/subuid and /etc/subgid, or no newuidmap");
	return probe_found(f, "%u subordinate ids", n->subuid.count);
}

/* os/ext4.c looks for the program in the same directories. */
static bool probe_volumes(const struct native *n, struct warren_feature *f)
{
	static const char *const programs[] = { "/usr/local/sbin/mkfs.ext4",
						"/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4",
						"/usr/bin/mkfs.ext4", "/bin/mkfs.ext4" };

	if (!n->privileged)
		return missing(f, "only root can mount volumes");
	if (access("/dev/loop-control", R_OK | W_OK) < 0)
		return missing(f, "/dev/loop-control: %s", strerrordesc_np(errno));
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
		if (access(programs[i], X_OK) == 0)
			return probe_found(f, "loop devices and %s", programs[i]);
	return missing(f, "mkfs.ext4 is not installed");
}

static bool probe_nofile(const struct native *n UNUSED, struct warren_feature *f)
{
	return caps_have(CAP_SYS_RESOURCE) ? probe_found(f, "limits can be raised")
					   : missing(f, "no CAP_SYS_RESOURCE");
}

static const struct probe probes[] = {
	{ "kernel", true, probe_kernel, "kernels before 5.15 are not supported",
	  "use a newer kernel" },
	{ "namespaces", true, probe_userns, "no sandbox can be created",
	  "sysctl -w user.max_user_namespaces=65536; on Debian and Ubuntu also "
	  "kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0" },
	{ "overlay", true, probe_overlay, "no sandbox can be created",
	  "modprobe overlay; use kernel 5.11 or later" },
	{ "seccomp", true, probe_seccomp, "no sandbox can be created",
	  "use a kernel with CONFIG_SECCOMP_FILTER" },
	{ "id-mapped mounts", false, probe_idmap,
	  "inside, files of images and volumes belong to the user 'nobody', except "
	  "the caller's own",
	  "run as root, on kernel 5.19 or later" },
	{ "cgroups", false, native_probe_cgroups,
	  "memory, cpu and process limits, pausing and statistics are refused",
	  "run as root, or under 'systemd-run --user --scope -p Delegate=yes'" },
	{ "rootless", false, probe_rootless, "a sandbox has one user, root",
	  "install uidmap and give the user a range in /etc/subuid and /etc/subgid" },
	{ "resource limits", false, probe_nofile,
	  "--nofile cannot exceed the hard limit of the caller", "add CAP_SYS_RESOURCE" },
	{ "landlock", false, probe_landlock,
	  "Warren's helper processes, and git when Warren runs it, lack one layer of "
	  "confinement",
	  "boot with lsm=landlock,..." },
	{ "loop devices", false, probe_loop,
	  "a sandbox cannot have more disk than memory", "modprobe loop" },
	{ "volumes", false, probe_volumes, "the service refuses volumes",
	  "run the service as root, with loop devices; install e2fsprogs" },
	{ "criu", false, probe_criu, "no effect: no backend here uses it to save memory",
	  NULL },
	{ "runsc", false, native_probe_runsc, "the gVisor tier is not available",
	  "install runsc" },
	{ "kvm", false, probe_kvm, "gVisor cannot use its platform 'kvm'",
	  "modprobe kvm_intel or kvm_amd, on a machine that is not itself virtual" },
};

_Static_assert(ARRAY_SIZE(probes) <= BACKEND_FEATURES_MAX, "too many features");

int native_probe(void *state, struct warren_feature *features,
		 struct warren_error *err UNUSED)
{
	const struct native *n = state;

	for (size_t i = 0; i < ARRAY_SIZE(probes); i++) {
		const struct probe *p = &probes[i];
		struct warren_feature *f = &features[i];

		*f = (struct warren_feature){ .name = p->name, .required = p->required };
		f->ok = p->run(n, f);
		if (!f->ok)
			f->effect = p->effect;
		if (!f->ok && !f->fix)
			f->fix = p->fix;
	}
	return ARRAY_SIZE(probes);
}
