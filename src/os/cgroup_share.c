/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup_share.c - limits for all sandboxes together, and the share that one of them may
 * use
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "os/cgroup.h"

#define NO_LIMIT    (1ULL << 62) /* a v1 limit above this means no limit */
#define SOCKETS_MIN (1U << 20)

/*
 * Sandboxes may use three quarters of the pids; with the rest, an administrator can
 * rescue the machine.
 */
#define PIDS_SHARE(n) ((n) / 4 * 3)

/* Get the limit @file of the cgroup "warren"; set it to @limit if there is none. */
static uint64_t limit_all(int dir, const char *file, uint64_t limit)
{
	char text[24];
	uint64_t is;

	if (dir < 0)
		return 0;
	if (fd_read_u64_at(dir, file, &is) == 0 && is < NO_LIMIT)
		return is;
	if (limit == 0)
		return 0;
	(void)snprintf(text, sizeof(text), "%ju", (uintmax_t)limit);
	return fd_write_file_at(dir, file, text) == 0 ? limit : 0;
}

static uint64_t share_of_pids(void)
{
	uint64_t pids = 0, threads = 0;

	(void)fd_read_u64_at(AT_FDCWD, "/proc/sys/kernel/pid_max", &pids);
	(void)fd_read_u64_at(AT_FDCWD, "/proc/sys/kernel/threads-max", &threads);
	return PIDS_SHARE(pids && pids < threads ? pids : threads);
}

/*
 * Return half of the size at which the kernel slows down TCP on the whole machine. The
 * file contains "low pressure high", in pages.
 */
static uint64_t share_of_sockets(void)
{
	unsigned long long low, pressure;
	char text[96];

	if (fd_read_file_at(AT_FDCWD, "/proc/sys/net/ipv4/tcp_mem", text, sizeof(text)) <
		    0 ||
	    sscanf(text, "%llu %llu", &low, &pressure) != 2)
		return 0;
	return pressure / 2 * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Read the existing limits first, because every run calls this. */
void cgroup_limit_all(struct cgroup_root *root)
{
	int memory = root->mode == CGROUP_V1 ? root->dir[CGROUP_MEMORY] : -1;

	root->pids = limit_all(root->dir[CGROUP_PIDS], "pids.max", 0);
	if (root->pids == 0)
		root->pids =
			limit_all(root->dir[CGROUP_PIDS], "pids.max", share_of_pids());
	root->sockets = limit_all(memory, CGROUP_SOCKETS_FILE, 0);
	if (root->sockets == 0)
		root->sockets =
			limit_all(memory, CGROUP_SOCKETS_FILE, share_of_sockets());
}

/*
 * On v1, TCP and UDP have separate counters. A quarter of the memory limit for each is
 * more than programs on a loopback interface have in flight, and the other sandboxes
 * together keep half of what all of them may have.
 */
uint64_t cgroup_socket_limit(const struct cgroup_root *root, uint64_t memory)
{
	uint64_t most = root->sockets ? root->sockets / 2 : memory;
	uint64_t limit = memory / 4 < most ? memory / 4 : most;

	return limit < SOCKETS_MIN ? SOCKETS_MIN : limit;
}
