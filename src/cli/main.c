/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - warren(1): one table of commands, one file per command */
#include <stddef.h>
#include <string.h>

#include "base/suggest.h"
#include "cli/cli.h"
#include "cli/helper.h"

const struct command *const commands[] = {
	&command_run,
	&command_create,
	&command_ls,
	&command_show,
	&command_exec,
	&command_shell,
	&command_session,
	&command_cp,
	&command_logs,
	&command_top,
	&command_events,
	&command_pause,
	&command_resume,
	&command_rm,
	&command_wait,
	&command_port,
	&command_token,
	&command_image,
	&command_serve,
	&command_backends,
	&command_doctor,
	&command_completion,
	&command_version,
	&command_help,
	NULL,
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

/* For shells. A command of another program: that one knows its options. */
static int complete(int argc, char **argv)
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
	const struct command *cmd;
	int first = 0;
	int r;

	if (hold_standard_fds() < 0)
		return STATUS_FAILED;
	if (argc > 2 && strcmp(argv[1], COMPLETE_WORD) == 0)
		return complete(argc - 2, argv + 2);
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
	if (!cmd)
		return STATUS_FAILED;
	return cmd->program ? helper_run(cmd, argv + first)
			    : cmd->run(argc - first, argv + first);
}
