/* SPDX-License-Identifier: Apache-2.0 */
/* accept_internal.h - the parts of an accept: plan, stage, commit, finish */
#ifndef WORK_ACCEPT_INTERNAL_H
#define WORK_ACCEPT_INTERNAL_H

#include "work/accept.h"
#include "work/changes_internal.h"
#include "work/journal.h"

/* For tests: called before each step, with a name for it. */
extern void (*accept_step_hook)(const char *step);

static inline void accept_step(const char *step)
{
	if (accept_step_hook)
		accept_step_hook(step);
}

/* An accept in progress. */
struct accept {
	struct work *w;
	const struct accept_options *o;
	struct accept_result *result;
	struct ops ops;
	int lower, upper; /* what changes were found between */
	int staging;      /* directory; -1: not created */
	bool last;        /* only what must be planned last */
	bool any_last;    /* there is such a change */
	char staging_name[ID_LEN + 16];
	size_t n_marked;        /* conflicts that are kept with markers */
	size_t n_marked_before; /* by earlier accepts */
	uid_t uid;              /* of new files */
	gid_t gid;
};

/* ------------------------------------------------------------------ accept.c */

/* -ESTALE: the contents are not those that the user saw. */
int accept_check_seen(const struct accept_item *item, const struct change_side *now,
		      struct warren_error *err);

/* ------------------------------------------------------------- accept_plan.c */

/*
 * Decide what has to be done for one change, and stage the new contents. 1: it is done;
 * 0: there is a conflict, which is recorded; or -errno.
 */
int accept_plan_item(struct accept *a, const struct accept_item *item,
		     struct warren_error *err);

/* ------------------------------------------------------------ accept_stage.c */

int stage_begin(struct accept *a, struct warren_error *err);
/* Open the staging directory. -EPERM: it is not this process's own. */
int stage_open(struct work *w);
/* Remove the staging directory, if there is one. */
int stage_remove(struct work *w);
void stage_name(const char *id, char ret[ID_LEN + 16]);

/* What a staged file is made from. */
struct stage_source {
	const struct change_at *file; /* the sandbox's file or link, */
	const struct text *text;      /* or these contents */
	mode_t mode;                  /* with the type */
	int old_dir;                  /* the user's file, whose attributes stay; or -1 */
	const char *old_name;
	const struct stat *old;
};
/*
 * Get the set-id bit that the kernel gives to new directories at @path, and the group of
 * new files.
 */
mode_t stage_inherit(const struct accept *a, const char *path, gid_t *ret_gid);
/* Create the new file of @op. */
int stage_file(struct accept *a, struct op *op, const struct stage_source *from);
int stage_dir(struct accept *a, struct op *op, mode_t mode);
/* Write all staged files to disk. */
int stage_sync(const struct accept *a);

/* ----------------------------------------------------------- accept_commit.c */

/* Do all operations on the project, or none. */
int commit_ops(struct work *w, int staging, struct ops *ops, struct warren_error *err);
/*
 * Undo all operations that were done. 1: the user has moved a directory at the same time,
 * so that an original is in another place, which @err names.
 */
int commit_undo(struct work *w, int staging, struct ops *ops, struct warren_error *err);

/*
 * After all is done: remove the originals that have other names, and note that the user
 * has not changed the files with these names. 1: there were some; 0 or -errno.
 */
int commit_release_links(struct work *w, int staging, const struct ops *ops);

/* ----------------------------------------------------------- accept_finish.c */

/* Write the journal and do what is in it. */
int accept_commit(struct accept *a, struct warren_error *err);
int accept_recover(struct work *w, struct warren_error *err);

/* ------------------------------------------------------------------- upper.c */

/* In the directory of the work, while its lock is held; what is there is left over. */
#define UPPER_NEW    "replacement"
#define UPPER_GONE   "discarded"
#define UPPER_EDITED "edited"

/* Write @name in @dir, with the owner and the mode of @like, which the sandbox has. */
int upper_write(int dir, const char *name, struct text text, const struct stat *like);
/* Keep @text for OP_EDIT. */
int upper_stage_edit(struct work *w, const struct op *op, struct text text,
		     const struct stat *like);
/* Keep a copy of @from, with the mode .new_mode, for OP_PART. */
int upper_stage_part(struct work *w, const struct op *op, const struct change_at *from);
/* The name of the file that is kept for the operation. */
void upper_edit_name(const struct op *op, char ret[32]);
/* Put it where the sandbox sees it. It may have been done before. */
int upper_edit(struct work *w, const struct op *op);
/* Remove the sandbox's change from its changes: it was accepted. 0 or -errno. */
int upper_drop(struct work *w, const struct op *op);
/*
 * Show what is below the opaque directory @upper, except for the entries that it hid:
 * they get whiteouts. 0 or -errno.
 */
int upper_show_below(int upper, int lower);
/* The same for a change that is discarded: the sandbox sees the project's file again. */
int upper_restore(struct work *w, const char *path);
/*
 * Discard a new directory: remove it, or, if it contains other changes, give it a mode
 * that other users cannot exploit.
 */
int upper_restore_new_dir(struct work *w, const char *path);
/* The sandbox's directory at @path gets the mode of the project's. */
int upper_restore_mode(struct work *w, const char *path);
/* Does the sandbox see a directory at @path? */
bool upper_has_dir(int upper, int lower, const char *path);

/* ------------------------------------------------------------- upper_copy.c */

/* In mode WORK_COPY, the copy gets what the sandbox sees at @path. 0 or -errno. */
int upper_drop_copy(struct work *w, const char *path);
/*
 * In mode WORK_COPY, put the accepted part of a change into the copy, so that only the
 * rest is still a change. 0 or -errno.
 */
int upper_part_copy(struct work *w, const struct op *op);

/* ------------------------------------------------------------- accept_part.c */

/* A part of a change that is accepted in mode WORK_COPY. */
struct accept_part {
	const struct change *change;
	const struct patch *hunks; /* NULL: everything except some bits of the mode */
	const struct change_at *theirs; /* the sandbox's file or directory */
	mode_t mode; /* the new mode of the project's file or directory */
};
/* Apply hunks to the copy's file at @path. */
int accept_part_apply(struct accept *a, const char *path, const struct patch *hunks,
		      struct buf *out, struct stat *ret_st, struct warren_error *err);
/* Plan the operation that writes the part to the copy. 0 or -errno. */
int accept_part_plan(struct accept *a, const struct accept_part *part,
		     struct warren_error *err);

/* ---------------------------------------------------------- accept_contents.c */

enum accept_contents {
	CONTENTS_SANDBOX, /* the sandbox's file */
	CONTENTS_TEXT,    /* the text in .out */
	CONTENTS_SAME,    /* the user's file already has it */
	CONTENTS_CONFLICT,
};

struct accept_merge {
	enum accept_contents result;
	struct buf out;
	bool merged;
	const char *reason; /* of a conflict */
	struct change_side yours, theirs, base;
};

/* Decide on the new contents of a file that both have; @hunks may be NULL. */
int accept_merge(struct accept *a, const struct change *c, const struct patch *hunks,
		 const struct change_at *yours, const struct change_at *theirs,
		 struct accept_merge *ret, struct warren_error *err);
void accept_merge_done(struct accept_merge *m);
/* Remove the files of undecided conflicts that the last accept kept. 0 or -errno. */
int accept_conflicts_begin(struct accept *a);
/* Remove what this accept kept with markers: nothing was accepted. */
void accept_conflicts_undo(struct accept *a);
/* Record a conflict, and keep both versions. */
int accept_conflict_add(struct accept *a, const char *path, const struct accept_merge *m,
			struct warren_error *err);

#endif /* WORK_ACCEPT_INTERNAL_H */
