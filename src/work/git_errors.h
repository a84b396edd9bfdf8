/* SPDX-License-Identifier: Apache-2.0 */
/* git_errors.h - what git says on its standard error when it fails */
#ifndef WORK_GIT_ERRORS_H
#define WORK_GIT_ERRORS_H

#include "base/macro.h"

#define GIT_ERRORS_SIZE 320

/* Create a file of limited size for git's standard error. Its descriptor, or -errno. */
int git_errors_open(void);
/*
 * Get the last errors in it, without control characters; "": there are none. Returns the
 * error number of the system that they name, such as ENOSPC, or 0.
 */
int git_errors_read(int fd, char ret[GIT_ERRORS_SIZE]);

#endif /* WORK_GIT_ERRORS_H */
