/* SPDX-License-Identifier: Apache-2.0 */
/* env_merge.h - one environment from several lists of variables */
#ifndef BASE_ENV_MERGE_H
#define BASE_ENV_MERGE_H

#include "base/buf.h"

/*
 * Write the variables of @lists to @out, in their order, each with its final NUL. A later
 * variable replaces all before it that have the same name. Each list ends with NULL, and
 * may itself be NULL. The time is that of sorting the names, as clients choose them.
 * Returns the number of variables; out->failed says whether some are missing.
 */
size_t env_merge(struct buf *out, const char *const *const *lists, size_t n_lists);

#endif /* BASE_ENV_MERGE_H */
