/* SPDX-License-Identifier: Apache-2.0 */
/*
 * native.h - the native backend: parts and what they share
 *
 *	native.c	the table and the engine
 *	create.c	create and destroy, as steps outside the sandbox
 *	inside.c	the same for the child that becomes init: the isolation steps
 *	rootfs.c	its mounts
 *	registry.c	who is alive, id ranges, removal of what a crash left
 *	durable.c	sandboxes that outlive who made them; state.c, what is noted of them
 *	disk.c		a disk in a file, where memory will not do
 *	idmap.c		which id is which, inside and outside and in a volume
 *	request.c	what is asked of init and what it answers, without waiting
 *	client.c	the conversation with init, on top of it
 *	exec.c		execs on top of that
 *	reach.c		files and ports, the same way
 *	journal.c	reading an exec's journal
 *	user.c		"name", "uid", "uid:gid" to ids, by the sandbox's own passwd
 *	probe.c		what this machine can do
 *
 * Making a sandbox takes two processes at once. The child (inside.c) is cloned
 * into new user, mount and pid namespaces and makes the others itself, the
 * network being the dearest; meanwhile the parent writes its id maps, copies
 * the layers as id-mapped mounts (both need privileges of the host's), sends
 * them over, and makes the cgroup. They meet when init says READY.
 */
#ifndef NATIVE_NATIVE_H
#define NATIVE_NATIVE_H

#include <sys/types.h>

#include "backend/backend.h"
#include "backend/native/journal.h"
#include "backend/native/request.h"
#include "image/image.h"
#include "init/proto.h"
#include "os/cgroup.h"
#include "os/ns.h"

#define NATIVE_MOUNTS_MAX 64
#define NATIVE_STEPS_MAX  24
/* what the parent sends to the child: scratch space, layers, volumes */
#define NATIVE_FDS_MAX (1 + IMAGE_MOUNTS_MAX + NATIVE_MOUNTS_MAX)
#define NATIVE_IDS     65536U /* per sandbox */

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
	int ids_fd;     /* run_dir/ids */
	bool leftovers; /* a link could not be removed: the next engine is to find it */
	int lock_fd;    /* our file in run_dir/engines, locked while we live */
	char name[33];  /* of that file */
	bool named;     /* by the caller: its sandboxes may be durable */
	int boxes_fd;   /* run_dir/boxes of a named engine, -1: none */
	int init_fd;    /* init's program, sealed */
	struct cgroup_root cgroups;
	struct ns_map subuid, subgid; /* of an ordinary user; count 0: none */
	uint64_t memory_default;
	struct image host; /* kept open between creates */
	uint64_t host_checked;
	struct native_inject inject;
};

struct native_exec;

struct native_box {
	struct backend_box base;
	struct native *engine;
	unsigned slot; /* of the id range */
	bool has_slot, has_cgroup;
	bool single;   /* made for one exec */
	bool ready;    /* init has said so */
	uid_t base_id; /* where root inside is outside */
	pid_t pid;     /* of init; only for /proc/<pid> while the pidfd is held */
	int pidfd;
	int control;
	uint32_t seq;
	uint32_t next_exec;
	struct native_exec *execs;
	struct native_user user;
	uint64_t nofile;
	uint32_t n_ids; /* ids below this exist inside */
	bool groups;    /* setgroups(2) is possible there */
	char *workdir;
	char **env;
	int image_lock; /* -1: none */
	char *hostname;
	struct cgroup_limits limits; /* as they are now */
	char *state_text;            /* of an adopted one: what `enforced` points into */
	bool paused;
	uint64_t oom_kills; /* in cgroups of execs, which are gone */
};

struct native_exec {
	struct backend_exec base;
	struct journal_hint hint;
	struct native_box *box; /* NULL once the box is gone */
	struct native_exec *next;
	uint32_t id;
	uint64_t deadline; /* by which init must have reported; 0: none */
	bool done, sole;
	bool kept; /* in a durable sandbox: its end may be in the journal alone */
	struct proto_exited result;
	int journal;
	int poll, ready; /* wait_fd, made when asked for: the connection or an eventfd */
};

/*
 * inside.c: the child's side of a create, in memory that both share. What the
 * image is made of is filled in while the child makes its namespaces, before
 * the mounts are sent; all else before the clone.
 */
struct native_plan {
	const struct warren_spec *spec;
	struct image
		image; /* of an unprivileged engine also the paths, set before the clone */
	const struct native *engine;
	char volumes
		[4096]; /* of the image: names, each NUL-terminated, then an empty one */
	const char *hostname;
	uint64_t disk;
	bool on_disk; /* the first mount that comes is the scratch space */
	int control;
	int listener; /* for init, of a durable sandbox; -1: none */
	int maker;    /* a pidfd: without it nobody finishes this; -1: not known */
	uint64_t times[NATIVE_STEPS_MAX];
	int inject; /* step to fail before; 0: none */
	bool crash;

	/* by the steps */
	int fds[NATIVE_FDS_MAX];
	size_t n_fds;
	int scratch, root, proc, init;
};

__attribute__((noreturn)) void inside_main(struct native_plan *plan);
size_t inside_n_steps(void);
struct warren_step inside_step(const struct native_plan *p, size_t i);

/* rootfs.c: steps of inside.c */
int rootfs_copies(struct native_plan *p, struct warren_error *err);
int rootfs_scratch(struct native_plan *p, struct warren_error *err);
int rootfs_trees(struct native_plan *p, struct warren_error *err);
int rootfs_proc(struct native_plan *p, struct warren_error *err);
int rootfs_dev(struct native_plan *p, struct warren_error *err);
int rootfs_pivot(struct native_plan *p, struct warren_error *err);
int rootfs_mounts(struct native_plan *p, struct warren_error *err);
int rootfs_seal(struct native_plan *p, struct warren_error *err);

/* create.c */
int native_create(void *state, const struct warren_spec *spec,
		  struct backend_box **ret_box, struct warren_error *err);
/* Kill all of it, wait until the kernel says so, remove it; frees @box. */
int native_unmake(struct native *n, struct native_box *box, struct warren_error *err);
/* Frees the handle alone. */
void native_forget(struct native_box *box);

/* registry.c */
/* @name: of an engine that comes back; NULL: it does not. */
int registry_open(struct native *n, const char *name, struct warren_error *err);
/* Where the ids of a slot begin outside. */
uid_t registry_base(const struct native *n, unsigned slot);
void registry_close(struct native *n);
int registry_claim(struct native *n, struct native_box *box, struct warren_error *err);
void registry_release(struct native *n, struct native_box *box);

/* disk.c */
bool disk_tmpfs_has_xattrs(void);
/* A detached ext4 of @size bytes, with the ids of @userns. */
int disk_mount(const struct native *n, uint64_t size, int userns, int *ret_fd,
	       struct warren_error *err);

/* idmap.c */
void idmap_sandbox(const struct native *n, const struct native_box *box,
		   struct ns_maps *ret);
/* Does @id exist inside? */
bool idmap_has(const struct native *n, const struct native_box *box, uint32_t uid,
	       uint32_t gid);
/* The map that makes what the owner has on disk the user's inside, and nothing else. */
void idmap_volume(const struct native_box *box, uint32_t owner_uid, uint32_t owner_gid,
		  struct ns_maps *ret);

/* client.c */
int client_wait_ready(struct native_box *box, struct warren_error *err);
/* One request and its REPLY or WELCOME, whose descriptors are the caller's: answer_done(). */
int client_request(struct native_box *box, const struct request *q, struct answer *ret,
		   struct warren_error *err);
/* The same for a request that is one struct, with a descriptor or -1. */
int client_ask(struct native_box *box, const void *msg, size_t size, int fd,
	       struct answer *ret, struct warren_error *err);
/* Take what init has said, waiting until @timeout_ms when there is nothing. 1, 0 or -errno. */
int client_pump(struct native_box *box, int64_t timeout_ms, struct warren_error *err);

/* exec.c */
int native_exec(void *state, struct backend_box *box, const struct warren_exec_spec *spec,
		struct backend_exec **ret_exec, struct warren_error *err);
int native_exec_wait(struct backend_exec *ex, int64_t timeout_ms,
		     struct warren_result *ret, struct warren_error *err);
int native_exec_signal(struct backend_exec *ex, int sig, struct warren_error *err);
int native_exec_signal_to(struct backend_exec *ex, int sig, enum warren_whom whom,
			  struct warren_error *err);
int native_exec_attach(void *state, struct backend_box *box, uint32_t number,
		       int journal_fd, struct backend_exec **ret_exec,
		       struct warren_error *err);
uint32_t native_exec_number(const struct backend_exec *ex);
int native_exec_close_input(struct backend_exec *ex, struct warren_error *err);
int native_exec_ack(struct backend_exec *ex, uint64_t cursor, struct warren_error *err);
void native_exec_free(struct backend_exec *ex);
int native_exec_wait_fd(struct backend_exec *ex);
int native_exec_resize(struct backend_exec *ex, uint16_t rows, uint16_t cols,
		       struct warren_error *err);
/* The user of an exec or a file: @text, or the sandbox's own when it is NULL. */
int native_user_find(struct native_box *box, const char *text, struct native_user *ret,
		     struct warren_error *err);
void native_base(const struct native_box *box, struct request_base *ret);

/* reach.c */
int native_file_open(void *state, struct backend_box *box, const char *path, int flags,
		     mode_t mode, const char *user, int *ret_fd,
		     struct warren_error *err);
int native_connect(void *state, struct backend_box *box, uint16_t port, int *ret_fd,
		   struct warren_error *err);

/* journal.c */
int native_exec_output(struct backend_exec *ex, uint64_t cursor, void *buf, size_t size,
		       struct warren_output *ret, struct warren_error *err);

/* probe.c */
int native_probe(void *state, struct warren_feature *features, struct warren_error *err);

#endif /* NATIVE_NATIVE_H */
