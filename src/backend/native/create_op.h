/* SPDX-License-Identifier: Apache-2.0 */
/*
 * create_op.h - the state that the steps of a create operation share
 *
 *	plan.c		reads the spec and the image
 *	create.c	all steps outside the sandbox, and their undo
 *	vfork_helper.c	runs steps in a thread while the child has the creator's stack
 *	prepared.c	creates in two halves, of which the first is done in advance
 */
#ifndef BACKEND_NATIVE_CREATE_OP_H
#define BACKEND_NATIVE_CREATE_OP_H

#include "backend/native/native.h"

#define MAKING_STEPS_MAX 24

struct create_op {
	struct native *engine;
	struct native_sandbox *sandbox;
	const struct warren_spec *spec;
	struct native_plan *plan; /* shared with the child */
	/* Shared with other ops; NULL: this op closes the image. */
	struct native_host *host;
	bool own_image;
	bool made_disk; /* the file of persist.c is new */
	struct cgroup_limits limits;
	uint64_t disk, shm, tmpfs; /* see struct native_plan */
	int child_end;             /* the child's end of the connection */
	/*
	 * Durable sandbox: its listener, until it is passed to the child; otherwise -1.
	 */
	int listener;
	int userns;
	int stage; /* prepared sandbox: socket to the process that mounts; otherwise -1 */
	int writes_dirs[COW_WRITES_MAX]; /* cow.c */
	size_t n_writes_dirs;
	/* Prepared sandbox: the directories of its root; otherwise -1. */
	int root_dirs[DIRS_OF_ROOT];
	uint64_t started;
	struct warren_step outside[MAKING_STEPS_MAX];
	size_t n_outside;
	bool lend; /* a thread runs some steps while the child uses the caller's stack */
	/* The steps that the thread runs, which follow the current step. */
	const struct create_op_step *meanwhile;
	size_t n_meanwhile;
	int first_meanwhile;
	bool meanwhile_done; /* the thread has finished these steps */
};

struct create_op_step {
	const char *name;
	int (*run)(struct create_op *m, struct warren_error *err);
	bool meanwhile; /* the step may run in the helper thread (vfork_helper.c) */
};

/* Steps: plan.c */
int take_spec(struct create_op *m, struct warren_error *err);
int take_limits(struct create_op *m, struct warren_error *err);
int take_disk(struct create_op *m, struct warren_error *err);
int take_image(struct create_op *m, struct warren_error *err);
int take_user(struct create_op *m, struct warren_error *err);
/* Release the image after the last step that uses it. */
void take_done(struct create_op *m);
void take_ids(const struct native *n, struct native_sandbox *sandbox);

/* Steps: create.c */
int create_claim(struct create_op *m, struct warren_error *err);
int create_child(struct create_op *m, struct warren_error *err);
/* Called by create_child() once the child exists or has failed to start. */
void create_child_started(struct create_op *m, const struct ns_child *child);
int create_maps(struct create_op *m, struct warren_error *err);
int create_cgroup_before(struct create_op *m, struct warren_error *err);
int create_cgroup_meanwhile(struct create_op *m, struct warren_error *err);
int create_configure(struct create_op *m, struct warren_error *err);
/* Get the role that a descriptor of the cgroup has for init. */
enum proto_role create_cgroup_role(const struct cgroup_root *root,
				   const struct cgroup_handle *h);
int create_ready(struct create_op *m, struct warren_error *err);
int create_describe(struct create_op *m, struct warren_error *err);
int create_note(struct create_op *m, struct warren_error *err);
int create_keep(struct create_op *m, struct warren_error *err);
/* Send the layers and volumes over @sock, in the order that the child expects. */
int create_send_mounts(struct create_op *m, int sock, struct warren_error *err);

/* volume.c: whether this engine can mount the volumes of @spec. */
int volume_check(const struct native *n, const struct warren_spec *spec,
		 struct warren_error *err);
/* Copy the mount of a file or directory of the host, whose owner is the user inside. */
int volume_copy(struct create_op *m, const struct warren_mount *v, int *ret_fd,
		struct warren_error *err);
/* Give the filesystem of a volume the sandbox's ids. */
int volume_take(struct create_op *m, const struct warren_mount *v, int *ret_fd,
		struct warren_error *err);

/* Steps: vfork_helper.c */
/*
 * Start the child in this process's memory, and run steps at the same time in a thread.
 */
int vfork_helper_thread(struct create_op *m, uint64_t flags, int cgroup,
			struct warren_error *err);

/* Run the steps; @first is the number of the first one, for fault injection. */
int create_op_run(struct create_op *m, const struct create_op_step *list, size_t n,
		  int first, struct warren_error *err);
/* Record the time at which the current step ended. */
void create_op_mark(struct create_op *m);
/*
 * Return the result of the steps; if the child failed before them, @err gets the child's
 * error.
 */
int create_op_hear_child(struct create_op *m, int r, struct warren_error *err);
/*
 * Allocate a sandbox and a plan. create_op_end() frees both, except for the sandbox if @r
 * is 0, which then belongs to the caller.
 */
int create_op_begin(struct create_op *m, struct native *n, const char *id,
		    struct warren_error *err);
void create_op_end(struct create_op *m, int r);

#endif /* BACKEND_NATIVE_CREATE_OP_H */
