/* SPDX-License-Identifier: Apache-2.0 */
/* commits_internal.h - what is checked before commits get a branch */
#ifndef WORK_COMMITS_INTERNAL_H
#define WORK_COMMITS_INTERNAL_H

#include "work/work.h"

#define INCOMING_MAX 128

/*
 * The directory in the user's repository that receives objects: make it, take the pack
 * that git has written there, and remove it. It is that of @w.
 */
int commits_incoming_make(const struct work *w, struct warren_error *err) MUST_CHECK;
int commits_incoming_take(const struct work *w, struct warren_error *err) MUST_CHECK;
void commits_incoming_remove(const struct work *w);
/* Its path in the git directory. */
void commits_incoming_path(const struct work *w, char path[INCOMING_MAX]);

/*
 * Check that the commits up to @commit, whose objects are in the user's repository, leave
 * the files alone that were hidden from the sandbox, and those that git could execute or
 * read as its configuration. @flags (enum commits_flags) permit it. -EPERM: they do not;
 * the message names the files.
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
 * git failed to write the branch @branch: if there is the lock of another git, or of one
 * that was killed, return -EBUSY, and name it. Otherwise, -EPROTO, and @err is the same.
 */
int commits_find_lock(const struct work *w, const char *branch, struct warren_error *err);

#endif /* WORK_COMMITS_INTERNAL_H */
