/* SPDX-License-Identifier: Apache-2.0 */
/* reach.h - let an ordinary user read and remove the changes of a sandbox */
#ifndef WORK_REACH_H
#define WORK_REACH_H

#include "work/work.h"

/*
 * Give all files in the directory of changes to this user. To be called after -EACCES;
 * the caller then tries again. -EACCES: there is nothing that can be done.
 */
int work_reach(struct work *w, struct warren_error *err) MUST_CHECK;

#endif /* WORK_REACH_H */
