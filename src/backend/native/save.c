/* SPDX-License-Identifier: Apache-2.0 */
/*
 * save.c - copy the files of a sandbox; save them for a sandbox that hibernates
 *
 * Everything that was written to the root is in the upper directory of its overlay, to
 * which init has a descriptor (PROTO_FD_UPPER). A child without privileges on the host
 * makes the copy (files_child.h). It writes through an id-mapped mount, so that files on
 * disk have the ids that they have inside.
 *
 *	<state_dir>/saved/<id>		the files of a sandbox that hibernates, or a file
 *					that says that it is being reset
 *	<state_dir>/saved/.new-<id>	an incomplete copy
 *	<state_dir>/saved/.image-<id>	the image that the files belong to, by its id
 *	<state_dir>/saved/.frozen-<id>	a marker: its processes are stopped during a copy
 *
 * A saved directory is valid only while no sandbox with that id is running: it gets its
 * name before the sandbox ends, and is removed after the sandbox has been restored. After
 * a crash in between, the next engine of the same name removes what is not valid
 * (saved_sweep()).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "backend/native/create_op.h"
#include "backend/native/durable.h"
#include "backend/native/files_child.h"
#include "backend/native/persist.h"
#include "backend/native/undo.h"
#include "backend/saved.h"
#include "base/clock.h"
#include "base/fd.h"
#include "image/copy.h"
#include "image/ref.h"
#include "image/store.h"
#include "initclient/sandbox_socket.h"
#include "os/tree_copy.h"

#define SAVED_NEW    "new-"
#define SAVED_FROZEN "frozen-"
#define SAVED_IMAGE  "image-"
#define SAVED_PART   "part-"
/*
 * Content of the file of a sandbox that is being reset. If its files are on disk, the
 * inode number of the disk that the reset drops follows: whatever happens to this file,
 * it never refers to the disk that the reset creates.
 */
#define SAVED_RESET      "reset"
#define SAVED_RESET_SIZE sizeof(SAVED_RESET " 18446744073709551615")
/* Size of a name that begins with a dot and one of these prefixes. */
#define SAVED_NAME_SIZE (sizeof("." SAVED_FROZEN) + ID_LEN)

/* Runs in the child. */
static int save_task(const struct files_child_task *task, const int *fds, const int *dirs,
		     struct files_child_report *report)
{
	const struct save_limits *limits = task->ctx;
	struct tree_copy copy = { .only_root = task->only_root,
				  .max_linked = limits->linked,
				  .max_linked_paths = limits->linked_paths };
	int r = tree_copy(fds[0], dirs[0], &copy, &report->err);

	report->numbers[0] = copy.files;
	report->numbers[1] = copy.bytes;
	return r;
}

/*
 * Root takes the descriptor from the init process, which need not answer: it may be
 * frozen or compromised. An ordinary user is not allowed to do that, and sends init a
 * request.
 */
int native_root_dir(struct native_sandbox *sandbox, unsigned role, int *ret_fd,
		    struct warren_error *err)
{
	bool upper = role == PROTO_ROLE_UPPER;
	struct proto_upper msg = { .h = { .type = upper ? PROTO_UPPER : PROTO_LOWER } };
	CLEANUP(init_reply_done) struct init_reply a = { 0 };
	struct stat st;
	int r;

	if (sandbox->engine->privileged) {
		*ret_fd = (int)syscall(SYS_pidfd_getfd, sandbox->pidfd,
				       upper ? PROTO_FD_UPPER : PROTO_FD_LOWER, 0);
		if (*ret_fd < 0 && errno != EBADF)
			return error_errno(err, errno, "open the sandbox's files");
	} else {
		r = client_ask(native_talk(sandbox), &msg, sizeof(msg), -1, &a, err);
		if (r < 0)
			return r;
		*ret_fd = init_reply_take_only(&a);
	}
	if (*ret_fd >= 0 && fstat(*ret_fd, &st) == 0 && S_ISDIR(st.st_mode))
		return 0;
	if (*ret_fd >= 0)
		(void)close(*ret_fd);
	return error_set(err, EOPNOTSUPP,
			 "an older version of Warren created it, which does not allow "
			 "its files to be %s",
			 upper ? "saved" : "compared");
}

/*
 * -ENOENT, without a message in @err: the directory does not exist, and @make is false.
 */
static int save_open_dir(const struct native *n, bool make, struct warren_error *err)
{
	AUTO_CLOSE int state = open(n->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd;

	if (state >= 0 && make && mkdirat(state, "saved", 0700) < 0 && errno != EEXIST)
		return error_errno(err, errno, "create '%s/saved'", n->state_dir);
	fd = state < 0 ? -1
		       : openat(state, "saved",
				O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	if (errno == ENOENT && !make)
		return -ENOENT;
	return error_errno(err, errno, "open '%s/saved'", n->state_dir);
}

static void save_frozen_name(char name[SAVED_NAME_SIZE], const char *id)
{
	(void)snprintf(name, SAVED_NAME_SIZE, "." SAVED_FROZEN "%s", id);
}

/*
 * Stop the processes. If this process is killed, the marker file tells the next engine of
 * this name to let them continue.
 */
int save_freeze(struct native_sandbox *sandbox, struct warren_error *err)
{
	struct native *n = sandbox->engine;
	AUTO_CLOSE int saved = -1, file = -1;
	char name[SAVED_NAME_SIZE];
	int r;

	if (n->named) {
		saved = save_open_dir(n, true, err);
		if (saved < 0)
			return saved;
		save_frozen_name(name, sandbox->base.id);
		file = openat(saved, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
			      0600);
		if (file < 0)
			return error_errno(err, errno, "create '%s/saved/%s'",
					   n->state_dir, name);
	}
	r = backend_native.pause(n, &sandbox->base, true, err);
	if (r < 0 && saved >= 0)
		(void)unlinkat(saved, name, 0);
	return r;
}

void save_forget_freeze(const struct native *n, const char *id)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	AUTO_CLOSE int saved = n->named ? save_open_dir(n, false, &ignored) : -1;
	char name[SAVED_NAME_SIZE];

	save_frozen_name(name, id);
	if (saved >= 0)
		(void)unlinkat(saved, name, 0);
}

int save_thaw(struct native_sandbox *sandbox, struct warren_error *err)
{
	struct native *n = sandbox->engine;
	int r = backend_native.pause(n, &sandbox->base, false, err);

	if (r == 0)
		save_forget_freeze(n, sandbox->base.id);
	return r;
}

static int save_frozen(struct native_sandbox *sandbox, const struct files_child *child,
		       const struct save_limits *save_limits, bool freeze,
		       struct warren_saved *ret, struct warren_error *err)
{
	const struct files_child_limits limits = { .seconds = save_limits->seconds };
	struct warren_error second = WARREN_ERROR_INIT;
	struct files_child_report report;
	uint64_t since;
	int r = 0, r2 = 0;

	if (freeze)
		r = save_freeze(sandbox, err);
	if (r < 0)
		return r;
	since = clock_now();
	r = files_child_run(child, &limits, &report, err);
	if (freeze)
		r2 = save_thaw(sandbox, &second);
	ret->frozen_ns = freeze ? clock_now() - since : 0;
	if (r == 0 && r2 < 0) {
		*err = second;
		r = r2;
	}
	if (r == 0) {
		ret->files = report.numbers[0];
		ret->bytes = report.numbers[1];
	}
	return r;
}

/* One call of kill(2) in init reaches all processes, so none can fork and be missed. */
static int save_kill(struct native_sandbox *sandbox, struct warren_error *err)
{
	const struct proto_signal msg = { .h = { .type = PROTO_SIGNAL },
					  .sig = SIGKILL,
					  .whom = PROTO_WHOM_ALL };
	CLEANUP(init_reply_done) struct init_reply a = { 0 };

	return client_ask(native_talk(sandbox), &msg, sizeof(msg), -1, &a, err);
}

int save_to(struct native_sandbox *sandbox, int dir, const struct save_limits *limits,
	    unsigned flags, struct warren_saved *ret, struct warren_error *err)
{
	struct files_child child = FILES_CHILD_NONE;
	AUTO_CLOSE int from = -1;
	bool freeze =
		!(flags & (WARREN_SAVE_UNFROZEN | WARREN_SAVE_KILL)) && !sandbox->paused;
	int r = native_root_dir(sandbox, PROTO_ROLE_UPPER, &from, err);
	struct files_child_task task = { .fds = { from },
					 .n_fds = 1,
					 .dirs = { dir },
					 .n_dirs = 1,
					 .only_root = !sandbox->engine->privileged,
					 .ctx = limits,
					 .run = save_task };

	*ret = (struct warren_saved){ 0 };
	if (r == 0)
		r = saved_check_space(from, dir, err);
	if (r == 0 && flags & WARREN_SAVE_KILL)
		r = save_kill(sandbox, err);
	if (r == 0)
		r = files_child_start(sandbox, &task, &child, err);
	if (r == 0)
		r = save_frozen(sandbox, &child, limits, freeze, ret, err);
	files_child_done(&child);
	return r;
}

int native_save_files(void *state UNUSED, struct backend_sandbox *base, int dir,
		      unsigned flags, struct warren_saved *ret, struct warren_error *err)
{
	struct native_sandbox *sandbox = (struct native_sandbox *)base;
	const struct save_limits none = { 0 };
	int r = save_to(sandbox, dir, &none, flags, ret, err);

	if (r == 0)
		saved_drop_hosts(dir, sandbox->hostname);
	return r;
}

const char *native_image(const struct backend_sandbox *base)
{
	const struct native_sandbox *sandbox = (const struct native_sandbox *)base;

	return sandbox->image ? sandbox->image : "host";
}

/* ------------------------------------------------------------------ hibernating */

static int save_copy_to(struct native_sandbox *sandbox, int saved, const char *temp,
			struct warren_saved *ret, struct warren_error *err)
{
	const struct save_limits none = { 0 };
	AUTO_CLOSE int dir = -1;
	int r;

	copy_remove_tree(saved, temp);
	if (mkdirat(saved, temp, 0700) < 0)
		return error_errno(err, errno, "create a directory for its files");
	dir = openat(saved, temp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return error_errno(err, errno, "open the directory for its files");
	r = save_to(sandbox, dir, &none, WARREN_SAVE_UNFROZEN, ret, err);
	if (r == 0 && syncfs(dir) < 0)
		r = error_errno(err, errno, "write its files to disk");
	return r;
}

/*
 * The files are valid only on top of the same image. When the sandbox wakes, the image's
 * name may refer to another image, so record the id.
 */
static int save_note_image(const struct native_sandbox *sandbox, int saved, bool sync,
			   struct warren_error *err)
{
	const struct native *n = sandbox->engine;
	const char *image = native_image(&sandbox->base);
	char name[SAVED_NAME_SIZE], disk[sizeof(n->name) + ID_LEN + 16];
	char temp[SAVED_NAME_SIZE + sizeof(SAVED_PART)];
	AUTO_CLOSE int fd = -1;
	int r;

	/* An earlier record stays valid until the new one is complete. */
	(void)snprintf(name, sizeof(name), "." SAVED_IMAGE "%s", sandbox->base.id);
	(void)snprintf(temp, sizeof(temp), "." SAVED_PART "%s", sandbox->base.id);
	fd = openat(saved, temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	r = fd < 0 ? -errno : fd_write_all(fd, image, strlen(image));
	if (r == 0 && sync && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(saved, temp, saved, name) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlinkat(saved, temp, 0);
		return error_errno(err, -r, "record the image of its files");
	}
	if (!ref_digest_valid(image))
		return 0;
	r = persist_has(n, sandbox->base.id, err);
	if (r < 0)
		return r;
	persist_path(n, sandbox->base.id, disk);
	return store_pin_image(n->state_dir, image, r > 0 ? disk : sandbox->base.id, err);
}

static void save_forget_image(int saved, const char *id)
{
	char name[SAVED_NAME_SIZE];

	(void)snprintf(name, sizeof(name), "." SAVED_IMAGE "%s", id);
	(void)unlinkat(saved, name, 0);
}

int saved_note(struct create_op *m, struct warren_error *err)
{
	AUTO_CLOSE int saved = -1;
	int r;

	if (!m->spec->persist || m->spec->restore)
		return 0;
	saved = save_open_dir(m->engine, true, err);
	r = saved < 0 ? saved : save_note_image(m->sandbox, saved, true, err);
	if (r == 0 && fsync(saved) < 0)
		r = error_errno(err, errno, "record the image of its files");
	return r;
}

int saved_image(const struct native *n, const char *id, char **ret,
		struct warren_error *err)
{
	AUTO_CLOSE int saved = save_open_dir(n, false, err);
	char name[SAVED_NAME_SIZE], text[4096 + sizeof("dir:")];
	ssize_t size = saved;

	(void)snprintf(name, sizeof(name), "." SAVED_IMAGE "%s", id);
	if (saved >= 0)
		size = fd_read_file_at(saved, name, text, sizeof(text));
	if (size == -ENOENT || size == 0)
		return error_set(err, EREMOTEIO,
				 "the saved files of the sandbox are missing");
	if (size < 0)
		return error_errno(err, (int)-size, "read the image of its saved files");
	*ret = strdup(text);
	return *ret ? 0 : error_errno(err, ENOMEM, "read the image of its saved files");
}

static int save_as(struct native_sandbox *sandbox, int saved, struct warren_saved *ret,
		   struct warren_error *err)
{
	const char *id = sandbox->base.id;
	char temp[sizeof("." SAVED_NEW) + ID_LEN];
	int r;

	(void)snprintf(temp, sizeof(temp), "." SAVED_NEW "%s", id);
	r = save_note_image(sandbox, saved, true, err);
	if (r == 0)
		r = save_copy_to(sandbox, saved, temp, ret, err);
	if (r == 0) {
		copy_remove_tree(saved, id);
		if (renameat(saved, temp, saved, id) < 0 || fsync(saved) < 0)
			r = error_errno(err, errno, "name the saved files");
	}
	if (r < 0) {
		copy_remove_tree(saved, temp);
		save_forget_image(saved, id);
	}
	return r;
}

/*
 * The processes stay frozen from the copy to their end, so that nothing is written in
 * between.
 */
int native_hibernate(void *state, struct backend_sandbox *base, struct warren_saved *ret,
		     struct warren_error *err)
{
	struct native *n = state;
	struct native_sandbox *sandbox = (struct native_sandbox *)base;
	struct warren_error second = WARREN_ERROR_INIT;
	bool was_paused = sandbox->paused;
	AUTO_CLOSE int saved = -1;
	int r;

	if (!base->durable)
		return error_set(err, EINVAL, "only a durable sandbox can hibernate");
	r = persist_has(n, base->id, err);
	if (r != 0) {
		*ret = (struct warren_saved){ 0 };
		return r < 0 ? r : persist_hibernate(n, sandbox, err);
	}
	saved = save_open_dir(n, true, err);
	if (saved < 0)
		return saved;
	if (!was_paused)
		r = save_freeze(sandbox, err);
	if (r < 0)
		return r;
	r = save_as(sandbox, saved, ret, err);
	if (r == 0) {
		char id[ID_LEN + 1];

		/* If this leaves anything behind, the engine removes it later. */
		(void)memcpy(id, base->id, sizeof(id));
		(void)native_undo(n, sandbox, &second);
		save_forget_freeze(n, id);
		return 0;
	}
	if (!was_paused)
		(void)save_thaw(sandbox, &second);
	return r;
}

/* A crash in between leaves a sandbox that hibernates, without files. */
int native_reset(void *state, struct backend_sandbox *base, struct warren_error *err)
{
	struct native *n = state;
	struct native_sandbox *sandbox = (struct native_sandbox *)base;
	struct warren_error second = WARREN_ERROR_INIT;
	AUTO_CLOSE int saved = -1, empty = -1;
	char text[SAVED_RESET_SIZE];
	uint64_t disk = 0;
	int r;

	if (!base->durable)
		return error_set(err, EINVAL, "only a durable sandbox can be reset");
	saved = save_open_dir(n, true, err);
	r = saved < 0 ? saved : persist_number(n, base->id, &disk, err);
	/* The record of a sandbox with a disk is already there, and must survive. */
	if (r == 0 && disk == 0)
		r = save_note_image(sandbox, saved, false, err);
	if (r < 0)
		return r;
	(void)snprintf(text, sizeof(text), disk ? SAVED_RESET " %ju" : SAVED_RESET,
		       (uintmax_t)disk);
	copy_remove_tree(saved, base->id);
	empty = openat(saved, base->id,
		       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	r = empty < 0 ? -errno : fd_write_all(empty, text, strlen(text));
	if (r < 0) {
		(void)unlinkat(saved, base->id, 0);
		if (disk == 0)
			save_forget_image(saved, base->id);
		return error_errno(err, -r, "record that it has no files");
	}
	(void)native_undo(n, sandbox, &second);
	return 0;
}

void saved_keep_disk(const struct native *n, const char *id)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	char path[4096 + sizeof("/saved/") + ID_LEN];
	AUTO_CLOSE int saved = -1;

	/* Mostly there is none, and creations must be fast. */
	(void)snprintf(path, sizeof(path), "%s/saved/%s", n->state_dir, id);
	if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0 ||
	    persist_has(n, id, &ignored) <= 0)
		return;
	saved = save_open_dir(n, false, &ignored);
	if (saved >= 0 && unlinkat(saved, id, 0) == 0)
		(void)fsync(saved);
}

int native_has_saved(void *state, const char *id, struct warren_error *err)
{
	AUTO_CLOSE int saved = save_open_dir(state, false, err);
	int r = saved < 0 ? saved : saved_exists(saved, id, err);

	if (r != 0)
		return r == -ENOENT ? 0 : r;
	return persist_has(state, id, err);
}

int native_forget_saved(void *state, const char *id, struct warren_error *err)
{
	AUTO_CLOSE int saved = save_open_dir(state, false, err);
	char name[SAVED_NAME_SIZE];
	int r;

	if (saved >= 0) {
		r = persist_remove(state, id, err);
		if (r < 0)
			return r;
	}
	if (saved < 0)
		return saved == -ENOENT ? 0 : saved;
	(void)snprintf(name, sizeof(name), "." SAVED_NEW "%s", id);
	copy_remove_whole(saved, id, name);
	if (faccessat(saved, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return error_set(err, EBUSY, "its saved files cannot be removed");
	save_forget_image(saved, id);
	return 0;
}

/*
 * Is the sandbox being reset? Return 1 and the number of the disk that the reset drops
 * (0: none), 0, or -errno.
 */
static int saved_is_empty(int saved, const char *id, uint64_t *ret_disk,
			  struct warren_error *err)
{
	char text[SAVED_RESET_SIZE];
	ssize_t size = fd_read_file_at(saved, id, text, sizeof(text));
	size_t word = strlen(SAVED_RESET);

	if (size == -ENOENT || size == -EFBIG || size == -EISDIR || size == -ELOOP)
		return 0;
	if (size < 0)
		return error_errno(err, (int)-size, "read whether the sandbox is reset");
	if (strncmp(text, SAVED_RESET, word) != 0 || (text[word] && text[word] != ' '))
		return 0;
	*ret_disk = strtoull(text + word, NULL, 10);
	return 1;
}

/* The disk of a sandbox is replaced only by the reset that was to replace this one. */
static int saved_open_disk(struct create_op *m, int saved, struct warren_error *err)
{
	const char *id = m->sandbox->base.id;
	uint64_t dropped = 0, disk = 0;
	int r = saved < 0 ? 0 : saved_is_empty(saved, id, &dropped, err);
	int r2 = r < 0 ? 0 : persist_number(m->engine, id, &disk, err);

	if (r < 0 || r2 < 0)
		return r < 0 ? r : r2;
	return persist_open(m, r > 0 && (disk == dropped || disk == 0), disk > 0, err);
}

int saved_open(struct create_op *m, struct warren_error *err)
{
	AUTO_CLOSE int saved = -1;
	struct native_plan *p = m->plan;
	uint64_t none;
	int r, why;

	p->restores = m->spec->restore;
	if (!p->restores)
		return 0;
	saved = save_open_dir(m->engine, false, err);
	if (saved < 0 && saved != -ENOENT)
		return saved;
	if (m->spec->persist) {
		p->restores = false;
		return saved_open_disk(m, saved, err);
	}
	errno = ENOENT;
	if (saved >= 0)
		p->saved = openat(saved, m->sandbox->base.id,
				  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (p->saved >= 0)
		return 0;
	why = errno;
	r = why == ENOTDIR ? saved_is_empty(saved, m->sandbox->base.id, &none, err) : 0;
	if (r != 0) {
		p->restores = r < 0;
		return r < 0 ? r : 0;
	}
	if (why == ENOENT || why == ENOTDIR || why == ELOOP)
		return error_set(err, EREMOTEIO, "the saved files of the sandbox are %s",
				 why == ENOENT ? "missing" : "damaged");
	return error_errno(err, why, "open the saved files");
}

/* If this fails, the next engine removes them. */
void saved_drop(struct create_op *m)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	AUTO_CLOSE int saved = -1;

	if (m->spec->restore && m->spec->persist) {
		saved = save_open_dir(m->engine, false, &ignored);
		if (saved >= 0)
			(void)unlinkat(saved, m->sandbox->base.id, 0);
	} else if (m->spec->restore) {
		(void)native_forget_saved(m->engine, m->sandbox->base.id, &ignored);
	}
}

/* Return the id in the name of a marker or incomplete copy; NULL: the prefix differs. */
static const char *saved_id(const char *name, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(name, prefix, n) == 0 && id_valid(name + n) ? name + n : NULL;
}

/* Is the sandbox complete? If not, it is ending, and its saved files are still needed. */
static bool saved_is_awake(const struct native *n, const char *id)
{
	struct sandbox_socket_look look = { 0 };

	if (!sandbox_socket_has_state(n->sandboxes_fd, id))
		return false;
	(void)memcpy(look.id, id, sizeof(look.id));
	sandbox_socket_look_at(n->sandboxes_fd, &look, 1);
	return look.alive && !look.dying && !look.asked;
}

/* Of the files in @saved: does this one belong to a sandbox that does not need it? */
static bool saved_is_stale(const struct native *n, int saved, const char *name)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	const char *image = saved_id(name, "." SAVED_IMAGE);

	/* The files of this image are missing, or the sandbox is running. */
	if (image)
		return !persist_has_any(saved, image) &&
		       (saved_exists(saved, image, &ignored) == 0 ||
			saved_is_awake(n, image));
	return id_valid(name) ? saved_is_awake(n, name)
			      : saved_id(name, "." SAVED_FROZEN) ||
					saved_id(name, "." SAVED_PART) ||
					saved_id(name, "." SAVED_NEW);
}

static void saved_sweep_one(struct native *n, int saved, const char *name)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	const char *frozen = saved_id(name, "." SAVED_FROZEN);
	const char *dash = strchr(name, '-');

	if (!saved_is_stale(n, saved, name) ||
	    durable_is_foreign(n, dash ? dash + 1 : name))
		return;
	/* An engine was killed before it let the processes continue. */
	if (frozen && sandbox_socket_has_state(n->sandboxes_fd, frozen))
		(void)cgroup_freeze(&n->cgroups, frozen, false, &ignored);
	if (id_valid(name) || saved_id(name, "." SAVED_NEW))
		copy_remove_tree(saved, name);
	else
		(void)unlinkat(saved, name, 0);
}

void saved_sweep(struct native *n)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	int saved = save_open_dir(n, false, &ignored);
	DIR *d = saved < 0 ? NULL : fdopendir(saved);
	struct dirent *e;

	while (d && (e = readdir(d)))
		saved_sweep_one(n, saved, e->d_name);
	if (d)
		(void)closedir(d);
	else if (saved >= 0)
		(void)close(saved);
}
