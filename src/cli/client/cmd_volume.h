/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_volume.h - shared by the commands for volumes */
#ifndef CLI_CLIENT_CMD_VOLUME_H
#define CLI_CLIENT_CMD_VOLUME_H

#include "base/buf.h"
#include "cli/command.h"

extern const struct command volume_cp; /* cmd_volume_cp.c */

/* 0: @name can be the name of a volume; otherwise say why not, and return the status. */
int volume_check_operand(const struct command *cmd, const char *name);
void complete_volumes(int at, struct buf *out);

#endif /* CLI_CLIENT_CMD_VOLUME_H */
