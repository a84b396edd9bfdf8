/* SPDX-License-Identifier: Apache-2.0 */
/* editor.h - which editor the user wants */
#ifndef CLI_WORK_EDITOR_H
#define CLI_WORK_EDITOR_H

#include "base/buf.h"

/*
 * Write the command of the editor, a line for the shell. As in git, it is the first of
 * $GIT_EDITOR, core.editor, $VISUAL, $EDITOR and vi. core.editor is read only from the
 * configuration of the user and of the machine, because others may have written that of
 * a repository.
 */
void editor_command(struct buf *out);

#endif /* CLI_WORK_EDITOR_H */
