/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gvisor.h - gVisor sandboxes: the source files and shared functions
 *
 *	gvisor.c	the table; operations on a live sandbox, and its end
 *	create.c	creates a sandbox, in steps
 *	rootfs.c	mounts of a sandbox, in a separate mount namespace
 *	bundle.c	config.json, from which runsc creates a sandbox
 *	sentry_rpc.c	calls the sentry
 *	exec.c		runs commands
 *	network.c	the network namespace of a sandbox with a network policy
 *	checkpoint.c	saves its processes to a file, and restores them
 *	probe.c		detects the features of this machine
 *
 * Theory of operation
 *
 * `runsc run --detach` leaves two processes: the sentry, a kernel in user space that runs
 * everything inside (with ptrace, as the user `nobody`, in empty namespaces, under its
 * own filter), and the gofer, which opens files for it. Both, and the sentry's children
 * in which the code inside runs, are in one of Warren's cgroups from the start, with the
 * same limits as a native sandbox. Warren configures runsc not to manage cgroups.
 *
 * The root is an overlay of the store's layers on a tmpfs with the size of the disk
 * limit. The process that becomes runsc mounts it in a mount namespace that the gofer
 * inherits and the shim keeps open. When both have ended, the mounts are gone.
 *
 * Pid 1 inside is the guest agent (agent/guest/main.c), shown read-only at GVISOR_FIRST:
 * a container of runsc lives as long as its first process, and an image may have no
 * program that waits, not even a shell. The sentry starts everything else, as processes
 * without a parent; processes that these leave behind become children of the guest agent.
 * The same program, run as a command inside, relays a stream to a port.
 *
 * So a sandbox consists of a cgroup named after its id, and its directory. Destroying it
 * means killing all processes in the cgroup, whatever started them. runsc cannot do this,
 * because its state contains process ids of another namespace.
 *
 * A path from the image must never be resolved on the host. Everything that is mounted or
 * inspected in the root is opened beneath it, without following links that lead out.
 */
#ifndef SHIM_GVISOR_GVISOR_H
#define SHIM_GVISOR_GVISOR_H

#include "image/image.h"
#include "initclient/user.h"
#include "os/cgroup.h"
#include "shim/core/driver.h"

#define GVISOR_MOUNTS_MAX 64
#define GVISOR_PATH_MAX   (sizeof(((struct shim_sandbox *)0)->dir) + 64)
#define GVISOR_FIRST      "/dev/warren" /* path of pid 1 inside */

/* A mount of config.json in addition to those of every sandbox. */
struct gvisor_mount {
	const char *target;
	char source[GVISOR_PATH_MAX]; /* "": a tmpfs */
	uint64_t size;                /* size of a tmpfs */
	bool read_only;
};

/* The state that the steps of a create operation share. */
struct gvisor_making {
	struct shim_sandbox *sandbox;
	const struct warren_spec *spec;
	char runsc[GVISOR_PATH_MAX];
	struct cgroup_root cgroups;
	struct cgroup_limits limits;
	uint64_t pids, disk, nofile;
	struct image image;
	bool has_image, has_cgroup;
	bool no_network; /* not even loopback */
	bool captured;   /* runsc uses the network namespace of network_create() */
	int saved;       /* file to restore the processes from; -1: they are new */
	int files;       /* directory of saved files; -1: none */
	int upper;       /* in the child: see shim_sandbox.upper */
	int held;        /* restore: the mount namespace */
	int tell;        /* in the child: descriptor for its report */
	struct initclient_user user;
	/* set by rootfs.c in the child */
	int copies[IMAGE_MOUNTS_MAX + GVISOR_MOUNTS_MAX];
	size_t n_copies;
	struct gvisor_mount mounts[GVISOR_MOUNTS_MAX + 2];
	size_t n_mounts;
};

struct gvisor_step {
	const char *name;
	int (*run)(struct gvisor_making *m, struct warren_error *err);
};

/* The host name inside the sandbox. */
static inline const char *gvisor_hostname(const struct gvisor_making *m)
{
	return m->spec->hostname ? m->spec->hostname : m->sandbox->id;
}

/* Build a path below the sandbox's directory. */
void gvisor_path(const struct shim_sandbox *p, const char *name,
		 char ret[GVISOR_PATH_MAX]);
/* Remove a directory that contains only files; 0 if there is none. */
int gvisor_remove_files(int at, const char *name);
/* Connect to the sentry. */
int gvisor_connect(const struct shim_sandbox *p, struct warren_error *err);
/* Time from the end of its connections to the end of a process, in ms. */
#define ENDING_MS 1000
/*
 * Return whether one of the sandbox's own processes (sentry, gofer) has ended, or ends
 * within @within_ms.
 */
bool gvisor_is_gone(const struct shim_sandbox *p, int within_ms);
/* Return whether the OOM killer killed a process of the sandbox, which ends the
 * sandbox. */
bool gvisor_was_oom(const struct shim_sandbox *p);
/*
 * Kill all processes of the sandbox and remove everything else. Returns 0 even if there
 * was nothing to remove.
 */
int gvisor_unmake(const struct shim_sandbox *p, const struct cgroup_root *cgroups,
		  struct warren_error *err);

/* create.c */
int gvisor_create(struct shim_sandbox *p, const struct warren_spec *spec,
		  struct warren_error *err);
/*
 * Start a child that does the steps @in_child, of which the last becomes runsc. On
 * success, the sandbox runs. -ETIMEDOUT, -EIO: runsc failed.
 */
int gvisor_start(struct gvisor_making *m, const struct gvisor_step *in_child, size_t n,
		 struct warren_error *err);
int gvisor_join(struct gvisor_making *m, struct warren_error *err);
int gvisor_become_runsc(struct gvisor_making *m, struct warren_error *err);
/* Read and write the current limits, in the file `limits` of the sandbox's directory. */
int gvisor_read_limits(const struct shim_sandbox *p, struct cgroup_limits *ret,
		       struct warren_error *err);
int gvisor_write_limits(const struct shim_sandbox *p, const struct cgroup_limits *limits,
			struct warren_error *err);

/* rootfs.c: steps of the process that becomes runsc */
int root_copy(struct gvisor_making *m, struct warren_error *err);
int root_mount(struct gvisor_making *m, struct warren_error *err);

/* bundle.c */
int bundle_write(const struct gvisor_making *m, struct warren_error *err);

/* exec.c */
__attribute__((noreturn)) void gvisor_exec(struct shim_sandbox *p,
					   const struct shim_exec *e);

/* checkpoint.c: functions of driver.h */
int gvisor_savable(struct shim_sandbox *p, int of, struct warren_error *err);
int gvisor_save(struct shim_sandbox *p, int image, struct warren_error *err);
int gvisor_restore(struct shim_sandbox *p, int image, int held, struct warren_error *err);
/* Start the sandbox like gvisor_start(), with the processes of the file m->saved. */
int gvisor_start_saved(struct gvisor_making *m, const struct gvisor_step *in_child,
		       size_t n, struct warren_error *err);

/* network.c */
/* Step of the process that becomes runsc: enter a new network namespace. */
int network_create(struct gvisor_making *m, struct warren_error *err);
/* Return whether the sandbox was created with such a namespace. */
bool gvisor_has_network(const struct shim_sandbox *p);
/* See shim_driver.network. */
int gvisor_network(const struct shim_sandbox *p, int *ret_ns, struct warren_error *err);

/* probe.c */
int gvisor_probe(const char *name, const json_t *config, struct warren_feature *features,
		 size_t max, struct warren_error *err);
/*
 * Find runsc: the configured path ("runsc": "/path"), otherwise in the usual directories.
 * -ENODEV: it is not installed.
 */
int gvisor_find_runsc(const json_t *config, char ret[GVISOR_PATH_MAX],
		      struct warren_error *err);

#endif /* SHIM_GVISOR_GVISOR_H */
