/* SPDX-License-Identifier: Apache-2.0 */
/* exec_helper.c - execute one of the helper programs */
#include "cli/exec_helper.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/libexec.h"

const char *helper_program(const struct command *cmd)
{
	const char *host = cmd->remote ? getenv("WARREN_HOST") : NULL;

	return host && *host ? cmd->remote : cmd->program;
}

int helper_run(const struct command *cmd, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	char path[PATH_MAX];

	if (libexec_find(helper_program(cmd), path, &err) < 0) {
		message_say(cmd->name, "%s", err.msg);
		return STATUS_FAILED;
	}
	(void)execv(path, argv);
	message_say(cmd->name, "start %s: %s", path, strerrordesc_np(errno));
	return STATUS_FAILED;
}
