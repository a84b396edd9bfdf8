/* SPDX-License-Identifier: Apache-2.0 */
/*
 * changes.h - what the sandbox changed in the project
 *
 * Only the directory of changes is walked, so that the cost does not depend on the size
 * of the project. Files that were written but are equal do not count as changes. A new
 * directory is listed as its files, and itself only if it is empty; the same holds for
 * directories that were removed. A file that was moved without a change of its contents
 * is renamed. If the new place is ignored or guarded, so is the whole change, so that the
 * old file is not removed without the new one. The mode of the project's directory itself
 * does not count as a change.
 *
 * Two kinds of directories are listed as one change with .tree set: those that .gitignore
 * ignores, and git's own (except for files in them that git executes or reads its
 * configuration from, files that git does not know, and files that were moved to an
 * ignored directory from elsewhere).
 * CHANGES_EXPAND lists their files instead.
 */
#ifndef WORK_CHANGES_H
#define WORK_CHANGES_H

#include <sys/stat.h>

#include "textdiff/text.h"
#include "work/work.h"

enum change_kind {
	CHANGE_ADDED,
	CHANGE_MODIFIED, /* the contents, and maybe the mode */
	CHANGE_REMOVED,
	CHANGE_RENAMED, /* from .from */
	CHANGE_MODE,    /* only the mode, of a file or a directory */
	CHANGE_TYPE,    /* a file became a link, and so on */
	CHANGE_KIND_MAX,
};

/* "added", "modified", ... */
const char *change_kind_name(enum change_kind kind);

/* Why a change needs the user's explicit permission (accept_options.allow). */
enum change_guard {
	GUARD_GIT = 1, /* git's own files: hooks, configuration, repositories */
	/* Set-user-id, set-group-id. Unless it is allowed, the rest is accepted. */
	GUARD_SETID = 2,
	/* A device, named pipe or socket, or a name that an accept uses: never accepted.
	 */
	GUARD_DEVICE = 4,
	GUARD_LINK_OUT = 8, /* a symbolic link to a path outside the project */
	GUARD_HIDDEN = 16,  /* the project has a file there that was hidden (hide.h) */
};

/* "git", "set-id", "device", "link", "hidden"; @guard is a single bit. */
const char *change_guard_name(enum change_guard guard);
/* A sentence about what the guard protects from, for the user. */
const char *change_guard_reason(enum change_guard guard);
/* -EINVAL: there is no guard with this name. */
int change_guard_parse(const char *name, enum change_guard *ret,
		       struct warren_error *err);

struct change {
	char *path; /* relative to the project, without "." or ".."; any bytes but NUL */
	char *from; /* CHANGE_RENAMED: the path that no longer exists; otherwise NULL */
	enum change_kind kind;
	/*
	 * With the type; 0: does not exist. If only the user changed the mode, .new_mode
	 * is the user's.
	 */
	mode_t old_mode, new_mode;
	mode_t base_mode; /* before both sides changed it; 0: not known, or new */
	uint64_t old_size, new_size;
	bool tree;    /* a whole directory: .n_files of it changed */
	bool ignored; /* by .gitignore */
	bool inner;   /* of a git directory: only CHANGES_EXPAND lists it */
	/* Only with CHANGES_LINES. .uncounted: like .binary, and maybe it is text. */
	bool binary, uncounted;
	bool touched; /* the user's file has changed since the work started */
	bool unseen; /* the project has a file there, which was hidden from the sandbox */
	unsigned guard; /* enum change_guard, combined */
	size_t n_files;
	size_t lines_added, lines_removed; /* only with CHANGES_LINES */
};

/*
 * Which patterns of .gitignore files decided what is ignored. Matching takes a limited
 * time, because patterns and paths come from a sandbox. If those of the sandbox's files
 * take longer, they do not count at all: then at most more changes are listed. If the
 * user's take longer, every file that was not compared with them counts as ignored.
 */
enum changes_patterns {
	PATTERNS_ALL,
	PATTERNS_YOURS,
	PATTERNS_UNKNOWN,
};

/* "all", "user", "unknown" */
const char *changes_patterns_name(enum changes_patterns patterns);
/* A sentence for the user; NULL: all patterns decided. */
const char *changes_patterns_text(enum changes_patterns patterns);

struct changes {
	struct change *v; /* sorted by path, by bytes */
	size_t n;
	size_t n_skipped; /* directories that are too deep, or could not be read */
	enum changes_patterns patterns;
};

/* Would nothing be left of the change without the set-id bits? */
bool change_is_set_id_only(const struct change *c);
/* Is a file or a link on one of the sides? */
bool change_has_contents(const struct change *c);
/* Is it a file of a repository that says which commits there are? */
bool change_is_ref(const struct change *c);

enum changes_flags {
	CHANGES_EXPAND = 1, /* list the files of directories that would be one change */
	CHANGES_LINES = 2,  /* count lines, which needs all contents */
};

/* -E2BIG: there are more than CHANGES_MAX. */
#define CHANGES_MAX ((size_t)2 << 20)
int changes_list(struct work *w, unsigned flags, struct changes *ret,
		 struct warren_error *err) MUST_CHECK;
void changes_done(struct changes *c);

/* The contents of one side of a change. Of a link, they are its target. */
struct change_side {
	bool exists;
	bool large;     /* more than TEXT_MAX bytes, so they were not read */
	bool committed; /* read from a commit of the repository (base.h) */
	/* The project's file, which the user has changed since the work started. */
	bool touched;
	mode_t mode;
	struct text text;
	char *data; /* owned; .text refers to it */
};

/*
 * Read both sides of a change that is not .tree; a directory does not exist there: the
 * project's file as it is now (of a renamed file, its old path), and the sandbox's. If
 * the user has changed the file, too, and the changes can be merged, the result is shown
 * instead of the sandbox's file.
 */
int change_contents(struct work *w, const struct change *c, struct change_side *ret_old,
		    struct change_side *ret_new, struct warren_error *err) MUST_CHECK;
void change_side_done(struct change_side *s);

#define AUTO_CHANGES     CLEANUP(changes_done)
#define AUTO_CHANGE_SIDE CLEANUP(change_side_done)

#endif /* WORK_CHANGES_H */
