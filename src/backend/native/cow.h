/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cow.h - copy on write: mounts and roots whose changes go to a directory of the host
 *
 * The descriptors of the directories are, in this order: layers of the root, .writes of
 * the root; then for each mount its source, its layers, those below it, and its .writes.
 */
#ifndef BACKEND_NATIVE_COW_H
#define BACKEND_NATIVE_COW_H

#include "backend/native/create_op.h"

/* A step: create and lock the directories for changes. */
int cow_open(struct create_op *m, struct warren_error *err);
/* Close their descriptors, when they are mounted. They stay locked. */
void cow_close_dirs(struct create_op *m);
/* Unlock them. */
void cow_close(struct native_sandbox *sandbox);
/* Number of descriptors for the root. */
size_t cow_root_fds(const struct warren_spec *spec);

/* For root: append detached mounts with the sandbox's ids to @fds. */
int cow_copy_root(struct create_op *m, int *fds, size_t *n, struct warren_error *err);
int cow_copy_mount(struct create_op *m, const struct warren_mount *v, int *fds, size_t *n,
		   struct warren_error *err);
/* The same for an ordinary user, in the child. */
int cow_own_root(struct native_plan *p, struct warren_error *err);
int cow_own_mount(struct native_plan *p, const struct warren_mount *v,
		  struct warren_error *err);

/*
 * In the child, in the scratch space: set the layers and the upper directory of the root.
 * @next is the index of the first descriptor for the root.
 */
int cow_root(struct native_plan *p, size_t next, struct warren_error *err);
/* Mount the overlays, and set plan.mount_fds. */
int cow_mounts(struct native_plan *p, size_t next, struct warren_error *err);

#endif /* BACKEND_NATIVE_COW_H */
