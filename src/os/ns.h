/* SPDX-License-Identifier: Apache-2.0 */
/* ns.h - processes in new namespaces, and the id maps of user namespaces */
#ifndef OS_NS_H
#define OS_NS_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* ns_clone()'s @cgroup when the child is to start where we are. */
#define NS_CGROUP_SAME (-1)

/*
 * fork(2) with namespaces: @flags are CLONE_NEW*, @cgroup a v2 cgroup directory
 * to start in. Returns as fork does, or -errno; *@ret_pidfd is set in the parent.
 */
pid_t ns_clone(uint64_t flags, int cgroup, int *ret_pidfd);

/* A child, and what it does; pid and pidfd are there before it runs. */
struct ns_child {
	pid_t pid; /* 0 in the child itself */
	int pidfd;
	/*
	 * NULL: it has a copy of our memory and returns, as of fork(2). Else it has our
	 * memory, stack and errno, and runs this, which must end in _exit(2) or
	 * execve(2); the calling thread alone waits for that, as of vfork(2).
	 */
	void (*run)(void *ctx);
	void *ctx;
};

/*
 * The same, by @uid: what the kernel counts per user of a user namespace's maker (inotify
 * instances, queued signals, message queues) is then that id's, and not shared with all
 * that root has made. Needs to be root, or @uid itself. 0 or -errno.
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

/* A number that only grows, between two that share their memory: say it, wait for it. */
void ns_reach(uint32_t *state, uint32_t to);
uint32_t ns_await(uint32_t *state, uint32_t at_least);

/*
 * Another thread of the caller's, for work that is to go on while the caller is in one
 * long system call. It shares everything with its maker, the C library's per-thread data
 * and errno included: until the join, the maker may do nothing that writes errno, and
 * calls the system by nolibc/sys.h. What the kernel keeps by thread (ids, capabilities,
 * filters, namespaces) is each the caller's own. For a child of ns_clone() that has no
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
