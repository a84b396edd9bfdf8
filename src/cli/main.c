/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - warren(1): one table of commands, one file per command */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/suggest.h"

const struct command *const commands[] = {
	&command_run, &command_doctor, &command_version, &command_help, NULL,
};

struct main_options {
	bool version;
};

static const struct opt main_table[] = {
	{ .name = "version",
	  .help = "show the version",
	  .set = opt_flag,
	  .field = offsetof(struct main_options, version) },
};

const struct opts main_opts = {
	.table = main_table,
	.n = ARRAY_SIZE(main_table),
	.operands = "COMMAND [ARG...]",
	.example = "warren run -- uname -n",
};

const struct command *command_find(const char *name)
{
	struct suggestion s = { .word = name };

	for (const struct command *const *c = commands; *c; c++) {
		if (strcmp((*c)->name, name) == 0)
			return *c;
		suggest_consider(&s, (*c)->name);
	}
	if (s.best)
		say(NULL, "there is no command '%.100s', did you mean 'warren %s'?", name,
		    s.best);
	else
		say(NULL,
		    "there is no command '%.100s' (see 'warren --help'; example: %s)",
		    name, main_opts.example);
	return NULL;
}

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

/*
 * A descriptor among 0, 1 and 2 that the caller closed would be given to the
 * next file we open, and be written to as if it were stdout. The placeholder is
 * open the wrong way round, so that using it fails as the closed one did.
 */
static int hold_standard_fds(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		int way = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;

		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", way | O_CLOEXEC) != fd)
			return -EBADF;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct main_options options = { 0 };
	const struct command *cmd;
	int first = 0;
	int r;

	if (hold_standard_fds() < 0)
		return STATUS_FAILED;
	r = opts_parse(&main_opts, argc, argv, &options, &first, &err);
	if (r == OPTS_HELP)
		return help_all();
	if (r < 0) {
		say(NULL, "%s", err.msg);
		return STATUS_FAILED;
	}
	if (options.version)
		return command_version.run(1, argv);
	if (first >= argc) {
		say(NULL, "no command given (see 'warren --help'; example: %s)",
		    main_opts.example);
		return STATUS_FAILED;
	}
	cmd = command_find(argv[first]);
	return cmd ? cmd->run(argc - first, argv + first) : STATUS_FAILED;
}
