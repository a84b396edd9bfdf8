/* SPDX-License-Identifier: Apache-2.0 */
/* ns.h - processes in new namespaces, and the id maps of user namespaces */
#ifndef OS_NS_H
#define OS_NS_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* ns_clone()'s @cgroup if the child starts in the caller's cgroup. */
#define NS_CGROUP_SAME (-1)

/*
 * fork(2) with namespaces: @flags are CLONE_NEW*, @cgroup a v2 cgroup directory
 * to start in. Returns as fork does, or -errno; *@ret_pidfd is set in the parent.
 */
pid_t ns_clone(uint64_t flags, int cgroup, int *ret_pidfd);

/* A child and its function; pid and pidfd are set before it runs. */
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
 * The same, as @uid: the kernel then counts what it counts for the creator of a user
 * namespace (inotify instances, queued signals, message queues) for that id, and not
 * together with everything that root has created. The caller must be root or @uid. 0 or
 * -errno.
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
 * Write the maps of @pid's user namespace. Without privileges that needs one
 * line that maps the caller (setgroups is then denied) or the system's
 * newuidmap and newgidmap, which are run when there is more than one id.
 */
int ns_write_maps(pid_t pid, const struct ns_maps *maps, bool privileged,
		  struct warren_error *err);

/* A user namespace with @maps that no process is in, for id-mapped mounts. */
int ns_make_userns(const struct ns_maps *maps, int *ret_fd, struct warren_error *err);

/* An O_CLOEXEC descriptor of @pid's namespace "user", "mnt", "net" ... or -errno. */
int ns_open(pid_t pid, const char *name);

/*
 * The first range of @uid, by number or name, in /etc/subuid or /etc/subgid; or -ENOENT.
 */
int ns_subids(const char *file, uid_t uid, struct ns_map *ret);

/* A number that only grows, shared by two processes: set it, wait for it. */
void ns_reach(uint32_t *state, uint32_t to);
uint32_t ns_await(uint32_t *state, uint32_t at_least);

/*
 * Another thread of the caller, for work during one long system call of the caller. It
 * shares everything with its creator, including the C library's per-thread data and
 * errno: until the join, the creator may do nothing that writes errno, and must make
 * system calls with nolibc/sys.h. Each thread has its own ids, capabilities, filters and
 * namespaces, which the kernel keeps per thread. For a child of ns_clone() that has no
 * other threads; the struct must live until the join.
 */
struct ns_aside {
	int (*run)(void *ctx);
	void *ctx;
	int result;
	uint32_t state; /* a futex */
	_Alignas(16) char stack[65536];
};

int ns_aside_start(struct ns_aside *a, struct warren_error *err);
/* What it returned. */
int ns_aside_join(struct ns_aside *a);

/*
 * By the thread, once: what its maker waits for by ns_aside_listen(); its end counts as
 * that, too.
 */
void ns_aside_tell(struct ns_aside *a);
void ns_aside_listen(struct ns_aside *a);

/*
 * Bring the loopback interface of this network namespace up, or down. It leaves errno
 * alone.
 */
int ns_loopback(bool up, struct warren_error *err);

#endif /* OS_NS_H */
