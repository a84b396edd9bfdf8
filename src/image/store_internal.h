/* SPDX-License-Identifier: Apache-2.0 */
/* store_internal.h - names in the store that adding and collecting share */
#ifndef IMAGE_STORE_INTERNAL_H
#define IMAGE_STORE_INTERNAL_H

#include <dirent.h>

#define STORE_NEW_PREFIX     ".new-"
#define STORE_LOCK_PREFIX    ".lock-"
#define STORE_REMOVED_PREFIX ".removed-"

/* Open a directory of the store to list it; NULL: errno says why. */
DIR *store_open_list(int dir);

#endif /* IMAGE_STORE_INTERNAL_H */
