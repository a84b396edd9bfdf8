/* SPDX-License-Identifier: Apache-2.0 */
/*
 * undo.c - keep a copy of a sandbox's files, and restore them without ending its
 * processes
 *
 *	<state_dir>/undo/<id>		the copy of the upper directory of its root
 *	<state_dir>/undo/.new-<id>	an incomplete copy
 *	<state_dir>/undo/.former-<id>	the copy before: until the command has started
 *	<state_dir>/undo/.busy-<id>	a marker: the copy is being restored
 *
 * A child without privileges on the host restores the files (files_child.h), through the
 * mounted root of the sandbox (os/tree_restore.h), while all processes of the sandbox are
 * stopped. If this process is killed before the end, the next engine of the same name
 * finds the marker and completes the work. The copy is removed when the sandbox ends or
 * hibernates.
 */
#include "backend/native/undo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/native/durable.h"
#include "backend/native/files_child.h"
#include "base/clock.h"
#include "base/fd.h"
#include "image/copy.h"
#include "initclient/sandbox_socket.h"
#include "os/tree_restore.h"

/* Maximum time for the copy, and for finding what to restore. */
#define UNDO_SECONDS 300
#define UNDO_TRIES   3

#define UNDO_NEW       ".new-"
#define UNDO_OLD       ".old-"
#define UNDO_BUSY      ".busy-"
#define UNDO_FORMER    ".former-"
#define UNDO_NAME_SIZE (sizeof(UNDO_FORMER) + ID_LEN)

/* -ENOENT, without a message in @err: it does not exist, and @make is false. */
static int undo_open_dir(const struct native *n, bool make, struct warren_error *err)
{
	AUTO_CLOSE int state = open(n->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd;

	if (state >= 0 && make && mkdirat(state, "undo", 0700) < 0 && errno != EEXIST)
		return error_errno(err, errno, "create '%s/undo'", n->state_dir);
	fd = state < 0 ? -1
		       : openat(state, "undo",
				O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	if (errno == ENOENT && !make)
		return -ENOENT;
	return error_errno(err, errno, "open '%s/undo'", n->state_dir);
}

static void undo_name(char name[UNDO_NAME_SIZE], const char *prefix, const char *id)
{
	(void)snprintf(name, UNDO_NAME_SIZE, "%s%s", prefix, id);
}

/* An incomplete copy must never be restored. */
static void undo_remove(int undo, const char *id)
{
	char aside[UNDO_NAME_SIZE];

	undo_name(aside, UNDO_OLD, id);
	copy_remove_whole(undo, id, aside);
}

static void undo_remove_former(int undo, const char *id)
{
	char former[UNDO_NAME_SIZE];

	undo_name(former, UNDO_FORMER, id);
	copy_remove_tree(undo, former);
}

/*
 * A former copy without a newer one is valid: the command of the newer one has not
 * started.
 */
static int undo_bring_back(int undo, const char *id, struct warren_error *err)
{
	char former[UNDO_NAME_SIZE];

	undo_name(former, UNDO_FORMER, id);
	if (renameat(undo, former, undo, id) == 0 || errno == ENOENT)
		return 0;
	return error_errno(err, errno, "name the copy of its files");
}

/* Let the copy @name take the place of the earlier one, which is kept aside. */
static int undo_replace(int undo, const char *id, const char *name,
			struct warren_error *err)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	char former[UNDO_NAME_SIZE];
	int r;

	undo_name(former, UNDO_FORMER, id);
	undo_remove_former(undo, id);
	if (renameat(undo, id, undo, former) < 0 && errno != ENOENT)
		return error_errno(err, errno, "name the earlier copy of its files");
	if (renameat(undo, name, undo, id) == 0)
		return 0;
	r = error_errno(err, errno, "name the copy of its files");
	(void)undo_bring_back(undo, id, &ignored);
	return r;
}

/* ---------------------------------------------------------------------- keeping */

static int undo_copy(struct native_sandbox *sandbox, int undo, const char *name,
		     struct warren_saved *ret, struct warren_error *err)
{
	const struct save_limits limits = { .seconds = UNDO_SECONDS,
					    .linked = TREE_RESTORE_LINKED_MAX,
					    .linked_paths = TREE_RESTORE_PATHS_MAX };
	AUTO_CLOSE int dir = -1;

	copy_remove_tree(undo, name);
	if (mkdirat(undo, name, 0700) < 0)
		return error_errno(err, errno, "create a directory for its files");
	dir = openat(undo, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return error_errno(err, errno, "open the directory for its files");
	return save_to(sandbox, dir, &limits, 0, ret, err);
}

int undo_keep(void *state, struct backend_sandbox *base, struct warren_saved *ret,
	      struct warren_error *err)
{
	struct native *n = state;
	struct native_sandbox *sandbox = (struct native_sandbox *)base;
	char name[UNDO_NAME_SIZE];
	AUTO_CLOSE int undo = -1;
	int r;

	if (!base->durable)
		return error_set(err, EINVAL, "only a durable sandbox can undo commands");
	undo = undo_open_dir(n, true, err);
	if (undo < 0)
		return undo;
	undo_name(name, UNDO_NEW, base->id);
	r = undo_copy(sandbox, undo, name, ret, err);
	if (r == 0)
		r = undo_replace(undo, base->id, name, err);
	if (r < 0)
		copy_remove_tree(undo, name);
	return r;
}

int undo_keep_settle(void *state, const char *id, bool started, struct warren_error *err)
{
	AUTO_CLOSE int undo = undo_open_dir(state, false, err);

	if (undo < 0)
		return undo == -ENOENT ? 0 : undo;
	if (started) {
		undo_remove_former(undo, id);
		return 0;
	}
	undo_remove(undo, id);
	return undo_bring_back(undo, id, err);
}

int undo_forget(void *state, const char *id, struct warren_error *err)
{
	AUTO_CLOSE int undo = undo_open_dir(state, false, err);

	if (undo < 0)
		return undo == -ENOENT ? 0 : undo;
	/* The former copy first: it must not become valid again. */
	undo_remove_former(undo, id);
	undo_remove(undo, id);
	if (faccessat(undo, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return error_set(err, EBUSY, "the copy of its files cannot be removed");
	return 0;
}

void undo_drop(const struct native *n, const char *id)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	AUTO_CLOSE int undo = undo_open_dir(n, false, &ignored);

	/* If this fails, the next engine removes it. */
	if (undo >= 0 && faccessat(undo, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
		undo_remove_former(undo, id);
		undo_remove(undo, id);
	}
}

/* -------------------------------------------------------------------- restoring */

/* Runs in the child. */
static int undo_task(const struct files_child_task *task UNUSED, const int *fds,
		     const int *dirs, struct files_child_report *report)
{
	struct tree_restore t = {
		.copy = dirs[0],
		.upper = fds[0],
		.lower = fds[1],
		.root = fds[2],
		.deadline = clock_now() + UNDO_SECONDS * UINT64_C(1000000000),
	};
	int r = tree_restore(&t, &report->err);

	report->numbers[0] = t.removed;
	report->numbers[1] = t.restored;
	report->numbers[2] = t.changed;
	return r;
}

/* The root of init, as its mount namespace shows it. */
static int undo_open_root(struct native_sandbox *sandbox, int *ret_fd,
			  struct warren_error *err)
{
	struct pollfd alive = { .fd = sandbox->pidfd, .events = POLLIN };
	char path[32];

	if (!sandbox->engine->privileged)
		return backend_native.file_open(sandbox->engine, &sandbox->base, "/",
						O_PATH | O_DIRECTORY, 0, "0:0", ret_fd,
						err);
	(void)snprintf(path, sizeof(path), "/proc/%d/root", (int)sandbox->pid);
	*ret_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*ret_fd < 0)
		return error_errno(err, errno, "open the root of the sandbox");
	/* If init has ended, another process may have its pid. */
	if (poll(&alive, 1, 0) == 0)
		return 0;
	(void)close(TAKE_FD(*ret_fd));
	return error_set(err, ESRCH, "the sandbox has ended");
}

static int undo_frozen(struct native_sandbox *sandbox, const struct files_child *child,
		       struct warren_undone *ret, struct warren_error *err)
{
	struct warren_error second = WARREN_ERROR_INIT;
	struct files_child_report report;
	bool freeze = !sandbox->paused;
	uint64_t since = clock_now();
	int r = freeze ? save_freeze(sandbox, err) : 0, r2 = 0;

	if (r < 0)
		return r;
	r = files_child_run(child, NULL, &report, err);
	if (freeze)
		r2 = save_thaw(sandbox, &second);
	if (r == 0)
		*ret = (struct warren_undone){ .removed = report.numbers[0],
					       .restored = report.numbers[1],
					       .changed = report.numbers[2],
					       .frozen_ns =
						       freeze ? clock_now() - since : 0 };
	if (r == 0 && r2 < 0) {
		*err = second;
		r = r2;
	}
	return r;
}

static int undo_run(struct native_sandbox *sandbox, int copy, struct warren_undone *ret,
		    struct warren_error *err)
{
	struct files_child child = FILES_CHILD_NONE;
	struct files_child_task task = {
		.n_fds = 3, .dirs = { copy }, .n_dirs = 1, .run = undo_task
	};
	AUTO_CLOSE int upper = -1, lower = -1, root = -1;
	int r = native_root_dir(sandbox, PROTO_ROLE_UPPER, &upper, err);

	if (r == 0)
		r = native_root_dir(sandbox, PROTO_ROLE_LOWER, &lower, err);
	if (r == 0)
		r = undo_open_root(sandbox, &root, err);
	task.fds[0] = upper;
	task.fds[1] = lower;
	task.fds[2] = root;
	if (r == 0)
		r = files_child_start(sandbox, &task, &child, err);
	if (r == 0)
		r = undo_frozen(sandbox, &child, ret, err);
	files_child_done(&child);
	return r;
}

int undo_restore(void *state, struct backend_sandbox *base, struct warren_undone *ret,
		 struct warren_error *err)
{
	AUTO_CLOSE int undo = undo_open_dir(state, false, err), copy = -1, file = -1;
	char marker[UNDO_NAME_SIZE];
	int r;

	if (undo >= 0)
		copy = openat(undo, base->id,
			      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (undo == -ENOENT || (undo >= 0 && copy < 0 && errno == ENOENT))
		return error_set(err, ENOENT, "there is nothing to undo");
	if (undo < 0 || copy < 0)
		return undo < 0 ? undo
				: error_errno(err, errno, "open the copy of its files");
	undo_remove_former(undo, base->id);
	undo_name(marker, UNDO_BUSY, base->id);
	file = openat(undo, marker, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (file < 0)
		return error_errno(err, errno, "create a marker");
	/* Half of the files is worse than none: begin again if the process was killed. */
	for (unsigned tries = 0; tries < UNDO_TRIES; tries++) {
		*err = (struct warren_error)WARREN_ERROR_INIT;
		r = undo_run((struct native_sandbox *)base, copy, ret, err);
		if (r != -EIO)
			break;
	}
	/*
	 * Once the marker is removed, a copy that still exists is restored only on
	 * request.
	 */
	(void)unlinkat(undo, marker, 0);
	if (r == 0)
		undo_remove(undo, base->id);
	return r;
}

/* ------------------------------------------------------------------------ sweep */

static void undo_complete(struct native *n, const char *id)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct backend_sandbox *base = NULL;
	struct warren_undone undone;

	if (durable_find(n, id, &base, &ignored) < 0)
		return;
	(void)undo_restore(n, base, &undone, &ignored);
	durable_release(n, base);
}

static void undo_sweep_former(const struct native *n, int undo, const char *name)
{
	const char *id = name + strlen(UNDO_FORMER);
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (id_valid(id) && sandbox_socket_has_state(n->sandboxes_fd, id) &&
	    faccessat(undo, id, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		(void)undo_bring_back(undo, id, &ignored);
	else
		copy_remove_tree(undo, name);
}

static void undo_sweep_one(struct native *n, int undo, const char *name)
{
	size_t busy = strlen(UNDO_BUSY);
	const char *dash = strchr(name, '-');
	bool restores = strncmp(name, UNDO_BUSY, busy) == 0 && id_valid(name + busy);
	bool former = strncmp(name, UNDO_FORMER, strlen(UNDO_FORMER)) == 0;
	bool stale = strncmp(name, UNDO_NEW, strlen(UNDO_NEW)) == 0 ||
		     strncmp(name, UNDO_OLD, strlen(UNDO_OLD)) == 0 ||
		     (id_valid(name) && !sandbox_socket_has_state(n->sandboxes_fd, name));

	if ((!restores && !former && !stale) ||
	    durable_is_foreign(n, dash ? dash + 1 : name))
		return;
	if (former) {
		undo_sweep_former(n, undo, name);
		return;
	}
	if (stale) {
		copy_remove_tree(undo, name);
		return;
	}
	if (sandbox_socket_has_state(n->sandboxes_fd, name + busy))
		undo_complete(n, name + busy);
	(void)unlinkat(undo, name, 0);
}

void undo_sweep(struct native *n)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	int undo = undo_open_dir(n, false, &ignored);
	DIR *d = undo < 0 ? NULL : fdopendir(undo);
	struct dirent *e;

	while (d && (e = readdir(d)))
		undo_sweep_one(n, undo, e->d_name);
	if (d)
		(void)closedir(d);
	else if (undo >= 0)
		(void)close(undo);
}
