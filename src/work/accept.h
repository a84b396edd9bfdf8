/* SPDX-License-Identifier: Apache-2.0 */
/*
 * accept.h - apply changes to the project, or discard them
 *
 * A call applies all its changes or none. The new contents are first written to a
 * directory of the project's filesystem (.warren-<id> in the project, which exists only
 * during the call), and a journal lists what will be done. Then each file is renamed to
 * its place, and the user's file is kept until all of them are in place. If the process
 * or the machine fails before that, the next work_open() completes or undoes the call.
 *
 * Paths are resolved beneath the project, without links and other mounts, at the time of
 * each rename. Files belong to the owner of the project, or keep the owner that they
 * have; in a directory with the set-group-id bit, new files get its group. Modes become
 * exactly the sandbox's, whatever the umask is; if the user has changed a mode as well,
 * it is merged with the mode before both (changes.h). Set-id bits are applied only with
 * GUARD_SETID: without it, the rest of the change is applied, and the bits remain a
 * separate change (CHANGE_MODE). A new directory always has the set-group-id bit that its
 * parent gives it.
 *
 * If the user has changed a file since the work started, the two changes are merged with
 * the contents before both (base.h). If that is not possible, it is a conflict.
 */
#ifndef WORK_ACCEPT_H
#define WORK_ACCEPT_H

#include "base/sha256.h"
#include "textdiff/patch.h"
#include "work/changes.h"

struct accept_item {
	const struct change *change;
	/*
	 * NULL: the whole change. Otherwise, hunks of the difference between the sides of
	 * change_contents(); those that are not skipped are applied. Only for regular
	 * files that exist in the project.
	 */
	const struct patch *hunks;
	/*
	 * With .hunks, to accept: the difference that remains of the sandbox's file, with
	 * all of its hunks. If the user has edited some of those, what became of them is
	 * decided. NULL: the sandbox's file stays as it is.
	 */
	const struct patch *remains;
	/*
	 * The hash (accept_sum()) of the project's contents that the user saw; if they
	 * are different now, the decision is not valid: -ESTALE. NULL, only without
	 * hunks: the user's changes since then are merged.
	 */
	const char *seen;
	unsigned allow; /* enum change_guard, combined: besides accept_options.allow */
};

#define ACCEPT_SUM_SIZE (SHA256_DIGITS + 1)
void accept_sum(const struct change_side *seen, char ret[ACCEPT_SUM_SIZE]);

enum accept_conflicts {
	/* Change nothing, report all conflicts, return -EEXIST. */
	ACCEPT_STOP,
	/* Apply all changes without a conflict. */
	ACCEPT_SKIP,
	/* Write files with markers, as git does, where both are text; skip the others. */
	ACCEPT_MARKERS,
	/* Take the sandbox's version. */
	ACCEPT_THEIRS,
};

struct accept_options {
	unsigned allow; /* enum change_guard, combined; GUARD_DEVICE is never allowed */
	bool ignored;   /* accept files that .gitignore ignores; otherwise -EPERM */
	enum accept_conflicts conflicts;
};

struct accept_conflict {
	char *path;
	const char *reason; /* "you and the sandbox changed the same lines", ... */
	/*
	 * Paths of files in <work>/conflicts, or <work>/marked with ACCEPT_MARKERS: the
	 * user's and the sandbox's version, and the merged one with markers. NULL: there
	 * is none (removed, or binary). The next accept removes <work>/conflicts.
	 */
	char *yours, *theirs, *merged;
};

struct accept_result {
	size_t accepted; /* changes that were applied */
	size_t merged;   /* of them, files that were merged with changes of the user */
	struct accept_conflict *conflicts;
	size_t n_conflicts;
};

/*
 * 0, or -errno: then nothing has changed. -EEXIST: conflicts (@ret says which). -EPERM:
 * an item needs a permission that @o does not give. -ESTALE: the user changed a file at
 * the same time, or since an item was decided on. -EUCLEAN: it failed and could not be
 * undone; the originals are kept, and the next call, or work_open(), undoes it first.
 * @ret is set in any case; free with accept_result_done().
 */
int accept_changes(struct work *w, const struct accept_item *items, size_t n,
		   const struct accept_options *o, struct accept_result *ret,
		   struct warren_error *err) MUST_CHECK;
void accept_result_done(struct accept_result *r);
/*
 * Does the work keep versions of files that were accepted with markers? They exist
 * nowhere else, so such a work is removed only on request.
 */
bool accept_has_marked(const struct work *w);

/*
 * Discard changes, or the hunks of them that are not skipped. What cannot be discarded
 * stays, and the first of it is reported after the others are discarded. If the process
 * or the machine fails in between, each change is either discarded or not (upper.c).
 */
int reject_changes(struct work *w, const struct accept_item *items, size_t n,
		   struct warren_error *err) MUST_CHECK;

#define AUTO_ACCEPT_RESULT CLEANUP(accept_result_done)

#endif /* WORK_ACCEPT_H */
