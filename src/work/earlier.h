/* SPDX-License-Identifier: Apache-2.0 */
/*
 * earlier.h - files that a sandbox changed before its work was resumed
 *
 * When a work is resumed, the sandbox sees the files of the project as they are now,
 * except where it has its own version of them. So what a change of a file is compared
 * with is what the file was when the work was last resumed (work_record.since_ns), or,
 * for the paths in <work>/earlier, what it was at a resume before that, or at the start.
 */
#ifndef WORK_EARLIER_H
#define WORK_EARLIER_H

#include "work/work.h"

/* What the user did to @path after this time, in nanoseconds, the sandbox did not see. */
uint64_t earlier_since(struct work *w, const char *path);
/* The commit that the repository was at then; NULL: none. */
const char *earlier_head(struct work *w, const char *path);
/* Did the sandbox have a version of @path when the work was last resumed? */
bool earlier_has(struct work *w, const char *path);
/* Find and store the paths that the sandbox has a version of now. *@ret_ns is the time.
 */
int earlier_renew(struct work *w, uint64_t *ret_ns);
void earlier_free(struct work_earlier *e);

#endif /* WORK_EARLIER_H */
