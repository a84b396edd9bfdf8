/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup.h - create, limit, freeze, measure and remove the cgroup of a sandbox, with
 * cgroup v1, v2 or both
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
 * "warren" itself limits what all sandboxes together may use: processes (PIDS_SHARE of
 * the pids that the kernel can assign) and, on v1, socket buffers, which the memory limit
 * of a sandbox does not include there. Limits that an administrator has set there are not
 * changed.
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
	CGROUP_CPUACCT, /* v1 only; on v2 it is part of cpu */
	CGROUP_MEMORY,
	CGROUP_PIDS,
	CGROUP_FREEZER, /* v1 only; v2 can freeze without a controller */
	CGROUP_CONTROLLER_MAX,
};

struct cgroup_root {
	enum cgroup_mode mode;
	/* v1: one directory for each controller; v2: the same directory for all. */
	int dir[CGROUP_CONTROLLER_MAX];
	char base[4096 +
		  32]; /* parent directory of "warren" (v1: of <controller>/warren) */
	uint64_t pids; /* maximum for all sandboxes together; 0: unknown */
	/* v1: maximum bytes in socket buffers of all sandboxes; 0: unknown. */
	uint64_t sockets;
	char why[128]; /* CGROUP_NONE: why there are none */
};

struct cgroup_limits {
	uint64_t memory;     /* bytes; 0: no limit */
	uint64_t cpu_millis; /* 0: no limit */
	uint64_t pids;       /* 0: no limit */
	bool only_limits;    /* v1: omit controllers that only account or freeze */
	bool all; /* v1: use every controller, so that any limit can be set later */
};

struct cgroup_usage {
	uint64_t memory, memory_peak, cpu_usec, pids, oom_kills;
	uint64_t sockets; /* bytes in socket buffers */
};

/*
 * Detect the cgroups of this machine, and create the directory "warren" if permitted.
 * Never fails.
 */
void cgroup_root_open(struct cgroup_root *root);
void cgroup_root_close(struct cgroup_root *root);
/* Return whether controller @c is available. */
bool cgroup_has(const struct cgroup_root *root, enum cgroup_controller c);
const char *cgroup_controller_name(enum cgroup_controller c);
const char *cgroup_mode_name(enum cgroup_mode mode);

/* Set limits on "warren" itself where it has none; called by cgroup_root_open(). */
void cgroup_limit_all(struct cgroup_root *root);
/* v1: limit of a sandbox's socket buffers, in addition to its @memory. */
uint64_t cgroup_socket_limit(const struct cgroup_root *root, uint64_t memory);

/* Create the cgroup @id with @owner and @limits. A failure leaves nothing behind. */
int cgroup_make(const struct cgroup_root *root, const char *id, uid_t owner,
		const struct cgroup_limits *limits, struct warren_error *err);
/* v2: open the directory that init is cloned into. v1: -1. */
int cgroup_open_init(const struct cgroup_root *root, const char *id);

/* Descriptors with which init moves execs into cgroups. */
enum cgroup_handle_kind {
	CGROUP_HANDLE_JOIN,     /* v1 `tasks` file, writable, that every exec joins */
	CGROUP_HANDLE_JOIN_BOX, /* v1 `tasks` file for execs without their own cgroup */
	CGROUP_HANDLE_DIR,      /* directory in which execs get their own cgroups */
};

struct cgroup_handle {
	int fd;
	enum cgroup_handle_kind kind;
	enum cgroup_controller controller; /* controller of a v1 directory */
};

#define CGROUP_HANDLES_MAX 12

/*
 * Each directory is a detached mount, so that no path leads out of it. Creating one needs
 * privileges in the mount namespace. Without @dirs none is created; a process with its
 * own namespaces then calls cgroup_copy_dirs().
 */
int cgroup_open_handles(const struct cgroup_root *root, const char *id, bool dirs,
			struct cgroup_handle *ret, size_t *ret_n,
			struct warren_error *err);
/* Open the same directories by path, in a process with its own mount namespace. */
int cgroup_copy_dirs(const struct cgroup_root *root, const char *id,
		     struct cgroup_handle *ret, size_t *ret_n, struct warren_error *err);

/* Move the calling process and its future children into @id, under its limits. */
int cgroup_join(const struct cgroup_root *root, const char *id, struct warren_error *err);
/*
 * Send SIGKILL to all processes in @id, even if they are frozen. They may still be ending
 * when the function returns. It is no error if @id does not exist.
 */
int cgroup_kill(const struct cgroup_root *root, const char *id, struct warren_error *err);
/*
 * cgroup_procs.c: call @fn for each process in @id, by its pid in this pid namespace,
 * until @fn returns false. It is no error if @id does not exist.
 */
int cgroup_processes(const struct cgroup_root *root, const char *id,
		     bool (*fn)(void *ctx, pid_t pid), void *ctx);

bool cgroup_is_frozen(const struct cgroup_root *root, const char *id);
int cgroup_freeze(const struct cgroup_root *root, const char *id, bool frozen,
		  struct warren_error *err);
/* Return whether @id was requested to freeze, by any process. */
bool cgroup_frozen(const struct cgroup_root *root, const char *id);
/*
 * Change the limits of @id from @old to @next: either all or none. -EBUSY: the cgroup
 * uses more memory than @next allows, and the kernel cannot reclaim enough. No process is
 * killed.
 */
int cgroup_update(const struct cgroup_root *root, const char *id,
		  const struct cgroup_limits *old, const struct cgroup_limits *next,
		  struct warren_error *err);
int cgroup_read_usage(const struct cgroup_root *root, const char *id,
		      struct cgroup_usage *ret, struct warren_error *err);
/*
 * Remove @id and all cgroups below it. -EBUSY: a process is left. It is no error if @id
 * does not exist.
 */
int cgroup_try_remove(const struct cgroup_root *root, const char *id);
/* Like cgroup_try_remove(), but wait a short time for processes that are exiting. */
int cgroup_remove(const struct cgroup_root *root, const char *id);

/*
 * Open the memory cgroup, created by others, of the process whose /proc directory is
 * @proc; -errno if it is not visible from here.
 */
int cgroup_memory_of(int proc);
/* Get the number of OOM kills in the cgroup @dir. */
int cgroup_kills(int dir, uint64_t *ret);

#endif /* OS_CGROUP_H */
