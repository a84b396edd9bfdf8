/* SPDX-License-Identifier: Apache-2.0 */
/*
 * persist.h - the files of a sandbox on disk from the start
 *
 *	<state_dir>/saved/disks.<engine>/<id>		its filesystem, in a file
 *	<state_dir>/saved/disks.<engine>/.new-<id>	an incomplete one
 *
 * Such a sandbox has a scratch disk (scratch_disk.c) with a name and with a journal. The
 * file outlives all its processes, and the sandbox is brought back by mounting it again:
 * nothing is copied when it hibernates, and nothing is lost when the machine restarts.
 * Only the destruction of the sandbox removes the file.
 */
#ifndef NATIVE_PERSIST_H
#define NATIVE_PERSIST_H

#include "backend/native/native.h"

struct create_op;

/* Can this engine create a sandbox of this spec? */
int persist_check(const struct create_op *m, struct warren_error *err);
/* A step of a creation with .restore: find the file. @empty: a new one replaces it. */
int persist_open(struct create_op *m, bool empty, bool exists, struct warren_error *err);
/* Mount its filesystem with the id map of the sandbox; create it if it is new. */
int persist_mount(struct create_op *m, int *ret_fd, struct warren_error *err);
/* A creation failed: remove the file if it is new. */
void persist_undo(const struct create_op *m);
/* End all processes of a sandbox, and write its files to disk. Frees @sandbox. */
int persist_hibernate(struct native *n, struct native_sandbox *sandbox,
		      struct warren_error *err);
/* Get the number of its inode; 0: there is none. */
int persist_number(const struct native *n, const char *id, uint64_t *ret,
		   struct warren_error *err);
/* Return 1, 0, or -errno if this cannot be found out. */
int persist_has(const struct native *n, const char *id, struct warren_error *err);
/* Has the sandbox a disk of any engine in the directory of saved files? */
bool persist_has_any(int saved, const char *id);
/* It is no error if there is no file. */
int persist_remove(const struct native *n, const char *id, struct warren_error *err);
/* Remove incomplete files. */
void persist_sweep(const struct native *n);
/* The name of the file below <state_dir>/saved, for store_pin_image(). */
void persist_path(const struct native *n, const char *id,
		  char path[sizeof(n->name) + ID_LEN + 16]);
/* A function of the backend's table: see warren_list_kept(). */
int persist_list(void *state, char ***ret_ids, struct warren_error *err);

#endif /* NATIVE_PERSIST_H */
