/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gvisor.h - gVisor sandboxes: the parts and what they share
 *
 *	gvisor.c	the table; operations on a live sandbox, and its end
 *	create.c	creates a sandbox, in steps
 *	rootfs.c	its mounts, in a separate mount namespace
 *	bundle.c	config.json, from which runsc creates it
 *	sentry_rpc.c	calls the sentry
 *	exec.c		runs commands
 *	checkpoint.c	saves its processes to a file, and restores them
 *	probe.c		what this machine can do
 *
 * Theory of operation
 *
 * `runsc run --detach` leaves two processes: the sentry, a kernel in user space that runs
 * everything inside (with ptrace, as the user nobody, in empty namespaces, under its own
 * filter), and the gofer, which opens files for it. Both, and the sentry's children in
 * which the code inside runs, are in one cgroup of Warren's from their first instruction
 * on, with the same limits as a native sandbox; runsc is told not to manage cgroups.
 *
 * The root is an overlay of the store's layers on a tmpfs with the size of the disk
 * limit. The process that becomes runsc mounts it in a mount namespace that the gofer
 * inherits and the shim holds: when both have ended, the mounts are gone.
 *
 * Pid 1 inside is the guest agent (agent/guest/main.c), shown read-only at GVISOR_FIRST:
 * a container of runsc lives as long as its first process, and an image may have no
 * program that waits, not even a shell. The sentry starts everything else, as processes
 * without a parent; processes that these leave behind become children of the guest agent.
 * Run a second time, by its name, the guest agent is a stream to a port.
 *
 * So a sandbox consists of a cgroup named after its id, and its directory. Destroying it
 * means killing everything in the cgroup, no matter what started it or what has happened
 * to it since. runsc is not asked to do this, because its state has process ids of
 * another namespace.
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
#define GVISOR_FIRST      "/dev/warren" /* pid 1, as it is called inside */

/* A mount of config.json beside those that every sandbox has. */
struct gvisor_mount {
	const char *target;
	char source[GVISOR_PATH_MAX]; /* "": a tmpfs */
	uint64_t size;                /* of a tmpfs */
	bool read_only;
};

/* A create under way: what the steps hand on to each other. */
struct gvisor_making {
	struct shim_sandbox *place;
	const struct warren_spec *spec;
	char runsc[GVISOR_PATH_MAX];
	struct cgroup_root cgroups;
	struct cgroup_limits limits;
	uint64_t pids, disk, nofile;
	struct image image;
	bool has_image, has_cgroup, no_network;
	int saved; /* the file of one that is restored; -1: it is made */
	int held;  /* and its mount namespace */
	int tell;  /* of the child: where it says what it has to say */
	struct initclient_user user;
	/* in the child, by rootfs.c */
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
	return m->spec->hostname ? m->spec->hostname : m->place->id;
}

/* A path below the place's directory. */
void gvisor_path(const struct shim_sandbox *p, const char *name,
		 char ret[GVISOR_PATH_MAX]);
/* A directory of files alone, and them; 0 also when there is none. */
int gvisor_remove_files(int at, const char *name);
/* A connection to the sentry. */
int gvisor_connect(const struct shim_sandbox *p, struct warren_error *err);
#define ENDING_MS 1000 /* from the end of its connections to that of a process */
/* Whether one of the processes that it consists of has ended, or does so in that time. */
bool gvisor_is_gone(const struct shim_sandbox *p, int within_ms);
/* Has the kernel killed something of it for want of memory? That is its end. */
bool gvisor_was_oom(const struct shim_sandbox *p);
/* Kill all of it and remove what there is; 0 also when there is nothing. */
int gvisor_unmake(const struct shim_sandbox *p, const struct cgroup_root *cgroups,
		  struct warren_error *err);

/* create.c */
int gvisor_create(struct shim_sandbox *p, const struct warren_spec *spec,
		  struct warren_error *err);
/*
 * runsc by a child that has done the steps before; the sandbox runs when it returns 0.
 * The last step is to become runsc. -ETIMEDOUT, -EIO: it was runsc that failed.
 */
int gvisor_start(struct gvisor_making *m, const struct gvisor_step *in_child, size_t n,
		 struct warren_error *err);
int gvisor_join(struct gvisor_making *m, struct warren_error *err);
int gvisor_become_runsc(struct gvisor_making *m, struct warren_error *err);
/* What it may use now, as `limits` in the place's directory has it. */
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

/* checkpoint.c: of driver.h */
int gvisor_savable(struct shim_sandbox *p, int of, struct warren_error *err);
int gvisor_save(struct shim_sandbox *p, int image, struct warren_error *err);
int gvisor_restore(struct shim_sandbox *p, int image, int held, struct warren_error *err);

/* probe.c */
int gvisor_probe(const char *name, const json_t *config, struct warren_feature *features,
		 size_t max, struct warren_error *err);
/*
 * Where runsc is: as configured ("runsc": "/path"), else where programs are. -ENODEV:
 * nowhere.
 */
int gvisor_find_runsc(const json_t *config, char ret[GVISOR_PATH_MAX],
		      struct warren_error *err);

#endif /* SHIM_GVISOR_GVISOR_H */
