/* SPDX-License-Identifier: Apache-2.0 */
/* work_commits.h - a work on a project with one commit */
#ifndef TEST_WORK_COMMITS_H
#define TEST_WORK_COMMITS_H

#include "lib/work.h"

/* git as the command in the sandbox runs it */
#define GIT "git -c safe.directory='*' -c user.name=s -c user.email=s@s -c gc.auto=0 "

__attribute__((unused)) static struct work *prepare_with(const char *name,
							 const char *script)
{
	begin();
	git("init -q -b main . && echo 1 >a && git add . && git commit -qm one");
	shell("cd p && %s", script);
	return start_with(&(struct work_options){ .name = name });
}

__attribute__((unused)) static struct work *prepare(const char *name)
{
	return prepare_with(name, "true");
}

#endif /* TEST_WORK_COMMITS_H */
