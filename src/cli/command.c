/* SPDX-License-Identifier: Apache-2.0 */
/* command.c - what every program with a table of commands does with it */
#include "cli/command.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define HELP_MAX (64U << 10)

bool command_options(const struct command *cmd, int argc, char **argv, void *target,
		     int *ret_first, int *ret_status)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int r = opts_parse(cmd->opts, argc, argv, target, ret_first, &err);

	if (r == OPTS_OK)
		return true;
	if (r == OPTS_HELP) {
		*ret_status = help_command(cmd);
		return false;
	}
	say(cmd->name, "%s", err.msg);
	*ret_status = STATUS_FAILED;
	return false;
}

int help_command(const struct command *cmd)
{
	AUTO_BUF struct buf out = BUF_INIT(HELP_MAX);

	buf_printf(&out, "Usage: warren %s [OPTIONS]%s%s\n\n%s\n", cmd->name,
		   cmd->opts->operands ? " " : "",
		   cmd->opts->operands ? cmd->opts->operands : "", cmd->summary);
	opts_list(cmd->opts, &out);
	if (cmd->about) {
		buf_puts(&out, "\n");
		buf_puts(&out, cmd->about);
	}
	buf_printf(&out, "\nExample: %s\n", cmd->opts->example);
	return print(cmd->name, &out);
}

int hold_standard_fds(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		int way = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;

		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", way | O_CLOEXEC) != fd)
			return -EBADF;
	}
	return 0;
}
