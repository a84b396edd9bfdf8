/* SPDX-License-Identifier: Apache-2.0 */
/* git_confine.h - run git on objects of a sandbox without the rights of root */
#ifndef WORK_GIT_CONFINE_H
#define WORK_GIT_CONFINE_H

#include "work/work.h"

#define GIT_CONFINE_DIR     "/run/git" /* the git directory, for the child */
#define GIT_CONFINE_PROJECT "project"  /* in <work>/git: the objects of the user */

struct git_confine {
	int git, objects; /* detached mounts */
	bool own;         /* <work>/git, and not the user's repository */
};

/* Only as root. Prepare <work>/git (@own), or the repository of the project. */
int git_confine_open(const struct work *w, bool own, struct git_confine *ret,
		     struct warren_error *err);
void git_confine_close(struct git_confine *c);
/* Like fork(2), with new namespaces; returns -errno. */
pid_t git_confine_fork(void);
/* In the child: give up all rights. The working directory is the git directory. */
bool git_confine_enter(const struct git_confine *c);

#endif /* WORK_GIT_CONFINE_H */
