/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network.c - the network namespace of a sandbox with a network policy
 *
 * Without a policy, the sentry has no network at all, and loopback inside is its own.
 * With a policy, runsc runs in a new, empty network namespace, in which the sentry
 * creates the sockets of the processes inside (--network=host; "host" is that namespace).
 * So its connections are captured by the same rules as those of a native sandbox
 * (os/capture.h). The sentry has no capability in that namespace, and its filter does not
 * allow raw sockets.
 *
 * The pids that runsc records are those of the shim's pid namespace. So another process
 * finds the namespace among the processes of the sandbox's cgroup, by its number.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "os/ns.h"
#include "shim/gvisor/gvisor.h"

#define NETWORK_FILE "bundle/network" /* the number of the namespace */

int network_create(struct gvisor_making *m, struct warren_error *err)
{
	char path[GVISOR_PATH_MAX], number[24];
	struct stat st;
	int r;

	if (!m->captured)
		return 0;
	if (unshare(CLONE_NEWNET) < 0 || stat("/proc/self/ns/net", &st) < 0)
		return error_errno(err, errno, "create a network namespace");
	r = ns_loopback(true, err);
	if (r < 0)
		return r;
	(void)snprintf(number, sizeof(number), "%ju", (uintmax_t)st.st_ino);
	gvisor_path(m->sandbox, NETWORK_FILE, path);
	r = fd_create_file(path, number, strlen(number));
	return r < 0 ? error_errno(err, -r, "write '%s'", path) : 0;
}

static int network_read_number(const struct shim_sandbox *p, uint64_t *ret)
{
	char path[GVISOR_PATH_MAX];

	gvisor_path(p, NETWORK_FILE, path);
	return fd_read_u64_at(AT_FDCWD, path, ret);
}

bool gvisor_has_network(const struct shim_sandbox *p)
{
	uint64_t number;

	return network_read_number(p, &number) != -ENOENT;
}

struct network_search {
	uint64_t number;
	int ns; /* -1: not found yet */
};

static bool network_try(void *ctx, pid_t pid)
{
	struct network_search *s = ctx;
	AUTO_CLOSE int ns = -1;
	char path[40];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	if (ns >= 0 && fstat(ns, &st) == 0 && st.st_ino == s->number)
		s->ns = TAKE_FD(ns);
	return s->ns < 0;
}

int gvisor_network(const struct shim_sandbox *p, int *ret_ns, struct warren_error *err)
{
	struct network_search s = { .ns = -1 };
	struct cgroup_root cgroups;
	int r = network_read_number(p, &s.number);

	if (r == -ENOENT)
		return error_set(err, EOPNOTSUPP,
				 "%s: a sandbox that was created without a network "
				 "policy cannot get one later",
				 p->name);
	if (r < 0)
		return error_errno(err, -r, "%s: read '" NETWORK_FILE "'", p->name);
	cgroup_root_open(&cgroups);
	r = cgroup_processes(&cgroups, p->id, network_try, &s);
	cgroup_root_close(&cgroups);
	if (r == 0 && s.ns < 0)
		return error_set(err, ENOENT, "%s: the sandbox is not running", p->name);
	if (r < 0)
		return error_errno(err, -r, "%s: find its network", p->name);
	*ret_ns = s.ns;
	return 0;
}
