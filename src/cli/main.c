/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - warren(1): one table of commands, one file per command */
#include <stddef.h>
#include <string.h>

#include "base/suggest.h"
#include "cli/cli.h"

const struct command *const commands[] = {
	&command_run,     &command_image, &command_doctor,
	&command_version, &command_help,  NULL,
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
