/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git_identity.h - let git inside commit with the name and email address of the user
 *
 * Their configuration is not visible in the sandbox, but both are in each of their
 * commits anyway. The sandbox gets them as the configuration of the system, so that
 * everything else takes precedence: the repository's configuration, `git -c` and
 * variables.
 */
#ifndef CLI_WORK_GIT_IDENTITY_H
#define CLI_WORK_GIT_IDENTITY_H

#include "base/error.h"
#include "base/macro.h"

#define GIT_IDENTITY_TARGET "/run/warren/gitconfig"
/* The variable that makes git read it. */
#define GIT_IDENTITY_ENV "GIT_CONFIG_SYSTEM=" GIT_IDENTITY_TARGET

/*
 * Write a file of configuration with the name and address that git of the user has in the
 * directory @project; without git, or if it has none, "warren" and "warren@localhost".
 * The file, to be mounted at GIT_IDENTITY_TARGET, is in the directory @dir; the caller
 * removes it.
 */
int git_identity_write(const char *project, const char *dir, char **ret_path,
		       struct warren_error *err) MUST_CHECK;

#endif /* CLI_WORK_GIT_IDENTITY_H */
