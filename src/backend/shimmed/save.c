/* SPDX-License-Identifier: Apache-2.0 */
/*
 * save.c - copy the files of a sandbox; save a sandbox that hibernates
 *
 * If the platform's root is an overlay of this machine (gVisor), the shim has the upper
 * directory, and its files are copied; no process inside runs in the meantime. If the
 * sandbox was checkpointed before, the shim also has a file with its memory, which only
 * gets a name. A daemon (docker) keeps the files of a sandbox that is stopped: then the
 * directory of the sandbox has no files, but its existence tells the driver to keep them.
 *
 * In <state_dir>/saved/<kind>.<engine>/:
 *
 *	<id>/files	the files of a sandbox that hibernates
 *	<id>/memory	its memory, if that was saved too
 *	<id>/image	the image that the files belong to
 *	<id>/reset	a marker: the sandbox is being reset, and wakes without its files
 *	.new-<id>	an incomplete copy
 *	.memory-<id>	its memory, until the directory <id> exists
 *	.frozen-<id>	a marker: its processes are stopped during a copy
 *
 * As for native sandboxes, a saved directory is valid only while no sandbox with that id
 * is running: it gets its name before the sandbox ends, and is removed after the sandbox
 * has been restored. After a crash in between, the next engine of the same name removes
 * what is not valid.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "backend/saved.h"
#include "backend/shimmed/shimmed.h"
#include "base/clock.h"
#include "base/fd.h"
#include "image/copy.h"
#include "image/ref.h"
#include "image/store.h"
#include "os/tree_copy.h"

#define IMAGE_TEXT_MAX (4096 + sizeof("dir:"))
#define PREFIX_NEW     ".new-"
#define NAME_SIZE      (sizeof(PROTO_FROZEN_PREFIX) + ID_LEN)
/* A daemon that restarts in the meantime is asked again to resume a sandbox. */
#define RESUME_TRIES    6
#define RESUME_FIRST_MS 100 /* before the second try; twice as long before each next */

/* ------------------------------------------------------------------ directories */

char *shimmed_saved_path(const struct shimmed *k)
{
	char *path = NULL;

	return asprintf(&path, "%s/saved/%s.%s", k->state_dir, k->kind, k->name) < 0
		       ? NULL
		       : path;
}

/* -ENOENT, without a message in @err: there is none, and @make is false. */
static int shimmed_open_saved(const struct shimmed *k, bool make,
			      struct warren_error *err)
{
	AUTO_FREE char *path = shimmed_saved_path(k);
	int fd = -1, r = 0;

	if (!path)
		return error_errno(err, ENOMEM, "open the directory of saved sandboxes");
	if (make)
		r = fd_make_dirs(path, 0700);
	if (r == 0)
		fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	if (r == 0)
		r = -errno;
	if (r == -ENOENT && !make)
		return r;
	return error_errno(err, -r, "open '%s'", path);
}

/* ------------------------------------------------------------------ copying */

/*
 * Send a request to the shim. Its answer is in *@ret_code, or in @err if it gave a
 * reason; its descriptor is in *@ret_fd.
 */
static int shimmed_ask(struct shimmed_sandbox *sandbox, uint16_t type, int *ret_fd,
		       int *ret_code, struct warren_error *err)
{
	struct proto_upper msg = { .h = { .type = type } };
	CLEANUP(init_reply_done) struct init_reply a = { 0 };
	int r = 0;

	if (sandbox->control < 0)
		r = sandbox_socket_open_line(sandbox->engine->sandboxes_fd,
					     shimmed_talk(sandbox), err);
	if (r == 0)
		r = client_ask(shimmed_talk(sandbox), &msg, sizeof(msg), -1, &a, err);
	if (r < 0)
		return r;
	*ret_code = reply_code(&a.m.reply);
	if (*ret_code && a.m.why[0])
		return error_set(err, *ret_code, "%s", a.m.why);
	*ret_fd = init_reply_take_only(&a);
	return 0;
}

/*
 * Get the upper directory. -EOPNOTSUPP, without a message in @err: the platform has no
 * such directory.
 */
static int shimmed_ask_upper(struct shimmed_sandbox *sandbox, int *ret_upper,
			     struct warren_error *err)
{
	int code = 0, r = shimmed_ask(sandbox, PROTO_UPPER, ret_upper, &code, err);

	if (r < 0)
		return r;
	/* ENOSYS: a shim of an older version. */
	if (code == EOPNOTSUPP || code == ENOSYS)
		return -EOPNOTSUPP;
	return *ret_upper >= 0 ? 0
			       : error_errno(err, code ? code : EPROTO,
					     "open the sandbox's files");
}

static int shimmed_copy(const struct shimmed *k, int upper, int dir,
			struct warren_saved *ret, struct warren_error *err)
{
	bool daemon = backend_kind_find(k->kind)->daemon;
	struct tree_copy copy = { .marks = daemon ? TREE_COPY_FROM_TRUSTED
						  : TREE_COPY_USER };
	struct saved_space have = { 0 };
	int r = 0;

	/* The files in a daemon's storage belong to many sandboxes. */
	if (daemon)
		saved_look_at_space(dir, &have);
	else
		r = saved_check_space(upper, dir, err);
	copy.keep_free = have.keep;
	if (r == 0)
		r = tree_copy(upper, dir, &copy, err);
	*ret = (struct warren_saved){ .files = copy.files, .bytes = copy.bytes };
	return r;
}

/*
 * If this process is killed, the file tells the next engine to let the processes
 * continue.
 */
static int shimmed_mark_frozen(const struct shimmed *k, const char *id,
			       struct warren_error *err)
{
	AUTO_CLOSE int saved = -1, fd = -1;
	char name[NAME_SIZE];

	if (!k->named)
		return 0;
	saved = shimmed_open_saved(k, true, err);
	if (saved < 0)
		return saved;
	(void)snprintf(name, sizeof(name), PROTO_FROZEN_PREFIX "%s", id);
	fd = openat(saved, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? error_errno(err, errno, "create '%s'", name) : 0;
}

void shimmed_forget_frozen(const struct shimmed *k, const char *id)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	AUTO_CLOSE int saved = shimmed_open_saved(k, false, &ignored);
	char name[NAME_SIZE];

	(void)snprintf(name, sizeof(name), PROTO_FROZEN_PREFIX "%s", id);
	if (saved >= 0)
		(void)unlinkat(saved, name, 0);
}

/*
 * Let the processes continue. If that fails, the sandbox is paused until its next use,
 * requests no longer wait for the end of the copy, and @err, which may have a reason
 * already, says so.
 */
static int shimmed_continue(struct shimmed *k, struct shimmed_sandbox *sandbox,
			    struct warren_error *err)
{
	struct warren_error why = WARREN_ERROR_INIT;
	char before[sizeof(why.msg)];
	int r = shimmed_pause(k, &sandbox->base, false, &why);

	for (unsigned i = 0; r < 0 && r != -ESRCH && i + 1 < RESUME_TRIES; i++) {
		unsigned ms = RESUME_FIRST_MS << i;

		(void)nanosleep(&(struct timespec){ .tv_sec = ms / 1000,
						    .tv_nsec = ms % 1000 * 1000000L },
				NULL);
		r = shimmed_pause(k, &sandbox->base, false, &why);
	}
	if (r == 0)
		return 0;
	if (r == -ESRCH) {
		shimmed_forget_frozen(k, sandbox->base.id);
		return err->code ? -err->code : (*err = why, r);
	}
	/* If this cannot be recorded, the next engine tries again. */
	sandbox->paused = sandbox->left_paused = true;
	if (shimmed_note_left_paused(k, sandbox->base.id) == 0)
		shimmed_forget_frozen(k, sandbox->base.id);
	(void)strcpy(before, err->code ? err->msg : "");
	return error_set(err, ESTRPIPE, "%.250s%sit is paused, because %.200s", before,
			 before[0] ? "; " : "", why.msg);
}

static int shimmed_copy_frozen(struct shimmed *k, struct shimmed_sandbox *sandbox,
			       int upper, int dir, struct warren_saved *ret,
			       struct warren_error *err)
{
	bool may_be = false;
	uint64_t since;
	int r = shimmed_mark_frozen(k, sandbox->base.id, err), r2;

	if (r < 0)
		return r;
	r = shimmed_try_pause(k, sandbox, &may_be, err);
	/* For example, its daemon is down. */
	if (r < 0 && !may_be) {
		shimmed_forget_frozen(k, sandbox->base.id);
		return r;
	}
	since = clock_now();
	if (r == 0)
		r = shimmed_copy(k, upper, dir, ret, err);
	r2 = shimmed_continue(k, sandbox, err);
	ret->frozen_ns = clock_now() - since;
	return r2 < 0 ? r2 : r;
}

int shimmed_save_files(void *state, struct backend_sandbox *base, int dir, unsigned flags,
		       struct warren_saved *ret, struct warren_error *err)
{
	struct shimmed_sandbox *sandbox = (struct shimmed_sandbox *)base;
	bool daemon = backend_kind_find(sandbox->engine->kind)->daemon;
	struct saved_space have;
	AUTO_CLOSE int upper = -1;
	int r;

	if (flags & WARREN_SAVE_KILL)
		return error_set(err, EOPNOTSUPP,
				 "backend '%s' cannot kill processes to copy files",
				 sandbox->engine->kind);
	r = shimmed_ask_upper(sandbox, &upper, err);
	if (r == -EOPNOTSUPP && err->code == 0)
		return error_set(err, EOPNOTSUPP,
				 "backend '%s' cannot copy the files of a sandbox",
				 sandbox->engine->kind);
	if (r < 0)
		return r;
	saved_look_at_space(dir, &have);
	r = daemon ? saved_check_tree(upper, &have, err) : 0;
	if (r < 0)
		return r;
	r = flags & WARREN_SAVE_UNFROZEN || sandbox->paused
		    ? shimmed_copy(state, upper, dir, ret, err)
		    : shimmed_copy_frozen(state, sandbox, upper, dir, ret, err);
	/* Counting takes time: the sandbox has continued. */
	if (r == -ENOSPC && daemon)
		(void)saved_explain_space(upper, &have, err);
	if (r == 0)
		saved_drop_hosts(dir, sandbox->hostname);
	return r;
}

const char *shimmed_image(const struct backend_sandbox *base)
{
	/* Only what it points to is changed, and only once. */
	struct shimmed_sandbox *sandbox = (struct shimmed_sandbox *)(uintptr_t)base;
	char path[ID_LEN + 8], text[IMAGE_TEXT_MAX];

	(void)snprintf(path, sizeof(path), "%s/image", base->id);
	if (!sandbox->image &&
	    fd_read_file_at(sandbox->engine->dir_fd, path, text, sizeof(text)) > 0)
		sandbox->image = strdup(text);
	return sandbox->image;
}

/* ------------------------------------------------------------------ hibernating */

/* The files are valid only on top of the same image. */
static int shimmed_note_image(const struct shimmed_sandbox *sandbox, int dir,
			      struct warren_error *err)
{
	const char *image = shimmed_image(&sandbox->base);
	AUTO_CLOSE int fd =
		openat(dir, "image", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	const struct shimmed *k = sandbox->engine;
	char saved[NAME_MAX + ID_LEN + 2];
	int r = fd < 0   ? -errno
		: !image ? -ENOENT
			 : fd_write_all(fd, image, strlen(image));

	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r < 0)
		return error_errno(err, -r, "record the image of its files");
	(void)snprintf(saved, sizeof(saved), "%s.%s/%s", k->kind, k->name,
		       sandbox->base.id);
	return ref_digest_valid(image) ? store_pin_image(k->state_dir, image, saved, err)
				       : 0;
}

/* Move the file with the memory of a checkpointed sandbox to @dir. */
static int shimmed_take_memory(struct shimmed_sandbox *sandbox, int saved, int dir,
			       struct warren_error *err)
{
	AUTO_CLOSE int none = -1, file = -1;
	char name[NAME_SIZE];
	int code = 0, r = 0;

	if (!sandbox->saved)
		return 0;
	r = shimmed_ask(sandbox, PROTO_NAME_MEMORY, &none, &code, err);
	if (r < 0)
		return r;
	if (code)
		return error_errno(err, code, "name the saved memory");
	(void)snprintf(name, sizeof(name), PROTO_MEMORY_PREFIX "%s", sandbox->base.id);
	if (renameat(saved, name, dir, "memory") < 0)
		return error_errno(err, errno, "move the saved memory");
	file = openat(dir, "memory", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return file < 0 || fsync(file) < 0
		       ? error_errno(err, errno, "write the saved memory to disk")
		       : 0;
}

static int shimmed_make_dir(int parent, const char *name, int *ret_fd,
			    struct warren_error *err)
{
	if (mkdirat(parent, name, 0700) < 0)
		return error_errno(err, errno, "create a directory for its files");
	*ret_fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return *ret_fd < 0 ? error_errno(err, errno, "open the directory for its files")
			   : 0;
}

/* The next CREATE creates the sandbox again, from its image. */
static int shimmed_fill_reset(struct shimmed_sandbox *sandbox, int dir,
			      struct warren_error *err)
{
	AUTO_CLOSE int mark =
		openat(dir, "reset", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r = 0;

	if (mark < 0)
		return error_errno(err, errno, "record that it has no files");
	/* A daemon knows what it has created the sandbox from. */
	if (!backend_kind_find(sandbox->engine->kind)->daemon)
		r = shimmed_note_image(sandbox, dir, err);
	if (r == 0 && fsync(dir) < 0)
		r = error_errno(err, errno, "write the record to disk");
	return r;
}

/* @upper: -1: the platform keeps the files. */
static int shimmed_fill_saved(struct shimmed_sandbox *sandbox, int saved, int dir,
			      int upper, struct warren_saved *ret,
			      struct warren_error *err)
{
	AUTO_CLOSE int files = -1;
	int r;

	if (upper < 0)
		return 0;
	r = shimmed_make_dir(dir, "files", &files, err);
	if (r == 0)
		r = shimmed_note_image(sandbox, dir, err);
	if (r == 0)
		r = shimmed_copy(sandbox->engine, upper, files, ret, err);
	if (r == 0)
		r = shimmed_take_memory(sandbox, saved, dir, err);
	if (r == 0 && syncfs(dir) < 0)
		r = error_errno(err, errno, "write its files to disk");
	return r;
}

/* @ret: NULL: a reset, for which no files are saved. */
static int shimmed_save_as(struct shimmed_sandbox *sandbox, int saved, int upper,
			   struct warren_saved *ret, struct warren_error *err)
{
	const char *id = sandbox->base.id;
	AUTO_CLOSE int dir = -1;
	char temp[NAME_SIZE];
	int r;

	(void)snprintf(temp, sizeof(temp), PREFIX_NEW "%s", id);
	copy_remove_tree(saved, temp);
	r = shimmed_make_dir(saved, temp, &dir, err);
	if (r == 0)
		r = ret ? shimmed_fill_saved(sandbox, saved, dir, upper, ret, err)
			: shimmed_fill_reset(sandbox, dir, err);
	if (r == 0) {
		copy_remove_tree(saved, id);
		if (renameat(saved, temp, saved, id) < 0 || fsync(saved) < 0)
			r = error_errno(err, errno, "name the saved files");
	}
	if (r < 0)
		copy_remove_tree(saved, temp);
	return r;
}

/*
 * From here on, the sandbox hibernates. If something cannot be removed now, the engine
 * removes it later.
 */
static void shimmed_end_saved(struct shimmed *k, struct backend_sandbox *base)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	char id[ID_LEN + 1];

	(void)memcpy(id, base->id, sizeof(id));
	if (shimmed_destroy(k, base, &ignored) < 0)
		shimmed_keep_left(k, id);
}

/*
 * The caller has ended or checkpointed all processes inside, so nothing is written in the
 * meantime.
 */
int shimmed_hibernate(void *state, struct backend_sandbox *base, struct warren_saved *ret,
		      struct warren_error *err)
{
	struct shimmed *k = state;
	struct shimmed_sandbox *sandbox = (struct shimmed_sandbox *)base;
	AUTO_CLOSE int saved = -1, upper = -1;
	int r;

	*ret = (struct warren_saved){ 0 };
	if (!base->durable)
		return error_set(err, EINVAL, "only a durable sandbox can hibernate");
	if (!backend_kind_find(k->kind)->hibernates)
		return error_set(err, EOPNOTSUPP,
				 "hibernation is not supported by backend '%s'", k->kind);
	r = backend_kind_find(k->kind)->daemon ? 0
					       : shimmed_ask_upper(sandbox, &upper, err);
	if (r < 0 && (r != -EOPNOTSUPP || err->code))
		return r;
	if (r < 0)
		return error_set(err, EOPNOTSUPP,
				 "an older version of Warren created it, which does not "
				 "allow its files to be saved");
	saved = shimmed_open_saved(k, true, err);
	if (saved < 0)
		return saved;
	r = shimmed_save_as(sandbox, saved, upper, ret, err);
	if (r < 0)
		return r;
	shimmed_end_saved(k, base);
	return 0;
}

/* A crash in between leaves a sandbox that hibernates, without files. */
int shimmed_reset(void *state, struct backend_sandbox *base, struct warren_error *err)
{
	struct shimmed *k = state;
	AUTO_CLOSE int saved = -1;
	int r;

	if (!base->durable)
		return error_set(err, EINVAL, "only a durable sandbox can be reset");
	if (!backend_kind_find(k->kind)->hibernates)
		return error_set(err, EOPNOTSUPP, "backend '%s' cannot reset sandboxes",
				 k->kind);
	saved = shimmed_open_saved(k, true, err);
	if (saved < 0)
		return saved;
	r = shimmed_save_as((struct shimmed_sandbox *)base, saved, -1, NULL, err);
	if (r == 0)
		shimmed_end_saved(k, base);
	return r;
}

int shimmed_has_saved(void *state, const char *id, struct warren_error *err)
{
	AUTO_CLOSE int saved = shimmed_open_saved(state, false, err);

	if (saved < 0)
		return saved == -ENOENT ? 0 : saved;
	return saved_exists(saved, id, err);
}

int shimmed_drop_saved(const struct shimmed *k, const char *id, struct warren_error *err)
{
	AUTO_CLOSE int saved = shimmed_open_saved(k, false, err);
	char aside[sizeof(PREFIX_NEW) + ID_LEN];

	if (saved < 0)
		return saved == -ENOENT ? 0 : saved;
	(void)snprintf(aside, sizeof(aside), PREFIX_NEW "%s", id);
	copy_remove_whole(saved, id, aside);
	if (faccessat(saved, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return error_set(err, EBUSY, "its saved files cannot be removed");
	return 0;
}

/*
 * The directory of the sandbox comes first: if this process is killed, the next engine
 * finds it, and removes what the platform has kept.
 */
int shimmed_forget_saved(void *state, const char *id, struct warren_error *err)
{
	struct shimmed *k = state;
	int r = shimmed_has_saved(k, id, err);

	if (r <= 0)
		return r;
	r = shimmed_reclaim(k, id, err);
	if (r == 0)
		r = shimmed_drop_saved(k, id, err);
	return r < 0 ? r : shimmed_remove(k, k->dir_fd, k->path, id, err);
}

/* ------------------------------------------------------------------ after a crash */

static const char *shimmed_saved_id(const char *name, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(name, prefix, n) == 0 && id_valid(name + n) ? name + n : NULL;
}

/* Is the sandbox complete? If not, it is ending, and its saved files are still needed. */
static bool shimmed_is_awake(const struct shimmed *k, const char *id)
{
	struct sandbox_socket_look look = { 0 };

	if (!sandbox_socket_has_state(k->sandboxes_fd, id))
		return false;
	(void)memcpy(look.id, id, sizeof(look.id));
	sandbox_socket_look_at(k->sandboxes_fd, &look, 1);
	return look.alive && !look.dying && !look.asked;
}

static void shimmed_sweep_one(struct shimmed *k, int saved, const char *name)
{
	const char *frozen = shimmed_saved_id(name, PROTO_FROZEN_PREFIX);
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (frozen) {
		int r = sandbox_socket_has_state(k->sandboxes_fd, frozen)
				? shimmed_thaw(k, frozen, &ignored)
				: 0;

		/* Its daemon may not have started yet. */
		if (r == 0 || r == -ESRCH || shimmed_note_left_paused(k, frozen) == 0)
			(void)unlinkat(saved, name, 0);
	} else if (shimmed_saved_id(name, PREFIX_NEW) ||
		   shimmed_saved_id(name, PROTO_MEMORY_PREFIX) ||
		   (id_valid(name) && shimmed_is_awake(k, name))) {
		copy_remove_tree(saved, name);
	}
}

void shimmed_sweep_saved(struct shimmed *k)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	int saved = shimmed_open_saved(k, false, &ignored);
	DIR *d = saved < 0 ? NULL : fdopendir(saved);
	struct dirent *e;

	while (d && (e = readdir(d)))
		shimmed_sweep_one(k, saved, e->d_name);
	if (d)
		(void)closedir(d);
	else if (saved >= 0)
		(void)close(saved);
}
