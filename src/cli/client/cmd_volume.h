/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_volume.h - shared by the commands for volumes */
#ifndef CLI_CLIENT_CMD_VOLUME_H
#define CLI_CLIENT_CMD_VOLUME_H

#include "base/buf.h"
#include "base/error.h"
#include "cli/client/transfer.h"
#include "cli/command.h"

struct client;

extern const struct command volume_cp; /* cmd_volume_cp.c */

/* 0: @name can be the name of a volume; otherwise say why not, and return the status. */
int volume_check_operand(const struct command *cmd, const char *name);
void complete_volumes(int at, struct buf *out);

/* cmd_volume_cp.c: a file on this machine, and one in a volume (VOLUME:PATH). */
struct volume_copy {
	struct client *client;
	struct transfer outside; /* the file on this machine */
};

void volume_put_url(struct buf *out, const char *word);
/* Copy from or to @cp->outside, which is open. */
int volume_cp_put(struct volume_copy *cp, const char *to, struct warren_error *err);
int volume_cp_get(struct volume_copy *cp, const char *from, struct warren_error *err);

/* cmd_volume_tree.c: copy the contents of a directory into another one. */
int volume_tree_in(struct volume_copy *cp, const char *from, const char *to,
		   struct warren_error *err);
int volume_tree_out(struct volume_copy *cp, const char *from, const char *to,
		    struct warren_error *err);

#endif /* CLI_CLIENT_CMD_VOLUME_H */
