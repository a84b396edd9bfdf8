/* SPDX-License-Identifier: Apache-2.0 */
/* ns.h - processes in new namespaces, and the id maps of user namespaces */
#ifndef OS_NS_H
#define OS_NS_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* Value of @cgroup of ns_clone(): start the child in the caller's cgroup. */
#define NS_CGROUP_SAME (-1)

/*
 * Like fork(2), with new namespaces: @flags are CLONE_NEW*, @cgroup is the v2 cgroup
 * directory to start in. Returns what fork(2) returns, or -errno; *@ret_pidfd is set in
 * the parent.
 */
pid_t ns_clone(uint64_t flags, int cgroup, int *ret_pidfd);

/* A child and its function; pid and pidfd are set before the function runs. */
struct ns_child {
	pid_t pid; /* 0 in the child itself */
	int pidfd;
	/*
	 * NULL: the child has a copy of the caller's memory and returns, as with fork(2).
	 * Otherwise it shares the caller's memory, stack and errno and runs this
	 * function, which must end in _exit(2) or execve(2); only the calling thread
	 * waits for that, as with vfork(2).
	 */
	void (*run)(void *ctx);
	void *ctx;
};

/*
 * Like ns_clone(), but create the namespaces as @uid. The kernel charges some resources
 * (inotify instances, queued signals, message queues) to the creator of the user
 * namespace. So they are charged to @uid, and not to root together with those of all
 * other sandboxes. The caller must be root or @uid. 0 or -errno.
 */
int ns_clone_as(uid_t uid, uint64_t flags, int cgroup, struct ns_child *child);

/* One line of a uid_map or gid_map. */
struct ns_map {
	uint32_t inside;
	uint32_t outside;
	uint32_t count;
};

#define NS_MAPS_MAX 8

struct ns_maps {
	size_t n_uid, n_gid;
	struct ns_map uid[NS_MAPS_MAX], gid[NS_MAPS_MAX];
};

/*
 * Write the maps of @pid's user namespace. Without privileges, a map of one id must map
 * the caller, and setgroups is denied; for more ids, newuidmap and newgidmap of the
 * system are run.
 */
int ns_write_maps(pid_t pid, const struct ns_maps *maps, bool privileged,
		  struct warren_error *err);

/* Create a user namespace with @maps and without processes, for id-mapped mounts. */
int ns_make_userns(const struct ns_maps *maps, int *ret_fd, struct warren_error *err);

/*
 * Open @pid's namespace "user", "mnt", "net" ... with O_CLOEXEC; return a descriptor or
 * -errno.
 */
int ns_open(pid_t pid, const char *name);

/*
 * Find the first range of @uid, by number or name, in @file: /etc/subuid or /etc/subgid;
 * or -ENOENT.
 */
int ns_subids(const char *file, uid_t uid, struct ns_map *ret);

/*
 * ns_reach() sets a number in shared memory, which only grows; the next function waits
 * until the number is reached.
 */
void ns_reach(uint32_t *state, uint32_t to);
uint32_t ns_await(uint32_t *state, uint32_t at_least);

/*
 * Another thread, for work during one long system call of its creator. It shares
 * everything with its creator, including the C library's per-thread data and errno: until
 * the join, the creator may do nothing that writes errno, and must make system calls with
 * nolibc/sys.h. Each thread has its own ids, capabilities, filters and namespaces, which
 * the kernel keeps per thread. Only a child of ns_clone() without other threads may use
 * this; the struct must live until the join.
 */
struct ns_aside {
	int (*run)(void *ctx);
	void *ctx;
	int result;
	uint32_t state; /* a futex */
	_Alignas(16) char stack[65536];
};

int ns_aside_start(struct ns_aside *a, struct warren_error *err);
/* Wait for the thread; return the result of run(). */
int ns_aside_join(struct ns_aside *a);

/*
 * The thread calls ns_aside_tell() once; its creator waits for that, or for the end of
 * the thread, with ns_aside_listen().
 */
void ns_aside_tell(struct ns_aside *a);
void ns_aside_listen(struct ns_aside *a);

/*
 * Bring the loopback interface of this network namespace up or down. Does not change
 * errno.
 */
int ns_loopback(bool up, struct warren_error *err);
/*
 * Lower limits of this network namespace that the kernel applies to each socket. Does not
 * change a limit that is not per namespace on this kernel. @sysctls is /proc/sys of a
 * process of the host. Does not change errno.
 */
void ns_limit_sockets(int sysctls);

#endif /* OS_NS_H */
