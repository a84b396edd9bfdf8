/* SPDX-License-Identifier: Apache-2.0 */
/* pager.h - run the user's pager and editor */
#ifndef CLI_WORK_PAGER_H
#define CLI_WORK_PAGER_H

#include "base/buf.h"
#include "base/error.h"

/*
 * Show @out in the pager ($PAGER, by default less) if stdout is a terminal; otherwise,
 * or if there is no pager, write it to stdout.
 */
int pager_show(const struct buf *out, struct warren_error *err);
/* Run the editor (editor.h) with a file, and wait until it ends. */
int pager_edit(const char *path, struct warren_error *err);

#endif /* CLI_WORK_PAGER_H */
