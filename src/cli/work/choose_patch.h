/* SPDX-License-Identifier: Apache-2.0 */
/*
 * choose_patch.h - choose what a patch contains: whole changes, or hunks of text files
 *
 * The patch is the output of `warren diff --patch`, or a part of it: some of its files,
 * and of text files some of the hunks, or of the parts into which `git add -p` splits
 * them. The numbers of the lines of a hunk may have shifted; its lines are the same.
 */
#ifndef CLI_WORK_CHOOSE_PATCH_H
#define CLI_WORK_CHOOSE_PATCH_H

#include "cli/work/choose.h"

/*
 * Return whether the patch has a file that is not one of @changes: then it may be one of
 * a directory that is listed as one change (CHANGES_EXPAND).
 */
bool choose_patch_needs_more(const struct changes *changes, const struct patches *p);
/*
 * Choose in @c what is in @p. -ESTALE: something in it is not one of the changes;
 * nothing should be done then.
 */
int choose_patch(struct choose *c, const struct patches *p,
		 struct warren_error *err) MUST_CHECK;

#endif /* CLI_WORK_CHOOSE_PATCH_H */
