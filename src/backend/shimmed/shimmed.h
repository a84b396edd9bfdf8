/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shimmed.h - sandboxes on other platforms, each with a shim on the host: the part in
 * libwarren
 *
 *	shimmed.c	the tables, one for each kind with a shim (backend/kind.h)
 *	engine.c	the engine, its directory, and the cleanup after a crash
 *	lifecycle.c	create and destroy; list and adopt
 *	save.c		copies the files of a sandbox; saves one that hibernates
 *	shim_spawn.c	starts warren-shim, for a sandbox's life or for one call
 *
 *	<run_dir>/kept/<kind>.<engine>/lock	locked while the engine lives
 *	<run_dir>/kept/<kind>.<engine>/<id>/	a sandbox: all data for its platform
 *	<run_dir>/boxes/<id>, <id>.state	as for every durable sandbox
 *
 * The directory of a sandbox is created first and removed last. `warren-shim destroy`
 * needs only this directory. When an engine with a name is opened, it removes dead
 * sandboxes in its own directory; every engine removes those of engines without a name.
 *
 * A shim runs without libwarren. For operations of the platform while a sandbox lives
 * (pause, statistics, limits), libwarren runs warren-shim again, with the directory.
 * libwarren talks to a shim as it talks to an init, through initclient.
 */
#ifndef BACKEND_SHIMMED_SHIMMED_H
#define BACKEND_SHIMMED_SHIMMED_H

#include <limits.h>

#include "backend/backend.h"
#include "backend/left.h"
#include "initclient/initclient.h"
#include "initclient/sandbox_socket.h"

struct shimmed {
	const char *kind;
	char *run_dir, *state_dir;
	char *config; /* JSON; NULL: none */
	char name[33];
	bool named;
	char *path; /* path of the engine's directory */
	int dir_fd; /* descriptor of that directory */
	int all_fd; /* run_dir/kept */
	int sandboxes_fd;
	int lock_fd;
	char shim[PATH_MAX]; /* path of warren-shim; "": not found */
	struct warren_error missing;
	/* The text of the last probe. The features of the probe point into it. */
	const char *probed;
	struct left left; /* failed sandboxes of a named engine */
};

struct shimmed_sandbox {
	struct initclient_sandbox; /* must be first: initclient casts to it */
	struct shimmed *engine;
	/*
	 * During create: whether this sandbox already owns the directory and the socket.
	 */
	bool has_dir, has_socket;
};

static inline struct initclient_sandbox *shimmed_talk(struct shimmed_sandbox *sandbox)
{
	return (struct initclient_sandbox *)sandbox;
}

/* engine.c */
int shimmed_open(const struct warren_options *options, void **ret_state,
		 struct warren_error *err);
void shimmed_close(void *state);

/* shim_spawn.c */
/* A connection, a socket, the spec, and the volumes of the spec. */
#define SHIM_FDS_MAX (3 + 64)
/* Start a shim for @id that gets @fds as descriptors from 3 on. */
int shimmed_start(const struct shimmed *k, const char *id, const int *fds, size_t n_fds,
		  struct warren_error *err);
/*
 * Run `warren-shim VERB <path>/ID ...`; @out gets its output, even after a failure, and
 * may be NULL. It gets @pass (-1: nothing) as descriptor 4. If warren-shim cannot be
 * started, the output is PROTO_UNCHANGED.
 */
int shimmed_call(const struct shimmed *k, const char *verb, const char *path,
		 const char *id, const char *const *more, const char *input, int pass,
		 struct buf *out, struct warren_error *err);

/* shimmed.c */
/* Record the state for the next engine. */
int shimmed_note_paused(const struct shimmed *k, struct shimmed_sandbox *sandbox,
			bool paused);
/*
 * Record that a copy of its files has paused it, and could not resume it: the next use of
 * the sandbox resumes it.
 */
int shimmed_note_left_paused(const struct shimmed *k, const char *id);
int shimmed_pause(void *state, struct backend_sandbox *base, bool paused,
		  struct warren_error *err);
/* Pause it. *@ret_may_be: after a failure, whether it may be paused. */
int shimmed_try_pause(struct shimmed *k, struct shimmed_sandbox *sandbox,
		      bool *ret_may_be, struct warren_error *err);
/* Let the processes of @id continue after the engine that stopped them was killed. */
int shimmed_thaw(const struct shimmed *k, const char *id, struct warren_error *err);

/* save.c */
/* The path of the directory of saved sandboxes, which the caller frees; NULL: no memory.
 */
char *shimmed_saved_path(const struct shimmed *k);
int shimmed_save_files(void *state, struct backend_sandbox *base, int dir, unsigned flags,
		       struct warren_saved *ret, struct warren_error *err);
int shimmed_hibernate(void *state, struct backend_sandbox *base, struct warren_saved *ret,
		      struct warren_error *err);
int shimmed_reset(void *state, struct backend_sandbox *base, struct warren_error *err);
/* See warren_image(). The shim has recorded it. */
const char *shimmed_image(const struct backend_sandbox *base);
int shimmed_has_saved(void *state, const char *id, struct warren_error *err);
int shimmed_forget_saved(void *state, const char *id, struct warren_error *err);
/* Remove the saved files and memory of @id, except what its platform keeps itself. */
int shimmed_drop_saved(const struct shimmed *k, const char *id, struct warren_error *err);
/* The processes of @id are no longer stopped for a copy of its files. */
void shimmed_forget_frozen(const struct shimmed *k, const char *id);
/* Remove incomplete copies, and saved files and memory of running sandboxes. */
void shimmed_sweep_saved(struct shimmed *k);

/* lifecycle.c */
/*
 * Create the directory of @id again, if it is gone, so that shimmed_remove() destroys the
 * sandbox on its platform, which finds it by the id.
 */
int shimmed_reclaim(const struct shimmed *k, const char *id, struct warren_error *err);
int shimmed_create(void *state, const struct warren_spec *spec,
		   struct backend_sandbox **ret_sandbox, struct warren_error *err);
int shimmed_destroy(void *state, struct backend_sandbox *base, struct warren_error *err);
int shimmed_list(void *state, char ***ret_ids, struct warren_error *err);
int shimmed_find(void *state, const char *id, struct backend_sandbox **ret_sandbox,
		 struct warren_error *err);
int shimmed_adopt(void *state, const char *id, struct backend_sandbox **ret_sandbox,
		  struct warren_error *err);
void shimmed_release(void *state, struct backend_sandbox *base);
void shimmed_forget(struct backend_sandbox *base);
/* Keep the id of a dead sandbox that could not be removed, for another attempt. */
void shimmed_keep_left(struct shimmed *k, const char *id);
/* Remove everything that is left of @id in the directory @dir, whose path is @path. */
int shimmed_remove(const struct shimmed *k, int dir, const char *path, const char *id,
		   struct warren_error *err);
/*
 * End the shim of @id in the directory @dir, if one runs, for example because its creator
 * was killed before it was ready: it could destroy the next sandbox of this id.
 */
int shimmed_end_shim(int dir, const char *id, struct warren_error *err);
/* *@ret_left: see shimmed_note_left_paused(); may be NULL. */
bool shimmed_is_paused(const struct shimmed *k, const char *id, bool *ret_left);

#endif /* BACKEND_SHIMMED_SHIMMED_H */
