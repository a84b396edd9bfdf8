/* SPDX-License-Identifier: Apache-2.0 */
/*
 * container_pid.c - a container's first process on this machine, and operations that use
 * it
 *
 * The daemon reports its pid. That pid is in the daemon's pid namespace, which may be
 * different from the shim's, and pids are reused. So the process is checked: it must run
 * this sandbox's own copy of the guest agent, which no other process runs. From then on,
 * it is identified by its open directory in /proc, which never refers to another process.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "os/caps.h"
#include "os/cgroup.h"
#include "os/mount.h"
#include "os/ns.h"
#include "shim/docker/docker.h"

#define STATUS_MAX 8192

int docker_first(struct docker *d, const struct shim_sandbox *p)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	char guest[DOCKER_GUEST_MAX], number[24];
	struct stat ours, theirs;
	AUTO_CLOSE int dir = -1;
	json_int_t pid;

	if (p->machine < 0 || docker_inspect(d, p, &ignored) <= 0)
		return -1;
	pid = json_integer_value(
		json_object_get(json_object_get(d->answer, "State"), "Pid"));
	(void)snprintf(number, sizeof(number), "%jd", (intmax_t)pid);
	docker_guest(p, guest);
	if (pid <= 0 || stat(guest, &ours) < 0)
		return -1;
	dir = openat(p->machine, number, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || fstatat(dir, "exe", &theirs, 0) < 0 ||
	    ours.st_dev != theirs.st_dev || ours.st_ino != theirs.st_ino)
		return -1;
	return TAKE_FD(dir);
}

void docker_meet(struct docker *d, struct shim_sandbox *p)
{
	if (p->first >= 0)
		(void)close(p->first);
	p->first = docker_first(d, p);
	p->memory = p->first < 0 ? -1 : cgroup_memory_of(p->first);
}

/* -------------------------------------------------------------------------- volumes */

/* Check that the target inside is the file or directory that was checked for @m. */
static int check_volume(int root, const struct warren_mount *m)
{
	AUTO_CLOSE int at = mount_openat2(root, m->target, O_PATH, 0,
					  RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
	struct stat judged, mounted;

	if (at < 0 || fstat(at, &mounted) < 0 || fstat(m->source_fd, &judged) < 0)
		return at < 0 ? at : -errno;
	return judged.st_dev == mounted.st_dev && judged.st_ino == mounted.st_ino
		       ? 0
		       : -ESTALE;
}

/*
 * The daemon gets a path, and looks it up when the container starts. Since the source was
 * checked, a process that can write to a directory of that path may have put something
 * else there. So Warren checks from outside what the daemon has mounted, while only
 * Warren's first process runs inside. It refuses a mount that it cannot see (a daemon on
 * another machine).
 */
int docker_check_mounts(struct docker *d, const struct shim_sandbox *p,
			const struct warren_spec *spec, struct warren_error *err)
{
	AUTO_CLOSE int first = -1, root = -1;

	for (size_t i = 0; i < spec->n_mounts; i++) {
		const struct warren_mount *m = &spec->mounts[i];
		int r;

		if (!m->source || !m->source_fd)
			continue;
		if (first < 0)
			first = docker_first(d, p);
		if (root < 0 && first >= 0)
			root = openat(first, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (root < 0)
			return error_set(
				err, EOPNOTSUPP,
				"%s: volume '%s': the daemon's mount is not visible "
				"from here, so it cannot be checked",
				d->name, m->source);
		r = check_volume(root, m);
		if (r == -ESTALE && m->volume)
			return error_set(
				err, EOPNOTSUPP,
				"%s: volume at '%s': the daemon has mounted something "
				"else; only a Docker daemon on this machine can mount "
				"volumes",
				d->name, m->target);
		if (r == -ESTALE)
			return error_set(
				err, ESTALE,
				"%s: volume '%s': its name no longer refers to the "
				"same file as when it was allowed",
				d->name, m->source);
		if (r < 0)
			return error_errno(err, -r, "%s: volume '%s': check '%s'",
					   d->name, m->source, m->target);
	}
	return 0;
}

/* ------------------------------------------------------------------- network policies */

/*
 * Check the request to the daemon (spec.c) again, at the process: its capabilities must
 * not let it change the network namespace, which must be its own.
 */
static int pid_check_capabilities(int first)
{
	AUTO_CLOSE int fd = openat(first, "status", O_RDONLY | O_CLOEXEC);
	char text[STATUS_MAX + 1];
	ssize_t n = fd < 0 ? -errno : fd_read_all(fd, text, STATUS_MAX);
	const char *bound;

	if (n < 0)
		return (int)n;
	text[n] = '\0';
	bound = strstr(text, "\nCapBnd:\t");
	if (!bound)
		return -EBADMSG;
	return strtoull(bound + strlen("\nCapBnd:\t"), NULL, 16) & ~caps_kept ? -EPERM
									      : 0;
}

int docker_network(const struct shim_sandbox *p, int *ret_ns, struct warren_error *err)
{
	AUTO_DOCKER struct docker d = { 0 };
	AUTO_CLOSE int first = -1;
	struct docker_info info;
	int r = docker_open(&d, p->name, p->config, err);

	if (r == 0)
		r = docker_info(&d, &info, err);
	if (r < 0)
		return r;
	if (!docker_plain(info.runtime))
		return error_set(err, EOPNOTSUPP,
				 "%s: network: the daemon's runtime '%s' does not use "
				 "the network of this machine's kernel",
				 p->name, info.runtime);
	first = docker_first(&d, p);
	if (first < 0)
		return error_set(err, EOPNOTSUPP,
				 "%s: network: the container's first process is not "
				 "visible from here",
				 p->name);
	r = pid_check_capabilities(first);
	if (r < 0)
		return error_errno(err, -r, "%s: network: check its capabilities",
				   p->name);
	*ret_ns = openat(first, "ns/net", O_RDONLY | O_CLOEXEC);
	return *ret_ns < 0 ? error_errno(err, errno, "%s: open its network", p->name) : 0;
}

/* As for a network policy, the daemon's runtime must use this machine's kernel. */
int docker_mounts(const struct shim_sandbox *p, int *ret_ns, struct warren_error *err)
{
	AUTO_DOCKER struct docker d = { 0 };
	AUTO_CLOSE int first = -1;
	int r = docker_open(&d, p->name, p->config, err);

	if (r < 0)
		return r;
	first = docker_first(&d, p);
	if (first < 0)
		return error_set(err, EOPNOTSUPP,
				 "%s: certificates: the container's first process is not "
				 "visible from here",
				 p->name);
	*ret_ns = openat(first, "ns/mnt", O_RDONLY | O_CLOEXEC);
	return *ret_ns < 0 ? error_errno(err, errno, "%s: open its mounts", p->name) : 0;
}

/* ------------------------------------------------------- containers without a network */

/* This runs in a separate process, which enters the container's network namespace. */
static int quiet_from_outside(int first)
{
	AUTO_CLOSE int net = openat(first, "ns/net", O_RDONLY | O_CLOEXEC);
	struct warren_error ignored = WARREN_ERROR_INIT;
	int status = 0;
	pid_t pid;

	if (net < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		_exit(setns(net, CLONE_NEWNET) < 0 || ns_loopback(false, &ignored) < 0);
	while (pid > 0 && waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return pid > 0 && status == 0 ? 0 : -EPERM;
}

/*
 * Bring the loopback device down, from outside if permitted; otherwise the daemon does it
 * with a privileged exec before anything else runs inside. Such an exec has every
 * capability, and is refused if the daemon lacks one itself.
 */
int docker_quiet(struct docker *d, const struct shim_sandbox *p, struct warren_error *err)
{
	static const char step[] = "bring the loopback device down";
	AUTO_CLOSE int first = docker_first(d, p);
	json_t *exec;
	int r;

	if (first >= 0 && quiet_from_outside(first) == 0)
		return 0;
	exec = json_pack("{s:[s,s], s:b, s:s}", "Cmd", DOCKER_GUEST, "quiet",
			 "Privileged", 1, "User", "0");
	r = docker_errand(d, p, step, exec, err);
	json_decref(exec);
	return r > 0 ? error_set(err, EPERM, "%s: %s: it stays up", d->name, step) : r;
}
