/* SPDX-License-Identifier: Apache-2.0 */
/* commits_internal.h - what is checked before commits get a branch */
#ifndef WORK_COMMITS_INTERNAL_H
#define WORK_COMMITS_INTERNAL_H

#include "work/work.h"

#define INCOMING_MAX 128

/*
 * The directory in the user's repository that receives the objects of @w: create it, move
 * the pack that git has written there to the other packs, and remove the directory.
 */
int commits_incoming_make(const struct work *w, struct warren_error *err) MUST_CHECK;
int commits_incoming_take(const struct work *w, struct warren_error *err) MUST_CHECK;
void commits_incoming_remove(const struct work *w);
/* Its path in the git directory. */
void commits_incoming_path(const struct work *w, char path[INCOMING_MAX]);

/*
 * Check that the commits up to @commit, whose objects are in the user's repository, do
 * not change files that were hidden from the sandbox, or that git could execute or read
 * as its configuration, unless @flags (enum commits_flags) permit it. -EPERM: they change
 * such files; the message names these.
 */
int commits_check_files(const struct work *w, const char *commit, unsigned flags,
			struct warren_error *err) MUST_CHECK;

/*
 * Check that git writes the branch @branch, its log and objects in the project's
 * repository, and not where a link leads. -EPERM: it would not.
 */
int commits_check_links(const struct work *w, const char *branch,
			struct warren_error *err) MUST_CHECK;

/*
 * git failed to write the branch @branch: if a lock file exists (of another git, or of
 * one that was killed), return -EBUSY and name it. Otherwise, return -EPROTO and leave
 * @err as it is.
 */
int commits_find_lock(const struct work *w, const char *branch, struct warren_error *err);

#endif /* WORK_COMMITS_INTERNAL_H */
