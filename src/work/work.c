/* SPDX-License-Identifier: Apache-2.0 */
/* work.c - create, lock, store and remove works */
#include "work/work.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/fd.h"
#include "base/strv.h"
#include "base/userdirs.h"
#include "os/tree_remove.h"
#include "work/accept_internal.h"
#include "work/base.h"
#include "work/commits_internal.h"
#include "work/earlier.h"
#include "work/files_internal.h"
#include "work/moved.h"
#include "work/reach.h"
#include "work/record.h"
#include "work/work_internal.h"

#define WORK_LOCK_TRIES 10
#define WORK_UNPREPARED "unprepared" /* exists until work_prepared() */

static const char *const work_mode_names[] = {
	[WORK_OVERLAY] = "overlay",
	[WORK_COPY] = "copy",
	[WORK_BIND] = "bind",
};
_Static_assert(ARRAY_SIZE(work_mode_names) == WORK_MODE_MAX, "a mode has no name");

const char *work_mode_name(enum work_mode mode)
{
	return work_mode_names[mode];
}

int work_mode_parse(const char *name, enum work_mode *ret, struct warren_error *err)
{
	for (size_t i = 0; i < WORK_MODE_MAX; i++)
		if (strcmp(name, work_mode_names[i]) == 0) {
			*ret = (enum work_mode)i;
			return 0;
		}
	return error_set(err, EINVAL, "'%s' is not a mode: use overlay, copy or bind",
			 name);
}

/* ----------------------------------------------------------------- directories */

int works_dir(bool make, char **ret_path, struct warren_error *err)
{
	AUTO_FREE char *state = NULL, *path = NULL;
	int fd, r = state_dir_default(&state, err);

	if (r < 0)
		return r;
	if (asprintf(&path, "%s/works", state) < 0)
		return error_errno(err, ENOMEM, "name the directory of works");
	r = make ? fd_make_dirs(path, 0700) : 0;
	if (r < 0)
		return error_errno(err, -r, "create '%s'", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "open '%s'", path);
	if (ret_path)
		*ret_path = TAKE_PTR(path);
	return fd;
}

int work_read_record(int dir, struct work_record *ret, struct warren_error *err)
{
	AUTO_FREE char *text = NULL;
	size_t n;
	int r = work_file_read_at(dir, "record", RECORD_SIZE_MAX, &text, &n);

	if (r < 0)
		return error_errno(err, -r, "read the record of the work");
	return work_record_parse(text, n, ret, err);
}

int work_record_save(struct work *w, struct warren_error *err)
{
	struct buf b AUTO_BUF = BUF_INIT(RECORD_SIZE_MAX);
	int r;

	work_record_write(&b, (const struct work_record *)w);
	if (b.failed)
		return error_set(err, E2BIG, "the command is too long to be stored");
	/* Until the sandbox has ended, there is nothing that must survive a power cut. */
	r = work_file_replace(w->dir_fd, "record", b.data, b.len, w->ended_ns != 0);
	return r < 0 ? error_errno(err, -r, "store the record of work '%s'", w->id) : 0;
}

/* ------------------------------------------------------------------------- lock */

bool work_is_locked(int dir)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	AUTO_CLOSE int fd = openat(dir, "lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC);

	return fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

int work_lock(struct work *w, int flags, struct warren_error *err)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct stat st;
	int r;

	w->lock_fd =
		openat(w->dir_fd, "lock", flags | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (w->lock_fd < 0)
		return error_errno(err, errno, "open the lock of work '%s'", w->id);
	/* If its holder was killed, a child of it may have the lock for an instant. */
	for (int tries = 0;
	     (r = fcntl(w->lock_fd, F_OFD_SETLK, &lock)) < 0 && tries < WORK_LOCK_TRIES;
	     tries++)
		(void)usleep(5000);
	if (r < 0)
		return errno == EAGAIN || errno == EACCES
			       ? error_set(err, EBUSY,
					   "work '%s' is in use: its sandbox runs, or "
					   "another command is deciding on its changes",
					   w->name ? w->name : w->id)
			       : error_errno(err, errno, "lock work '%s'", w->id);
	if (fstat(w->lock_fd, &st) < 0 || st.st_nlink == 0)
		return error_set(err, ENOENT, "work '%s' was just removed", w->id);
	return 0;
}

/* ----------------------------------------------------------------------- create */

static bool work_name_valid(const char *name)
{
	size_t n = strlen(name);

	/* It is also a part of a branch's name. */
	if (n == 0 || n > WORK_NAME_MAX || !isalnum((unsigned char)name[0]) ||
	    name[n - 1] == '.' || strstr(name, "..") ||
	    (n >= 5 && strcmp(name + n - 5, ".lock") == 0))
		return false;
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && !strchr("._-", *name))
			return false;
	return true;
}

static int work_check_name(const char *name, struct warren_error *err)
{
	AUTO_WORK_LIST struct work_list all = { 0 };
	int r;

	if (!work_name_valid(name))
		return error_set(
			err, EINVAL,
			"'%s' cannot be the name of a work: use up to %d letters, "
			"digits, '.', '_' and '-', with a letter or digit first, no "
			"'..', and no '.' or '.lock' at the end",
			name, WORK_NAME_MAX);
	r = works_list(NULL, &all, err);
	for (size_t i = 0; r == 0 && i < all.n; i++)
		if ((all.v[i].name && strcmp(all.v[i].name, name) == 0) ||
		    strcmp(all.v[i].id, name) == 0)
			return error_set(
				err, EEXIST,
				"a work named '%s' exists: choose another name, or "
				"continue it with 'warren work --resume %s'",
				name, name);
	return r;
}

static int work_fill(struct work *w, const struct work_options *o)
{
	w->status = -1;
	w->pid = getpid();
	w->mode = o->mode;
	w->argv = o->argv ? strv_copy(o->argv) : NULL;
	w->hide = o->hide ? strv_copy((const char *const *)o->hide) : NULL;
	w->name = o->name ? strdup(o->name) : NULL;
	w->workdir = strdup(o->workdir ? o->workdir : w->project);
	w->image = o->image ? strdup(o->image) : NULL;
	return !w->workdir || (o->argv && !w->argv) || (o->hide && !w->hide) ||
			       (o->name && !w->name) || (o->image && !w->image)
		       ? -ENOMEM
		       : 0;
}

/* 0: the filesystem has no id. */
static uint64_t work_fsid(int fd)
{
	struct statfs fs;
	uint64_t id = 0;

	_Static_assert(sizeof(fs.f_fsid) == sizeof(id), "the size of an id");
	if (fstatfs(fd, &fs) == 0)
		(void)memcpy(&id, &fs.f_fsid, sizeof(id));
	return id;
}

bool work_is_project(const struct work_record *r, int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_ino == r->project_ino &&
	       (st.st_dev == r->project_dev ||
		(r->project_fsid != 0 && r->project_fsid == work_fsid(fd)));
}

static int work_open_project(struct work *w, const char *path, struct warren_error *err)
{
	struct stat st;

	w->project = realpath(path, NULL);
	if (!w->project)
		return error_errno(err, errno, "find the project '%s'", path);
	w->project_fd = open(w->project, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (w->project_fd < 0)
		return error_errno(err, errno, "open the project '%s'", w->project);
	if (fstat(w->project_fd, &st) < 0)
		return error_errno(err, errno, "inspect '%s'", w->project);
	w->project_dev = st.st_dev;
	w->project_ino = st.st_ino;
	w->project_fsid = work_fsid(w->project_fd);
	return 0;
}

/* The directory of an overlay's layer has the attributes that the sandbox sees. */
static int work_make_layer(struct work *w, const char *name)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;

	if (fstat(w->project_fd, &st) < 0 || mkdirat(w->dir_fd, name, 0700) < 0)
		return -errno;
	fd = openat(w->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* An ordinary user may work on the project of another one. */
	if (fchown(fd, st.st_uid, st.st_gid) < 0 && geteuid() == 0)
		return -errno;
	return fchmod(fd, (st.st_mode & 01777) | S_IRWXU) < 0 ? -errno : 0;
}

static int work_make_dirs(struct work *w, int works, const char *works_path,
			  bool unprepared, struct warren_error *err)
{
	struct stat st;
	int r = 0;

	id_make(w->id);
	if (asprintf(&w->dir, "%s/%s", works_path, w->id) < 0)
		return error_errno(err, ENOMEM, "create a work");
	if (mkdirat(works, w->id, 0700) < 0)
		return error_errno(err, errno, "create '%s'", w->dir);
	w->dir_fd = openat(works, w->id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (w->dir_fd < 0)
		return error_errno(err, errno, "open '%s'", w->dir);
	if (mkdirat(w->dir_fd, "writes", 0700) < 0 ||
	    mkdirat(w->dir_fd, "writes/work", 0700) < 0)
		r = -errno;
	r = r < 0 ? r : work_make_layer(w, "writes/upper");
	r = r < 0 ? r : work_make_layer(w, "hide");
	if (r < 0)
		return error_errno(err, -r, "create the directories of work '%s'", w->id);
	r = work_lock(w, O_CREAT | O_EXCL, err);
	if (r < 0)
		return r;
	if (unprepared) {
		r = work_file_replace(w->dir_fd, WORK_UNPREPARED, "", 0, false);
		if (r < 0)
			return error_errno(err, -r, "create '%s'", w->dir);
	}
	/* Files get their times from the same clock as this one. */
	if (fstat(w->lock_fd, &st) < 0)
		return error_errno(err, errno, "inspect '%s'", w->dir);
	w->since_ns = w->started_ns =
		(uint64_t)st.st_ctim.tv_sec * 1000000000 + (uint64_t)st.st_ctim.tv_nsec;
	return 0;
}

static struct work *work_new(void)
{
	struct work *w = calloc(1, sizeof(*w));

	if (w)
		w->dir_fd = w->project_fd = w->lock_fd = -1;
	return w;
}

static bool work_has(int dir, const char *name)
{
	return faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/*
 * Has a process that was killed left @name before anything ran in it? No other process
 * can be about to lock it, because @works is locked.
 */
static bool work_is_remains(int works, const char *name)
{
	AUTO_CLOSE int dir = beneath_dir(works, name, O_RDONLY);

	return id_valid(name) && dir >= 0 && !work_is_locked(dir) &&
	       (!work_has(dir, "record") || work_has(dir, WORK_UNPREPARED));
}

static void work_sweep(int works)
{
	AUTO_FREE struct dir_reader *reader = calloc(1, sizeof(*reader));
	AUTO_CLOSE int dir = beneath_dir(works, ".", O_RDONLY);
	const struct dir_entry *e;

	if (!reader || dir < 0 || flock(dir, LOCK_EX | LOCK_NB) < 0)
		return;
	reader->fd = dir;
	while (dir_next(reader, &e) > 0) {
		char gone[ID_LEN + 8];

		if (!work_is_remains(works, e->name))
			continue;
		(void)snprintf(gone, sizeof(gone), ".gone-%.*s", ID_LEN, e->name);
		(void)renameat(works, e->name, works, gone);
	}
}

/* Also those that an interrupted removal has left. */
static void work_remove_gone(int works, int ms)
{
	AUTO_FREE struct dir_reader *reader = calloc(1, sizeof(*reader));
	AUTO_CLOSE int dir = beneath_dir(works, ".", O_RDONLY);
	const struct dir_entry *e;

	if (!reader || dir < 0)
		return;
	reader->fd = dir;
	while (dir_next(reader, &e) > 0)
		if (strncmp(e->name, ".gone-", 6) == 0)
			remove_behind(works, e->name, ms);
}

int work_create(const struct work_options *o, struct work **ret, struct warren_error *err)
{
	AUTO_WORK struct work *w = work_new();
	AUTO_FREE char *path = NULL;
	AUTO_CLOSE int works = -1;
	int r;

	if (!w)
		return error_errno(err, ENOMEM, "create a work");
	works = works_dir(true, &path, err);
	if (works < 0)
		return works;
	r = work_open_project(w, o->project, err);
	if (r < 0)
		return r;
	work_sweep(works);
	work_remove_gone(works, 0);
	/*
	 * Two works that are created at the same time must not get the same name, and
	 * nothing is swept away before it is locked.
	 */
	if (flock(works, o->name ? LOCK_EX : LOCK_SH) < 0)
		return error_errno(err, errno, "lock '%s'", path);
	r = o->name ? work_check_name(o->name, err) : 0;
	if (r < 0)
		return r;
	r = work_fill(w, o);
	r = r < 0 ? r : git_head(w->project_fd, &w->head);
	if (r == 0 && w->head && !(w->since_head = strdup(w->head)))
		r = -ENOMEM;
	if (r < 0)
		return error_errno(err, -r, "create a work");
	r = work_make_dirs(w, works, path, o->unprepared, err);
	if (r == 0 && !o->unlisted)
		r = work_record_save(w, err);
	if (r < 0) {
		(void)tree_remove(works, works, w->id);
		return r;
	}
	*ret = TAKE_PTR(w);
	return 0;
}

int work_prepared(struct work *w, struct warren_error *err)
{
	return unlinkat(w->dir_fd, WORK_UNPREPARED, 0) < 0 && errno != ENOENT
		       ? error_errno(err, errno, "prepare work '%s'", w->id)
		       : 0;
}

bool work_is_prepared(const struct work *w)
{
	return !work_has(w->dir_fd, WORK_UNPREPARED);
}

/* ------------------------------------------------------------------ open, close */

int work_project(const struct work *w, struct warren_error *err)
{
	if (w->project_fd < 0)
		return error_set(
			err, ENOENT,
			"the project '%s' of work '%s' is gone, or another directory "
			"has taken its place: move it back, or remove the work",
			w->project, w->id);
	return 0;
}

static void work_find_project(struct work *w)
{
	AUTO_CLOSE int fd = open(w->project, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0 && work_is_project((const struct work_record *)w, fd))
		w->project_fd = TAKE_FD(fd);
}

static int work_open_locked(const char *id_or_name, bool exclusive, struct work **ret,
			    struct warren_error *err)
{
	AUTO_WORK struct work *w = work_new();
	AUTO_FREE char *path = NULL;
	AUTO_CLOSE int works = -1;
	int r;

	if (!w)
		return error_errno(err, ENOMEM, "open a work");
	r = work_find_id(id_or_name, w->id, err);
	if (r < 0)
		return r;
	works = works_dir(false, &path, err);
	if (works < 0)
		return works;
	if (asprintf(&w->dir, "%s/%s", path, w->id) < 0)
		return error_errno(err, ENOMEM, "open a work");
	w->dir_fd = openat(works, w->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (w->dir_fd < 0)
		return error_errno(err, errno, "open '%s'", w->dir);
	r = exclusive ? work_lock(w, 0, err) : 0;
	if (r < 0)
		return r;
	r = work_read_record(w->dir_fd, (struct work_record *)w, err);
	if (r < 0)
		return error_wrap(err, "open '%s'", w->dir);
	work_find_project(w);
	*ret = TAKE_PTR(w);
	return 0;
}

int work_open(const char *id_or_name, bool exclusive, struct work **ret,
	      struct warren_error *err)
{
	AUTO_WORK struct work *w = NULL;
	int r = work_open_locked(id_or_name, exclusive, &w, err);

	r = r == 0 && exclusive ? accept_recover(w, err) : r;
	if (r == 0 && exclusive)
		commits_incoming_remove(w);
	r = r == 0 && exclusive ? reach_top(w, err) : r;
	if (r == 0)
		*ret = TAKE_PTR(w);
	return r;
}

int work_open_to_remove(const char *id_or_name, struct work **ret,
			struct warren_error *err)
{
	return work_open_locked(id_or_name, true, ret, err);
}

struct work *work_close(struct work *w)
{
	if (!w)
		return NULL;
	base_wait(w, true);
	close_p(&w->project_fd);
	close_p(&w->dir_fd);
	close_p(&w->lock_fd);
	free(w->dir);
	known_free(w->known);
	base_names_free(w->names);
	earlier_free(w->earlier);
	moved_free(w->moved);
	work_record_done((struct work_record *)w);
	free(w);
	return NULL;
}

int work_remove(struct work *removed, struct warren_error *err)
{
	AUTO_WORK struct work *w = removed;
	AUTO_CLOSE int works = works_dir(false, NULL, err);
	char gone[ID_LEN + 8];
	struct stat st;
	bool journal = fstatat(w->dir_fd, "journal", &st, AT_SYMLINK_NOFOLLOW) == 0;
	int r;

	if (works < 0)
		return works;
	/* An accept that could not be undone: the journal says where the originals are.
	 * One that only has to be recorded no longer matters. */
	r = accept_recover(w, err);
	if (r < 0 && journal)
		return error_wrap(err, "work '%s' is not removed", w->id);
	commits_incoming_remove(w);
	r = stage_remove(w);
	if (r < 0)
		return error_errno(err, -r,
				   "work '%s' is not removed, because its temporary "
				   "directory in '%s' cannot be removed",
				   w->id, w->project);
	/* It is not found without a record, even if the removal is interrupted. */
	if (unlinkat(w->dir_fd, "record", 0) < 0 && errno != ENOENT)
		return error_errno(err, errno, "remove work '%s'", w->id);
	(void)snprintf(gone, sizeof(gone), ".gone-%s", w->id);
	r = renameat(works, w->id, works, gone) < 0 ? -errno : 0;
	if (r < 0)
		return error_errno(err, -r, "remove '%s'", w->dir);
	work_sweep(works);
	work_remove_gone(works, 100);
	return 0;
}
