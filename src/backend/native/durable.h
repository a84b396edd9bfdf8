/* SPDX-License-Identifier: Apache-2.0 */
/*
 * durable.h - sandboxes that outlive their maker: a socket, a file, and who may have them
 *
 *	<run_dir>/engines/<name>	locked by the one engine of that name
 *	<run_dir>/ids/<slot>		"<name>/<id>", as of every sandbox (engine_registry.c)
 *	<run_dir>/sandboxes/<id>		the socket that init listens on, and
 *	<run_dir>/sandboxes/<id>.state	what an engine must know of it (talk/door.h)
 *
 * The order of making is what makes a crash harmless. The link comes first and
 * goes last; in between is that of talk/door.h. Whatever is not complete is removed
 * by the next engine of the name.
 */
#ifndef NATIVE_DURABLE_H
#define NATIVE_DURABLE_H

#include "backend/native/native.h"

/* Names and locks an engine that comes back. */
int durable_enrol(struct native *n, int run, int engines, const char *name,
		  struct warren_error *err);
/* Removes what is dead or incomplete of the engine's name. */
void durable_sweep(struct native *n);

/* A step of create before the clone: the socket for init, *@ret_fd, in place. */
int durable_bind(struct native *n, struct native_sandbox *sandbox, int *ret_fd,
		 struct warren_error *err);
/* The last steps: the state is written, and then init told to live on. */
int durable_note(const struct native *n, struct native_sandbox *sandbox,
		 struct warren_error *err);
int durable_keep(struct native_sandbox *sandbox, struct warren_error *err);
/* A step of destroy: the names, after all that they stand for. */
void durable_remove(const struct native *n, const char *id);
/* How many were killed for memory in execs that are gone: init counts them. */
int durable_oom_kills(struct native_sandbox *sandbox, uint64_t *ret,
		      struct warren_error *err);

/* entries of the backend's table */
int durable_list(void *state, char ***ret_ids, struct warren_error *err);
int durable_find(void *state, const char *id, struct backend_sandbox **ret_sandbox,
		 struct warren_error *err);
int durable_adopt(void *state, const char *id, struct backend_sandbox **ret_sandbox,
		  struct warren_error *err);
void durable_release(void *state, struct backend_sandbox *base);
int durable_update(void *state, struct backend_sandbox *base,
		   const struct warren_limits *limits, struct warren_error *err);
int durable_describe(void *state, struct backend_sandbox *base, struct buf *out);
int durable_connection(void *state, struct backend_sandbox *base, int *ret_fd,
		       struct warren_error *err);

#endif /* NATIVE_DURABLE_H */
