/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup.h - one cgroup per sandbox: create, limit, freeze, read, remove; v1, v2 and both
 *
 * Layout, below the directory "warren" that a struct cgroup_root stands for:
 *
 *	v1	<controller>/warren/<id>	the limits; execs below, as e<n>
 *	v2	warren/<id>			delegated to the sandbox's root
 *		warren/<id>/init		init, without limits
 *		warren/<id>/box			the limits; execs below, as e<n>
 *
 * On v1 init stays in its creator's cgroup, which is also outside the limits. A machine
 * whose v2 mount has no controllers while v1 has them (the "hybrid") counts as v1.
 *
 * "warren" itself limits what all sandboxes together may use of the machine: processes
 * (PIDS_SHARE of the pids that the kernel can assign) and, on v1, where no sandbox's
 * memory includes them, the buffers of sockets. Limits that an administrator has set
 * there are not changed.
 *
 * The directories in which init creates cgroups belong to the sandbox's root; the limit
 * files in them belong to the host's root. No process in a sandbox sees a cgroup mount.
 */
#ifndef OS_CGROUP_H
#define OS_CGROUP_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

#define CGROUP_SOCKETS_FILE "memory.kmem.tcp.limit_in_bytes"

enum cgroup_mode {
	CGROUP_NONE,
	CGROUP_V1,
	CGROUP_V2,
};

enum cgroup_controller {
	CGROUP_CPU,
	CGROUP_CPUACCT, /* v1; part of cpu on v2 */
	CGROUP_MEMORY,
	CGROUP_PIDS,
	CGROUP_FREEZER, /* v1; in the core of v2 */
	CGROUP_CONTROLLER_MAX,
};

struct cgroup_root {
	enum cgroup_mode mode;
	int dir[CGROUP_CONTROLLER_MAX]; /* v1: one each; v2: all are the same descriptor
					 */
	char base[4096 +
		  32]; /* the directory that "warren" (v1: <controller>/warren) is in */
	uint64_t pids; /* that all sandboxes may have together; 0: not known */
	uint64_t sockets; /* v1: bytes of buffers, the same; 0: not known */
	char why[128];    /* with CGROUP_NONE: why there are none */
};

struct cgroup_limits {
	uint64_t memory;     /* bytes; 0: no limit */
	uint64_t cpu_millis; /* 0: no limit */
	uint64_t pids;       /* 0: no limit */
	bool only_limits;    /* v1: no cgroup that would only account or freeze */
	bool all; /* v1: one of every controller, so that any limit can be set later */
};

struct cgroup_usage {
	uint64_t memory, memory_peak, cpu_usec, pids, oom_kills;
	uint64_t sockets; /* bytes in buffers of sockets */
};

/*
 * Look at what this machine has; makes the directory "warren" where it may. Never fails.
 */
void cgroup_root_open(struct cgroup_root *root);
void cgroup_root_close(struct cgroup_root *root);
/* Can this machine enforce or account by @c? */
bool cgroup_has(const struct cgroup_root *root, enum cgroup_controller c);
const char *cgroup_controller_name(enum cgroup_controller c);
const char *cgroup_mode_name(enum cgroup_mode mode);

/* Limits of "warren" itself, where it has none; part of cgroup_root_open(). */
void cgroup_limit_all(struct cgroup_root *root);
/* v1: what the sockets of a sandbox may have in buffers, beside its @memory. */
uint64_t cgroup_socket_limit(const struct cgroup_root *root, uint64_t memory);

/* Make the cgroup @id, owned by @owner, limited to @limits. Undone on failure. */
int cgroup_make(const struct cgroup_root *root, const char *id, uid_t owner,
		const struct cgroup_limits *limits, struct warren_error *err);
/* v2: the directory that init is cloned into. v1: -1. */
int cgroup_open_init(const struct cgroup_root *root, const char *id);

/* What init needs to place execs; each descriptor has a role. */
enum cgroup_handle_kind {
	CGROUP_HANDLE_JOIN,     /* v1 `tasks`, writable: where every exec goes */
	CGROUP_HANDLE_JOIN_BOX, /* v1 `tasks`: for an exec without its own cgroup */
	CGROUP_HANDLE_DIR,      /* the directory execs get cgroups of their own in */
};

struct cgroup_handle {
	int fd;
	enum cgroup_handle_kind kind;
	enum cgroup_controller controller; /* of a v1 directory */
};

#define CGROUP_HANDLES_MAX 12

/*
 * A directory is a detached mount, so that nothing leads out of it. To make one
 * takes privileges over the mount namespace: without @dirs there are none, and who has
 * namespaces of its own makes them there, by cgroup_copy_dirs().
 */
int cgroup_open_handles(const struct cgroup_root *root, const char *id, bool dirs,
			struct cgroup_handle *ret, size_t *ret_n,
			struct warren_error *err);
/* The same directories, by path, for a process in a mount namespace of its own. */
int cgroup_copy_dirs(const struct cgroup_root *root, const char *id,
		     struct cgroup_handle *ret, size_t *ret_n, struct warren_error *err);

/* Put the calling process, and all that it will start, into @id, below its limits. */
int cgroup_join(const struct cgroup_root *root, const char *id, struct warren_error *err);
/*
 * SIGKILL to all that is in it, frozen or not; absent is fine. They end after the return.
 */
int cgroup_kill(const struct cgroup_root *root, const char *id, struct warren_error *err);

bool cgroup_is_frozen(const struct cgroup_root *root, const char *id);
int cgroup_freeze(const struct cgroup_root *root, const char *id, bool frozen,
		  struct warren_error *err);
/* Is it, whoever did it? */
bool cgroup_frozen(const struct cgroup_root *root, const char *id);
/*
 * Change the limits of @id from @old to @next, all or none. -EBUSY: more memory
 * is in use than that, and cannot be reclaimed; nothing is killed for it.
 */
int cgroup_update(const struct cgroup_root *root, const char *id,
		  const struct cgroup_limits *old, const struct cgroup_limits *next,
		  struct warren_error *err);
int cgroup_read_usage(const struct cgroup_root *root, const char *id,
		      struct cgroup_usage *ret, struct warren_error *err);
/* Removes @id and what init made below it; absent is fine. -EBUSY: a process is left. */
int cgroup_try_remove(const struct cgroup_root *root, const char *id);
/* The same, with some patience for processes that are on their way out. */
int cgroup_remove(const struct cgroup_root *root, const char *id);

/*
 * The cgroup of somebody else's that the memory of the process is counted in whose
 * directory of /proc @proc is: a descriptor, or -errno when it is not to be seen from
 * here.
 */
int cgroup_memory_of(int proc);
/* How many processes in it the kernel has killed for want of memory. */
int cgroup_kills(int dir, uint64_t *ret);

#endif /* OS_CGROUP_H */
