/* SPDX-License-Identifier: Apache-2.0 */
/*
 * work.h - works: a project's directory, and the changes that a sandbox made to it
 *
 * The files of a work are in <state>/works/<id>, which only its user can read:
 *
 *	record     what is known about the work; "key value" lines (record.h)
 *	lock       locked while the sandbox runs, or while changes are decided on
 *	writes/    upper: the sandbox's changes, as overlayfs keeps them; work: its own
 *	hide/      over the project: whiteouts for files with secrets (hide.h)
 *	unprepared exists until the command can start
 *	repositories  directories of the project that have one (hide.h)
 *	copy/      mode WORK_COPY: the copy of the project, which is then the lower layer
 *	base/      contents of files before the sandbox changed them (base.h)
 *	known      files that an accept wrote, modes and sums of others (known.c)
 *	earlier    paths that the sandbox had changed when it was resumed (earlier.h)
 *	reached    exists if files in writes/upper may have another mode now (reach.h)
 *	edited/    files for the sandbox or the copy, moved when an accept is complete
 *		   (accept.h)
 *	before/    contents of files that no commit has (base.h)
 *	conflicts/ files of the last accept that could not be merged (accept.h)
 *	marked/    both versions of files that were accepted with markers (accept.h)
 *	journal    an accept that has begun (journal.h)
 *	warren-git-* git's identity, while the sandbox runs (cli/work/git_identity.h)
 *
 * The sandbox sees writes/upper over hide/ over the project, or over copy/. The overlay
 * is mounted with userxattr, which implies that it has no redirects and no metacopy; its
 * marks are user.overlay.*. In mode WORK_BIND the sandbox writes to the project itself,
 * and there are no changes to decide on.
 *
 * writes/ was written by hostile programs: links are never followed, nothing blocks.
 */
#ifndef WORK_WORK_H
#define WORK_WORK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/id.h"
#include "base/macro.h"

#define WORK_NAME_MAX 64 /* bytes */

enum work_mode {
	WORK_OVERLAY,
	WORK_COPY,
	WORK_BIND,
	WORK_MODE_MAX,
};

/* "overlay", "copy", "bind". */
const char *work_mode_name(enum work_mode mode);
/* -EINVAL: there is no such mode. */
int work_mode_parse(const char *name, enum work_mode *ret, struct warren_error *err);

/* What is stored about a work. Strings are owned, and may contain any byte but NUL. */
struct work_record {
	char id[ID_LEN + 1];
	char *name;    /* NULL: none */
	char *project; /* absolute path */
	char *workdir; /* its path inside */
	char *image;
	char **argv;
	char **hide;  /* patterns of the user for files to hide */
	char *hidden; /* identifies the names of hidden files; NULL: not known */
	enum work_mode mode;
	dev_t project_dev;
	ino_t project_ino;
	uint64_t project_fsid; /* 0: not known */
	/*
	 * When the work was created, in nanoseconds since 1970, by the coarse clock that
	 * timestamps of files have: a file with a ctime up to it has not changed since.
	 */
	uint64_t started_ns;
	/*
	 * The same for the last time that the work was resumed: until then, the sandbox
	 * sees what the user did to files that it had not changed (earlier.h).
	 */
	uint64_t since_ns;
	uint64_t ended_ns; /* of the last run; 0: it has not ended */
	int status;        /* exit status of the last run; -1: not known */
	pid_t pid;         /* the process of the last run */
	char *head;       /* the commit that the repository was at; NULL: no repository */
	char *since_head; /* the same at .since_ns */
};

struct work {
	struct work_record; /* first */
	char *dir;          /* absolute path of the work's directory */
	int dir_fd;
	int project_fd; /* the directory of the project; -1: it is gone (work_project())
			 */
	int lock_fd;
	struct work_known *known;     /* private (known.c) */
	struct work_earlier *earlier; /* private (earlier.c) */
	struct work_moved *moved;     /* private (moved.c) */
	struct base_names *names;     /* private (base_names.c) */
	pid_t before;                 /* private (base_begin.c) */
};

struct work_options {
	const char *project; /* any path of a directory; made absolute, without links */
	const char *name;    /* NULL: none. -EEXIST: another work has it */
	const char *workdir; /* NULL: the same as the project's absolute path */
	const char *image;
	const char *const *argv;
	enum work_mode mode;
	char *const *hide; /* patterns of the user, which are kept for the next run */
	bool unlisted;     /* it has no record, so only the caller finds it */
	/*
	 * The caller has to hide files and so on first: until it calls work_prepared(),
	 * the work cannot be resumed, and is removed if the caller is killed.
	 */
	bool unprepared;
};

/*
 * Create a work, with its directories writes/upper, writes/work and hide, and lock it.
 * Free with work_close(). The caller removes it with work_remove() if it is not needed.
 */
int work_create(const struct work_options *o, struct work **ret,
		struct warren_error *err) MUST_CHECK;

int work_prepared(struct work *w, struct warren_error *err) MUST_CHECK;
bool work_is_prepared(const struct work *w);

/*
 * Open the work with this id, unique prefix of an id, or name. With @exclusive it is
 * locked, and an accept that was interrupted is completed or undone first; -EBUSY: it
 * runs, or another command is deciding on it. -ENOENT: there is none.
 */
int work_open(const char *id_or_name, bool exclusive, struct work **ret,
	      struct warren_error *err) MUST_CHECK;
/*
 * Like work_open() with a lock, only to call work_remove(): an accept that was
 * interrupted is left to it.
 */
int work_open_to_remove(const char *id_or_name, struct work **ret,
			struct warren_error *err) MUST_CHECK;
/*
 * Complete or undo all accepts that were interrupted in the project at the absolute path
 * @project, or in a directory above or below it, so that no command works with a project
 * that is half changed. @except is the id of a work that the caller has locked, or NULL.
 * -EBUSY: another process is accepting changes, and has not ended after some seconds.
 */
int works_settle(const char *project, const char *except,
		 struct warren_error *err) MUST_CHECK;
/* Close and unlock; NULL is allowed. Returns NULL. */
struct work *work_close(struct work *w);

/* Store the record, after fields of it were changed. */
int work_record_save(struct work *w, struct warren_error *err) MUST_CHECK;
/*
 * Remove the work with all its files. It must be locked; it is closed in any case. An
 * accept that was interrupted is completed or undone first; if that fails, the work
 * stays.
 */
int work_remove(struct work *removed, struct warren_error *err) MUST_CHECK;
/*
 * Check that the project is still there, and the same directory: 0, or -ENOENT with a
 * message for the user.
 */
int work_project(const struct work *w, struct warren_error *err) MUST_CHECK;
/*
 * Call this when the sandbox has ended: stores the time and @status, and keeps what later
 * merges need (base.h).
 */
int work_end(struct work *w, int status, struct warren_error *err) MUST_CHECK;

struct work_list {
	struct work_item {
		struct work_record; /* first */
		bool running;       /* it is locked */
		/* It was interrupted before anything ran: work_create() removes it. */
		bool remains;
	} * v;
	size_t n;
};

/* List all works, the oldest first. @project is NULL, or the path of a directory. */
int works_list(const char *project, struct work_list *ret,
	       struct warren_error *err) MUST_CHECK;
void work_list_done(struct work_list *l);
/* Return whether @id_or_name is, or could be, a work (an error is a "no"). */
bool work_exists(const char *id_or_name);

static inline void work_close_p(struct work **w)
{
	(void)work_close(*w);
}

#define AUTO_WORK      CLEANUP(work_close_p)
#define AUTO_WORK_LIST CLEANUP(work_list_done)

#endif /* WORK_WORK_H */
