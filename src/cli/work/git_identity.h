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

#include <sys/types.h>

#include "base/error.h"
#include "base/macro.h"

#define GIT_IDENTITY_TARGET "/run/warren/gitconfig"
/* The variable that makes git read it. */
#define GIT_IDENTITY_ENV "GIT_CONFIG_SYSTEM=" GIT_IDENTITY_TARGET

/* The question to git, which takes a while; zeroed: it was not asked yet. */
struct git_identity {
	pid_t pid;
	int out;
};

/*
 * Ask git which name and address it has in the directory @project. git can start no
 * process, because the project's configuration may be hostile.
 */
void git_identity_ask(struct git_identity *i, const char *project);
/*
 * Write a file of configuration with the answer, asking first if that has not happened;
 * without git, or if it has no name and address, with "warren" and "warren@localhost".
 * The file, to be mounted at GIT_IDENTITY_TARGET, is in the directory @dir; the caller
 * removes it.
 */
int git_identity_write(struct git_identity *i, const char *project, const char *dir,
		       char **ret_path, struct warren_error *err) MUST_CHECK;
/* End the question, if the answer is not needed. */
void git_identity_done(struct git_identity *i);

#endif /* CLI_WORK_GIT_IDENTITY_H */
