/* SPDX-License-Identifier: Apache-2.0 */
/*
 * native.h - the native backend: its source files and shared types
 *
 *	native.c		the table and the engine
 *	create.c		create and destroy: the steps outside the sandbox
 *	vfork_helper.c		runs steps in a thread while the child has our stack
 *	plan.c			turns the spec and the image into a plan
 *	prepared.c		creates the common parts of sandboxes in advance
 *	child.c			the child that becomes init: the isolation steps
 *	rootfs.c		the child's mounts
 *	hide.c			hides mounts in the host's directories, for ordinary users
 *	engine_registry.c	live engines, id ranges, the cleanup after a crash
 *	orphan.c		sandboxes whose run directory is gone
 *	durable.c		sandboxes that outlive their creator
 *	files_child.c		a child that works on the files of a sandbox
 *	save.c			copies the files of a sandbox, and hibernates it
 *	diff.c			compares the files of a sandbox with its image
 *	diff_layers.c		opens the layers of a snapshot, to compare them
 *	scratch_disk.c		scratch space in a disk image, instead of in memory
 *	persist.c		scratch disks that outlive the processes of a sandbox
 *	volume.c		filesystems of volumes
 *	cow.c			overlays whose changes go to directories of the host
 *	idmap.c			id maps of sandboxes and volumes
 *	probe.c			detects the features of this machine
 *
 * Two processes create a sandbox together. The parent clones the child (child.c) into new
 * user, mount and pid namespaces. The child creates the other namespaces itself; the
 * network namespace takes longest. At the same time the parent writes the id maps, copies
 * the layers as id-mapped mounts (both need privileges on the host), sends them to the
 * child, and creates the cgroup. Both have finished when init sends READY. Copying the
 * parent's memory would take a tenth of the total time. The child therefore runs in that
 * memory, on the stack of the thread that cloned it (vfork(2)), while another thread does
 * the parent's work.
 *
 * src/initclient sends all later messages to init.
 */
#ifndef NATIVE_NATIVE_H
#define NATIVE_NATIVE_H

#include <pthread.h>
#include <sys/types.h>

#include "backend/backend.h"
#include "backend/left.h"
#include "image/image.h"
#include "initclient/initclient.h"
#include "os/capture.h"
#include "os/cgroup.h"
#include "os/ns.h"
#include "proto/init_proto.h"

#define NATIVE_MOUNTS_MAX 64
/* Indexes in native_plan.dirs: the upper directory, and the image's files below it. */
#define DIR_UPPER        (PROTO_ROLE_UPPER - PROTO_ROLE_DIRS)
#define DIR_LOWER        (PROTO_ROLE_LOWER - PROTO_ROLE_DIRS)
#define DIRS_OF_ROOT     2 /* both of them, in this order */
#define NATIVE_STEPS_MAX 48
/* Layers of all overlays of a sandbox, and how many of them get changes. */
#define COW_DIRS_MAX   136
#define COW_WRITES_MAX 8
/*
 * Descriptors that the parent sends to the child: scratch space, saved files, layers,
 * volumes.
 */
#define NATIVE_FDS_MAX (2 + IMAGE_MOUNTS_MAX + NATIVE_MOUNTS_MAX + COW_DIRS_MAX)
#define NATIVE_IDS     65536U /* number of ids per sandbox */
/*
 * Descriptors that stay open for the life of a sandbox get numbers from here on, if
 * possible. Descriptors that a child needs have lower numbers. A child copies only those,
 * so that the cost does not grow with the number of live sandboxes.
 */
#define NATIVE_FDS_KEPT 512
/* a host name, and source and target of each volume */
#define NATIVE_TEXT_MAX (256 + 2 * 4096 * NATIVE_MOUNTS_MAX)

/* Test hook: fail or crash before a step. Step numbers run through both tables. */
struct native_inject {
	int step; /* 0: none */
	bool crash;
};

struct native {
	bool privileged; /* has CAP_SYS_ADMIN on the host: id ranges, id-mapped mounts */
	bool trace;
	bool tmpfs_xattrs; /* a tmpfs of this kernel has all xattrs that overlays need */
	char *state_dir;
	char *run_dir;
	int ids_fd;     /* run_dir/ids */
	bool leftovers; /* a link could not be removed; the next engine removes it */
	int lock_fd; /* this engine's file in run_dir/engines, locked while it is open */
	char name[33];    /* name of that file */
	bool named;       /* the caller chose the name: sandboxes may be durable */
	int sandboxes_fd; /* run_dir/boxes of a named engine; -1: none */
	int init_fd;      /* init's program, sealed */
	struct cgroup_root cgroups;
	struct ns_map subuid, subgid; /* ranges of an ordinary user; count 0: none */
	uint64_t memory_default;
	pthread_mutex_t lock;     /* protects the members below; several threads create */
	struct native_host *host; /* the newest `host` image; NULL: not opened yet */
	struct native_prepared *parts; /* prepared sandboxes, the oldest first */
	struct left left;              /* failed sandboxes of a named engine */
	struct native_inject inject;
};

/* The image `host`, which concurrent create operations share. */
struct native_host {
	unsigned refs;
	uint64_t checked;
	struct image image;
};

struct native_sandbox {
	struct initclient_sandbox; /* must be first: initclient casts to it */
	struct native *engine;
	unsigned slot; /* slot number, which determines the id range */
	bool has_slot, has_cgroup;
	/* Whether the sandbox owns the socket and the state file with its id. */
	bool has_socket;
	bool one_shot;                    /* created for one exec */
	uid_t base_id;                    /* host uid of the sandbox's root */
	int image_lock;                   /* -1: none */
	int writes_locks[COW_WRITES_MAX]; /* cow.c */
	size_t n_writes;
	/*
	 * Captured during the creation; belongs to the sandbox until
	 * warren_capture_network() takes it.
	 */
	struct capture captured;
	struct cgroup_limits limits; /* the current limits */
	uint64_t tmpfs;              /* maximum bytes in its tmpfs filesystems */
};

static inline struct initclient_sandbox *native_talk(struct native_sandbox *sandbox)
{
	return (struct initclient_sandbox *)sandbox;
}

/*
 * child.c: input and state of the child, in memory shared with the parent. The parent
 * sets `image` while the child creates its namespaces, before it sends the mounts. It
 * sets everything else before the clone.
 */
struct native_plan {
	const struct warren_spec *spec;
	struct image image; /* unprivileged engine: with paths, set before the clone */
	const struct native *engine;
	char volumes[4096]; /* volumes of the image, NUL-terminated; an empty name ends
			       the list */
	const char *hostname;
	const char *cgroup; /* path of the cgroup, whose directories the child opens for
			       init; NULL: the parent sends them */
	uint64_t disk;
	uint64_t shm;   /* size of /dev/shm if it is not part of the disk */
	uint64_t tmpfs; /* default size of a tmpfs */
	/* The directories for changes that the creator has judged and locked (cow.c). */
	struct {
		dev_t dev;
		ino_t ino;
	} writes[COW_WRITES_MAX];
	bool on_disk;  /* the first mount that the child receives is the scratch space */
	bool kept;     /* the scratch space has the files of the sandbox already */
	bool restores; /* the next one is the directory of saved files */
	int saved;     /* that directory, in the creator; -1: none */
	bool part;     /* a prepared sandbox: init starts before the root is mounted */
	/* No file may get set-id bits or capabilities (native_forbids_set_id()). */
	bool no_set_id;
	int stage; /* prepared sandbox: socket for commands to the process that mounts */
	int control;
	int listener; /* durable sandbox: listener for init; -1: none */
	int sysctls;  /* set by the child: /proc/sys of the host; -1: none */
	int maker;    /* pidfd of the creator, whose death ends the child; -1: unknown */
	bool shares_fds; /* the child shares the creator's descriptor table */
	uint64_t times[NATIVE_STEPS_MAX];
	int inject; /* fail before this step; 0: none */
	bool crash;

	/* set by the child's steps */
	int fds[NATIVE_FDS_MAX];
	size_t n_fds;
	int scratch, root, proc, pts, init;
	char lowers[4096]; /* the layers of the root, as an option of the overlay */
	char upper[32], work[32]; /* its other directories, in the scratch space */
	bool used; /* the upper directory was used before: it has files of a sandbox */
	int mount_fds[NATIVE_MOUNTS_MAX]; /* for each mount of the spec; -1: a tmpfs */
	/* Directories for init, by role (minus PROTO_ROLE_DIRS); -1: none. */
	int dirs[PROTO_DIRS];
	struct ns_aside aside; /* the thread that mounts, and its error */
	struct warren_error aside_err;

	/*
	 * If prepared in advance: copy of the spec, which arrives later; `spec` points to
	 * it.
	 */
	bool has_spec; /* set by the process that mounts */
	struct warren_spec asked;
	struct warren_mount mounts[NATIVE_MOUNTS_MAX];
	char text[NATIVE_TEXT_MAX]; /* strings of that spec; unused pages take no memory
				     */
};

/* Get a separate descriptor table; the child calls this first. */
void inside_take_descriptors(struct native_plan *plan);
/* Run the child. It may share the creator's memory, so it writes only to the plan. */
__attribute__((noreturn)) void inside_main(struct native_plan *plan);
size_t inside_n_steps(void);
size_t inside_n_part_steps(void);
struct warren_step inside_step(const struct native_plan *p, size_t i);

/* rootfs.c: steps of child.c */
int rootfs_copies(struct native_plan *p, struct warren_error *err);
/*
 * Copy the mount of @path, which must be the same file as @opened (0: any file), to the
 * next entry of plan.fds.
 */
int rootfs_copy_path(struct native_plan *p, const char *path, int opened, bool recursive,
		     uint64_t attr, struct warren_error *err);
int rootfs_scratch(struct native_plan *p, struct warren_error *err);
int rootfs_stage(struct native_plan *p, struct warren_error *err);
int rootfs_leave(struct native_plan *p, struct warren_error *err);
int rootfs_fit(struct native_plan *p, struct warren_error *err);
int rootfs_place_proc(struct native_plan *p, struct warren_error *err);
/*
 * hide.c: for an ordinary user, hide mounts below the directories of the image. The masks
 * must exist.
 */
int rootfs_hide(struct native_plan *p, struct warren_error *err);
int rootfs_restore(struct native_plan *p, struct warren_error *err);
int rootfs_trees(struct native_plan *p, struct warren_error *err);
int rootfs_proc(struct native_plan *p, struct warren_error *err);
int rootfs_dev(struct native_plan *p, struct warren_error *err);
int rootfs_pivot(struct native_plan *p, struct warren_error *err);
int rootfs_mounts(struct native_plan *p, struct warren_error *err);
int rootfs_seal(struct native_plan *p, struct warren_error *err);

/* create.c */
int native_create(void *state, const struct warren_spec *spec,
		  struct backend_sandbox **ret_sandbox, struct warren_error *err);
/*
 * Kill all processes of the sandbox, wait until they have ended, remove everything else
 * that belongs to it, and free @sandbox.
 */
int native_unmake(struct native *n, struct native_sandbox *sandbox,
		  struct warren_error *err);
/*
 * Like native_unmake(), after a failed creation. If this fails too, a named engine keeps
 * @sandbox.
 */
int native_undo(struct native *n, struct native_sandbox *sandbox,
		struct warren_error *err);
/* Free only the handle. */
void native_forget(struct native_sandbox *sandbox);

/* plan.c */
/*
 * Can a sandbox with this spec write to a directory of the machine that others may reach?
 * Then it creates no files with set-id bits or capabilities.
 */
bool native_forbids_set_id(const struct warren_spec *spec);
void take_forget_host(struct native *n);
/*
 * Check the limit @pids. -EINVAL: it is more than half of the processes that all
 * sandboxes together may have.
 */
int take_pids(const struct native *n, uint64_t pids, struct warren_error *err);

/* prepared.c */
/* Prepare one sandbox; @ret_id gets its id. */
int prepared_prepare(void *state, char ret_id[ID_LEN + 1], struct warren_error *err);
/* Remove the prepared sandbox @id from the list and return it; NULL: there is none. */
struct native_prepared *prepared_take(struct native *n, const char *id);
/* Turn @part into a sandbox and free @part. -EPIPE: it had died; @err is not set then. */
int prepared_finish(struct native_prepared *part, const struct warren_spec *spec,
		    struct backend_sandbox **ret_sandbox, struct warren_error *err);
/* Destroy @part, which the caller has taken. */
void prepared_end(struct native_prepared *part);
/* Destroy up to @n prepared sandboxes, the oldest first; return how many. */
size_t prepared_drop(void *state, size_t n);

/* engine_registry.c */
/* Register the engine. @name is its persistent name; NULL: none. */
int engine_registry_open(struct native *n, const char *name, struct warren_error *err);
/* First host id of the range of @slot. */
uid_t engine_registry_base(const struct native *n, unsigned slot);
/* Return whether @uid belongs to a sandbox of root, including the id of its init. */
bool engine_registry_is_range(uid_t uid);
void engine_registry_close(struct native *n);
/*
 * For an engine without a name: return a lock that other processes can hold. While one of
 * them holds it, no other engine removes the sandboxes of this engine.
 */
int engine_registry_hold(const struct native *n, int *ret_fd, struct warren_error *err);
int engine_registry_claim(struct native *n, struct native_sandbox *sandbox,
			  struct warren_error *err);
void engine_registry_release(struct native *n, struct native_sandbox *sandbox);

/* orphan.c */
int orphan_list(void *state, struct warren_orphan **ret, size_t *ret_n,
		struct warren_error *err);
int orphan_remove(void *state, const char *id, struct warren_error *err);

/* save.c */
int native_save_files(void *state, struct backend_sandbox *base, int dir, unsigned flags,
		      struct warren_saved *ret, struct warren_error *err);
/*
 * Get a directory of the root, of the role PROTO_ROLE_UPPER or PROTO_ROLE_LOWER, which
 * only a process without privileges may use: files_child.h.
 */
int native_root_dir(struct native_sandbox *sandbox, unsigned role, int *ret_fd,
		    struct warren_error *err);
int native_hibernate(void *state, struct backend_sandbox *base, struct warren_saved *ret,
		     struct warren_error *err);
int native_forget_saved(void *state, const char *id, struct warren_error *err);
int native_has_saved(void *state, const char *id, struct warren_error *err);
int native_reset(void *state, struct backend_sandbox *base, struct warren_error *err);
const char *native_image(const struct backend_sandbox *base);
/* The image of a sandbox that hibernates. The caller frees it. */
int saved_image(const struct native *n, const char *id, char **ret,
		struct warren_error *err);
/* A step of a creation: open the files that the new sandbox starts with, if any. */
struct create_op;
int saved_open(struct create_op *m, struct warren_error *err);
/* A step of the creation of a sandbox that persists: record its image. */
int saved_note(struct create_op *m, struct warren_error *err);
/* Remove the saved files, because the sandbox has them now. */
void saved_drop(struct create_op *m);
/*
 * The sandbox is alive. If it has a disk, then no reset has dropped it, so none that was
 * interrupted may drop it later.
 */
void saved_keep_disk(const struct native *n, const char *id);
/* Remove saved files of sandboxes that are running, and incomplete copies. */
void saved_sweep(struct native *n);

/* diff.c */
int native_diff(void *state, struct backend_sandbox *base, int fd,
		struct warren_diff *diff, struct warren_error *err);

/* scratch_disk.c */
bool scratch_disk_tmpfs_has_xattrs(void);
/* Open the empty filesystem of @size bytes, from which others are copied. */
int scratch_disk_template(const struct native *n, uint64_t size, bool journal,
			  struct warren_error *err);
/* Create a detached ext4 mount of @size bytes with the id map of @userns. */
int scratch_disk_mount(const struct native *n, uint64_t size, int userns, int *ret_fd,
		       struct warren_error *err);

/* idmap.c */
void idmap_sandbox(const struct native *n, const struct native_sandbox *sandbox,
		   struct ns_maps *ret);
/* Return whether @uid and @gid exist inside the sandbox. */
bool idmap_has(const struct native *n, const struct native_sandbox *sandbox, uint32_t uid,
	       uint32_t gid);
bool idmap_has_ids(const struct initclient_sandbox *sandbox, uint32_t uid, uint32_t gid);
/*
 * Set the id map of a volume: it maps only the owner of the files on disk, to the user
 * inside the sandbox.
 */
void idmap_volume(const struct native_sandbox *sandbox, uint32_t owner_uid,
		  uint32_t owner_gid, struct ns_maps *ret);

/*
 * Set the id map of a layer that has files of a sandbox: the owner of the layer is the
 * user inside, and the other ids are unchanged.
 */
void idmap_layer(const struct native_sandbox *sandbox, uint32_t owner_uid,
		 uint32_t owner_gid, struct ns_maps *ret);

/* native.c: whether the kernel has at least this version. */
bool native_kernel_since(unsigned long major, unsigned long minor);

/* probe.c */
int native_probe(void *state, struct warren_feature *features, struct warren_error *err);

#endif /* NATIVE_NATIVE_H */
