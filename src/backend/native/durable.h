/* SPDX-License-Identifier: Apache-2.0 */
/*
 * durable.h - sandboxes that outlive their creator: their socket, state file and engine
 *
 *	<run_dir>/engines/<name>	locked by the one engine of that name
 *	<run_dir>/ids/<slot>		"<name>/<id>", as for every sandbox
 *	<run_dir>/boxes/<id>		the socket that init listens on
 *	<run_dir>/boxes/<id>.state	the state that an engine needs to adopt it
 *
 * The order of creation makes a crash harmless. The link is created first and removed
 * last; in between, the order is that of initclient/sandbox_socket.h. The next engine
 * of the same name removes everything that is not complete.
 */
#ifndef NATIVE_DURABLE_H
#define NATIVE_DURABLE_H

#include "backend/native/native.h"

/* Give an engine a persistent name and lock that name. */
int durable_enrol(struct native *n, int run, int engines, const char *name,
		  struct warren_error *err);
/* Remove dead and incomplete sandboxes of this engine's name. */
void durable_sweep(struct native *n);

/*
 * Does a sandbox of another engine have this id? What is left of a sandbox in the state
 * directory, which several engines may share, must then be left to that engine, which may
 * just be working on it.
 */
bool durable_is_foreign(const struct native *n, const char *id);

/* A step of a creation, before the clone: create the socket that init will listen on. */
int durable_bind(struct native *n, struct native_sandbox *sandbox, int *ret_fd,
		 struct warren_error *err);
/* The last steps of a creation: write the state file, then send KEEP to init. */
int durable_note(const struct native *n, struct native_sandbox *sandbox,
		 struct warren_error *err);
int durable_keep(struct native_sandbox *sandbox, struct warren_error *err);
/* The last step of destroy: remove the socket and the state file. */
void durable_remove(const struct native *n, const char *id);
/* Number of OOM kills in execs that have ended; init counts them. */
int durable_oom_kills(struct native_sandbox *sandbox, uint64_t *ret,
		      struct warren_error *err);

/*
 * Before a sandbox is created again: remove what is left of it. -EEXIST: it lives.
 */
int durable_clear(struct native *n, const char *id, struct warren_error *err);

/* Functions of the backend's table. */
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
