/* SPDX-License-Identifier: Apache-2.0 */
/*
 * userdirs.h - Warren's directories for a user who is not root
 *
 * In his own: XDG_RUNTIME_DIR and XDG_DATA_HOME, else below HOME. A name in /tmp can be
 * guessed, and whoever makes it first owns what is said and kept there: it is the last
 * resort, and only if the directory is the user's alone.
 */
#ifndef BASE_USERDIRS_H
#define BASE_USERDIRS_H

#include "base/error.h"
#include "base/macro.h"

/* For what is gone with the next restart of the machine: sockets, locks. To be freed. */
int user_run_dir(char **ret, struct warren_error *err) MUST_CHECK;
/* For what stays: images, the database. */
int user_state_dir(char **ret, struct warren_error *err) MUST_CHECK;
/*
 * Is @path a directory of this user's or of root's, no link, which nobody else may write
 * to? -ENOENT: there is none. -EPERM: somebody else's.
 */
int user_dir_check(const char *path, struct warren_error *err) MUST_CHECK;

#endif /* BASE_USERDIRS_H */
