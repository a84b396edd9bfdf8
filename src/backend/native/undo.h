/* SPDX-License-Identifier: Apache-2.0 */
/* undo.h - keep a copy of a sandbox's files, and restore them */
#ifndef NATIVE_UNDO_H
#define NATIVE_UNDO_H

#include "backend/native/native.h"

/* Functions of the backend's table. */
int undo_keep(void *state, struct backend_sandbox *base, struct warren_saved *ret,
	      struct warren_error *err);
int undo_restore(void *state, struct backend_sandbox *base, struct warren_undone *ret,
		 struct warren_error *err);
int undo_keep_settle(void *state, const char *id, bool started, struct warren_error *err);
int undo_forget(void *state, const char *id, struct warren_error *err);
/* Remove the copy of a sandbox that ends. */
void undo_drop(const struct native *n, const char *id);
/*
 * Complete restorations that a crash interrupted; remove incomplete copies, and copies of
 * sandboxes that no longer exist.
 */
void undo_sweep(struct native *n);

/* What a copy may need; 0: no limit. */
struct save_limits {
	unsigned seconds;
	uint64_t linked, linked_paths; /* see tree_copy.h */
};

/* save.c: copy the upper directory to the empty directory @dir. */
int save_to(struct native_sandbox *sandbox, int dir, const struct save_limits *limits,
	    unsigned flags, struct warren_saved *ret, struct warren_error *err);
/* Stop the processes, and let them continue. */
int save_freeze(struct native_sandbox *sandbox, struct warren_error *err);
int save_thaw(struct native_sandbox *sandbox, struct warren_error *err);
/* The processes of a frozen sandbox have ended. */
void save_forget_freeze(const struct native *n, const char *id);

#endif /* NATIVE_UNDO_H */
