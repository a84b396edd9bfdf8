/* SPDX-License-Identifier: Apache-2.0 */
/* choose.h - choose changes file by file and hunk by hunk, with the keys of `git add -p`
 */
#ifndef CLI_WORK_CHOOSE_H
#define CLI_WORK_CHOOSE_H

#include "textdiff/unified.h"
#include "work/accept.h"

enum choose_state {
	CHOOSE_OPEN, /* the user has not decided */
	CHOOSE_YES,
	CHOOSE_NO,
};

/* A change. The user decides on each of its parts. */
struct choose_file {
	const struct change *change;
	struct change_side old, new;
	char seen[ACCEPT_SUM_SIZE]; /* "": the decision does not depend on .old */
	unsigned missing; /* permissions that the change needs and does not have */
	unsigned given;   /* those of them that the user gave by their names */
	struct text_lines old_lines;
	bool whole;       /* there is only one part: the whole change */
	bool was_edited;  /* then the hunks are not those of the difference */
	bool leaves_mode; /* only hunks were chosen, not the change of the mode */
	unsigned halves;  /* of a change of type that a patch has: 1 removed, 2 added */
	struct patch
		patch; /* even if .whole, to show the difference; may have no hunks */
	enum choose_state *states; /* of each part */
	/* What edited hunks were before; .v is NULL for others. NULL: none was edited. */
	struct patch_hunk *originals;
	struct patch
		remains; /* see struct accept_item; only .v is owned, without lines */
	size_t n;        /* number of parts */
	char **edited;   /* the texts of edited hunks, to which they refer; owned */
	size_t n_edited;
};

struct choose {
	struct work *work;
	const char *verb; /* what "y" does: "Accept" or "Reject" */
	bool no_edit;
	struct choose_file *v;
	size_t n;
};

enum choose_ignored {
	CHOOSE_NO_IGNORED,
	CHOOSE_WITH_IGNORED,
	CHOOSE_ONLY_IGNORED, /* also whole directories */
};

struct choose_options {
	const char *verb;
	unsigned allow; /* permissions that the user has given */
	enum choose_ignored ignored;
	/*
	 * Offer changes that need another permission, too: the user gives it by typing
	 * its name instead of "y". Otherwise they are not offered.
	 */
	bool ask_permission;
	bool no_edit; /* hunks cannot be edited: those that are rejected are discarded */
};

/*
 * Prepare the choice among @changes, which must outlive it. Other directories that are
 * listed as one change, and devices, are not offered.
 */
int choose_make(struct work *w, const struct changes *changes,
		const struct choose_options *o, struct choose *ret,
		struct warren_error *err) MUST_CHECK;
/* Does the user have to give a permission first? Without set-id bits, the rest is free.
 */
bool choose_is_blocked(const struct choose_file *f);
void choose_done(struct choose *c);

/*
 * Ask about all parts. Returns 1 when the user has finished, or 0 if the terminal ended
 * or a signal arrived: then nothing should be done.
 */
int choose_run(struct choose *c, struct warren_error *err) MUST_CHECK;

struct choose_items {
	struct accept_item *v; /* owned */
	size_t n;
	bool ignored; /* a file was chosen that .gitignore ignores */
};

/* Make items of everything that was chosen with "y"; they refer to @c. */
int choose_items(struct choose *c, struct choose_items *ret,
		 struct warren_error *err) MUST_CHECK;
void choose_items_done(struct choose_items *items);

/* Read the contents of a file, and find its hunks. They are released by choose_done(). */
int choose_load(struct choose *c, struct choose_file *f,
		struct warren_error *err) MUST_CHECK;
/* Release contents that are not needed after the decision. */
void choose_release(struct choose_file *f);
/* Split or edit hunk @at, which becomes several, or another one. */
int choose_split(struct choose_file *f, size_t at, struct warren_error *err) MUST_CHECK;
int choose_edit(struct choose *c, struct choose_file *f, size_t at,
		struct warren_error *err) MUST_CHECK;

#define AUTO_CHOOSE       CLEANUP(choose_done)
#define AUTO_CHOOSE_ITEMS CLEANUP(choose_items_done)

#endif /* CLI_WORK_CHOOSE_H */
