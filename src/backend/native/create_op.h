/* SPDX-License-Identifier: Apache-2.0 */
/*
 * create_op.h - a create under way: the state that its steps share
 *
 *	plan.c		reads the spec and the image
 *	create.c	all steps outside, and how to undo them
 *	vfork_helper.c	steps that run while the child uses the creator's thread
 *	prepared.c	the same in two halves: common parts are prepared in advance
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
	struct native_host *host; /* in use; NULL: the image is our own to close */
	bool own_image;
	struct cgroup_limits limits;
	uint64_t disk, shm, tmpfs; /* as in the plan */
	int child_end;             /* of the connection */
	int listener;              /* of a durable sandbox, until the child has it; -1 */
	int userns;
	int stage; /* of a part: to the process that makes its mounts; -1 */
	uint64_t started;
	struct warren_step outside[MAKING_STEPS_MAX];
	size_t n_outside;
	bool lend; /* some steps are done by a thread while the child has ours */
	const struct create_op_step *meanwhile; /* those, of the step under way */
	size_t n_meanwhile;
	int first_meanwhile;
	bool meanwhile_done; /* they are */
};

struct create_op_step {
	const char *name;
	int (*run)(struct create_op *m, struct warren_error *err);
	bool meanwhile; /* may be done so, see vfork_helper.c */
};

/* Steps: plan.c */
int take_spec(struct create_op *m, struct warren_error *err);
int take_limits(struct create_op *m, struct warren_error *err);
int take_disk(struct create_op *m, struct warren_error *err);
int take_image(struct create_op *m, struct warren_error *err);
int take_user(struct create_op *m, struct warren_error *err);
/* What the image was opened for is done. */
void take_done(struct create_op *m);
void take_ids(const struct native *n, struct native_sandbox *sandbox);

/* Steps: create.c */
int create_claim(struct create_op *m, struct warren_error *err);
int create_child(struct create_op *m, struct warren_error *err);
/* Of create_child(): there is a child, or there will be none. */
void create_child_started(struct create_op *m, const struct ns_child *child);
int create_maps(struct create_op *m, struct warren_error *err);
int create_cgroup_before(struct create_op *m, struct warren_error *err);
int create_cgroup_meanwhile(struct create_op *m, struct warren_error *err);
int create_configure(struct create_op *m, struct warren_error *err);
/* What init does with a descriptor of its cgroup. */
enum proto_role create_cgroup_role(const struct cgroup_root *root,
				   const struct cgroup_handle *h);
int create_ready(struct create_op *m, struct warren_error *err);
int create_describe(struct create_op *m, struct warren_error *err);
int create_note(struct create_op *m, struct warren_error *err);
int create_keep(struct create_op *m, struct warren_error *err);
/* The layers and volumes over @sock, as the child takes them. */
int create_send_mounts(struct create_op *m, int sock, struct warren_error *err);

/* Steps: vfork_helper.c */
/* Start the child in our memory, and do what may be done in the meantime. */
int vfork_helper_thread(struct create_op *m, uint64_t flags, int cgroup,
			struct warren_error *err);

/* @first: the number of the first step, for the injection of failures. */
int create_op_run(struct create_op *m, const struct create_op_step *list, size_t n,
		  int first, struct warren_error *err);
/* The step under way has come to its end now. */
void create_op_mark(struct create_op *m);
/* The outcome of its steps, in the words of the child if that failed first. */
int create_op_hear_child(struct create_op *m, int r, struct warren_error *err);
/*
 * A sandbox and a plan; undone by create_op_end(), which leaves the sandbox to the caller
 * if @r is 0.
 */
int create_op_begin(struct create_op *m, struct native *n, const char *id,
		    struct warren_error *err);
void create_op_end(struct create_op *m, int r);

#endif /* BACKEND_NATIVE_CREATE_OP_H */
