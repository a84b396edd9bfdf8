/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commits.h - accept the commits of the sandbox into the user's repository
 *
 * The sandbox's repository is never used as one: its HEAD and the branch are parsed, its
 * objects are copied to a new repository without its configuration, and git verifies each
 * of them when it adds them to the user's repository. Hooks never run.
 */
#ifndef WORK_COMMITS_H
#define WORK_COMMITS_H

#include "base/buf.h"
#include "work/work.h"

struct work_commits {
	char *branch; /* that was created or updated: "warren/<name or id>" */
	char *from;   /* the sandbox's branch; NULL: its HEAD was detached */
	char commit[65];
	size_t n; /* commits that neither the branch nor the start of the work had */
};

enum commits_flags {
	COMMITS_FORCE = 1,  /* even if the branch loses commits */
	COMMITS_HIDDEN = 2, /* even if they delete or change files that were hidden */
	COMMITS_GIT = 4,    /* even if they change files that git could execute */
};

/*
 * Accept the commits of the branch that is checked out in the sandbox. @flags: enum
 * commits_flags. -ENOENT: there is no repository, or no new commit. -EEXIST: the branch
 * has commits that would be lost. -EPERM: the commits change files that need permission;
 * the message names these files. -EBADMSG: an object is damaged. -ENOSPC and others: git
 * could not write.
 */
int work_commits_accept(struct work *w, unsigned flags, struct work_commits *ret,
			struct warren_error *err) MUST_CHECK;
void work_commits_done(struct work_commits *c);

#define AUTO_COMMITS CLEANUP(work_commits_done)

/*
 * Commits of the sandbox that no reference of the user leads to, also those in submodules
 * that the user has. Only if there are none,
 * those of a detached HEAD that was left, and which the user's repository does not have:
 * then .others has their ids.
 */
struct work_commits_left {
	bool any;
	bool head; /* of what is checked out in the sandbox */
	/* "refs/heads/x"; "refs/": some cannot be read; "modules/x"; or ids. */
	char **others;
};

int work_commits_left(struct work *w, struct work_commits_left *ret,
		      struct warren_error *err) MUST_CHECK;
/* Is it the reflog of HEAD, also in a linked worktree or a submodule? */
bool work_commits_is_log(const char *path_in_git);
/* Does it say that the sandbox left a detached HEAD? Its commits may be in no branch. */
bool work_commits_were_detached(struct work *w, const char *log);
/* Write the names of the others, and how to get them from the work @id. */
void work_commits_left_text(const struct work_commits_left *l, const char *id,
			    struct buf *out);
void work_commits_left_done(struct work_commits_left *l);

#define AUTO_COMMITS_LEFT CLEANUP(work_commits_left_done)

#endif /* WORK_COMMITS_H */
