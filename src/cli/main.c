/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - warren(1): one table of commands, one file per command */
#include <stddef.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/exec_helper.h"

static const struct command *const commands[] = {
	&command_run,        &command_create,
	&command_ls,         &command_show,
	&command_exec,       &command_shell,
	&command_session,    &command_cp,
	&command_logs,       &command_top,
	&command_events,     &command_pause,
	&command_resume,     &command_rm,
	&command_wait,       &command_port,
	&command_token,      &command_image,
	&command_serve,      &command_backends,
	&command_doctor,     &command_gc,
	&command_completion, &command_version,
	&command_help,       NULL,
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

const struct command command_warren = {
	.summary = "Isolated, disposable sandboxes for commands.",
	.opts = &(const struct opts){ .table = main_table,
				      .n = ARRAY_SIZE(main_table),
				      .operands = "COMMAND [ARG...]",
				      .example = "warren run -- uname -n" },
	.verbs = commands,
};

/* For shells. A command of another program: that one knows its options. */
static int cli_complete(int argc, char **argv)
{
	char word[] = COMPLETE_WORD;

	for (const struct command *const *c = commands; argc > 1 && *c; c++) {
		char **from = argv;

		if (!(*c)->program || strcmp((*c)->name, argv[0]) != 0)
			continue;
		/* The client's table has all its commands, the others are one each. */
		if (strcmp((*c)->program, "warren-client") == 0)
			from--;
		*from = word;
		return helper_run(*c, from);
	}
	return complete_words(commands, argc, argv);
}

int main(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct main_options options = { 0 };
	const struct command *cmd = NULL;
	int first = 0, status = 0;

	if (hold_standard_fds() < 0)
		return STATUS_FAILED;
	if (argc > 2 && strcmp(argv[1], COMPLETE_WORD) == 0)
		return cli_complete(argc - 2, argv + 2);
	if (opts_parse(command_warren.opts, argc, argv, &options, &first, &err) ==
		    OPTS_OK &&
	    options.version)
		return command_version.run(argc - first + 1, argv + first - 1);
	if (!command_verbs(&command_warren, argc, argv, &options, &cmd, &first, &status))
		return status;
	return cmd->program ? helper_run(cmd, argv + first)
			    : cmd->run(argc - first, argv + first);
}
