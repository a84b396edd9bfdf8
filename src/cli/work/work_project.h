/* SPDX-License-Identifier: Apache-2.0 */
/* work_project.h - check the directory of a project before a sandbox gets it */
#ifndef CLI_WORK_PROJECT_H
#define CLI_WORK_PROJECT_H

#include "base/error.h"

/*
 * Get the absolute path of the project, without links; the caller frees it. -EINVAL: it
 * contains the home directory or the files of Warren, so it cannot be a project.
 */
int work_project_find(const char *path, char **ret, struct warren_error *err) MUST_CHECK;
/*
 * Say what of the project does not work inside: mounts below it, and a repository whose
 * data is elsewhere (a worktree or submodule of git).
 */
void work_project_say(const char *project, bool mounts_hidden);

#endif /* CLI_WORK_PROJECT_H */
