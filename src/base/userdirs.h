/* SPDX-License-Identifier: Apache-2.0 */
/*
 * userdirs.h - Warren's directories for a user who is not root
 *
 * They are in XDG_RUNTIME_DIR and XDG_DATA_HOME, or below HOME. /tmp is the last resort:
 * another user can guess the name, create the directory first and control everything in
 * it. It is used only if the directory belongs to this user alone.
 */
#ifndef BASE_USERDIRS_H
#define BASE_USERDIRS_H

#include "base/error.h"
#include "base/macro.h"

/*
 * Get the directory for files that do not survive a reboot: sockets, locks. The caller
 * frees the path.
 */
int user_run_dir(char **ret, struct warren_error *err) MUST_CHECK;
/*
 * Get the directory for files that stay: images, the database. The caller frees the path.
 */
int user_state_dir(char **ret, struct warren_error *err) MUST_CHECK;
/*
 * Get the default state directory: $WARREN_STATE, otherwise /var/lib/warren for root, and
 * user_state_dir() for other users. The caller frees the path.
 */
int state_dir_default(char **ret, struct warren_error *err) MUST_CHECK;
/*
 * Check whether @path is a directory, not a link, that belongs to this user or root and
 * that no other user may write to. -ENOENT: there is none. -EPERM: another user controls
 * it.
 */
int user_dir_check(const char *path, struct warren_error *err) MUST_CHECK;

#endif /* BASE_USERDIRS_H */
