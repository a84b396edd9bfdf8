/* SPDX-License-Identifier: Apache-2.0 */
/*
 * native.h - the native backend: its parts and what they share
 *
 *	native.c		the table and the engine
 *	create.c		create and destroy: the steps outside the sandbox
 *	vfork_helper.c		a thread for the steps outside, while the child has ours
 *	plan.c			reads the spec and the image into a plan
 *	prepared.c		prepares in advance what any sandbox needs
 *	child.c			the child that becomes init: the isolation steps
 *	rootfs.c		the child's mounts
 *	hide.c			hides mounts in the machine's trees, for ordinary users
 *	engine_registry.c	live engines, id ranges, the cleanup after a crash
 *	orphan.c		sandboxes whose run directory is gone
 *	durable.c		sandboxes that outlive their creator
 *	scratch_disk.c		a disk in a file, if memory is not suitable
 *	idmap.c			id maps of sandboxes and volumes
 *	probe.c			what this machine can do
 *
 * Two processes create a sandbox together. The child (child.c) is cloned into new user,
 * mount and pid namespaces and creates the others itself, of which the network namespace
 * takes longest. At the same time the parent writes the id maps, copies the layers as
 * id-mapped mounts (both need privileges on the host), sends them to the child, and
 * creates the cgroup. Both are done when init sends READY. Copying the parent's memory
 * for the child would take a tenth of the whole time, so the child runs in that memory,
 * on the stack of the thread that cloned it (vfork(2)); another thread does the parent's
 * work in the meantime.
 *
 * Messages to init after that are not part of this backend: see initclient.
 */
#ifndef NATIVE_NATIVE_H
#define NATIVE_NATIVE_H

#include <pthread.h>
#include <sys/types.h>

#include "backend/backend.h"
#include "image/image.h"
#include "initclient/initclient.h"
#include "os/cgroup.h"
#include "os/ns.h"
#include "proto/init_proto.h"

#define NATIVE_MOUNTS_MAX 64
#define NATIVE_STEPS_MAX  48
/* what the parent sends to the child: scratch space, layers, volumes */
#define NATIVE_FDS_MAX (1 + IMAGE_MOUNTS_MAX + NATIVE_MOUNTS_MAX)
#define NATIVE_IDS     65536U /* per sandbox */
/*
 * Descriptors that are kept for the life of a sandbox have numbers from here on, if
 * possible, and those that a child needs have lower ones. A child copies only the lower
 * ones, however many sandboxes are alive.
 */
#define NATIVE_FDS_KEPT 512
/* a host name, and source and target of each volume */
#define NATIVE_TEXT_MAX (256 + 2 * 4096 * NATIVE_MOUNTS_MAX)

/* Test hook: fail or die before a step. Steps are counted over both tables. */
struct native_inject {
	int step; /* 0: none */
	bool crash;
};

struct native {
	bool privileged; /* id ranges, id-mapped mounts: CAP_SYS_ADMIN on the host */
	bool trace;
	bool tmpfs_xattrs; /* overlays work without limits on a tmpfs of this kernel */
	char *state_dir;
	char *run_dir;
	int ids_fd;       /* run_dir/ids */
	bool leftovers;   /* a link could not be removed: the next engine must find it */
	int lock_fd;      /* our file in run_dir/engines, locked while we live */
	char name[33];    /* of that file */
	bool named;       /* by the caller: its sandboxes may be durable */
	int sandboxes_fd; /* run_dir/sandboxes of a named engine, -1: none */
	int init_fd;      /* init's program, sealed */
	struct cgroup_root cgroups;
	struct ns_map subuid, subgid; /* of an ordinary user; count 0: none */
	uint64_t memory_default;
	pthread_mutex_t lock;     /* of what follows: creates run in several threads */
	struct native_host *host; /* the newest; NULL: not opened yet */
	struct native_prepared *parts; /* ready, the oldest first */
	struct native_inject inject;
};

/* The image `host`, shared by the creates that use it. */
struct native_host {
	unsigned refs;
	uint64_t checked;
	struct image image;
};

struct native_sandbox {
	struct initclient_sandbox; /* first: the two are one to initclient */
	struct native *engine;
	unsigned slot; /* of the id range */
	bool has_slot, has_cgroup;
	bool has_door;  /* the socket and the state file of its id belong to it */
	bool one_shot;  /* created for one exec */
	uid_t base_id;  /* the host's uid of root inside */
	int image_lock; /* -1: none */
	struct cgroup_limits limits; /* as they are now */
	uint64_t tmpfs;              /* bytes that its filesystems in memory may hold */
};

static inline struct initclient_sandbox *native_talk(struct native_sandbox *sandbox)
{
	return (struct initclient_sandbox *)sandbox;
}

/*
 * child.c: the child's side of a create, in memory that both share. The image is filled
 * in while the child creates its namespaces, before the mounts are sent; everything else
 * before the clone.
 */
struct native_plan {
	const struct warren_spec *spec;
	struct image image; /* of an unprivileged engine also the paths, set before the
			       clone */
	const struct native *engine;
	char volumes[4096]; /* of the image: names, each NUL-terminated, then an empty one
			     */
	const char *hostname;
	const char *cgroup; /* whose directories the child copies for init; NULL: it is
			       sent them */
	uint64_t disk;
	uint64_t shm;   /* size of /dev/shm, where it is not part of the disk */
	uint64_t tmpfs; /* size of each tmpfs for which the spec has none */
	bool on_disk;   /* the first mount that comes is the scratch space */
	bool part;      /* prepared in advance: init is up before the root is */
	int stage;      /* of a part: orders for the process that makes the mounts */
	int control;
	int listener; /* for init, of a durable sandbox; -1: none */
	int maker; /* a pidfd of the creator: if it dies, the child ends; -1: not known */
	bool shares_fds; /* the child has the maker's descriptors, not a copy of them */
	uint64_t times[NATIVE_STEPS_MAX];
	int inject; /* step to fail before; 0: none */
	bool crash;

	/* by the steps */
	int fds[NATIVE_FDS_MAX];
	size_t n_fds;
	int scratch, root, proc, pts, init;
	int cgroups[PROTO_DIRS]; /* by role; -1: none */
	struct ns_aside aside;   /* the thread that makes the mounts, and how it failed */
	struct warren_error aside_err;

	/* Of a part, whose spec comes when it is made already: what `spec` points to. */
	struct warren_spec asked;
	struct warren_mount mounts[NATIVE_MOUNTS_MAX];
	char text[NATIVE_TEXT_MAX]; /* its strings; unused pages take no memory */
};

/* The first thing that a child does: get a separate descriptor table. */
void inside_take_descriptors(struct native_plan *plan);
/* In a child that may share the creator's memory: it writes to nothing but the plan. */
__attribute__((noreturn)) void inside_main(struct native_plan *plan);
size_t inside_n_steps(void);
size_t inside_n_part_steps(void);
struct warren_step inside_step(const struct native_plan *p, size_t i);

/* rootfs.c: steps of child.c */
int rootfs_copies(struct native_plan *p, struct warren_error *err);
int rootfs_scratch(struct native_plan *p, struct warren_error *err);
int rootfs_stage(struct native_plan *p, struct warren_error *err);
int rootfs_fit(struct native_plan *p, struct warren_error *err);
int rootfs_place_proc(struct native_plan *p, struct warren_error *err);
/*
 * hide.c: for an ordinary user, hide what is mounted in the trees of the image; after the
 * masks are created.
 */
int rootfs_hide(struct native_plan *p, struct warren_error *err);
int rootfs_trees(struct native_plan *p, struct warren_error *err);
int rootfs_proc(struct native_plan *p, struct warren_error *err);
int rootfs_dev(struct native_plan *p, struct warren_error *err);
int rootfs_pivot(struct native_plan *p, struct warren_error *err);
int rootfs_mounts(struct native_plan *p, struct warren_error *err);
int rootfs_seal(struct native_plan *p, struct warren_error *err);

/* create.c */
int native_create(void *state, const struct warren_spec *spec,
		  struct backend_sandbox **ret_sandbox, struct warren_error *err);
/* Kill all of its processes, wait for their end, remove the rest; frees @sandbox. */
int native_unmake(struct native *n, struct native_sandbox *sandbox,
		  struct warren_error *err);
/* Frees the handle alone. */
void native_forget(struct native_sandbox *sandbox);

/* plan.c */
void take_forget_host(struct native *n);
/*
 * Whether a sandbox may have so many processes. -EINVAL: the kernel needs pids for other
 * processes too.
 */
int take_pids(const struct native *n, uint64_t pids, struct warren_error *err);

/* prepared.c */
/* Prepare one in advance; its id goes to @ret_id. */
int prepared_prepare(void *state, char ret_id[ID_LEN + 1], struct warren_error *err);
/* The part of this id, or NULL; out of the list. */
struct native_prepared *prepared_take(struct native *n, const char *id);
/* -EPIPE: it was dead; @err says nothing then. It is gone in any case. */
int prepared_finish(struct native_prepared *part, const struct warren_spec *spec,
		    struct backend_sandbox **ret_sandbox, struct warren_error *err);
/* Unmake up to @n of them, the oldest first; how many. */
size_t prepared_drop(void *state, size_t n);

/* engine_registry.c */
/* @name: of an engine that comes back; NULL: it does not. */
int engine_registry_open(struct native *n, const char *name, struct warren_error *err);
/* The first id of a slot on the host. */
uid_t engine_registry_base(const struct native *n, unsigned slot);
/* Whether @uid belongs to a sandbox of root, including the id of its init. */
bool engine_registry_is_range(uid_t uid);
void engine_registry_close(struct native *n);
/*
 * A lock, to be passed on, that keeps the sandboxes of an engine without a name from
 * being cleaned up.
 */
int engine_registry_hold(const struct native *n, int *ret_fd, struct warren_error *err);
int engine_registry_claim(struct native *n, struct native_sandbox *sandbox,
			  struct warren_error *err);
void engine_registry_release(struct native *n, struct native_sandbox *sandbox);

/* orphan.c */
int orphan_list(void *state, struct warren_orphan **ret, size_t *ret_n,
		struct warren_error *err);
int orphan_remove(void *state, const char *id, struct warren_error *err);

/* scratch_disk.c */
bool scratch_disk_tmpfs_has_xattrs(void);
/* A detached ext4 of @size bytes, with the ids of @userns. */
int scratch_disk_mount(const struct native *n, uint64_t size, int userns, int *ret_fd,
		       struct warren_error *err);

/* idmap.c */
void idmap_sandbox(const struct native *n, const struct native_sandbox *sandbox,
		   struct ns_maps *ret);
/* Does @id exist inside? */
bool idmap_has(const struct native *n, const struct native_sandbox *sandbox, uint32_t uid,
	       uint32_t gid);
bool idmap_has_ids(const struct initclient_sandbox *sandbox, uint32_t uid, uint32_t gid);
/*
 * The map that gives files of the owner on disk to the user inside, and maps nothing
 * else.
 */
void idmap_volume(const struct native_sandbox *sandbox, uint32_t owner_uid,
		  uint32_t owner_gid, struct ns_maps *ret);

/* native.c: is the kernel of that version, or a later one? */
bool native_kernel_since(unsigned long major, unsigned long minor);

/* probe.c */
int native_probe(void *state, struct warren_feature *features, struct warren_error *err);

#endif /* NATIVE_NATIVE_H */
