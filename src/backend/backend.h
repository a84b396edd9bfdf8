/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend.h - the interface that every backend implements
 *
 * Theory of operation
 *
 * A backend is a const table of functions, with private state. The engine (core/) calls
 * the functions only in this order:
 *
 *	open -> ( create -> ( exec -> exec_free )* -> destroy )* -> close
 *
 * Every backend has create, exec, destroy and probe. If another function is NULL, core
 * does the work through exec where possible, and otherwise fails with "not supported by
 * backend X". Core checks specs first (core/check.c): a backend sees no relative path and
 * no malformed variable.
 *
 * create enforces each limit in the spec, or fails. The sandbox lists all enforced
 * limits, both defaults and requested ones. After a failed create() or exec(), no
 * process, file or mount is left behind.
 *
 * To add a backend, add a folder and a line in kind.h. Nothing else in the tree may name
 * a backend. test/engine/test-contract.c tests every backend.
 */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include "backend/kind.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/id.h"
#include "initclient/handle.h"

#define BACKEND_STEPS_MAX    64
#define BACKEND_FEATURES_MAX 32

struct backend_ops {
	const char *name;
	bool writes; /* honours .writes and .layers of a spec and its mounts */

	/* @options is never NULL. On success, the engine closes the state later. */
	int (*open)(const struct warren_options *options, void **ret_state,
		    struct warren_error *err);
	void (*close)(void *state);

	/*
	 * List the features that can be enforced on this machine, at most
	 * BACKEND_FEATURES_MAX; return the count or -errno.
	 */
	int (*probe)(void *state, struct warren_feature *features,
		     struct warren_error *err);

	int (*create)(void *state, const struct warren_spec *spec,
		      struct backend_sandbox **ret_sandbox, struct warren_error *err);
	/*
	 * Prepare in advance the parts that all durable sandboxes have in common.
	 * create() with the returned id uses them.
	 */
	int (*prepare)(void *state, char ret_id[ID_LEN + 1],
		       struct warren_error *err); /* may be NULL */
	/* Destroy at most @n prepared sandboxes, the oldest first; return how many. */
	size_t (*unprepare)(void *state, size_t n);
	/*
	 * Remove everything that belongs to the sandbox. @sandbox is freed even on
	 * failure.
	 */
	int (*destroy)(void *state, struct backend_sandbox *sandbox,
		       struct warren_error *err);

	int (*exec)(void *state, struct backend_sandbox *sandbox,
		    const struct warren_exec_spec *spec, struct backend_exec **ret_exec,
		    struct warren_error *err);
	/*
	 * Return 1 when the exec has ended and @ret is filled, 0 if it still runs after
	 * @timeout_ms (-1: wait forever).
	 */
	int (*exec_wait)(struct backend_exec *ex, int64_t timeout_ms,
			 struct warren_result *ret, struct warren_error *err);
	/*
	 * A descriptor that becomes readable when exec_wait() may have a result; @ex owns
	 * it.
	 */
	int (*exec_wait_fd)(struct backend_exec *ex);
	int (*exec_signal)(struct backend_exec *ex, int sig, struct warren_error *err);
	/* Free @ex and close its descriptors. */
	void (*exec_free)(struct backend_exec *ex);

	/* All functions below may be NULL. */
	int (*exec_resize)(struct backend_exec *ex, uint16_t rows, uint16_t cols,
			   struct warren_error *err);
	int (*exec_output)(struct backend_exec *ex, uint64_t cursor, void *buf,
			   size_t size, struct warren_output *ret,
			   struct warren_error *err);
	int (*file_open)(void *state, struct backend_sandbox *sandbox, const char *path,
			 int flags, mode_t mode, const char *user, int *ret_fd,
			 struct warren_error *err);
	/*
	 * Wait until data written through file_open() has reached the file. NULL: it
	 * reaches the file at once.
	 */
	int (*file_settle)(void *state, struct backend_sandbox *sandbox, const char *path,
			   struct warren_error *err);
	int (*connect)(void *state, struct backend_sandbox *sandbox, uint16_t port,
		       int *ret_fd, struct warren_error *err);
	int (*pause)(void *state, struct backend_sandbox *sandbox, bool paused,
		     struct warren_error *err);
	/*
	 * Pause the sandbox and free all of its memory; pause(false) resumes it. -EBUSY:
	 * see warren.h.
	 */
	int (*checkpoint)(void *state, struct backend_sandbox *sandbox,
			  struct warren_error *err);
	/* Orphans of all users on this machine; see warren.h. */
	int (*orphans)(void *state, struct warren_orphan **ret, size_t *ret_n,
		       struct warren_error *err);
	int (*remove_orphan)(void *state, const char *id, struct warren_error *err);
	/* Functions for durable sandboxes; a backend has all of them or none. */
	int (*list)(void *state, char ***ret_ids, struct warren_error *err);
	int (*adopt)(void *state, const char *id, struct backend_sandbox **ret_sandbox,
		     struct warren_error *err);
	/*
	 * Like adopt(), but without sending a message to the init or shim. The handle is
	 * only for destroy, pause, stats, update, describe and connection. NULL: core
	 * uses adopt().
	 */
	int (*find)(void *state, const char *id, struct backend_sandbox **ret_sandbox,
		    struct warren_error *err);
	/* Free @sandbox without touching the sandbox itself. */
	void (*release)(void *state, struct backend_sandbox *sandbox);
	int (*update)(void *state, struct backend_sandbox *sandbox,
		      const struct warren_limits *limits, struct warren_error *err);
	int (*connection)(void *state, struct backend_sandbox *sandbox, int *ret_fd,
			  struct warren_error *err);
	int (*describe)(void *state, struct backend_sandbox *sandbox, struct buf *out);
	int (*exec_attach)(void *state, struct backend_sandbox *sandbox, uint32_t number,
			   int journal_fd, struct backend_exec **ret_exec,
			   struct warren_error *err);
	uint32_t (*exec_number)(const struct backend_exec *ex);
	int (*exec_close_input)(struct backend_exec *ex, struct warren_error *err);
	int (*exec_ack)(struct backend_exec *ex, uint64_t cursor,
			struct warren_error *err);

	/* See warren_save_files(), warren_hibernate() and warren_forget_saved(). */
	int (*save_files)(void *state, struct backend_sandbox *sandbox, int dir,
			  unsigned flags, struct warren_saved *ret,
			  struct warren_error *err);
	/* See warren_diff(). */
	int (*diff)(void *state, struct backend_sandbox *sandbox, int fd,
		    struct warren_diff *diff, struct warren_error *err);
	/* See warren_undo(). */
	int (*undo_keep)(void *state, struct backend_sandbox *sandbox,
			 struct warren_saved *ret, struct warren_error *err);
	int (*undo)(void *state, struct backend_sandbox *sandbox,
		    struct warren_undone *ret, struct warren_error *err);
	int (*undo_settle)(void *state, const char *id, bool started,
			   struct warren_error *err);
	int (*undo_forget)(void *state, const char *id, struct warren_error *err);
	/* On success, the sandbox has ended and @sandbox is freed. */
	int (*hibernate)(void *state, struct backend_sandbox *sandbox,
			 struct warren_saved *ret, struct warren_error *err);
	int (*forget_saved)(void *state, const char *id, struct warren_error *err);
	int (*reset)(void *state, struct backend_sandbox *sandbox,
		     struct warren_error *err);
	/* See warren_image(). */
	const char *(*image)(const struct backend_sandbox *sandbox);
	int (*has_saved)(void *state, const char *id, struct warren_error *err);
	/* See warren_list_kept(). */
	int (*list_kept)(void *state, char ***ret_ids, struct warren_error *err);
	/* See warren_capture_network(). */
	int (*capture_network)(void *state, struct backend_sandbox *sandbox,
			       int ret_fds[WARREN_CAPTURE_FDS], struct warren_error *err);
	/* See warren_trust(). */
	int (*trust)(void *state, struct backend_sandbox *sandbox, int bundle,
		     struct warren_error *err);
	int (*exec_signal_to)(struct backend_exec *ex, int sig, enum warren_whom whom,
			      struct warren_error *err);
	int (*stats)(void *state, struct backend_sandbox *sandbox,
		     struct warren_stats *ret, struct warren_error *err);
};

/*
 * One table for each kind, and one for tests. backend/shimmed has those of kinds with a
 * shim.
 */
#define BACKEND_OPS_EXTERN(name) extern const struct backend_ops backend_##name;
BACKEND_KINDS_OWN(BACKEND_OPS_EXTERN)
BACKEND_KINDS_SHIMMED(BACKEND_OPS_EXTERN)
extern const struct backend_ops backend_null; /* no isolation at all */

/*
 * dirs.c: get the run and state directories from the options, or the defaults. The caller
 * frees the strings.
 */
int backend_choose_dirs(const struct warren_options *o, char **ret_run, char **ret_state,
			struct warren_error *err);
/*
 * Open the run directory, and create it if necessary. It must belong to this user,
 * because another user could have created it in a shared directory.
 */
int backend_open_run(const char *path, struct warren_error *err);
int backend_open_sub(int at, const char *name, struct warren_error *err);

const struct backend_ops *backend_by_name(const char *name);

/*
 * Record in @sandbox whether the feature @name is enforced, replacing an earlier record.
 * @fmt gives the detail.
 */
void backend_enforce(struct backend_sandbox *sandbox, const char *name, bool enforced,
		     const char *fmt, ...) PRINTF_LIKE(4, 5);

#endif /* BACKEND_BACKEND_H */
