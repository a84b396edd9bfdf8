/* SPDX-License-Identifier: Apache-2.0 */
/*
 * egress.c - start warren-egress, which connects sandboxes to the network
 *
 * The api requests this when the first sandbox needs the program, and again when the
 * program has ended or does not answer. warren-egress exits when its connection ends, but
 * not if it is stopped or hangs. So the warden keeps a pidfd, and kills the previous
 * process before it starts the next one.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/libexec.h"
#include "os/pidfd.h"
#include "proto/egress_proto.h"
#include "warden/internal.h"

#define BUNDLE_MS 10000
#define KILL_MS   2000 /* time for the kernel to close the sockets of a killed process */

static int egress_spawn(const char *program, const struct warden_policy *p, int sock,
			pid_t *ret_pid)
{
	char user[32], owner[32], lookups[32];
	const struct {
		const char *option, *value;
	} options[] = {
		{ "--user", user },
		{ "--owner", owner },
		{ "--dns-servers", p->dns_servers },
		{ "--authority", p->authority },
		{ "--ca-file", p->ca_file },
		{ "--bundle", p->bundle },
		{ "--lookups-per-second", p->lookups_per_second ? lookups : NULL },
	};
	const char *argv[2 + 2 * ARRAY_SIZE(options)] = { "warren-egress" };
	/* Sanitizers are configured by variables. */
	static const char *const none[] = { NULL };
	const struct warden_fd fds[] = { { -1, 0 }, { -1, 1 }, { sock, EGRESS_FD } };
	size_t n = 1;

	(void)snprintf(user, sizeof(user), "%u:%u", p->egress_uid, p->egress_gid);
	(void)snprintf(owner, sizeof(owner), "%u:%u", p->uid, p->gid);
	(void)snprintf(lookups, sizeof(lookups), "%" PRIu64, p->lookups_per_second);
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		if (!options[i].value)
			continue;
		argv[n++] = options[i].option;
		argv[n++] = options[i].value;
	}
	return warden_spawn(program, argv, SANITIZED ? NULL : none, fds, ARRAY_SIZE(fds),
			    ret_pid);
}

static int egress_start_process(const struct warden_policy *policy, pid_t *ret_pid,
				int *ret_fd, struct warren_error *err)
{
	AUTO_CLOSE int ours = -1, theirs = -1;
	char program[PATH_MAX];
	int ends[2];
	int r = libexec_find("warren-egress", program, err);

	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return error_errno(err, errno, "make a connection");
	ours = ends[0];
	/*
	 * Use a number other than the program's: dup2(2) to the same number would leave
	 * the descriptor close-on-exec.
	 */
	theirs = fcntl(ends[1], F_DUPFD_CLOEXEC, EGRESS_FD + 1);
	(void)close(ends[1]);
	if (theirs < 0)
		return error_errno(err, errno, "make a connection");
	r = egress_spawn(program, policy, theirs, ret_pid);
	if (r < 0)
		return error_errno(err, -r, "start '%s'", program);
	*ret_fd = TAKE_FD(ours);
	return 0;
}

void egress_kill(int *pidfd)
{
	int fd = __atomic_exchange_n(pidfd, -1, __ATOMIC_SEQ_CST);

	if (fd < 0)
		return;
	(void)pidfd_end(fd, KILL_MS);
	(void)close(fd);
}

/*
 * Open a pidfd of the process at the other end of @conn. Processes that end are reaped at
 * once, so another process could have the same pid by now. If the connection is still
 * open after the pidfd was opened, the pidfd is the right one.
 */
static int egress_pidfd(pid_t pid, int conn)
{
	AUTO_CLOSE int fd = pidfd_open(pid, 0);
	struct pollfd p = { .fd = conn, .events = POLLIN };

	if (fd < 0 || poll(&p, 1, 0) != 0)
		return -1;
	return TAKE_FD(fd);
}

int egress_start(const struct warden_policy *policy, int *pidfd, int *ret_fd,
		 struct warren_error *err)
{
	pid_t pid = -1;
	int r;

	egress_kill(pidfd);
	r = egress_start_process(policy, &pid, ret_fd, err);
	if (r == 0)
		__atomic_store_n(pidfd, egress_pidfd(pid, *ret_fd), __ATOMIC_SEQ_CST);
	return r;
}

/*
 * warren-egress writes the file before it reads from its connection, and exits when the
 * connection is closed.
 */
static int egress_make_bundle(const struct warden_policy *policy,
			      struct warren_error *err)
{
	struct pollfd p = { .events = POLLIN };
	pid_t pid;
	int r;

	if (access(policy->bundle, R_OK) == 0)
		return 0;
	r = egress_start_process(policy, &pid, &p.fd, err);
	if (r < 0)
		return r;
	(void)shutdown(p.fd, SHUT_WR);
	while (poll(&p, 1, BUNDLE_MS) < 0 && errno == EINTR)
		;
	(void)close(p.fd);
	return access(policy->bundle, R_OK) < 0
		       ? error_errno(err, errno, "create '%s'", policy->bundle)
		       : 0;
}

int egress_need_bundle(const struct warden_policy *policy,
		       const struct warren_mount *mounts, size_t n,
		       struct warren_error *err)
{
	bool needed = false;

	for (size_t i = 0; policy->bundle && i < n; i++)
		needed = needed || (mounts[i].source &&
				    strcmp(mounts[i].source, policy->bundle) == 0);
	return needed ? egress_make_bundle(policy, err) : 0;
}

int egress_open_bundle(const struct warden_policy *policy, int *ret_fd,
		       struct warren_error *err)
{
	int r = policy->bundle ? egress_make_bundle(policy, err)
			       : error_set(err, EOPNOTSUPP, "there is no authority");

	return r < 0 ? r : policy_open_bundle(policy, O_RDONLY, ret_fd, err);
}
