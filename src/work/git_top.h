/* SPDX-License-Identifier: Apache-2.0 */
/* git_top.h - is the project only a part of a repository? */
#ifndef WORK_GIT_TOP_H
#define WORK_GIT_TOP_H

#include "base/macro.h"

#define GIT_TOP_ABOVE_MAX 64 /* directories above the project */

/*
 * Find the top of the worktree that @project (an absolute path without links) is a
 * directory in: 1, and its path in *@ret. 0: the project itself is the top, or it is in
 * no repository that git of this user would use. Or -ENOMEM.
 */
int git_top(const char *project, char **ret) MUST_CHECK;

#endif /* WORK_GIT_TOP_H */
